"""What a library itself makes of a model file, found out in a process apart: it may crash or never come back."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import resource
import signal
from pathlib import Path

import numpy as np

from certiforest import TreeEnsemble
from certiforest.formats.agreement import check_agreement
from certiforest.formats.catboost_models import with_texts
from certiforest.formats.lightgbm_models import PROBABILITY_SLACK as LIGHTGBM_SLACK
from certiforest.formats.xgboost_models import PROBABILITY_SLACK as XGBOOST_SLACK

PATIENCE = 20  # seconds for the library; it may loop for ever


def _serve(pipe) -> None:
    """Read files in a child; when it crashes, say so and go on with another one."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    resource.setrlimit(resource.RLIMIT_AS, (2**33, 2**33))
    for name in ("xgboost", "lightgbm", "catboost", "onnxruntime"):
        importlib.import_module(name)  # once: it takes seconds
    while True:
        child = os.fork()
        if child == 0:
            _read_on(pipe)
            os._exit(0)
        if os.waitpid(child, 0)[1] == 0:
            return
        pipe.send("it crashed, or did not come back")


def _read_on(pipe) -> None:
    readers = {"X": _read_by_xgboost, "L": _read_by_lightgbm, "C": _read_by_catboost, "O": _read_by_onnxruntime}
    while (request := pipe.recv()) is not None:
        kind, path = request
        try:
            signal.alarm(PATIENCE)  # which ends the process
            ask = readers[kind[0]](path)
            pipe.send(None)
            pipe.send(ask(pipe.recv()))
        except Exception as error:
            pipe.send(f"{type(error).__name__}: {error}"[:300])
        signal.alarm(0)


def _read_by_xgboost(path):
    import xgboost

    booster = xgboost.Booster({"nthread": 1})
    booster.load_model(bytearray(Path(path).read_bytes()))

    def ask(rows):
        value = np.asarray(booster.inplace_predict(rows, validate_features=False))
        sums = np.asarray(booster.inplace_predict(rows, predict_type="margin", validate_features=False))
        is_many = sums.ndim == 2 and sums.shape[1] > 1
        label = value.argmax(axis=1) if value.ndim == 2 and is_many else np.ravel(value if is_many else value > 0.5)
        return label.astype(np.int64), sums

    return ask


def _read_by_lightgbm(path):
    import lightgbm

    booster = lightgbm.Booster(model_file=path)

    def ask(rows):
        value = np.asarray(booster.predict(rows, num_threads=1))
        label = value.argmax(axis=1) if value.ndim == 2 else (value > 0.5).astype(np.int64)
        return label, np.asarray(booster.predict(rows, raw_score=True, num_threads=1))

    return ask


def _read_by_catboost(path):
    import catboost

    model = catboost.CatBoostClassifier()
    model.load_model(path, format="json")
    return lambda rows: (
        np.ravel(model.predict(rows, thread_count=1)),
        model.predict(rows, prediction_type="RawFormulaVal", thread_count=1),
    )


def _read_by_onnxruntime(path):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    (one,) = session.get_inputs()
    dtype = np.float32 if one.type == "tensor(float)" else np.float64

    def ask(rows):
        with np.errstate(over="ignore"):
            label = session.run(["label"], {one.name: rows.astype(dtype)})[0]
        return np.ravel(label), None

    return ask


class Library:
    """The library's own reader."""

    def __init__(self) -> None:
        self._process = None

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other,), daemon=True)
        self._process.start()
        other.close()

    def stop(self) -> None:
        if self._process is not None:
            self._pipe.send(None)
            self._process.join()
            self._process = None

    def compare(self, kind: str, path: str, ensemble: TreeEnsemble) -> str | None:
        """Return why the library does not read a file, None if it does; raise ModelError if it predicts otherwise."""
        if self._process is None:
            self._start()
        self._pipe.send((kind, path))
        refusal = self._pipe.recv()
        if refusal is not None:
            return refusal
        answers = []

        def ask(rows):
            if not answers:
                hashed = [f for f, word in ensemble.unseen.items() if word == "hashed"]
                self._pipe.send(with_texts(hashed)(rows) if hashed else rows)
                answers.append(self._pipe.recv())
            return answers[0]

        def predict(rows):
            answer = ask(rows)
            if isinstance(answer, str):
                raise _RefusedError(answer)
            return answer[0].astype(ensemble.classes.dtype)

        slack = {"X": XGBOOST_SLACK, "L": max(LIGHTGBM_SLACK.values())}.get(kind[0], 0.0)
        try:
            dtype = np.float32 if kind[0] in "XO" else np.float64
            raw = None if kind == "ONNX" else (lambda rows: ask(rows)[1])
            check_agreement(ensemble, kind, predict, raw, dtype=dtype, slack=slack, n_rows=256)
        except _RefusedError as error:
            return str(error)
        return None


class _RefusedError(Exception):
    pass
