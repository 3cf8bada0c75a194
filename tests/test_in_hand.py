"""Certificates in hand: how they look, are taken apart and put together; gates for people's own tests."""

import json
import re

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingRegressor

from certiforest import (
    Attacker,
    Certificates,
    RuleAttacker,
    Scaling,
    TreeEnsemble,
    Verdict,
    assert_robust,
    certify,
    explain,
)
from certiforest.report import as_html, as_text
from certiforest.report.witnesses import witnesses_in_data
from small_models import VOTERS

ATTACKER = Attacker("inf", 0.1)


@pytest.fixture(scope="module")
def rows():
    X = np.random.default_rng(0).random((60, 2))
    return X, np.where(X[:, 0] + X[:, 1] > 1, "spam", "ham")


@pytest.fixture(scope="module")
def c(rows):
    return certify(VOTERS, *rows, ATTACKER, radius=True, witness=True)


def test_six_lines_say_what_was_found(c):
    first, attacker, accuracy, robust, verdicts, method = repr(c).splitlines()
    assert first == "Certificates of 60 rows"
    assert "norm=inf, eps=0.1" in attacker
    assert f"{c.accuracy:.1%}" in accuracy
    assert f"{c.robust_accuracy:.1%}" in robust
    assert f"{c.counts[Verdict.ROBUST]} right, cannot be changed" in verdicts
    assert "60 composed" in method


def test_the_attacker_is_shown_with_names_and_no_rows_without_shares():
    attacker = Attacker(1, 0.1, direction={"links": "up"}, frozen=["length"])
    found = certify(VOTERS, [[0.2, 0.3]], ["ham"], attacker)
    assert "norm=1, eps=0.1, frozen=['length'], direction={'links': 'up'}" in repr(found)
    assert repr(found[:0]).splitlines() == ["Certificates of 0 rows", repr(found).splitlines()[1]]


def test_what_is_not_decided_shows_as_an_interval(c):
    stable = c.stable.copy()
    stable[np.flatnonzero(c.correct)[:6]] = -1
    some = Certificates(**{**c._columns, "stable": stable}, attacker=c.attacker)
    assert re.search(r"robust accuracy  \d+\.\d% to \d+\.\d%", repr(some))
    assert "6 not decided" in repr(some)


def test_a_notebook_shows_the_same_and_the_curve(c, rows):
    page = c._repr_html_()
    assert "right, cannot be changed" in page
    assert "<polyline" in page
    assert "<polyline" not in certify(VOTERS, *rows, ATTACKER)._repr_html_()
    assert "&lt;" in Certificates(c.prediction, c.stable, np.full(60, "<b>"))._repr_html_()


def test_rows_can_be_chosen(c, rows):
    for which in (slice(3, 9), rows[1] == "spam", [5, 2], np.array([7])):
        part = c[which]
        assert part == certify(VOTERS, rows[0][which], rows[1][which], ATTACKER, radius=True, witness=True)
    assert len(c[-1]) == 1
    assert c[-1] == c[59:]
    assert len(c[:0]) == 0
    with pytest.raises(IndexError, match="below 60"):
        c[60]


def test_parts_can_be_put_together(c, rows):
    assert Certificates.concat([c[:20], c[20:25], c[25:]]) == c
    assert Certificates.concat(iter([c])) == c
    with pytest.raises(ValueError, match="one model and one attacker"):
        Certificates.concat([c, certify(VOTERS, *rows, Attacker("inf", 0.2), radius=True, witness=True)])
    with pytest.raises(ValueError, match="without radius, radius_upper"):
        Certificates.concat([c, certify(VOTERS, *rows, ATTACKER, witness=True)])


def test_equality_is_about_what_is_said(c, rows):
    again = certify(VOTERS, *rows, ATTACKER, radius=True, witness=True)
    assert c == again
    assert (c != again) is False
    assert c != again[::-1]
    assert c != "c"
    with pytest.raises(TypeError):
        hash(c)


def test_the_curve_is_robust_accuracy_at_each_eps(c, rows):
    for eps in (0, 0.03, 0.1, 0.4):
        at = certify(VOTERS, *rows, Attacker("inf", eps))
        assert c.curve(eps)["low"].tolist() == [at.robust_accuracy]
    curve = c.curve()
    assert 0.1 in curve["eps"]
    assert np.all(np.diff(curve["low"]) <= 0)
    with pytest.raises(ValueError, match="radius=True"):
        certify(VOTERS, *rows, ATTACKER).curve()


def test_figures_by_class(c):
    ham, spam = c.by_class
    assert [ham["class"], spam["class"]] == ["ham", "spam"]
    assert ham["n_rows"] + spam["n_rows"] == 60
    assert ham["robust_accuracy_bounds"][0] == c[c.label == "ham"].robust_accuracy


