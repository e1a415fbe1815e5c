"""Runners over ground truth choose cases by what is in them; only the packed ones have names."""

from __future__ import annotations

import ast
import re

import pytest

from tests.interop.pack_golden import CHOICE
from tests.kits.golden_kinds import KINDS, partitions_of
from tests.tidy.project_files import ROOT, project_files

GOLDEN = "golden"
"""The name of the folder that the command line may choose."""

PACKED = "packed"
"""The name of the folder whose cases have names; each is written as ``packed / "its name"``."""

NOT_PACKED = [
    "broker-recompresses",
    "clean-damaged",
    "flip-flushed-segment",
    "flip-inactive-segment",
    "flip-last-batch",
    "flip-middle-batch",
    "foreign-encoders",
    "indexes-damaged",
    "kill9-while-swapping",
    "kill9-zstd",
    "leftover-files",
    "legacy-v0",
    "offset-overflow",
    "torn-random",
    "torn-zeros",
    "transactions-restarted",
]
"""Cases of the folder from which the choice was packed, that the pack leaves out."""

_NAMES = "|".join(sorted(map(re.escape, [*CHOICE, *NOT_PACKED]), key=len, reverse=True))
A_CASE = re.compile(rf"^(?:{_NAMES})(?:[/*]|$)")
ONLY_A_CASE = re.compile(rf"^(?=[\w]+-)(?:{_NAMES})(?:[/*]|$)")
"""Names with a hyphen mean nothing else; "lz4" alone may be the codec."""


def named_cases(source: str) -> list[tuple[int, str]]:
    """Find the lines that name a golden case otherwise than as ``packed / "name"``.

    Any name joined to ``golden`` is one, and any name joined to ``packed`` that is not packed.
    """
    tree = ast.parse(source)
    joined_to = {
        id(node.right): node.left.id if isinstance(node.left, ast.Name) else ""
        for node in ast.walk(tree)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)
    }
    return [
        (node.lineno, node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and is_wrong(node.value, joined_to.get(id(node)))
    ]


def is_wrong(name: str, folder: str | None) -> bool:
    """Whether *name* is a case's, joined to *folder*; None = to nothing, "" = to no variable."""
    if folder == PACKED:
        return name not in CHOICE
    if folder == GOLDEN:
        return True
    return bool((ONLY_A_CASE if folder is None else A_CASE).match(name))


def test_no_test_names_a_golden_case_that_is_not_packed():
    """In another folder the cases have other names, or these names mean other cases."""
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in project_files(".py")
        if path.is_relative_to(ROOT / "tests")
        and path.parent.name != "tidy"
        and path.name != "pack_golden.py"
        for line, name in named_cases(path.read_text(encoding="utf-8"))
    ]

    assert wrong == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ('golden / "zstd" / "data"', 1),
        ('CASE = "plain-many-segments"', 1),
        ('golden.glob("legacy-v1/data/*")', 1),
        ('case != "append-script"', 1),
        ('case = "legacy-v0"', 1),
        ('golden / "a name of another folder"', 1),
        ('packed / "legacy-v0"', 1),
        ('packed / "zstd" / "data"', 0),
        ('packed / "transactions-tv2"', 0),
        ('codec = "zstd"', 0),
    ],
)
def test_names_are_found(source, found):
    """What the test above looks for, and what it leaves alone."""
    assert len(named_cases(source)) == found


@pytest.mark.parametrize("kind", KINDS)
def test_the_packed_choice_has_every_kind(packed, kind):
    """A runner that asks for a kind is never skipped by default."""
    assert partitions_of(packed, kind)
