"""Reproduction: the paper's tables and figures through the public API, with its printed numbers beside ours.

An experiment is a list of cells; a cell is one model trained and certified, or one thing measured. Each cell's result
is written to a file of its own as soon as it is there, whole or not at all, so that a run which is stopped in whatever
way goes on where it stopped. Protocol as in the paper: rows split 70/30, stratified, seed 7; 20% of the training rows
validate where parameters are searched; traditional forests vote as theirs do.
"""

from __future__ import annotations

import json
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, partial
from importlib.resources import files
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certiforest.attack.attacker import Attacker
from certiforest.certify import certify
from certiforest.data.datasets import load_dataset
from certiforest.ensemble import TreeEnsemble
from certiforest.files import write_atomically
from certiforest.formats import as_ensemble
from certiforest.verification.certificates import UNDECIDED

SEED = 0
NORMS = ("inf", "2", "1")
MOST_PARTITIONS = 12
QUICK_TRAINING_ROWS, QUICK_TEST_ROWS = 1500, 300
N_IMPORTANT_FEATURES, N_SHUFFLES = 12, 3
TIME_LIMITS = (0.001, 0.01, 0.1, 1.0, 60.0, 120.0, 180.0, 600.0)


class ReproductionError(ValueError):
    """An experiment is unknown, or not one that the paper has for a dataset."""


@dataclass(frozen=True)
class Setting:
    """A dataset, size and budget of the paper, with its tuned parameters and printed results."""

    dataset: str
    eps: float
    trees: int
    depth: int
    tuned: dict[str, Any]
    traditional: dict[str, float]
    large_spread: dict[str, float]

    @property
    def size(self) -> str:
        """Trees and depth, as shown."""
        return f"{self.trees} x {self.depth}"


@dataclass(frozen=True)
class Outcome:
    """A table ready to be shown.

    ``rows`` holds text; ``results`` everything that was measured, cell by cell.
    """

    experiment: str
    dataset: str
    title: str
    columns: list[str]
    rows: list[list[str]]
    notes: list[str]
    results: dict[str, Any]


def paper_settings(dataset: str) -> list[Setting]:
    """Return the paper's settings for one of its datasets, small budgets first.

    Raises
    ------
    ReproductionError
        If the paper has no results for the dataset.
    """
    settings = [Setting(**entry) for entry in _paper()["settings"] if entry["dataset"] == dataset]
    if not settings:
        known = sorted({entry["dataset"] for entry in _paper()["settings"]})
        raise ReproductionError(f"Expected a dataset of the paper, {', '.join(known)}, got {dataset!r}.")
    return settings


def _paper() -> dict[str, Any]:
    return json.loads(files("certiforest.reproduction").joinpath("paper_tables.json").read_text(encoding="utf-8"))


def reproduce(
    experiment: str,
    dataset: str,
    *,
    out_dir: str | Path,
    data_dir: str | Path | None = None,
    download: bool = False,
    quick: bool = False,
    progress: Callable[[int, int, str], None] | None = None,
) -> Outcome:
    """Run an experiment of the paper, or what is left of it, and return its table.

    Parameters
    ----------
    experiment : str
        One of `EXPERIMENTS`.
    dataset : str
        ``"mnist26"``, ``"fashion03"``, ``"rewema"`` or ``"webspam"``.
    out_dir : path
        Directory of results, made if absent. Cells found there are not run again.
    data_dir, download : optional
        As in `load_dataset`.
    quick : bool, default=False
        A small version: few rows, the small models, the largest budget.
    progress : callable, optional
        Called as ``progress(n_done, n_cells, cell)`` before each cell and at the end.
    """
    if experiment not in EXPERIMENTS:
        raise ReproductionError(f"Expected an experiment among {', '.join(EXPERIMENTS)}, got {experiment!r}.")
    settings = paper_settings(dataset)
    if quick:
        settings = [s for s in settings if s.trees == min(t.trees for t in settings)][-1:]
    lab = _Lab(dataset, settings, Path(out_dir), data_dir, download, quick)
    cells, tabulate = EXPERIMENTS[experiment](lab)
    results = {}
    for n_done, (name, work) in enumerate(cells.items()):
        if progress is not None:
            progress(n_done, len(cells), name)
        results[name] = lab.remember(name, work)
    if progress is not None:
        progress(len(cells), len(cells), "done")
    title, columns, rows, notes = tabulate(results)
    if quick:
        notes = [*notes, f"A quick version: {QUICK_TRAINING_ROWS} training rows, {QUICK_TEST_ROWS} test rows."]
    return Outcome(experiment, dataset, title, columns, rows, notes, results)


