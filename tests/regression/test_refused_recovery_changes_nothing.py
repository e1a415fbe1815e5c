"""Recovery set synced segments aside, and said that nothing had been changed.

[DUR-51, DUR-54, DUR-57] Records below the recovery point were missing between the segment of the
recovery point and the next one: the segments behind the gap were renamed before the log's end was
compared with the recovery point.
"""

from __future__ import annotations

import pytest

from tests.kits.damaged_logs import (
    RECORDS_COUNT,
    append_bytes,
    batches_of,
    build,
    cut,
    flip_bit,
    open_twice,
    refused,
)


@pytest.fixture(scope="module")
def crashed(tmp_path_factory):
    return build(tmp_path_factory.mktemp("crashed") / "orders-0")


@pytest.fixture
def log_directory(crashed, tmp_path):
    """A crashed log; the preallocated index of its active segment is longer than recovery's."""
    return crashed.copy(tmp_path / "orders-0")


def lose_the_end_of(directory, base, batches_count):
    """Cut a segment at a batch boundary; returns the first offset that is missing."""
    batch = batches_of(directory.file(base))[-batches_count]
    cut(directory.file(base), batch.position)
    return batch.base_offset


@pytest.mark.parametrize("index", [0, 1, 2])
@pytest.mark.parametrize("batches_count", [2, 5])
def test_a_gap_that_begins_below_the_recovery_point_is_damage(log_directory, index, batches_count):
    """[DUR-54] The recovery point lies inside the gap: no later segment begins below it."""
    base, following = log_directory.bases[index : index + 2]
    log_directory.set_recovery_point(following - 1)
    missing = lose_the_end_of(log_directory, base, batches_count)

    refused(log_directory, f"records {missing} to {following - 1} are missing")


def test_a_gap_that_begins_at_the_recovery_point_ends_the_log(log_directory):
    """[DUR-2, DUR-54] Nothing that is missing had been synced."""
    base, *later = log_directory.bases[1:]
    missing = lose_the_end_of(log_directory, base, 2)
    log_directory.set_recovery_point(missing)

    report = open_twice(log_directory, missing)

    assert sorted(report.set_aside) == [f"{other:020d}.quarantine-1" for other in later]


def test_a_gap_below_the_log_start_loses_nothing_that_had_been_synced(log_directory):
    """[DUR-18] What is missing below the recovery point had been deleted."""
    base, following = log_directory.bases[1:3]
    missing = lose_the_end_of(log_directory, base, 4)
    log_directory.set_recovery_point(missing + 1)
    log_start = log_directory.path / "log-start-offset-checkpoint"
    log_start.write_text(f"0\n1\norders 0 {following - 1}\n")

    with log_directory.open() as log:
        assert log.log_start_offset == log.log_end_offset == following - 1


def flip_in_a_later_segment(directory):
    flip_bit(directory.file(directory.bases[2]), 70)
    directory.set_recovery_point(directory.bases[2] + 1)
    return "had been synced"


def end_below_the_point(directory):
    directory.set_recovery_point(RECORDS_COUNT + 7)
    return f"the log ends at offset {RECORDS_COUNT}"


def end_in_a_torn_batch_below_the_point(directory):
    directory.set_recovery_point(RECORDS_COUNT)
    cut(directory.last, batches_of(directory.last)[-1].end - 1)
    return "had been synced"


def strange_batch_without_a_point(directory):
    strange = build(directory.path.parent / "strange-0", 3)
    append_bytes(directory.last, strange.file(0).read_bytes())
    directory.set_recovery_point(None)
    return "no recovery point"


def sealed_segment_with_a_bad_end(directory):
    directory.set_recovery_point(RECORDS_COUNT)
    append_bytes(directory.file(directory.bases[1]), b"\1" * 70)
    return "ends in bytes that are no batch"


def bad_time_index_before_a_gap(directory):
    directory.set_recovery_point(RECORDS_COUNT)
    time_index = directory.file(directory.bases[0], "timeindex")
    time_index.write_bytes(b"\x7f" * time_index.stat().st_size)
    directory.file(directory.bases[1]).unlink()
    return "are missing"


def lost_index_of_a_damaged_segment(directory):
    directory.set_recovery_point(RECORDS_COUNT - 1)
    append_bytes(directory.last, b"torn")
    directory.file(directory.bases[1], "index").unlink()
    flip_bit(directory.file(directory.bases[1]), 70)
    return "cannot be indexed"


@pytest.mark.parametrize(
    "damage",
    [
        flip_in_a_later_segment,
        end_below_the_point,
        end_in_a_torn_batch_below_the_point,
        strange_batch_without_a_point,
        sealed_segment_with_a_bad_end,
        bad_time_index_before_a_gap,
        lost_index_of_a_damaged_segment,
    ],
)
def test_a_refused_log_is_as_it_was_byte_for_byte(damage, log_directory):
    """[DUR-51, DUR-57] Index files too: everything is decided before anything is done."""
    refused(log_directory, damage(log_directory))
