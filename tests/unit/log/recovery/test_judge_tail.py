"""What ends a log: a torn tail, or damage to what had been synced [DUR-51, DUR-54, DUR-63]."""

from __future__ import annotations

import pytest

from segstore._core import Directory
from segstore.errors import CorruptLogError, CorruptRecordError
from segstore.log.recovery.refusals import damage, missing_between
from segstore.log.recovery.survey import is_zero
from tests.kits.damaged_logs import (
    RECORDS_COUNT,
    LogDirectory,
    append_bytes,
    batches_of,
    cut,
    flip_bit,
    open_twice,
    refused,
)
from tests.kits.log_kit import batch

LAST = RECORDS_COUNT - 1
SECTOR_BYTES = 512
FAR = 0x0102030405060708


class Piece:
    """A segment in an error message."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.base_offset = 3


# ---- at and above the recovery point -------------------------------------------------------------


@pytest.mark.parametrize("synced", [LAST - 1, LAST])
def test_what_is_torn_at_the_recovery_point_is_a_tail(log_directory, synced):
    """[DUR-51] Everything below it is there."""
    log_directory.set_recovery_point(synced)
    cut(log_directory.last, log_directory.last.stat().st_size - 1)

    assert open_twice(log_directory, LAST).truncated_from_offset == LAST


def test_what_is_torn_below_the_recovery_point_is_damage(log_directory):
    """[DUR-51, DUR-105] How much of the batch there is, and where, is told."""
    log_directory.set_recovery_point(RECORDS_COUNT)
    last = batches_of(log_directory.last)[-1]
    cut(log_directory.last, last.end - 1)

    refused(log_directory, f"an incomplete batch; records from {LAST} to {LAST} had been synced")
    with pytest.raises(CorruptLogError) as caught:
        log_directory.open()
    assert caught.value.position == last.position
    assert caught.value.found == f"{last.size - 1} bytes up to the end of the file"
    assert caught.value.file == str(log_directory.last)


@pytest.mark.parametrize("synced", [LAST, RECORDS_COUNT])
def test_a_batch_that_jumped_ahead_counts_as_the_bad_one(log_directory, synced):
    """[DUR-50, DUR-51] Good batches behind it seem to go back: what was synced ends before it."""
    bad = batches_of(log_directory.last)[-2]
    log_directory.set_recovery_point(synced)
    with log_directory.last.open("r+b") as file:
        file.seek(bad.position)
        file.write((bad.base_offset + 2**20).to_bytes(8))
    (log_directory.path / ".segstore").unlink()

    last = synced - 1
    refused(log_directory, f"records from {bad.base_offset} to {last} had been synced")


# ---- without a recovery point --------------------------------------------------------------------


def repeated(directory, number, *, changed=None):
    """Put a batch of the last segment behind its end, once more, with another bit perhaps."""
    found = batches_of(directory.last)[number]
    end = directory.last.stat().st_size
    append_bytes(directory.last, directory.last.read_bytes()[found.position : found.end])
    if changed is not None:
        flip_bit(directory.last, end + changed)
    directory.set_recovery_point(None)
    return found


@pytest.mark.parametrize("number", [0, 1, -1])
def test_a_copy_of_any_batch_before_is_a_tail(log_directory, number):
    """[DUR-63] Byte for byte; what is behind it does not matter."""
    found = repeated(log_directory, number)
    append_bytes(log_directory.last, b"\x07garbage")

    assert open_twice(log_directory, RECORDS_COUNT).truncated_bytes == found.size + 8


def test_what_is_a_copy_but_for_a_field_that_no_checksum_covers_is_damage(log_directory):
    """[DUR-63] A batch of another leader epoch was meant to be there."""
    repeated(log_directory, 0, changed=15)

    refused(log_directory, "there is no recovery point")


def test_a_copy_with_a_wrong_checksum_is_a_tail(log_directory):
    """[DUR-63] Broken bytes may be anything."""
    found = repeated(log_directory, 0, changed=batches_of(log_directory.last)[0].size - 1)

    assert open_twice(log_directory, RECORDS_COUNT).truncated_bytes == found.size


def filler(position, before_sector):
    """A value with which a batch at *position* ends so many bytes before a sector."""
    for count in range(2 * SECTOR_BYTES):
        if -(position + len(batch([(None, bytes(count))]))) % SECTOR_BYTES == before_sector:
            return bytes(count)
    pytest.fail("no length fits")


@pytest.mark.parametrize(
    ("lost_bytes", "is_tail"), [(0, False), (1, True), (5, True), (8, True), (9, False)]
)
def test_a_batch_whose_first_bytes_went_with_their_sector_is_a_tail(tmp_path, lost_bytes, is_tail):
    """[DUR-50, DUR-63] Of its base offset, which no checksum covers, the first bytes are zero."""
    directory = LogDirectory(tmp_path / "orders-0")
    with directory.open(internal_segment_bytes=10_000, durability="none") as log:
        log.truncate_fully_and_start_at(FAR)
        log.append([(None, filler(0, lost_bytes))])
        log.append([(None, b"the torn one")])
        log.close_quietly()
    torn = batches_of(directory.last)[-1]
    assert torn.position % SECTOR_BYTES == -lost_bytes % SECTOR_BYTES
    lost = lost_bytes or 8
    with directory.last.open("r+b") as file:
        file.seek(torn.position)
        file.write((bytes(lost) + torn.base_offset.to_bytes(8)[lost:])[:8])
    directory.set_recovery_point(None)

    if is_tail:
        with directory.open() as log:
            assert (log.log_end_offset, log.report.truncated_bytes) == (FAR + 1, torn.size)
    else:
        refused(directory, "there is no recovery point")


# ---- the words -----------------------------------------------------------------------------------


def test_the_place_of_an_error_is_named_once():
    """[DUR-105] In the file that the damage is in, the message is the error's own."""
    here, there = Piece("/d/3.log"), Piece("/d/9.log")
    why = CorruptRecordError("bad CRC", position=7, found="1", expected="2")
    for file, is_here in ((None, True), (here.path, True), (there.path, False)):
        why.file = file
        error = damage("/d", here, "what is wrong", why)
        assert error.file == here.path
        assert (error.position, error.found, error.expected) == (
            (7, "1", "2") if is_here else (None, None, None)
        )
        said = why.message if is_here else str(why)
        assert error.message.startswith(f"{said}; what is wrong. No record was changed; ")
        assert (there.path in error.message) != is_here


def test_without_another_error_the_damage_is_named_alone():
    """[DUR-105]"""
    error = damage("/d", Piece("/d/3.log"), "what is wrong")

    assert error.message.startswith("what is wrong. No record was changed; ")
    assert (error.position, error.found, error.expected) == (None, None, None)


def test_a_gap_is_named_by_what_is_missing():
    """[DUR-54] Up to the base offset of the segment behind it."""
    error = missing_between("/d", Piece("/d/3.log"), 1)

    assert error.message.startswith("records 1 to 2 are missing before it")
    assert (error.found, error.expected) == ("base offset 3", "base offset 1")


def test_zeros_are_looked_for_up_to_the_end(tmp_path):
    """[DUR-1] Of a preallocated file more than is read at a time, too."""
    file = tmp_path / f"{3:020d}.log"
    large = 3 * 1024 * 1024
    for content, is_all_zero in (
        (b"", True),
        (bytes(large), True),
        (bytes(large) + b"x", False),
        (bytes(7) + b"x" + bytes(large), False),
    ):
        file.write_bytes(b"batch" + content)
        assert is_zero(Directory(str(tmp_path)), file.name, 5) is is_all_zero
