"""The trial of altered model files, small; ``python tests/hostile/models.py`` runs it at any size."""

import pytest

from hostile.model_files import sources
from hostile.models import KINDS, Trial
from hostile.translations import FORMATS
from hostile.translations import trial as translations


@pytest.fixture(scope="module")
def trial(tmp_path_factory):
    for library in ("xgboost", "lightgbm", "catboost", "onnxruntime", "treelite"):
        pytest.importorskip(library)
    trial = Trial(seed=0, n_compared=60)
    trial.run(900, tmp_path_factory.mktemp("models") / "model")
    return trial


@pytest.mark.parametrize("kind", KINDS)
def test_altered_files_are_refused_in_a_sentence_or_read_as_the_library_reads_them(trial, kind):
    counts = trial.counts[kind]
    assert counts["files"] == counts["refused"] + counts["read"] == 900 // len(KINDS)
    assert counts["refused"] > 20
    assert counts["read"] > 0
    assert not any(counts[name] for name in ("differed", "tracebacks", "slow", "large")), trial.reasons


def test_some_are_compared(trial):
    assert sum(counts["compared"] for counts in trial.counts.values()) > 15
    assert all(len(sources(kind)) >= 3 for kind in KINDS)


@pytest.mark.parametrize("name", FORMATS)
def test_doors_are_what_their_library_makes_of_them(name):
    for library in ("onnxmltools", "skl2onnx", "treelite", "interpret", "lightgbm", "xgboost"):
        pytest.importorskip(library)
    lines = []
    assert translations([name], 1, 0, lines.append) == 0, lines
    assert any(int(line[56:72].split()[1].replace(",", "")) for line in lines[1 : len(FORMATS[name][1]) + 1]), lines
