"""The changes that a mutation run makes: one token of code, nothing in texts and comments."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.mutation.line_tests import MOST_SECONDS, LineTests
from tests.mutation.mutants import mutants_of

if TYPE_CHECKING:
    from pathlib import Path

CASES = {
    "a.c": (
        """/* if (a < b) */
static bool f(int a)
{
    if (a <= 1 && g("x == y")) {
        h(a);
    }
    if (b && a == 1)
        return true;
    SGS_ASSERT(a == 1);
}
""",
        {
            '    if (a < 1 && g("x == y")) {',
            '    if (a <= 2 && g("x == y")) {',
            '    if (a <= 1 || g("x == y")) {',
            "        ;",
            "    if (!b && a == 1)",
            "    if (b || a == 1)",
            "    if (b && a != 1)",
            "    if (b && a == 2)",
            "        return false;",
        },
    ),
    "a.py": (
        """import os
def f(a):
    \"\"\"a < b.\"\"\"
    if a is None or a > 0:  # a < 0
        g(a)
    return max(a, 7)
""",
        {
            "    if a is not None or a > 0:  # a < 0",
            "    if a is None and a > 0:  # a < 0",
            "    if a is None or a >= 0:  # a < 0",
            "    if a is None or a > 1:  # a < 0",
            "        pass",
            "    return min(a, 7)",
        },
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_mutants_of_a_file(name: str, tmp_path: Path):
    text, wanted = CASES[name]
    path = tmp_path / name
    path.write_text(text)

    mutants = list(mutants_of(tmp_path, name))

    assert {mutant.after for mutant in mutants} == wanted
    for mutant in mutants:
        lines = mutant.of(text).split("\n")
        assert lines[mutant.line_number - 1] == mutant.after
        assert len(lines) == len(text.split("\n"))
    assert path.read_text() == text


def test_which_tests_meet_a_mutant():
    """Those that run its line, the quick ones first, and no more than there is patience for."""
    lines = LineTests(
        {"quick": 0.1, "slow": 5.0, "endless": MOST_SECONDS, "other": 0.2},
        {"a.py:4": ["endless", "slow", "quick"], "a.py:5": ["endless"]},
    )
    assert list(lines.of("a.py", 4)) == ["quick", "slow"]
    assert list(lines.of("a.py", 5)) == ["endless"]
    assert lines.of("a.py", 6) == {}


def test_tests_of_rare_lines_are_asked_first():
    """A test that runs what few others do is about this file."""
    lines = LineTests(
        {"quick": 0.1, "about it": 0.2, "other": 0.1},
        {"a.py:1": ["quick", "about it", "other"], "a.py:2": ["about it"], "b.py:1": ["quick"]},
    )
    assert list(lines.of("a.py", 1)) == ["about it", "quick", "other"]


def test_tests_of_the_same_name_are_asked_first():
    """One concept is one stem."""
    lines = LineTests(
        {"x/test_b.py::quick": 0.1, "x/test_a.py::slow": 0.9},
        {"s/a.py:1": ["x/test_b.py::quick", "x/test_a.py::slow"]},
    )
    assert list(lines.of("s/a.py", 1)) == ["x/test_a.py::slow", "x/test_b.py::quick"]


def test_what_killed_a_neighbour_is_asked_first():
    """The nearest line of the same file counts."""
    lines = LineTests(
        {"quick": 0.1, "killer": 5.0, "far killer": 1.0},
        {"a.py:4": ["quick", "killer", "far killer"], "b.py:4": ["quick", "killer"]},
    )
    lines.note_killer("a.py", 90, "far killer")
    lines.note_killer("a.py", 3, "killer")

    assert list(lines.of("a.py", 4)) == ["killer", "far killer", "quick"]
    assert list(lines.of("b.py", 4)) == ["quick", "killer"]
