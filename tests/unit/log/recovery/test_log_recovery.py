"""Each fault that a stop can leave behind, and the outcome that durability.md names for it."""

from __future__ import annotations

import pytest

import segstore
from segstore import _core
from segstore._core import BatchTable
from segstore.log.local.segments import floor_index
from segstore.log.recovery.epoch_changes import epoch_changes
from segstore.records.compression import codec_table
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

LAST = RECORDS_COUNT - 1


# ---- the tail ------------------------------------------------------------------------------------


def test_a_tail_torn_at_any_byte_loses_its_batch_alone(crashed, tmp_path):
    """[DUR-1, DUR-50, DUR-51, DUR-58, DUR-59] Cut after each byte of the last batch."""
    last = batches_of(crashed.last)[-1]
    for size in range(last.position, last.end + 1):
        directory = crashed.copy(tmp_path / str(size) / "orders-0")
        cut(directory.last, size)

        report = open_twice(directory, LAST + (size == last.end))

        torn = (size - last.position) % last.size
        assert report.truncated_bytes == torn
        assert report.truncated_from_offset == (LAST if torn else None)
        kept = [(directory.path / name).read_bytes() for name in report.quarantined]
        original = crashed.last.read_bytes()[last.position : size]
        assert kept == ([original] if torn and any(original) else [])


@pytest.mark.parametrize("count", [1, 11, 12, 17, 18, 61, 4096, 100_000])
def test_zeros_behind_the_last_batch_are_cut_and_not_kept(log_directory, count):
    """[DUR-50, DUR-59] A file that was grown before a power loss ends in zeros."""
    append_bytes(log_directory.last, bytes(count))

    report = open_twice(log_directory, RECORDS_COUNT)

    assert report.truncated_bytes == count
    assert report.truncated_from_offset == RECORDS_COUNT
    assert report.quarantined == []


def test_a_flipped_bit_anywhere_in_the_last_batch_ends_the_log_before_it(crashed, tmp_path):
    """[DUR-50, DUR-64] Every 7th bit, the base offset too: the log is known to be contiguous.

    The leader epoch alone is neither in the CRC nor known.
    """
    last = batches_of(crashed.last)[-1]
    for bit in range(0, last.size * 8, 7):
        if 12 <= bit // 8 < 16:
            continue
        directory = crashed.copy(tmp_path / str(bit) / "orders-0")
        flip_bit(directory.last, last.position + bit // 8, bit % 8)

        report = open_twice(directory, LAST)

        assert report.truncated_from_offset == LAST
        assert report.reason
        assert len(report.quarantined) == 1


def test_a_flipped_bit_above_the_recovery_point_cuts_there_and_keeps_what_followed(log_directory):
    """[DUR-51, DUR-59] In a middle segment: later segments are set aside whole."""
    base = log_directory.bases[1]
    third = batches_of(log_directory.file(base))[2]
    original = log_directory.file(base).read_bytes()
    later = {name: data for name, data in log_directory.logs().items() if int(name[:20]) > base}
    flip_bit(log_directory.file(base), third.position + 70)

    report = open_twice(log_directory, third.base_offset)

    assert report.truncated_from_offset == third.base_offset
    assert "CRC" in report.reason
    cut_bytes = len(original) - third.position + sum(map(len, later.values()))
    assert report.truncated_bytes == cut_bytes
    assert sorted((log_directory.path / name).read_bytes() for name in report.set_aside) == sorted(
        later.values()
    )
    (kept,) = report.quarantined
    tail = original[third.position :]
    assert len((log_directory.path / kept).read_bytes()) == len(tail)
    assert report.segments == 2


def test_whatever_garbage_follows_the_tail_goes(log_directory):
    """[DUR-50] Kafka: LogLoaderTest.testCorruptLog."""
    append_bytes(log_directory.last, b"\x7f\xffgarbage" * 100)

    report = open_twice(log_directory, RECORDS_COUNT)

    assert report.truncated_bytes == 900
    assert (log_directory.path / report.quarantined[0]).read_bytes() == b"\x7f\xffgarbage" * 100


def test_an_old_copy_of_a_batch_behind_the_tail_is_cut(log_directory):
    """[DUR-2, DUR-63] Valid by itself, but its offset does not go on; also without a point."""
    first = batches_of(log_directory.last)[0]
    append_bytes(log_directory.last, log_directory.last.read_bytes()[: first.size])
    log_directory.set_recovery_point(None)

    report = open_twice(log_directory, RECORDS_COUNT)

    assert report.truncated_bytes == first.size


# ---- no recovery point ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content", [None, b"", b"garbage", b"0\n7\n", b"\xff\xfe", b"0\n1\norders 0 -5\n"]
)
def test_without_a_recovery_point_everything_is_checked(log_directory, content):
    """[DUR-21, DUR-63] Missing, empty or unreadable; the report says so."""
    checkpoint = log_directory.path / "recovery-point-offset-checkpoint"
    checkpoint.unlink()
    if content is not None:
        checkpoint.write_bytes(content)
    size = sum(map(len, log_directory.logs().values()))

    report = open_twice(log_directory, RECORDS_COUNT)

    assert report.scanned_bytes == size
    assert report.recovery_point == 0
    unreadable = content not in {None, b""}
    assert any("cannot be read" in text for text in report.warnings) == unreadable


