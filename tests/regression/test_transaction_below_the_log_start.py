"""A transaction of which nothing can be read was missed in an index that rightly lacks it."""

from __future__ import annotations

import pytest

import segstore
from segstore import _core
from tests.kits.log_kit import batch


@pytest.mark.parametrize("recovery", ["safe", "kafka"])
@pytest.mark.parametrize("kept", [5, 7])
def test_the_producers_behind_a_truncation_begin_at_the_log_start(tmp_path, recovery, kept):
    """[PSM-56, DUR-7] Behind a deletion up to 5 nobody knows of the transaction from 0 on."""
    now = _core.wall_clock_ms()

    def sent(**producer: object) -> bytes:
        return batch([(now, None, b"v")], **producer)

    def of_producer(sequence: int) -> bytes:
        return sent(producer_id=100, producer_epoch=0, base_sequence=sequence, transactional=True)

    with segstore.open(tmp_path / "t-0", durability="none", recovery=recovery) as log:
        log.append_as_leader(of_producer(0), 0)
        for _ in range(5):
            log.append_as_leader(sent(), 0)
        log.append_as_leader(of_producer(1), 0)
        log.append_as_leader(sent(), 0)
        if recovery == "kafka":
            log.update_high_watermark(8)
        log.maybe_increment_log_start_offset(5)
        log.truncate_to(kept)
        abort = _core.encode_end_transaction_marker(
            kept, now, 0, 100, 0, commit=False, coordinator_epoch=0
        )
        log.append_as_follower(abort, 0)
        report = log.verify()
        assert report.ok, report
        shown = [record.offset for record in log.scan(isolation="read_committed")]
        assert shown == ([] if kept == 5 else [5])
