"""The search on problems made for it, of cells and leaves alone, against enumeration; proofs are evaluated again."""

import itertools
import math
import random
from fractions import Fraction

import numpy as np
import pytest

from certiforest.problem.problem import Cells, Leaves, Problem
from certiforest.proof import search
from certiforest.proof.clock import Clock, OutOfTime
from certiforest.proof.search import QuickLook, Search, cuts_of, parts_of


def divide(rng, box, depth):
    """Yield boxes of cells, by variable, that divide a box."""
    wide = [v for v, (low, high) in box.items() if low < high]
    if depth == 0 or not wide:
        yield box
        return
    v = rng.choice(wide)
    low, high = box[v]
    cut = rng.randrange(low, high)
    yield from divide(rng, box | {v: (low, cut)}, depth - 1)
    yield from divide(rng, box | {v: (cut + 1, high)}, depth - 1)


def random_problem(rng, budget):
    """Return a problem, and its trees as lists of leaves: what each gains, and the cells that it allows."""
    sizes = [rng.randint(2, 4) for _ in range(rng.randint(1, 5))]
    first = np.cumsum([0, *sizes])
    home = [rng.randrange(first[v], first[v + 1]) for v in range(len(sizes))]
    price = np.zeros(first[-1], np.int64)
    for v, c in enumerate(home if budget else []):
        for way in (range(c - 1, first[v] - 1, -1), range(c + 1, first[v + 1])):
            price[list(way)] = np.cumsum([rng.randint(1, budget) for _ in way])
    top = np.concatenate([[*np.arange(1.0, size), math.inf] for size in sizes])
    cells = Cells(np.arange(len(sizes)) + 10, first, np.array(home), top, np.minimum(top, 9.0), price)
    whole = {v: (int(first[v]), int(first[v + 1]) - 1) for v in range(len(sizes))}
    trees = []
    while len(trees) < rng.randint(1, 7):
        boxes = list(divide(rng, whole, rng.randint(1, 3)))
        trees.append([(rng.randint(-9, 9), box) for box in boxes])
    need = rng.randint(-5, 25)
    leaves = leaves_of(cells, whole, trees)
    return Problem(cells, leaves, np.array([gain for tree in trees for gain, _ in tree]), need, budget), trees


def leaves_of(cells, whole, trees):
    conditions, scope, segments, testers = [], [], [], [[] for _ in cells.name]
    first, first_condition, first_scope, first_segment = [0], [0], [0], []
    for t, tree in enumerate(trees):
        tested = [v for v in whole if any(box[v] != whole[v] for _, box in tree)]
        for v in tested:
            testers[v].append(t)
            first_segment.append(len(segments))
            starts = sorted({box[v][0] for _, box in tree})
            ends = [start - 1 for start in starts[1:]] + [whole[v][1]]
            segments += zip(starts, ends, strict=True)
        for _, box in tree:
            for i, v in enumerate(tested, len(scope)):
                if box[v] != whole[v]:
                    ends = [[segment[e] for segment in segments[first_segment[i] :]].index(box[v][e]) for e in (0, 1)]
                    conditions.append((i, *(first_segment[i] + end for end in ends)))
            first_condition.append(len(conditions))
        first.append(first[-1] + len(tree))
        scope += tested
        first_scope.append(len(scope))
    begin, end = np.array(segments, np.int64).reshape(-1, 2).T.copy()
    place, low, high = np.array(conditions, np.int64).reshape(-1, 3).T.copy()
    tester = np.array([t for of in testers for t in of], np.int64)
    first_tester = np.cumsum([0, *map(len, testers)])
    return Leaves(
        np.arange(len(trees)) + 100, np.array(first), np.arange(first[-1]), np.array(first_condition), place, low, high,
        np.array(first_scope), np.array(scope, np.int64), np.array([*first_segment, len(segments)]), begin, end, tester,
        first_tester,
    )  # fmt: skip


def gain_of(trees, choice):
    """Return what is gained in some cells."""
    allowed = [[g for g, box in tree if all(a <= choice[v] <= b for v, (a, b) in box.items())] for tree in trees]
    assert all(len(gains) == 1 for gains in allowed)
    return sum(gains[0] for gains in allowed)


def choices_of(problem):
    """Yield the cells that are within the budget."""
    cells = problem.cells
    for choice in itertools.product(*(range(a, b) for a, b in itertools.pairwise(cells.first.tolist()))):
        if problem.budget == 0 or cells.price[list(choice)].sum() <= problem.budget:
            yield choice


