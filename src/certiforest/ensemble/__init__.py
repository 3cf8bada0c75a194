"""TreeEnsemble, the one representation of a model: nodes, exact scores, rows as they enter, scaling."""

from certiforest.ensemble.nodes import ModelError, Nodes
from certiforest.ensemble.tree_ensemble import TreeEnsemble

__all__ = ["ModelError", "Nodes", "TreeEnsemble"]
