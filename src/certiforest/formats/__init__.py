"""The room of doors: models of every kind enter as a `TreeEnsemble`, exactly, or are refused by name."""

from certiforest.formats.doors import as_ensemble
from certiforest.formats.silva_text import save_silva

__all__ = ["as_ensemble", "save_silva"]
