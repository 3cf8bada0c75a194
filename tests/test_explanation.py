"""One row explained, two certifications compared: what is said is checked by certifying again."""

import itertools
import json
import math
import random

import numpy as np
import pytest

from cases import attacker_of, ensemble_of, random_case, real_case
from certiforest import Attacker, Domain, RowError, Scaling, TreeEnsemble, certify, compare, explain
from certiforest.comparison import bracket_radii, mcnemar
from small_models import stumps


def test_a_sufficient_reason_is_columns_whose_values_alone_fix_the_decision():
    rng = random.Random("reasons")
    n_explained = n_sides = 0
    for _ in range(40):
        case = random_case(rng)
        if case.missing or case.blanks:
            continue
        ensemble = ensemble_of(case)
        n = ensemble.n_features
        cuts = [sorted({-2.0, 3.0, *ensemble.threshold[ensemble.feature == f].tolist()}) for f in range(n)]
        values = [[low, *(math.nextafter(v, math.inf) for v in row[1:-1]), *row[1:]] for row in cuts for low in row[:1]]
        whole = [f for f in range(n) if rng.random() < 0.2 and case.x[f] % 1 == 0]
        domain = Domain([row[0] for row in cuts], [row[-1] for row in cuts], integer=whole or None)
        x = np.clip(case.x, domain.low, domain.high)
        for f in whole:
            values[f] = [float(v) for v in range(-2, 4)]
        every = [np.array(z) for z in itertools.product(*values)]
        (own,) = ensemble.predict(x[None])
        e = explain(ensemble, x, domain)
        assert (e.freeze is None) == (ensemble.predict(np.array(every)) == own).all()
        if e.freeze is not None:
            n_explained += 1

            def fixes(columns, x=x, every=every, ensemble=ensemble, own=own):
                rows = np.array(every)
                rows[:, list(columns)] = x[list(columns)]
                return (ensemble.predict(rows) == own).all()

            assert fixes(e.freeze)
            assert not any(fixes(set(e.freeze) - {f}) for f in e.freeze)
            n_sides += check_box(e, ensemble, domain, np.array(every), own)
    assert n_explained > 5
    assert n_sides > 10


def check_box(e, ensemble, domain, every, own):
    """Check that a box holds one decision and that no side can be extended; return how many another decision ends."""
    low, high = domain.low.copy(), domain.high.copy()
    for side in e.box:
        (high if side.is_upper else low)[side.column] = side.end
    assert {side.column for side in e.box} == {*e.freeze}
    inside = ((low <= every) & (every <= high)).all(axis=1)
    assert inside.any()
    assert (ensemble.predict(every[inside]) == own).all()
    for side in e.box:
        f, z = side.column, side.beyond
        assert side.is_last
        if z is None:
            assert side.end == (domain.high if side.is_upper else domain.low)[f]
            continue
        assert ensemble.predict(z[None])[0] != own
        assert [g for g in range(len(z)) if not low[g] <= z[g] <= high[g]] == [f]
        first, last = sorted([z[f], side.end])  # one threshold lies between them, or more where none is a whole number
        cuts = np.unique(ensemble.threshold[ensemble.feature == f])
        cuts = np.unique(np.floor(cuts)) if domain.integer[f] else cuts
        assert ((first <= cuts) & (cuts < last)).sum() == 1
    return sum(side.beyond is not None for side in e.box)


VOTERS = stumps(
    (0, 0.5), (1, 0.5), (2, 0.5), n_features=3, classes=["ham", "spam"], feature_names=["length", "links", "caps"]
)


def variables_of(attacker, n_features):
    """Return the columns of every variable: of features, and of groups by their first column."""
    groups = {min(group): list(group) for group in attacker.group_columns}
    grouped = {column for group in groups.values() for column in group}
    return {f: [f] for f in range(n_features) if f not in grouped} | groups


def stable_with(ensemble, x, attacker, columns):
    mask = attacker.is_frozen(ensemble.n_features)
    mask[list(columns)] = True
    return certify(ensemble, [x], None, attacker.replace(frozen=mask), radius=True, time_limit=60)