def test_a_report_with_all_that_was_asked_for(c, rows, tmp_path):
    c.report(tmp_path / "all.html", model="filter", data="mails")
    assert "Robustness of filter on mails" in (tmp_path / "all.html").read_text()
    plain = certify(VOTERS, *rows, ATTACKER)
    plain.report(tmp_path / "plain.html")
    page = (tmp_path / "plain.html").read_text()
    assert "wrong, cannot be changed" in page
    assert "Radii" not in page
    plain.report(tmp_path / "plain.json")
    assert json.loads((tmp_path / "plain.json").read_text())["fragile_rows"] is None
    with pytest.raises(FileExistsError):
        plain.report(tmp_path / "plain.json", replace=False)
    with pytest.raises(ValueError, match=r"\.html or \.json or \.txt"):
        plain.report(tmp_path / "plain.pdf")


def test_a_report_says_where_it_comes_from(c, tmp_path):
    domain = Attacker("inf", 0.1, scale=[1.0, 2.0], frozen=[1], domain=(0.0, 1.0))
    found = certify(VOTERS, c.rows, c.label, domain, witness=True, time_limit=3).findings()
    assert found["attacker"]["scale"] == [1.0, 2.0]
    assert found["attacker"]["frozen"] == ["links"]
    assert found["attacker"]["domain"] == [0.0, 1.0]
    assert found["model"]["sha256"] == VOTERS.sha256
    assert found["origin"]["time_limit"] == 3
    assert found["origin"]["total_time_limit"] is None
    assert {"certiforest", "numpy", "python", "date"} <= set(found["origin"])
    certify(VOTERS, c.rows, c.label, domain, proof=True, time_limit=3).save(tmp_path / "c.jsonl")
    loaded = Certificates.load(tmp_path / "c.jsonl")
    assert loaded.about["time_limit"] == 3
    with pytest.raises(ValueError, match="without their model"):
        loaded.report(tmp_path / "r.html")


def test_every_option_of_an_attacker_is_in_the_report():
    X = np.array([[0.0, 3.0, 1.0, 0.0], [0.4, 5.0, 0.0, 1.0], [0.6, 2.0, 1.0, 0.0]])
    names = ["share", "count", "dll", "exe"]
    model = TreeEnsemble(
        [0, -1, -1, 1, -1, -1, 2, -1, -1],
        [0.5, 0, 0, 3.5, 0, 0, 0.5, 0, 0],
        [-1, 0, 1, -1, 0, 1, -1, 1, 0],
        n_features=4,
        classes=[0, 1],
        feature_names=names,
    )
    attacker = Attacker(
        1, 1.5, direction={"share": "up"}, integer=["count"], groups=[["dll", "exe"]], frozen=["share"], domain=(0, 9)
    )
    findings = certify(model, X, [0, 1, 1], attacker, radius=True, witness=True).findings()
    described = findings["attacker"]
    assert described["groups"] == [["dll", "exe"]]
    assert described["integer"] == ["count"]
    assert "share" in json.dumps(described["direction"])
    page, text = as_html(findings), as_text(findings)
    for words in ("Columns that are one variable", "Features that stay whole numbers", "move one way only"):
        assert words in page
        assert words in text
    for entry in findings["fragile_rows"]:  # a group is taken back as a whole
        assert len({change["feature"] for change in entry["changes"]} & {"dll", "exe"}) in (0, 2)


def test_rows_are_owned(rows):
    X = rows[0].copy()
    c = certify(VOTERS, X, rows[1], ATTACKER, witness=True)
    X[:] = 0
    np.testing.assert_array_equal(c.rows, rows[0])


def test_figures_in_matplotlib(c, rows):
    pytest.importorskip("matplotlib").use("Agg")
    assert c.plot_curve().get_xlabel() == "eps"
    assert c.plot_curve().lines[0].get_ydata().tolist() == c.curve()["low"].tolist()
    ax = c.plot_radii()
    assert c.plot_radii(ax) is ax
    assert [text.get_text() for text in c.plot_features().get_yticklabels()]
    assert [text.get_text() for text in c.plot_spread().get_yticklabels()] == ["length", "links"]
    with pytest.raises(ValueError, match="radius=True"):
        certify(VOTERS, *rows, ATTACKER).plot_curve()


