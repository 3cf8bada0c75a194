"""The page results.md: every command on it is run, and its table replaces the one below it."""

import re
from collections.abc import Callable
from pathlib import Path

PAGE = Path(__file__).with_name("results.md")
# A command in a block of its own, and all that follows until the next block or heading.
COMMAND = re.compile(
    r"(```console\n\$ python studies/paper (?P<experiment>\w+) --dataset (?P<dataset>\w+)( --trees (?P<trees>\d+))?\n"
    r"```\n)"
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


def write(run: Callable[[str, str, int | None], str], only: str | None) -> None:
    PAGE.write_text(rewrite(PAGE.read_text(encoding="utf-8"), run, only), encoding="utf-8")
