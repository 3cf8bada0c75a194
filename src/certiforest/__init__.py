"""certiforest: tree ensembles whose robustness against evasion attacks is proved.

An attacker may move a row by ``eps`` in an L_p norm. Trees whose thresholds on one feature never come within
``2 * eps`` of each other have *large spread*; for them a verdict on every row is exact in polynomial time.

The house, from the front door down (imports go down only)::

    cli.py             what people type
    tuning.py          scorers that certify; a search that can be resumed
    certify.py         certify(model, X, y, attacker): the one front door
    training/          trainers of large-spread ensembles
    verification/      composition of trees, radius, witness, exact arithmetic
    formats/           doors for models: scikit-learn, .silva; as_ensemble(model)
    spread.py          how far apart thresholds are: spread, overlaps, has_large_spread
    reach_kernels.py   what one tree can be made to say, and at what cost
    ensemble.py        TreeEnsemble: all trees as flat read-only arrays
    attacker.py        Attacker(norm, eps, scale, frozen, domain)
    verdict.py         ROBUST, FRAGILE, VULNERABLE, BROKEN, UNKNOWN; Certificates
    rows.py            rows as they enter: checked, in blocks
    rounding_kernels.py  the rounding rule: comparisons right to the last bit
"""

from certiforest.attacker import Attacker
from certiforest.certify import certify
from certiforest.ensemble import ModelError, Nodes, TreeEnsemble
from certiforest.formats import as_ensemble, save_silva
from certiforest.spread import has_large_spread, overlaps, spread
from certiforest.training.boosting import LargeSpreadBoostingClassifier
from certiforest.training.forest import LargeSpreadForestClassifier
from certiforest.verdict import Certificates, Verdict

__version__ = "0.1.0.dev0"
__all__ = [
    "Attacker",
    "Certificates",
    "LargeSpreadBoostingClassifier",
    "LargeSpreadForestClassifier",
    "ModelError",
    "Nodes",
    "TreeEnsemble",
    "Verdict",
    "as_ensemble",
    "certify",
    "has_large_spread",
    "overlaps",
    "save_silva",
    "spread",
]