@pytest.mark.parametrize("offset", [0.0, -1000.0, 12345.678])
def test_witnesses_in_the_units_of_the_data_work(offset):
    rng = np.random.default_rng(1)
    X = np.round(rng.normal(size=(200, 2)) * [3, 700] + offset, 2)
    scaling = Scaling.of(X)
    model = VOTERS.with_columns(["length", "links"], scaling)
    c = certify(model, scaling.apply(X), None, Attacker("inf", 0.2), witness=True)
    raw = witnesses_in_data(c, scaling)
    assert (c.stable == 0).sum() > 20
    np.testing.assert_array_equal(~np.isnan(raw).any(axis=1), c.stable == 0)
    there = c.stable == 0
    assert np.all(model.predict(scaling.apply(raw[there])) != c.prediction[there])
    np.testing.assert_allclose(scaling.apply(raw[there]), c.witness[there], rtol=0, atol=1e-12)
    same = c.witness[there] == c.rows[there]
    np.testing.assert_array_equal(raw[there][same], X[there][same])  # what is not changed is as it was written


def test_a_gate_lets_good_models_pass_and_shows_the_worst_rows(rows):
    assert assert_robust(VOTERS, *rows, ATTACKER, at_least=0.2).robust_accuracy > 0.2
    with pytest.raises(AssertionError) as failure:
        assert_robust(VOTERS, *rows, ATTACKER, at_least=0.99)
    assert failure.traceback.filter(failure)[-1].name == "test_a_gate_lets_good_models_pass_and_shows_the_worst_rows"
    message = str(failure.value)
    assert "at least 0.99 against Attacker(norm=inf, eps=0.1), got 0." in message
    assert "predicted wrong" in message
    worst = certify(VOTERS, *rows, ATTACKER, radius=True)
    fragile = np.flatnonzero(worst.correct & (worst.stable == 0))
    first = fragile[worst.radius[fragile].argmin()]
    assert re.search(rf"most easily:\n  row {first}: \w+ becomes \w+ from eps .* by l", message)
    assert message.count("\n  row ") == min(5, len(fragile))


def test_a_gate_for_a_regressor():
    X = np.linspace(0, 1, 40)[:, None]
    regressor = GradientBoostingRegressor(n_estimators=20, max_depth=2, random_state=0).fit(X, 9 * X[:, 0])
    assert_robust(regressor, X, 9 * X[:, 0], Attacker("linf", 0.1), at_least=0.9, tolerance=4.0)
    with pytest.raises(AssertionError, match=r"most easily:\n  row \d+: [-.\d]+ becomes [-.\d]+ from eps 0.*feature_0"):
        assert_robust(regressor, X, 9 * X[:, 0], Attacker("linf", 0.1), at_least=0.9, tolerance=0.5)


def test_a_gate_for_each_class(rows):
    c = certify(VOTERS, *rows, ATTACKER)
    shares = {entry["class"]: entry["robust_accuracy_bounds"][0] for entry in c.by_class}
    assert_robust(VOTERS, *rows, ATTACKER, at_least=shares)
    label, share = max(shares.items(), key=lambda item: item[1])
    with pytest.raises(AssertionError, match=f"of class '{label}'"):
        assert_robust(VOTERS, *rows, ATTACKER, at_least={label: min(1, share + 0.01)})
    with pytest.raises(ValueError, match="got some of 'ham', 'spam'"):
        assert_robust(VOTERS, *rows, ATTACKER, at_least={"eggs": 0.5})
    with pytest.raises(ValueError, match="to name a class"):
        assert_robust(VOTERS, *rows, ATTACKER, at_least={})
    with pytest.raises(ValueError, match="between 0 and 1"):
        assert_robust(VOTERS, *rows, ATTACKER, at_least=90)
    with pytest.raises(ValueError, match="pass y"):
        assert_robust(VOTERS, rows[0], None, ATTACKER)


def test_rules_are_explained_reported_and_asserted(tmp_path):
    rules = {"length": [{"pre": "(0, 1)", "post": 0.1, "cost": 1, "is_numerical": True}]}
    attacker = RuleAttacker(rules, budget=3)
    X, y = [[0.3, 0.9], [0.1, 0.1]], ["ham", "ham"]
    c = certify(VOTERS, X, y, attacker, witness=True)
    assert c.stable.tolist() == [0, 1]
    c.report(tmp_path / "r.html")
    assert "rules, while a budget of 3 lasts" in (tmp_path / "r.html").read_text()
    json.dumps(c.findings(), allow_nan=False)
    assert "An attacker may change a row by rules, while a budget of 3 lasts." in str(explain(VOTERS, X[0], attacker))
    assert "this is proved" in str(explain(VOTERS, X[1], attacker))
    with pytest.raises(AssertionError, match=r"row 0: ham becomes spam by length 0\.3 -> 0\.[56]"):
        assert_robust(VOTERS, X, y, attacker)


def test_a_gate_takes_frames(rows):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(rows[0], columns=["length", "links"], index=range(100, 160))
    with pytest.raises(AssertionError, match="row "):
        assert_robust(VOTERS, frame, rows[1], ATTACKER, at_least=1)
