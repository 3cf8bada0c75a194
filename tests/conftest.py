"""Settings of the whole suite."""

from types import SimpleNamespace

import pytest
from hypothesis import settings
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import minmax_scale
from sklearn.tree import DecisionTreeClassifier

from certiforest import Scaling
from certiforest.cli import main
from small_models import VOTERS

# The first example of a test may compile kernels: how long one takes says nothing.
settings.register_profile("suite", deadline=None)
settings.load_profile("suite")


@pytest.fixture(scope="session")
def cancer():
    """Return rows of breast_cancer, scaled, and their labels; nobody may write to them."""
    X, y = load_breast_cancer(return_X_y=True)
    X = minmax_scale(X)
    X.flags.writeable = y.flags.writeable = False
    return X, y


@pytest.fixture(params=["pandas", "polars"])
def frames(request):
    """Return a library of data frames whose columns scikit-learn knows by name."""
    library = pytest.importorskip(request.param)
    if not hasattr(DecisionTreeClassifier().fit(library.DataFrame({"a": [0.0, 1.0]}), [0, 1]), "feature_names_in_"):
        pytest.skip(f"this scikit-learn does not know the names of this {request.param}")
    return library


@pytest.fixture
def run(capfd):
    """Run a command; return its exit code, standard output and standard error."""

    def run(*argv):
        code = main([str(word) for word in argv])
        out, err = capfd.readouterr()
        assert "Traceback" not in err
        return code, out, err

    return run


@pytest.fixture
def refuse(run):
    """Run a command that must be refused with exit code 2 and one line; return the line."""

    def refuse(*argv):
        code, out, err = run(*argv)
        assert (code, out) == (2, ""), err
        assert err.startswith("certiforest: error: ")
        assert err.count("\n") == 1
        assert len(err) < 700
        return err

    return refuse


@pytest.fixture
def mail(tmp_path):
    """Files: voters, scaled: the data's numbers are 10 times the model's; four rows; and a question about them."""
    model, rows = tmp_path / "model.json", tmp_path / "rows.csv"
    VOTERS.replace(scaling=Scaling([0, 0], [10, 10])).save(model)
    rows.write_text("length,links,label\n1,1,ham\n4.5,4.5,ham\n9,9,spam\n9,9,ham\n")
    return SimpleNamespace(
        model=model, rows=rows, question=("certify", model, rows, "--target", "label", "--eps", "0.1")
    )
