"""A trial of statements about whole models: what `check` and `measure` say against the library's own predictions.

``python tests/hostile/statements.py --cases 2000 --seed 1`` draws so many small models. Every cell of a domain, whose
ends are often one step beside a threshold, is asked of the library; of the translation nothing is asked but where
thresholds are. Inputs that refute go to the library as they are handed out.
"""

import itertools
import math
import random
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pandas as pd
from sklearn import ensemble as forests
from sklearn.tree import DecisionTreeRegressor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # as pytest does, when this file is run by itself

from certiforest import Domain, Insensitive, ModelError, Monotone, Range, Same, check, measure
from certiforest.formats import doors, scored
from hostile import deployed
from hostile.deployed import N_TRAINING, WORDS, catboost_model, draw_model, lightgbm_model, sklearn_model, xgboost_model
from hostile.judging import Judge, run
from statement_referee import audited

MOST_CELLS = 1_200
# How far from an end scores may be for the answer to be left open; single precision, of sums of ordinary size.
CLOSE, CLOSE_SUMS = 1e-5, 1e-4
LINEAR = {
    "xgboost": ["reg:squarederror", "reg:absoluteerror", "count:poisson", "reg:gamma", "reg:tweedie"],
    "lightgbm": ["regression", "l1", "poisson", "gamma", "tweedie"],
    "catboost": ["RMSE", "MAE", "Poisson", "Tweedie:variance_power=1.5"],
    "histogram": ["squared_error", "absolute_error", "poisson", "gamma"],
}


opened = {}


def open_model(model):
    """Open a model once: what it costs to compare it is not what is tried here."""
    if isinstance(model, str):
        return doors.open_model(model)
    if id(model) not in opened:
        opened[id(model)] = model, doors.open_model(model)
    return opened[id(model)][1]


class OfArrays(deployed.Deployed):
    """A classifier of arrays, as deployed; or of the frame that an encoder takes."""

    @property
    def table(self):
        return self.ask(self.X) if self.kind == "encoded" else self.X

    def given(self, rows):
        """Return what the library takes for rows of codes."""
        return self.ask(rows)

    def handed(self, pair):
        """Return rows of codes, and what the library takes, for inputs that were handed out."""
        if self.kind == "encoded":
            codes = [[*row[:-1], np.nan if pd.isna(row[-1]) else WORDS.index(row[-1])] for row in pair.to_numpy()]
            return np.array(codes, float), pair
        return np.asarray(pair), self.ask(np.asarray(pair))