Work = Callable[[], dict[str, Any]]
Tabulate = Callable[[dict[str, Any]], tuple[str, list[str], list[list[str]], list[str]]]
Experiment = Callable[["_Lab"], tuple[dict[str, Work], Tabulate]]


class _Lab:
    """Where cells are worked on: the data, loaded when first needed, and the results so far."""

    def __init__(
        self,
        dataset: str,
        settings: list[Setting],
        out_dir: Path,
        data_dir: str | Path | None,
        download: bool,
        quick: bool,
    ) -> None:
        self.dataset, self.settings, self.quick = dataset, settings, quick
        self.folder = out_dir / (f"{dataset}-quick" if quick else dataset)
        self._data_dir, self._download = data_dir, download

    @cached_property
    def split(self) -> tuple[NDArray, NDArray, NDArray, NDArray]:
        """X_train, X_test, y_train, y_test, scaled."""
        dataset = load_dataset(self.dataset, data_dir=self._data_dir, download=self._download)
        X_train, X_test, y_train, y_test = dataset.scaled_split()
        if self.quick:
            X_train, y_train = X_train[:QUICK_TRAINING_ROWS], y_train[:QUICK_TRAINING_ROWS]
            X_test, y_test = X_test[:QUICK_TEST_ROWS], y_test[:QUICK_TEST_ROWS]
        return X_train, X_test, y_train, y_test

    def remember(self, name: str, work: Work) -> dict[str, Any]:
        """Return the result of a cell, from its file if there is one."""
        path = self.folder / f"{name}.json"
        if path.exists():
            try:
                return json.loads(path.read_text(encoding="utf-8"))
            except ValueError:
                raise ReproductionError(f"Expected a result in {path}, got something else; remove it.") from None
        result = work()
        self.folder.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(result, indent=1, allow_nan=False) + "\n")
        return result

    def model(self, kind: str, setting: Setting) -> TreeEnsemble:
        """Return a trained model, from its file if it was trained before."""
        self.remember(_model_name(kind, setting), lambda: self.train_and_certify(kind, setting))
        return TreeEnsemble.load(self._model_path(kind, setting))

    def _model_path(self, kind: str, setting: Setting) -> Path:
        return self.folder / "models" / f"{_model_name(kind, setting)}.json"

    def train_and_certify(self, kind: str, setting: Setting) -> dict[str, Any]:
        """Train one model, keep it, and certify it on the test rows."""
        X_train, X_test, y_train, y_test = self.split
        start = time.process_time()
        ensemble, params = MODELS[kind](X_train, y_train, setting)
        seconds = time.process_time() - start
        path = self._model_path(kind, setting)
        path.parent.mkdir(parents=True, exist_ok=True)
        ensemble.save(path)
        norms = {}
        # As in the paper, traditional forests are attacked in the L-inf norm only.
        for norm in NORMS if kind != "traditional" else NORMS[:1]:
            certify(ensemble, X_test[:1], y_test[:1], Attacker(norm, setting.eps))  # compile outside the measurement
            start_certify = time.perf_counter()
            found = certify(ensemble, X_test, y_test, Attacker(norm, setting.eps)).unless_interrupted()
            norms[norm] = {
                "robust": list(found.robust_accuracy_bounds),
                "unknown": int((found.stable == UNDECIDED).sum()),
                "seconds": round(time.perf_counter() - start_certify, 4),
            }
        return {
            "n_trees": ensemble.n_trees,
            "params": params,
            "training_cpu_seconds": round(seconds, 2),
            "n_test_rows": len(X_test),
            "accuracy": float((ensemble.predict(X_test) == y_test).mean()),
            "norms": norms,
        }


