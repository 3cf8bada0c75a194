"""A trial of models as they are deployed: verdicts against every cell near a row, asked of the library's own predict.

``python tests/hostile/deployed.py --cases 100000 --seed 1`` takes any number of rows, 40 for each small model. Of the
translation nothing is asked but where thresholds are, and values of training rows are tried beside them. What a float
sum decides within rounding of a tie is left to the exact sum, and counted.
"""

import itertools
import math
import random
import sys
import warnings
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn import ensemble as forests
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, OrdinalEncoder, RobustScaler, StandardScaler
from sklearn.tree import DecisionTreeClassifier

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # as pytest does, when this file is run by itself

import cases
import oracle
from certiforest import ModelError, as_ensemble, certify
from certiforest.ensemble.categories import hash_of, text_of
from hostile.judging import Judge, run
from referee import judge_radius

N_ROWS, N_TRAINING, MOST_CELLS = 40, 90, 2_500
WORDS = ["ash", "elm", "fir", "oak"]  # in the order of encoders
TREES = "tree", "RandomForestClassifier", "ExtraTreesClassifier", "GradientBoostingClassifier", "histogram"
BOOSTED = "xgboost", "lightgbm", "catboost"
KINDS = *TREES, *BOOSTED, "pipeline", "encoded", "wrapper"


def sklearn_model(rng, kind):
    options = {"random_state": rng.randrange(99), "max_depth": rng.choice([1, 2, 3])}
    if kind == "tree":
        return DecisionTreeClassifier(**options)
    if kind == "histogram":
        return forests.HistGradientBoostingClassifier(**options, max_iter=rng.randint(1, 4), min_samples_leaf=5)
    return getattr(forests, kind)(n_estimators=rng.randint(1, 5), **options)


def xgboost_model(rng, **options):
    import xgboost

    options |= rng.choice([{}, {}, {"booster": "dart", "rate_drop": 0.4}, {"num_parallel_tree": 2, "subsample": 0.6}])
    options |= {"n_estimators": rng.randint(1, 4), "max_depth": rng.choice([1, 2, 3]), "n_jobs": 1}
    return xgboost.XGBClassifier(learning_rate=0.7, random_state=rng.randrange(99), **options)


def lightgbm_model(rng, **options):
    import lightgbm

    options |= {"n_estimators": rng.randint(1, 4), "num_leaves": rng.choice([2, 4, 6]), "n_jobs": 1, "verbose": -1}
    options |= {"min_child_samples": 4, "min_data_per_group": 5, "min_data_in_bin": 1, "cat_smooth": 1}
    return lightgbm.LGBMClassifier(learning_rate=0.5, **options)


def catboost_model(rng, **options):
    import catboost

    options |= {"iterations": rng.randint(1, 4), "depth": rng.choice([1, 2, 3]), "random_seed": rng.randrange(99)}
    options |= {"verbose": 0, "thread_count": 1, "allow_writing_files": False, "border_count": 8}
    policy = rng.choice(["SymmetricTree", "SymmetricTree", "Lossguide", "Depthwise"])
    return catboost.CatBoostClassifier(learning_rate=0.6, grow_policy=policy, **options)


