"""Build wheels; with CERTIFOREST_KERNELS=1 wheels for one Python and platform, that come with compiled kernels."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

WARM = """
from certiforest.warming import warm
for _ in range(2):  # while others compile, a step may be short of time
    _, names = warm(None, lambda _: None)
print(*names, sep="\\n")
"""
# Kernels are code without a file format: they need no more of a system than the Python that they were compiled by.
PLATFORMS = {"Linux": "manylinux_2_17", "Darwin": "macosx_11_0", "Windows": "win"}


class KernelsHook(BuildHookInterface):
    """Compiles kernels and puts into the wheel those that Python calls."""

    def dependencies(self) -> list[str]:
        """Return what compiling needs."""
        return self.metadata.core.dependencies if self._is_wanted() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add kernels and a tag."""
        if version != "standard" or not self._is_wanted():
            return
        self._folder = TemporaryDirectory()
        package = Path(self._folder.name, "certiforest")
        shutil.copytree(Path(self.root, "src", "certiforest"), package, ignore=shutil.ignore_patterns("kernels"))
        path = os.pathsep.join([self._folder.name, *filter(None, [os.environ.get("PYTHONPATH")])])
        only_here = {"PYTHONPATH": path, "NUMBA_CACHE_DIR": "", "XDG_CACHE_HOME": self._folder.name}
        called = subprocess.run(
            [sys.executable, "-c", WARM], env={**os.environ, **only_here}, stdout=subprocess.PIPE, text=True, check=True
        )
        for name in called.stdout.splitlines():
            for file in (package / "kernels").glob(f"{name}.*"):
                build_data["force_include"][str(file)] = f"certiforest/kernels/{file.name}"
        python = f"cp{sys.version_info.major}{sys.version_info.minor}"
        system = f"{PLATFORMS[platform.system()]}_{platform.machine().lower()}"
        build_data["pure_python"], build_data["tag"] = False, f"{python}-{python}-{system}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was compiled."""
        if hasattr(self, "_folder"):
            self._folder.cleanup()

    def _is_wanted(self) -> bool:
        return os.environ.get("CERTIFOREST_KERNELS") == "1"
