"""certiforest: tree ensembles whose robustness against evasion attacks is proved.

An attacker may move a row by ``eps`` in an L_p norm. Trees whose thresholds on one feature never come within
``2 * eps`` of each other have *large spread*; for them a verdict on every row is exact in polynomial time.

The house, from the front door down (imports go down only)::

    cli/               what people type, and what they see of it
    reproduction/      the paper's tables and figures, with its numbers beside ours
    report/            findings as plain data, as text and as one HTML page
    tuning.py          scorers that certify; a search that can be resumed
    data/              rows and labels: files of every kind, datasets by name, splits
    audit.py           checks certificates alone: imports nothing of the rest
    certification.py   certify(model, X, y, attacker): the one front door
    training/          trainers: large-spread forests, boosted and additive trees; worst-case boosting without spread
    verification/      screens for votes and sums, cells near a row, proofs by message passing, radius, certificates
    formats/           doors for models: scikit-learn, XGBoost, LightGBM, CatBoost, ONNX, .silva; as_ensemble(model)
    attack/            Attacker, how far apart thresholds are, the rounding rule, what one tree can be made to say
    ensemble/          TreeEnsemble: all trees as flat read-only arrays; its file; rows, scores and scaling
    compiled.py        the one decorator of all kernels; kernel_cache.py: their machine code on disk, never stale
    files.py words.py  files that nobody sees half of; how numbers, norms, shares and lists are worded
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from certiforest.attack.attacker import Attacker
    from certiforest.attack.columns import AttackerError
    from certiforest.attack.spread import has_large_spread, overlaps, spread
    from certiforest.certification import SpreadError, certify
    from certiforest.data.catalogue import DatasetError
    from certiforest.data.split import SplitError
    from certiforest.data.tables import TableError
    from certiforest.ensemble import ModelError, Nodes, TreeEnsemble
    from certiforest.ensemble.rows import RowError
    from certiforest.ensemble.scaling import Scaling, ScalingError
    from certiforest.files import FileError
    from certiforest.formats import as_ensemble, save_onnx, save_silva
    from certiforest.training.additive import LargeSpreadAdditiveClassifier
    from certiforest.training.boosting import LargeSpreadBoostingClassifier
    from certiforest.training.forest import LargeSpreadForestClassifier, ShortfallError
    from certiforest.training.robust_boosting import RobustBoostingClassifier
    from certiforest.tuning import JournalError
    from certiforest.verification.certificate_file import CertificateError
    from certiforest.verification.certificates import Certificates, Verdict

__version__ = "0.2.0.dev0"
__all__ = [
    "Attacker",
    "AttackerError",
    "CertificateError",
    "Certificates",
    "DatasetError",
    "FileError",
    "JournalError",
    "LargeSpreadAdditiveClassifier",
    "LargeSpreadBoostingClassifier",
    "LargeSpreadForestClassifier",
    "ModelError",
    "Nodes",
    "RobustBoostingClassifier",
    "RowError",
    "Scaling",
    "ScalingError",
    "ShortfallError",
    "SplitError",
    "SpreadError",
    "TableError",
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

# Compiled kernels take half a second to import, and trainers, which need scikit-learn, another: names come from their
# modules when first asked for, so that commands start at once.
_HOME = {
    "certiforest.attack.attacker": ("Attacker",),
    "certiforest.attack.columns": ("AttackerError",),
    "certiforest.attack.spread": ("has_large_spread", "overlaps", "spread"),
    "certiforest.certification": ("SpreadError", "certify"),
    "certiforest.data.catalogue": ("DatasetError",),
    "certiforest.data.split": ("SplitError",),
    "certiforest.data.tables": ("TableError",),
    "certiforest.ensemble": ("ModelError", "Nodes", "TreeEnsemble"),
    "certiforest.ensemble.rows": ("RowError",),
    "certiforest.ensemble.scaling": ("Scaling", "ScalingError"),
    "certiforest.files": ("FileError",),
    "certiforest.formats": ("as_ensemble", "save_onnx", "save_silva"),
    "certiforest.training.additive": ("LargeSpreadAdditiveClassifier",),
    "certiforest.training.boosting": ("LargeSpreadBoostingClassifier",),
    "certiforest.training.forest": ("LargeSpreadForestClassifier", "ShortfallError"),
    "certiforest.training.robust_boosting": ("RobustBoostingClassifier",),
    "certiforest.tuning": ("JournalError",),
    "certiforest.verification.certificate_file": ("CertificateError",),
    "certiforest.verification.certificates": ("Certificates", "Verdict"),
}
_HOME_OF = {name: module for module, names in _HOME.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOME_OF[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