# --- models ------------------------------------------------------------------------------------------------------


def _train_traditional(X: NDArray, y: NDArray, setting: Setting) -> tuple[TreeEnsemble, dict[str, Any]]:
    from sklearn.ensemble import RandomForestClassifier

    forest = RandomForestClassifier(setting.trees, max_depth=setting.depth, random_state=SEED).fit(X, y)
    return as_ensemble(forest, voting="hard"), {}


def _train_pruned(X: NDArray, y: NDArray, setting: Setting) -> tuple[TreeEnsemble, dict[str, Any]]:
    """Train with the paper's tuned parameters; with more partitions where these do not give all trees."""
    best = None
    for n_partitions in range(setting.tuned["n_partitions"], MOST_PARTITIONS + 1):
        params = {**setting.tuned, "n_partitions": n_partitions}
        ensemble = _fit_forest(X, y, setting, method="prune", on_shortfall="keep", **params)
        if best is None or ensemble.n_trees > best[0].n_trees:
            best = ensemble, params
        if ensemble.n_trees == setting.trees:
            break
    assert best is not None
    return best


def _train_as_in_figures(X: NDArray, y: NDArray, setting: Setting) -> tuple[TreeEnsemble, dict[str, Any]]:
    """Prune with the parameters for which the paper measures training: those that take longest."""
    params = {"max_iter": 500, "pool_factor": 6, "shift_range": [1.0, 1.5], "n_partitions": 6}
    return _fit_forest(X, y, setting, method="prune", on_shortfall="keep", **params), params


def _train_grown(X: NDArray, y: NDArray, setting: Setting) -> tuple[TreeEnsemble, dict[str, Any]]:
    return _fit_forest(X, y, setting, method="grow"), {}


def _train_boosted(X: NDArray, y: NDArray, setting: Setting) -> tuple[TreeEnsemble, dict[str, Any]]:
    from certiforest.training.boosting import LargeSpreadBoostingClassifier

    return _fit(LargeSpreadBoostingClassifier, X, y, setting), {}


def _fit_forest(X: NDArray, y: NDArray, setting: Setting, **params: Any) -> TreeEnsemble:
    from certiforest.training.forest import LargeSpreadForestClassifier

    if "shift_range" in params:
        params["shift_range"] = tuple(params["shift_range"])
    return _fit(LargeSpreadForestClassifier, X, y, setting, **params)


