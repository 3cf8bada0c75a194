"""Reproduction: the paper's tables and figures through the public API, with its printed numbers beside ours.

An experiment is a list of cells (see `Lab`) and a table made of their results. Protocol as in the paper: rows split
70/30, stratified, seed 7; 20% of the training rows validate where parameters are searched; traditional forests vote as
theirs do.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from certiforest.reproduction import figures, tables
from certiforest.reproduction.lab import QUICK_TEST_ROWS, QUICK_TRAINING_ROWS, Experiment, Lab, Outcome
from certiforest.reproduction.paper import ReproductionError, paper_settings
from certiforest.words import listed

EXPERIMENTS: dict[str, Experiment] = {
    "table3": tables.accuracy_and_robustness,
    "table4": tables.robustness_by_norm,
    "table5": tables.efficiency,
    "figure3": figures.time_limits,
    "figure4": figures.training_time_by_trees,
    "figure5": figures.training_time_by_depth,
    "tuning": tables.tuning,
    "importance": tables.importance,
}


def reproduce(
    experiment: str,
    dataset: str,
    *,
    out_dir: str | Path,
    data_dir: str | Path | None = None,
    download: bool = False,
    quick: bool = False,
    trees: int | None = None,
    progress: Callable[[int, int, str], None] | None = None,
) -> Outcome:
    """Run an experiment of the paper, or what is left of it, and return its table.

    Parameters
    ----------
    experiment : str
        One of `EXPERIMENTS`.
    dataset : str
        ``"mnist26"``, ``"fashion03"``, ``"rewema"`` or ``"webspam"``.
    out_dir : path
        Directory of results, made if absent. Cells found there are not run again.
    data_dir, download : optional
        As in `load_dataset`.
    quick : bool, default=False
        A small version: few rows, the small models, the largest budget.
    trees : int, optional
        Only the paper's models of so many trees.
    progress : callable, optional
        Called as ``progress(n_done, n_cells, cell)`` before each cell and at the end.
    """
    if experiment not in EXPERIMENTS:
        raise ReproductionError(f"Expected an experiment among {', '.join(EXPERIMENTS)}, got {experiment!r}.")
    settings = paper_settings(dataset)
    if trees is not None:
        sizes = sorted({setting.trees for setting in settings})
        settings = [setting for setting in settings if setting.trees == trees]
        if not settings:
            raise ReproductionError(f"Expected a number of trees that the paper has, {listed(sizes)}, got {trees}.")
    if quick:
        settings = [s for s in settings if s.trees == min(t.trees for t in settings)][-1:]
    lab = Lab(dataset, settings, Path(out_dir), data_dir, download, quick)
    cells, tabulate = EXPERIMENTS[experiment](lab)
    results = {}
    for n_done, (name, work) in enumerate(cells.items()):
        if progress is not None:
            progress(n_done, len(cells), name)
        results[name] = lab.remember(name, work)
    if progress is not None:
        progress(len(cells), len(cells), "done")
    try:
        title, columns, rows, notes = tabulate(results)
    except (KeyError, TypeError) as error:
        raise ReproductionError(
            f"Expected results of this version in {lab.folder}, got others ({error}); name a new directory for them."
        ) from None
    if quick:
        notes = [*notes, f"A quick version: {QUICK_TRAINING_ROWS} training rows, {QUICK_TEST_ROWS} test rows."]
    return Outcome(experiment, dataset, title, columns, rows, notes, results)


def as_markdown(outcome: Outcome) -> str:
    """Write a table as Markdown, with its notes below."""
    lines = [f"**{outcome.dataset}: {outcome.title}**", "", "| " + " | ".join(outcome.columns) + " |"]
    lines.append("|" + "---|" * len(outcome.columns))
    lines += ["| " + " | ".join(row) + " |" for row in outcome.rows]
    lines += ["", *(f"- {note}" for note in outcome.notes), ""]
    return "\n".join(lines)
