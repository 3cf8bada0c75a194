"""certiforest: tree ensembles whose robustness against evasion attacks is proved.

An attacker may move a row by ``eps`` in an L_p norm. Trees whose thresholds on one feature never come within
``2 * eps`` of each other have *large spread*; for them a verdict on every row is exact in polynomial time.

The house, from the front door down (imports go down only)::

    cli/               what people type, and what they see of it
    reproduction/      the paper's tables and figures, with its numbers beside ours
    report/            findings as plain data, as text and as one HTML page
    tuning.py          scorers that certify; a search that can be resumed
    data/              rows and labels: files of every kind, datasets by name, splits
    certify.py         certify(model, X, y, attacker): the one front door
    training/          trainers of large-spread ensembles
    verification/      composition of votes, sums of scores, knapsacks, radius, witness, exact arithmetic
    formats/           doors for models: scikit-learn, XGBoost, LightGBM, CatBoost, ONNX, .silva; as_ensemble(model)
    attack/            Attacker, how far apart thresholds are, the rounding rule, what one tree can be made to say
    ensemble/          TreeEnsemble: all trees as flat read-only arrays; its file; rows, scores and scaling
    compiled.py        the one decorator of all kernels; kernel_cache.py: their machine code on disk, never stale
    files.py           writing files so that nobody sees half of one
"""

from typing import TYPE_CHECKING, Any

from certiforest.attack.attacker import Attacker, AttackerError
from certiforest.attack.spread import has_large_spread, overlaps, spread
from certiforest.certify import certify
from certiforest.ensemble import ModelError, Nodes, TreeEnsemble
from certiforest.ensemble.rows import RowError
from certiforest.ensemble.scaling import Scaling, ScalingError
from certiforest.formats import as_ensemble, save_onnx, save_silva
from certiforest.verification.certificates import Certificates, Verdict

if TYPE_CHECKING:
    from certiforest.training.additive import LargeSpreadAdditiveClassifier
    from certiforest.training.boosting import LargeSpreadBoostingClassifier
    from certiforest.training.forest import LargeSpreadForestClassifier
    from certiforest.training.robust_boosting import RobustBoostingClassifier

__version__ = "0.2.0.dev0"
__all__ = [
    "Attacker",
    "AttackerError",
    "Certificates",
    "LargeSpreadAdditiveClassifier",
    "LargeSpreadBoostingClassifier",
    "LargeSpreadForestClassifier",
    "ModelError",
    "Nodes",
    "RobustBoostingClassifier",
    "RowError",
    "Scaling",
    "ScalingError",
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
    "LargeSpreadAdditiveClassifier": "certiforest.training.additive",
    "LargeSpreadBoostingClassifier": "certiforest.training.boosting",
    "LargeSpreadForestClassifier": "certiforest.training.forest",
    "RobustBoostingClassifier": "certiforest.training.robust_boosting",
}


def __getattr__(name: str) -> Any:
    if name not in _TRAINERS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    trainer = globals()[name] = getattr(import_module(_TRAINERS[name]), name)
    return trainer