def test_without_a_recovery_point_broken_bytes_are_a_tail(log_directory):
    """[DUR-63] They may have been synced: nobody knows. All of them are kept in quarantine."""
    log_directory.set_recovery_point(None)
    third = batches_of(log_directory.file(0))[2]
    flip_bit(log_directory.file(0), third.position + 65)

    report = open_twice(log_directory, 2)

    assert report.truncated_from_offset == 2
    kept = report.quarantined + report.set_aside
    kept_bytes = sum((log_directory.path / name).stat().st_size for name in kept)
    assert kept_bytes == report.truncated_bytes


def test_without_a_recovery_point_a_valid_batch_out_of_order_is_damage(log_directory):
    """[DUR-63] A batch that is no copy of an earlier one was meant to be there."""
    strange = build(log_directory.path.parent / "strange-0", 3)
    append_bytes(log_directory.last, strange.file(0).read_bytes())
    log_directory.set_recovery_point(None)

    refused(log_directory, "no recovery point")


# ---- what is written again -----------------------------------------------------------------------


def test_bytes_above_the_recovery_point_are_written_again(log_directory):
    """[DUR-36, DUR-4] A page that looks clean may not be on the disk: not durable before that."""
    base = log_directory.bases[2]
    log_directory.set_recovery_point(base + 1)
    sizes = {name: len(data) for name, data in log_directory.logs().items()}
    first = batches_of(log_directory.file(base))[0]

    with log_directory.open() as log:
        expected = sum(size for name, size in sizes.items() if int(name[:20]) >= base) - first.size
        assert log.report.rewritten_bytes == expected
        assert log.recovery_point == log.durable_offset == base + 1
        assert values_of(log) == expected_values(0, RECORDS_COUNT)
        log.flush()
        assert log.recovery_point == log.durable_offset == RECORDS_COUNT
        assert values_of(log) == expected_values(0, RECORDS_COUNT)


def test_the_scan_begins_at_the_segment_of_the_recovery_point(log_directory):
    """[DUR-51, LDR-20, LDR-23] And only its indexes and later ones are rebuilt [DUR-52]."""
    base = log_directory.bases[2]
    log_directory.set_recovery_point(base + 3)

    with log_directory.open() as log:
        scanned = sum(
            len(data) for name, data in log_directory.logs().items() if int(name[:20]) >= base
        )
        assert log.report.scanned_bytes == scanned
        assert {int(name[:20]) for name in log.report.rebuilt} == set(log_directory.bases[2:])
        assert log.report.recovery_point == base + 3


def test_progress_is_told_while_a_log_is_recovered(log_directory):
    """[LDR-32] Bytes checked of bytes to check, at the end all of them."""
    seen = []

    log_directory.open(progress=lambda *told: seen.append(told)).close()

    total = sum(map(len, log_directory.logs().values()))
    assert [phase for phase, _, _ in seen] == ["recover"] * len(log_directory.bases)
    assert seen[-1] == ("recover", total, total)
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)


# ---- the small pieces ----------------------------------------------------------------------------


class Base:
    def __init__(self, base_offset):
        self.base_offset = base_offset


@pytest.mark.parametrize(
    ("offset", "index"), [(-1, 0), (0, 0), (4, 0), (5, 1), (9, 1), (10, 2), (2**63 - 1, 2)]
)
def test_the_floor_segment_of_an_offset(offset, index):
    """[LDR-23]"""
    assert floor_index([Base(0), Base(5), Base(10)], offset) == index


def test_epochs_change_where_they_rise(tmp_path):
    """[SEG-40] Lower ones and none do not count."""
    with segstore.open(tmp_path / "orders-0", durability="none") as log:
        for epoch in (0, 0, 2, 2, 5):
            encoded = _core.encode_records(
                [(None, b"v")], _core.BatchOptions(), codec_table(), 0, 1000
            )
            log.append_as_leader(encoded, epoch)
        headers, _ = log.segments()[0].scan()

        assert epoch_changes(BatchTable(headers)) == [(0, 0), (2, 2), (5, 4)]
        assert epoch_changes(BatchTable(headers), 2) == [(5, 4)]
        assert epoch_changes(BatchTable(headers[:0])) == []
