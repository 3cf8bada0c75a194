"""The paper's tables and figures, with its numbers beside ours."""

from certiforest.reproduction.experiments import EXPERIMENTS, as_markdown, reproduce
from certiforest.reproduction.paper import ReproductionError, paper_settings

__all__ = ["EXPERIMENTS", "ReproductionError", "as_markdown", "paper_settings", "reproduce"]
