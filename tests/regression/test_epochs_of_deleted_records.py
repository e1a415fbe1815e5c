"""A deleted record that was still in the file gave its epoch to the records behind it."""

from __future__ import annotations

import segstore
from segstore import MemoryRecords

ONE = [(None, b"x")]


def test_deleted_records_have_no_say_in_epochs(tmp_path):
    """[SEG-40, EPC-4] All were deleted, so that a lower epoch could begin; then a kill."""
    with segstore.open(tmp_path / "t-0", durability="none") as log:
        log.append_as_leader(MemoryRecords.with_records(ONE).data, 1)
        log.maybe_increment_log_start_offset(1)
    log = segstore.open(tmp_path / "t-0", durability="none")
    assert log.latest_epoch is None
    log.append_as_leader(MemoryRecords.with_records(ONE).data, 0)
    log.close_quietly()

    with segstore.open(tmp_path / "t-0") as log:
        assert (log.log_start_offset, log.log_end_offset) == (1, 2)
        assert log.latest_epoch == 0
        assert log.end_offset_for_epoch(0) == (0, 2)
