"""Reproduction: every experiment gives a whole table, with the paper's numbers and all models side by side."""

import numpy as np
import pytest

from certiforest.reproduction import EXPERIMENTS, ReproductionError, as_markdown, paper_settings, reproduce
from certiforest.reproduction.models import MODELS, model_name


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A directory with a file for the paper's dataset REWEMA, which users bring along: any table will do here."""
    folder = tmp_path_factory.mktemp("data")
    random = np.random.default_rng(0)
    X = random.random((500, 60))
    X[:, 8:] = np.round(X[:, 8:], 1)
    np.savetxt(folder / "rewema.csv", np.column_stack([X, X[:, :8].sum(axis=1) > 4]), delimiter=",", fmt="%.4f")
    return folder


@pytest.fixture(scope="module")
def outcomes(folder):
    def run(experiment):
        return reproduce(experiment, "rewema", out_dir=folder / "results", data_dir=folder, quick=True)

    return run


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_every_experiment_gives_a_whole_table(outcomes, experiment):
    outcome = outcomes(experiment)
    assert outcome.rows
    assert {len(row) for row in outcome.rows} == {len(outcome.columns)}
    assert len(as_markdown(outcome).splitlines()) == 6 + len(outcome.rows) + len(outcome.notes) - 1


def test_numbers_of_the_paper_and_of_all_models_stand_side_by_side(outcomes):
    (setting,) = [s for s in paper_settings("rewema") if (s.trees, s.eps) == (25, 0.015)]
    table = outcomes("table3")
    row = dict(zip(table.columns, table.rows[0], strict=True))
    for kind in MODELS:
        assert any(kind in column for column in table.columns)
    assert row["accuracy, pruned: paper"] == f"{setting.large_spread['accuracy']:.2f}"
    for kind in ("grown", "boosted"):
        (cell,) = [cell for name, cell in table.results.items() if name.startswith(kind)]
        assert row[f"robust, {kind}"] == f"{cell['norms']['inf']['robust'][0]:.3f}"
        assert cell["norms"]["inf"]["robust"][0] <= cell["accuracy"]


def test_features_that_decide_are_the_important_ones(outcomes):
    for name, cell in outcomes("importance").results.items():
        ranked = sorted(cell["importance"], key=lambda feature: -cell["importance"][feature])
        assert sum(int(feature) < 8 for feature in ranked[:6]) >= 4, name
        assert all(cell["n_distinct"][feature] <= 11 for feature in ranked if int(feature) >= 8)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"norms": 1}'])
def test_results_of_another_version_are_told_from_ours(folder, tmp_path, text):
    cells = tmp_path / "rewema-quick"
    cells.mkdir()
    for kind in MODELS:
        (cells / f"{model_name(kind, paper_settings('rewema')[-2])}.json").write_text(text)
    with pytest.raises(ReproductionError, match=r"Expected (a result|results of this version) in .*rewema-quick"):
        reproduce("table3", "rewema", out_dir=tmp_path, data_dir=folder, quick=True)


def test_models_of_one_size_only(folder, tmp_path):
    with pytest.raises(ReproductionError, match="25, 101, got 26"):
        reproduce("tuning", "rewema", out_dir=tmp_path, data_dir=folder, trees=26)
    outcome = reproduce("tuning", "rewema", out_dir=tmp_path, data_dir=folder, quick=True, trees=25)
    assert [row[1] for row in outcome.rows] == ["25 x 4"]
