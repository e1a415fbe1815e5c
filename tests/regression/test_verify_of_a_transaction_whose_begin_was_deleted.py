"""To `verify` a transaction began with its first record that is left, to the index before."""

from __future__ import annotations

import segstore
from segstore import AppendOrigin, MemoryRecords


def test_an_index_that_knows_more_than_the_log_is_sound(tmp_path):
    """[TXX-1, DUR-7] Found by the state machine."""
    with segstore.open(tmp_path / "t-0", durability="none") as log:
        for sequence in range(3):
            batch = MemoryRecords.with_records(
                [(None, b"x")],
                producer_id=7,
                producer_epoch=0,
                base_sequence=sequence,
                transactional=True,
            )
            log.append_as_leader(batch.data)
            log.roll()
        log.delete_records(2)
        marker = MemoryRecords.with_end_transaction_marker(7, 0, commit=False)
        coordinator = AppendOrigin.COORDINATOR
        log.append_as_leader(marker.data, origin=coordinator, transaction_version=1)

        report = log.verify()

        assert report.ok, str(report)
        assert log.collect_aborted_transactions(2, 4) != []
