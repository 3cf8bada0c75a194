"""LightGBM's classifiers, from objects and from the text files they are saved to.

The text is read as data, without LightGBM. Rows are compared in float64, ``x <= v`` goes left, but a number of at most
1e-35 (as float32) either side of zero is zero to LightGBM; thresholds are moved so that they act the same on rows as
they are. An object is written to text in memory, read the same way, and compared.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from certiforest.ensemble import ModelError, Nodes, TreeEnsemble
from certiforest.ensemble.documents import read_json, sound
from certiforest.ensemble.numbers import NUMBER
from certiforest.ensemble.scores import ScoreTable
from certiforest.ensemble.tree_kernels import LARGEST
from certiforest.formats.opened import LOGISTIC_SLACK, Opened, check_fitted, log_odds, of_one_kind
from certiforest.words import shown

LIGHTGBM_HEADER = b"tree"
# What a prediction was as a sum, by objective.
REGRESSION: dict[str, Callable[[float], float]] = dict.fromkeys(
    ("regression", "regression_l1", "huber", "fair", "quantile", "mape"), float
)
REGRESSION |= dict.fromkeys(("poisson", "gamma", "tweedie"), math.log)
WITHOUT_VALUE = ("tree", "average_output", "end of trees")
ZERO = float(np.float32(1e-35))  # numbers up to here are zero
BELOW_ZERO = math.nextafter(-ZERO, -math.inf)
IS_CATEGORICAL, GOES_LEFT, IS_MISSING = 1, 2, 12  # bits of decision_type
ZERO_IS_MISSING = 4  # the other values under IS_MISSING tell about NaN only, but for the largest, which means nothing
WORD = re.compile(r"[0-9]{1,10}")
WHOLE_NUMBER = re.compile(r"-?[0-9]{1,9}")

# Probabilities of one class against the rest come close to one, where float64 tells them apart only if their sums are
# PROBABILITY_SLACK["multiclassova"] apart. Beyond this sum even that does not suffice.
LARGEST_SIGMOID_SUM = 24.0
PROBABILITY_SLACK = {"multiclassova": 2.0**-16} | {name: 0.0 for name in REGRESSION if REGRESSION[name] is float}


def content_of_lightgbm(model: Any) -> str:
    """Return all that decides what a fitted ``LGBMClassifier`` or ``Booster`` predicts, as text."""
    import lightgbm

    if isinstance(model, lightgbm.Booster):
        return model.model_to_string()
    check_fitted(model, lightgbm.LGBMClassifier, lightgbm.LGBMRegressor)
    if model.get_params().get("pred_early_stop", False) not in (False, None):
        raise ModelError(
            "Expected predictions by all trees, got pred_early_stop, with which LightGBM leaves out the last ones row"
            " by row; call set_params(pred_early_stop=False)."
        )
    return model.booster_.model_to_string()


def open_lightgbm(model: Any, content: str) -> Opened:
    """Translate a model, given its content."""
    booster, classes = getattr(model, "booster_", model), getattr(model, "classes_", None)
    opened = _Parser(content).parse(classes)

    def score(rows: NDArray) -> NDArray:
        return np.asarray(booster.predict(rows))

    def predict(rows: NDArray) -> NDArray:
        if classes is not None:
            return model.predict(rows)
        value = score(rows)
        return value.argmax(axis=1) if value.ndim == 2 else (value > 0.5).astype(np.int64)

    def raw(rows: NDArray) -> NDArray:
        return np.asarray(booster.predict(rows, raw_score=True))

    return opened._replace(name=type(model).__name__, predict=predict, raw=raw, score=score)


def parse_lightgbm(content: bytes | str, *, source: str = "the text") -> Opened:
    """Read what ``save_model`` writes; ``source`` names it in errors. Classes are numbered from 0."""
    with sound(source, "LightGBM classifier"):
        try:
            text = content.decode() if isinstance(content, bytes) else content
        except UnicodeDecodeError as error:
            raise ModelError(f"Expected UTF-8 text, got something else ({error}).") from None
        return _Parser(text).parse(None)


class _Parser:
    """Reads a model: a header, then trees, each of lines ``name=values``."""

    def __init__(self, text: str) -> None:
        self._lines: Iterator[str] = iter(text.split("\n"))
        self._position = 0  # bytes read
        self._start = 0  # where the last section starts

    def _section(self) -> dict[str, str]:
        """Return the next lines up to an empty one as names and values."""
        section: dict[str, str] = {}
        for line in self._lines:
            start, self._position = self._position, self._position + len(line.encode()) + 1
            if not line:
                if section:
                    break
                continue
            self._start = self._start if section else start
            name, equals, value = line.partition("=")
            if not (equals or name in WITHOUT_VALUE) or name != name.strip():  # LightGBM would leave off here
                raise ModelError(f"Expected lines of the form name=value, got {shown(line)}.")
            if name in section:
                raise ModelError(f"Expected every name once, got {shown(name)} twice.")
            section[name] = value.strip()
        return section

    def parse(self, classes: ArrayLike | None) -> Opened:
        header = self._section()
        if next(iter(header), "") != "tree":
            raise ModelError("Expected 'tree' in the first line.")
        n_outputs = _integer(header, "num_tree_per_iteration")
        n_features = _integer(header, "max_feature_idx") + 1
        objective, sigmoid = self._read_objective(header, n_outputs)
        names = header.get("feature_names", "").split(" ")
        n_infos = len(header.get("feature_infos", "").split())
        if not len(names) == n_infos == n_features:
            raise ModelError(
                f"Expected feature_names and feature_infos of {n_features} features, as max_feature_idx says, got"
                f" {len(names)} and {n_infos}."
            )
        sections = self._read_sections(header)
        if n_outputs < 1 or not sections or len(sections) % n_outputs:
            raise ModelError(f"Expected {n_outputs} trees in each round, got {len(sections)} trees in all.")
        table, zero_is_missing = ScoreTable(n_outputs), dict[int, bool]()
        trees = [_read_tree(i, section, i % n_outputs, table, zero_is_missing) for i, section in enumerate(sections)]
        ensemble = TreeEnsemble.from_trees(
            trees,
            n_features=n_features,
            classes=np.arange(max(2, n_outputs)) if classes is None else classes,
            feature_names=None if names == [f"Column_{i}" for i in range(n_features)] else names,
            scores=table.table(),
            subsets=table.subsets or None,
            **(self._read_categories(header) if table.subsets else {}),
            blanks={f: (-ZERO, ZERO) for f, counts in zero_is_missing.items() if counts} or None,
        )
        # In mode "rf" probabilities come from means instead of sums, which changes no decision.
        divisor = len(sections) // n_outputs if "average_output" in header else 1
        best = ensemble.ranges_of_trees(ensemble.summands()[0].max(axis=1, keepdims=True))[1]
        largest = sigmoid * best.reshape(-1, n_outputs).sum(axis=0).max() / divisor
        if objective == "multiclassova" and largest > LARGEST_SIGMOID_SUM:
            raise ModelError(
                "Expected smaller scores from the objective multiclassova, whose probabilities are rounded to one where"
                " scores are large, so that LightGBM takes classes for equal that are not; fit with the objective"
                " multiclass instead."
            )
        is_regressor, sum_at = objective in REGRESSION, None
        if is_regressor or objective == "binary":
            unit = divisor if is_regressor else divisor / sigmoid
            sum_at = partial(_scaled, REGRESSION.get(objective, log_odds), unit)  # which can be sent elsewhere
        return Opened(
            ensemble,
            "this file of LightGBM",
            sum_at=sum_at,
            slack=PROBABILITY_SLACK.get(objective, LOGISTIC_SLACK) / min(sigmoid, 1.0),
            is_regressor=is_regressor,
            has_softmax=objective == "multiclass" and divisor == 1,
        )

    def _read_categories(self, header: dict[str, str]) -> dict[str, Any]:
        """Return the values that codes stand for, which LightGBM keeps of data frames, as JSON after the parameters.

        Others are missing to it, as which they are in no set.
        """
        line = next((line for line in self._lines if line.startswith("pandas_categorical:")), "")
        found = read_json(line.partition(":")[2]) if line.partition(":")[2].strip() not in ("", "null") else []
        # Columns of data frames that are categories, in their order: those whose feature_infos list values.
        columns = [f for f, info in enumerate(header["feature_infos"].split()) if info != "none" and info[0] != "["]
        if not isinstance(found, list) or len(found) != len(columns) or "none" in header["feature_infos"].split():
            return {}  # a column that trees do not use may be one of them, or not
        categories = of_one_kind(dict(zip(columns, found, strict=True)))
        return {"categories": categories, "unseen": dict.fromkeys(categories or (), "other")}

    def _read_objective(self, header: dict[str, str], n_outputs: int) -> tuple[str, float]:
        objective, *options = header.get("objective", "none").split()
        expected = {"binary": n_outputs == 1, "multiclass": n_outputs > 1, "multiclassova": n_outputs > 1}
        expected |= dict.fromkeys(REGRESSION, n_outputs == 1)
        if not expected.get(objective, False):
            raise ModelError(
                "Expected the objective binary or one of regression, or multiclass or multiclassova with one tree per"
                f" class, got {shown(objective)} with {n_outputs}."
            )
        given = dict(option.partition(":")[::2] for option in options)
        if objective in REGRESSION and options == ["sqrt"]:
            raise ModelError("Expected a regressor of the values themselves, got one of their roots (reg_sqrt).")
        told = {_integer(header, "num_class"), *([] if n_outputs == 1 else [_integer(given, "num_class")])}
        if told != {n_outputs} or len(given) < len(options):
            raise ModelError(
                f"Expected {n_outputs} classes, as num_tree_per_iteration says (1 stands for two), got num_class"
                f" {' and '.join(str(n) for n in sorted(told))}."
            )
        sigmoid = 1.0 if objective in ("multiclass", *REGRESSION) else _number(given.get("sigmoid", ""), "sigmoid")
        if not 0 < sigmoid < math.inf:
            raise ModelError(f"Expected sigmoid to be above zero, got {sigmoid}.")
        return objective, sigmoid

    def _read_sections(self, header: dict[str, str]) -> list[dict[str, str]]:
        sections: list[dict[str, str]] = []
        starts = []
        while next(iter(section := self._section()), "") != "end of trees":
            if next(iter(section), "") != "Tree" or section["Tree"] != str(len(sections)):
                raise ModelError(f"Expected tree {len(sections)} or 'end of trees', got neither: was it cut short?")
            sections.append(section)
            starts.append(self._start)
        # LightGBM finds trees by these sizes, not by their lines.
        sizes = np.diff([*starts, self._start]).tolist()
        if "tree_sizes" in header and header["tree_sizes"].split() != [str(size) for size in sizes]:
            raise ModelError("Expected trees of the tree_sizes in the header, got other sizes: was the file edited?")
        return sections


def _read_tree(
    index: int, section: dict[str, str], output: int, table: ScoreTable, zero_is_missing: dict[int, bool]
) -> Nodes:
    """Read a tree. Features of which zero counts as missing, in all their splits or in none, are noted."""
    n_leaves = _integer(section, "num_leaves")
    n_splits = n_leaves - 1
    if n_leaves < 1:
        raise ModelError(f"Expected at least one leaf in tree {index}, got {n_leaves}.")
    if section.get("is_linear", "0") != "0":
        raise ModelError(f"Expected constant leaves, got linear models in the leaves of tree {index}.")
    score = _numbers(section, "leaf_value", n_leaves)
    leaf = np.concatenate([np.full(n_splits, -1), table.add(score, output)])
    if n_splits == 0:
        return Nodes([-1], [-1], [-1], [0.0], leaf, [False], [-1])
    feature, decision, left, right = (
        _integers(section, name, n_splits) for name in ("split_feature", "decision_type", "left_child", "right_child")
    )
    is_set = (decision & IS_CATEGORICAL) != 0
    counts = (decision & IS_MISSING) == ZERO_IS_MISSING
    for f, kind in zip(feature[~is_set].tolist(), counts[~is_set].tolist(), strict=True):
        if zero_is_missing.setdefault(f, kind) != kind:
            raise ModelError("Expected zero to count as missing in all splits of a feature or in none, got both.")
    given = _numbers(section, "threshold", n_splits)
    subset = _read_sets(index, section, np.where(is_set, given, -1), table.subsets)
    if ((decision < 0) | (decision >= IS_MISSING)).any():
        raise ModelError(f"Expected decision_type between 0 and {IS_MISSING - 1} in tree {index}, got another.")
    threshold = np.where(is_set, np.nan, _deployed(given))
    none = np.full(n_leaves, -1)
    # Child -1 is the first leaf, -2 the second; here leaves follow the splits.
    return Nodes(
        left=np.concatenate([np.where(left < 0, n_splits + ~left, left), none]),
        right=np.concatenate([np.where(right < 0, n_splits + ~right, right), none]),
        feature=np.concatenate([feature, none]),
        threshold=np.concatenate([threshold, np.zeros(n_leaves)]),
        leaf=leaf,
        # Where NaN is not what training met, it counts as zero.
        missing_left=np.concatenate(
            [
                ~is_set & np.where(decision & IS_MISSING, (decision & GOES_LEFT) != 0, threshold >= 0),
                np.zeros(n_leaves, bool),
            ]
        ),
        subset=np.concatenate([subset, none]),
    )


def _read_sets(
    index: int, section: dict[str, str], which: NDArray[np.float64], subsets: list[list[int]]
) -> NDArray[np.int64]:
    """Return for each split the number of the set that it sends left, -1 at thresholds; sets are added to a list.

    ``which`` is the split's place among the sets of its tree, which are bits of words of 32.
    """
    subset = np.full(len(which), -1)
    n_sets = _integer(section, "num_cat") if "num_cat" in section else 0
    split = np.flatnonzero(which >= 0)
    if n_sets != len(split) or sorted(which[split].tolist()) != list(range(n_sets)):
        raise ModelError(f"Expected {n_sets} categorical splits in tree {index}, as num_cat says, got {len(split)}.")
    if not n_sets:
        return subset
    end = _integers(section, "cat_boundaries", n_sets + 1)
    if end[0] != 0 or (np.diff(end) < 0).any():
        raise ModelError(f"Expected cat_boundaries of tree {index} to rise from 0, got others.")
    words = [int(word) for word in section.get("cat_threshold", "").split() if WORD.fullmatch(word)]
    if len(words) != end[-1] or max(words, default=0) >= 2**32:
        raise ModelError(f"Expected {end[-1]} words of 32 bits as cat_threshold of tree {index}, got others.")
    for node in split:
        first, last = end[int(which[node])], end[int(which[node]) + 1]
        subset[node] = len(subsets)
        subsets.append([32 * i + b for i, word in enumerate(words[first:last]) for b in range(32) if word >> b & 1])
    return subset


def _deployed(threshold: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the thresholds that act on rows as they are, where LightGBM has ``x = 0`` for all ``|x| <= ZERO``."""
    return np.where(np.abs(threshold) <= ZERO, np.where(threshold >= 0, ZERO, BELOW_ZERO), threshold)


