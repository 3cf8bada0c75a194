"""Relations between columns: read, written, evaluated exactly; refused with a sentence where they have no meaning."""

import copy
import json
import random
from fractions import Fraction

import numpy as np
import pytest

from certiforest import Attacker, AttackerError, suggest_relations
from certiforest.attack.comparisons import Comparison, parse
from certiforest.attack.relations import Relation, find_broken, read_relation, read_relations
from certiforest.cli import main
from certiforest.files import FileError
from certiforest.report.attackers import attack_in_words, attacker_facts, attacker_with_names, describe_attacker

N_HOSTILE = 300
NAMES = ["a", "b b", "c`d", "n", "m", "e5"]


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("a <= c", "a <= c"),
        ("3 nb_www + 4*nb_com <= length_url", "3 nb_www + 4 nb_com <= length_url"),
        ("net = gross - tax", "net + tax = gross"),
        ("2 - a >= -1/3 `x ``y` + .25 [3]", "a + 0.25 [3] <= 1/3 `x ``y` + 2"),
        ("- a < -0.1", "a > 0.1"),
        ("a + a == 4", "2 a = 4"),
        ("0 <= -a - b - 1", "a + b <= -1"),
        ("sepal.length > `a <= b`", "`a <= b` < sepal.length"),
        ("größe <= 1", "größe <= 1"),
        ("3/4 a <= 0.0000001", "0.75 a <= 0.0000001"),
    ],
)
def test_printed_relation_is_read_as_the_same(text, printed):
    assert str(parse(text)) == printed
    assert parse(printed) == parse(text)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("a * b <= 1", "product or a ratio of columns"),
        ("a / b <= 2", "a <= 2 b where b > 0"),
        ("a 3 <= 1", "no <, <=, =, >= or > where one should be"),
        ("3a <= 1", "write a space or \\* between them"),
        ("1e5 <= a", "no exponents"),
        ("1 <= a <= 3", "write a relation for each"),
        ("a", "no <, <="),
        ("a <= ", "no number or column where one should be"),
        ("a - a <= 1", "depends on columns"),
        ("a != b", "'!' at place 2"),
        ("a <= 1/0", "not 0 below"),
        ("a <= 0.5/2", "a fraction has whole numbers"),
        ("a < b c", "where \\+ or - should be"),
        ("a <= `b", "'`' at place 5"),
        ("a <= " + "9" * 1201, "more than 1200 digits"),
        ("a <= 0." + "0" * 330 + "1", "which float64 does not hold"),
        ("a <= " + " + ".join(f"1/{10**300 + n}" for n in range(9)), "shorter numbers"),
        ("a -- b <= 1", "no number or column"),
        (7, "to be text such as"),
    ],
)
def test_text_that_is_no_relation_is_refused_by_a_sentence(text, part):
    with pytest.raises(AttackerError, match=part):
        read_relation({"linear": text})


@pytest.mark.parametrize(
    ("given", "part"),
    [
        (3, "to be text such as"),
        ({"if": "a > 0"}, r"got the entries \['if'\]"),
        ({"if": "a > b", "then": "c > 0"}, "compare one column with a number"),
        ({"if": [], "then": "c > 0"}, "an empty list"),
        ({"column": "a", "values": []}, "a list of finite numbers"),
        ({"column": "a", "values": [float("inf")]}, "a list of finite numbers"),
        ({"column": True, "values": [1]}, "a name or an index"),
        ({"linear": "a <= b", "name": 3}, "to be text"),
    ],
)
def test_forms_that_are_no_relations_are_refused(given, part):
    with pytest.raises(AttackerError, match=part):
        read_relation(given)


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"relations": ["a <= z"]}, "none of them"),
        ({"relations": ["[9] <= a"]}, "between 0 and 5"),
        ({"relations": "a <= n"}, "to be a list"),
        ({"relations": ["a <= n"], "missing": 1.0}, "leave missing out"),
        ({"relations": ["a <= n"], "categories": {"a": 1.0}}, "of categories"),
        ({"relations": ["a >= 1"], "domain": (0, 0.5)}, "rows of the domain can keep, got a >= 1"),
        ({"relations": ["a < n"], "domain": (3, 3)}, "rows of the domain can keep"),
        ({"relations": [{"column": "a", "values": [2]}], "domain": (0, 1)}, "rows of the domain can keep"),
        ({"relations": [{"if": "a >= 0", "then": "n > 1"}], "domain": (0, 1)}, "rows of the domain can keep"),
        ({"relations": ["a + n >= 3"], "groups": [["a", "n"]]}, "rows of the domain can keep"),
        ({"only": ["a"], "frozen": ["n"]}, "only or frozen, got both"),
        ({"strict": "yes"}, "True or False"),
    ],
)
def test_attackers_with_relations_that_have_no_meaning_are_refused(options, part):
    with pytest.raises(AttackerError, match=part):
        Attacker("linf", 0.1, **options).resolve(6, NAMES)