def _fit(trainer: type, X: NDArray, y: NDArray, setting: Setting, **params: Any) -> TreeEnsemble:
    estimator = trainer(
        n_estimators=setting.trees, max_depth=setting.depth, eps=setting.eps, random_state=SEED, n_jobs=1, **params
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a shortfall is in the result: the number of trees
        return as_ensemble(estimator.fit(X, y))


Train = Callable[[NDArray, NDArray, Setting], tuple[TreeEnsemble, dict[str, Any]]]
#: What stands side by side; a further model is one more entry.
MODELS: dict[str, Train] = {
    "traditional": _train_traditional,
    "pruned": _train_pruned,
    "grown": _train_grown,
    "boosted": _train_boosted,
}
LARGE_SPREAD = tuple(kind for kind in MODELS if kind != "traditional")


def _model_name(kind: str, setting: Setting) -> str:
    if kind == "traditional":  # trained without an attacker, but certified for one
        return f"{kind}-{setting.trees}x{setting.depth}-certified-{setting.eps:g}"
    return f"{kind}-{setting.trees}x{setting.depth}-{setting.eps:g}"


# --- experiments -------------------------------------------------------------------------------------------------


def _model_cells(lab: _Lab, kinds: Sequence[str], settings: Sequence[Setting]) -> dict[str, Work]:
    return {
        _model_name(kind, setting): partial(lab.train_and_certify, kind, setting)
        for setting in settings
        for kind in kinds
    }


def _accuracy_and_robustness(lab: _Lab) -> tuple[dict[str, Work], Tabulate]:
    """Table 3: accuracy and robust accuracy against the L-inf attacker."""

    def tabulate(results: dict[str, Any]) -> tuple[str, list[str], list[list[str]], list[str]]:
        columns = ["eps", "trees x depth"]
        for what in ("accuracy", "robust"):
            for kind in MODELS:
                columns += (
                    [f"{what}, {kind}: paper", "ours"] if kind in ("traditional", "pruned") else [f"{what}, {kind}"]
                )
        rows = []
        for setting in lab.settings:
            cells = {kind: results[_model_name(kind, setting)] for kind in MODELS}
            row = [f"{setting.eps:g}", setting.size]
            printed = {"traditional": setting.traditional["accuracy"], "pruned": setting.large_spread["accuracy"]}
            for kind, cell in cells.items():
                row += [f"{printed[kind]:.2f}"] if kind in printed else []
                row.append(f"{cell['accuracy']:.3f}")
            for kind, cell in cells.items():
                row += [_printed_robustness(kind, setting)] if kind in printed else []
                row.append(_share(cell["norms"]["inf"]["robust"]))
            rows.append(row)
        return "Accuracy and robust accuracy (L-inf), paper's table 3", columns, rows, _notes(lab, results, NORMS[:1])

    return _model_cells(lab, tuple(MODELS), lab.settings), tabulate


def _robustness_by_norm(lab: _Lab) -> tuple[dict[str, Work], Tabulate]:
    """Table 4: robust accuracy of large-spread models by norm."""

    def tabulate(results: dict[str, Any]) -> tuple[str, list[str], list[list[str]], list[str]]:
        columns = ["eps", "trees x depth"]
        for norm in NORMS:
            columns += [f"L{norm}: paper", *LARGE_SPREAD]
        rows = []
        for setting in lab.settings:
            row = [f"{setting.eps:g}", setting.size]
            for norm in NORMS:
                row.append(f"{setting.large_spread[f'robust_l{norm}']:.2f}")
                row += [_share(results[_model_name(kind, setting)]["norms"][norm]["robust"]) for kind in LARGE_SPREAD]
            rows.append(row)
        return "Robust accuracy by norm, paper's table 4", columns, rows, _notes(lab, results, NORMS)

    return _model_cells(lab, LARGE_SPREAD, lab.settings), tabulate


def _efficiency(lab: _Lab) -> tuple[dict[str, Work], Tabulate]:
    """Table 5: time and memory of verification, largest models and budget."""
    setting = lab.settings[-1]

    def tabulate(results: dict[str, Any]) -> tuple[str, list[str], list[list[str]], list[str]]:
        rows = [
            [name, f"{entry['seconds']:,}", f"{entry['memory_gb']}", str(entry["undecided"])]
            for name, entry in _paper()["efficiency"].items()
        ]
        for kind in MODELS:
            cell = results[f"efficiency-{_model_name(kind, setting)}"]
            memory = "?" if cell["peak_memory_gb"] is None else f"{cell['peak_memory_gb']:.2f}"
            rows.append([f"ours, {kind}", f"{cell['seconds']:.2f}", memory, str(cell["undecided"])])
        notes = [
            f"{setting.size}, eps {setting.eps:g}, all test rows; the paper's rows are about MNIST 2 against 6.",
            "Ours: one thread, wall time of certify in a process of its own; memory is that of the whole process"
            " with Python and its libraries.",
        ]
        return (
            "Time and memory of verification, paper's table 5",
            ["verifier, model", "seconds", "GB", "undecided"],
            rows,
            notes,
        )

    cells: dict[str, Work] = {
        f"efficiency-{_model_name(kind, setting)}": partial(_measure_apart, lab, kind, setting) for kind in MODELS
    }
    return cells, tabulate


def _measure_apart(lab: _Lab, kind: str, setting: Setting) -> dict[str, Any]:
    lab.model(kind, setting)
    X_test = lab.split[1]
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder) / "rows.npy"
        np.save(rows, X_test)
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            task = pool.submit(_measure, str(lab._model_path(kind, setting)), str(rows), setting.eps)
            return task.result()