class OfFrames(deployed.Deployed):
    """A classifier or regressor of a data frame with names, types and categories."""

    def __init__(self, rng):
        self.kind = kind = rng.choice(["tree", "RandomForest", "GradientBoosting", "histogram", *deployed.BOOSTED])
        self._draw_table(rng, may_miss=kind != "GradientBoosting")
        self.is_regressor, self.threshold, n = rng.random() < 0.5, None, self.X.shape[1]
        has_category = kind in ("histogram", *deployed.BOOSTED) and rng.random() < 0.6
        self.category, self.codes = (n, [*map(float, range(len(WORDS)))]) if has_category else (None, None)
        if has_category:
            self.X = np.column_stack([self.X, self.code])
        flags = [f"flag_{i}" for i in range(n - self.n_numbers)]
        self.names = [*(f"f{f}" for f in range(self.n_numbers)), *flags, *["word"] * has_category]
        self.types = {}
        for f in range(n):
            column = self.X[:, f]
            # Forests of this library do not take a single-precision frame in which values are missing.
            is_refused = kind in ("tree", "RandomForest") and np.isnan(self.X).any()
            kinds = ["float64", "float64", "float64" if is_refused else "float32"]
            if not np.isnan(column).any() and (column == np.floor(column)).all():
                kinds += ["int64", "uint8" if column.min() >= 0 else "int8"] + ["bool"] * (f >= self.n_numbers)
            self.types[self.names[f]] = rng.choice(kinds)
        if "float32" in self.types.values():
            self.X[:, :n] = np.float32(self.X[:, :n])
        y, inner = self.y, {}
        if self.is_regressor:
            scale = rng.choice([1.0, 1.0, 100.0, 1e-3])
            y = scale * (y + 0.1 * np.abs(np.random.default_rng(rng.getrandbits(32)).normal(size=N_TRAINING)) + 0.1)
            inner = {"loss_function" if kind == "catboost" else "objective": rng.choice(LINEAR.get(kind, [None]))}
        if kind == "xgboost":
            model = xgboost_model(rng, enable_categorical=True, **inner)
        elif kind == "lightgbm":
            model = lightgbm_model(rng, **inner)
        elif kind == "catboost":
            category = ["word"] if has_category else None
            model = catboost_model(rng, cat_features=category, one_hot_max_size=9, **inner)
        elif kind == "histogram" and self.is_regressor:
            model = forests.HistGradientBoostingRegressor(
                loss=inner["objective"], max_iter=rng.randint(1, 4), max_depth=2, min_samples_leaf=5
            )
        elif self.is_regressor:
            cls = DecisionTreeRegressor if kind == "tree" else getattr(forests, f"{kind}Regressor")
            model = cls(max_depth=rng.choice([1, 2, 3]), random_state=0)
            if kind != "tree":
                model.set_params(n_estimators=rng.randint(1, 5))
        else:
            model = sklearn_model(rng, kind if kind in ("tree", "histogram") else f"{kind}Classifier")
        if self.is_regressor and kind in deployed.BOOSTED:
            model = getattr(sys.modules[kind], type(model).__name__.replace("Classifier", "Regressor"))(
                **{**model.get_params(), **inner}
            )
        if kind == "histogram" and has_category:
            model.set_params(categorical_features="from_dtype")
        self.model = model.fit(self.table, y)
        self.ensemble = open_model(self.model).ensemble

    @property
    def table(self):
        return self.given(self.X)

    def given(self, rows):
        frame = pd.DataFrame({name: rows[:, f] for f, name in enumerate(self.names)})
        for f, name in enumerate(self.names):
            if name == "word":
                words = pd.Series([None if math.isnan(v) else WORDS[int(v)] for v in rows[:, f]], dtype=object)
                frame[name] = words if self.kind == "catboost" else pd.Categorical(words, categories=WORDS)
            elif self.types[name] != "float32" or np.array_equal(np.float32(rows[:, f]), rows[:, f], equal_nan=True):
                frame[name] = frame[name].astype(self.types[name])
        return frame

    def handed(self, pair):
        rows = pair.copy()
        if self.category is not None:
            rows["word"] = [np.nan if pd.isna(word) else WORDS.index(word) for word in pair["word"]]
        return rows.to_numpy(float), pair


