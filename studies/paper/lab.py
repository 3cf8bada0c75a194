"""The lab: where the cells of experiments are worked on, and remembered.

A cell is one model trained and certified, or one thing measured. Each cell's result is written to a file of its own as
soon as it is there, whole or not at all, so that a run which is stopped in whatever way goes on where it stopped.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

from models import MODELS, model_name
from numpy.typing import NDArray
from settings import Setting, StudyError

from certiforest import Attacker, TreeEnsemble, certify
from certiforest.data.datasets import load_dataset
from certiforest.files import write_atomically

NORMS = ("inf", "2", "1")
QUICK_TRAINING_ROWS, QUICK_TEST_ROWS = 1500, 300


Work = Callable[[], dict[str, Any]]
Tabulate = Callable[[dict[str, Any]], tuple[str, list[str], list[list[str]], list[str]]]  # title, columns, rows, notes
Experiment = Callable[["Lab"], tuple[dict[str, Work], Tabulate]]


class Lab:
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
                raise StudyError(f"Expected a result in {path}, got something else; remove it.") from None
        result = work()
        self.folder.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(result, indent=1, allow_nan=False) + "\n")
        return result

    def model(self, kind: str, setting: Setting) -> TreeEnsemble:
        """Return a trained model, from its file if it was trained before."""
        self.remember(model_name(kind, setting), lambda: self.train_and_certify(kind, setting))
        return TreeEnsemble.load(self.model_path(kind, setting))

    def model_path(self, kind: str, setting: Setting) -> Path:
        """Return where a trained model is kept."""
        return self.folder / "models" / f"{model_name(kind, setting)}.json"

    def train_and_certify(self, kind: str, setting: Setting) -> dict[str, Any]:
        """Train one model, keep it, and certify it on the test rows."""
        X_train, X_test, y_train, y_test = self.split
        start = time.process_time()
        ensemble, params = MODELS[kind](X_train, y_train, setting)
        seconds = time.process_time() - start
        path = self.model_path(kind, setting)
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
                "unknown": found.row_counts.stability["unknown"],
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
