"""A broker's log directory and its remote storage, gone on with as they are."""

from __future__ import annotations

import base64
import json
import shutil
import time

import pytest

import segstore

MINUTE_MS = 60_000


def rows_of(log) -> list[tuple[int, bytes | None]]:
    return [(record.offset, record.value) for record in log.scan()]


def served(tiered_case, partition) -> list[tuple[int, bytes | None]]:
    """What the broker gave to a consumer of the whole log."""
    text = (tiered_case.directory / "records" / f"{partition}.jsonl").read_text()
    rows = map(json.loads, text.splitlines())
    return [(row["offset"], base64.b64decode(row["value"] or "")) for row in rows]


def test_what_a_broker_tiered_is_gone_on_with(tiered_case, tmp_path):
    """[TIER-2, TIER-5, TIER-21, TIER-31, DUR-142] Each record once, and then ours too.

    Both partitions of its ``__remote_log_metadata`` are used as they are. What it left half copied
    is removed, and copied again.
    """
    if tiered_case.remote != "remote":
        pytest.skip("the storage at another time than the log directory")
    for name in ("data", "remote"):
        shutil.copytree(tiered_case.directory / name, tmp_path / name)
    options = {"remote": tmp_path / "remote", "remote_storage_enable": True}
    with segstore.open_dir(tmp_path / "data", read_only=True, **options) as logs:
        before = {one: rows_of(logs.log(*one)) for one in logs.partitions()}
    for one, rows in before.items():
        assert [(offset, value or b"") for offset, value in rows] == served(tiered_case, one)
    with segstore.open_dir(tmp_path / "data", **options) as logs:
        assert logs.maintain().failed == ()
        for one in logs.partitions():
            log = logs.log(*one)
            assert rows_of(log) == before[one]
            log.append([(None, b"ours")])
            log.roll()
            before[one].append((log.log_end_offset - 1, b"ours"))
        assert logs.maintain(time.time_ns() // 1_000_000 + MINUTE_MS).failed == ()
    with segstore.open_dir(tmp_path / "data", read_only=True, **options) as logs:
        assert {one: rows_of(logs.log(*one))[-1] for one in before} == {
            one: rows[-1] for one, rows in before.items()
        }


def test_an_open_that_does_not_know_of_remote_storage_forgets_nothing(tiered_case, tmp_path):
    """[TIER-5, DUR-143] No metadata log, and no remote=: the log start of the broker stays."""
    if tiered_case.remote != "remote":
        pytest.skip("the storage at another time than the log directory")
    for name in ("data", "remote"):
        shutil.copytree(tiered_case.directory / name, tmp_path / name)
    with segstore.open_dir(tmp_path / "data") as logs:
        partitions = logs.partitions()
        for one in partitions:
            logs.log(*one).append([(None, b"ours")])
        logs.maintain()
    tiered = {"remote": tmp_path / "remote", "remote_storage_enable": True, "retention_ms": 10**15}
    with segstore.open_dir(tmp_path / "data", **tiered) as logs:
        assert logs.maintain().failed == ()
        for one in partitions:
            rows = [(offset, value or b"") for offset, value in rows_of(logs.log(*one))]
            assert rows[:-1] == served(tiered_case, one)
