"""The compiled core: what it takes from the system, what it keeps, how much of the stack it uses.

All of it is compiled once. For the stack [DUR-104] gcc writes a call graph with the frame of each
function: no circle in it is a recursion, no path to the end of it is deeper than the limit. Calls
through pointers leave the core (env, codecs) or come back into a checked entry point.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.tidy.project_files import ROOT, core_files, name_of

if TYPE_CHECKING:
    from pathlib import Path

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

LIMIT_BYTES = 16 * 1024
NODE = re.compile(r'^node: \{ title: "([^"]+)" label: "[^"]*?(\d+) bytes \(([\w,]+)', re.MULTILINE)
EDGE = re.compile(r'^edge: \{ sourcename: "([^"]+)" targetname: "([^"]+)"', re.MULTILINE)
# Without position independence tables of pointers are read-only, so only real variables remain.
FLAGS = [
    *("-std=c11", "-O2", "-D_GNU_SOURCE", "-fno-pie", "-fno-pic", "-fno-stack-protector"),
    *("-U_FORTIFY_SOURCE", "-Wvla", "-Walloca", "-Werror", f"-I{ROOT}/csrc"),
]


def said(*command: str | Path) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Compile the core as a wheel does, without assertions; a call graph lies by each object."""
    gcc = shutil.which("gcc")
    if gcc is None or "Free Software" not in said(gcc, "--version"):
        pytest.skip("needs gcc: the call graph is its")
    folder = tmp_path_factory.mktemp("objects")

    def compiled(source: Path) -> Path:
        target = folder / f"{source.parent.name}-{source.stem}.o"
        command = [gcc, *FLAGS, "-fcallgraph-info=su", "-c", source, "-o", target]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return target

    sources = core_files(".c")
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(map(name_of, sources), pool.map(compiled, sources), strict=True))


@dataclass(frozen=True)
class Symbols:
    """What one object file needs from others, defines, and keeps in writable memory."""

    undefined: set[str]
    defined: set[str]
    writable: set[str]


@pytest.fixture(scope="module")
def symbols(objects: dict[str, Path]) -> dict[str, Symbols]:
    """Ask nm."""
    nm = shutil.which("nm")
    if nm is None:
        pytest.skip("needs nm")
    result = {}
    for name, target in objects.items():
        rows = [line.split()[:2] for line in said(nm, "-P", target).splitlines()]
        result[name] = Symbols(
            undefined={name for name, kind in rows if kind in "Uw"},
            defined={name for name, kind in rows if kind.isupper() and kind not in "UW"},
            writable={name for name, kind in rows if kind in "bBdDcC"},
        )
    return result


@pytest.fixture(scope="module")
def graph(objects: dict[str, Path]) -> tuple[dict[str, int], dict[str, set[str]]]:
    """Bytes of each function's frame, and whom it calls."""
    frames: dict[str, int] = {}
    calls: dict[str, set[str]] = {}
    for text in (target.with_suffix(".ci").read_text() for target in objects.values()):
        for name, size, kind in NODE.findall(text):
            assert kind in {"static", "dynamic,bounded"}, f"{name}: {kind}"
            frames[name] = int(size)
        for caller, called in EDGE.findall(text):
            calls.setdefault(caller, set()).add(called)
    return frames, calls


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


def test_no_frame_has_a_size_of_its_input(graph):
    """[DUR-104] ``dynamic,bounded`` is an alignment; alloca and VLAs did not compile."""
    frames, _ = graph
    assert len(frames) > 300
    assert max(frames.values()) < LIMIT_BYTES


def test_nothing_calls_itself_and_no_call_is_deep(graph):
    """[DUR-104]"""
    frames, calls = graph
    depths: dict[str, int] = {}

    def depth_of(name: str, path: tuple[str, ...] = ()) -> int:
        assert name not in path, f"a circle of calls: {' -> '.join([*path, name])}"
        if name not in depths:
            deeper = (depth_of(called, (*path, name)) for called in calls.get(name, ()))
            depths[name] = frames.get(name, 0) + max(deeper, default=0)
        return depths[name]

    deepest = max(frames, key=depth_of)
    assert depths[deepest] <= LIMIT_BYTES, f"{deepest} needs {depths[deepest]} bytes of stack"
