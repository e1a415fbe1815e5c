"""Every place at which the Python classes call the environment is failed with every errno.

`python -m tests.crash.failing_places` prints the table. The calls that the core makes at such a
place have the like in tests/c/test_failing_calls.c, which `make coverage` prints.
"""

from __future__ import annotations

import ast
import errno
import functools
import logging
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.crash.errno_table import applicable_errnos
from tests.crash.failing_places import Explorer
from tests.crash.failing_watcher import Tracer

if TYPE_CHECKING:
    from collections.abc import Iterator

PARTS = 4
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def quiet_logging() -> Iterator[None]:
    """What is logged of thousands of failures is of no interest."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


def test_a_failing_call_loses_nothing_at_any_place(record_property):
    """[DUR-6, DUR-30..DUR-42, DUR-111] Own errors that name their file, and no hang.

    One failure at each place. mypy finds each call of the core that may reach the environment: the
    runs come to all of these.
    """
    from tests.crash.call_places import call_places

    places = call_places()
    lines = {(one.file, line) for one in places for line in range(one.first_line, one.line + 1)}
    tracer = Tracer(lines)
    explorer = Explorer(how_much="sample", tracer=tracer)
    explorer.explore()
    unvisited = [
        (one.file, function_at(one.file, one.line), one.function)
        for one in places
        if tracer.pending[one.file].issuperset(range(one.first_line, one.line + 1))
    ]

    come_to = len(places) - len(unvisited)
    record_property("failing_places", list(explorer.totals()))
    record_property(
        "places",
        f"scenarios of failing calls come to {come_to} of {len(places)} places",
    )
    assert not explorer.broken, "\n".join(explorer.broken)
    assert not explorer.missing()
    assert len(places) > 400
    assert not unvisited, f"no scenario comes to these: {unvisited}"


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
def test_every_errno_at_every_place(part: int, record_property):
    """[DUR-6, DUR-30..DUR-42, DUR-111] Each once, and each for ever: an hour."""
    explorer = Explorer(part=part, parts=PARTS, how_much="all")
    explorer.explore()

    record_property("failing_places", list(explorer.totals()))
    assert not explorer.broken, "\n".join(explorer.broken)
    assert not explorer.missing()


def test_the_errnos_are_those_of_the_c_tests():
    """[DUR-111] As the file says that is read for them."""
    errnos = applicable_errnos()

    assert errnos["write_at"] == (
        errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EPERM,
    )  # fmt: skip
    assert (
        errnos["sync_data"]
        == errnos["sync_directory"]
        != errnos["rename"]
        == errnos["make_directory"]
    )
    assert len(errnos) == 25
    assert all(errnos.values())


@functools.cache
def functions_of(file: str) -> list[tuple[int, int, str]]:
    """Return first line, last line and name of each function, those inside of others later."""
    tree = ast.parse((ROOT / file).read_text())
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    found = [node for node in ast.walk(tree) if isinstance(node, kinds)]
    return [(node.lineno, node.end_lineno or node.lineno, node.name) for node in found]


def function_at(file: str, line: int) -> str:
    around = [name for first, last, name in functions_of(file) if first <= line <= last]
    return around[-1] if around else "<module>"
