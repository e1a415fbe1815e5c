"""Libraries of C that stand in front of the system's in a process of their own (``LD_PRELOAD``)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


def compiled(source: Path, folder: Path, *flags: str) -> Path:
    """Return the library that *source* makes in *folder*; without a C compiler the test skips."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler for the library in front of the system's")
    made = folder / f"{source.stem}.so"
    command = [compiler, "-shared", "-fPIC", "-O1", "-Wall", "-Werror", *flags]
    subprocess.run([*command, "-o", made, source, "-ldl"], check=True)
    return made


def environment_with(library: Path, **more: str) -> dict[str, str]:
    """Return the environment of a process that loads *library*, and imports what this one can."""
    path = os.pathsep.join(sys.path)
    return {**os.environ, "PYTHONPATH": path, "LD_PRELOAD": str(library), **more}