def test_only_freezes_all_other_columns():
    attacker = Attacker("linf", 0.1, only=["a", "m"]).resolve(6, NAMES)
    assert attacker.is_frozen(6).tolist() == [False, True, True, True, False, True]
    assert attacker == Attacker("linf", 0.1, frozen=[1, 2, 3, 5]).resolve(6, NAMES)
    assert Attacker("linf", 0.1, only=[4, 0]).is_frozen(6).tolist() == [False, True, True, True, False, True]


def test_an_attacker_with_relations_is_saved_shown_and_copied(tmp_path):
    told = [
        "a <= `b b` + 1",
        {"name": "g", "if": ["n > 0", "m > 0"], "then": "`c``d` = 1"},
        {"column": 4, "values": [60, 36]},
    ]
    attacker = Attacker("l2", 0.5, relations=told, only=[0, "n"], strict=True)
    attacker.save(tmp_path / "attacker.json")
    assert Attacker.load(tmp_path / "attacker.json") == attacker == copy.deepcopy(attacker) == eval(repr(attacker))  # noqa: S307
    assert attacker != attacker.replace(relations=told[:2])
    assert attacker.with_eps(1.0).relations == attacker.relations
    resolved = attacker.resolve(6, NAMES)
    assert list(map(str, resolved.relations)) == [
        "[0] <= [1] + 1",
        "if [3] > 0 and [4] > 0 then [2] = 1",
        "[4] is 36 or 60",
    ]
    assert Attacker.from_document(json.loads(json.dumps(resolved.to_document()))) == resolved
    described = describe_attacker(resolved, NAMES)
    assert described["relations"][0] == "a <= `b b` + 1"
    assert dict(attacker_facts(described))["Relations that rows keep"].startswith(
        "a <= `b b` + 1; if n > 0 and m > 0 then"
    )
    assert "relations" in attack_in_words(described)
    assert "`b b`" in attacker_with_names(resolved, NAMES)


@pytest.mark.parametrize(
    ("told", "row", "is_kept"),
    [
        ("[0] = [1] + [2]", [0.3, 0.1, 0.2], False),  # as floats, they do not add up
        ("[0] = [1] + [2]", [0.375, 0.125, 0.25], True),
        ("[0] <= 0.1", [0.1], True),  # a number with a point is the float64 of tables
        ("[0] <= 1/10", [0.1], False),
        ("[0] < 2", [2.0], False),
        ("[0] <= [1]", [1e308, 1e308], True),
        ("[0] + [1] > 0", [5e-324, 0.0], True),
        ({"if": "[0] > 0", "then": "[1] > 0"}, [0.0, 0.0], True),
        ({"if": "[0] > 0", "then": ["[1] > 0", "[1] < 9"]}, [1.0, 9.0], False),
        ({"column": 0, "values": [0.1, 36]}, [0.1], True),
        ({"column": 0, "values": [0.1, 36]}, [0.10000000000000002], False),
        ("[0] <= [1]", [1.0, float("nan")], False),
    ],
)
def test_relations_are_evaluated_exactly(told, row, is_kept):
    relation = read_relation(told)
    assert relation.is_kept(row) is is_kept
    assert find_broken([relation], np.array([row, row]))[:, 0].tolist() == [not is_kept] * 2