def confirming(problem, trees):
    """Return what says whether cells are good for what is asked."""

    def confirm(choice):
        within = problem.budget == 0 or problem.cells.price[choice].sum() <= problem.budget
        return tuple(choice.tolist()) if within and gain_of(trees, choice) >= problem.need else None

    return confirm


def excludes(problem, trees, part, box):
    """Tell whether a part of a proof shows that nothing in a box of cells gains what is needed."""
    cells = problem.cells
    if "split" in part:
        v = part["split"][0] - 10
        low, high = box[v]
        cut = low + [float(top) for top in cells.top[low : high + 1]].index(part["split"][1])
        return excludes(problem, trees, part["low"], box | {v: (low, cut)}) and excludes(
            problem, trees, part["high"], box | {v: (cut + 1, high)}
        )
    rate = Fraction(*part.get("lambda", (0, 1)))
    unit = Fraction(*part.get("unit", (1, 1)))
    tables = {(t - 100, v - 10): [unit * m for m in numbers] for t, v, numbers in part.get("tables", ())}
    bound = rate * problem.budget
    for v, (a, b) in box.items():
        sums = [sum(m[c - cells.first[v]] for (_, u), m in tables.items() if u == v) for c in range(a, b + 1)]
        bound += max(m - rate * int(cells.price[c]) for m, c in zip(sums, range(a, b + 1), strict=True))
    for t, tree in enumerate(trees):
        values = []
        for gain, allowed in tree:
            inside = {v: range(max(box[v][0], a), min(box[v][1], b) + 1) for v, (a, b) in allowed.items()}
            if not all(inside.values()):
                continue
            prices = [min(int(cells.price[c]) for c in of) for of in inside.values()]
            if not problem.budget or sum(prices) <= problem.budget:
                taken = [min(m[c - cells.first[v]] for c in inside[v]) for (u, v), m in tables.items() if u == t]
                values.append(gain - sum(taken))
        if not values:  # nobody can afford to be in this box
            return True
        bound += max(values)
    return bound < problem.need


@pytest.mark.parametrize("sweeps", [0, 400])
@pytest.mark.parametrize("budget", [0, 30])
def test_the_search_finds_what_there_is_or_proves_that_there_is_nothing(monkeypatch, budget, sweeps):
    monkeypatch.setattr(search, "MOST_SWEEPS", sweeps)
    rng, n_proved, n_split = random.Random(f"{budget} {sweeps}"), 0, 0
    for _ in range(200):
        problem, trees = random_problem(rng, budget)
        asked = Search(problem, confirming(problem, trees), keep_proof=True)
        point = asked.run(Clock(math.inf))
        is_possible = any(gain_of(trees, choice) >= problem.need for choice in choices_of(problem))
        assert (point is not None) == is_possible
        if point is None:
            proof = asked.prove(Clock(math.inf), Fraction(1), Fraction(1))
            whole = {v: (int(a), int(b) - 1) for v, (a, b) in enumerate(itertools.pairwise(problem.cells.first))}
            assert excludes(problem, trees, proof, whole)
            assert {name for name, _ in cuts_of(problem.cells, [proof])} <= set(problem.cells.name.tolist())
            n_proved, n_split = n_proved + 1, n_split + (len(list(parts_of([proof]))) > 1)
    assert 20 < n_proved < 180
    assert n_split > 5 or sweeps


def test_a_quick_look_says_only_what_it_knows():
    rng, said = random.Random(1), set()
    for _ in range(200):
        problem, trees = random_problem(rng, 30)
        quick = QuickLook(problem, confirming(problem, trees))
        for budget in (30, 20):
            point = quick.look(budget)
            within = problem._replace(budget=budget)
            is_possible = any(gain_of(trees, choice) >= problem.need for choice in choices_of(within))
            assert point is None or is_possible
            assert not (quick.is_proved and is_possible)
            said.add((point is None, quick.is_proved))
    assert {(False, False), (True, True)} <= said


def test_time_is_looked_at_after_the_first_box(monkeypatch):
    monkeypatch.setattr(search, "MOST_SWEEPS", 0)
    rng, n_stopped = random.Random(2), 0
    for _ in range(100):
        problem, trees = random_problem(rng, 30)
        asked = Search(problem, confirming(problem, trees))
        try:
            asked.run(Clock(0.0).start())
        except OutOfTime:
            n_stopped += 1
        assert asked.n_boxes <= 1
    assert n_stopped > 5
