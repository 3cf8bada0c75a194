"""Repeat the experiments of the paper, its numbers beside ours.

    python studies/paper table3 [table4 ...] [--dataset mnist26] [--data-dir DIR] [--out-dir DIR] [--quick] [--trees N]
    python studies/paper page [--only table3]

table3: accuracy and robust accuracy; table4: by norm; table5: time and memory of verification; figure3: rows decided
within a time limit; figure4, figure5: training time by trees and by depth; tuning: the grid search; importance:
permutation importance, models side by side; page: all commands of results.md, whose tables are replaced.

Results are kept cell by cell in --out-dir, and cells found there are not run again: a run that was stopped goes on, and
after trainers or verifiers have changed a new directory is needed. Run with one thread (OMP_NUM_THREADS=1) for times
that can be compared. Datasets: mnist26, fashion03, rewema, webspam; their files are looked for in --data-dir, or in the
directory that CERTIFOREST_DATA names.

Protocol as in the paper: rows split 70/30, stratified, seed 7; 20% of the training rows validate where parameters are
searched; traditional forests vote as theirs do.
"""

import argparse
import sys
from pathlib import Path

import figures
import page
import tables
from lab import Experiment, Lab
from settings import StudyError, paper_settings

from certiforest import DatasetError

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


def reproduce(experiment: str, dataset: str, trees: int | None, options: argparse.Namespace) -> str:
    """Run an experiment, or what is left of it, and return its table as Markdown, with notes below."""
    settings = [s for s in paper_settings(dataset) if trees in (None, s.trees)]
    if not settings:
        sizes = ", ".join(map(str, sorted({s.trees for s in paper_settings(dataset)})))
        raise StudyError(f"Expected a number of trees that the paper has, {sizes}, got {trees}.")
    if options.quick:
        settings = [s for s in settings if s.trees == min(t.trees for t in settings)][-1:]
    lab = Lab(dataset, settings, options.out_dir, options.data_dir, options.download, options.quick)
    cells, tabulate = EXPERIMENTS[experiment](lab)
    results = {}
    for n_done, (name, work) in enumerate(cells.items()):
        print(f"{experiment} {dataset}: {n_done} of {len(cells)}, {name}", file=sys.stderr, flush=True)
        results[name] = lab.remember(name, work)
    try:
        title, columns, rows, notes = tabulate(results)
    except (KeyError, TypeError) as error:
        raise StudyError(
            f"Expected results of this version in {lab.folder}, got others ({error}); name a new directory for them."
        ) from None
    table = ["| " + " | ".join(row) + " |" for row in [columns, *rows]]
    table.insert(1, "|" + "---|" * len(columns))
    return "\n".join([f"**{dataset}: {title}**", "", *table, "", *(f"- {note}" for note in notes), ""])


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python studies/paper", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("experiment", nargs="+", choices=[*EXPERIMENTS, "page"])
    parser.add_argument("--dataset", default="mnist26")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--download", action="store_true", help="fetch files that are not at hand from OpenML")
    parser.add_argument("--out-dir", type=Path, default=Path("paper-results"))
    parser.add_argument("--quick", action="store_true", help="few rows, the small models, the largest budget")
    parser.add_argument("--trees", type=int, help="only the paper's models of so many trees")
    parser.add_argument("--only", choices=EXPERIMENTS, help="leave tables of other experiments on the page as they are")
    options = parser.parse_args()
    try:
        for experiment in options.experiment:
            if experiment == "page":
                page.write(lambda *command: reproduce(*command, options), options.only)
            else:
                print(reproduce(experiment, options.dataset, options.trees, options))
    except (StudyError, DatasetError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
