"""The standing trials, small: ``tests/hostile`` takes any number of cases by one command."""

import contextlib
import os
import sys
import tracemalloc
from io import BytesIO
from pathlib import Path

import pytest

from certiforest import audit

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


def test_statements_about_deployed_models_hold_in_every_cell():
    for library in ("xgboost", "lightgbm", "catboost"):
        pytest.importorskip(library)
    from hostile import statements

    judge = statements.trial(20, 1)
    assert judge.findings == []
    assert all(
        sum(n for name, n in judge.outcomes.items() if word in name) > 5 for word in ("True", "False", "measured")
    )


def test_false_statements_about_whole_models_are_not_confirmed():
    import false_statements

    judge = false_statements.trial(600, 1)
    assert judge.findings == []
    words = ("bad input", "not proved", "confirmed, and true")
    assert min(sum(n for name, n in judge.outcomes.items() if word in name) for word in words) > 20


@pytest.mark.parametrize("seed", [1, 2])
def test_false_certificates_are_not_confirmed(seed):
    import false_certificates

    assert false_certificates.trial(150, seed).findings == []


def hostile_sizes():
    import audit_costs

    return audit_costs.KINDS.items()


@pytest.mark.parametrize(("kind", "build"), hostile_sizes())
def test_the_auditor_takes_memory_in_proportion_to_its_files(kind, build, monkeypatch):
    """A chain of splits took memory that grows with the square of its depth, small sets 137 times their bytes."""
    files = build(100_000)
    monkeypatch.setattr(audit, "MOST_STEPS", 3 * 10**5)
    monkeypatch.setattr(audit, "MOST_CODES", 10**4)
    tracemalloc.start()
    with contextlib.suppress(audit.Refusal):
        audit.audit(*map(BytesIO, files))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100 * max(sum(map(len, files)), 100_000)


@pytest.mark.parametrize("kind", ["denominators_that_grow", "leaves_times_rivals", "leaves_of_a_tree_times_rivals"])
def test_every_loop_of_the_auditor_is_charged(kind, monkeypatch):
    """Sums of fractions whose denominators grow, and leaves times rivals, took minutes of a few steps."""
    monkeypatch.setattr(audit, "MOST_STEPS", 10**5)
    found = audit.audit(*map(BytesIO, dict(hostile_sizes())[kind](150_000)))
    assert "up to 100000 steps" in found.doubts[0]
