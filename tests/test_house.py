"""The house keeps its order: imports go down only, kernels stay kernels, libraries stay in their rooms, no printing."""

import ast
import graphlib
import re
import sys
import tomllib
from pathlib import Path

import grimp
import pytest
from importlinter import cli

import certiforest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "certiforest"
SOURCES = sorted(PACKAGE.rglob("*.py"))
KERNELS = [path for path in SOURCES if path.name.endswith("_kernels.py")]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

# Which rooms may import which library. One that is not named here may not be imported at all.
LIBRARIES = {
    "numpy": [""],
    "numba": ["compiled.py", "kernel_cache.py", "kernel_lowering.py"],
    "llvmlite": ["kernel_cache.py", "kernel_lowering.py"],
    "sklearn": ["data/", "formats/", "statements/plausible.py", "training/", "tuning.py", "warming.py"],
    "joblib": ["training/"],
    "xgboost": ["formats/"],
    "lightgbm": ["formats/"],
    "catboost": ["formats/"],
    "onnx": ["formats/"],
    "onnxruntime": ["formats/"],
    "treelite": ["formats/"],
    "matplotlib": ["certificates.py", "report/plots.py"],
    "pandas": ["data/", "ensemble/frames.py", "formats/", "rows/", "statements/"],
    "pyarrow": ["data/"],
    "dask": ["dask_rows.py"],
    "distributed": ["dask_rows.py"],
    "mlflow": ["tracking.py"],
    "typer": ["cli/"],
    "rich": ["cli/"],
}
# The auditor can be carried to a machine where nothing is installed.
AUDITOR = {
    "__future__", "bisect", "collections", "fractions", "hashlib", "json", "math", "operator", "struct", "sys",
    "typing",
}  # fmt: skip


def place(path):
    return path.relative_to(PACKAGE).as_posix()


def imports_of(path):
    """Yield the modules that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports say where from"
            yield node.module


def test_imports_go_down_only(monkeypatch):
    monkeypatch.chdir(ROOT)
    assert cli.lint_imports(config_filename=str(ROOT / "pyproject.toml"), no_cache=True) == 0


# Within a room: methods that load what they need when they are called, types, and the package of all commands.
ROUND = {
    ("ensemble.tree_ensemble", "ensemble.model_file"),
    ("cli", "cli.app"),
}


def test_no_imports_go_round():
    """Types count, too: whoever names a class knows it."""
    graph = grimp.build_graph("certiforest", cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    for importer, imported in ROUND:
        imports[f"certiforest.{importer}"].remove(f"certiforest.{imported}")
    tuple(graphlib.TopologicalSorter(imports).static_order())  # raises where they go round


@pytest.mark.parametrize("path", SOURCES, ids=place)
def test_libraries_stay_in_their_rooms(path):
    for module in imports_of(path):
        library = module.partition(".")[0]
        if library == "certiforest" or library in sys.stdlib_module_names:
            continue
        assert library in LIBRARIES, f"{library} is new to this house"
        assert any(place(path).startswith(room) for room in LIBRARIES[library]), library
    if place(path) == "audit.py":
        assert {module.partition(".")[0] for module in imports_of(path)} <= AUDITOR


@pytest.mark.parametrize("path", KERNELS, ids=place)
def test_kernels_import_numpy_and_kernels_only(path):
    for module in imports_of(path):
        known = {"math", "typing", "numpy", "certiforest.compiled", "certiforest.problem.problem"}
        assert module in known or module.endswith("_kernels"), module


def test_kernels_are_layered():
    """Between rooms the contract of imports holds; within a room no two kernels call each other."""
    calls = {
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts): set(imports_of(path)) for path in KERNELS
    }
    assert len(list(graphlib.TopologicalSorter(calls).static_order())) >= len(KERNELS)  # raises where they go round


@pytest.mark.parametrize("path", SOURCES, ids=place)
def test_all_that_is_compiled_is_a_kernel_and_stands_among_kernels(path):
    tree = ast.parse(path.read_text())
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    decorators = [[ast.unparse(decorator) for decorator in function.decorator_list] for function in functions]
    if path in KERNELS:
        assert all(found == ["kernel"] for found in decorators)
        assert all(function in tree.body and not function.args.defaults for function in functions)
    else:
        assert not any("kernel" in found for found in decorators)


@pytest.mark.parametrize("path", SOURCES, ids=place)
def test_the_library_does_not_print_pickle_or_evaluate(path):
    tree = ast.parse(path.read_text())
    calls = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    assert not calls & {"print", "eval", "exec", "pickle.load", "pickle.loads"}
    assert "pickle" not in set(imports_of(path))
    if place(path) not in ("cli/console.py", "cli/__init__.py", "audit.py"):  # cli: when stopped before it is loaded
        streams = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        assert not streams & {"sys.stdout", "sys.stderr"}


def test_what_is_imported_is_declared():
    optional = [line for name, lines in PROJECT["optional-dependencies"].items() for line in lines if name != "test"]
    declared = {re.match(r"[\w-]+", line)[0] for line in PROJECT["dependencies"] + optional}
    names = {"sklearn": "scikit-learn"}
    there = {"pandas", "pyarrow", "distributed", "llvmlite", "mlflow", "treelite"}  # or who asks, or is asked about
    assert {names.get(library, library) for library in LIBRARIES} - there <= declared


def test_lowest_versions_are_given_in_full_and_none_is_pinned_from_above():
    for line in PROJECT["dependencies"]:
        assert re.fullmatch(r"[\w-]+>=\d+\.\d+\.\d+", line), line


def test_the_changelog_starts_with_this_version():
    first = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[1]
    assert certiforest.__version__.partition(".dev")[0] == first
    assert (PACKAGE / "py.typed").exists()
