"""TreeEnsemble: building, cutting dead branches, saving, and files from strangers."""

import json
import math
import random
import tracemalloc
from functools import partial

import numpy as np
import pytest

import oracle
from cases import _value, ensemble_of, random_case
from certiforest import ModelError, Nodes, TreeEnsemble, as_ensemble, save_silva
from certiforest.ensemble.rows import RowError
from small_models import stumps

SPLIT = dict(n_features=1, classes=[0, 1])


def random_ensemble(rng):
    return ensemble_of(random_case(rng, combine=rng.choice(["vote", "sum"])))


def scored():
    options = dict(n_features=2, classes=["a", "b"], scores=[[0.5], [-0.25]], base=[0.125])
    return TreeEnsemble([0, -1, 1, -1, -1], [0.5, 0, 0.25, 0, 0], [-1, 0, -1, 1, 0], **options)


one_stump = partial(stumps, (0, 0.5))
stump_of_missing = partial(stumps, (0, 0.5), missing_left=[True, False, False])


def small():
    return TreeEnsemble([0, -1, 1, -1, -1], [0.5, 0, 0.25, 0, 0], [-1, 0, -1, 1, 0], n_features=2, classes=["a", "b"])


def test_attributes():
    e = small()
    assert (e.n_trees, e.n_nodes, e.n_features, e.n_classes) == (1, 5, 2, 2)
    assert e.classes.tolist() == ["a", "b"]
    assert e.right.tolist() == [2, -1, 4, -1, -1]
    assert e.node_depth.tolist() == [0, 1, 1, 2, 2]
    assert repr(e) == "TreeEnsemble(1 trees, 5 nodes, 2 features, 2 classes)"


def test_arrays_are_read_only():
    e = scored()
    for array in (e.feature, e.threshold, e.leaf, e.right, e.tree_start, e.low, e.high, e.classes, e.scores, e.base):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_predictions_and_votes_agree_with_a_plain_walk():
    rng = random.Random(0)
    for number in range(600):
        case = random_case(rng, combine="sum" if number % 2 else "vote")
        e = ensemble_of(case)
        cuts = [v for tree in case.trees for _, v in oracle.splits(tree)] or [0.0]
        rows = [[_value(rng, cuts, case.trees, f) for f in range(case.n_features)] for _ in range(5)]
        own = [oracle.predict(case, x) for x in rows]
        assert e.predict(rows).tolist() == own
        if e.combine == "vote":
            assert (e.votes(rows).sum(axis=1) == e.n_trees).all()
            assert e.without_idle_splits.votes(rows).tolist() == e.votes(rows).tolist()
        else:
            sums = e.decision_function(rows)
            assert sums.shape == ((5,) if len(case.base) == 1 else (5, len(case.base)))
            assert e.without_idle_splits.decision_function(rows).tolist() == sums.tolist()


def test_rows_of_equal_scores_agree():
    e = stumps((0, 0.5), scores=[[0.0], [-0.0]])
    assert e.without_idle_splits.n_nodes == 1


def test_ties_go_to_the_lowest_class():
    e = TreeEnsemble([-1, -1], [0, 0], [1, 0], n_features=1, classes=["late", "early"])
    assert e.predict([[0.0]]).tolist() == ["late"]


def test_dead_branches_are_cut():
    # x <= .5 then x <= .7: the second split has nobody on its right.
    e = TreeEnsemble([0, 0, -1, -1, -1], [0.5, 0.7, 0, 0, 0], [-1, -1, 0, 1, 1], **SPLIT)
    assert e.threshold[e.feature >= 0].tolist() == [0.5]
    assert e.leaf[e.feature < 0].tolist() == [0, 1]
    # nobody is above the largest float, and nobody left of a repeated threshold on its right side
    largest = np.finfo(float).max
    assert TreeEnsemble([0, -1, -1], [largest, 0, 0], [-1, 0, 1], **SPLIT).n_nodes == 1
    assert TreeEnsemble([0, -1, 0, -1, -1], [0.5, 0, 0.5, 0, 0], [-1, 0, -1, 1, 0], **SPLIT).n_nodes == 3


def test_no_live_branch_is_cut():
    rng = random.Random(1)
    for _ in range(200):
        case = random_case(rng)
        e = ensemble_of(case)
        for t, tree in enumerate(case.trees):
            boxes = list(_live_boxes(tree, {}))
            nodes = slice(e.tree_start[t], e.tree_start[t + 1])
            assert e.leaf[nodes][e.feature[nodes] < 0].tolist() == boxes