@pytest.mark.parametrize("draw", [random_case, real_case])
@pytest.mark.parametrize("combine", ["vote", "sum"])
@pytest.mark.parametrize("norm", [0, 2, math.inf])
def test_everything_said_about_generated_rows_holds(norm, combine, draw, monkeypatch):
    monkeypatch.setattr("certiforest.explanation.MOST_SECONDS", 600.0)  # kernels may have to be compiled
    rng = random.Random(f"explain {norm} {combine}")
    n_unstable = n_stable = 0
    for _ in range(30):
        case = draw(rng, norm=norm, combine=combine)
        ensemble, attacker, x = ensemble_of(case), attacker_of(case), np.array(case.x)
        e = explain(ensemble, x, attacker, time_limit=60)
        found = certify(ensemble, [x], None, attacker, radius=True, time_limit=60)
        assert e.facts["stable"] == found.stable[0]
        json.dumps(e.facts, allow_nan=False)
        assert str(e)
        variables = variables_of(attacker, ensemble.n_features)
        if found.stable[0] == 0:
            n_unstable += 1
            assert ensemble.predict([e.witness]) != found.prediction
            for columns in variables.values():  # every change is needed
                if (e.witness != x)[columns].any():
                    z = e.witness.copy()
                    z[columns] = x[columns]
                    assert ensemble.predict([z]) == found.prediction
            assert e.facts["lead_on_witness"] <= 0 <= e.facts["lead"]
            assert e.freeze is not None
            assert e.freeze_is_smallest
            columns = [column for variable in e.freeze for column in variables[variable]]
            assert stable_with(ensemble, x, attacker, columns).stable[0] == 1
            for smaller in itertools.combinations(variables, len(e.freeze) - 1):
                columns = [column for variable in smaller for column in variables[variable]]
                assert stable_with(ensemble, x, attacker, columns).stable[0] == 0
        else:
            n_stable += 1
            assert e.witness is None
            assert e.facts["changes"] == []
            if e.facts["each_at_worst_is_enough"] is False:
                assert e.facts["proof"] is not None
        named = {" or ".join(f"feature_{c}" for c in columns): columns for columns in variables.values()}
        for entry in e.facts["alone"]:
            others = set(range(ensemble.n_features)) - set(named[entry["feature"]])
            alone = stable_with(ensemble, x, attacker, others)
            assert entry["radius"] == [alone.radius[0], alone.radius_upper[0]]
    assert min(n_stable, n_unstable) > 2


def test_words_for_a_row_that_can_be_changed():
    e = explain(VOTERS, [0.45, 0.45, 0.9], Attacker("inf", 0.1), scaling=Scaling([0] * 3, [10] * 3), name="row 7")
    text = str(e)
    assert "Row 7 is predicted ham, by a lead of 1 vote over spam." in text
    assert "A change of 1 feature makes it spam: it sends 1 tree of 3 to another leaf" in text
    assert "If length, links could not be changed, the row would be stable, and no smaller set would do." in text
    assert "4.5 -> 5" in text
    assert e.freeze == (0, 1)
    assert [entry["feature"] for entry in e.facts["alone"]] == ["length", "links"]


def test_words_for_a_row_that_cannot_be_changed(tmp_path):
    e = explain(VOTERS, [0.45, 0.2, 0.3], Attacker("inf", 0.1))
    text = str(e)
    assert "No such change alters the prediction: this is proved." in text
    assert "1 of 3 trees can be turned against it" in text
    assert "Were this tree at its own worst, it would still win, by 1 vote." in text
    assert "radius) is 0.2." in text
    e.report(tmp_path / "row.html")
    assert "Each feature alone" not in (tmp_path / "row.html").read_text()
    with pytest.raises(FileExistsError):
        e.report(tmp_path / "row.html", replace=False)


