"""The paper's tables and figures, with its numbers beside ours."""

from certiforest.reproduction.experiments import as_markdown, reproduce

__all__ = ["as_markdown", "reproduce"]