def test_floats_and_rationals_agree_on_many_rows():
    rng = np.random.default_rng(5)
    X = np.round(rng.normal(size=(400, 4)), 1) * rng.choice([1.0, 1e-3, 1e15], (400, 1))
    told = ["[0] <= [1]", "[0] = [1] + [2]", "1/3 [0] + 0.1 [3] < [2] - 1/7", {"if": "[0] > 0.5", "then": "[1] >= -1"}]
    relations = read_relations(told)
    exact = [[not relation.is_kept(row) for relation in relations] for row in X.tolist()]
    assert find_broken(relations, X).tolist() == exact


def random_relation(rng: random.Random):
    def number():
        return rng.choice(
            [Fraction(rng.randint(-9, 9)), Fraction(rng.random()), Fraction(rng.randint(-99, 99), 7), Fraction(5e-324)]
        )

    def comparison(n_terms):
        columns = rng.sample(["a", "b b", "c`d", "`", "n", 3, 0, "x.y", "e5", "ü", "a <= b"], n_terms)
        terms = [(column, number() or Fraction(1)) for column in columns]
        return Comparison.of(terms, rng.choice(["<", "<=", "=", ">", ">="]), number(), "")

    def simple(text):
        return read_relation({"if": text, "then": "a > 0"}).when[0]

    kind = rng.randrange(3)
    name = rng.choice([None, "g", "ü`"])
    if kind == 0:
        return Relation((comparison(rng.randint(1, 4)),), name=name)
    if kind == 1:
        sides = ([simple(str(comparison(1))) for _ in range(rng.randint(1, 2))] for _ in "ab")
        then, when = map(tuple, sides)
        return Relation(then, when, name=name)
    return Relation(column=rng.choice(["a", 3]), values=tuple(sorted({rng.random(), 36.0})), name=name)


def test_documents_are_read_as_the_same_relations():
    rng = random.Random(1)
    for _ in range(2000):
        relation = random_relation(rng)
        assert read_relation(json.loads(json.dumps(relation.document()))) == relation


def test_mutated_relations_are_refused_or_mean_what_is_printed():
    rng = random.Random(2)
    words = ["<=", "==", "nan", "inf", "``", "[3]", "1/3", "0.1", "1e5", "9" * 400]
    pieces = [*"ab `[]()<>=!+-*/.0123 \n\\\"'{}é", *words]
    n_read = 0
    for _ in range(5000):
        start = str(random_relation(rng).document()) if rng.random() < 0.1 else "a + 2 `b b` - 0.5 [3] <= 1/3 c + 4"
        text = list(start)
        for _ in range(rng.randint(1, 4)):
            place = rng.randrange(len(text))
            text[place : place + rng.randint(0, 2)] = [rng.choice(pieces)] * rng.randint(0, 2)
            text = text or ["a"]
        try:
            found = parse("".join(text))
        except AttackerError:
            continue
        n_read += 1
        assert parse(str(found)) == found
    assert n_read > 200


