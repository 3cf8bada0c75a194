"""The commands check and measure: contracts, answers, inputs that refute, and a sentence for what is wrong."""

import json
import math
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

from certiforest import Attacker, Domain, Range, TreeEnsemble
from certiforest.statements.results import Results, StatementResult
from small_models import VOTERS, catboost, lgb, xgb


@pytest.fixture
def model(mail):
    return mail.model


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("label,links,length\nham,1,1\nham,4,4\nspam,9,9\n")
    return path


@pytest.fixture
def contract(tmp_path):
    """Return what writes a contract."""

    def write(*statements, **changes):
        document = {"format": "certiforest-contract", "version": 1, "statements": list(statements), **changes}
        path = tmp_path / "contract.json"
        path.write_text(json.dumps(document))
        return path

    return write


def arguments(model, contract, data):
    return "check", model, contract, "--domain", data, "--target", "label"


def test_what_holds_ends_with_0(run, model, data, contract):
    written = contract({"monotone": "length"}, {"range": [0, 1]}, {"same": "model.json"})
    code, out, err = run(*arguments(model, written, data))
    assert (code, err) == (0, "")
    assert "3 of 3 statements are proved" in out
    assert "Refuted" not in out


def test_what_does_not_ends_with_1_and_shows_inputs_in_the_units_of_the_data(run, model, data, contract, tmp_path):
    written = contract({"insensitive": ["links"]}, {"range": [None, 0.5]}, {"monotone": "links", "direction": "up"})
    junit = tmp_path / "tests.xml"
    code, out, err = run(*arguments(model, written, data), "--junit", junit)
    assert (code, err) == (1, "")
    assert "1 of 3 statements are proved" in out
    assert "* links" in out
    code, out, _ = run(*arguments(model, written, data), "--json")
    found = json.loads(out)
    assert (code, found["holds"]) == (1, False)
    assert [one["holds"] for one in found["statements"]] == [False, False, True]
    assert found["statements"][0]["statement"] == {"insensitive": ["links"]}
    first, second = found["statements"][0]["inputs"]
    assert first["length"] == second["length"]
    assert 5 < first["length"] <= 8
    assert first["links"] > 5 >= second["links"]
    assert all(float(value).is_integer() and 1 <= value <= 9 for value in [*first.values(), *second.values()])
    assert len(found["statements"][1]["inputs"]) == 1
    suite = ElementTree.parse(junit).getroot()
    assert suite.attrib["failures"] == "2"
    assert [len(test) for test in suite] == [1, 1, 0]
    assert "Does not hold" in suite[0][0].attrib["message"]


def test_what_is_not_decided_is_said_apart(run, model, data, contract, tmp_path, monkeypatch):
    open_result = StatementResult(Range(high=0.5), None, None, (math.inf, -0.5), 60.0)
    monkeypatch.setattr("certiforest.statements.checking.check", lambda *_, **__: Results([open_result]))
    junit = tmp_path / "tests.xml"
    code, out, _ = run(*arguments(model, contract({"range": [None, 0.5]}), data), "--junit", junit)
    assert code == 1
    assert "not decided" in out
    assert ElementTree.parse(junit).getroot().attrib["errors"] == "1"
    code, out, _ = run(*arguments(model, contract({"range": [None, 0.5]}), data), "--json")
    assert (code, json.loads(out)["statements"][0]["proved"]) == (1, None)


def test_text_columns_are_values_and_rows_are_gated(run, contract, tmp_path):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"n": rng.random(90).round(2), "country": pd.Categorical(rng.choice(["de", "fr", "it"], 90))})
    y = (X["n"] + (X["country"] == "fr") > 0.8).astype(int)
    path, data, frame = (tmp_path / name for name in ("x.json", "rows.csv", "rows.parquet"))
    booster = xgb(n_estimators=6, enable_categorical=True).fit(X, y)
    booster.save_model(path)
    X.assign(label=y).to_csv(data, index=False)
    X.assign(label=y).to_parquet(frame)
    robust = {"robust": Attacker("inf", 0.0).to_document(), "at_least": 0.9}
    written = contract({"insensitive": ["country"]}, {"range": [0.1, 1]}, robust)
    for table in (data, frame):
        code, out, _ = run(*arguments(path, written, table), "--rows", data, "--json")
        answers = json.loads(out)["statements"]
        assert (code, [one["holds"] for one in answers]) == (1, [False, False, True])
        pair = pd.DataFrame(answers[0]["inputs"]).astype({"country": X["country"].dtype})
        assert booster.predict(pair).tolist() == [1, 0]
        assert X["n"].min() <= pair["n"].min() <= pair["n"].max() <= X["n"].max()
    code, out, _ = run("measure", path, "gap", "--columns", "country", "--domain", data, "--target", "label", "--json")
    gap, pair = json.loads(out)["gap"], pd.DataFrame(json.loads(out)["inputs"]).astype({"country": X["country"].dtype})
    says = booster.predict_proba(pair)[:, 1]
    assert says[0] - says[1] == pytest.approx(gap["reached"], abs=1e-6)
    assert gap["reached"] <= gap["proved"] < gap["reached"] + 1e-4


