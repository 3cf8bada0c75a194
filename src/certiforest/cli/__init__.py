"""The command line: what people type, and what they see of it."""

from certiforest.cli.commands import main

__all__ = ["main"]
