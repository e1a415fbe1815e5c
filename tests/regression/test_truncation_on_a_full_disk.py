"""A truncation on a full disk cut the log, could not write `.segstore` then, and ended writing."""

from __future__ import annotations

import pytest

import segstore
from segstore.errors import DiskFullError
from tests.kits.small_disk import small_disk
from tests.kits.transactions_kit import ABORT, Producer, write

__all__ = ["small_disk"]

PAGE = 4096


def filled(path, *, rolls):
    """Two aborted transactions, each with three records before it, then two of a new epoch.

    Without rolls in one segment, and no checkpoint is to be lowered; with them in three, and no
    thread writes beside the test.
    """
    log = segstore.open(path, durability="none", segment_index_bytes=PAGE)
    producer = Producer(log, 1)
    for _ in range(2):
        write(log, 3)
        producer.write(1)
        producer.end(ABORT)
        if rolls:
            log.roll()
    log.assign_epoch_start_offset(1, log.log_end_offset)
    log.append([(None, b"last")] * 2)
    if not rolls:
        return log
    log.close()
    log = segstore.open(path, durability="none", segment_index_bytes=PAGE)
    log.append([(None, b"gone")])  # the first change removes the clean marker: that makes room
    log.truncate_to(log.log_end_offset - 1)
    return log


WAYS = {
    "inside a batch": lambda log: log.truncate_to(11),
    "to a batch": lambda log: log.truncate_to(8),
    "to the first segment": lambda log: log.truncate_to(3),
    "below the log start": lambda log: log.truncate_to(2),
    "fully, behind": lambda log: log.truncate_fully_and_start_at(20),
    "fully, before": lambda log: log.truncate_fully_and_start_at(2),
}
DELETED_BEFORE = {"below the log start": 4, "fully, before": 7}


def shown(log):
    rows = [(record.offset, record.value) for record in log]
    committed = [record.offset for record in log.scan(isolation="read_committed")]
    return log.log_start_offset, log.log_end_offset, rows, committed


@pytest.mark.parametrize("rolls", [False, True], ids=["one segment", "three"])
@pytest.mark.parametrize("way", WAYS)
def test_it_is_refused_or_done(small_disk, way, rolls):
    """[DUR-16, DUR-18, DUR-30] However much is free; the log goes on, and is what it was."""
    refused = done = 0
    for pages in range(10):
        path = small_disk.path / f"a-{pages}"
        log = filled(path, rolls=rolls)
        log.delete_records(DELETED_BEFORE.get(way, 0))
        was = shown(log), log.latest_epoch
        small_disk.fill(leave=pages * PAGE)
        try:
            WAYS[way](log)
        except DiskFullError:
            refused += 1
            assert (shown(log), log.latest_epoch) == was
        else:
            done += 1
            assert log.log_end_offset != was[0][1]
        small_disk.free()
        log.append([(None, b"new")])
        now = shown(log)
        assert len(now[2]) > 0
        if pages % 2:
            log.close()
        else:
            log.flush()
            log.close_quietly()
        with segstore.open(path) as again:
            assert shown(again)[1:] == now[1:]
            assert again.verify().ok
            again.delete_records(again.log_end_offset)
    assert refused
    assert done


def test_lost_files_are_told_after_one_that_was_refused(small_disk):
    """[DUR-51] What said that the log is being emptied is taken back."""
    path = small_disk.path / "a-0"
    log = filled(path, rolls=True)
    small_disk.fill(leave=PAGE)
    with pytest.raises(DiskFullError):
        log.truncate_fully_and_start_at(20)
    small_disk.free()
    log.assign_epoch_start_offset(9, log.log_end_offset)
    log.close()

    assert "being_emptied" not in (path / ".segstore").read_text()