def test_categories_that_a_model_knows_by_their_hashes_are_shown_as_text(run, contract, tmp_path):
    library = pytest.importorskip("catboost")
    X = pd.DataFrame({"n": np.arange(60) % 7, "country": ["de", "fr", "it"] * 20})
    y = (X["n"] + 4 * (X["country"] == "fr") > 5).astype(int)
    path, data = tmp_path / "model.json", tmp_path / "rows.csv"
    booster = catboost(iterations=5, depth=2, one_hot_max_size=9, cat_features=["country"]).fit(X, y)
    booster.save_model(path, format="json", pool=library.Pool(X, y, cat_features=["country"]))
    X.assign(label=y).to_csv(data, index=False)
    code, out, _ = run(*arguments(path, contract({"insensitive": ["country"]}), data), "--json")
    pair = pd.DataFrame(json.loads(out)["statements"][0]["inputs"])
    assert code == 1
    assert booster.predict(pair[["n", "country"]]).tolist() == [1, 0]


def test_reports(run, refuse, model, data, contract, tmp_path):
    written = contract({"insensitive": ["links"]}, {"range": [None, 0.5]}, {"monotone": "links", "direction": "up"})
    evil, report = tmp_path / "<b>m.json", tmp_path / "r.html"
    evil.write_bytes(model.read_bytes())
    assert run(*arguments(evil, written, data), "--report", report)[0] == 1
    page = report.read_text()
    assert page.count("<svg") == 2  # along a column that is to be monotone, and one for a range
    assert "<b>m" not in page
    assert page.count("does not hold") == 2
    assert "Scores along links" in page
    assert "<td>* links</td>" in page
    assert "--report to end in .html" in refuse(*arguments(model, written, data), "--report", tmp_path / "r.pdf")
    assert "--force" in refuse(*arguments(model, written, data), "--report", report)


def test_measures_of_votes_and_of_regressors(run, model, data, tmp_path):
    code, out, _ = run("measure", model, "range", "--domain", data, "--target", "label", "--json")
    found = json.loads(out)
    assert (code, found["lowest"]["reached"], found["highest"]["reached"]) == (0, 0, 1)
    assert (found["lowest"]["proved"], found["highest"]["proved"]) == pytest.approx((0, 1), abs=1e-5)
    code, out, _ = run("measure", model, "fall", "--column", "length", "--domain", data, "--target", "label")
    assert code == 0
    assert "fall" in out
    X = np.arange(60.0).reshape(-1, 1)
    path, rows = tmp_path / "regressor.txt", tmp_path / "x.csv"
    booster = lgb("Regressor", n_estimators=3, num_leaves=31).fit(X, X[:, 0] ** 2)
    booster.booster_.save_model(path)
    np.savetxt(rows, X, header="Column_0", comments="")
    code, out, _ = run("measure", path, "range", "--domain", rows, "--json")
    found = json.loads(out)
    assert found["highest"]["reached"] == pytest.approx(booster.predict(X).max())


@pytest.mark.parametrize(
    ("statements", "message"),
    [
        ([], "at least, got none"),
        ([{"monotone": "width"}], "which is none of them"),
        ([{"monotone": 7}], "between 0 and 1"),
        ([{"range": [0.9, 0.1]}], "Statement 1: Expected a range from low to high"),
        ([{"range": [0, 10**400]}], "Statement 1: Expected high to be a finite number"),
        ([{"range": [0, 1]}, {"insensitive": {"links": 1}}], "Statement 2: Expected a list of columns"),
        ([{"insensitive": ["links"], "low": "a", "high": 1}], "Expected low to be a number"),
        ([{"monotone": ["links"]}], "columns by name or index"),
        ([{"same": "nowhere.json"}], "which does not exist"),
        ([{"same": 3}], "path of another model"),
        ([{"robust": {"norm": "inf", "eps": 0.1}, "at_least": 0.5}], "(--rows)"),
        ([{"robust": 3, "at_least": 0.5}], "Expected an attacker"),
        ([{"robust": {"norm": "inf"}, "at_least": 0.5}], "with norm"),
        (["range"], "Expected a statement"),
        ([{"sensitive": ["links"]}], "Expected a statement"),
    ],
)
def test_contracts_that_say_nothing_are_refused(refuse, model, data, contract, statements, message):
    assert message in refuse(*arguments(model, contract(*statements), data))


def test_models_in_other_units_are_not_compared(refuse, model, data, contract, tmp_path):
    VOTERS.save(tmp_path / "plain.json")
    assert "scale columns alike" in refuse(*arguments(model, contract({"same": "plain.json"}), data))
    robust = contract({"robust": {"norm": "inf", "eps": 0.1}, "at_least": 0.5})
    unlabelled = tmp_path / "unlabelled.csv"
    unlabelled.write_text("links,length\n1,1\n")
    assert "with labels" in refuse("check", model, robust, "--domain", unlabelled, "--rows", unlabelled)


