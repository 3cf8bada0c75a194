"""What `certify` and `report` share: a model, rows and an attacker, brought together and certified once."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from certiforest.attack.attacker import Attacker
from certiforest.certification import certify
from certiforest.cli import console
from certiforest.cli.options import CertifyingOptions, DataOptions, InputError, check_work, open_model
from certiforest.data.readers import SUFFIXES
from certiforest.data.sources import Sample
from certiforest.ensemble import TreeEnsemble
from certiforest.verification.certificates import Certificates
from certiforest.words import cut, feature_name


@dataclass(frozen=True)
class Question:
    """Rows, and the attacker from whom a model is to protect them."""

    model: str
    ensemble: TreeEnsemble
    rows: Sample
    attacker: Attacker
    options: CertifyingOptions

    def answer(self, *, radius: bool, witness: bool, proof: bool = False, title: str = "Certifying") -> Run:
        """Certify the rows."""
        start = time.perf_counter()
        with console.progress_bar(title, len(self.rows.X)) as advance:
            found = certify(
                self.ensemble,
                self.rows.X,
                self.rows.y,
                self.attacker,
                radius=radius,
                witness=witness,
                proof=proof,
                time_limit=self.options.time_limit,
                n_jobs=self.options.jobs,
                progress=advance,
            )
        found = replace(found, about={**(found.about or {}), **_origin(self.model, self.rows)})
        return Run(self.model, self.ensemble, self.rows, self.attacker, found, time.perf_counter() - start)


@dataclass(frozen=True)
class Run:
    """What was certified, and what came out."""

    model: str
    ensemble: TreeEnsemble
    rows: Sample
    attacker: Attacker
    found: Certificates
    seconds: float

    @property
    def names_for_report(self) -> dict[str, Any]:
        """What a report calls the model, the data, its rows and features."""
        return names_for_report(self.model, self.rows)


def _origin(model: str, rows: Sample) -> dict[str, Any]:
    """Return where a model and rows come from: files with their digests, and how many rows of them are left out."""
    origin: dict[str, Any] = {}
    for name, path in (("model_file", model), ("data_file", rows.source)):
        origin[name] = Path(path).name
        if Path(path).is_file():
            with open(path, "rb") as file:
                origin[f"{name}_sha256"] = hashlib.file_digest(file, "sha256").hexdigest()
    origin["rows_left_out"] = rows.n_left_out
    return origin


def names_for_report(model: str, rows: Sample) -> dict[str, Any]:
    """Return what a report calls a model, rows and their features."""
    return {
        "model": Path(model).name,
        "data": Path(rows.source).name + (f" ({rows.part} part)" if rows.part != "all" else ""),
        "feature_names": rows.names,
        "row_numbers": rows.row_numbers,
        "scaling": rows.scaling,
        "image_shape": rows.image_shape,
    }


def ask(model: Path, data: DataOptions, options: CertifyingOptions) -> Question:
    """Read a model and rows, and make the attacker."""
    check_work(options.time_limit, options.jobs)
    if Path(data.data).suffix.lower() == ".json" and model.suffix.lower() in SUFFIXES:
        raise InputError(f"Expected the model before the data, got {str(model)!r} before {data.data!r}.")
    ensemble = open_model(model)
    rows = data.source().load(ensemble, options.part)
    attacker = options.attacker(options.eps, rows.names, ensemble.n_features, options.domain)
    if not rows.is_checked:
        console.complain(
            f"warning: {model} does not say which rows it was trained on; the {rows.part} part of {rows.source} is that"
            " of the usual split, and may hold rows that the model has learned."
        )
    warn_of_units(attacker, rows)
    return Question(str(model), ensemble, rows, attacker, options)


def warn_of_units(attacker: Attacker, rows: Sample) -> None:
    """Warn where eps is so large that it is likely meant in other units."""
    if attacker.norm == 0:
        return
    n_features = rows.X.shape[1]
    # Scaled features have a range of 1, whatever part of it these rows fill. Halves cannot overflow.
    half = rows.X.max(axis=0) / 2 - rows.X.min(axis=0) / 2 if rows.scaling is None else np.full(n_features, 0.5)
    doubtful = np.flatnonzero((half > 0) & (attacker.eps > half) & ~attacker.is_frozen(n_features))
    if doubtful.size == 0:
        return
    first = int(doubtful[half[doubtful].argmin()])
    others = f" and of {doubtful.size - 1} others" if doubtful.size > 1 else ""
    where, advice = "in these rows", "With train --scale, eps is a share of each feature's range."
    if rows.scaling is not None:
        where, advice = "after scaling", "The model is scaled: eps is a share of each feature's range."
    width = 2 * float(half[first])
    console.complain(
        f"warning: eps {attacker.eps:g} exceeds half the range ({width:g} {where}) of feature"
        f" {cut(feature_name(rows.names, first), 60)}{others}. Is it meant in other units? {advice}"
    )