def _measure(model: str, rows: str, eps: float) -> dict[str, Any]:
    """Certify all rows of a file; runs in a process of its own, whose memory is measured."""
    ensemble, X, attacker = TreeEnsemble.load(model), np.load(rows), Attacker("inf", eps)
    certify(ensemble, X[:1], None, attacker)  # compile outside the measurement
    start = time.perf_counter()
    found = certify(ensemble, X, None, attacker).unless_interrupted()
    seconds = time.perf_counter() - start
    return {
        "seconds": round(seconds, 4),
        "peak_memory_gb": _peak_memory(),
        "undecided": int((found.stable == UNDECIDED).sum()),
    }


def _peak_memory() -> float | None:
    """Return the largest memory this process had, in GB; None where the system does not tell."""
    # Not getrusage: its figure is inherited from the process that started this one.
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        return None
    kilobytes = next((line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")), None)
    return None if kilobytes is None else round(int(kilobytes) / 1e6, 3)


def _time_limits(lab: _Lab) -> tuple[dict[str, Work], Tabulate]:
    """Figure 3: rows decided within a time limit per row, largest models and budget."""
    setting = lab.settings[-1]

    def tabulate(results: dict[str, Any]) -> tuple[str, list[str], list[list[str]], list[str]]:
        cells = {kind: results[f"times-{_model_name(kind, setting)}"] for kind in MODELS}
        n_rows = len(next(iter(cells.values()))["seconds"])
        paper = _paper()["undecided_by_seconds"]
        rows = []
        for limit in TIME_LIMITS:
            printed = paper.get(f"{limit:g}")
            row = [f"{limit:g}", "" if printed is None else str(printed)]
            for cell in cells.values():
                within = (np.array(cell["seconds"]) <= limit) & np.array(cell["decided"], bool)
                row.append(str(n_rows - int(within.sum())))
            rows.append(row)
        slowest = ", ".join(f"{kind} {max(cell['seconds']):.3f} s" for kind, cell in cells.items())
        columns = ["seconds per row", "SILVA, traditional (paper)", *(f"ours, {kind}" for kind in MODELS)]
        notes = [
            f"Of {n_rows} test rows, those not decided within the limit; {setting.size}, eps {setting.eps:g}.",
            f"Slowest row: {slowest}. Each row is certified by a call of its own.",
            "SILVA's undecided rows by memory limit (paper): "
            + ", ".join(f"{n} at {gb} GB" for gb, n in _paper()["undecided_by_memory_gb"].items())
            + "; the memory of ours is in table 5.",
        ]
        return "Rows not decided within a time limit, paper's figure 3", columns, rows, notes

    cells: dict[str, Work] = {
        f"times-{_model_name(kind, setting)}": partial(_time_rows, lab, kind, setting) for kind in MODELS
    }
    return cells, tabulate


def _time_rows(lab: _Lab, kind: str, setting: Setting) -> dict[str, Any]:
    ensemble, attacker = lab.model(kind, setting), Attacker("inf", setting.eps)
    X_test = lab.split[1]
    certify(ensemble, X_test[:1], None, attacker)  # compile outside the measurement
    seconds, decided = [], []
    for row in X_test:
        start = time.perf_counter()
        found = certify(ensemble, row[None], None, attacker, time_limit=TIME_LIMITS[-1]).unless_interrupted()
        seconds.append(round(time.perf_counter() - start, 6))
        decided.append(int(found.stable[0] != UNDECIDED))
    return {"seconds": seconds, "decided": decided}


def _training_time(lab: _Lab, sizes: Sequence[tuple[int, int]], figure: str) -> tuple[dict[str, Work], Tabulate]:
    """Figures 4 and 5: seconds of training by number of trees, and by depth."""
    budgets = sorted({setting.eps for setting in lab.settings})
    paper = _paper()["training_seconds"].get(lab.dataset, {})
    trainers = {**MODELS, "pruned": _train_as_in_figures}
    methods = LARGE_SPREAD

    def name(method: str, trees: int, depth: int, eps: float) -> str:
        return f"training-{method}-{trees}x{depth}-{eps:g}"

    def work(method: str, trees: int, depth: int, eps: float) -> dict[str, Any]:
        X_train, _, y_train, _ = lab.split
        setting = Setting(lab.dataset, eps, trees, depth, {}, {}, {})
        trainers[method](X_train[:200], y_train[:200], replace(setting, trees=12))  # compile outside the measurement
        start = time.process_time()
        ensemble, _ = trainers[method](X_train, y_train, setting)
        return {"cpu_seconds": round(time.process_time() - start, 2), "n_trees": ensemble.n_trees}

    def tabulate(results: dict[str, Any]) -> tuple[str, list[str], list[list[str]], list[str]]:
        rows = []
        for eps in budgets:
            for trees, depth in sizes:
                printed = paper.get(f"{trees},{depth},{eps:g}")
                row = [f"{eps:g}", f"{trees} x {depth}", "" if printed is None else f"{printed:,}"]
                for method in methods:
                    cell = results[name(method, trees, depth, eps)]
                    short = f" ({cell['n_trees']} trees)" if cell["n_trees"] < trees else ""
                    row.append(f"{cell['cpu_seconds']:.1f}{short}")
                rows.append(row)
        notes = [
            "CPU seconds on one thread. Pruned with MAX_ITER 500, MULT 6, INTV [k, 1.5k], l 6, as in the paper, which"
            " gives its figures as plots; printed are those its text names.",
        ]
        return (
            f"Seconds of training, paper's {figure}",
            ["eps", "trees x depth", "pruned: paper", *methods],
            rows,
            notes,
        )

    cells: dict[str, Work] = {
        name(method, trees, depth, eps): partial(work, method, trees, depth, eps)
        for eps in budgets
        for trees, depth in sizes
        for method in methods
    }
    return cells, tabulate


def _training_time_by_trees(lab: _Lab) -> tuple[dict[str, Work], Tabulate]:
    sizes = [(25, 6)] if lab.quick else [(25, 6), (51, 6), (75, 6), (101, 6)]
    return _training_time(lab, sizes, "figure 4")


def _training_time_by_depth(lab: _Lab) -> tuple[dict[str, Work], Tabulate]:
    sizes = [(25, 3)] if lab.quick else [(101, 3), (101, 4), (101, 5), (101, 6)]
    return _training_time(lab, sizes, "figure 5")


def _tuning(lab: _Lab) -> tuple[dict[str, Work], Tabulate]:
    """Appendix: the grid search for the pruning method's parameters."""

    def work(setting: Setting) -> dict[str, Any]:
        from certiforest.training.forest import LargeSpreadForestClassifier
        from certiforest.tuning import PAPER_GRID, search

        grid = PAPER_GRID if not lab.quick else {key: values[:1] for key, values in PAPER_GRID.items()}
        forest = LargeSpreadForestClassifier(
            setting.trees, setting.depth, eps=setting.eps, method="prune", random_state=SEED
        )
        X_train, X_test, y_train, y_test = lab.split
        lab.folder.mkdir(parents=True, exist_ok=True)
        journal = lab.folder / f"journal-{setting.trees}x{setting.depth}-{setting.eps:g}.json"
        found = search(forest, X_train, y_train, grid, journal=journal)
        assert found.best_estimator is not None
        certificates = certify(found.best_estimator, X_test, y_test, Attacker("inf", setting.eps)).unless_interrupted()
        return {
            "best": {key: list(v) if isinstance(v, tuple) else v for key, v in found.best.params.items()},
            "n_trained": sum(trial.scores is not None for trial in found.trials),
            "n_trials": len(found.trials),
            "accuracy": certificates.accuracy,
            "robust": list(certificates.robust_accuracy_bounds),
        }

    def tabulate(results: dict[str, Any]) -> tuple[str, list[str], list[list[str]], list[str]]:
        rows = []
        for setting in lab.settings:
            cell = results[f"tuning-{setting.trees}x{setting.depth}-{setting.eps:g}"]
            rows.append(
                [
                    f"{setting.eps:g}",
                    setting.size,
                    _parameters(setting.tuned),
                    _parameters(cell["best"]),
                    f"{setting.large_spread['accuracy']:.2f}",
                    f"{cell['accuracy']:.3f}",
                    f"{setting.large_spread['robust_linf']:.2f}",
                    _share(cell["robust"]),
                    f"{cell['n_trained']} of {cell['n_trials']}",
                ]
            )
        columns = ["eps", "trees x depth"]
        columns += ["best: paper", "ours", "accuracy: paper", "ours", "robust: paper", "ours", "trained"]
        notes = ["Best by the mean of accuracy and robust accuracy on 20% of the training rows, then trained on all."]
        return "Grid search for pruning, paper's appendix", columns, rows, notes

    cells: dict[str, Work] = {
        f"tuning-{setting.trees}x{setting.depth}-{setting.eps:g}": partial(work, setting) for setting in lab.settings
    }
    return cells, tabulate


def _importance(lab: _Lab) -> tuple[dict[str, Work], Tabulate]:
    """Discussion: permutation importance of traditional and large-spread models side by side."""
    setting = lab.settings[-1]

    def work(kind: str) -> dict[str, Any]:
        ensemble = lab.model(kind, setting)
        _, X_test, _, y_test = lab.split
        random = np.random.default_rng(SEED)
        accuracy = float((ensemble.predict(X_test) == y_test).mean())
        importance = {}
        X = X_test.copy()
        for feature in np.unique(ensemble.feature[ensemble.feature >= 0]):
            drops = []
            for _ in range(N_SHUFFLES):
                X[:, feature] = random.permutation(X_test[:, feature])
                drops.append(accuracy - float((ensemble.predict(X) == y_test).mean()))
            X[:, feature] = X_test[:, feature]
            importance[str(feature)] = float(np.mean(drops))
        n_distinct, commonest = {}, {}
        for name in importance:
            counts = np.unique(X_test[:, int(name)], return_counts=True)[1]
            n_distinct[name], commonest[name] = len(counts), float(counts.max() / len(X_test))
        return {"accuracy": accuracy, "importance": importance, "n_distinct": n_distinct, "commonest": commonest}

    def tabulate(results: dict[str, Any]) -> tuple[str, list[str], list[list[str]], list[str]]:
        ranked, means = {}, []
        for kind in MODELS:
            cell = results[f"importance-{_model_name(kind, setting)}"]
            order = sorted(cell["importance"], key=lambda f: -cell["importance"][f])[:N_IMPORTANT_FEATURES]
            ranked[kind] = [
                f"{f}: {cell['importance'][f]:+.4f} ({cell['n_distinct'][f]}; {cell['commonest'][f]:.0%})"
                for f in order
            ]
            n_distinct = np.mean([cell["n_distinct"][f] for f in order])
            commonest = np.mean([cell["commonest"][f] for f in order])
            means.append(f"{kind} {n_distinct:.0f} and {commonest:.0%}")
        n_rows = max(map(len, ranked.values()))
        rows = [
            [str(rank + 1), *(entries[rank] if rank < len(entries) else "" for entries in ranked.values())]
            for rank in range(n_rows)
        ]
        notes = [
            f"Loss of accuracy when a feature's values are shuffled among the test rows, mean of {N_SHUFFLES};"
            f" {setting.size}, eps {setting.eps:g}.",
            "In brackets, as the paper asks how scattered a feature is: its distinct values, and the share of rows that"
            f" have the commonest. Means of the features shown: {', '.join(means)}.",
        ]
        return "Permutation importance, paper's discussion", ["rank", *MODELS], rows, notes

    cells: dict[str, Work] = {f"importance-{_model_name(kind, setting)}": partial(work, kind) for kind in MODELS}
    return cells, tabulate


EXPERIMENTS: dict[str, Experiment] = {
    "table3": _accuracy_and_robustness,
    "table4": _robustness_by_norm,
    "table5": _efficiency,
    "figure3": _time_limits,
    "figure4": _training_time_by_trees,
    "figure5": _training_time_by_depth,
    "tuning": _tuning,
    "importance": _importance,
}


# --- words -------------------------------------------------------------------------------------------------------


def _printed_robustness(kind: str, setting: Setting) -> str:
    if kind == "pruned":
        return f"{setting.large_spread['robust_linf']:.2f}"
    plus_minus = setting.traditional["plus_minus"]
    return f"{setting.traditional['robust']:.2f}" + (f" ± {plus_minus:.2f}" if plus_minus else "")


def _share(bounds: Sequence[float]) -> str:
    low, high = bounds
    return f"{low:.3f}" if low == high else f"{low:.3f} to {high:.3f}"


def _parameters(params: dict[str, Any]) -> str:
    low, high = params["shift_range"]
    return f"{params['max_iter']}, {params['pool_factor']}, [{low:g}, {high:g}], {params['n_partitions']}"


def _notes(lab: _Lab, results: dict[str, Any], norms: Sequence[str]) -> list[str]:
    """Say where models differ from what the table's head says, and what was left undecided."""
    notes = [
        "Pruned: the paper's algorithm with its tuned parameters. Grown (trees vote) and boosted (scores add up): ours,"
        " with default parameters."
    ]
    for setting in lab.settings:
        where = f"eps {setting.eps:g}, {setting.size}"
        partitions = results[_model_name("pruned", setting)]["params"]["n_partitions"]
        if partitions != setting.tuned["n_partitions"]:
            notes.append(
                f"Pruned, {where}: {partitions} partitions, as {setting.tuned['n_partitions']} did not give all trees."
            )
        for kind in LARGE_SPREAD:
            n_trees = results[_model_name(kind, setting)]["n_trees"]
            if n_trees < setting.trees:
                notes.append(f"{kind.capitalize()}, {where}: {n_trees} trees only.")
    unknown = sum(cell["norms"][norm]["unknown"] for cell in results.values() for norm in norms)
    if unknown:
        notes.append(
            f"Verdicts left UNKNOWN, in all cells together: {unknown}. Where that matters, an interval is shown."
        )
    else:
        notes.append("Every row of every model was decided: all numbers are exact.")
    return notes


def as_markdown(outcome: Outcome) -> str:
    """Write a table as Markdown, with its notes below."""
    lines = [f"**{outcome.dataset}: {outcome.title}**", "", "| " + " | ".join(outcome.columns) + " |"]
    lines.append("|" + "---|" * len(outcome.columns))
    lines += ["| " + " | ".join(row) + " |" for row in outcome.rows]
    lines += ["", *(f"- {note}" for note in outcome.notes), ""]
    return "\n".join(lines)
