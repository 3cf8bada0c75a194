"""Rows whose columns are tied by relations: verdicts, witnesses and radii, against every row in reach."""

import random
from io import BytesIO

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.tree import DecisionTreeRegressor

from certiforest import (
    Attacker,
    Certificates,
    LargeSpreadForestClassifier,
    RobustBoostingClassifier,
    TreeEnsemble,
    certify,
)
from certiforest.audit import audit
from certiforest.cli import main
from certiforest.ensemble.rows import RowError
from relation_referee import check, files, random_case, tamper

NAMES = ["a", "b", "c"]
# Says 1 where a > 5 and b <= 5.
NODES = [0, -1, 1, -1, -1], [5.0, 0, 5.0, 0, 0], [-1, 0, -1, 1, 0]
A_WITHOUT_B = TreeEnsemble(*NODES, n_features=3, classes=[0, 1], feature_names=NAMES)


@pytest.mark.parametrize(("seed", "radius", "proof"), [(101, False, False), (102, False, True), (103, True, True)])
def test_no_verdict_is_wrong_and_no_witness_breaks_a_relation(seed, radius, proof):
    outcomes = [check(random_case(random.Random(f"{seed} {i}")), radius, proof) for i in range(60)]
    assert [wrong for _, wrong in outcomes if wrong] == []
    assert {"is stable whole", "is unstable whole"} <= {outcome for outcome, _ in outcomes}


def test_a_proof_may_count_on_floats_being_apart():
    """Here the budget ends right before the next float of a column that a relation forces to move."""
    assert check(random_case(random.Random("72 982")), radius=True, proof=True) == ("is unstable", "")


def test_no_false_verdict_under_relations_is_confirmed():
    outcomes = [tamper(random_case(random.Random(f"7 {i}")), random.Random(i)) for i in range(150)]
    assert [wrong for _, wrong in outcomes if wrong] == []
    assert {"confirmed", "in doubt", "refused"} <= {outcome for outcome, _ in outcomes}


@pytest.mark.parametrize(
    ("relations", "norm", "eps", "stable"),
    [
        ([], "inf", 2, 0),
        (["a <= b"], "inf", 2, 1),
        (["a <= b + 2"], "inf", 2, 0),
        (["a <= b + c"], "inf", 2, 0),
        (["2 a <= b + c"], "inf", 2, 1),
        (["2 a < b + 5"], "inf", 2, 1),
        (["a = b"], "inf", 2, 1),
        (["a = c"], "inf", 2, 0),
        (["a = c"], "l1", 3, 1),
        (["a = c"], "l1", 4, 0),
        (["a = c"], "l2", 2.75, 1),
        (["a = c"], "l2", 3, 0),
        (["a = c"], "l0", 1, 1),
        (["a = c"], "l0", 2, 0),
        ([{"if": "a > 4.5", "then": "b >= 6"}], "inf", 2, 1),
        ([{"if": "a > 4.5", "then": ["c > 5", "b < 9"]}], "inf", 2, 0),
        ([{"if": ["a > 4.5", "c <= 5"], "then": "b >= 6"}], "inf", 2, 0),
        ([{"column": "a", "values": [1, 4, 7]}], "inf", 2, 1),
        ([{"column": "a", "values": [4, 6]}], "inf", 2, 0),
    ],
)
def test_relations_decide(relations, norm, eps, stable):
    """The row is (4, 4, 4): a must rise above 5 while b stays at 5 or below."""
    attacker = Attacker(norm, eps, relations=relations, integer=["a", "b", "c"])
    found = certify(A_WITHOUT_B, [[4, 4, 4]], attacker=attacker, witness=True)
    assert found.stable.tolist() == [stable]
    model, certificate = files(A_WITHOUT_B, certify(A_WITHOUT_B, [[4, 4, 4]], attacker=attacker, proof=True))
    assert audit(BytesIO(model), BytesIO(certificate)).doubts == []
    if stable == 0:
        assert A_WITHOUT_B.predict(found.witness).tolist() == [1]


def test_equations_hold_exactly_on_floats():
    attacker = Attacker("inf", 2.5, relations=["a = b + c"])
    x = [[0.375, 0.125, 0.25]]
    model = TreeEnsemble([0, -1, -1], [2.7, 0, 0], [-1, 0, 1], n_features=3, classes=[0, 1], feature_names=NAMES)
    (z,) = certify(model, x, attacker=attacker, witness=True).witness
    assert z[0] > 2.7
    assert attacker.resolve(3, NAMES).relations[0].is_kept(z.tolist())


def test_relations_that_a_row_breaks_do_not_bind_it():
    attacker = Attacker("inf", 2, relations=["a <= b", "c <= 7"])
    found = certify(A_WITHOUT_B, [[4, 3, 6], [4, 4, 6]], attacker=attacker, witness=True)
    assert found.stable.tolist() == [0, 1]
    assert found.witness[0, 2] <= 7
    assert found.broken_relations.tolist() == [1, 0] == found.to_frame()["broken_relations"].tolist()
    assert "1 row with 1 relation that do not bind them" in repr(found)
    with pytest.raises(RowError, match="row 0, which breaks a <= b"):
        certify(A_WITHOUT_B, [[4, 3, 6]], attacker=attacker.replace(strict=True))


