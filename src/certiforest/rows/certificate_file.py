"""Certificate files: what was found out about rows, with proofs and witnesses, as text that anyone can check.

The format stands in ``docs/certificate_format.md``; `certiforest.audit` checks such files and shares no code with this.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certiforest.attack.choices import Categories
from certiforest.attack.moves import Moves
from certiforest.attack.parameters import AttackerError
from certiforest.attack.relations import count_broken
from certiforest.attack.rules import read_attacker
from certiforest.files import write_atomically
from certiforest.rows.certified_rows import CertifiedRows
from certiforest.verdicts import STABLE, UNKNOWN, UNSTABLE

FORMAT, FORMAT_VERSION = "certiforest certificate", 1


class CertificateError(ValueError):
    """A certificate file is not what it should be, or certificates hold too little to be written."""


def save(certificates: CertifiedRows, path: str | os.PathLike[str], *, replace: bool = True) -> None:
    """Write certificates to a file, which appears whole or not at all."""
    save_lines(certificates, lines_of(certificates), path, replace=replace)


def save_lines(
    certificates: CertifiedRows, lines: Iterable[str], path: str | os.PathLike[str], *, replace: bool = True
) -> None:
    """Write what `lines_of` made of more rows than memory holds; all but the rows is as in some certificates."""
    n_lines = 0

    def content() -> Iterator[str]:
        nonlocal n_lines
        yield _text(_header(certificates))
        for line in lines:
            n_lines += 1
            yield line
        yield _text({"end": n_lines})

    write_atomically(path, content(), replace=replace)


def lines_of(certificates: CertifiedRows) -> Iterator[str]:
    """Yield the line of each row."""
    return map(_text, _rows(certificates))


def _text(line: dict[str, Any]) -> str:
    return json.dumps(line, separators=(",", ":")) + "\n"


def _header(c: CertifiedRows) -> dict[str, Any]:
    if c.attacker is None or c.classes is None or c.rows is None:
        raise CertificateError("Expected certificates with proofs, got none: call certify(..., proof=True).")
    if c.tolerance is not None:
        raise CertificateError("Expected certificates of a classifier, got those of a regressor, which no file holds.")
    return {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "model_sha256": c.model_sha256,
        "attacker": document_of(c.attacker.moves(c.rows.shape[1])),
        "classes": c.classes.tolist(),
        "margin": c.margin,
        "radius": c.radius is not None,
        **({} if c.attacked is None else {"attacked": c.attacked.tolist()}),
        "about": {**(c.about or {}), "attacker": c.attacker.to_document()},  # as given, by names where there are some
    }


def document_of(moves: Moves) -> dict[str, Any]:
    """Say what may be done with each column, by index; columns that are treated alike stand together.

    That is what a certificate is about, and all that its auditor reads.
    """
    found: dict[str, tuple[str, dict[str, Any], list[int]]] = {}
    for f in np.flatnonzero(~moves.is_in_group).tolist():
        said = _column(moves, f)
        kind = next(iter(said))
        if len(said) > 1 or kind == "frozen":
            found.setdefault(json.dumps({**said, kind: []}), (kind, said, []))[2].append(f)
    columns = [said | {kind: place} for kind, said, place in found.values()]
    columns += [choice.document() for variable, choice in moves.choices.items() if variable >= moves.n_features]
    return {
        "norm": "inf" if moves.norm == math.inf else int(moves.norm),
        "eps": moves.eps,
        **({} if moves.missing is None else {"missing": moves.missing}),
        **({"columns": columns} if columns else {}),
        **({"relations": [relation.audited() for relation in moves.relations]} if moves.relations else {}),
    }


def _column(moves: Moves, f: int) -> dict[str, Any]:
    scale, may_move, low, high, is_whole = moves.numbers
    if not may_move[:, f].any():
        return {"frozen": [f]}
    ends = {"low": float(low[f])} if low[f] > -math.inf else {}
    ends |= {"high": float(high[f])} if high[f] < math.inf else {}
    if isinstance(choice := moves.choices.get(f), Categories):
        return {"categories": [f], **ends, "cost": choice.cost}
    if choice is not None:
        return choice.document()
    units = {key: float(scale[way, f] * may_move[way, f]) for way, key in enumerate(("down", "up"))}
    units = {key: unit for key, unit in units.items() if unit != 1}
    return {"numbers": [f], **units, **ends, **({"integer": True} if is_whole[f] else {})}


def _rows(c: CertifiedRows) -> Iterator[dict[str, Any]]:
    if c.rows is None or c.proof is None:
        raise CertificateError("Expected certificates with proofs, got none: call certify(..., proof=True).")
    for i, stable in enumerate(c.stable.tolist()):
        line: dict[str, Any] = {
            "row": _listed(c.rows[i]),
            "prediction": c.prediction[i].item(),
            "stable": stable,
            "method": str(c.method[i]),
        }
        if c.label is not None:
            line["label"] = c.label[i].item() if hasattr(c.label[i], "item") else c.label[i]
        # Where everything can be blanked, no row says whether it is a witness; the auditor finds out.
        may_be_blank = getattr(c.attacker, "missing", None) is not None
        if stable == UNSTABLE and c.witness is not None and (may_be_blank or not np.isnan(c.witness[i]).all()):
            line["witness"] = _listed(c.witness[i])
        if stable == STABLE and c.proof[i] is not None:
            line["proof"] = c.proof[i]
        if c.radius is not None and c.radius_upper is not None:
            line["radius"], line["radius_upper"] = _written(c.radius[i]), _written(c.radius_upper[i])
            if c.radius_proof is not None and c.radius_proof[i] is not None:
                line["radius_proof"] = c.radius_proof[i]
            if c.radius_witness is not None and c.radius_witness[i] is not None:
                line["radius_witness"] = _listed(c.radius_witness[i])
        yield line


def load(path: str | os.PathLike[str]) -> CertifiedRows:
    """Read certificates; what they say is taken as it stands."""
    try:
        with open(path, encoding="utf-8") as file:
            header, *lines, end = map(json.loads, file)
        if header["format"] != FORMAT or header["version"] != FORMAT_VERSION:
            raise CertificateError(f"Expected {path} to be a certificate of version {FORMAT_VERSION}, got another.")
        if end != {"end": len(lines)}:
            raise CertificateError(f"Expected {path} to end after {len(lines)} rows, got something else: was it cut?")
        return _certificates(header, lines)
    except AttackerError as error:
        raise CertificateError(f"{path} is not a certificate. {error}") from None
    except (ValueError, KeyError, TypeError, IndexError, OverflowError, RecursionError) as error:
        if isinstance(error, CertificateError):
            raise
        raise CertificateError(
            f"Expected {path} to be a certificate that certiforest wrote, got something else ({error!r})."
        ) from None


def _certificates(header: dict[str, Any], lines: list[dict[str, Any]]) -> CertifiedRows:
    classes, given = np.array(header["classes"]), header["about"]["attacker"]
    attacker = read_attacker(given)
    rows = np.array([line["row"] for line in lines], np.float64)
    has_label, has_radius = any("label" in line for line in lines), bool(header["radius"])
    prediction = np.array([line["prediction"] for line in lines], None if lines else classes.dtype)
    if len(lines) and document_of(attacker.moves(rows.shape[1])) != header["attacker"]:
        raise CertificateError("Expected a certificate about the attacker that it notes as given, got another one.")
    label = np.array([line["label"] for line in lines]) if has_label else None
    if not all(np.isin(said, classes).all() for said in (prediction, label) if said is not None):
        raise CertificateError("Expected predictions and labels among the classes of the model, got others.")
    if not all(type(line["stable"]) is int and line["stable"] in (STABLE, UNSTABLE, UNKNOWN) for line in lines):
        raise CertificateError("Expected 1, 0 or -1 as stable in every row, got something else.")
    nothing = np.full(rows.shape[1] if len(lines) else 0, np.nan)
    witness = np.array([line.get("witness", nothing) for line in lines], np.float64)
    return CertifiedRows(
        prediction=prediction.astype(classes.dtype),
        stable=np.array([line["stable"] for line in lines], np.int8),
        method=np.array([line["method"] for line in lines], "<U8"),
        label=label,
        radius=np.array([float(line["radius"]) for line in lines]) if has_radius else None,
        radius_upper=np.array([float(line["radius_upper"]) for line in lines]) if has_radius else None,
        witness=witness,
        proof=_objects([line.get("proof") for line in lines]),
        radius_proof=_objects([line.get("radius_proof") for line in lines]) if has_radius else None,
        radius_witness=_objects([_array(line.get("radius_witness")) for line in lines]) if has_radius else None,
        rows=rows,
        broken_relations=count_broken(attacker.relations, [rows]),
        attacker=attacker,
        attacked=None if header.get("attacked") is None else np.array(header["attacked"], classes.dtype),
        margin=float(header["margin"]),
        model_sha256=header["model_sha256"],
        classes=classes,
        about={key: value for key, value in header["about"].items() if key != "attacker"},
    )


def _listed(row: NDArray[np.float64]) -> list[float | None]:
    """Return a row with null for what is missing."""
    return [None if value != value else value for value in row.tolist()]


def _written(value: float) -> float | str:
    return "inf" if math.isinf(value) else float(value)


def _array(values: list[float] | None) -> NDArray[np.float64] | None:
    return None if values is None else np.array(values, np.float64)


def _objects(values: list[Any]) -> NDArray[np.object_]:
    array = np.empty(len(values), object)
    array[:] = values
    return array
