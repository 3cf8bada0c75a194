"""Write docs/reproduction.md anew: every command on the page is run, and its table replaces the one below it.

    python studies/write_page.py --data-dir DIR [--out-dir DIR] [--only table3]

What stands between tables is kept. Results are kept cell by cell in --out-dir, and cells found there are not run
again: name a new directory after trainers or verifiers have changed. Run with one thread
(OMP_NUM_THREADS=1) for times that can be compared.
"""

import argparse
import re
import sys
from collections.abc import Callable
from pathlib import Path

from certiforest.files import write_atomically
from certiforest.reproduction import as_markdown, reproduce

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reproduction.md"
# A command in a block of its own, and all that follows until the next block or heading.
COMMAND = re.compile(
    r"(```console\n\$ certiforest reproduce (?P<experiment>\w+) --dataset (?P<dataset>\w+)( --trees (?P<trees>\d+))?"
    r" --markdown\n```\n)"
    r"(?P<table>.*?)(?=^```|^#|\Z)",
    re.DOTALL | re.MULTILINE,
)


def rewrite(page: str, run: Callable[[str, str, int | None], str], only: str | None = None) -> str:
    """Return the page with the table below every command replaced by what `run` gives for it."""

    def replace(found: re.Match) -> str:
        if only not in (None, found["experiment"]):
            return found[0]
        trees = None if found["trees"] is None else int(found["trees"])
        table = run(found["experiment"], found["dataset"], trees).strip()
        return f"{found[1]}\n{table}\n" + ("" if found.end() == len(page) else "\n")

    return COMMAND.sub(replace, page)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--out-dir", type=Path, default=Path("reproduction-results"))
    parser.add_argument("--only", metavar="EXPERIMENT", help="leave tables of other experiments as they are")
    parser.add_argument("--page", type=Path, default=PAGE)
    arguments = parser.parse_args()

    def run(experiment: str, dataset: str, trees: int | None) -> str:
        def show(n_done: int, n_cells: int, cell: str) -> None:
            print(f"{experiment} {dataset}: {n_done} of {n_cells}, {cell}", file=sys.stderr, flush=True)

        folders = {"out_dir": arguments.out_dir, "data_dir": arguments.data_dir}
        outcome = reproduce(experiment, dataset, **folders, trees=trees, progress=show)
        return as_markdown(outcome)

    page = arguments.page.read_text(encoding="utf-8")
    write_atomically(arguments.page, rewrite(page, run, arguments.only))


if __name__ == "__main__":
    main()