def test_a_page_escapes_and_shows_pictures(tmp_path):
    spiteful = VOTERS.with_columns(["<script>", "b&b", "c"])
    e = explain(spiteful, [0.45, 0.45, 0.9], Attacker("inf", 0.1), image_shape=(1, 3))
    e.report(tmp_path / "row.html")
    page = (tmp_path / "row.html").read_text()
    assert "<script>" not in page + e._repr_html_()
    assert page.count("data:image/png") == 3


def test_a_row_with_missing_values_is_no_row_of_a_domain_without():
    ensemble = stumps((0, 0.5), missing_left=[True, False, False])
    with pytest.raises(RowError, match=r"missing value of column 0\."):
        explain(ensemble, [math.nan], Domain([0], [1]))
    assert explain(ensemble, [math.nan], Domain([0], [1], missing=True)).freeze == (0,)
    e = explain(ensemble, [0.75], Domain([0], [1], missing=True))  # what is missing goes where numbers up to 0.5 go
    assert e.facts["box"] == [
        {"feature": "feature_0", "low": math.nextafter(0.5, 1), "high": 1.0, "below": "decision", "above": "domain"}
    ]
    assert "another decision" in repr(e)


def test_one_row_only():
    with pytest.raises(RowError, match="one row"):
        explain(VOTERS, [[0, 0, 0], [1, 1, 1]], Attacker("inf", 0.1))


@pytest.mark.parametrize(
    ("n_won", "n_lost", "p"), [(0, 0, 1.0), (5, 5, 1.0), (0, 5, 0.0625), (1, 9, 22 / 1024), (9, 1, 22 / 1024)]
)
def test_the_exact_test_of_mcnemar(n_won, n_lost, p):
    from scipy.stats import binomtest

    assert mcnemar(n_won, n_lost) == p
    if n_won + n_lost:
        assert p == pytest.approx(binomtest(n_won, n_won + n_lost).pvalue)


@pytest.fixture(scope="module")
def rows():
    X = np.random.default_rng(0).random((80, 3))
    return X, np.where(X.sum(axis=1) > 1.5, "spam", "ham")


def test_rows_won_and_lost(rows, tmp_path):
    stump = stumps((0, 0.5), n_features=3, classes=["ham", "spam"])
    attacker = Attacker("inf", 0.05)
    a, b = (certify(model, *rows, attacker, radius=True) for model in (stump, VOTERS))
    comparison = compare(a, b, names=("stump", "<three>"))
    robust = [c.correct & (c.stable == 1) for c in (a, b)]
    assert comparison.won.tolist() == np.flatnonzero(robust[1] & ~robust[0]).tolist()
    assert comparison.lost.tolist() == np.flatnonzero(robust[0] & ~robust[1]).tolist()
    facts = comparison.facts
    assert facts["both"] + facts["neither"] + len(facts["won"]) + len(facts["lost"]) == 80
    assert "More rows are proved robust for <three>" in str(comparison)
    comparison.report(tmp_path / "c.html")
    page = (tmp_path / "c.html").read_text()
    assert page.count("<polyline") == 2
    assert "<three>" not in page + comparison._repr_html_()
    assert json.dumps(facts, allow_nan=False)


def test_other_rows_are_not_compared(rows):
    attacker = Attacker("inf", 0.05)
    c = certify(VOTERS, *rows, attacker)
    with pytest.raises(ValueError, match="80 and 79 rows"):
        compare(c, c[1:])
    with pytest.raises(ValueError, match="other labels"):
        compare(c, certify(VOTERS, rows[0], rows[1][::-1], attacker))
    with pytest.raises(ValueError, match="other labels"):
        compare(c, certify(VOTERS, rows[0], None, attacker))
    assert "proved stable" in str(compare(*[certify(VOTERS, rows[0], None, attacker)] * 2))


@pytest.mark.parametrize("norm", ["inf", 1, 0])
def test_radii_between_budgets_draw_the_curve_of_exact_radii(rows, norm):
    budgets = np.arange(7) * (0.5 if norm == 0 else 0.05)
    found = certify(VOTERS, *rows, Attacker(norm, budgets[2]), radius=True)
    steps = []
    between = bracket_radii(certify(VOTERS, *rows, Attacker(norm, budgets[2])), rows[0], budgets, steps.append)
    assert sum(steps) == 7
    assert (between.radius <= found.radius).all()
    assert (between.radius_upper >= found.radius).all()
    curve, exact = between.curve(budgets), found.curve(budgets)
    assert curve["low"].tolist() == exact["low"].tolist() == curve["high"].tolist()


