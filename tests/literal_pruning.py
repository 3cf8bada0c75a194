"""The paper's pruning, written as its pseudocode is: every loop compares all pairs. Slow on purpose.

The referee of `certiforest.training.pruning.prune_forest`: the same forest and the same generator must give
the same thresholds to the last bit. Plain Python numbers only; nothing of the package takes part but the type
`Nodes`.
"""

from fractions import Fraction

import numpy as np


class Threshold:
    """A distinct threshold of a tree: splits that test the same feature against the same value are one."""

    def __init__(self, feature, value):
        self.feature = feature
        self.value = value


def prune_forest(forest, n_keep, *, preference, attacker, value_range, shift_range, max_iter, generator, progress=None):
    n_features = len(value_range[0])
    scale, frozen = attacker.scale_of(n_features).tolist(), attacker.is_frozen(n_features).tolist()
    rules = Rules(attacker.eps, scale, frozen, *(bound.tolist() for bound in value_range), *shift_range, max_iter)

    originals = [distinct_thresholds(tree) for tree in forest]
    pool = list(range(len(forest)))
    first = int(generator.integers(len(forest)))
    pool.remove(first)
    kept = [(first, originals[first])]
    most_rounds = 0
    while pool and len(kept) < n_keep:
        best = get_best_tree([(tree, originals[tree]) for tree in pool], kept, preference, rules)
        pool.remove(best)
        fixed, n_rounds = fix_forest([*kept, (best, originals[best])], rules, generator)
        if fixed is not None:
            kept, most_rounds = fixed, max(most_rounds, n_rounds)
    return [with_thresholds(forest[tree], originals[tree], thresholds) for tree, thresholds in kept], most_rounds


class Rules:
    def __init__(self, eps, scale, frozen, lowest, highest, first_shift, last_shift, max_iter):
        self.frozen, self.lowest, self.highest = frozen, lowest, highest
        self.first_shift, self.last_shift, self.max_iter = first_shift, last_shift, max_iter
        self.step = [eps * s for s in scale]
        self.limit = [2 * Fraction(eps) * Fraction(s) for s in scale]
        self.rounded_limit = [float(limit) for limit in self.limit]

    def overlap(self, a, b):
        """Whether two thresholds on one feature are at most 2 * eps apart, exactly."""
        f = a.feature
        if self.frozen[f]:
            return False
        distance, limit = abs(a.value - b.value), self.rounded_limit[f]
        if abs(distance - limit) > 1e-9 * max(limit, abs(a.value), abs(b.value)):
            return distance < limit
        return abs(Fraction(a.value) - Fraction(b.value)) <= self.limit[f]


def get_best_tree(pool, kept, preference, rules):
    best, fewest = None, float("inf")
    for tree, thresholds in pool:
        features = set()
        for a in thresholds:
            for _, others in kept:
                for b in others:
                    if a.feature == b.feature and rules.overlap(a, b):
                        features.add(a.feature)
        if len(features) < fewest or (len(features) == fewest and preference[tree] > preference[best]):
            best, fewest = tree, len(features)
    return best


def list_overlaps(trees, rules):
    """All overlapping pairs (lower, upper), by feature, then the lower, then the upper threshold.

    Of equal thresholds the lower is the one whose tree joined first.
    """
    pairs = []
    for i, (_, thresholds) in enumerate(trees):
        for a in thresholds:
            for j in range(i + 1, len(trees)):
                for b in trees[j][1]:
                    if a.feature == b.feature and rules.overlap(a, b):
                        ends = (a.value, i, a), (b.value, j, b)
                        lower, upper = ends if a.value <= b.value else ends[::-1]
                        pairs.append((a.feature, *lower[:2], *upper[:2], lower[2], upper[2]))
    pairs.sort(key=lambda pair: pair[:5])
    return [pair[5:] for pair in pairs]


def fix_forest(trees, rules, generator):
    trees = [(tree, [Threshold(t.feature, t.value) for t in thresholds]) for tree, thresholds in trees]
    overlaps = list_overlaps(trees, rules)
    n_rounds = 0
    while overlaps and n_rounds < rules.max_iter:
        n_rounds += 1
        target = {}  # where a threshold goes in this round; all moves start from the values at its start
        for lower, upper in overlaps:
            f = lower.feature
            draw = rules.first_shift + (rules.last_shift - rules.first_shift) * generator.random()
            shift = draw * rules.step[f]
            if lower not in target and lower.value - shift >= rules.lowest[f]:
                target[lower] = lower.value - shift
            if upper not in target and upper.value + shift <= rules.highest[f]:
                target[upper] = upper.value + shift
        for threshold, value in target.items():
            threshold.value = value
        overlaps = list_overlaps(trees, rules)
    return None if overlaps else trees, n_rounds


def distinct_thresholds(tree):
    pairs = {(f, v) for f, v, left in zip(*columns(tree), strict=True) if left >= 0}
    return [Threshold(f, v) for f, v in sorted(pairs)]


def with_thresholds(tree, originals, thresholds):
    value_of = {(a.feature, a.value): b.value for a, b in zip(originals, thresholds, strict=True)}
    values = [value_of[f, v] if left >= 0 else 0.0 for f, v, left in zip(*columns(tree), strict=True)]
    return tree._replace(threshold=np.array(values))


def columns(tree):
    return (np.asarray(column).tolist() for column in (tree.feature, tree.threshold, tree.left))
