"""The report: findings are right and plain, the page is whole, escaped and self-contained, and a browser shows it."""

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser

import numpy as np
import pytest

from certiforest import Attacker, Scaling, TreeEnsemble, certify
from certiforest.report import as_html, as_text
from certiforest.report.findings import map_spread, spread_facts
from certiforest.report.witnesses import count_fractions, differ, trim
from small_models import stumps

SPITEFUL = "<script>alert('x')</script>"


@pytest.fixture(scope="module")
def ensemble():
    return stumps(
        (0, 0.5), (1, 0.5), (0, 0.8), n_features=4, classes=["ham", "spam"], scaling=Scaling([0] * 4, [10] * 4)
    )


@pytest.fixture(scope="module")
def rows():
    X = np.random.default_rng(0).random((60, 4))
    return X, np.where(X[:, 0] + X[:, 1] > 1, "spam", "ham")


def findings_of(ensemble, rows, **options):
    settings = {"model": "model.json", "data": "rows.csv", "scaling": ensemble.scaling, **options}
    return find(ensemble, *rows, Attacker("inf", 0.1), **settings)


def find(ensemble, X, y, attacker, **settings):
    return certify(ensemble, X, y, attacker, radius=True, witness=True).findings(**settings)


@pytest.fixture(scope="module")
def findings(ensemble, rows):
    return findings_of(ensemble, rows)


def test_findings_agree_with_certify(ensemble, rows, findings):
    found = certify(ensemble, *rows, Attacker("inf", 0.1), radius=True)
    assert findings["verdicts"] == {verdict.name: count for verdict, count in found.counts.items()}
    assert findings["accuracy"] == found.accuracy
    assert findings["robust_accuracy_bounds"] == list(found.robust_accuracy_bounds)
    fragile = np.sort(found.radius[found.correct & (found.stable == 0)])
    assert sum(row["n_alike"] for row in findings["fragile_rows"]) == len(fragile)
    assert findings["fragile_rows"][0]["radius"] == fragile[0]


def test_fractions_are_counted_however_small():
    rows, changed = np.array([[0.0, 0.5], [1.0, 2.0]]), np.array([[1e-35, 0.7], [2.0, 0.3]])
    assert count_fractions(rows, changed, None) == 1


def test_rows_that_are_changed_alike_are_shown_once(ensemble, rows, findings):
    cuts = [np.unique(ensemble.threshold[ensemble.feature == f]) for f in range(4)]
    found = certify(ensemble, *rows, Attacker("inf", 0.1), radius=True, witness=True)
    broken = np.flatnonzero(found.correct & (found.stable == 0))
    z = trim(ensemble, found.rows[broken], found.witness[broken], found.attacker)
    groups = {}
    for row, x, other in sorted(zip(broken, found.rows[broken], z, strict=True), key=lambda r: found.radius[r[0]]):
        changed = [f for f in range(4) if x[f] != other[f]]
        kind = tuple((f, bool(other[f] > x[f]), int(np.searchsorted(cuts[f], other[f]))) for f in changed)
        groups.setdefault(kind, []).append(int(row))
    shown = {entry["row"]: entry["n_alike"] for entry in findings["fragile_rows"]}
    assert shown == {members[0]: len(members) for members in groups.values()}
    assert max(shown.values()) > 1
    assert "rows alike)" in as_text(findings)


def test_a_report_begins_with_a_sentence_to_quote(ensemble, rows, findings):
    n, n_unstable = 60, findings["stability"]["unstable"]
    first, attacked = findings["attacked_features"]["features"][0], findings["attacked_features"]
    lines = as_text(findings).splitlines()
    assert lines[1] == (
        f"{n_unstable / n:.1%} of 60 rows can be made to be predicted otherwise by moving features by up to 0.1 of"
        f" their units each; {first['feature']} is in {first['n_witnesses']} of {attacked['n_witnesses']} attacks"
        " found."
        f" {findings['robust_accuracy_bounds'][0]:.1%} of all are predicted right, and proved to stay so."
    )
    never = find(ensemble, *rows, Attacker("inf", 1e-9))
    assert "None of 60 rows can be made to be predicted otherwise" in as_text(never)
    assert "this is proved" in as_text(never)
    only = certify(ensemble, *rows, Attacker(0, 1, only=[0]), attacked=["spam"], witness=True).findings()
    n_spam = int((rows[1] == "spam").sum())
    words = (
        f"of {n_spam} rows of spam can be made to be predicted otherwise by changing 1 of 1 features; feature_0 is in"
    )
    assert words in as_text(only)


def test_witnesses_of_norm_0_change_as_many_columns_as_the_radius_says():
    trees = stumps((0, 0.5), (1, 0.5), (2, 0.5), (3, 0.5), (4, 0.5))
    X = np.random.default_rng(3).random((50, 5))
    found = certify(trees, X, None, Attacker("l0", 4), radius=True, witness=True)
    broken = found.stable == 0
    assert set(found.radius[broken]) == {1, 2, 3}
    np.testing.assert_array_equal((found.witness != X).sum(axis=1)[broken], found.radius[broken])
    for entry in found.findings()["fragile_rows"]:
        assert entry["n_changed"] == len(entry["changes"]) == entry["radius"]