class World:
    """A model with a domain, all of its cells, and what the library says there."""

    def __init__(self, rng, model, other=None):
        self.model, self.other = model, other
        self._draw_domain(rng)
        self.rows = self._cells()

    def _draw_domain(self, rng):
        model = self.model
        domain = Domain.from_data(model.table)
        self.low, self.high = domain.low.copy(), domain.high.copy()
        self.integer, self.missing = domain.integer.copy(), domain.missing.copy()
        own, self.values = model.ensemble, {}
        has_names = domain.columns is not None
        for f in range(model.n_numbers):
            if rng.random() < 0.4:
                ends = [self.low[f], self.high[f], *model.cuts(f)]
                steps = [
                    (v, math.nextafter(v, math.inf), float(np.nextafter(np.float32(v), np.float32(9)))) for v in ends
                ]
                low, high = sorted(rng.choice(rng.choice(steps)) for _ in range(2))
                if self.integer[f]:
                    low, high = math.floor(low), math.ceil(high)
                domain = domain.with_range(f, low, high)
                self.low[f], self.high[f] = low, high
            elif rng.random() < 0.15 and has_names and not np.isnan(v := float(rng.choice(model.X[:, f]))):
                domain = domain.fixed(**{domain.columns[f]: v})
                self.low[f] = self.high[f] = v
                self.missing[f] = False
        if model.category is not None:
            if model.kind in ("encoded",) or isinstance(model, OfFrames):
                kept = [WORDS.index(word) for word in domain.values[model.category]]
                if rng.random() < 0.2:
                    kept = [rng.choice(kept)]
                    domain = domain.fixed(**{domain.columns[-1]: WORDS[kept[0]]})
                self.values[model.category] = [*map(float, kept)]
            else:
                kept = rng.sample(model.codes, rng.randint(1, len(model.codes)))
                text = dict(zip(model.codes, [*WORDS, "unseen"], strict=False))
                told = [text[v] for v in kept] if model.kind == "catboost" else kept
                self.values[model.category] = kept
                ends = domain.low.copy(), domain.high.copy()
                ends[0][-1], ends[1][-1] = (math.nan, math.nan) if model.kind == "catboost" else (min(kept), max(kept))
                domain = Domain(
                    *ends,
                    integer=domain.integer,
                    values={model.category: told},
                    groups=domain.groups or None,
                    missing=domain.missing,
                )
        self.groups = [list(group) for group in domain.groups]
        if model.groups and not self.groups and rng.random() < 0.8:
            domain = domain._with(groups=model.groups)
            self.groups = model.groups
        if own.missing_left is None:
            self.missing[:] = False
        elif rng.random() < 0.3 and not isinstance(model, OfFrames):
            for f in range(model.n_numbers):
                self.missing[f] |= rng.random() < 0.5
        self.missing[list(own.required)] = False
        self.domain = domain._with(missing=self.missing.copy())

    def _cells(self):
        model, columns = self.model, []
        models = [model] + ([self.other] if self.other else [])
        for f in range(len(self.low)):
            if f in self.values:
                found = list(self.values[f])
            elif self.integer[f] and self.high[f] - self.low[f] > MOST_CELLS:
                return None
            elif self.integer[f]:
                found = [float(v) for v in range(math.ceil(self.low[f]), math.floor(self.high[f]) + 1)]
            else:
                cuts = {v for m in models for v in m.cuts(f)}
                found = {float(self.low[f]), float(self.high[f])}
                found |= {v for cut in cuts for v in (cut, math.nextafter(cut, math.inf))}
                found = sorted(v for v in found if self.low[f] <= v <= self.high[f])
            columns.append([*found, *([math.nan] if self.missing[f] else [])])
        flags = {f for group in self.groups for f in group}
        units = [[{f: v} for v in columns[f]] for f in range(len(columns)) if f not in flags]
        units += [[{f: float(f == at) for f in group} for at in group] for group in self.groups]
        if math.prod(map(len, units)) > MOST_CELLS:
            return None
        rows = np.zeros((math.prod(map(len, units)), len(columns)))
        for row, chosen in zip(rows, itertools.product(*units), strict=True):
            for values in chosen:
                row[list(values)] = list(values.values())
        return rows

    def outside(self, row):
        """Tell what of a row is outside of the domain, None if nothing is."""
        for f, v in enumerate(row.tolist()):
            if math.isnan(v):
                fits = self.missing[f]
            else:
                fits = v in self.values[f] if f in self.values else self.low[f] <= v <= self.high[f]
                fits = fits and (not self.integer[f] or v == int(v) or f in self.values)
            if not fits:
                return f"{v!r} of column {f}"
        if any(sorted(row[group]) != [0.0] * (len(group) - 1) + [1.0] for group in self.groups):
            return f"{row.tolist()} is not one-hot"
        return None


def is_regressor(model):
    return getattr(model, "is_regressor", False)


def labels_of(model, given):
    return np.ravel(model.model.predict(given))


def scores_of(model, given, outputs):
    """Return the library's scores, or its sums."""
    own = model.model
    if is_regressor(model):
        return np.ravel(own.predict(given)).astype(float)
    if outputs == "probability":
        if not hasattr(own, "predict_proba"):
            return None
        return own.predict_proba(given)[:, 1].astype(float)
    kind = type(own).__module__.split(".")[0]
    if kind == "xgboost":
        return own.predict(given, output_margin=True).astype(float)
    if kind == "lightgbm":
        return np.ravel(own.predict(given, raw_score=True))
    if kind == "catboost":
        return np.ravel(own.predict(given, prediction_type="RawFormulaVal"))
    return np.ravel(own.decision_function(given)) if hasattr(own, "decision_function") else None


def partners(rows, columns):
    """Return the inputs, two by two, that differ in some columns only."""
    alike = {}
    for i, x in enumerate(rows.tolist()):
        alike.setdefault(tuple(repr(v) for f, v in enumerate(x) if f not in columns), []).append(i)
    first, second = [], []
    for same in alike.values():
        first += np.repeat(same, len(same)).tolist()
        second += same * len(same)
    return np.array(first), np.array(second)


def beside(rng, value):
    steps = math.nextafter(value, math.inf), math.nextafter(value, -math.inf)
    return rng.choice([value, value, *steps, value + 1e-3, value - 1e-3])