def _live_boxes(tree, box):
    if not isinstance(tree, tuple):
        yield tree
        return
    f, v, left, right = tree
    low, high = box.get(f, (-math.inf, math.inf))
    if low < v:
        yield from _live_boxes(left, {**box, f: (low, min(high, v))})
    if v < high:
        yield from _live_boxes(right, {**box, f: (max(low, v), high)})


def test_within_keeps_what_the_domain_can_reach():
    e = small().within(np.array([0.6, 0.0]), np.array([1.0, 1.0]))
    assert e.feature.tolist() == [1, -1, -1]
    assert small().within(np.array([0.5, 0.0]), np.array([0.5, 1.0])).n_nodes == 1
    assert small().within(np.array([-math.inf] * 2), np.array([math.inf] * 2)) == small()


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        (([], [], []), SPLIT, "at least one tree"),
        (([0, -1], [0.5, 0], [-1, 0]), SPLIT, "cut short"),
        (([0, -1, -1], [0.5, 0], [-1, 0, 1]), SPLIT, "of one length"),
        (([1, -1, -1], [0.5, 0, 0], [-1, 0, 1]), SPLIT, "feature indices from 0 to 0, or -1 at leaves, got 1"),
        (([-2], [0.5], [0]), SPLIT, "got -2"),
        (([0, -1, -1], [math.nan, 0, 0], [-1, 0, 1]), SPLIT, "finite thresholds"),
        (([0, -1, -1], [math.inf, 0, 0], [-1, 0, 1]), SPLIT, "finite thresholds"),
        (([0, -1, -1], [0.5, 0, 0], [-1, 0, 2]), SPLIT, "between 0 and 1, got 0 to 2"),
        (([0, -1, -1], [0.5, 0, 0], [-1, 0, -1]), SPLIT, "between 0 and 1"),
        (([0.5, -1, -1], [0.5, 0, 0], [-1, 0, 1]), SPLIT, "integers"),
        (([-1], [0], [0]), dict(n_features=0, classes=[0]), "n_features between 1"),
        (([-1], [0], [0]), dict(n_features=1.5, classes=[0]), "n_features to be an integer"),
        (([-1], [0], [0]), dict(n_features=1, classes=[]), "list of class labels"),
        (([-1], [0], [0]), dict(n_features=1, classes=[0, 0]), "every class label once"),
        (([-1], [0], [0]), dict(n_features=1, classes=[0, "a"]), "one type"),
        (([-1], [0], [0]), dict(n_features=1, classes=[0.0, math.nan]), "finite class labels"),
        (([-1], [0], [0]), dict(n_features=2, classes=[0], feature_names=["a"]), "2 feature names, got 1"),
        (([-1], [0], [0]), SPLIT | dict(base=[0.0]), "Expected scores wherever there is a base"),
        (([-1], [0], [0]), SPLIT | dict(scores=[0.5]), r"shape \(n, 1\) or \(n, 2\) for 2 classes, got shape \(1,\)"),
        (([-1], [0], [0]), SPLIT | dict(scores=[[1, 2, 3]]), r"got shape \(1, 3\)"),
        (([-1], [0], [0]), SPLIT | dict(scores=np.empty((0, 1))), r"got shape \(0, 1\)"),
        (([-1], [0], [0]), SPLIT | dict(scores=[["a"]]), "scores to hold numbers"),
        (([-1], [0], [0]), SPLIT | dict(scores=[[math.nan]]), "Expected finite scores"),
        (([-1], [0], [0]), SPLIT | dict(scores=[[0.5]], base=[math.inf]), "Expected finite base"),
        (([-1], [0], [0]), SPLIT | dict(scores=[[0.5]], base=[0.0, 1.0]), r"each of 1 outputs, got shape \(2,\)"),
        (([-1], [0], [1]), SPLIT | dict(scores=[[0.5]]), "row of scores, of every leaf to be between 0 and 0, got 1"),
        (([-1] * 2, [0] * 2, [0] * 2), SPLIT | dict(scores=[[1e308]]), "scores whose sums are finite"),
        (([-1], [0], [0]), dict(n_features=1, classes=[0, 1, 2], scores=[[0.5]]), r"shape \(n, 3\) for 3 classes"),
    ],
)
def test_malformed_ensembles_are_refused(columns, options, message):
    with pytest.raises(ModelError, match=message):
        TreeEnsemble(*columns, **options)


