"""What jobs do with one partition."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from segstore.log.check.verify_report import VerifyReport
from segstore.log.findings.finding import Action, Finding, FindingCode
from segstore.spark import partition_jobs

DAMAGE = "00000000000000000007.log: damaged at offset 9; what follows is not read"


@pytest.mark.parametrize(
    ("file", "is_told"),
    [("00000000000000000007.log", False), ("00000000000000000000.index", True)],
)
def test_damage_is_left_out_where_a_finding_names_its_file(
    monkeypatch, file: str, *, is_told: bool
):
    """[DUR-7] Any finding hid it."""
    finding = Finding(code=FindingCode.INDEX_CORRUPT, file=file, action=Action.RECOVER)
    log = SimpleNamespace(
        verify=lambda: VerifyReport(path="orders-0", findings=[finding]),
        report=SimpleNamespace(damage=DAMAGE),
        log_start_offset=0,
        log_end_offset=9,
    )
    monkeypatch.setattr(partition_jobs, "open_log", lambda *_, **__: nullcontext(log))

    assert (DAMAGE in partition_jobs.verify_partition("orders-0")["problems"]) == is_told