class Trial:
    """Statements about one world, and what is wrong with what is said of them."""

    def __init__(self, rng, world, outputs, judge, number):
        self.rng, self.world, self.outputs, self.judge, self.number = rng, world, outputs, judge, number
        self.model = model = world.model
        self.s = scores_of(model, model.given(world.rows), outputs)
        self.y = None if is_regressor(model) else labels_of(model, model.given(world.rows))
        size = max(1.0, float(np.abs(self.s).max())) if self.s is not None else 1.0
        self.close = CLOSE * size
        self.tell = {"outputs": outputs, "time_limit": 10.0, "proof": True}

    def find(self, what, detail):
        where = f"{self.model.kind} {type(self.model.model).__name__} {type(self.model).__name__} {self.outputs}"
        self.judge.find(self.number, f"{where}: {what}", str(detail)[:600])

    def expect(self, statement, is_true, margin, shows):
        """Judge one answer: how far the statement is from the other answer; ``shows`` judges inputs as handed out.

        Where rounding alone decides, ``is_true`` is None.
        """
        results = check(self.model.model, statement, self.world.domain, **self.tell)
        (result,) = results
        self.audit(results, getattr(statement, "other", None))
        kind, said = type(statement).__name__, f"{statement}: {result.holds}, is {is_true} by {margin}; {result.bounds}"
        if is_true is not None and result.holds is None and margin > self.close:
            self.find(f"{kind} left open", said)
        if is_true is not None and result.holds is (not is_true) and (result.holds or margin > self.close):
            self.find(f"{kind} wrong", said)
        if result.holds is False:
            self.judge_pair(statement, result.pair, shows)
        self.judge.note(f"{kind} {result.holds}{' close' * (is_true is None)}")

    def audit(self, found, other=None):
        """Judge certificates: all that is decided, or measured, has one that the auditor confirms."""
        ensembles = [self.model.ensemble, *([] if other is None else [open_model(other).ensemble])]
        for doubt in audited(found, *ensembles):
            if "without a proof" in doubt:
                self.judge.note(f"no proof: {self.model.kind} {doubt[:60]}")
            else:
                self.find("not confirmed by the auditor", doubt)

    def judge_pair(self, name, pair, shows, columns=None):
        rows, given = self.model.handed(pair)
        for row in rows:
            if (wrong := self.world.outside(row)) is not None:
                self.find("outside the domain", f"{name}: {wrong}")
        if columns is None:
            columns = getattr(name, "columns", None) or ([name.column] if hasattr(name, "column") else [])
        if len(rows) == 2:
            differs = [f for f, (a, b) in enumerate(rows.T.tolist()) if repr(a) != repr(b)]
            if set(differs) - set(columns):
                self.find("differ elsewhere", f"{name}: {rows.tolist()}")
        if hasattr(pair, "dtypes") and isinstance(self.model, OfFrames):
            told = self.model.table.dtypes
            wrong = [
                str(kind) for column, kind in pair.dtypes.items() if kind not in (told[column], "float64", "object")
            ]
            if list(pair.columns) != self.model.names or wrong:
                self.find("another table", f"{name}: {wrong}")
        if not shows(given, rows):
            self.find("not confirmed", f"{name}: {rows.tolist()}")

    def range(self):
        low, high = float(self.s.min()), float(self.s.max())
        ends = sorted(
            [beside(self.rng, low), beside(self.rng, self.rng.choice([high, high, float(np.median(self.s))]))]
        )
        if self.outputs == "probability" and not is_regressor(self.model):
            ends = [min(max(e, 1e-9), 1 - 1e-9) for e in ends]
        ends = self.rng.choice([ends, ends, [-math.inf, ends[1]], [ends[0], math.inf]])
        a, b = ends

        def score(given):
            return scores_of(self.model, given, self.outputs)[0]

        margin = max(a - low, high - b)
        self.expect(Range(a, b), margin <= 0, abs(margin), lambda given, _: not a <= score(given) <= b)
        found = measure(self.model.model, "range", self.world.domain, **self.tell)
        self.audit(found)
        (low_proved, low_reached), (reached, proved) = found.bounds
        if not (low_proved <= low and high <= proved):
            self.find("range does not enclose", f"{found.bounds}, {low} to {high}")
        if low_reached > low + 10 * self.close or reached < high - 10 * self.close:
            self.find("range not reached", f"{found.bounds}, {low} to {high}")
        for value, pair in zip((low_reached, reached), found.pair, strict=True):
            self.judge_pair("range", pair, lambda given, _, value=value: abs(score(given) - value) <= self.close, [])
        self.judge.note("range measured")

    def insensitive(self):
        columns = self.columns()
        i, j = partners(self.world.rows, columns)
        if self.y is not None:
            differ, gap = self.y[i] != self.y[j], 0.0
            if differ.any() and self.s is not None:  # undecided may be what float sums decide within rounding of a tie
                tie = self.tie()
                gap = float(np.minimum(abs(self.s[i] - tie), abs(self.s[j] - tie))[differ].max())

            def differs(given, _):
                return len({*labels_of(self.model, given).tolist()}) == 2

            self.expect(Insensitive(columns), not differ.any(), gap, differs)
        if self.s is None:
            return
        k = self.rng.randrange(len(i))
        low, high = sorted([beside(self.rng, self.s[i[k]]), beside(self.rng, self.s[j[k]])])
        if self.outputs == "probability" and not is_regressor(self.model):
            low, high = (min(max(v, 1e-6), 1 - 1e-6) for v in (low, high))
        margin = float(np.minimum(self.s[i] - high, low - self.s[j]).max())

        def shows(given, _):
            one, other = scores_of(self.model, given, self.outputs)
            return one >= high and other <= low

        self.expect(Insensitive(columns, float(low), float(high)), margin < 0, abs(margin), shows)
        found = measure(self.model.model, "gap", self.world.domain, columns=columns, **self.tell)
        self.audit(found)
        self.judge_most("gap", found, float((self.s[i] - self.s[j]).max()), columns)

    def tie(self):
        return 0.0 if self.outputs == "score" and self.s.min() < 0 else 0.5

    def judge_most(self, name, found, true, columns, other=None):
        reached, proved = found.bounds
        if proved < true:
            self.find(f"{name} does not enclose", f"{found.bounds}, is {true!r}, off {true - proved}")
        if not true - 10 * self.close <= reached <= true + self.close:
            self.find(f"{name} not as reached", f"{found.bounds}, is {true!r}")

        def shows(given, _):
            one = scores_of(self.model, given, self.outputs)
            there = one[1] if other is None else scores_of(other, given, self.outputs)[0]
            here = one[0]
            found = abs(here - there) if other is not None else here - there
            return abs(found - reached) <= self.close

        if found.pair is not None:
            self.judge_pair(name, found.pair, shows, columns)
        self.judge.note(f"{name} measured")

    def columns(self):
        grouped = {f for group in self.world.groups for f in group}
        units = [[f] for f in range(len(self.world.low)) if f not in grouped] + self.world.groups
        return sorted(f for unit in self.rng.sample(units, self.rng.randint(1, len(units))) for f in unit)

    def monotone(self):
        c, way = self.rng.randrange(self.model.n_numbers), self.rng.choice(["up", "down"])
        i, j = partners(self.world.rows, [c])
        x, sign = self.world.rows[:, c].copy(), 1 if way == "up" else -1
        if c in (self.model.ensemble.blanks or {}):  # what counts as missing has no order
            first, last = self.model.ensemble.blanks[c]
            x[(first <= x) & (x <= last)] = np.nan
        inside = sign * x[i] <= sign * x[j]
        if not inside.any():
            return
        i, j = i[inside], j[inside]
        fall = float((self.s[i] - self.s[j]).max())
        tolerance = self.rng.choice([0.0, 0.0, 0.05, max(0.0, beside(self.rng, fall))])

        def shows(given, rows):
            one, other = scores_of(self.model, given, self.outputs)
            slack = 1e-7 if self.outputs == "probability" and tolerance == 0 else 0.0
            return one - other >= tolerance - slack and sign * rows[0][c] <= sign * rows[1][c]

        is_true = None if 0 < fall - tolerance < self.close else fall <= tolerance
        self.expect(Monotone(c, way, tolerance), is_true, abs(fall - tolerance), shows)
        found = measure(self.model.model, "fall", self.world.domain, column=c, direction=way, **self.tell)
        self.audit(found)
        self.judge_most("fall", found, fall, [c])

    def same(self, other):
        given = self.model.given(self.world.rows)
        theirs = None if self.s is None else scores_of(other, given, self.outputs)
        if self.y is not None:
            differ, gap = labels_of(other, given) != self.y, 0.0

            def shows(given, _):
                return labels_of(self.model, given)[0] != labels_of(other, given)[0]

            if differ.any() and theirs is not None:
                tie = self.tie()
                gap = np.minimum(abs(self.s - tie), abs(theirs - tie))[differ].max()
            self.expect(Same(other.model), None if differ.any() and gap <= self.close else not differ.any(), gap, shows)
        if theirs is None:
            return
        gap = float(abs(self.s - theirs).max())
        tolerance = self.rng.choice([0.0, 0.02, abs(beside(self.rng, gap))])

        def shows(given, _):
            one, there = (scores_of(model, given, self.outputs)[0] for model in (self.model, other))
            return abs(one - there) > tolerance

        is_true = None if abs(gap - tolerance) < self.close else gap <= tolerance
        self.expect(Same(other.model, tolerance), is_true, abs(gap - tolerance), shows)
        found = measure(self.model.model, "difference", self.world.domain, other=other.model, **self.tell)
        self.audit(found, other.model)
        self.judge_most("difference", found, gap, [], other)

    def copies(self):
        """A model is the same as what was saved of it."""
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "copy.json")
            self.model.ensemble.save(path)
            statements = [] if self.y is None else [Same(path)]
            if self.s is not None and self.outputs == "score" and not is_regressor(self.model):
                statements.append(Same(path, 0.0))
            for statement in statements:
                self.expect(statement, True, math.inf, lambda *_: False)


