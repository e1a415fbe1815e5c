"""The house in C: what a folder includes, what the core imports from the system, what it keeps."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

import pytest

from tests.tidy.project_files import CORE_FOLDERS, ROOT, core_files, name_of

if TYPE_CHECKING:
    from pathlib import Path

INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]', re.MULTILINE)

THE_SEAM = "csrc/io/env_posix"  # env_posix.c and its parts

# Of libc, the core proper uses what only touches memory it was given [DUR-10, DUR-43].
PURE_SYMBOLS = {
    "memchr", "memcmp", "memcpy", "memmove", "memset",
    "snprintf", "vsnprintf",
    "strchr", "strcmp", "strlen", "strncmp", "strnlen", "strrchr",
    "__cpu_features2", "__cpu_indicator_init", "__cpu_model",  # gcc's cpuid, filled at start-up
    "getauxval",  # the processor's features on ARM
    "thrd_sleep", "thrd_yield",  # give the processor away and change nothing
    "pthread_cond_broadcast", "pthread_cond_init", "pthread_cond_wait",  # of the pool's own lists
    "pthread_mutex_init", "pthread_mutex_lock", "pthread_mutex_unlock",
    "pthread_equal", "pthread_self",  # which thread this is
}  # fmt: skip

# Nobody ends the process, prints, or waits for a terminal; not even the seam.
BANNED_SYMBOLS = {
    "abort", "exit", "_exit", "__assert_fail", "raise", "kill",
    "printf", "puts", "putchar", "fprintf", "vprintf", "vfprintf", "fputs", "perror", "fwrite",
    "gets", "scanf", "sprintf", "strcpy", "strcat", "strtok", "system", "setjmp", "longjmp",
}  # fmt: skip


def includes(path: Path) -> list[tuple[str, str]]:
    """Return (quote, name) of every include in *path*."""
    return INCLUDE.findall(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", core_files(".c", ".h"), ids=name_of)
def test_a_folder_includes_only_itself_and_those_below(path):
    """base <- io <- record <- index <- segment; paths begin at csrc/."""
    own = CORE_FOLDERS.index(path.parent.name)

    ours = [name for quote, name in includes(path) if quote == '"']
    assert [name for name in ours if not (ROOT / "csrc" / name).is_file()] == []
    assert [name for name in ours if CORE_FOLDERS.index(name.split("/")[0]) > own] == []


@pytest.mark.parametrize("path", core_files(".c", ".h"), ids=name_of)
def test_the_core_knows_nothing_of_python(path):
    """[D4] No Python.h, no NumPy."""
    system = [name for quote, name in includes(path) if quote == "<"]

    assert [name for name in system if "python" in name.lower() or "numpy" in name] == []


def test_headers_include_each_other_in_no_circle():
    """Include guards hide a circle from the compiler, not from a reader."""
    graph = {
        f"{path.parent.name}/{path.name}": {name for quote, name in includes(path) if quote == '"'}
        for path in core_files(".h")
    }

    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail("circle: " + " -> ".join(error.args[1]))


@dataclass(frozen=True)
class Symbols:
    """What one object file needs from others, defines, and keeps in writable memory."""

    undefined: set[str]
    defined: set[str]
    writable: set[str]


@pytest.fixture(scope="module")
def symbols(tmp_path_factory) -> dict[str, Symbols]:
    """Compile the core as a wheel does, without assertions, and ask nm."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    nm = shutil.which("nm")
    if compiler is None or nm is None:
        pytest.skip("needs a C compiler and nm")
    folder = tmp_path_factory.mktemp("objects")
    # Without position independence tables of pointers are read-only, so only real variables remain.
    flags = ["-std=c11", "-O1", "-fno-pie", "-fno-pic", "-fno-stack-protector", "-U_FORTIFY_SOURCE"]
    strict = ["-Wvla", "-Walloca", "-Werror"]
    result = {}
    for path in core_files(".c"):
        target = folder / f"{path.stem}.o"
        command = [compiler, *flags, *strict, "-Icsrc", "-c", str(path), "-o", str(target)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        listing = subprocess.run([nm, "-P", target], capture_output=True, text=True, check=True)
        rows = [line.split()[:2] for line in listing.stdout.splitlines()]
        result[name_of(path)] = Symbols(
            undefined={name for name, kind in rows if kind in "Uw"},
            defined={name for name, kind in rows if kind.isupper() and kind not in "UW"},
            writable={name for name, kind in rows if kind in "bBdDcC"},
        )
    return result


def test_only_the_seam_uses_the_operating_system(symbols):
    """[DUR-10] Every file, mapping, clock and allocation goes through env."""
    of_the_core = set().union(*(each.defined for each in symbols.values()))

    found = {
        path: each.undefined - of_the_core - PURE_SYMBOLS
        for path, each in symbols.items()
        if not path.startswith(THE_SEAM)
    }
    assert f"{THE_SEAM}.c" in symbols
    assert {path: names for path, names in found.items() if names} == {}


def test_the_core_never_ends_the_process_and_never_prints(symbols):
    """[DUR-43] A library reports; what happens then is the caller's."""
    found = {path: each.undefined & BANNED_SYMBOLS for path, each in symbols.items()}

    assert {path: names for path, names in found.items() if names} == {}


def test_the_core_keeps_no_variables(symbols):
    """No mutable globals: two logs in one process share nothing."""
    found = {path: each.writable for path, each in symbols.items()}

    assert {path: names for path, names in found.items() if names} == {}


def test_every_public_function_carries_the_prefix(symbols):
    """One namespace in a process that holds many libraries."""
    foreign = {
        (path, name)
        for path, each in symbols.items()
        for name in each.defined
        if not name.startswith("sgs_")
    }

    assert foreign == set()
