"""The pruning step against its literal transcription, and the rules that the paper leaves implicit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import literal_pruning
from certiforest import Attacker, Nodes, TreeEnsemble, certify, has_large_spread, spread
from certiforest.training.pruning import prune_forest, train_pruned_forest
from trainers import stump, training_set


def random_tree(rng, n_features, depth, grid):
    """A full tree with thresholds on a grid, so that equal ones and distances of exactly 2 * eps abound."""
    n_splits = 2**depth - 1
    n_nodes = 2 * n_splits + 1
    is_split = np.arange(n_nodes) < n_splits
    return Nodes(
        left=np.where(is_split, 2 * np.arange(n_nodes) + 1, -1),
        right=np.where(is_split, 2 * np.arange(n_nodes) + 2, -1),
        feature=np.where(is_split, rng.integers(n_features, size=n_nodes), -1),
        threshold=np.where(is_split, rng.integers(grid, size=n_nodes) / (grid - 1), 0.0),
        leaf=rng.integers(2, size=n_nodes),
    )


def as_ensemble(trees, n_features):
    return TreeEnsemble.from_trees(trees, n_features=n_features, classes=[0, 1])


def run(
    forest, n_keep, attacker, n_features, prune=prune_forest, preference=None, seed=0, max_iter=50,
    shift_range=(0.5, 1.0),
):  # fmt: skip
    value_range = np.zeros(n_features), np.ones(n_features)
    return prune(
        forest,
        n_keep,
        preference=np.zeros(len(forest)) if preference is None else preference,
        attacker=attacker,
        value_range=value_range,
        shift_range=shift_range,
        max_iter=max_iter,
        generator=np.random.default_rng(seed),
    )


def assert_same(ours, literal):
    assert ours.n_rounds == literal[1]
    assert len(ours.trees) == len(literal[0])
    for a, b in zip(ours.trees, literal[0], strict=True):
        assert all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_features=st.integers(1, 6),
    depth=st.integers(0, 4),
    n_forest=st.integers(1, 9),
    grid=st.sampled_from([2, 5, 11, 256]),
    eps=st.sampled_from([1 / 510, 0.01, 0.05, 0.1]),
    max_iter=st.integers(0, 40),
    shift_range=st.sampled_from([(0.5, 1.0), (1.0, 1.5), (1.0, 1.0)]),
    with_scale=st.booleans(),
)
def test_same_forest_and_draws_give_the_literal_thresholds(
    seed, n_features, depth, n_forest, grid, eps, max_iter, shift_range, with_scale
):
    rng = np.random.default_rng(seed)
    forest = [random_tree(rng, n_features, depth, grid) for _ in range(n_forest)]
    scale = rng.choice([0.5, 1.0, 0.3], n_features) if with_scale else None
    attacker = Attacker(np.inf, eps, scale=scale, frozen=[0] if with_scale else None)
    given_args = forest, 1 + n_forest // 2, attacker, n_features
    preference = rng.integers(3, size=n_forest) / 2  # with equals among them
    options = {"preference": preference, "seed": seed, "max_iter": max_iter, "shift_range": shift_range}
    ours = run(*given_args, **options)
    assert_same(ours, run(*given_args, prune=literal_pruning.prune_forest, **options))
    assert has_large_spread(as_ensemble(ours.trees, n_features), attacker)


def test_same_as_literal_on_a_trained_forest():
    from sklearn.datasets import load_digits
    from sklearn.ensemble import RandomForestClassifier

    from certiforest.training.pruning import _as_nodes

    X, y = load_digits(return_X_y=True)
    forest = RandomForestClassifier(24, max_depth=4, random_state=0).fit(X / 16, y).estimators_
    forest = [_as_nodes(tree.tree_, np.arange(64)) for tree in forest]
    attacker = Attacker(np.inf, 0.01)
    ours = run(forest, 12, attacker, 64)
    assert len(ours.trees) == 12
    assert_same(ours, run(forest, 12, attacker, 64, prune=literal_pruning.prune_forest))


def test_an_overlapping_pair_is_pushed_apart_symmetrically_by_one_draw():
    kept = run([stump(0, 0.5), stump(0, 0.5)], 2, Attacker("inf", 0.1), 1, shift_range=(1.25, 1.5)).trees
    low, high = sorted(tree.threshold[0] for tree in kept)
    assert low + high == pytest.approx(1.0)
    assert 0.125 <= 0.5 - low <= 0.15


def test_exactly_two_eps_apart_overlaps():
    kept = run([stump(0, 0.25), stump(0, 0.5)], 2, Attacker("inf", 0.125), 1).trees
    assert spread(as_ensemble(kept, 1)) > 0.25


def test_trees_that_do_not_overlap_are_left_alone():
    forest = [stump(0, 0.25), stump(0, 0.75), stump(1, 0.5)]
    kept = run(forest, 3, Attacker("inf", 0.1), 2).trees
    assert sorted(tree.threshold[0] for tree in kept) == [0.25, 0.5, 0.75]


def test_the_tree_with_fewest_overlapping_features_comes_first():
    root = stump(0, 0.5)
    # The first tree is drawn; if it is a stump on feature 0, the one on feature 1 comes next.
    kept = run([root, root, stump(1, 0.5)], 2, Attacker("inf", 0.1), 2, seed=1).trees
    assert {int(tree.feature[0]) for tree in kept} == {0, 1}


def test_of_equally_few_overlaps_the_preferred_tree_comes_first():
    forest = [stump(feature, 0.5) for feature in range(5)]
    order = [3, 0, 4, 1, 2]
    kept = run(forest, 5, Attacker("inf", 0.1), 5, preference=-np.argsort(order).astype(float)).trees
    found = [int(tree.feature[0]) for tree in kept]
    assert found[1:] == [feature for feature in order if feature != found[0]]  # the first is drawn


def test_a_tree_that_cannot_be_fitted_in_is_dropped_and_the_rest_stays():
    # Three thresholds more than .8 apart do not fit into [0, 1]; two do.
    attacker = Attacker("inf", 0.4)
    two = run([stump(0, 0.5)] * 2, 2, attacker, 1, max_iter=200).trees
    three = run([stump(0, 0.5)] * 3, 3, attacker, 1, max_iter=200).trees
    assert len(two) == len(three) == 2
    assert has_large_spread(as_ensemble(three, 1), attacker)


def test_a_fix_reached_in_the_last_round_counts():
    forest = [stump(0, 0.5), stump(0, 0.5)]
    assert len(run(forest, 2, Attacker("inf", 0.1), 1, max_iter=1, shift_range=(1.1, 1.2)).trees) == 2
    assert len(run(forest, 2, Attacker("inf", 0.1), 1, max_iter=0, shift_range=(1.1, 1.2)).trees) == 1


def test_splits_of_one_tree_on_one_threshold_move_together():
    twice = Nodes(
        left=[1, 3, 5, -1, -1, -1, -1], right=[2, 4, 6, -1, -1, -1, -1], feature=[1, 0, 0, -1, -1, -1, -1],
        threshold=[0.5, 0.5, 0.5, 0, 0, 0, 0], leaf=[-1, -1, -1, 0, 1, 1, 0],
    )  # fmt: skip
    kept = run([twice, stump(0, 0.5)], 2, Attacker("inf", 0.05), 2).trees
    tree = next(tree for tree in kept if len(tree.left) == 7)
    assert tree.threshold[1] == tree.threshold[2] != 0.5
    assert tree.threshold[0] == 0.5


def test_frozen_features_are_never_touched():
    kept = run([stump(0, 0.5)] * 3, 3, Attacker("inf", 0.4, frozen=[0]), 1).trees
    assert [tree.threshold[0] for tree in kept] == [0.5] * 3


def test_no_threshold_leaves_the_range_of_its_feature():
    kept = run([stump(0, 0.01)] * 5, 5, Attacker("inf", 0.02), 1).trees
    assert len(kept) == 5
    assert all(0 <= tree.threshold[0] <= 1 for tree in kept)


def train(X, y, attacker, **options):
    defaults = {
        "n_estimators": 6, "max_iter": 100, "pool_factor": 2, "shift_range": (0.5, 1.0), "n_partitions": 1,
        "n_orders": 1, "relabel": False, "forest_params": {"max_depth": 3}, "random_state": np.random.RandomState(0),
        "n_jobs": None,
    }  # fmt: skip
    ensemble, _ = train_pruned_forest(training_set(X, y, attacker), **(defaults | options))
    return ensemble


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    X = rng.random((400, 13))
    return X, (X[:, 0] + X[:, 5] + 0.2 * rng.random(400) > 1.1).astype(np.int64)


def features_of_trees(ensemble):
    return [
        set(ensemble.feature[start:stop].tolist()) - {-1}
        for start, stop in zip(ensemble.tree_start[:-1], ensemble.tree_start[1:], strict=True)
    ]


def test_partitions_share_no_feature_and_sizes_are_balanced(table):
    ensemble = train(*table, Attacker("inf", 0.001), n_estimators=7, n_partitions=3)
    sets = features_of_trees(ensemble)
    groups = [set.union(*sets[:3]), set.union(*sets[3:5]), set.union(*sets[5:])]
    assert ensemble.n_trees == 7
    assert all(a.isdisjoint(b) for i, a in enumerate(groups) for b in groups[:i])
    assert all(len(group) <= 5 for group in groups)  # 13 features: 5, 4 and 4


def test_norm_0_gives_each_tree_features_of_its_own(table):
    attacker = Attacker(0, 2)
    ensemble = train(*table, attacker)
    sets = features_of_trees(ensemble)
    assert ensemble.n_trees == 6
    assert all(a.isdisjoint(b) for i, a in enumerate(sets) for b in sets[:i])
    assert has_large_spread(ensemble, attacker)


def test_frozen_features_belong_to_every_partition(table):
    ensemble = train(*table, Attacker(0, 1, frozen=[0, 5]))
    assert sum(bool(features & {0, 5}) for features in features_of_trees(ensemble)) > 3
    assert has_large_spread(ensemble, Attacker(0, 1, frozen=[0, 5]))


def test_more_orders_keep_the_first_tree_and_lose_no_training_row(table):
    X, y = table
    attacker = Attacker("inf", 0.02)
    one, many = (train(X, y, attacker, n_orders=n, pool_factor=4) for n in (1, 16))
    first = slice(0, one.tree_start[1])
    assert np.array_equal(one.feature[first], many.feature[first])
    one, many = (certify(ensemble, X, y, attacker).robust_accuracy for ensemble in (one, many))
    assert many > one


@pytest.mark.parametrize("seed", range(4))  # either partition comes first
def test_partitions_with_room_make_up_for_others(seed):
    rng = np.random.default_rng(0)
    y = np.arange(400) % 2
    X = np.column_stack((y ^ (rng.random(400) < 0.1), 50 * y + 50 * rng.random(400)))  # ranges 1 and 100
    options = {"n_partitions": 2, "random_state": np.random.RandomState(seed), "forest_params": {"max_depth": 1}}
    ensemble = train(X, y, Attacker("inf", 0.3), **options)
    # Of thresholds more than .6 apart only two fit into [0, 1].
    assert sorted(ensemble.feature[ensemble.feature >= 0].tolist()) == [0, 0, 1, 1, 1, 1]


def test_relabelled_leaves_hold_the_majority_of_the_rows_that_reach_them(table):
    X, y = table
    plain, fresh = (train(X, y, Attacker("inf", 0.02), relabel=relabel) for relabel in (False, True))
    assert np.array_equal(plain.threshold, fresh.threshold)
    for start, stop in zip(fresh.tree_start[:-1], fresh.tree_start[1:], strict=True):
        reached = np.full(len(X), start)
        for _ in range(3):  # the depth of the trees
            for node in np.unique(reached):
                f, here = fresh.feature[node], reached == node
                if f >= 0:
                    reached[here] = np.where(X[here, f] <= fresh.threshold[node], node + 1, fresh.right[node])
        for node in np.unique(reached):
            assert start <= node < stop
            assert fresh.leaf[node] == np.bincount(y[reached == node], minlength=2).argmax()