def test_rows_of_dask_know_how_many_relations_they_break():
    array = pytest.importorskip("dask.array")
    X = np.array([[4.0, 3, 6], [4, 4, 6], [4, 4, 4], [3, 2, 1]])
    attacker = Attacker("inf", 2, relations=["a <= b", {"if": "a > 3", "then": "c > 5"}])
    lazy = certify(A_WITHOUT_B, array.from_array(X, chunks=(2, 3)), attacker=attacker)
    found = lazy.compute()
    assert found.broken_relations.tolist() == [1, 0, 1, 1] == lazy.to_frame().compute()["broken_relations"].tolist()
    assert found.stable.tolist() == certify(A_WITHOUT_B, X, attacker=attacker).stable.tolist()


def test_the_command_counts_rows_that_break_relations(tmp_path, capsys):
    A_WITHOUT_B.save(tmp_path / "model.json")
    attacker = Attacker("inf", 2, relations=["a <= b", {"if": "a > 3", "then": "c > 5"}])
    attacker.save(tmp_path / "attacker.json")
    (tmp_path / "rows.csv").write_text("a,b,c,y\n4,3,6,0\n4,4,6,0\n4,3,4,0\n")
    command = ["certify", str(tmp_path / "model.json"), str(tmp_path / "rows.csv"), "--target", "y"]
    command += ["--attacker", str(tmp_path / "attacker.json"), "--report", str(tmp_path / "report.html")]
    assert main([*command, "--out", str(tmp_path / "rows.csv.out.csv")]) == 0
    assert "2, which start there and are not bound by these" in capsys.readouterr().out
    page = (tmp_path / "report.html").read_text()
    assert "Rows that break relations" in page
    assert "if a &gt; 3 then c &gt; 5" in page
    assert ",broken_relations" in (tmp_path / "rows.csv.out.csv").read_text()


def test_certificates_with_relations_are_loaded_as_they_were(tmp_path):
    relations = ["a <= b", {"name": "g", "if": "a > 1", "then": "b > 0"}, {"column": "c", "values": [4, 6]}]
    found = certify(A_WITHOUT_B, [[4, 3, 6], [4, 4, 6]], attacker=Attacker("inf", 2, relations=relations), proof=True)
    found.save(tmp_path / "rows.cert.jsonl")
    assert Certificates.load(tmp_path / "rows.cert.jsonl") == found
    assert found.attacker.relations[1].name == "g"


@pytest.mark.parametrize("trainer", [LargeSpreadForestClassifier, RobustBoostingClassifier])
def test_trainers_ignore_relations(trainer):
    X = np.random.default_rng(0).random((60, 3))
    y = (X[:, 0] > 0.5).astype(int)
    free = Attacker("inf", 0.05)
    tied = free.replace(relations=["[0] <= [1]"])
    models = [trainer(attacker=attacker, n_estimators=3, random_state=0).fit(X, y) for attacker in (free, tied)]
    assert models[0].ensemble_ == models[1].ensemble_
    assert clone(models[1]).attacker == tied


@pytest.mark.parametrize(("norm", "radius"), [("inf", 1.0), ("l1", 2.0), ("l2", 2**0.5), ("l0", 2.0)])
def test_radii_know_of_relations(norm, radius):
    attacker = Attacker(norm, 0.5 if norm != "l0" else 1, relations=["a = c"], domain=(0, 20))
    found = certify(A_WITHOUT_B, [[4, 4, 4]], attacker=attacker, radius=True)
    assert found.radius[0] <= np.nextafter(radius, 9) * (1 + 1e-9)
    assert radius <= found.radius_upper[0] <= radius * (1 + 1e-5)
    plain = certify(A_WITHOUT_B, [[4, 4, 4]], attacker=attacker.replace(relations=None), radius=True)
    assert plain.radius[0] <= found.radius[0]
    never = attacker.replace(relations=["a <= b"])
    assert certify(A_WITHOUT_B, [[4, 4, 4]], attacker=never, radius=True).radius.tolist() == [np.inf]


@pytest.mark.parametrize(
    ("relations", "high"),
    [([], 10.0), (["[0] <= [1]"], 7.0), ([{"if": "[0] > 1", "then": "[1] >= 2"}], 7.0)],
)
def test_ranges_of_regressors_know_of_relations(relations, high):
    X = np.array([[a, b] for a in range(4) for b in range(4)], float)
    y = np.where(X[:, 0] <= 1, 1.0, np.where(X[:, 1] <= 1, 10.0, 7.0))
    model = DecisionTreeRegressor(random_state=0).fit(X, y)
    attacker = Attacker("inf", 2, relations=relations)
    found = certify(model, [[1.0, 1.0]], attacker=attacker, tolerance=0.5, witness=True)
    assert [*found.low, *found.high] == pytest.approx([1.0, high], abs=1e-9)  # with rounding of the library
    assert found.stable.tolist() == [0]
