"""The room of doors: models of every kind enter as a `TreeEnsemble`, exactly, or are refused by name."""

from certiforest.formats.doors import as_ensemble
from certiforest.formats.onnx_files import save_onnx
from certiforest.formats.silva_text import save_silva

__all__ = ["as_ensemble", "save_onnx", "save_silva"]
