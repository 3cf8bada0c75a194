"""The standing trials, small: ``tests/hostile`` takes any number of cases by one command."""

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent / "hostile"))


@pytest.mark.parametrize("seed", [1, 2])
def test_altered_tables_are_read_soundly_or_refused_in_a_sentence(seed):
    pytest.importorskip("pyarrow")
    pytest.importorskip("polars")
    import tables

    assert tables.trial(400, seed).findings == []


@pytest.mark.skipif(os.name != "posix", reason="needs pipes and signals")
def test_any_command_line_ends_as_it_should():
    pytest.importorskip("pyarrow")
    import commands

    assert commands.trial(100, 1).findings == []


def test_verdicts_on_deployed_models_hold_against_every_cell():
    for library in ("xgboost", "lightgbm", "catboost"):
        pytest.importorskip(library)
    from hostile import deployed

    judge = deployed.trial(600, 1)
    assert judge.findings == []
    assert sum(judge.outcomes.values()) == 600
    assert min(sum(n for name, n in judge.outcomes.items() if word in name) for word in ("unstable", "stable ")) > 50
