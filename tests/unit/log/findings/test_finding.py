"""Findings are values with codes; every code and value has its sentence and its line [D15]."""

from __future__ import annotations

import json
import re

import pytest

from segstore.errors import ReadIOError
from segstore.log.findings.finding import Action, Finding, FindingCode, Records, facts_of
from segstore.log.findings.finding_text import WHAT, finding_text, finding_values
from tests.tidy.project_files import ROOT

OPERATIONS = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")


def test_the_document_has_a_line_for_every_code():
    """An operator looks a code up there."""
    chapter = OPERATIONS.partition("## Codes")[2]

    assert re.findall(r"^\| `([A-Z_]+)` \|", chapter, re.MULTILINE) == [*FindingCode]


def test_the_document_has_a_line_for_every_meaning():
    chapter = OPERATIONS.partition("## What a finding means for records")[2]

    assert re.findall(r"^\| `([A-Z_]+)` \|", chapter.partition("## Codes")[0], re.MULTILINE) == [
        *Records
    ]


def test_every_code_has_a_sentence():
    assert [*WHAT] == [*FindingCode]


@pytest.mark.parametrize("action", Action)
@pytest.mark.parametrize("records", Records)
def test_every_value_is_said(action, records):
    """No sentence is missing for any of them."""
    finding = Finding(
        code=FindingCode.BATCH_CORRUPT,
        file="0.log",
        position=7,
        first_offset=3,
        records=records,
        lost=((3, 5), (9, None)),
        salvageable=((6, 8),),
        action=action,
    )

    where, means, to_do = finding_text(finding, "a b/orders-0").splitlines()
    assert where.startswith("0.log, byte 7, offset 3: ")
    assert where.endswith("[BATCH_CORRUPT]")
    assert ("3 to 5 and from 9 on" in means) == (records is not Records.NONE)
    assert to_do.strip().startswith("to do: ")
    assert "a b/orders-0" not in to_do.replace("'a b/orders-0'", "")


def test_a_failed_read_is_named_by_its_errno():
    """[DUR-33] As the system names it."""
    error = ReadIOError("a read failed", file="0.log", os_error=5)
    finding = Finding(
        code=FindingCode.FILE_UNREADABLE, file="0.log", action=Action.RESTORE, **facts_of(error)
    )

    assert "EIO" in finding_text(finding, "orders-0")


def test_json_has_values_and_sentences():
    finding = Finding(code=FindingCode.INDEX_MISSING, file="0.index", action=Action.RECOVER)

    values = json.loads(json.dumps(finding_values(finding, "orders-0")))
    assert values["code"] == "INDEX_MISSING"
    assert values["records"] == "NONE"
    assert values["advice"].startswith("`segstore recover orders-0`")
