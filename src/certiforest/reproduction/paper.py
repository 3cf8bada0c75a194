"""The paper's settings and printed numbers, as data."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any


class ReproductionError(ValueError):
    """An experiment is unknown, or not one that the paper has for a dataset."""


@dataclass(frozen=True)
class Setting:
    """A dataset, size and budget of the paper, with its tuned parameters and printed results."""

    dataset: str
    eps: float
    trees: int
    depth: int
    tuned: dict[str, Any]
    traditional: dict[str, float]
    large_spread: dict[str, float]

    @property
    def size(self) -> str:
        """Trees and depth, as shown."""
        return f"{self.trees} x {self.depth}"


def paper_settings(dataset: str) -> list[Setting]:
    """Return the paper's settings for one of its datasets, small budgets first.

    Raises
    ------
    ReproductionError
        If the paper has no results for the dataset.
    """
    settings = [Setting(**entry) for entry in read_paper()["settings"] if entry["dataset"] == dataset]
    if not settings:
        known = sorted({entry["dataset"] for entry in read_paper()["settings"]})
        raise ReproductionError(f"Expected a dataset of the paper, {', '.join(known)}, got {dataset!r}.")
    return settings


@cache
def read_paper() -> dict[str, Any]:
    """Return what the paper prints: settings, tables, and the numbers its text names for its figures."""
    return json.loads(files("certiforest.reproduction").joinpath("paper_tables.json").read_text(encoding="utf-8"))
