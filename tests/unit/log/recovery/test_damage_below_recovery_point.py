"""What had been synced and is broken or missing: told, refused for writing, never dropped."""

from __future__ import annotations

import pytest

from segstore.errors import CorruptLogError, CorruptRecordError
from tests.kits.damaged_logs import (
    RECORDS_COUNT,
    append_bytes,
    batches_of,
    build,
    cut,
    expected_values,
    flip_bit,
    open_twice,
    refused,
    values_of,
)
from tests.kits.log_kit import note_being_emptied, remove_segment

LAST = RECORDS_COUNT - 1


def reader_of(directory):
    """Whether a reader was told of damage, and how many records it got before that."""
    count = 0
    with directory.open(read_only=True) as log:
        told = any("damaged" in text for text in log.report.warnings)
        try:
            for _ in log.scan():
                count += 1
        except CorruptRecordError:
            told = True
    return told, count


@pytest.mark.parametrize("where", ["first", "middle", "last"])
def test_a_flipped_bit_below_the_recovery_point_is_damage(log_directory, where):
    """[DUR-6, DUR-51] In the segment of the recovery point; the ones before are checked lazily."""
    log_directory.set_recovery_point(RECORDS_COUNT)
    batches = batches_of(log_directory.last)
    batch = {"first": batches[0], "middle": batches[5], "last": batches[-1]}[where]
    flip_bit(log_directory.last, batch.position + 65)

    refused(log_directory, f"records from {batch.base_offset} to {LAST} had been synced")
    told, count = reader_of(log_directory)
    assert told
    assert count == batch.base_offset


def test_a_flipped_bit_in_an_inactive_synced_segment_is_found_when_it_is_read(log_directory):
    """[DUR-7, DUR-51, DUR-79] Never a wrong record; what is before and behind it can be read."""
    log_directory.set_recovery_point(RECORDS_COUNT)
    batch = batches_of(log_directory.file(log_directory.bases[1]))[3]
    flip_bit(log_directory.file(log_directory.bases[1]), batch.position + 65)

    with log_directory.open() as log:
        with pytest.raises(CorruptRecordError):
            values_of(log)
        before = log.scan(0, batch.base_offset).tuples()
        behind = log.scan(batch.base_offset + 1, RECORDS_COUNT).tuples()
        assert len(before) + len(behind) == RECORDS_COUNT - 1
        assert not log.verify().ok


@pytest.mark.parametrize("size", [0, 1, 100])
def test_bytes_missing_below_the_recovery_point_are_damage(log_directory, size):
    """[DUR-51] The active segment is shorter than it was when it was synced."""
    log_directory.set_recovery_point(RECORDS_COUNT)
    cut(log_directory.last, size)

    refused(log_directory, "had been synced")


def test_a_missing_segment_below_the_recovery_point_is_damage(log_directory):
    """[DUR-54, DUR-64] The log is known to be contiguous: a gap means that records are missing."""
    log_directory.set_recovery_point(RECORDS_COUNT)
    gone, following = log_directory.bases[1:3]
    log_directory.file(gone).unlink()

    refused(log_directory, f"records {gone} to {following - 1} are missing")


def test_a_missing_segment_above_the_recovery_point_ends_the_log(log_directory):
    """[DUR-2, DUR-54] What follows a hole is not used, and set aside."""
    gone = log_directory.bases[1]
    later = log_directory.bases[2:]
    log_directory.file(gone).unlink()

    report = open_twice(log_directory, gone)

    assert report.truncated_from_offset == gone
    assert "missing" in report.reason
    assert sorted(report.set_aside) == [f"{base:020d}.quarantine-1" for base in later]


def test_without_the_state_file_gaps_are_allowed(log_directory):
    """[DUR-64] A compacted log, or a broker's: base offsets ascend, nothing else is known."""
    gone, following = log_directory.bases[1:3]
    remove_segment(log_directory.path, gone)
    (log_directory.path / ".segstore").unlink()

    with log_directory.open() as log:
        expected = expected_values(0, gone) + expected_values(following, RECORDS_COUNT)
        assert values_of(log) == expected
        assert log.report.truncated_from_offset is None


