"""Examples in docstrings, README and docs are run, and what they print is what stands there."""

import ast
import doctest
import importlib
import inspect
import json
import pkgutil
import re
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


def calls_of(page):
    """Yield what a page calls in its text: public names of the package, and their methods."""
    for name, arguments in re.findall(r"`(\w+(?:\.\w+)?)\(([^`]*)\)`", page.read_text(encoding="utf-8")):
        public, _, method = name.partition(".")
        if public in certiforest.__all__:
            called = getattr(certiforest, public)
            yield name, getattr(called, method) if method else called, " ".join(arguments.split())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_calls_in_the_text_have_parameters_that_exist(page):
    for name, called, arguments in calls_of(page):
        signature = inspect.signature(called)
        if "*," in arguments:  # a signature, shown in full
            bare = [parameter.replace(annotation=parameter.empty) for parameter in signature.parameters.values()]
            assert f"({arguments})" == str(inspect.Signature(bare)), name
            continue
        call = ast.parse(f"f({re.sub(r'=(?=[,)]|$)', '=...', arguments)})", mode="eval").body
        given = [value for value in call.args if not (isinstance(value, ast.Constant) and value.value is ...)]
        signature.bind_partial(*given, **{keyword.arg: keyword.value for keyword in call.keywords})


def test_the_page_that_binds_shows_whole_signatures():
    shown = {name for name, _, arguments in calls_of(ROOT / "docs" / "verdicts.md") if "*," in arguments}
    assert shown == {"Attacker", "RuleAttacker", "certify"}


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda page: page.stem)
def test_files_that_pages_name_are_there(page):
    files = [f"/{path.relative_to(ROOT).as_posix()}" for path in ROOT.rglob("*.py")]
    for name in re.findall(r"`([\w./]+\.py)`", page.read_text(encoding="utf-8")):
        assert any(file.endswith(f"/{name}") for file in files), name


@pytest.mark.parametrize(
    "page", sorted({*PAGES, *ROOT.glob("*.md"), *ROOT.glob("studies/**/*.md")}), ids=lambda page: page.stem
)
def test_links_lead_somewhere(page):
    for file, _, heading in re.findall(r"\]\((?!http)([^)\s#]*)(#?)([^)\s]*)\)", page.read_text(encoding="utf-8")):
        target = page.parent / file if file else page
        assert target.exists(), file
        if heading:
            titles = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            assert heading in {re.sub(r"[^\w-]", "", title.lower().replace(" ", "-")) for title in titles}, heading


def test_the_way_from_the_paper_to_the_code_is_right():
    table = (ROOT / "docs" / "how_it_works.md").read_text().split("## From the paper to the code")[1].split("##")[0]
    rows = [re.split(r"(?<!\\)\|", line)[2:4] for line in table.splitlines() if ".py" in line]
    assert len(rows) >= 10
    for names, files in rows:
        paths = [path for name in re.findall(r"`([\w/]+\.py)`", files) for path in ROOT.glob(f"src/**/{name}")]
        text = "".join(path.read_text(encoding="utf-8") for path in paths)
        for name in re.findall(r"`[\w.]*?(\w+)(?:\(.*?\))?`", names):
            assert re.search(rf"\b{name}\b", text), f"{name} in {files}"


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
