"""certiforest: tree ensembles whose robustness against evasion attacks is proved.

An attacker may move a row by ``eps`` in an L_p norm. Trees whose thresholds on one feature never come within
``2 * eps`` of each other have *large spread*; for them a verdict on every row is exact in polynomial time.

The package, from the top down (imports go down only)::

    cli/               what people type, and what they see of it
    warming.py         what users do, done once, so that nothing is left to be compiled
    explanation.py     explain: one row closely; comparison.py: two models or attackers; gate.py: assert_robust
    tracking.py        what MLflow asks to evaluate a model
    tuning.py          scorers that certify, for scikit-learn's searches
    data/              rows and labels: files of every kind, datasets by name, splits; streams certified block by block
    audit.py           checks certificates alone: imports nothing of the rest
    statements/        check, measure: statements about all inputs of a model, and the domain in which these lie
    certification.py   certify(model, X, y, attacker): the one front door
    dask_rows.py       the same for rows of dask: lazy, block by block
    certifier.py       Certifier: a model and an attacker, prepared once: a pure function from rows to findings
    outputs.py         what a regressor, or a classifier's probability, can become in reach of rows
    certificates.py    Certificates: what was found, with its file, its report and its figures
    report/            findings as plain data; sections, drawn as one HTML page or as text; figures
    training/          trainers: large-spread forests, boosted and additive trees; worst-case boosting without spread
    rows/              the screen for blocks of rows, verdicts of single ones, radii, certificates' file
    formats/           doors for models: scikit-learn, XGBoost, LightGBM, CatBoost, ONNX, .silva; as_ensemble(model)
    proof/             answers a problem: message passing, tried moves, cuts; knows no row, attacker or model
    problem/           the question, as plain numbers: cells, prices, what leaves allow and gain; built around a row
    attack/            Attacker, resolved into moves by variable; how far apart thresholds are; the rounding rule
    ensemble/          TreeEnsemble: all trees as flat read-only arrays; its file; rows, scores and scaling
    compiled.py        the one decorator of all kernels; kernel_cache.py: for all processors, kept on disk, never stale;
                       kernel_lowering.py: in few instructions, which compile sooner
    files.py words.py  files that nobody sees half of; how numbers, norms, shares and lists are worded
    verdicts.py        what can be said about a row, in the paper's names and in plain words
"""

from importlib import import_module

from certiforest.version import __version__ as __version__

TYPE_CHECKING = False  # as type checkers read it; typing takes time to import, in which Ctrl-C is a traceback
if TYPE_CHECKING:
    from typing import Any

    from certiforest.attack.attacker import Attacker
    from certiforest.attack.parameters import AttackerError
    from certiforest.attack.rules import RuleAttacker
    from certiforest.attack.spread import has_large_spread, overlaps, spread
    from certiforest.attack.suggesting import suggest_relations
    from certiforest.attack.units import scale_from
    from certiforest.certificates import Certificates
    from certiforest.certification import certify
    from certiforest.certifier import Certifier
    from certiforest.comparison import Comparison, compare
    from certiforest.data.cells import TableError
    from certiforest.data.datasets import DatasetError
    from certiforest.data.split import SplitError
    from certiforest.ensemble import ModelError, Nodes, TreeEnsemble
    from certiforest.ensemble.rows import RowError
    from certiforest.ensemble.scaling import Scaling, ScalingError
    from certiforest.explanation import Explanation, explain
    from certiforest.files import FileError
    from certiforest.formats import as_ensemble, save_onnx, save_silva
    from certiforest.gate import assert_robust
    from certiforest.rows.asking import SpreadError
    from certiforest.rows.certificate_file import CertificateError
    from certiforest.statements.checking import check, measure
    from certiforest.statements.domain import Domain, DomainError
    from certiforest.statements.kinds import Insensitive, Monotone, Range, Robust, Same, StatementError
    from certiforest.training.additive import LargeSpreadAdditiveClassifier, LargeSpreadAdditiveRegressor
    from certiforest.training.boosting import LargeSpreadBoostingClassifier
    from certiforest.training.forest import LargeSpreadForestClassifier, ShortfallError
    from certiforest.training.robust_boosting import RobustBoostingClassifier, RobustBoostingRegressor
    from certiforest.verdicts import Verdict

