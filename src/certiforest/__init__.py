"""certiforest: tree ensembles whose robustness against evasion attacks is proved.

An attacker may move a row by ``eps`` in an L_p norm. Trees whose thresholds on one feature never come within
``2 * eps`` of each other have *large spread*; for them a verdict on every row is exact in polynomial time.

The house, from the front door down (imports go down only)::

    cli.py             what people type
    console.py         what people see of it
    sources.py         what was typed about data, turned into rows as a model sees them
    reproduction.py    the paper's tables and figures, with its numbers beside ours
    report.py          findings as plain data; report_html.py draws them
    tuning.py          scorers that certify; a search that can be resumed
    certify.py         certify(model, X, y, attacker): the one front door
    datasets.py        datasets by name: source, licence, checksum, split, scaling
    tables.py          rows and labels from CSV, Parquet, npz and LIBSVM files
    training/          trainers of large-spread ensembles
    verification/      composition of votes, sums of scores, knapsacks, radius, witness, exact arithmetic
    formats/           doors for models: scikit-learn, XGBoost, LightGBM, CatBoost, ONNX, .silva; as_ensemble(model)
    spread.py          how far apart thresholds are: spread, overlaps, has_large_spread
    reach_kernels.py   what one tree can be made to say, and at what cost
    ensemble.py        TreeEnsemble: all trees as flat read-only arrays; they vote, or their scores add up
    attacker.py        Attacker(norm, eps, scale, frozen, domain)
    scaling.py         Scaling: from the numbers in a file to those that eps refers to
    verdict.py         ROBUST, FRAGILE, VULNERABLE, BROKEN, UNKNOWN; Certificates
    rows.py            rows as they enter: checked, in blocks
    scores.py          scores of leaves, made ready for exact sums
    rounding_kernels.py  the rounding rule: comparisons right to the last bit
"""

from typing import TYPE_CHECKING, Any

from certiforest.attacker import Attacker
from certiforest.certify import certify
from certiforest.ensemble import ModelError, Nodes, TreeEnsemble
from certiforest.formats import as_ensemble, save_onnx, save_silva
from certiforest.scaling import Scaling
from certiforest.spread import has_large_spread, overlaps, spread
from certiforest.verdict import Certificates, Verdict

if TYPE_CHECKING:
    from certiforest.training.boosting import LargeSpreadBoostingClassifier
    from certiforest.training.forest import LargeSpreadForestClassifier

__version__ = "0.1.0.dev0"
__all__ = [
    "Attacker",
    "Certificates",
    "LargeSpreadBoostingClassifier",
    "LargeSpreadForestClassifier",
    "ModelError",
    "Nodes",
    "Scaling",
    "TreeEnsemble",
    "Verdict",
    "as_ensemble",
    "certify",
    "has_large_spread",
    "overlaps",
    "save_onnx",
    "save_silva",
    "spread",
]

# Trainers need scikit-learn, which takes a second to import: loaded when first asked for, so that commands
# which only read and verify models start at once.
_TRAINERS = {
    "LargeSpreadBoostingClassifier": "certiforest.training.boosting",
    "LargeSpreadForestClassifier": "certiforest.training.forest",
}


def __getattr__(name: str) -> Any:
    if name not in _TRAINERS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    trainer = globals()[name] = getattr(import_module(_TRAINERS[name]), name)
    return trainer
