"""Compiled kernels: never stale, never mixed up, not compiled without need, and no folder needed."""

import importlib
import logging
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numba
import numpy as np
import pytest

import certiforest
from certiforest import Attacker, LargeSpreadForestClassifier, certify, kernel_cache, kernel_lowering, warming
from certiforest.compiled import in_python, kernel
from certiforest.proof.clock import Clock
from small_models import stumps

PACKAGE = Path(certiforest.__file__).parent
KERNELS = sorted(path.relative_to(PACKAGE.parent) for path in PACKAGE.rglob("*_kernels.py"))
LOWER = """
from typing import NamedTuple
import numpy as np
from certiforest.compiled import kernel
STEP, TABLE = 1, np.array([1, 2])
class Pair(NamedTuple):
    first: int
    second: int
@kernel
def add(x):
    return x + STEP * TABLE[0]
"""
UPPER = """
from certiforest.compiled import kernel
from lower_kernels import add
@kernel
def add_twice(x):
    return add(add(x))
@kernel
def first_of(pair):
    return pair.first
"""
CALL = """
import logging, sys
logging.getLogger("certiforest").addHandler(logging.StreamHandler(sys.stderr))
logging.getLogger("certiforest").setLevel(logging.INFO)
from lower_kernels import Pair
from upper_kernels import add_twice, first_of
print(add_twice(0), first_of(Pair(first=7, second=8)))
"""


@pytest.fixture
def house(tmp_path):
    """A folder with two small files of kernels, the upper one calling the lower one."""
    (tmp_path / "lower_kernels.py").write_text(LOWER)
    (tmp_path / "upper_kernels.py").write_text(UPPER)
    return tmp_path


def environment(folder, **more):
    """Return an environment in which compiled kernels are kept in a folder and Python's own bytecode is not."""
    path = os.pathsep.join([str(folder), str(PACKAGE.parent)])
    return {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "NUMBA_CACHE_DIR": str(folder), **more}