def test_files_that_are_no_contract_are_refused(refuse, model, data, contract, tmp_path):
    path = tmp_path / "contract.json"
    for text, message in [
        ('{"format": "certiforest-contract", "version": 1, "version": 1, "statements": []}', "'version' twice"),
        ('{"format": "certiforest-contract", "version": 1, "statements": [{"range": [NaN, 1]}]}', "got NaN"),
        ("statements:", "JSON text"),
        ("[" * 100_000, "too deep"),
    ]:
        path.write_text(text)
        assert message in refuse(*arguments(model, path, data))
    assert "newer certiforest" in refuse(*arguments(model, contract(version=2), data))
    assert "list, statements" in refuse(*arguments(model, contract(more=2), data))
    assert "does not exist" in refuse(*arguments(model, tmp_path / "nothing.json", data))


def test_domains_and_options_that_do_not_fit_are_refused(refuse, model, data, contract, tmp_path):
    written, domain = contract({"range": [0, 0.9]}), tmp_path / "domain.json"
    check = "check", model, written, "--domain"
    assert "(--target)" in refuse(*check, data)
    for given, message in [
        (Domain([0], [1]), "Expected a domain of 2 columns"),
        (Domain([0, 0], [1, 1], columns=["links", "length"]), "column 0 of the domain"),
    ]:
        given.save(domain)
        assert message in refuse(*check, domain)
    domain.write_text("{}")
    assert "certiforest domain" in refuse(*check, domain)
    measure = "measure", model
    how = "--domain", data, "--target", "label"
    assert "--outputs" in refuse(*check, *how[1:], "--outputs", "odds")
    assert "--time-limit" in refuse(*check, *how[1:], "--time-limit", "nan")
    assert "--columns" in refuse(*measure, "gap", *how)
    assert "quantity" in refuse(*measure, "mean", *how)
    assert "up or down" in refuse(*measure, "fall", "--column", "links", "--direction", "sideways", *how)
    assert "--column " in refuse(*measure, "fall", "--column", "width", *how).replace(")", " ")
    several = tmp_path / "three.json"
    TreeEnsemble([0, -1, -1], [0.5, 0, 0], [-1, 0, 2], n_features=2, classes=[0, 1, 2]).save(several)
    assert "two classes" in refuse("measure", several, "range", *how)
    sums = tmp_path / "sums.json"
    TreeEnsemble([-1], [0], [0], n_features=2, classes=[0, 1], scores=[[0.5]], base=[0.0]).save(sums)
    assert "--outputs score" in refuse("check", sums, written, *how)


def test_proofs_of_answers_and_quantities_are_written_and_confirmed(run, model, data, contract, tmp_path):
    written = contract({"monotone": "length"}, {"range": [None, 0.5]}, {"same": str(model)}, {"insensitive": ["links"]})
    proof = tmp_path / "proofs.jsonl"
    code, out, err = run(*arguments(model, written, data), "--proof", proof)
    assert (code, err) == (1, "")
    assert f"certiforest audit MODEL {proof}" in out
    code, out, err = run("audit", model, proof, model)
    assert (code, err) == (0, "")
    for line in (
        "Domain: length (9 values), links (9 values).",
        "Statement 0 (line 2) holds: the score never falls where length grows.",
        "Statement 1 (line 3) fails: the score is at most 0.5 (",
        f"Statement 2 (line 4) holds: decisions are those of model {TreeEnsemble.load(model).sha256[:12]}.",
        "Statement 3 (line 5) fails: a change of links alone never changes the decision.",
        "Statements: 2 hold, 2 fail, 0 open, 0 not proved.",
    ):
        assert line in out
    code, _, err = run(*arguments(model, written, data), "--proof", proof)
    assert code == 2
    assert "--force" in err
    options = "--domain", data, "--target", "label", "--proof", proof, "--force"
    quantities = {
        ("range",): "the score is at least -",
        ("gap", "--columns", "links"): "a change of links alone changes the score by at most 0.33333",
        ("fall", "--column", "length"): "the score falls by at most ",
    }
    for asked, words in quantities.items():
        assert run("measure", model, *asked, *options)[0] == 0
        code, out, _ = run("audit", model, proof)
        assert code == 0
        assert "Statements: 1 hold" in out
        assert words in out
    header, *_ = lines = [json.loads(line) for line in proof.read_text().splitlines()]
    header["domain"]["columns"].append({"one_hot": [7, -1]})  # which there are not, and nobody asks of them
    lines[1] = {"statement": "The score is high."}
    proof.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    code, out, err = run("audit", model, proof)
    assert (code, err) == (0, "")
    assert "Statement 0 (line 2) is open: 'The score is high.'." in out