def _scaled(sum_at: Callable[[float], float], unit: float, score: float) -> float:
    return unit * sum_at(score)


def _integer(section: dict[str, str], name: str) -> int:
    (number,) = _integers(section, name, 1)
    return int(number)


def _integers(section: dict[str, str], name: str, size: int) -> NDArray[np.int64]:
    words = section.get(name, "").split()
    if len(words) != size or not all(WHOLE_NUMBER.fullmatch(word) for word in words):
        raise ModelError(f"Expected {size} whole numbers as {name}, got {shown(section.get(name))}.")
    return np.array([int(word) for word in words], np.int64)


def _numbers(section: dict[str, str], name: str, size: int) -> NDArray[np.float64]:
    words = section.get(name, "").split()
    if len(words) != size:
        raise ModelError(f"Expected {size} numbers as {name}, got {len(words)}.")
    # A split between numbers and missing values has the threshold inf: every number is to its left.
    numbers = [repr(LARGEST) if word == "inf" and name == "threshold" else word for word in words]
    return np.array([_number(word, name) for word in numbers])


def _number(word: str, name: str) -> float:
    number = float(word) if NUMBER.fullmatch(word) else math.nan
    if not math.isfinite(number):
        raise ModelError(f"Expected finite numbers as {name}, got {shown(word)}.")
    return number
