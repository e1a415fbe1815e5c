"""A truncation left the old recovery point in ``state_dir``: the next recovery began above the cut.

Kafka's profile writes no recovery point but at a close. What was appended behind a truncation had
then never been synced, and lay below the point of the last clean stop: an open after a crash did
not look at it, and damage that the crash had done stayed in the log.
"""

from __future__ import annotations

import pytest

import segstore
from segstore._core import Directory
from segstore.log.files.checkpoints import RECOVERY_POINT_CHECKPOINT, read_offset
from segstore.log.files.partition_directory import file_name
from segstore.types import TopicPartition
from tests.kits.damaged_logs import flip_bit

ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def places(tmp_path):
    """A log that was closed cleanly with 12 records, and its state directory."""
    path, state = tmp_path / "orders-0", tmp_path / "state"
    with open_log(path, state) as log:
        append(log, 12)
    return path, state


def open_log(path, state):
    return segstore.open(path, recovery="kafka", state_dir=state, segment_ms=None)


def append(log, count):
    for _ in range(count):
        log.append([(b"key", b"value-%d" % log.log_end_offset)])


CUTS = {
    "in a segment": lambda log: log.truncate_to(4),
    "fully": lambda log: log.truncate_fully_and_start_at(4),
}


@pytest.mark.parametrize("way", CUTS)
def test_what_was_appended_behind_a_truncation_is_recovered(places, way):
    """[LOC-4, DUR-62] The oracle is the damage: there the log ends after a recovery."""
    path, state = places
    log = open_log(path, state)
    assert log.report.clean
    CUTS[way](log)
    append(log, 3)
    hurt = path / file_name(log.segments()[-1].base_offset, "log")
    log.roll()  # at 7: the old recovery point lies in the segment behind this one
    append(log, 10)
    log.close_quietly()  # as a kill leaves it
    flip_bit(hurt, hurt.stat().st_size - 1)

    with open_log(path, state) as log:
        assert not log.report.clean
        assert log.log_end_offset == 6
        assert [record.offset for record in log.scan(4)] == [4, 5]


def test_the_recovery_point_is_lowered_and_never_raised(places):
    """[LOC-4, DUR-16] Before the truncation; one above it changes nothing."""
    path, state = places
    home = Directory(str(state))
    log = open_log(path, state)
    for offset, point in ((12, 12), (9, 9), (11, 9), (5, 5)):
        append(log, 12 - log.log_end_offset)
        log.truncate_to(offset)
        assert read_offset(home, RECOVERY_POINT_CHECKPOINT, ORDERS) == point
    log.close_quietly()
    home.close()