def run(folder, code=CALL, **more):
    """Run code in a new process; return what it printed, and how many times it compiled."""
    done = subprocess.run([sys.executable, "-c", code], env=environment(folder, **more), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split(), done.stderr.count("compiling ")


EDITS = [  # what to put for what in the lower file, what is printed then, and how many kernels that concerns
    ("return x + STEP", "return x - STEP", ["-2", "7"], 1),
    ("STEP, TABLE = 1", "STEP, TABLE = 3", ["6", "7"], 1),
    ("[1, 2]", "[5, 2]", ["10", "7"], 1),
    ("    first: int\n    second: int", "    second: int\n    first: int", ["2", "7"], 1),
]


def test_an_edited_kernel_is_compiled_anew_and_so_are_those_that_call_it(house):
    path = house / "lower_kernels.py"
    times = path.stat()
    assert run(house) == (["2", "7"], 2)
    for old, new, answer, n_compiled in EDITS:
        path.write_text(LOWER.replace(old, new))
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # neither its time nor its size tells of the edit
        assert path.stat().st_size == times.st_size
        assert run(house) == (answer, n_compiled)
    path.write_text(LOWER)
    assert run(house) == (["2", "7"], 0)


def test_certify_runs_the_code_that_is_there(tmp_path):
    package = tmp_path / "certiforest"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    code = """if True:
        from certiforest import Attacker, TreeEnsemble, certify
        stump = TreeEnsemble([0, -1, -1], [0.5, 0, 0], [-1, 0, 1], n_features=1, classes=[0, 1])
        print(certify(stump, [[0.4]], attacker=Attacker("inf", 0.2)).stable[0])
    """
    beside_the_sources = {"PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": ""}
    assert run(tmp_path, code, **beside_the_sources)[0] == ["0"]
    path = package / "attack" / "reach_kernels.py"
    times, text = path.stat(), path.read_text()
    assert "return d < rounded" in text, "is_within looks different: choose anew how to spoil it"
    path.write_text(text.replace("return d < rounded", "return d > rounded"))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert run(tmp_path, code, **beside_the_sources)[0] == ["1"]


def test_processes_that_compile_at_once_do_not_mix_signatures(house):
    call = "import sys; from upper_kernels import add_twice; print(add_twice(eval(sys.argv[1])))"
    values = {"0": "2", "0.5": "2.5", "True": "3", "1j": "(2+1j)"}
    processes = {
        value: subprocess.Popen([sys.executable, "-c", call, value], env=environment(house), stdout=subprocess.PIPE)
        for value in values
    }
    assert {value: process.communicate()[0].decode().strip() for value, process in processes.items()} == values
    for value, answer in values.items():
        assert run(house, CALL.replace("add_twice(0), first_of(Pair(first=7, second=8))", f"add_twice({value})")) == (
            [answer],
            0,
        )


def test_another_processor_runs_the_same_code(house):
    assert run(house) == (["2", "7"], 2)
    assert run(house, NUMBA_CPU_NAME="nehalem", NUMBA_CPU_FEATURES="-avx,-avx2,-fma,-sse4.1") == (["2", "7"], 0)


def test_other_code_of_the_process_is_compiled_for_its_processor(house):
    """And so it may be faster where it can be; kernels are the same whatever was compiled before."""
    code = "import numba\nother = numba.njit(lambda x: x * x)\nother(2.0)\n" + CALL + "other(2)\n"
    code += "assert all(made.library.codegen.magic_tuple()[1] != 'generic' for made in other.overloads.values())"
    assert run(house, code) == (["2", "7"], 2)
    assert run(house) == (["2", "7"], 0)


def test_the_name_tells_what_compiled_and_not_which_numpy_was_there(monkeypatch):
    def name():
        return sum_of.kept._name((numba.types.float64,))

    before = name()
    monkeypatch.setattr(np, "__version__", "2.0.0")
    assert name() == before
    for module in (numba, kernel_cache.llvmlite):
        with monkeypatch.context() as context:
            context.setattr(module, "__version__", "0.60.0")
            assert name() != before


@pytest.mark.parametrize("for_this_processor", [False, True])
def test_multiplications_and_additions_are_rounded_one_by_one_on_all_processors(for_this_processor, monkeypatch):
    """Fusing them, as a processor may be able to, would give other bits; only `fastmath` allows it."""
    if for_this_processor:
        monkeypatch.setattr(kernel_cache, "_codegen", lambda: kernel_cache.JITCPUCodegen("host"))

    n = 16

    @kernel
    def multiply_and_add(x, y, z, out):
        for i in range(n):  # a closure is never kept, and so always compiled
            out[i] = x[i] * y[i] + z[i]

    x = np.full(n, 1 + 2.0**-30)
    out = np.empty_like(x)
    multiply_and_add(x, x, -x * x, out)
    assert not out.any()  # fused: 2 ** -60
    if not for_this_processor:
        (made,) = multiply_and_add.entries.values()
        assert not re.search(r"[yz]mm\d", made.library.get_asm_str()), "wide registers, which not all processors have"


def test_constants_are_numbers_like_others(house):
    (house / "constants_kernels.py").write_text(
        "from certiforest.compiled import kernel\nfrom lower_kernels import add\n"
        "@kernel\ndef both(x):\n    return add(1) + add(2) + add(x)\n"
    )
    code = CALL.replace("from upper_kernels import add_twice, first_of", "from constants_kernels import both")
    assert run(house, code.replace("print(", "print(both(3)) #")) == (["9"], 1)


def test_each_signature_has_files_of_its_own(house):
    run(house, "from lower_kernels import add; add(1); add(1.0)")
    index = list((house / "certiforest").glob("*.nbi"))
    assert len(index) == 2
    assert {path.name for path in (house / "certiforest").glob("*.nbc")} == {f"{path.stem}.1.nbc" for path in index}


def test_code_from_elsewhere_does_not_meet_code_of_the_same_name(house):
    """Numba numbers what it compiles: here ``array_of`` is the second in both processes, but not in the same role."""
    (house / "arrays_kernels.py").write_text(
        "import numpy as np\nfrom certiforest.compiled import kernel\n"
        "@kernel\ndef zero(x):\n    return 0 * x\n"
        "@kernel\ndef array_of(x):\n    return np.full(1, x)\n"
        "@kernel\ndef sum_of(x):\n    return array_of(x)[0]\n"
    )
    for first in ("zero", "sum_of"):
        code = f"from arrays_kernels import {first}, array_of\nprint({first}(7), array_of(7))"
        assert run(house, code)[0] == ["0" if first == "zero" else "7", "[7]"]


def test_a_broken_file_is_replaced(house):
    assert run(house) == (["2", "7"], 2)
    for path in (house / "certiforest").iterdir():
        path.write_bytes(b"")
    assert run(house) == (["2", "7"], 2)
    assert run(house) == (["2", "7"], 0)


def test_older_code_beside_the_sources_is_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(kernel_cache, "BESIDE_THE_SOURCES", tmp_path)
    names = ["a.f-11-22", "a.f-11-33", "a.f-44-22", "a.f_g-44-22", "b.f-44-22"]
    for name in names:
        (tmp_path / f"{name}.nbi").touch()
    kernel_cache._remove_older("a.f-11-22")
    assert {path.stem for path in tmp_path.iterdir()} == set(names) - {"a.f-44-22"}


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.stem)
def test_every_kernel_can_be_kept(path):
    module = importlib.import_module(".".join(path.with_suffix("").parts))
    kernels = [value for value in vars(module).values() if isinstance(value, kernel_cache.Kernel)]
    for found in kernels:
        assert list(kernel_cache._ingredients(found.py_func, set()))
        assert found.py_func.__defaults__ is None, "kernels take all they need"