class Deployed:
    """A fitted model of a library, with the table that it was trained on.

    Numbers of the table are on a grid, some whole, some missing; then may come one-hot columns, and a category.
    """

    def __init__(self, rng):
        self.kind = kind = rng.choice(KINDS)
        has_category = kind == "encoded" or (kind in ("histogram", *BOOSTED) and rng.random() < 0.5)
        self._draw_table(rng, may_miss=kind in ("tree", "RandomForestClassifier", "histogram", *BOOSTED, "encoded"))
        self.category, self.codes = (self.X.shape[1], [0.0, 1.0, 2.0, 3.0, 4.0]) if has_category else (None, None)
        rows, options, category = self.X, {}, [self.category] * has_category
        if has_category:
            if kind == "catboost":
                self.codes = [hash_of(word) for word in [*WORDS, "unseen"]]
            if kind == "encoded":
                self.codes.pop()  # nobody goes to what encoders do not know
            self.X = rows = np.column_stack([rows, np.array(self.codes)[self.code]])
        if kind in TREES:
            self.model = sklearn_model(rng, kind)
            if has_category:
                self.model.set_params(categorical_features=category)
        elif kind == "xgboost":
            types = {"enable_categorical": True, "feature_types": ["q"] * (rows.shape[1] - 1) + ["c"]}
            takes_zero = not (has_category or self.groups or self.integer) and rng.random() < 0.4
            types = types | {"max_cat_to_onehot": rng.choice([1, 9])} if has_category else {}
            self.model = xgboost_model(rng, **types, **({"missing": 0.0} if takes_zero else {}))
        elif kind == "lightgbm":
            takes_zero = not (has_category or self.groups or self.integer) and rng.random() < 0.4
            self.model = lightgbm_model(rng, zero_as_missing=takes_zero)
            options = {"categorical_feature": category} if has_category else {}
        elif kind == "catboost":
            rows = self.ask(rows)
            self.model = catboost_model(rng, cat_features=category, one_hot_max_size=9)
        elif kind == "pipeline":
            inner = rng.choice([sklearn_model(rng, rng.choice(TREES)), xgboost_model(rng), lightgbm_model(rng)])
            steps = [rng.choice([StandardScaler(), MinMaxScaler(), RobustScaler(), SimpleImputer()]) for _ in range(2)]
            self.model = make_pipeline(*steps[: rng.randint(1, 2)], inner)
            if rng.random() < 0.2:
                self.model = GridSearchCV(self.model, {f"{self.model.steps[0][0]}__copy": [True]}, cv=2)
        elif kind == "encoded":
            numbers = make_pipeline(SimpleImputer(), *rng.choice([[], [StandardScaler()]]))
            encoder = rng.choice([
                OneHotEncoder(handle_unknown="ignore"), OneHotEncoder(drop="first"), OneHotEncoder(max_categories=2),
                OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1),
            ])  # fmt: skip
            rows = self.ask(rows)
            parts = [("numbers", numbers, [*rows.columns[:-1]]), ("category", encoder, [rows.columns[-1]])]
            inner = rng.choice([sklearn_model(rng, rng.choice(TREES)), lightgbm_model(rng)])
            self.model = make_pipeline(ColumnTransformer(parts, sparse_threshold=0), inner)
        else:
            tree, forest = sklearn_model(rng, "tree"), sklearn_model(rng, "RandomForestClassifier")
            of_two = [
                CalibratedClassifierCV(forest, ensemble=False, cv=2),
                FixedThresholdClassifier(rng.choice([forest, xgboost_model(rng)]), threshold=rng.choice([0.3, 0.6])),
            ]
            self.model = rng.choice([
                forests.VotingClassifier([("a", tree), ("b", forest)], voting="soft", weights=[1, 2]),
                forests.VotingClassifier([("a", tree), ("b", sklearn_model(rng, "tree"))], voting="hard"),
                forests.BaggingClassifier(tree, 3, random_state=1), forests.AdaBoostClassifier(tree, n_estimators=3),
                *(of_two if self.y.max() == 1 else []),
            ])  # fmt: skip
        self.model.fit(rows, self.y, **options)
        takes_threshold = kind in ("RandomForestClassifier", "xgboost", "lightgbm") and self.y.max() == 1
        self.threshold = rng.choice([0.25, 0.4, 0.7]) if takes_threshold and rng.random() < 0.2 else None
        self.ensemble = as_ensemble(self.model, threshold=self.threshold)

    def _draw_table(self, rng, *, may_miss):
        draw = np.random.default_rng(rng.getrandbits(32))
        self.n_numbers = n = rng.choice([1, 2, 2, 3])
        self.integer, step = [f for f in range(n) if rng.random() < 0.3], rng.choice([1 / 8, 0.1, 0.37, 10.0])
        units = [1.0 if f in self.integer else step for f in range(n)]
        self.X, self.groups = draw.integers(-2, 5, (N_TRAINING, n)) * units, []
        if rng.random() < 0.35:
            self.groups = [list(range(n, n + rng.choice([2, 3])))]
            self.X = np.column_stack(
                [self.X, np.eye(len(self.groups[0]))[draw.integers(len(self.groups[0]), size=N_TRAINING)]]
            )
        self.code = draw.integers(len(WORDS), size=N_TRAINING)
        signal = self.X @ draw.normal(size=self.X.shape[1]) + (self.code % 2) * self.X.std()
        self.y = np.searchsorted(np.quantile(signal, rng.choice([[0.5], [0.5], [0.35, 0.7]])), signal)
        if may_miss and rng.random() < 0.6:
            self.X[:, :n][draw.random((N_TRAINING, n)) < 0.2] = math.nan

    def ask(self, rows):
        """Return what the model takes for rows."""
        if self.kind not in ("catboost", "encoded") or self.category is None:
            return rows
        text, cells = dict(zip(self.codes, [*WORDS, "unseen"], strict=False)), rows.astype(object)
        other = (lambda number: text_of(int(number))) if self.kind == "catboost" else (lambda _: math.nan)
        column = [text.get(number) or other(number) for number in rows[:, -1].tolist()]
        if self.kind == "catboost":
            cells[:, -1] = column
            return cells
        return pd.DataFrame({f"f{f}": values for f, values in enumerate([*rows.T[:-1], np.array(column, object)])})

    def cuts(self, f):
        """Return the thresholds of a column of numbers."""
        own = self.ensemble
        return np.unique(own.threshold[(own.feature == f) & (np.abs(own.threshold) < 1e300)]).tolist()

    def draw_rows(self, rng):
        """Draw training rows, with some values at thresholds and beside them."""
        rows = self.X[[rng.randrange(N_TRAINING) for _ in range(N_ROWS)]].copy()
        for row in rows:
            if self.category is not None:
                row[-1] = rng.choice(self.codes)
            for f in range(self.n_numbers):
                if not math.isnan(row[f]) and self.cuts(f) and rng.random() < 0.6:
                    v = rng.choice(self.cuts(f))
                    row[f] = rng.choice([v, math.nextafter(v, math.inf), v + rng.choice([-0.05, 0.03, 0.4])])
                    row[f] = math.floor(row[f]) if f in self.integer else row[f]
        return rows

    def labels(self, rows):
        """Return what the library says, the exact sum where floats decide a tie, and how many of these there are."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            if self.threshold is None:
                theirs = np.ravel(self.model.predict(self.ask(rows)))
            else:
                theirs = (self.model.predict_proba(self.ask(rows))[:, 1] >= self.threshold).astype(int)
        ours = self.ensemble.predict(rows)
        places = np.flatnonzero(theirs != ours)
        if not len(places) or self.ensemble.combine == "vote":
            return theirs, 0
        sums = self.ensemble.decision_function(rows[places])
        columns = np.sort(np.column_stack([np.zeros(len(sums)), sums]) if sums.ndim == 1 else sums, axis=1)
        is_single = self.kind in ("xgboost", "wrapper", "pipeline")
        slack = 2.0**-16 if is_single or self.kind == "lightgbm" else 2.0**-45
        bound = self.ensemble.rounding_bound(np.float32 if is_single else np.float64) + slack
        places = places[columns[:, -1] - columns[:, -2] <= bound]
        theirs[places] = ours[places]
        return theirs, len(places)


def draw_case(rng, model, rows):
    """Draw an attacker, as a case of the oracle for the first row; its trees are cuts."""
    own, plain = model.ensemble, range(model.n_numbers)
    cuts = [(f, v) for f in plain for v in model.cuts(f)] + [(f, 0.5) for group in model.groups for f in group]
    if rng.random() < 0.5:  # values that the translation knows nothing of
        cuts += [(f, v) for f in plain for v in np.unique(model.X[:, f])[:4].tolist() if not math.isnan(v)]
    cuts += [(f, 0.0) for f in plain if (own.feature == f).any() and not len(model.cuts(f))]  # asked if it is missing
    x, norm = [0.0 if math.isnan(v) else v for v in rows[0]], rng.choice([0, 1, 2, math.inf])
    case = oracle.Case([(*cut, 0, 0) for cut in cuts], own.n_features, own.n_classes, x, norm, 0.0)
    case = replace(case, blanks=own.blanks, required=tuple(own.required))
    sets = [(model.category, frozenset([code]), 0, 0) for code in model.codes or ()]
    codes, names = ({model.category: model.codes}, (own.categories or {}).get(model.category)) if sets else (None, None)
    if names:  # nobody goes to a value that is not among them
        codes = {model.category: model.codes[: len(names)]}
    told = {"trees": case.trees + sets, "codes": codes, "names": {model.category: names} if names else None}
    frozen = [f for f in plain if rng.random() < 0.4] if rng.random() < 0.3 else []
    if model.groups and rng.random() < 0.8:
        case = replace(case, groups=model.groups)
    else:
        frozen += [f for group in model.groups for f in group]
    if rng.random() < 0.15 and not np.isnan(rows).any() and own.blanks is None:
        rules = {f: cases._rules(rng, [*model.cuts(f), x[f]], [1, 2, 3]) for f in plain if rng.random() < 0.8}
        for g, group in enumerate(case.groups or []):
            places = [*map(float, range(len(group)))]
            rules[-1 - g] = [(False, rng.sample(places, 2), rng.choice(places), rng.choice([1, 2]))]
        if rules:
            return replace(case, **told, norm=1, rules=rules, eps=float(rng.choice([0, 1, 2, 3, 5])))
    case = replace(case, frozen=frozen or None)
    if rng.random() < 0.3:
        case = replace(case, scale=[rng.choice([1.0, 0.5, 2.0, 0.3]) for _ in x])
        if rng.random() < 0.5:
            case = replace(case, scale_up=[s * rng.choice([1, 0.5, 3.0]) for s in case.scale])
        for group, scale in itertools.product(model.groups, filter(None, (case.scale, case.scale_up))):
            scale[group[0] : group[-1] + 1] = [case.scale[group[0]]] * len(group)
    if rng.random() < 0.4 and model.integer:
        case = replace(case, integer=model.integer)
    if rng.random() < 0.4:
        case = replace(case, direction={f: rng.choice(["up", "down", "both"]) for f in plain if rng.random() < 0.7})
    if rng.random() < 0.35:
        filled = np.where(np.isnan(rows), 0.0, rows)
        room = np.array([rng.choice([0, 1]) if f < model.n_numbers else 0 for f in range(len(x))])
        low, high = np.floor(filled.min(axis=0)) - room, np.ceil(filled.max(axis=0)) + room
        for group in model.groups:
            low[group], high[group] = 0, 1
        case = replace(case, domain=(low.tolist(), high.tolist()))
    if own.missing_left is not None and rng.random() < 0.4:
        case = replace(case, missing=rng.choice([0.25, 1.0, 2.0]))
    if codes and rng.random() < 0.6:
        case = replace(case, categories={model.category: rng.choice([0.5, 1.0, 2.0])})
    return replace(case, **told, eps=cases._eps(rng, case))


def cells(case):
    """Return a row for each cell that the attacker can go to, prices as floats, and the exact prices of all moves."""
    choices = oracle.choices(case)
    if math.prod(map(len, choices)) > MOST_CELLS:
        return None
    places = np.array([*itertools.product(*(range(len(choice)) for choice in choices))], int).reshape(-1, len(choices))
    rows, prices = np.tile(np.array(case.x), (len(places), 1)), np.zeros(len(places))
    for place, choice in zip(places.T, choices, strict=True):
        for f in {f for values, _ in choice for f in values}:
            rows[:, f] = np.array([values[f] for values, _ in choice])[place]
        own = np.array([float(price) for _, price in choice])[place]
        prices = np.maximum(prices, own) if case.norm == math.inf else prices + own
    return rows, prices, [[choice[i][1] for i, choice in zip(place, choices, strict=True)] for place in places.tolist()]


def draw_model(rng):
    """Draw a model; a calibration that turns the order has no threshold, and is refused."""
    try:
        return Deployed(rng)
    except ModelError as error:
        if "calibrat" not in str(error):
            raise
        return draw_model(rng)


def judge_model(rng, number, judge):
    """Judge the rows of one model; return its kind, and how many cells were at ties."""
    model = draw_model(rng)
    rows = model.draw_rows(rng)
    case, every = draw_case(rng, model, rows), []
    blanks = (case.blanks or {}).items()
    for x in rows.tolist():
        gone = {f for f, (low, high) in blanks if low <= x[f] <= high}
        every.append(replace(case, x=[math.nan if f in gone else v for f, v in enumerate(x)]))
    found = [cells(one) for one in every]
    if any(one is None for one in found):
        return judge_model(rng, number, judge)
    attacker, has_radius = cases.attacker_of(case), case.rules is None and rng.random() < 0.5
    c = certify(model.ensemble, rows, None, attacker, witness=True, radius=has_radius, time_limit=20)
    labels, n_ties = model.labels(np.vstack([rows, *(made for made, _, _ in found)]))
    start = len(rows)
    for i, (one, (made, prices, exact)) in enumerate(zip(every, found, strict=True)):
        flips, best = np.flatnonzero(labels[start : start + len(made)] != labels[i]), None
        start += len(made)
        if len(flips):
            near = flips[prices[flips] <= prices[flips].min() * (1 + 1e-9)]
            best = min(oracle.total(one, exact[j] or [0]) for j in near.tolist())
        wrong = [] if c.prediction[i] == labels[i] else [f"predicts {c.prediction[i]}, not {labels[i]}"]
        is_stable = best is None or best > oracle.budget(one, one.eps)
        if c.stable[i] >= 0 and c.stable[i] != is_stable:
            wrong.append(f"stable is {c.stable[i]}, should be {is_stable}")
        if c.stable[i] == 0:
            wrong += judge_witness(model, one, labels[i], c.witness[i])
        if has_radius:
            wrong += judge_radius(one, best, float(c.radius[i]), float(c.radius_upper[i]))
        if wrong:
            judge.find(number, f"{model.kind}, row {i}", f"{'; '.join(wrong)}: {attacker!r} {rows[i].tolist()}")
        else:
            verdict = ("unknown", "unstable", "stable")[c.stable[i] + 1]
            judge.note(f"{verdict}{' with radius' * has_radius}{' by rules' * (case.rules is not None)}")
    return model.kind, n_ties


def judge_witness(model, case, own, witness):
    """The library must predict otherwise there, and the attacker must get there."""
    wrong = [] if model.labels(witness[None])[0][0] != own else ["the library does not confirm the witness"]
    if case.codes and not case.names:  # a value that is in no set is as good as the one that was tried
        case = replace(case, codes={f: [*values, witness[f]] for f, values in case.codes.items()})
    price = oracle.price_of_row(case, witness.tolist())
    if price is None or price > oracle.budget(case, case.eps):
        wrong.append(f"the witness {witness.tolist()} is out of reach: {price}")
    return wrong


def trial(n_cases, seed, judge=None):
    """Judge models until ``n_cases`` rows were judged."""
    judge, kinds, n_ties = judge or Judge(), Counter(), 0
    for number in judge.cases(-(-n_cases // N_ROWS)):
        try:
            kind, n = judge_model(random.Random(f"deployed {seed}-{number}"), number, judge)
        except Exception as error:
            judge.find(number, "traceback", repr(error))
            continue
        kinds[kind] += 1
        n_ties += n
    models = ", ".join(f"{kind} {n:,}" for kind, n in sorted(kinds.items()))
    judge.remark = f"{sum(kinds.values()):,} models ({models}), {n_ties:,} cells at ties of floats\n"
    return judge


if __name__ == "__main__":
    run(trial, __doc__.splitlines()[0])
