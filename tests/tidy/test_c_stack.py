"""The core's use of the stack, as the compiler counts it [DUR-104].

gcc writes a call graph with the frame of each function: no circle in it is a recursion, no path to
the end of it is deeper than the limit. Calls through pointers leave the core (env, codecs) or come
back into a checked entry point.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import pytest

from tests.tidy.project_files import ROOT, core_files

LIMIT_BYTES = 16 * 1024
NODE = re.compile(r'^node: \{ title: "([^"]+)" label: "[^"]*?(\d+) bytes \(([\w,]+)', re.MULTILINE)
EDGE = re.compile(r'^edge: \{ sourcename: "([^"]+)" targetname: "([^"]+)"', re.MULTILINE)


@cache
def gcc() -> str:
    path = shutil.which("gcc")
    if path is None or "Free Software" not in _said(path, "--version"):
        pytest.skip("needs gcc: the call graph is its")
    return path


def _said(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, int], dict[str, set[str]]]:
    """Bytes of each function's frame, and whom it calls."""
    folder = tmp_path_factory.mktemp("stack")
    flags = ["-std=c11", "-O2", "-D_GNU_SOURCE", "-Wvla", "-Walloca", "-Werror", f"-I{ROOT}/csrc"]

    def compiled(source: Path) -> str:
        stem = folder / f"{source.parent.name}-{source.stem}"
        subprocess.run(
            [gcc(), *flags, "-fcallgraph-info=su", "-c", source, "-o", f"{stem}.o"], check=True
        )
        return Path(f"{stem}.ci").read_text()

    with ThreadPoolExecutor(2) as pool:
        texts = list(pool.map(compiled, core_files(".c")))
    frames: dict[str, int] = {}
    calls: dict[str, set[str]] = {}
    for text in texts:
        for name, size, kind in NODE.findall(text):
            assert kind in {"static", "dynamic,bounded"}, f"{name}: {kind}"
            frames[name] = int(size)
        for caller, called in EDGE.findall(text):
            calls.setdefault(caller, set()).add(called)
    return frames, calls


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