@pytest.mark.parametrize(
    ("left", "right", "message"),
    [
        ([1, -1, -1], [1, -1, -1], "node 1 as a child twice"),
        ([0, -1, -1], [2, -1, -1], "node 0 as a child twice"),
        ([1, 0, -1], [2, 2, -1], "as a child twice"),
        ([1, -1, -1], [5, -1, -1], "between 0 and 2, or both -1 at a leaf, got 1 and 5"),
        ([1, -1, -1], [-1, -1, -1], "got 1 and -1"),
        ([-1, -1, -1], [-1, -1, -1], "hang below its root, got 2 that do not"),
        ([1, -1], [1, -1, -1], "columns of the shapes"),
    ],
)
def test_children_must_form_a_tree(left, right, message):
    nodes = Nodes(left, right, [0, -1, -1], [0.5, 0, 0], [-1, 0, 1])
    with pytest.raises(ModelError, match=message):
        TreeEnsemble.from_trees([nodes], **SPLIT)


def test_save_and_load(tmp_path):
    for seed in range(50):
        e = random_ensemble(random.Random(seed))
        e.save(tmp_path / "model.json")
        assert TreeEnsemble.load(tmp_path / "model.json") == e
        assert as_ensemble(tmp_path / "model.json") == e
    assert [p.name for p in tmp_path.iterdir()] == ["model.json"]


@pytest.mark.parametrize("classes", [["x", "y"], [3, 7], [0.5, 1.5], [False, True]])
def test_labels_keep_their_type(tmp_path, classes):
    e = stumps((0, 0.1), classes=classes, feature_names=["size"])
    e.save(tmp_path / "m")
    back = TreeEnsemble.load(tmp_path / "m")
    assert back == e
    assert back.classes.dtype == e.classes.dtype
    assert back.feature_names == ("size",)


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "model.json"
    small().save(path)
    before = path.read_bytes()
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        small().save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["model.json"]


# What is refused in files of some ensembles, if some entries are changed.
ALTERED = {
    small: [
        ({"version": 3}, "format version 1 to 2, got 3.*pip install --upgrade"),
        ({"version": 2}, "in files of version 2 only"),
        ({"missing_left": [0] * 5}, "in files of version 2 only"),
        ({"version": True}, "format version 1"),
        ({"format": "other"}, "format"),
        ({"combine": "mean"}, '"vote" or "sum", got'),
        ({"combine": ["sum"]}, '"vote" or "sum", got'),
        ({"combine": "sum"}, "an entry 'scores', got none"),
        ({"feature": [0, -1]}, "of one length"),
        ({"feature": "0"}, "a list at 'feature', got '0'"),
        ({"feature": [0, -1, 10**30, -1, -1]}, "beyond"),
        ({"feature": [0, -1, 1.0, -1, -1]}, "whole numbers"),
        ({"feature": [0, -1, True, -1, -1]}, "whole numbers"),
        ({"feature": [0, -1, [1], -1, -1]}, "whole numbers"),
        ({"threshold": [None] * 5}, "list of numbers at 'threshold', got None"),
        ({"n_features": None}, "n_features to be an integer"),
        ({"n_features": 10**40}, "n_features between"),
        ({"feature_names": [1, 2]}, "list of strings"),
        ({"classes": [[0], [1]]}, "list of class labels"),
    ],
    scored: [
        ({"scores": None}, "a list at 'scores', got None"),
        ({"scores": [0.5, -0.25]}, "a list at 'scores', got 0.5"),
        ({"scores": [[0.5], [None]]}, "got None among"),
        ({"scores": [[0.5], [True]]}, "got True among"),
        ({"scores": [[0.5], [10**400]]}, "got a number of 1329 bits"),
        ({"scores": [[0.5], [0.5, 1.0]]}, "lists of different lengths"),
        ({"scores": [[0.5]]}, "between 0 and 0, got 0 to 1"),
        ({"scores": []}, "got shape"),
        ({"base": None}, "a list at 'base', got None"),
        ({"base": [0.5, 0.5]}, "one base for each of 1 outputs"),
        ({"base": ["0"]}, "got '0' among"),
        ({"combine": "vote"}, 'no "scores" and no "base" where trees vote'),
    ],
    one_stump: [
        ({"threshold": [10**400, 0, 0]}, "a number of 1329 bits, beyond"),
        ({"threshold": [2**53 + 1, 0, 0]}, "9007199254740993, beyond"),
        ({"leaf": [1, 0, 1]}, '"leaf" to be -1 at splits'),
        ({"threshold": [0.5, 1.0, 0]}, '"threshold" 0 at leaves'),
        ({"scores": [[1.0]]}, 'no "scores" and no "base"'),
        ({"classes": [0, 1.5]}, "of one type"),
        ({"classes": [0, True]}, "of one type"),
        ({"classes": ["a\0", "b"]}, "keep their values"),
        ({"classes": [0, 10**400]}, "class labels"),
    ],
    stump_of_missing: [
        ({"missing_left": [2, 0, 0]}, "to hold 0 and 1"),
        ({"missing_left": [0, 0]}, "of one length"),
        ({"missing_left": [0, 1, 0]}, "0 at leaves"),
        ({"missing_left": [True, False, False]}, "whole numbers"),
        ({"threshold": [None, 0, 0], "missing_left": [0, 0, 0]}, "finite thresholds"),
        ({"threshold": [0.5, None, 0]}, "0 at leaves"),
        ({"subset": [0, -1, -1]}, "subset and subsets together"),
        ({"subset": [0, -1, -1], "subsets": [[1, 2]]}, "thresholds or with sets"),
        ({"subset": [1, -1, -1], "subsets": [[1, 2]], "threshold": [None, 0, 0]}, "subset to be between 0 and 0"),
        ({"subset": [0, -1, -1], "subsets": [[1, 1]], "threshold": [None, 0, 0]}, "each once"),
        ({"subset": [0, -1, -1], "subsets": [["a"]], "threshold": [None, 0, 0]}, "list of numbers"),
        ({"version": 1}, "in files of version 2 only"),
    ],
}


