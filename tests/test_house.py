"""The house keeps its order: imports go down only, kernels stay kernels, the library does not print."""

import ast
from pathlib import Path

import pytest
from importlinter import cli

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted((ROOT / "src" / "certiforest").rglob("*.py"))
KERNELS = [path for path in SOURCES if path.name.endswith("_kernels.py")]


def test_imports_go_down_only(monkeypatch):
    monkeypatch.chdir(ROOT)
    assert cli.lint_imports(config_filename=str(ROOT / "pyproject.toml"), no_cache=True) == 0


def imports_of(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.stem)
def test_kernels_import_numpy_numba_and_kernels_only(path):
    for module in imports_of(path):
        assert module in {"math", "typing", "numpy", "certiforest.compiled"} or module.endswith("_kernels"), module


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.stem)
def test_kernels_are_cached_release_the_lock_and_keep_the_rules_of_arithmetic(path):
    functions = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)]
    for function in functions:
        (decorator,) = [ast.unparse(d) for d in function.decorator_list]
        assert decorator == "kernel", function.name


@pytest.mark.parametrize("path", [p for p in SOURCES if p.name != "console.py"], ids=lambda path: path.stem)
def test_the_library_does_not_print_pickle_or_evaluate(path):
    calls = {ast.unparse(node.func) for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)}
    assert not calls & {"print", "eval", "exec", "pickle.load", "pickle.loads"}
    assert "pickle" not in set(imports_of(path))
