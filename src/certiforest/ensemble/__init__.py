"""TreeEnsemble, the one representation of a model: nodes, exact scores, rows as they enter, scaling."""

from certiforest.ensemble.tree_ensemble import ModelError, Nodes, TreeEnsemble

__all__ = ["ModelError", "Nodes", "TreeEnsemble"]