def test_what_is_not_known_surely_is_not_kept(house):
    (house / "odd_kernels.py").write_text(
        "from certiforest.compiled import kernel\n"
        "def make(step):\n    @kernel\n    def add(x):\n        return x + step\n    return add\nadd = make(1)"
    )
    code = CALL.replace("upper", "odd").replace("add_twice, first_of", "add").replace("print(", "print(add(0)) #")
    assert [run(house, code) for _ in range(2)] == [(["1"], 1), (["1"], 1)]


@kernel
def total(pair):
    """Return the sum of two arrays in a tuple."""
    return pair[0].sum() + pair[1].sum()


@kernel
def sum_of(values):
    """Return the sum of an array."""
    return values.sum()


def frozen(values):
    values = np.array(values)
    values.flags.writeable = False
    return values


def test_arrays_that_cannot_be_written_to_share_the_code_of_those_that_can():
    values = np.arange(3.0)
    assert sum_of(values) == sum_of(frozen(values)) == sum_of(frozen(values)) == 3
    assert total((values, values)) == total((values, frozen(values))) == total((frozen(values), frozen(values))) == 6
    assert [len({*map(id, k.entries.values())}) for k in (sum_of, total)] == [1, 1]


class Pair(NamedTuple):
    """Two arrays."""

    line: np.ndarray
    grid: np.ndarray


@kernel
def corner(pair, i, j):
    """Return an element, and set it."""
    was = pair.grid[i, j]
    pair.grid[i, j] = pair.line[i]
    return was


@kernel
def passed_on(pair, values, n):
    """Name what was given anew, look at it from both ends, hand it on, and give some of it back."""
    line, grid = pair
    same, total = pair, 0.0
    for i in range(-n, n):
        total += line[i] * grid[i, -1] + corner(same, i, -2)
        if i > 0:
            line = line[1:]
            values = line * i
    return float(total), same, values, Pair(pair.grid[0], grid), grid.shape


def test_kernels_say_what_python_says_and_neither_lose_nor_keep_what_a_caller_holds():
    for n in (0, 1, 3):
        found = []
        for call in (passed_on, in_python(passed_on)):
            pair, values = Pair(np.arange(1.0, 8), np.arange(16.0).reshape(8, 2)), np.ones(2)
            held = [*pair, values]
            before = [sys.getrefcount(part) for part in held]
            found.append([repr(call(pair, values, n)), repr(held)])
            assert [sys.getrefcount(part) for part in held] == before
        assert found[0] == found[1]


def test_a_numba_that_was_never_tried_writes_kernels_its_own_way():
    own = kernel_cache.typed_passes.lowering.Lower
    first, last = kernel_lowering.TRIED
    assert kernel_lowering.way_to_write()[0] is not own
    assert {kernel_lowering.way_to_write((0, minor))[0] for minor in (first[1] - 1, last[1] + 1)} == {own}


@kernel
def doubled(values):
    """Return twice the sum of an array."""
    return 2 * values.sum()


def test_threads_that_call_a_kernel_first_at_once_leave_one_way_in(monkeypatch):
    told, meet, insert = [], threading.Barrier(4), type(doubled)._insert
    monkeypatch.setattr(type(doubled), "_insert", lambda *given: (told.append(given), insert(*given)))

    def call():
        meet.wait()
        return doubled(np.arange(3.0))

    with ThreadPoolExecutor(4) as pool:
        assert [task.result() for task in [pool.submit(call) for _ in range(4)]] == [6.0] * 4
    assert len(told) == 1  # of two that are the same, numba would take none, and ask anew at every call
    monkeypatch.setattr(type(doubled), "_compile_for_args", None)
    assert doubled(np.arange(3.0)) == 6.0


