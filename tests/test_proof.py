"""The search on problems made for it, of cells and leaves alone, against enumeration; proofs are evaluated again."""

import itertools
import math
import random
from fractions import Fraction

import numpy as np
import pytest

from certiforest.problem.pairs_kernels import Order, pair_leaves
from certiforest.problem.pairs_kernels import leaves_of as leaves_of_pairs
from certiforest.problem.problem import Cells, JointProblem, Leaves, Problem
from certiforest.proof import requirements, search
from certiforest.proof.clock import Clock, OutOfTime
from certiforest.proof.moves_kernels import allows, weigh_moves, weigh_variable
from certiforest.proof.requirements import find
from certiforest.proof.search import QuickLook, Search, cuts_of, parts_of
from certiforest.proof.tables_kernels import new_tables


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


def test_moves_are_weighed_as_they_turn_out():
    rng = random.Random(3)
    for _ in range(100):
        problem, trees = random_problem(rng, 0)
        first, tables = problem.cells.first.tolist(), new_tables(problem.cells, problem.leaves)
        choice = [rng.randrange(a, b) for a, b in itertools.pairwise(first)]
        tables.choice[:], here = choice, gain_of(trees, choice)
        change, of_one = np.empty(first[-1], np.int64), np.empty(first[-1], np.int64)
        assert weigh_moves(problem, tables, change) == here
        for v, ends in enumerate(itertools.pairwise(first)):
            weigh_variable(problem, tables, v, of_one)
            expected = [gain_of(trees, [*choice[:v], c, *choice[v + 1 :]]) - here for c in range(*ends)]
            assert change[slice(*ends)].tolist() == of_one[slice(*ends)].tolist() == expected


@pytest.mark.parametrize("most_numbers", [0, 2**27])
@pytest.mark.parametrize("n_requirements", [1, 2, 3])
def test_several_requirements_are_met_where_they_can_be(monkeypatch, n_requirements, most_numbers):
    """Also where memory ends the search: what is known then is true, but not all."""
    monkeypatch.setattr(requirements, "MOST_NUMBERS", most_numbers)
    rng, n_met, n_open = random.Random(f"several {n_requirements}"), 0, 0
    for _ in range(100):
        problem, trees = random_problem(rng, 0)
        gain = np.array([[rng.randint(-9, 9) for _ in range(n_requirements)] for tree in trees for _ in tree])
        several, start = [], 0
        for tree in trees:
            several.append([(gain[start + k], box) for k, (_, box) in enumerate(tree)])
            start += len(tree)
        need, grows = np.array([rng.randint(-4, 4) for _ in range(n_requirements)]), np.arange(n_requirements) == 0
        first = problem.cells.first
        asked = JointProblem(*problem[:2], gain, need, grows.astype(int), first[:-1], first[1:] - 1)

        def exact(choice, trees=several, need=need):
            surplus = gain_of(trees, choice.tolist()) - need
            return int(surplus[0]) if (surplus[1:] >= 0).all() else None

        values = [value for choice in choices_of(problem) if (value := exact(np.array(choice))) is not None]
        best = max(values, default=-math.inf)
        found, most = (find(asked, exact, Clock(math.inf), resolution=resolution) for resolution in (None, 1))
        for one in (found, most):
            assert one.bound >= best or one.bound < 0 > best
            assert one.reached is None or best >= one.reached == exact(one.choice)
        is_open = found.reached is None and found.bound >= 0
        assert most_numbers == 0 or not is_open == (most.reached or -math.inf) <= most.bound
        if most_numbers:
            assert (found.reached is not None) == (best >= 0)
            assert (most.reached if most.reached is not None else -math.inf) == best
            assert most.bound == best or not values
        n_met, n_open = n_met + (best >= 0), n_open + is_open
    assert 20 < n_met < 100
    assert (n_open > 0) == (most_numbers == 0 and n_requirements > 1)  # one is settled by the first box


@pytest.mark.parametrize("keeps_shared", [False, True])
def test_pairs_of_rows_end_in_pairs_of_leaves(keeps_shared):
    rng, n_doubled = random.Random(f"pairs {keeps_shared}"), 0
    for _ in range(60):
        problem, _ = random_problem(rng, 0)
        cells, leaves, *_ = problem
        first, n = cells.first, len(cells.name)
        doubled = rng.sample(range(n), rng.randint(0, min(n, 2)))
        again = np.concatenate([np.arange(first[-1]), *(np.arange(first[v], first[v + 1]) for v in doubled)])
        twin = np.full(n + len(doubled), -1)
        twin[doubled] = np.arange(n, n + len(doubled))
        ends = np.cumsum([first[-1], *(first[v + 1] - first[v] for v in doubled)])
        home = [cells.home[v] - first[v] + end for v, end in zip(doubled, ends, strict=False)]
        both = Cells(
            np.append(cells.name, doubled), np.append(first, ends[1:]), np.append(cells.home, home).astype(np.int64),
            *(part[again] for part in cells[3:]),
        )  # fmt: skip
        kept = np.array([
            keeps_shared or bool(set(scope.tolist()) & set(doubled))
            for scope in np.split(leaves.scope, leaves.first_scope[1:-1])
        ])  # fmt: skip
        order = Order(-1, True, 0)
        if doubled and rng.random() < 0.5:
            order = Order(doubled[0], rng.random() < 0.5, rng.randrange(first[doubled[0]], first[doubled[0] + 1]))
        pairs = pair_leaves(both, leaves, twin, kept, order)
        tables = leaves_of_pairs(both, pairs)
        for _ in range(30):
            choice = np.array([rng.randrange(a, b) for a, b in itertools.pairwise(both.first.tolist())])
            other = choice[:n].copy()
            for v in doubled:
                other[v] = choice[twin[v]] - both.first[twin[v]] + first[v]
            if order.variable >= 0:
                lower, upper = (rows[order.variable] for rows in ((choice, other) if order.is_up else (other, choice)))
                if not lower <= upper <= order.last:
                    continue
            found = []
            for low, high in itertools.pairwise(tables.first.tolist()):
                (k,) = (k for k in range(low, high) if allows(tables, k, choice))
                found.append((pairs.here[k], pairs.there[k]))
            expected = []
            for t, (low, high) in enumerate(itertools.pairwise(leaves.first.tolist())):
                if kept[t]:
                    expected.append(
                        tuple(next(k for k in range(low, high) if allows(leaves, k, c)) for c in (choice, other))
                    )
            assert found == expected
            n_doubled += any(here != there for here, there in found)
    assert n_doubled > 100