def test_sections_that_say_nothing_for_an_attacker_are_left_out(ensemble, rows):
    page = as_text(certify(ensemble, *rows, Attacker(0, 1)).findings())
    for title in ("Spread", "Certified curve", "Radii", "Most fragile rows", "What attacks change"):
        assert f"{title}:" not in page
    assert "Spread:" in as_text(certify(ensemble, *rows, Attacker("inf", 0.1)).findings())


def test_changes_are_taken_back_for_many_rows_as_for_each():
    rng = np.random.default_rng(5)
    trees = stumps(*[(f, 0.5) for f in range(6)], (0, 0.3), (1, 0.8))
    X, attacker = rng.random((40, 6)), Attacker("inf", 0.4).resolve(6)
    found = certify(trees, X, None, attacker, witness=True)
    x, z = X[found.stable == 0], found.witness[found.stable == 0]
    z = np.where(z == x, x + 0.01, z)  # more than is needed
    x, z = x[works := trees.predict(z) != trees.predict(x)], z[works]
    less = trim(trees, x, z, attacker)
    for i in range(len(x)):
        np.testing.assert_array_equal(trim(trees, x[[i]], z[[i]], attacker)[0], less[i])
        assert (trees.predict(less[[i]]) != trees.predict(x[[i]])).all()
        for f in np.flatnonzero(less[i] != x[i]):  # each change is needed
            fewer = less[i].copy()
            fewer[f] = x[i, f]
            assert (trees.predict(fewer[None]) == trees.predict(x[[i]])).all()
    assert (differ(x, less).sum(axis=1) < differ(x, z).sum(axis=1)).any()


def test_limits_and_units_of_attackers_are_told_by_name():
    trees = stumps((0, 0.5), (1, 5.0), (2, 0.5), feature_names=["a", "b", "c"])
    told = {"scale": {"b": (1, 2), "c": 3}, "frozen": ["a"], "domain": {"b": (0, np.inf)}, "direction": {"up": ["c"]}}
    attacker = Attacker(1, 0.1, **told)
    described = certify(trees, [[0, 1, 1]], None, attacker).findings()["attacker"]
    assert described["scale"] == {"b": [1, 2], "c": 3}
    assert described["domain"] == {"b": [0, "inf"]}
    assert described["frozen"] == ["a"]
    again = Attacker.from_document({**described, "norm": 1}).resolve(3, ["a", "b", "c"])
    assert again == attacker.resolve(3, ["a", "b", "c"])
    few = certify(trees, [[0, 1, 1]], None, Attacker("inf", 0.1, only=["b"])).findings()
    assert (few["attacker"]["only"], few["attacker"]["frozen"]) == (["b"], None)
    assert "The attacker may change b of a row by 0.1 at once (L-infinity)." in as_text(few)


def test_the_curve_meets_robust_accuracy_at_eps(findings):
    curve = findings["certified_curve"]
    at = curve["eps"].index(0.1)
    assert [curve["low"][at], curve["high"][at]] == findings["robust_accuracy_bounds"]
    assert curve["low"][0] == findings["accuracy"]
    assert all(a >= b for a, b in zip(curve["high"], curve["high"][1:], strict=False))
    assert all(low <= high for low, high in zip(curve["low"], curve["high"], strict=True))


def test_every_counted_row_is_in_the_histogram(findings):
    histogram = findings["radius_histogram"]
    counted = findings["verdicts"]["ROBUST"] + findings["verdicts"]["FRAGILE"]
    assert sum(histogram["exact"]) + sum(histogram["at_least"]) == counted
    assert len(histogram["edges"]) == len(histogram["exact"])


def test_rows_left_of_eps_in_the_histogram_are_the_fragile_ones(findings):
    histogram = findings["radius_histogram"]
    at = histogram["edges"].index(0.1)
    assert sum(histogram["exact"][:at]) == findings["verdicts"]["FRAGILE"] > 0


def test_fragile_rows_show_a_change_that_works(ensemble, rows, findings):
    for entry in findings["fragile_rows"]:
        z = rows[0][entry["row"]].copy()
        for change in entry["changes"]:
            z[int(change["feature"].removeprefix("feature_"))] = change["to"]
            assert change["to_in_data"] == pytest.approx(10 * change["to"])
        assert ensemble.predict(z[None])[0] == entry["changed_prediction"] != entry["prediction"]
        assert np.abs(z - rows[0][entry["row"]]).max() <= entry["radius"]


def test_the_closest_pair_counts_twice_where_moves_go_one_way():
    two = stumps((0, 0.5), (0, 0.75))
    attacker = Attacker("linf", 0.2, direction="up")
    assert map_spread(two, attacker, ["a"], 1)["closest_pair"]["distance"] == 0.5
    assert spread_facts(two, attacker)["spread"] == 0.5


