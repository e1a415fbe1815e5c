"""All records deleted, killed, opened: the next epoch was 0 again, and the open after cut it off."""

from __future__ import annotations

import segstore
from tests.log_kit import at, offsets


def test_what_is_appended_behind_deleted_records_of_newer_epochs_stays(tmp_path):
    """[DUR-3, DUR-64] Found by the state machine: without an epoch the next one may be older."""
    path = tmp_path / "t-0"
    log = segstore.open(path, durability="none")
    log.append_as_follower(at(0, epoch=3) + at(1, epoch=3), 3)
    log.delete_records(2)
    log.close_quietly()
    log = segstore.open(path, durability="none")
    log.append([(None, b"acknowledged")])
    log.close_quietly()
    with segstore.open(path) as log:
        assert offsets(log.scan()) == [2]