@pytest.mark.parametrize(
    ("make", "change", "message"), [(make, *case) for make, cases in ALTERED.items() for case in cases]
)
def test_altered_files_are_refused(make, change, message, tmp_path):
    path = tmp_path / "model.json"
    make().save(path)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ModelError, match=message) as caught:
        as_ensemble(path)
    assert "model.json" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "[]", "{", "null", "[" * 100_000, '{"format": NaN}', "\x00\xff", '{"a":1e999}'])
def test_anything_else_is_refused(tmp_path, text):
    path = tmp_path / "model.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ModelError):
        TreeEnsemble.load(path)


def test_fuzzed_files_never_do_worse_than_being_refused(tmp_path):
    """Flip, cut, repeat and insert: each file loads as a sound model or raises ModelError, in bounded memory."""
    rng = random.Random(3)
    path = tmp_path / "model"
    texts = []
    for name, save, combine in [
        ("json", TreeEnsemble.save, "vote"), ("scores", TreeEnsemble.save, "sum"), ("silva", save_silva, "vote"),
    ]:  # fmt: skip
        e = ensemble_of(random_case(rng, combine=combine))
        save(e, tmp_path / name)
        texts.append((tmp_path / name).read_bytes())
    n_loaded = 0
    tracemalloc.start()
    for _ in range(3_000):
        text = bytearray(rng.choice(texts))
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(text) + 1)
            kind = rng.randrange(4)
            if kind == 0 and at < len(text):
                text[at] = rng.randrange(256)
            elif kind == 1:
                del text[at : at + rng.randint(1, 20)]
            elif kind == 2:
                text[at:at] = text[at : at + rng.randint(1, 30)]
            else:
                text[at:at] = rng.choice([b"-", b"9" * 20, b"1e308", b",", b"[", b"{}", b"null", b" ", b"\n", b"-1"])
        path.write_bytes(bytes(text))
        try:
            e = as_ensemble(path)
        except ModelError:
            continue
        n_loaded += 1
        if e.n_features < 1_000:
            e.predict(np.zeros((1, e.n_features)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 0 < n_loaded < 3_000
    assert peak < 20 * 2**20


def test_a_file_may_claim_many_features_without_taking_memory(tmp_path):
    path = tmp_path / "model.json"
    small().save(path)
    for n_features in (2**24, 2**24 + 1, 2**31 - 3):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"n_features": n_features}))
        tracemalloc.start()
        if n_features > 2**24:
            with pytest.raises(ModelError, match="n_features between 1 and 16777216"):
                TreeEnsemble.load(path)
        else:
            assert TreeEnsemble.load(path).n_features == n_features
        assert tracemalloc.get_traced_memory()[1] < 2**20
        tracemalloc.stop()


def test_frames_are_read_by_place():
    pd = pytest.importorskip("pandas")
    e = stumps((0, 0.5), feature_names=["a b"])
    frame = pd.DataFrame({"a b": [0.0, 1.0, 0.0, 1.0]}, index=[-1.0, 0.0, 1.0, 2.0])
    assert e.predict(frame).tolist() == [0, 1, 0, 1]
    assert e.predict(frame.rename(columns={"a b": "a_b"})).tolist() == [0, 1, 0, 1]
    with pytest.raises(RowError, match="got no 'a b' and 'c', which the model does not know"):
        e.predict(frame.rename(columns={"a b": "c"}))
