"""To `verify` a transaction began with its first record that is left, to the index before."""

from __future__ import annotations

from typing import TYPE_CHECKING

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


def transactional(sequence: int) -> bytes:
    return MemoryRecords.with_records(
        [(None, b"x")],
        producer_id=7,
        producer_epoch=0,
        base_sequence=sequence,
        transactional=True,
    ).data


def abort(log: UnifiedLog):
    marker = MemoryRecords.with_end_transaction_marker(7, 0, commit=False)
    coordinator = AppendOrigin.COORDINATOR
    log.append_as_leader(marker.data, origin=coordinator, transaction_version=1)