@pytest.fixture
def files(tmp_path, rows):
    VOTERS.save(tmp_path / "m.json")
    stumps((0, 0.5), n_features=3, classes=["ham", "spam"], feature_names=VOTERS.feature_names).save(
        tmp_path / "s.json"
    )
    lines = [",".join([*map(repr, row), label]) for row, label in zip(rows[0].tolist(), rows[1].tolist(), strict=True)]
    (tmp_path / "rows.csv").write_text("\n".join(["length,links,caps,label", *lines]) + "\n")
    return tmp_path / "m.json", tmp_path / "s.json", tmp_path / "rows.csv"


def test_explain_from_the_command_line(run, refuse, files, rows, tmp_path):
    model, _, data = files
    found = certify(VOTERS, *rows, Attacker("inf", 0.1))
    row = int(np.flatnonzero(found.stable == 0)[0])
    arguments = ("explain", model, data, "--target", "label", "--eps", "0.1")
    code, out, _ = run(*arguments, "--row", row, "--out", tmp_path / "row.html")
    assert code == 0
    assert f"Row {row} is predicted {found.prediction[row]}" in out
    assert (tmp_path / "row.html").exists()
    assert json.loads(run(*arguments, "--row", row, "--json")[1])["stable"] == 0
    assert "80 rows" in refuse(*arguments, "--row", 80)
    assert ".html" in refuse(*arguments, "--row", 1, "--out", tmp_path / "row.pdf")
    assert "--force" in refuse(*arguments, "--row", 1, "--out", tmp_path / "row.html")


def test_compare_from_the_command_line(run, refuse, files, rows, tmp_path):
    model, other, data = files
    arguments = ("compare", model, other, data, "--target", "label", "--eps", "0.05")
    code, out, _ = run(*arguments, "--out", tmp_path / "c.html")
    assert code == 0
    assert "More rows are proved robust for m.json" in out
    assert (tmp_path / "c.html").exists()
    facts = json.loads(run("compare", model, model, data, "--target", "label", "--eps", "0.05", "--other-eps", "0.2",
                           "--json")[1])  # fmt: skip
    assert facts["won"] == []
    weak, strong = (certify(VOTERS, *rows, Attacker("inf", eps)) for eps in (0.05, 0.2))
    assert facts["lost"] == compare(weak, strong).lost.tolist()
    assert [side["name"] for side in facts["sides"]] == [
        "m.json against Linf, eps 0.05",
        "m.json against Linf, eps 0.2",
    ]
    assert ".html" in refuse(*arguments, "--out", tmp_path / "c.pdf")


@pytest.mark.parametrize("norm", ["inf", "2", "0"])
def test_eps_means_the_same_to_models_that_scale_columns_differently(run, refuse, files, rows, tmp_path, norm):
    model, _, data = files
    scaled = tmp_path / "scaled.json"
    ranges = np.array([2.0, 0.5, 0.25])  # powers of two: nothing is rounded
    thresholds = np.where(VOTERS.feature >= 0, VOTERS.threshold / ranges[VOTERS.feature], 0.0)
    TreeEnsemble(VOTERS.feature, thresholds, VOTERS.leaf, n_features=3, classes=VOTERS.classes,
                 feature_names=VOTERS.feature_names, scaling=Scaling(np.zeros(3), ranges)).save(scaled)  # fmt: skip
    eps = "1" if norm == "0" else "0.125"
    for pair in ((model, scaled), (scaled, model)):
        arguments = ("compare", *pair, data, "--target", "label", "--norm", norm, "--eps", eps)
        facts = json.loads(run(*arguments, "--json")[1])
        assert facts["won"] == facts["lost"] == []
    if norm != "0":
        assert "in the units of the first" in refuse(*arguments, "--domain", "0", "9")