def hostile_document(rng: random.Random):
    """Return what an attacker's file might hold: relations with parts of other kinds in the place of theirs."""
    told = [
        "a + 2 `b b` <= 1/3 n",
        {"name": "g", "linear": "a = n", "about": {}},
        {"if": ["n > 0", "m > 0"], "then": "a = 1"},
        {"column": "n", "values": [36, 60.5]},
    ]
    odd = [None, True, 0, -1, 1e308, "", "a", "a <= 1", [], {}, [[]], "inf", 10**400, "[0] < [1]", "<" * 50, {"if": 1}]
    document = {"format": "certiforest attacker", "version": 1, "norm": 2, "eps": 1, "relations": told}
    for _ in range(rng.randint(0, 2)):
        here = document
        while True:
            keys = list(here) if isinstance(here, dict) else list(range(len(here)))
            if not keys:
                break
            key = rng.choice(keys)
            if isinstance(here[key], (dict, list)) and rng.random() < 0.8:
                here = here[key]
                continue
            if rng.random() < 0.2:
                del here[key]
            elif rng.random() < 0.2 and isinstance(here, dict):
                here[rng.choice(["name", "if", "then", "linear", "column", "values", "x"])] = here.pop(key)
            else:
                here[key] = copy.deepcopy(rng.choice(odd))
            break
    return document


def test_hostile_files_are_refused_or_mean_what_is_written_again(tmp_path):
    rng, path, n_read = random.Random(4), tmp_path / "attacker.json", 0
    for _ in range(N_HOSTILE):
        text = json.dumps(hostile_document(rng))
        if rng.random() < 0.3:
            place = rng.randrange(len(text))
            text = text[:place] + rng.choice(["", "\x00", '"', "}", "NaN", "\ud800", "a"]) + text[place + 1 :]
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        try:
            found = Attacker.load(path)
            resolved = found.resolve(4, ["a", "b b", "n", "m"])
        except (AttackerError, FileError):
            continue
        n_read += 1
        for attacker in (found, resolved):
            attacker.save(path)
            assert Attacker.load(path) == attacker
    assert n_read > N_HOSTILE / 50


def mined_table(n=400):
    rng = np.random.default_rng(3)
    host = rng.integers(4, 30, n)
    url = host + rng.integers(0, 40, n)
    com = rng.integers(0, 3, n)
    kind = rng.integers(0, 3, n)
    dots = com * 2 + (com > 0) * rng.integers(-1, 2, n)
    columns = {"host": host, "url": url, "rest": url - host, "com": com, "dots": dots, "left": 100 - host}
    columns |= {f"is_{k}": (kind == k) * 1 for k in range(3)} | {"noise": rng.normal(size=n), "one": com * 0}
    return {name: np.asarray(values, float) for name, values in columns.items()}


def test_relations_are_suggested_with_their_support_and_what_breaks_them():
    table = mined_table()
    X = np.column_stack(list(table.values()))
    found = {str(read_relation(entry)): entry["about"] for entry in suggest_relations(X, columns=list(table))}
    sums = {"url = host + rest", "host + left = 100", "is_0 + is_1 + is_2 = 1"}
    assert {*sums, "host <= url", "com <= dots"} <= {*found}
    assert "if dots > 0 then com > 0" in found
    assert not any("noise" in text or "one" in text for text in found)
    assert 0.5 < found["host <= url"]["support"] <= 1
    assert all(about["broken"] == 0 for about in found.values())
    X[7, 1] = 1.0  # one row in which the URL is shorter, which was mined or held out
    after = {str(read_relation(entry)): entry["about"] for entry in suggest_relations(X, columns=list(table))}
    assert "host <= url" not in after or after["host <= url"]["broken"] > 0


def test_the_command_writes_suggestions_that_an_attacker_takes(tmp_path, capsys):
    table = mined_table()
    lines = [",".join(table), *(",".join(map(repr, map(float, row))) for row in zip(*table.values(), strict=True))]
    (tmp_path / "a.csv").write_text("\n".join(lines) + "\n")
    out = tmp_path / "relations.json"
    assert main(["relations", str(tmp_path / "a.csv"), "--target", "noise", "--out", str(out)]) == 0
    assert "which of them must an attacker keep?" in capsys.readouterr().out
    relations = json.loads(out.read_text())
    assert len(Attacker("linf", 1, relations=relations).resolve(10, list(table)[:10]).relations) == len(relations) > 5
    assert main(["relations", str(tmp_path / "a.csv"), "--target", "noise", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["relations"] == relations
