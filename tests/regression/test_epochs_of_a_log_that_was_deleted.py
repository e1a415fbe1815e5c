"""All records deleted, killed, opened: the next epoch was 0, and the open after that cut it off."""

from __future__ import annotations

import segstore
from tests.kits.log_kit import at, offsets, singleton


def test_what_is_appended_behind_deleted_records_of_newer_epochs_stays(tmp_path):
    """[DUR-3, DUR-64] Found by the state machine: without an epoch the next one may be older."""
    path = tmp_path / "t-0"
    log = segstore.open(path, durability="none")
    log.append_as_leader(singleton(), 1)
    log.append_as_follower(at(1, epoch=2), 2)
    log.delete_records(2)
    log.close_quietly()
    log = segstore.open(path, durability="none")
    log.append_as_leader(singleton(b"acknowledged"), 0)
    log.append_as_follower(at(3, epoch=1), 1)
    log.close_quietly()
    with segstore.open(path) as log:
        assert offsets(log.scan()) == [2, 3]
