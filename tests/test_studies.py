"""The paper's experiments: each gives a whole table, on any rows, and goes on where it was stopped."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np

STUDIES = Path(__file__).resolve().parents[1] / "studies"
QUICK = ["table3", "table4", "table5", "figure3", "figure4", "figure5", "tuning", "importance"]


def run(folder, *words):
    command = [sys.executable, STUDIES / "paper", *words, "--dataset", "rewema", "--quick", "--data-dir", folder]
    done = subprocess.run([*command, "--out-dir", folder / "results"], capture_output=True, text=True)
    assert "Traceback" not in done.stderr, done.stderr
    return done


def test_experiments_of_the_paper_on_few_rows(tmp_path):
    # The paper's dataset of this name is a file that users bring along; any table will do here.
    X = np.random.default_rng(0).random((300, 40)).round(2)
    np.savetxt(tmp_path / "rewema.csv", np.column_stack([X, X[:, :8].sum(axis=1) > 4]), delimiter=",", fmt="%.2f")
    first = run(tmp_path, *QUICK)
    assert first.returncode == 0, first.stderr
    tables = re.findall(r"^\*\*rewema: .*\*\*\n\n((?:\|.*\n)+)\n(?:- .*\n)+", first.stdout, re.MULTILINE)
    assert len(tables) == len(QUICK)
    for table in tables:
        lines = table.splitlines()
        assert len(lines) > 2
        assert len({line.count("|") for line in lines}) == 1
    assert "| 0.015 | 25 x 4 |" in tables[0]
    cells = {path: path.stat().st_mtime_ns for path in (tmp_path / "results").rglob("*.json")}
    again = run(tmp_path, *QUICK)
    assert again.stdout == first.stdout
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "results").rglob("*.json")} == cells
    for text, sentence in (("[]", "Expected results of this version"), ("", "Expected a result in")):
        for path in cells:
            path.write_text(text)
        refused = run(tmp_path, "table3")
        assert (refused.returncode, refused.stdout) == (1, "")
        assert sentence in refused.stderr
    assert "25, 101, got 26" in run(tmp_path, "table3", "--trees", "26").stderr


def test_tables_on_the_page_are_replaced_and_nothing_else_is():
    script = runpy.run_path(str(STUDIES / "paper" / "page.py"))
    page = script["PAGE"].read_text()
    tables = {
        (found["experiment"], found["dataset"], found["trees"] and int(found["trees"])): found["table"]
        for found in script["COMMAND"].finditer(page)
    }
    assert len(tables) == page.count("$ python studies/paper") >= 6
    assert script["rewrite"](page, lambda *command: tables[command]) == page
    changed = script["rewrite"](page, lambda *_: "A table.", only="table3")
    assert changed.count("```\n\nA table.\n\n") == 2
    assert "paper's table 3" not in changed
    assert changed.split("## Table 4")[1] == page.split("## Table 4")[1]