__all__ = [
    "Attacker",
    "AttackerError",
    "CertificateError",
    "Certificates",
    "Certifier",
    "Comparison",
    "DatasetError",
    "Domain",
    "DomainError",
    "Explanation",
    "FileError",
    "Insensitive",
    "LargeSpreadAdditiveClassifier",
    "LargeSpreadAdditiveRegressor",
    "LargeSpreadBoostingClassifier",
    "LargeSpreadForestClassifier",
    "ModelError",
    "Monotone",
    "Nodes",
    "Range",
    "Robust",
    "RobustBoostingClassifier",
    "RobustBoostingRegressor",
    "RowError",
    "RuleAttacker",
    "Same",
    "Scaling",
    "ScalingError",
    "ShortfallError",
    "SplitError",
    "SpreadError",
    "StatementError",
    "TableError",
    "TreeEnsemble",
    "Verdict",
    "as_ensemble",
    "assert_robust",
    "certify",
    "check",
    "compare",
    "explain",
    "has_large_spread",
    "measure",
    "overlaps",
    "save_onnx",
    "save_silva",
    "scale_from",
    "spread",
    "suggest_relations",
]

# Compiled kernels take half a second to import, and trainers, which need scikit-learn, another: names come from their
# modules when first asked for, so that commands start at once.
_HOME = {
    "certiforest.attack.attacker": ("Attacker",),
    "certiforest.attack.parameters": ("AttackerError",),
    "certiforest.attack.rules": ("RuleAttacker",),
    "certiforest.attack.spread": ("has_large_spread", "overlaps", "spread"),
    "certiforest.attack.suggesting": ("suggest_relations",),
    "certiforest.attack.units": ("scale_from",),
    "certiforest.certificates": ("Certificates",),
    "certiforest.certification": ("certify",),
    "certiforest.certifier": ("Certifier",),
    "certiforest.comparison": ("Comparison", "compare"),
    "certiforest.data.cells": ("TableError",),
    "certiforest.data.datasets": ("DatasetError",),
    "certiforest.data.split": ("SplitError",),
    "certiforest.ensemble": ("ModelError", "Nodes", "TreeEnsemble"),
    "certiforest.ensemble.rows": ("RowError",),
    "certiforest.ensemble.scaling": ("Scaling", "ScalingError"),
    "certiforest.statements.checking": ("check", "measure"),
    "certiforest.statements.domain": ("Domain", "DomainError"),
    "certiforest.statements.kinds": ("Insensitive", "Monotone", "Range", "Robust", "Same", "StatementError"),
    "certiforest.explanation": ("Explanation", "explain"),
    "certiforest.files": ("FileError",),
    "certiforest.gate": ("assert_robust",),
    "certiforest.formats": ("as_ensemble", "save_onnx", "save_silva"),
    "certiforest.training.additive": ("LargeSpreadAdditiveClassifier", "LargeSpreadAdditiveRegressor"),
    "certiforest.training.boosting": ("LargeSpreadBoostingClassifier",),
    "certiforest.training.forest": ("LargeSpreadForestClassifier", "ShortfallError"),
    "certiforest.training.robust_boosting": ("RobustBoostingClassifier", "RobustBoostingRegressor"),
    "certiforest.rows.asking": ("SpreadError",),
    "certiforest.rows.certificate_file": ("CertificateError",),
    "certiforest.verdicts": ("Verdict",),
}
_HOME_OF = {name: module for module, names in _HOME.items() for name in names}


def __getattr__(name: str) -> "Any":
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOME_OF[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