def test_a_first_segment_that_is_missing_is_told(log_directory):
    """[DUR-54, DUR-7] The first base may exceed the log start, but not in a log of our own."""
    log_directory.file(0).unlink()
    first = log_directory.bases[0]

    with log_directory.open(read_only=True) as log:
        assert log.log_start_offset == first
        assert values_of(log) == expected_values(first, RECORDS_COUNT)
        assert any(f"records 0 to {first - 1}" in text for text in log.report.warnings)
    with pytest.raises(CorruptLogError, match=f"records 0 to {first - 1} are missing"):
        log_directory.open()


def test_a_segment_that_reaches_into_the_next_one_wins_when_it_is_not_older(log_directory):
    """[DUR-54] The segments above are set aside, their bytes kept."""
    base, following = log_directory.bases[1:3]
    rows = batches_of(log_directory.file(following))
    append_bytes(
        log_directory.file(base), log_directory.file(following).read_bytes()[: rows[0].size]
    )
    later = log_directory.bases[2:]

    report = open_twice(log_directory, following + 1)

    assert sorted(report.set_aside) == [f"{other:020d}.quarantine-1" for other in later]
    assert "reaches beyond" in report.reason


def test_an_overlap_below_the_recovery_point_is_damage(log_directory):
    """[DUR-54] The higher segment is durable."""
    base, following = log_directory.bases[1:3]
    rows = batches_of(log_directory.file(following))
    append_bytes(
        log_directory.file(base), log_directory.file(following).read_bytes()[: rows[0].size]
    )
    log_directory.set_recovery_point(RECORDS_COUNT)

    refused(log_directory, "into the next segment")


# ---- records that are missing at the end ---------------------------------------------------------


def without_last_segment(directory):
    directory.last.unlink()
    return directory.bases[-1], batches_of(directory.last)[-1].base_offset + 1


def cut_behind_a_batch(directory):
    batch = batches_of(directory.last)[3]
    cut(directory.last, batch.end)
    return directory.bases[-1], batch.base_offset + 1


def with_a_point_above_the_end(directory):
    directory.set_recovery_point(RECORDS_COUNT + 40)
    return directory.bases[-1], RECORDS_COUNT


@pytest.mark.parametrize("marked_clean", [False, True])
@pytest.mark.parametrize(
    "damage", [without_last_segment, cut_behind_a_batch, with_a_point_above_the_end]
)
def test_a_log_that_ends_whole_below_its_recovery_point_has_lost_records(
    damage, marked_clean, tmp_path
):
    """[DUR-51, DUR-1] Every batch that is there is good; those that are not had been synced."""
    directory = build(tmp_path / "orders-0", clean=marked_clean)
    directory.set_recovery_point(RECORDS_COUNT)
    _, end = damage(directory)

    with directory.open(read_only=True) as log:
        assert values_of(log) == expected_values(0, end)
        assert any(f"ends at offset {end}" in text for text in log.report.warnings)
    refused(directory, f"the log ends at offset {end}: records from there")


@pytest.mark.parametrize("marked_clean", [False, True])
def test_a_log_without_any_segment_is_no_new_one(marked_clean, tmp_path):
    """[DUR-51] All ``.log`` files are gone, the recovery point is not."""
    directory = build(tmp_path / "orders-0", clean=marked_clean)
    directory.set_recovery_point(40)
    for base in directory.bases:
        directory.file(base).unlink()

    refused(directory, "there is no .log file, but .segstore shows that there were records")
    assert directory.bases == []
    (directory.path / ".segstore").unlink()
    refused(directory, "records up to 39 had been synced")
    assert directory.bases == []


def test_a_log_is_damaged_only_above_its_log_start(tmp_path):
    """[DUR-18, LDR-25] A crash in the midst of a full truncation, which is noted beforehand."""
    directory = build(tmp_path / "orders-0")
    directory.set_recovery_point(40)
    note_being_emptied(directory.path)
    for name in directory.logs():
        (directory.path / name).unlink()
    (directory.path / "log-start-offset-checkpoint").write_text("0\n1\norders 0 40\n")

    with directory.open() as log:
        assert (log.log_start_offset, log.log_end_offset) == (40, 40)
        assert directory.bases == [40]