def test_the_closest_pair_is_the_spread(findings):
    closest = findings["spread_map"]["closest_pair"]
    assert closest["feature"] == "feature_0"
    assert closest["thresholds"] == [0.5, 0.8]
    assert closest["distance"] == pytest.approx(findings["model"]["spread"])


class _Outline(HTMLParser):
    """Checks that tags are closed in order, and gathers addresses."""

    VOID = frozenset({"wbr", "meta", "img", "br", "link", "input"})

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.addresses = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.addresses += [value for name, value in attrs if name in ("src", "href")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)


def drawn(findings):
    """Return the page, the tags in it and its text; the findings are plain data."""
    assert json.loads(json.dumps(findings, allow_nan=False)) == findings
    page, parser = as_html(findings), _Outline()
    parser.feed(page)
    assert parser.open == []
    return page, parser, as_text(findings)


def test_the_page_is_whole_and_fetches_nothing(findings):
    page, parser, _ = drawn(findings)
    assert "script" not in parser.tags
    assert "link" not in parser.tags
    assert all(address.startswith("data:image/png;base64,") for address in parser.addresses)
    assert not re.search(r"https?://|url\(|@import", page)
    assert parser.tags.count("svg") >= 4
    assert "nan" not in re.sub(r"base64,[A-Za-z0-9+/=]+", "", page).lower().replace("ordinance", "")


def test_text_has_the_sections_of_the_page_but_for_pictures(findings):
    page, _, text = drawn(findings)
    headings = re.findall(r"<h2>(.*?)</h2>", page)
    assert {"Certified curve", "Radii"} < set(headings)
    assert re.findall(r"^(\w.*):$", text, re.MULTILINE) == [
        h for h in headings if h not in ("Certified curve", "Radii")
    ]
    for row in findings["fragile_rows"]:
        assert f"row {row['row']}: {row['prediction']} becomes {row['changed_prediction']}" in text


def test_names_are_escaped(ensemble, rows):
    names = [SPITEFUL, "b&b", "c", "d"]
    page = as_html(findings_of(ensemble, rows, model=SPITEFUL, data=SPITEFUL, feature_names=names))
    assert "<script" not in page
    assert "&lt;script&gt;" in page


def test_rows_that_are_pictures(ensemble, rows):
    findings = findings_of(ensemble, rows, image_shape=(2, 2))
    pictures = [a for a in drawn(findings)[1].addresses if a.startswith("data:image/png")]
    assert len(pictures) == 3 * len(findings["fragile_rows"]) + 1


def test_without_labels(ensemble, rows):
    findings = findings_of(ensemble, (rows[0], None))
    assert findings["verdicts"] is None
    assert "unstable" in drawn(findings)[2]


@pytest.mark.parametrize("norm", ["0", "1", "2", "3", "inf"])
@pytest.mark.parametrize("eps", [0, 1])
def test_every_norm_and_extreme_budgets(ensemble, rows, norm, eps):
    drawn(find(ensemble, rows[0][:5], rows[1][:5], Attacker(norm, eps), model="m", data="d"))


def test_a_single_stump_that_shares_nothing():
    stump = stumps((0, 0.5))
    findings = find(stump, np.array([[0.1]]), np.array([0]), Attacker("inf", 0.1), model="m", data="d")
    assert findings["spread_map"]["closest_pair"] is None
    assert "No row predicted right can be changed" in drawn(findings)[0]


def test_a_constant_model():
    constant = TreeEnsemble([-1], [0], [0], n_features=2, classes=[0, 1])
    findings = find(constant, np.zeros((3, 2)), np.array([0, 0, 1]), Attacker("inf", 0.1), model="m", data="d")
    assert findings["verdicts"]["ROBUST"] == 2
    drawn(findings)


BROWSER = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)


@pytest.mark.skipif(BROWSER is None, reason="needs Chromium")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_browser_shows_it(ensemble, rows, tmp_path, scheme):
    """The page lays out without a sideways scrollbar or errors, and the picture of it is not blank."""
    page = tmp_path / "report.html"
    page.write_text(as_html(findings_of(ensemble, rows, image_shape=(2, 2))), encoding="utf-8")
    common = [
        BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
        f"--user-data-dir={tmp_path / 'profile'}", "--hide-scrollbars", "--window-size=900,1400",
        f"--blink-settings=preferredColorScheme={int(scheme == 'light')}",
    ]  # fmt: skip
    picture = tmp_path / "page.png"
    subprocess.run([*common, f"--screenshot={picture}", page.as_uri()], check=True, capture_output=True, timeout=120)
    pixels = np.round(255 * pytest.importorskip("matplotlib.image").imread(picture)[:, :, :3]).astype(np.uint8)
    background = pixels[5, 5].astype(int)
    assert (background.sum() > 600) == (scheme == "light")
    differs = np.abs(pixels.astype(int) - background).sum(axis=2) > 60
    assert 0.02 < differs.mean() < 0.7
    assert not differs[:, -8:].any()  # nothing runs over the right edge
    green = np.abs(pixels.astype(int) - ([0, 158, 115] if scheme == "light" else [31, 191, 143])).sum(axis=2) < 12
    assert green.any()  # the bar of ROBUST rows
