"""certiforest: tree ensembles whose robustness against evasion attacks is proved."""

from certiforest.attacker import Attacker
from certiforest.ensemble import Nodes, TreeEnsemble
from certiforest.spread import has_large_spread, overlaps, spread
from certiforest.verdict import Certificates, Verdict

__version__ = "0.1.0.dev0"
__all__ = ["Attacker", "Certificates", "Nodes", "TreeEnsemble", "Verdict", "has_large_spread", "overlaps", "spread"]
