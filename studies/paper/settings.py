"""The paper's settings and printed numbers, as data."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any


class StudyError(ValueError):
    """The paper has no such experiment, or results found are none of ours."""


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
    StudyError
        If the paper has no results for the dataset.
    """
    settings = [Setting(**entry) for entry in read_paper()["settings"] if entry["dataset"] == dataset]
    if not settings:
        known = sorted({entry["dataset"] for entry in read_paper()["settings"]})
        raise StudyError(f"Expected a dataset of the paper, {', '.join(known)}, got {dataset!r}.")
    return settings


@cache
def read_paper() -> dict[str, Any]:
    """Return what the paper prints: settings, tables, and the numbers its text names for its figures."""
    return json.loads(Path(__file__).with_name("paper_tables.json").read_text(encoding="utf-8"))