def draw(rng):
    if rng.random() < 0.5:
        return OfFrames(rng)
    model = draw_model(rng)
    model.__class__ = OfArrays
    return model


def refit(model, rng):
    """Return the model of another target of the same table."""
    import copy

    from sklearn.base import clone

    other = copy.copy(model)
    y = model.y.copy() if not is_regressor(model) else model.X[:, 0]
    if is_regressor(model):
        y = np.nan_to_num(np.abs(y)) + 0.5
    else:
        places = rng.sample(range(N_TRAINING), 25)
        y[places] = np.random.default_rng(rng.getrandbits(32)).permutation(y[places])
    options = {}
    if isinstance(model, OfArrays) and model.kind == "lightgbm" and model.category is not None:
        options = {"categorical_feature": [model.category]}
    own = model.model.copy() if model.kind == "catboost" else clone(model.model)
    other.model = own.fit(model.given(model.X), y, **options)
    other.ensemble = open_model(other.model).ensemble
    return other


def judge_model(rng, number, judge):
    """Judge statements about one model; return its kind."""
    try:
        model = draw(rng)
        if model.threshold is not None:
            model.threshold = None
        model.ensemble = open_model(model.model).ensemble
        other = refit(model, rng) if rng.random() < 0.4 else None
    except ModelError as error:
        judge.check_sentence(number, str(error))
        return f"refused: {str(error)[:50]}"
    world = World(rng, model, other)
    if world.rows is None:
        return "too large"
    name = f"{model.kind}{' regressor' * is_regressor(model)}{' of a frame' * isinstance(model, OfFrames)}"
    two = is_regressor(model) or len(model.model.classes_) == 2
    outputs = ["probability"]
    if not is_regressor(model) and two and hasattr(model.model, "predict_proba"):
        outputs += ["score"]
    trial = Trial(rng, world, rng.choice(outputs), judge, number)
    if "AdaBoost" in type(model.model).__name__:  # has sums that it divides, and no probability that they stand for
        trial.s = None
    if not two:
        trial.s = None
        trial.insensitive()
    else:
        trials = [trial.range, trial.insensitive, trial.monotone] if trial.s is not None else [trial.insensitive]
        for judged in trials:
            judged()
    if other is not None:
        trial.same(other)
    trial.copies()
    return name


def trial(n_cases, seed, judge=None):
    """Judge so many models."""
    judge, kinds = judge or Judge(), Counter()
    for number in judge.cases(n_cases):
        opened.clear()
        try:
            with warnings.catch_warnings(), patch.object(scored, "open_model", open_model):
                warnings.simplefilter("ignore", UserWarning)
                kinds[judge_model(random.Random(f"statements {seed}-{number}"), number, judge)] += 1
        except Exception as error:
            # Calibrated probabilities that it never says; one-hot columns, some number of which counts as missing.
            if "calibrated probabilities" in str(error) or "numbers that count as missing" in str(error):
                judge.note("refused")
            else:
                judge.find(number, "traceback", repr(error)[:400])
    judge.remark = "models: " + ", ".join(f"{kind} {n:,}" for kind, n in sorted(kinds.items())) + "\n"
    return judge


if __name__ == "__main__":
    run(trial, __doc__.splitlines()[0])