def test_other_packages_still_see_that_an_array_cannot_be_written_to():
    @numba.njit
    def write(values):
        values[0] = 1

    values = frozen([0.0])
    sum_of(values)
    with pytest.raises(numba.TypingError):
        write(values)
    assert values[0] == 0


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    random = np.random.default_rng(0)
    X = random.random((60, 4))
    y = X[:, 0] + X[:, 1] > 1
    path = tmp_path_factory.mktemp("rows") / "X.npy"
    np.save(path, X)
    return X, y, path


def test_frozen_and_memory_mapped_rows_compile_nothing_anew(sample, caplog):
    X, y, path = sample
    attacker = Attacker("inf", 0.01)
    sums = stumps((0, 0.5), scores=[[-1.0], [1.0]], n_features=4, classes=[False, True])

    def work(X):
        forest = LargeSpreadForestClassifier(5, max_depth=3, eps=0.01, random_state=0).fit(X, y)
        for ensemble in (forest.ensemble_, sums):
            certify(ensemble, X, y, attacker, radius=True, witness=True)

    work(X)
    with caplog.at_level(logging.INFO, "certiforest"):
        work(frozen(X))
        work(np.load(path, mmap_mode="r"))
    assert [record.getMessage() for record in caplog.records if "compiling" in record.getMessage()] == []


def test_everything_can_be_compiled_at_once(run, monkeypatch):
    """Here one step of each kind. Whether all pass what tests do, so that nothing is left, `.ci/release` tells."""
    monkeypatch.setattr(warming, "STEPS", [*{step[0]: step for step in warming.STEPS}.values()])
    code, out, _ = run("warm")
    assert code == 0
    assert re.fullmatch(r"\d\d kernels are ready; \d+ compilations took \d+ s\.\n", out)


def test_without_any_folder_to_write_to_the_package_works_and_warns_once(tmp_path):
    package = tmp_path / "certiforest"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__", "kernels"))
    (package / "kernels").touch()  # a file, so that nobody, not even root, can make the folder
    (tmp_path / "home").touch()
    code = """if True:
        from certiforest import TreeEnsemble
        stump = TreeEnsemble([0, -1, -1], [0.5, 0, 0], [-1, 0, 1], n_features=1, classes=[0, 1])
        print(stump.predict([[0.5]])[0], stump.votes([[0.7]])[0].tolist())
    """
    where = {"PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": "", "XDG_CACHE_HOME": "", "HOME": str(tmp_path / "home")}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(tmp_path, **where), capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "0 [0, 1]\n"), done.stderr
    assert done.stderr.count("Warning") == done.stderr.count("NUMBA_CACHE_DIR") == 1


def test_without_numbas_private_parts_kernels_are_compiled_in_every_process(house):
    code = "import numba.core.caching as caching; del caching.IndexDataCacheFile\n" + CALL
    assert run(house, code) == (["2", "7"], 0)
    assert not (house / "certiforest").exists()


def test_numba_has_the_private_parts_that_keeping_kernels_needs():
    """Where this fails, kernels work, but are compiled too often: see kernel_cache.py."""
    assert isinstance(sum_of, kernel_cache.Kernel)
    for part in ("_compile_for_args", "_insert", "compile", "add_overload", "overloads"):
        assert hasattr(sum_of, part), part
    for part in ("_internal_codegen", "create_cfunc_wrapper"):
        assert hasattr(sum_of.targetctx, part), part
    assert hasattr(numba.types.Function, "get_call_type")
    lower = kernel_cache.typed_passes.lowering.Lower
    for part in ("_find_singly_assigned_variable", "_disable_sroa_like_opt", *dir(kernel_lowering.ShortLower)):
        assert part in ("_held_by", "_is_counted", "_place") or hasattr(lower, part), part
    for part in ("_reduce", "_rebuild", "_replace"):
        assert hasattr(kernel_cache.CompileResult, part), part
    assert {"load", "save"} <= set(dir(kernel_cache.IndexDataCacheFile))
    assert hasattr(numba.config, "CACHE_DIR")


def test_a_row_loses_no_time_while_kernels_compile(monkeypatch):
    clock = Clock(0.5).start()
    time.sleep(0.6)
    assert clock.is_up
    monkeypatch.setattr(kernel_cache.Kernel, "seconds", kernel_cache.Kernel.seconds + 0.6)
    assert not clock.is_up
