"""The house in C: what a folder includes."""

from __future__ import annotations

import re
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

import pytest

from tests.tidy.project_files import CORE_FOLDERS, ROOT, core_files, name_of

if TYPE_CHECKING:
    from pathlib import Path

INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]', re.MULTILINE)


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
