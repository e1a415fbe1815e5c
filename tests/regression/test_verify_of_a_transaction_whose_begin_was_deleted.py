"""To `verify` a transaction began with its first record that is left, to the index before.

Then every beginning below the first segment was right to it, and to the check of an index without a
note, also where the producer had ended a transaction after it: committed records were hidden.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore import AppendOrigin, MemoryRecords

if TYPE_CHECKING:
    from pathlib import Path

    from segstore import UnifiedLog


def test_an_index_that_knows_more_than_the_log_is_sound(tmp_path: Path):
    """[TXX-1, DUR-7] Found by the state machine."""
    with segstore.open(tmp_path / "t-0", durability="none") as log:
        for sequence in range(3):
            log.append_as_leader(transactional(sequence))
            log.roll()
        log.delete_records(2)
        abort(log)

        report = log.verify()

        assert report.ok, str(report)
        assert log.collect_aborted_transactions(2, 4) != []


def test_an_index_that_was_made_above_the_log_start_is_sound(tmp_path: Path):
    """[LDR-17, TXX-1, DUR-62] Kafka's recovery knows no producer from before the log start."""
    settings = {"recovery": "kafka", "durability": "none", "state_dir": tmp_path / "state"}
    log = segstore.open(tmp_path / "t-0", **settings)
    for sequence in range(4):
        log.append_as_leader(transactional(sequence))
        if sequence == 1:
            log.roll()
    log.update_high_watermark(4)
    log.maybe_increment_log_start_offset(3)
    abort(log)
    log.close_quietly()
    with segstore.open(tmp_path / "t-0", **settings) as log:
        report = log.verify()

        assert log.log_start_offset == 3
        assert [segment.base_offset for segment in log.segments()] == [0, 2]
        assert report.ok, str(report)
        assert [one.first_offset for one in log.collect_aborted_transactions(3, 5)] == [2]

    (tmp_path / "t-0" / "00000000000000000002.txnindex").write_bytes(b"")
    with segstore.open(tmp_path / "t-0", read_only=True, **settings) as log:
        assert not log.verify().ok


KINDS = {"committed": True, "aborted": False}


@pytest.mark.parametrize("is_committed", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("begins", [1, 2], ids=["deleted", "in the transaction before"])
def test_no_transaction_begins_before_the_end_of_the_one_before(tmp_path, begins, is_committed):
    """[TXX-1, DUR-7] The index is as a broker leaves it: nothing has a note of it."""
    path = tmp_path / "t-0"
    with segstore.open(path, durability="none", file_delete_delay_ms=0) as log:
        log.append([(None, b"0"), (None, b"1")])
        log.roll()
        log.append_as_leader(transactional(0))  # offset 2
        end(log, commit=is_committed)
        log.append_as_leader(transactional(1))
        end(log, commit=False)  # offset 5
        log.append([(None, b"6")])
        log.delete_records(2)
        assert log.verify().ok
    index = path / "00000000000000000002.txnindex"
    entries = bytearray(index.read_bytes())
    struct.pack_into(">q", entries, len(entries) - 34 + 10, begins)
    (path / ".segstore").unlink()

    for changed in (False, True):
        if changed:
            index.write_bytes(entries)
        with segstore.open(path, read_only=True) as log:
            assert [segment.base_offset for segment in log.segments()] == [2]
            committed = [record.offset for record in log.scan(isolation="read_committed")]
            assert committed == ([2, 6] if is_committed else [6])
            files = [finding.file for finding in log.verify().findings]
            assert files == [".segstore", index.name][: 1 + changed]


def test_a_transaction_that_was_there_before_may_have_begun_below_the_log(tmp_path):
    """[TXX-1] The first end of each producer tells no more than that."""
    path = tmp_path / "t-0"
    with segstore.open(path, durability="none", file_delete_delay_ms=0) as log:
        log.append_as_leader(transactional(0))
        log.roll()
        log.append_as_leader(transactional(1))
        end(log, commit=False)
        log.append_as_leader(transactional(2))
        end(log, commit=False)
        log.delete_records(1)
    (path / ".segstore").unlink()

    with segstore.open(path, read_only=True) as log:
        assert [finding.file for finding in log.verify().findings] == [".segstore"]
        found = log.collect_aborted_transactions(1, 5)
        assert [one.first_offset for one in found] == [0, 3]


def transactional(sequence: int) -> bytes:
    return MemoryRecords.with_records(
        [(None, b"x")],
        producer_id=7,
        producer_epoch=0,
        base_sequence=sequence,
        transactional=True,
    ).data


def abort(log: UnifiedLog):
    end(log, commit=False)


def end(log: UnifiedLog, *, commit: bool):
    marker = MemoryRecords.with_end_transaction_marker(7, 0, commit=commit)
    coordinator = AppendOrigin.COORDINATOR
    log.append_as_leader(marker.data, origin=coordinator, transaction_version=1)
