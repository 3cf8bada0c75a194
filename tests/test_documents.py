"""Examples in docstrings, README and docs are run, and what they print is what stands there."""

import doctest
import importlib
import json
import pkgutil
from pathlib import Path

import pytest

import certiforest

ROOT = Path(__file__).resolve().parents[1]
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
MODULES = sorted(m.name for m in pkgutil.walk_packages(certiforest.__path__, "certiforest."))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name):
    assert doctest.testmod(importlib.import_module(name), optionflags=FLAGS).failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_pages(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert doctest.testfile(str(page), module_relative=False, optionflags=FLAGS).failed == 0


def test_there_are_examples_to_run():
    finder = doctest.DocTestFinder()
    examples = [t for m in MODULES for t in finder.find(importlib.import_module(m)) if t.examples]
    assert len(examples) >= 5
    assert ">>> " in PAGES[0].read_text()


NOTEBOOKS = sorted((ROOT / "docs" / "gallery").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run_from_top_to_bottom(path, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib").use("Agg")
    monkeypatch.chdir(tmp_path)
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    names: dict = {}
    for number, cell in enumerate(cells):
        if cell["cell_type"] == "code":
            if "import xgboost" in "".join(cell["source"]):
                pytest.importorskip("xgboost")
            exec(compile("".join(cell["source"]), f"{path.name}, cell {number}", "exec"), names)
    assert any(cell.get("outputs") for cell in cells), "kept with its outputs"
    assert f"gallery/{path.name}" in (ROOT / "docs" / "gallery.md").read_text()


def test_the_gallery_is_not_empty():
    assert len(NOTEBOOKS) >= 3
