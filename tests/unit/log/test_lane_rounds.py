"""Rounds of syncs that the lane leads, where nothing but its records came since one of the layers.

Source: [DUR-13, DUR-15].
"""

from __future__ import annotations

import errno

import pytest

from segstore.errors import FsyncFailedError, LogNotFoundError, LogReadOnlyError
from segstore.log.flusher import Flusher
from tests.crash.barrier_scene import new_disk, open_log

ONE = [(None, b"x")]


@pytest.fixture
def rounds_by_layers(monkeypatch):
    """How many syncs the layers have led for appends by the lane."""
    led, real = [], Flusher._sync_round

    def count(self, *where, lane=None):
        if lane is not None:
            led.append(lane)
        real(self, *where, lane=lane)

    monkeypatch.setattr(Flusher, "_sync_round", count)
    return led


def test_the_layers_lead_one_round_behind_each_other_change(new_log, rounds_by_layers):
    """[DUR-13] Up to the next change, records that the lane wrote are all that is not synced."""
    log = new_log(durability="sync")
    changes = [lambda: log.append(ONE), log.roll, lambda: log.truncate_to(log.log_end_offset - 2)]
    for number, change in enumerate(changes, 1):
        change()
        log.append(ONE)  # by the layers, which arm the lane
        for _ in range(5):
            info = log.append(ONE)
            assert info.durable_offset == log.durable_offset == info.base_offset + 1
        assert len(rounds_by_layers) == number
        assert log._flusher._directory_sync.synced_names_version == log._local_log.names_version


@pytest.fixture
def lane_on_a_disk(rounds_by_layers):
    """A simulated disk, and a log on it whose next round is led by the lane."""
    disk = new_disk()
    log = open_log(disk, durability="sync")
    for _ in range(3):
        log.append(ONE)
    assert len(rounds_by_layers) == 1
    yield disk, log
    log.close_quietly()


def test_a_sync_of_the_lane_that_fails_ends_writing(lane_on_a_disk, rounds_by_layers):
    """[DUR-35, DUR-38] It is not tried again, by the layers neither."""
    disk, log = lane_on_a_disk
    disk.fail("sync_data", 1, errno.EIO)
    with pytest.raises(FsyncFailedError):
        log.append(ONE)

    disk.fail("sync_data", 0, 0)
    assert isinstance(log._failure_mark.failure, FsyncFailedError)
    assert (log.log_end_offset, log.durable_offset, len(rounds_by_layers)) == (4, 3, 1)
    with pytest.raises(LogReadOnlyError):
        log.append(ONE)
    assert len(list(log)) == 4


def test_the_lane_notices_that_the_log_was_removed(lane_on_a_disk):
    """[DUR-4] Its file can be synced for ever, and nobody will find it."""
    _, log = lane_on_a_disk
    log._local_log.directory.unlink(".lock")
    with pytest.raises(LogNotFoundError, match="lock file"):
        log.append(ONE)

    assert log.durable_offset == 3
    with pytest.raises(LogReadOnlyError):
        log.append(ONE)


def test_the_lane_leads_no_round_of_a_log_that_has_failed(lane_on_a_disk):
    """[DUR-35] Another sync may have failed while the append waited for its turn."""
    _, log = lane_on_a_disk
    log._failure_mark.failure = FsyncFailedError("beside it")  # and not told of yet
    with pytest.raises(FsyncFailedError, match="beside it"):
        log.append(ONE)

    assert log.durable_offset == 3
