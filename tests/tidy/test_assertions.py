"""Assertions of the core: enough of them, on in tests, off in wheels [DUR-43, DUR-44].

tests/c/test_assertions.c shows that one which fails ends a test program. For fuzzing an input of
the canary shows it (tests/corpus/canary/assertion).
"""

from __future__ import annotations

import re

import pytest

from tests.tidy.project_files import ROOT, name_of

FOLDERS = ("segment", "index", "io")
LINES_EACH = 40  # at most so many lines for an assertion: this number only goes down

ASSERTION = re.compile(r"\bSGS_(?:ASSERT|EXPECT)\(")
CONSTANT = re.compile(r"SGS_(?:ASSERT|EXPECT)\((?:true|false|!?\d+)[,)]")


def lines_of(folder: str) -> list[tuple[str, str]]:
    """Every line of C in a folder of csrc, after the name of its file and its number."""
    files = sorted(
        path for path in (ROOT / "csrc" / folder).iterdir() if path.suffix in {".c", ".h"}
    )
    return [
        (f"{name_of(path)}:{number}", line)
        for path in files
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
    ]


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_has_an_assertion_for_every_forty_lines(folder: str):
    """A rewritten or a new file brings its own: whoever takes one away puts another there."""
    lines = lines_of(folder)
    assertions = sum(len(ASSERTION.findall(line)) for _, line in lines)

    assert assertions * LINES_EACH >= len(lines), f"{assertions} for {len(lines)} lines"


@pytest.mark.parametrize("folder", FOLDERS)
def test_an_assertion_stands_on_one_line_and_may_fail(folder: str):
    """``make coverage`` leaves out lines with one: the rest of a longer one would count."""
    found = [(place, line.strip()) for place, line in lines_of(folder) if ASSERTION.search(line)]

    assert [place for place, line in found if ");" not in line] == []
    assert [place for place, line in found if line.count("(") != line.count(")")] == []
    assert [place for place, line in found if CONSTANT.search(line)] == []


def test_tests_and_fuzz_targets_have_them_and_wheels_have_not():
    """One Makefile compiles the core for tests, sanitizers, fuzzing and crash images."""
    makefile = (ROOT / "tests" / "c" / "Makefile").read_text(encoding="utf-8")
    flags = re.search(r"^FLAGS := .*$", makefile, re.MULTILINE)

    assert flags is not None
    assert "-DSGS_ASSERTIONS" in flags.group()
    assert "SGS_ASSERT|SGS_EXPECT" in makefile, "coverage leaves them out"
    assert "SGS_ASSERTIONS" not in (ROOT / "setup.py").read_text(encoding="utf-8")
