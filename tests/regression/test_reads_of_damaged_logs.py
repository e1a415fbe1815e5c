"""Reads of damaged logs: no good record is hidden, and no false one is shown."""

from __future__ import annotations

import itertools
import json
import random
import re
import shutil
import struct
import uuid
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import segstore
from segstore import MemoryRecords, cli
from segstore._core import RecordsBuilder, check_batch, crc32c
from segstore.errors import (
    CorruptLogError,
    CorruptRecordError,
    IllegalArgumentError,
    InvalidRecordError,
    LogTruncatedError,
    OffsetOutOfRangeError,
    SegstoreError,
)
from segstore.log import chunk_reader
from segstore.log.check.partition_check import check_partition
from segstore.log.files.checkpoints import CLEAN_SHUTDOWN_MARKER
from segstore.log.findings.finding import Action, Records
from segstore.log.local.segment import Segment
from segstore.records.compression import codec_table
from tests.kits.cli_process import run_segstore
from tests.kits.damaged_logs import (
    RECORDS_COUNT,
    SETTINGS,
    TIME,
    LogDirectory,
    append_bytes,
    batches_of,
    build,
    cut,
    expected_values,
    flip_bit,
    values_of,
)
from tests.kits.log_kit import at, batch, offsets
from tests.kits.preloaded_library import compiled
from tests.kits.warm_commands import warm_commands
from tests.tidy.project_files import ROOT
from tests.unit.log.test_committed_view import PLAIN, data, forget_producers, marker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from segstore import UnifiedLog


# ---- base offset in a sealed segment -------------------------------------------------------------
# One flipped bit in the base offset of a segment's last batch: reads went on in a later segment.
#
# No CRC covers a base offset, and a clean open reads no batch; the next segment's name tells.


RECORDS_OF_TWO_SEGMENTS = 40


@pytest.fixture(params=["owned", "broker"])
def flipped_in_a_sealed_segment(request, tmp_path):
    """Flip one bit of the base offset of offset 11, the last of its segment: bit by bit."""
    path = tmp_path / "orders-0"
    with segstore.open(path, internal_segment_bytes=1000) as log:
        for number in range(RECORDS_OF_TWO_SEGMENTS):
            log.append([(1000 + number, b"k", b"%03d" % number * 30)])
        bases = [segment.base_offset for segment in log.segments()]
    if request.param == "broker":
        (path / ".segstore").unlink()
    end = bases[2]
    file = path / f"{bases[1]:020d}.log"
    whole = file.read_bytes()
    position = len(whole) // (end - bases[1]) * (end - bases[1] - 1)
    return path, file, whole, position, end


READS_TO_THE_END = {
    "scan": lambda log, end: [record.offset for record in log.scan(end - 3)],
    "short scan": lambda log, end: [record.offset for record in log.scan(end - 3, end)],
    "read": lambda log, end: [record.offset for record in log.read(end - 1, 100_000)],
    "slice": lambda log, end: log.slice(end - 1, 100_000).size_bytes,
    "committed": lambda log, end: list(log.read(end - 1, 100_000, "read_committed")),
    "arrow": lambda log, end: log.to_arrow(end - 3),
    "timestamp": lambda log, end: log.offset_for_timestamp(1000 + end - 1),
}


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("way", READS_TO_THE_END)
def test_no_read_steps_over_it(flipped_in_a_sealed_segment, way, read_only):
    """[DUR-7, DUR-54, DUR-79] Flips that raise the offset; those that lower it were noticed."""
    if way == "arrow":
        pytest.importorskip("pyarrow")
    path, file, whole, position, end = flipped_in_a_sealed_segment
    for bit in range(0, 64, 5):
        data = bytearray(whole)
        data[position + bit // 8] ^= 1 << bit % 8
        offset = int.from_bytes(data[position : position + 8], "big", signed=True)
        if offset < end:
            continue
        copy = path.with_name(f"orders-{bit + 1}")
        shutil.copytree(path, copy)
        (copy / file.name).write_bytes(data)
        with segstore.open(copy, read_only=read_only) as log, pytest.raises(CorruptLogError):
            READS_TO_THE_END[way](log, end)


def test_what_lies_before_it_is_read(flipped_in_a_sealed_segment):
    """A fetch ends before the batch, the next one is refused: a consumer skips nothing."""
    path, file, whole, position, end = flipped_in_a_sealed_segment
    data = bytearray(whole)
    data[position + 7] ^= 0x10
    file.write_bytes(data)

    with segstore.open(path, read_only=True) as log:
        fetched = log.read(end - 3, 100_000)
        assert [record.offset for record in fetched] == [end - 3, end - 2]
        with pytest.raises(CorruptLogError, match="next segment"):
            log.read(end - 1, 100_000)
        assert [record.offset for record in log.scan(end)] == list(
            range(end, RECORDS_OF_TWO_SEGMENTS)
        )


# ---- flipped base offset -------------------------------------------------------------------------
# A flipped bit in a base offset was a measure: a log that "ended" at offset 4611686018427387913.
#
# No CRC covers the first eight bytes of a batch. What they say is no offset that was lost [DUR-50].


FLIPS = [(0, 0x80), (0, 0x40), (1, 0x01), (4, 0x01)]


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """Records 0 to 9 in segments 0, 3, 6, 9."""
    path = tmp_path_factory.mktemp("flips") / "a-0"
    with segstore.open(path) as log:
        for number in range(10):
            log.append([(b"k", b"%d" % number)])
            if number % 3 == 2:
                log.roll()
    return path


@pytest.fixture(params=["closed", "unclean"])
def flipped_log(request, original, tmp_path):
    path = tmp_path / "a-0"
    shutil.copytree(original, path)
    if request.param == "unclean":
        (path / ".kafka_cleanshutdown").unlink()
    return path


def _flip(path, base, byte, mask) -> None:
    file = path / f"{base:020d}.log"
    content = bytearray(file.read_bytes())
    content[byte] ^= mask
    file.write_bytes(content)


@pytest.mark.parametrize(("byte", "mask"), FLIPS)
@pytest.mark.parametrize("base", [0, 3, 9])
def test_the_finding_names_what_cannot_be_read(flipped_log, base, byte, mask):
    """[DUR-7] The batches behind it are whole, and say what its base offset should be."""
    _flip(flipped_log, base, byte, mask)
    check = check_partition(str(flipped_log))
    (finding,) = [one for one in check.findings if one.file == f"{base:020d}.log"]
    assert finding.records == Records.UNREADABLE
    assert finding.lost == ((base, base),)
    assert finding.first_offset == base
    assert check.log_end_offset <= 10


@pytest.mark.parametrize(("byte", "mask"), FLIPS)
@pytest.mark.parametrize("base", [0, 3, 6, 9])
def test_a_reader_does_not_end_there(flipped_log, base, byte, mask):
    """[DUR-51] The batches before it say what its base offset should be."""
    _flip(flipped_log, base, byte, mask)
    with segstore.open(flipped_log, read_only=True) as log:
        assert log.log_end_offset == (9 if base == 9 else 10)
        assert not log.verify().ok


# ---- flipped base offset between batches ---------------------------------------------------------
# A flipped bit in a batch's base offset, which no CRC covers, showed its records at other offsets.
#
# Only a batch whose first offset lay in the next segment was refused. [DUR-7, DUR-54, DUR-79]


BATCHES_OF_A_SEGMENT, RECORDS_A_BATCH = 5, 5


@pytest.fixture
def contiguous_log(tmp_path):
    """A log of contiguous batches in two segments."""
    path = tmp_path / "orders-0"
    with segstore.open(path, segment_ms=None, durability="none") as log:
        for number in range(BATCHES_OF_A_SEGMENT):
            log.append([(None, b"%d.%d" % (number, row)) for row in range(RECORDS_A_BATCH)])
            if number == 2:
                log.roll()
    return path


def move(path, batch: int, base_offset: int) -> None:
    file = path / f"{0:020d}.log"
    data = bytearray(file.read_bytes())
    position = batch * len(data) // 3
    data[position : position + 8] = base_offset.to_bytes(8, "big")
    file.write_bytes(data)


def values_by_reads(log, **how) -> list[tuple[int, bytes]]:
    found, offset = [], 0
    while offset < log.log_end_offset:
        records = list(log.read(offset, 1 << 20, **how))
        found += [(record.offset, bytes(record.value)) for record in records]
        offset = records[-1].offset + 1
    return found


@pytest.mark.parametrize(
    ("batch", "base_offset"), [(2, 14), (2, 11), (1, 6), (1, 3), (1, 9), (0, 1)]
)
@pytest.mark.parametrize("how", [{}, {"isolation": "read_committed"}], ids=["plain", "committed"])
def test_no_read_shows_records_at_other_offsets(contiguous_log, batch, base_offset, how):
    move(contiguous_log, batch, base_offset)
    with segstore.open(contiguous_log, read_only=True) as log, pytest.raises(CorruptLogError):
        values_by_reads(log, **how)


@pytest.mark.parametrize(("batch", "base_offset"), [(2, 14), (1, 6), (1, 3)])
def test_no_table_and_no_slice_does(contiguous_log, batch, base_offset):
    move(contiguous_log, batch, base_offset)
    with segstore.open(contiguous_log, read_only=True) as log:
        with pytest.raises(CorruptLogError):
            log.read(0, 1 << 20).to_arrow()
        with pytest.raises(CorruptLogError):
            list(log.slice(0, 1 << 20).read())


def first_values(scan: segstore.LogScan) -> Iterator[tuple[int, bytes]]:
    return ((record.offset, bytes(record.value)) for record in scan)


def first_offsets(scan: segstore.LogScan) -> Iterator[tuple[int, None]]:
    for _, rows in scan.headers():
        for row in rows:
            yield from ((one, None) for one in range(row["base_offset"], row["last_offset"] + 1))


@pytest.mark.parametrize("is_owned", [True, False])
@pytest.mark.parametrize("read", [first_values, first_offsets])
def test_a_way_on_leads_to_no_batch_that_begins_in_the_one_before(contiguous_log, is_owned, read):
    """[DUR-50, DUR-79] A scan from the good one of two that overlap handed out the other too."""
    if not is_owned:
        (contiguous_log / ".segstore").unlink()
    move(contiguous_log, 1, RECORDS_A_BATCH - 1)
    found, offset = [], 0
    with segstore.open(contiguous_log, read_only=True) as log:
        while offset is not None:
            try:
                found.extend(read(log.scan(offset)))
                offset = None
            except CorruptLogError as error:
                offset = error.next_readable_offset

    assert [one for one, _ in found] == [one for one in range(25) if not 5 <= one < 10]
    assert all(value in {None, b"%d.%d" % divmod(one, RECORDS_A_BATCH)} for one, value in found)


def test_a_gap_that_was_written_is_none(tmp_path):
    """A follower takes gaps over; what was read outlives its log."""
    leader, path = tmp_path / "leader-0", tmp_path / "follower-0"
    with segstore.open(leader) as log:
        for row in range(4):
            log.append([(None, b"%d" % row)])
        batches = [bytes(log.read(offset, 1).records) for offset in range(4)]
    with segstore.open(path) as log:
        for row in (0, 1, 3):
            log.append_as_follower(batches[row], 0)
        fetched = log.read(0, 1 << 20)
        assert [record.offset for record in fetched] == [0, 1, 3]
        assert [record.offset for record in log.read(2, 1 << 20)] == [3]
        later = log.read(0, 1 << 20)
    assert [record.offset for record in later] == [0, 1, 3]


@pytest.mark.parametrize(("position", "value"), [(8, b"\0\0\0\3"), (16, b"\x09")])
def test_what_lies_before_a_header_that_is_none_is_shown(contiguous_log, position, value):
    """The look at the order must not tell of it before the reader comes there."""
    file = contiguous_log / f"{0:020d}.log"
    data = bytearray(file.read_bytes())
    position += len(data) // 3 * 2
    data[position : position + len(value)] = value
    file.write_bytes(data)
    shown = []
    with segstore.open(contiguous_log, read_only=True) as log:
        records = (record.offset for record in log.read(0, 1 << 20))
        with pytest.raises(CorruptRecordError):
            shown.extend(records)
    assert shown == list(range(2 * RECORDS_A_BATCH))


def shown_before_the_error(fetched):
    shown = []
    records = iter(fetched)
    with pytest.raises(CorruptLogError) as caught:
        shown.extend((record.offset, bytes(record.value)) for record in records)
    assert caught.value.file.endswith(f"{0:020d}.log")
    return shown


def written_between(start, end):
    return [
        (offset, b"%d.%d" % (offset // RECORDS_A_BATCH, offset % RECORDS_A_BATCH))
        for offset in range(start, end)
    ]


@pytest.mark.parametrize(
    ("batch", "base_offset", "start", "end"),
    [
        (2, 14, 0, 10),  # up: there is a gap
        (2, 8, 0, 10),  # down: into the batch before, which follows another one
        (2, 14, 5, 10),  # the first batch is the one that was asked for
        (1, 6, 0, 5),
        (1, 3, 0, 0),  # one of the first two reaches into the other: nobody knows which
        (2, 14, 7, 7),
    ],
)
def test_what_lies_before_a_batch_at_another_offset_is_shown(
    contiguous_log, batch, base_offset, start, end
):
    """[DUR-79] It raised before the first record; no record is shown at another offset."""
    move(contiguous_log, batch, base_offset)
    with segstore.open(contiguous_log, read_only=True) as log:
        for fetched in (log.read(start, 1 << 20), log.slice(start, 1 << 20)):
            assert shown_before_the_error(fetched) == written_between(start, end)


def test_a_stream_of_tables_shows_it_too(contiguous_log):
    """[DUR-79] Batch by batch, as they are asked for."""
    pyarrow = pytest.importorskip("pyarrow")
    move(contiguous_log, 2, 14)
    with segstore.open(contiguous_log, read_only=True) as log:
        reader = pyarrow.RecordBatchReader.from_stream(log.read(0, 1 << 20))
        assert reader.read_next_batch()["offset"].to_pylist() == list(range(10))
        with pytest.raises(pyarrow.ArrowInvalid, match="not what was written"):
            reader.read_next_batch()


# ---- flipped bits and reads ----------------------------------------------------------------------
# One flipped bit of a batch's last offset took the batch out of every read by rows, silently.
#
# The sign of ``lastOffsetDelta``: it said that it ends before it begins, and so before the range
# that was asked for, and what lies outside is left out before its checksum is looked at. Found by a
# new user; `segstore verify` told it, an iteration did not.


RECORDS_OF_FIVE_BATCHES, EACH, END_OF_THE_RANGE = 20, 4, 17
HEADER_BYTES = 61


def read_on(log: UnifiedLog, start: int) -> list[int]:
    """As a consumer: the batches of a fetch, and what is behind them."""
    offsets: list[int] = []
    while start < END_OF_THE_RANGE:
        records = [record.offset for record in MemoryRecords(log.read(start, 150).records)]
        offsets += [offset for offset in records if start <= offset < END_OF_THE_RANGE]
        if not records:
            break
        start = records[-1] + 1
    return offsets


DOORS: dict[str, Callable[[UnifiedLog, int], list[int]]] = {
    "iteration": lambda log, start: [record.offset for record in log.scan(start, END_OF_THE_RANGE)],
    "tuples": lambda log, start: [row[0] for row in log.scan(start, END_OF_THE_RANGE).tuples()],
    "arrow": lambda log, start: log.scan(start, END_OF_THE_RANGE).to_arrow()["offset"].to_pylist(),
    "batches": lambda log, start: [
        record.offset
        for one in log.scan(start, END_OF_THE_RANGE).batches()
        for record in one
        if start <= record.offset < END_OF_THE_RANGE
    ],
    "fetches": read_on,
}


@pytest.fixture(params=["sealed", "active"])
def file_of_five_batches(request, tmp_path: Path) -> Path:
    """Five batches of four records each; of one segment, closed cleanly."""
    path = tmp_path / "o-0"
    with segstore.open(path) as log:
        for _ in range(RECORDS_OF_FIVE_BATCHES // EACH):
            log.append(MemoryRecords.with_records([(None, b"value")] * EACH))
        if request.param == "sealed":
            log.roll()
            log.append([(None, b"behind it")])
    return path / f"{0:020d}.log"


READS_IN_TURN = list(itertools.product(DOORS, (0, 1, 4, 6, 8)))


@pytest.mark.parametrize("number", [0, 1, 2])
def test_what_is_read_is_all_or_an_error(file_of_five_batches: Path, number: int, one_in):
    """[DUR-7, DUR-50, DUR-79] Whichever bit of a header flips, no record is left out silently.

    An open that finds that records are missing at the end tells it itself. Each bit has one open,
    and begins with another read.
    """
    written = file_of_five_batches.read_bytes()
    size = len(batch([(None, b"value")] * EACH))
    silent = []
    flips = [*enumerate(itertools.product(range(HEADER_BYTES), range(8)))]
    for flip, (byte, bit) in flips[number % one_in(71) :: one_in(71)]:
        data = bytearray(written)
        data[number * size + byte] ^= 1 << bit
        file_of_five_batches.write_bytes(data)
        first = flip % len(READS_IN_TURN)
        with (
            suppress(SegstoreError),
            segstore.open(file_of_five_batches.parent, read_only=True) as log,
        ):
            for door, start in READS_IN_TURN[first:] + READS_IN_TURN[:first]:
                found = None
                with suppress(SegstoreError):
                    found = DOORS[door](log, start)
                if (
                    found not in (None, list(range(start, END_OF_THE_RANGE)))
                    and log.report.damage is None
                ):
                    silent.append((door, byte, bit, start, found))

    assert silent == []


# ---- a length that leads to a batch beyond the end -----------------------------------------------
# Reads from behind a damaged batch ended in silence, or went on in the next segment.
#
# The damaged length led to bytes that look like a batch of a far offset: the look-up took it for
# the first batch of the range, and the range ends before it. Found by tests/fuzz/test_doors_agree.


@pytest.mark.parametrize("is_last", [False, True])
def test_a_length_that_leads_beyond_the_end_hides_no_batch(tmp_path, *, is_last):
    """[DUR-51, DUR-79] Reading on where each error says gives what a scan around damage gives."""
    directory = build(tmp_path / "orders-0", clean=True)
    (directory.path / ".segstore").unlink()
    (directory.path / CLEAN_SHUTDOWN_MARKER).unlink()
    (tmp_path / CLEAN_SHUTDOWN_MARKER).write_bytes(b'{"version":0,"brokerEpoch":-1}')
    path = directory.last if is_last else directory.file(directory.bases[0])
    data = bytearray(path.read_bytes())
    first, hidden, broken, *_ = batches_of(path)[2:]
    place = broken.position + 70
    data[first.position + 8 : first.position + 12] = struct.pack(">i", place - first.position - 12)
    data[place : place + 17] = struct.pack(">qiib", 2**60, 40, 0, 0)  # an old message, cut short
    path.write_bytes(data)
    lost = {first.base_offset, broken.base_offset}
    good = [one for one in range(RECORDS_COUNT) if one not in lost]

    with segstore.open(directory.path, read_only=True) as log:
        assert [one.offset for one in log.scan(on_damage="skip")] == good
        for start in (hidden.base_offset, hidden.base_offset - 1, broken.base_offset + 1):
            assert read_on(log, start) == [one for one in good if one >= start]
        (record,) = log.scan(hidden.base_offset, hidden.base_offset + 1)
        assert record.offset == hidden.base_offset


def read_on(log: segstore.Log, start: int) -> list[int]:
    """Return the offsets from *start* on, read on after each error where it says."""
    found: list[int] = []
    offset: int | None = start
    while offset is not None:
        try:
            found.extend(one.offset for one in log.scan(offset))
            offset = None
        except SegstoreError as error:
            offset = error.next_readable_offset
    return found


# ---- offsets that go back behind a chunk ---------------------------------------------------------
# A record was handed out at a false offset: its batch was the last one of the chunk that was read.
#
# The next chunk began below it. So many good batches were said to be no batches, and not the one
# that lies: offsets were compared within a chunk only. Or the range ended below the false offset,
# and the records of the batch, and all behind it, were left out in silence.


SIZE = len(at(0, 3))
BATCHES_OF_A_CHUNK = 6
END_OF_THE_CHUNKS = 3 * BATCHES_OF_A_CHUNK
LAST_OF_CHUNK = 2
BORDER = (LAST_OF_CHUNK + 1) * SIZE
LARGE, SMALL = BORDER + 40, BORDER
"""Of a chunk: the base offset of the next batch is in what was read, or is not."""
CHUNKS = [SMALL, BORDER + 7, BORDER + 8, LARGE, BORDER + SIZE - 1]


@pytest.fixture
def sealed_file(new_log, tmp_path) -> Path:
    """A sealed segment of batches of three, in a log that may have gaps, as a broker leaves it."""
    with new_log() as log:
        for base in range(0, END_OF_THE_CHUNKS, 3):
            log.append_as_follower(at(base, 3), 0)
        log.roll()
        log.append_as_follower(at(END_OF_THE_CHUNKS, 3), 0)
    (tmp_path / "topic-0" / ".segstore").unlink()
    return tmp_path / "topic-0" / f"{0:020d}.log"


def name(file: Path, batch: int, base_offset: int) -> None:
    """Let *batch* say that it begins at *base_offset*; no CRC covers that."""
    content = bytearray(file.read_bytes())
    content[batch * SIZE : batch * SIZE + 8] = struct.pack(">q", base_offset)
    file.write_bytes(content)


def read(log, monkeypatch, chunk_bytes: int, *bounds: int) -> tuple[list[int], CorruptLogError]:
    monkeypatch.setattr(chunk_reader, "CHUNK_BYTES", chunk_bytes)
    seen: list[int] = []
    with pytest.raises(CorruptLogError) as told:
        seen.extend(record.offset for record in log.scan(*bounds))
    with pytest.raises(CorruptLogError, match=r"do not ascend"):
        log.scan(*bounds).to_arrow()
    return seen, told.value


@pytest.mark.parametrize("chunk_bytes", CHUNKS)
@pytest.mark.parametrize(
    ("batch", "named", "found"),
    [
        (LAST_OF_CHUNK, 10, "offsets 10 to 12, and then 9"),
        (LAST_OF_CHUNK, 9, "offsets 9 to 11, and then 9"),
        (LAST_OF_CHUNK, 1_000_000, "offsets 1000000 to 1000002, and then 9"),
        (LAST_OF_CHUNK + 1, 1, "offsets 6 to 8, and then 1"),
        (LAST_OF_CHUNK + 1, 8, "offsets 6 to 8, and then 8"),
    ],
)
def test_neither_of_the_two_is_handed_out(  # noqa: PLR0913 - what is changed, and how it is read
    new_log, monkeypatch, sealed_file, chunk_bytes, batch, named, found
):
    """[DUR-50, DUR-79] And the error names them, file and position."""
    name(sealed_file, batch, named)
    seen, error = read(new_log(read_only=True), monkeypatch, chunk_bytes, 0, END_OF_THE_CHUNKS)

    assert seen == [0, 1, 2, 3, 4, 5]
    assert (error.file, error.position) == (str(sealed_file), LAST_OF_CHUNK * SIZE)
    assert (error.found, error.expected) == (found, "offsets that ascend")


@pytest.mark.parametrize("chunk_bytes", [1, SIZE, SIZE + 20])
def test_a_chunk_of_one_batch(new_log, monkeypatch, sealed_file, chunk_bytes):
    """[DUR-79]"""
    name(sealed_file, LAST_OF_CHUNK, 11)
    seen, error = read(new_log(read_only=True), monkeypatch, chunk_bytes)

    assert seen == [0, 1, 2, 3, 4, 5]
    assert error.position == LAST_OF_CHUNK * SIZE


@pytest.mark.parametrize("chunk_bytes", CHUNKS)
def test_a_range_that_ends_below_the_false_offset(new_log, monkeypatch, sealed_file, chunk_bytes):
    """[DUR-79] Records 6 to 8 are in the range, and are not there."""
    name(sealed_file, LAST_OF_CHUNK, 13)
    log = new_log(read_only=True)

    assert read(log, monkeypatch, chunk_bytes, 0, 12)[0] == [0, 1, 2, 3, 4, 5]
    assert offsets(log.scan(0, 6)) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("chunk_bytes", CHUNKS)
def test_a_gap_is_legal(new_log, monkeypatch, sealed_file, chunk_bytes):
    """[DUR-79] A broker compacted the log: 9 to 14 are gone."""
    content = sealed_file.read_bytes()
    sealed_file.write_bytes(content[:BORDER] + content[BORDER + 2 * SIZE :])
    monkeypatch.setattr(chunk_reader, "CHUNK_BYTES", chunk_bytes)

    assert offsets(new_log(read_only=True).scan()) == [*range(9), *range(15, 21)]


@pytest.mark.parametrize("chunk_bytes", CHUNKS)
@pytest.mark.parametrize("damage", [b"\0" * 30, b"\xff" * 30], ids=["zeros", "ones"])
def test_bytes_that_are_no_batch_say_nothing_of_the_one_before(
    new_log, monkeypatch, sealed_file, chunk_bytes, damage
):
    """[DUR-50, DUR-79] It is handed out, and they are named."""
    monkeypatch.setattr(chunk_reader, "CHUNK_BYTES", chunk_bytes)
    with sealed_file.open("r+b") as opened:
        opened.seek(BORDER)
        opened.write(damage)
    log = new_log(read_only=True)
    seen: list[int] = []
    with pytest.raises((CorruptLogError, CorruptRecordError)) as told:
        seen.extend(record.offset for record in log.scan())

    assert seen == [*range(9)]
    assert (told.value.file, told.value.position) == (str(sealed_file), BORDER)


def test_the_end_of_a_live_log(new_log, monkeypatch):
    """[DUR-76, CON-5] What is written behind the range as it was says nothing of it."""
    log = new_log()
    for base in range(0, 9, 3):
        log.append_as_follower(at(base, 3), 0)
    monkeypatch.setattr(chunk_reader, "CHUNK_BYTES", LARGE)
    scan = log.scan()
    log.append_as_follower(at(9, 3), 0)
    name(Path(log.path, f"{0:020d}.log"), LAST_OF_CHUNK + 1, 0)

    assert offsets(scan) == [*range(9)]


@pytest.mark.usefixtures("sealed_file")
@pytest.mark.parametrize(("chunk_bytes", "reads"), [(SMALL, 4), (LARGE, 3)])
def test_what_was_read_is_not_read_again(new_log, monkeypatch, chunk_bytes, reads):
    """Two chunks, and the next segment; a header where the first one ends with its last batch."""
    asked = []

    def counted(segment: Segment, *arguments: object, **options: object) -> object:
        asked.append(arguments)
        return original(segment, *arguments, **options)

    original = Segment.read
    monkeypatch.setattr(Segment, "read", counted)
    monkeypatch.setattr(chunk_reader, "CHUNK_BYTES", chunk_bytes)

    assert offsets(new_log(read_only=True).scan()) == [*range(21)]
    assert len(asked) == reads


# ---- records before offsets that go back ---------------------------------------------------------
# Good records before a batch whose offsets are wrong were not handed out, and byte 0 was named.
#
# The length of a batch in offsets, or its base offset, had one flipped bit: what it reaches over
# shows that. The whole piece that had been read was refused.


BASE_OFFSET, LAST_OFFSET_DELTA = 6, 25


@pytest.fixture(params=[BASE_OFFSET, LAST_OFFSET_DELTA], ids=["base offset", "last offset delta"])
def log(request, new_log, tmp_path):
    """Batches of three records; the third of a sealed segment seems to be 256 offsets on."""
    log = new_log()
    for base in range(0, 15, 3):
        log.append_as_follower(at(base, 3), 0)
    log.roll()
    log.append_as_follower(at(15, 3), 0)
    log.close()
    file = tmp_path / "topic-0" / f"{0:020d}.log"
    content = bytearray(file.read_bytes())
    content[2 * SIZE + request.param] ^= 1
    file.write_bytes(content)
    return new_log(read_only=True)


def test_what_comes_before_is_handed_out(log):
    """[DUR-50, DUR-79] And the error names the batch."""
    seen = []
    with pytest.raises(CorruptLogError) as told:
        seen.extend(record.offset for record in log.scan())

    assert seen == [0, 1, 2, 3, 4, 5]
    assert told.value.position == 2 * SIZE


def test_a_range_that_ends_before_it(log):
    """[DUR-79]"""
    assert offsets(log.scan(0, 6)) == [*range(6)]
    assert offsets(log.scan(3, 5)) == [3, 4]
    assert offsets(log.scan(15, 18)) == [15, 16, 17]


@pytest.mark.parametrize("start", [0, 4])
def test_a_read_from_before_it(log, start):
    """[DUR-79]"""
    assert offsets(islice(log.read(start), 2)) == [start, start + 1]


# ---- reads past damage ---------------------------------------------------------------------------
# Reading on behind damage: an error named no way on, and whole batches behind zeros were refused.
#
# Case 36: a page of zeros in a sealed segment, behind a clean stop.


ABORTED = 11
COMMITTED = 12


@pytest.fixture
def directory(tmp_path: Path) -> LogDirectory:
    """Sixty batches of a record each in some segments; closed."""
    return build(tmp_path / "topic-0", clean=True)


def zero_batches(directory: LogDirectory, base: int, first: int, count: int) -> list[int]:
    """Overwrite so many batches of a segment with zeros; returns their offsets."""
    path = directory.file(base)
    gone = batches_of(path)[first : first + count]
    with path.open("r+b") as file:
        file.seek(gone[0].position)
        file.write(b"\0" * (gone[-1].end - gone[0].position))
    return [one.base_offset for one in gone]


def without(gone: list[int]) -> list[tuple[int, bytes]]:
    return [one for one in expected_values(0, RECORDS_COUNT) if one[0] not in gone]


@pytest.mark.parametrize(
    "read",
    [
        list,
        lambda log: log.scan().tuples(),
        lambda log: log.scan().count(),
        lambda log: log.scan().count(by_headers=True),
        lambda log: list(log.scan().batches()),
        lambda log: log.to_arrow(),
        lambda log: (
            list(log.read(0, 100_000)) + list(log.read(log.segments()[1].base_offset, 9999))
        ),
        lambda log: list(log.tail(0, timeout=0)),
    ],
)
def test_an_error_names_the_next_readable_offset(
    directory: LogDirectory, read: Callable[[segstore.UnifiedLog], object]
):
    """Case 36: as a value, and in the text with the calls and the command that go on there."""
    base = directory.bases[1]
    gone = zero_batches(directory, base, 1, 3)
    with directory.open(read_only=True) as log:
        with pytest.raises((CorruptLogError, CorruptRecordError)) as caught:
            read(log)
        assert caught.value.next_readable_offset == gone[-1] + 1
        for words in (f"-o {gone[-1] + 1} ", "--skip-damaged", "on_damage='skip'"):
            assert words in str(caught.value)


def test_a_whole_batch_behind_zeros_is_read_by_its_offset(directory: LogDirectory):
    """Case 36: the walk from the last index entry runs into the zeros."""
    base = directory.bases[1]
    gone = zero_batches(directory, base, 1, 3)
    behind = gone[-1] + 1
    for index in directory.path.glob("*.index"):
        index.unlink()
    with directory.open(read_only=True) as log:
        assert [one.offset for one in log.read(behind, 1)] == [behind]
        assert values_of_scan(log.scan(behind)) == expected_values(behind, RECORDS_COUNT)
        assert log.scan(behind).count(by_headers=True) == RECORDS_COUNT - behind
        assert bytes(log.slice(behind, 1).read().records) == bytes(log.read(behind, 1).records)
        for offset in gone:
            with pytest.raises(CorruptRecordError) as caught:
                log.read(offset, 1)
            assert caught.value.next_readable_offset == behind
            with pytest.raises(CorruptRecordError) as caught:
                log.scan(offset).tuples()
            assert caught.value.next_readable_offset == behind


def values_of_scan(scan: segstore.LogScan) -> list[tuple[int, bytes | None]]:
    return [(offset, value) for offset, _, _, value in scan.tuples()]


def ranges(scan: segstore.LogScan) -> list[tuple[int, int | None]]:
    return [(one.first_offset, one.next_offset) for one in scan.skipped]


def test_a_scan_that_skips_says_what_it_has_left_out(directory: LogDirectory):
    """Case 36: ``skipped`` has file, bytes and offsets; parts of the range, and Arrow, agree."""
    base = directory.bases[1]
    gone = zero_batches(directory, base, 1, 3)
    first, behind = gone[0], gone[-1] + 1
    with directory.open(read_only=True) as log:
        scan = log.scan(on_damage="skip")
        assert scan.skipped == ()
        assert values_of_scan(scan) == without(gone)
        (lost,) = scan.skipped
        assert (lost.file, lost.first_offset, lost.next_offset) == (
            f"{base:020}.log",
            first,
            behind,
        )
        assert scan.to_arrow().num_rows == scan.count() == scan.count(by_headers=True)
        assert scan.count() == RECORDS_COUNT - 3
        assert len(list(scan.batches())) == RECORDS_COUNT - 3
        assert scan.cuts(1)[:2] == [1, 2]

        part = log.scan(first + 1, behind + 1, on_damage="skip")
        assert [one.offset for one in part] == [behind]
        assert [(one.first_offset, one.next_offset) for one in part.skipped] == [
            (first + 1, behind)
        ]
        part = log.scan(behind, on_damage="skip")
        assert values_of_scan(part) == expected_values(behind, RECORDS_COUNT)
        assert part.skipped == ()


def test_times_are_looked_up_around_damage(directory: LogDirectory):
    """Case 36: a look-up that comes to zeros names the way on, a scan from that time on goes it."""
    gone = zero_batches(directory, directory.bases[1], 1, 3)
    behind = gone[-1] + 1
    for index in (*directory.path.glob("*.index"), *directory.path.glob("*.timeindex")):
        index.unlink()
    with directory.open(read_only=True) as log:
        with pytest.raises((CorruptLogError, CorruptRecordError)) as caught:
            log.offset_for_timestamp(TIME + behind)
        assert caught.value.next_readable_offset == behind
        with pytest.raises((CorruptLogError, CorruptRecordError)) as caught:
            log.scan(start_timestamp=TIME + gone[0] - 1).tuples()
        assert caught.value.next_readable_offset == behind
        scan = log.scan(start_timestamp=TIME + gone[0], on_damage="skip")
        assert values_of_scan(scan) == expected_values(behind, RECORDS_COUNT)


@pytest.mark.parametrize("marker_is_there", [True, False])
@pytest.mark.parametrize(
    ("segment", "first", "count"),
    [(0, 0, 1), (1, 0, 100), (-1, 0, 100), (-1, -1, 1), (0, -1, 1)],
    ids=["first batch", "whole segment", "whole last segment", "last batch", "end of a segment"],
)
def test_skipping_where_damage_may_be(
    tmp_path: Path,
    segment: int,
    first: int,
    count: int,
    marker_is_there: bool,  # noqa: FBT001 - a parameter of the test
):
    """Case 36, other places: also where the log ends at the damage for who reads it."""
    directory = build(tmp_path / "topic-0", clean=True)
    if not marker_is_there:
        (directory.path / CLEAN_SHUTDOWN_MARKER).unlink()
    base = directory.bases[segment]
    in_file = len(batches_of(directory.file(base)))
    first %= in_file
    gone = zero_batches(directory, base, first, min(count, in_file - first))
    with directory.open(read_only=True) as log:
        scan = log.scan(on_damage="skip")
        assert values_of_scan(scan) == without(gone)
        assert ranges(scan) == [(gone[0], gone[-1] + 1)]


def test_skipping_goes_on_behind_where_the_log_ends_for_a_reader(tmp_path: Path):
    """Case 36, a copy of the ``.log`` files alone: it ends at the first damage without an error."""
    directory = build(tmp_path / "source" / "topic-0", clean=True)
    gone = zero_batches(directory, directory.bases[1], 1, 2)
    alone = tmp_path / "topic-0"
    alone.mkdir()
    for path in directory.path.glob("*.log"):
        (alone / path.name).write_bytes(path.read_bytes())
    with segstore.open(alone, read_only=True) as log:
        assert log.report.damage is not None
        assert log.log_end_offset == gone[0]
        scan = log.scan(on_damage="skip")
        assert values_of_scan(scan) == without(gone)
        assert ranges(scan) == [(gone[0], gone[-1] + 1)]
        behind = log.scan(gone[-1] + 1, on_damage="skip")
        assert values_of_scan(behind) == expected_values(gone[-1] + 1, RECORDS_COUNT)
        with pytest.raises(OffsetOutOfRangeError):
            log.scan(-1, on_damage="skip")


@pytest.mark.parametrize(("segment", "batch"), [(1, 1), (1, 3), (1, -1), (-1, 1), (-1, 3)])
def test_a_log_without_a_state_ends_before_a_batch_whose_offset_jumps(
    tmp_path: Path, segment: int, batch: int
):
    """[DUR-50, DUR-79] It ended above it: all that came after was passed over without an error."""
    directory = build(tmp_path / "source" / "topic-0", clean=True)
    alone = tmp_path / "topic-0"
    alone.mkdir()
    for path in directory.path.glob("*.log"):
        (alone / path.name).write_bytes(path.read_bytes())
    file = alone / f"{directory.bases[segment]:020d}.log"
    moved = batches_of(file)[batch]
    data = bytearray(file.read_bytes())
    data[moved.position : moved.position + 8] = (1 << 25).to_bytes(8)
    file.write_bytes(data)

    with segstore.open(alone, read_only=True) as log:
        assert log.log_end_offset == moved.base_offset
        assert values_of(log) == expected_values(0, moved.base_offset)
        assert f"damaged at offset {moved.base_offset}" in str(log.report.damage)
        scan = log.scan(on_damage="skip")
        gone = [moved.base_offset]
        assert values_of_scan(scan) == without(gone)
        assert ranges(scan) == [(gone[0], gone[-1] + 1)]


def test_a_batch_that_no_reader_can_decode_is_left_out(tmp_path: Path):
    """Its checksum is right: what was compressed was not what the codec says."""
    broken = bytearray(batch([(None, b"value" * 50)], base_offset=1, epoch=0, codec=1))
    broken[70:90] = b"\xff" * 20
    broken[17:21] = struct.pack(">I", crc32c(broken[21:]))
    path = tmp_path / "topic-0"
    path.mkdir()
    (path / f"{0:020}.log").write_bytes(at(0) + broken + at(2))
    with segstore.open(path, read_only=True) as log:
        scan = log.scan(on_damage="skip")
        assert [one.offset for one in scan] == [0, 2]
        assert ranges(scan) == [(1, 2)]
        with pytest.raises(SegstoreError) as caught:
            list(log)
        assert caught.value.next_readable_offset == 2


def test_committed_data_is_read_past_damage(tmp_path: Path):
    """Case 36: a transaction whose marker may be lost is left out and named, no other is."""
    pieces = [
        data(COMMITTED, 0, 1),
        marker(COMMITTED, 1, "commit"),
        data(ABORTED, 2, 1),  # open where the log is damaged
        data(PLAIN, 3, 1),
        data(PLAIN, 4, 1),  # damaged
        data(COMMITTED, 5, 1),
        data(ABORTED, 6, 1),
        marker(COMMITTED, 7, "commit"),
        marker(ABORTED, 8, "abort"),
        data(PLAIN, 9, 1),
        data(COMMITTED, 10, 1),  # open at the end
        data(PLAIN, 11, 1),
    ]
    position = sum(map(len, pieces[:4]))
    path = tmp_path / "t-0"
    path.mkdir()
    file = path / f"{0:020}.log"
    file.write_bytes(b"".join(pieces[:9]))
    (path / f"{9:020}.log").write_bytes(b"".join(pieces[9:]))
    with segstore.open(path):
        pass
    forget_producers(path)
    LogDirectory(path).set_recovery_point(9)
    with file.open("r+b") as opened:
        opened.seek(position)
        opened.write(b"\0" * 30)
    with segstore.open(path, read_only=True) as log:
        scan = log.scan(isolation="read_committed", on_damage="skip")
        assert [one.offset for one in scan] == [0, 3, 5, 9]
        assert scan.end_offset == 10
        assert sorted(ranges(scan)) == [(2, 3), (4, 5)]
        with pytest.raises(CorruptLogError) as caught:
            log.scan(isolation="read_committed").tuples()
        assert caught.value.next_readable_offset == 5
        assert "--skip-damaged" in str(caught.value)
        assert "scan(5)" not in str(caught.value)  # nobody knows there what is committed


def test_what_goes_with_on_damage(directory: LogDirectory):
    """Damage is found by checksums; another word than the two is refused."""
    with directory.open(read_only=True) as log:
        with pytest.raises(IllegalArgumentError):
            log.scan(on_damage="skip", check_crcs=False)
        with pytest.raises(IllegalArgumentError):
            log.scan(on_damage="ignore")  # type: ignore[arg-type]


def damage_at_random(data: bytearray, rng: random.Random) -> bytes:
    """Flip, overwrite, insert, cut or remove some bytes."""
    at_byte = rng.randrange(len(data))
    size = rng.choice([1, 12, 61, 500, 3000])
    match rng.choice(["flip", "zeros", "junk", "insert", "remove", "cut"]):
        case "flip":
            data[at_byte] ^= 1 << rng.randrange(8)
        case "zeros":
            data[at_byte : at_byte + size] = b"\0" * len(data[at_byte : at_byte + size])
        case "junk":
            data[at_byte : at_byte + size] = rng.randbytes(len(data[at_byte : at_byte + size]))
        case "insert":
            data[at_byte:at_byte] = rng.randbytes(size)
        case "remove":
            del data[at_byte : at_byte + size]
        case "cut":
            del data[at_byte:]
    return bytes(data)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.integers(0, 2**32))
def test_skipping_shows_what_salvage_keeps_and_names_the_rest(
    tmp_path_factory: pytest.TempPathFactory, seed: int
):
    """[DUR-62, D15] And who follows the errors, one after the other, comes to the end."""
    rng = random.Random(seed)
    path = tmp_path_factory.mktemp("damage")
    directory = build(path / "topic-0", clean=rng.random() < 0.7)
    for _ in range(rng.choice([1, 1, 2, 5])):
        file = directory.file(rng.choice(directory.bases))
        if file.stat().st_size:
            file.write_bytes(damage_at_random(bytearray(file.read_bytes()), rng))
    with directory.open(read_only=True) as log:
        scan = log.scan(on_damage="skip")
        shown = values_of_scan(scan)
        gone = {one[0] for one in expected_values(0, log.log_end_offset)} - {
            offset for offset, _ in shown
        }
        told = {
            offset
            for one in scan.skipped
            for offset in range(one.first_offset, one.next_offset or RECORDS_COUNT)
        }
        walked, offset = [], 0
        while offset is not None:
            assert offset not in {one[0] for one in walked}
            try:
                walked.extend((one.offset, one.value) for one in log.scan(offset))
                offset = None
            except SegstoreError as error:
                offset = error.next_readable_offset
        end = log.log_end_offset
    try:
        segstore.salvage(directory.path, path / "saved" / "topic-0", **SETTINGS)
        with segstore.open(path / "saved" / "topic-0", read_only=True) as log:
            kept = values_of(log)
    except CorruptLogError:  # no batch at all
        kept = []

    assert shown == kept
    assert gone <= told
    assert not told & {offset for offset, _ in shown}
    assert walked == [one for one in shown if one[0] < end]


# ---- what an error advises is exact --------------------------------------------------------------
# The next offset that an error named left out records that a scan around damage gives: those of the
# same chunk before a page that cannot be read, and those of a segment that another one overlaps.


@pytest.mark.parametrize(
    "read",
    [
        lambda log: [(one.offset, one.value) for one in log],
        lambda log: values_of_scan(log.scan()),
        lambda log: [(one, None) for one in range(log.scan().count())],
        lambda log: [(one, None) for one in range(log.scan().count(by_headers=True))],
        lambda log: [(one, None) for one in range(len(log.to_arrow()))],
    ],
)
def test_what_two_segments_hold_is_read_once(directory: LogDirectory, read):
    """[DUR-54, DUR-79] Case 31: the files of another replica were copied over, nothing is lost."""
    first, second = directory.bases[1:3]
    there = directory.file(second)
    append_bytes(directory.file(first), there.read_bytes()[: batches_of(there)[1].end])
    with directory.open(read_only=True) as log:
        found = read(log)

        assert [one[0] for one in found] == [one[0] for one in expected_values(0, RECORDS_COUNT)]
        assert found[0][1] is None or found == expected_values(0, RECORDS_COUNT)


def test_a_segment_that_overlaps_is_read_to_its_end(directory: LogDirectory):
    """[DUR-79] Bytes that are no batch behind what the next segment holds are an error."""
    first, second = directory.bases[1:3]
    there = directory.file(second)
    append_bytes(directory.file(first), there.read_bytes()[: batches_of(there)[1].end] + bytes(99))
    with directory.open(read_only=True) as log:
        read: list[int] = []
        with pytest.raises((CorruptLogError, CorruptRecordError)) as caught:
            read.extend(one.offset for one in log)
        assert read == list(range(second))
        assert caught.value.next_readable_offset == second
        assert values_of_scan(log.scan(second)) == expected_values(second, RECORDS_COUNT)


def test_bytes_between_two_batches_hide_neither(directory: LogDirectory):
    """[DUR-79] The error names the batch that begins behind them, though no record is lost."""
    file = directory.file(directory.bases[1])
    behind = batches_of(file)[2]
    content = file.read_bytes()
    file.write_bytes(content[: behind.position] + b"junk" * 9 + content[behind.position :])
    with directory.open(read_only=True) as log:
        with pytest.raises((CorruptLogError, CorruptRecordError)) as caught:
            list(log)
        assert caught.value.next_readable_offset == behind.base_offset
        assert f"{behind.base_offset} cannot be read" not in str(caught.value)
        found = values_of_scan(log.scan(behind.base_offset))
        assert found == expected_values(behind.base_offset, RECORDS_COUNT)


# ---- a segment inside another one ----------------------------------------------------------------
# A read left the first of two segments where the second began. It went on after the second one, and
# the records of the first one that the second did not have were left out without a word.


@pytest.fixture(params=["one", "two"])
def nested(request, written_log, tmp_path: Path) -> tuple[LogDirectory, int, int, int]:
    """Batches of the second segment are also files of their own; nothing says that no gap is there.

    Returns also the first offset of these batches, the one after them, and where the next segment
    begins.
    """
    copied = written_log.copy(tmp_path / "orders-0")
    (copied.path / ".segstore").unlink()
    outer, following = copied.bases[1:3]
    content, inner = copied.file(outer).read_bytes(), batches_of(copied.file(outer))[2:5]
    borders = [0, 3] if request.param == "one" else [0, 1, 3]
    for begin, end in itertools.pairwise(borders):
        first = inner[begin]
        copied.file(first.base_offset).write_bytes(content[first.position : inner[end - 1].end])
    return copied, inner[0].base_offset, inner[-1].base_offset + 1, following


def test_a_read_does_not_step_over_the_records_of_the_outer_segment(nested):
    """[DUR-7, DUR-54, DUR-79] The error names them; a read goes on after them."""
    directory, _, behind, following = nested
    with directory.open(read_only=True) as log:
        for start in (0, behind, behind + 1):
            read: list[int] = []
            with pytest.raises(CorruptLogError, match=f"has records of offsets {behind} to") as one:
                read.extend(record.offset for record in log.scan(start))
            assert read == list(range(start, behind))
            assert one.value.next_readable_offset == following
            last = following - 1
            offsets_left_out = f"offsets {max(start, behind)} to {last} cannot be read"
            assert offsets_left_out in str(one.value)
        with pytest.raises(CorruptLogError, match=f"has records of offsets {behind} to"):
            log.read(behind, 1000)
        with pytest.raises(CorruptLogError, match=f"has records of offsets {behind} to"):
            log.scan(behind).count(by_headers=True)
        assert values_of_scan(log.scan(following)) == expected_values(following, RECORDS_COUNT)


def test_what_the_outer_segment_has_is_reported_as_left_out(nested, capsys):
    """[DUR-7, DUR-54] By a scan around damage, by `ls`, and by ``missing_records``."""
    directory, _, behind, following = nested
    path = str(directory.path)
    with directory.open(read_only=True) as log:
        for start in (0, behind + 1):
            scan = log.scan(start, on_damage="skip")
            left = range(max(start, behind), following)
            assert [one[0] for one in scan.tuples()] == [
                offset for offset in range(start, RECORDS_COUNT) if offset not in left
            ]
            (skipped,) = scan.skipped
            assert (skipped.first_offset, skipped.next_offset) == (left.start, left.stop)
        (missing,) = log.missing_records()
        assert missing.shown_by == directory.file(directory.bases[1]).name
    code, _, err = run(capsys, "ls", path)
    assert code == 1
    assert f"offsets {behind} to {following - 1} cannot be read: {missing.shown_by}" in err


def test_verify_reports_that_segments_overlap_where_one_is_inside_the_other(nested, tmp_path):
    """[DUR-54] The finding has the range, and advises `salvage`: no file is to be restored."""
    directory, first, behind, following = nested
    found = [one for one in check_partition(str(directory.path)).findings if one.lost]

    assert {one.code for one in found} == {"SEGMENTS_OVERLAP"}
    assert {one.file for one in found} == {directory.file(directory.bases[1]).name}
    assert {one.first_offset for one in found} == {first}
    assert {one.lost for one in found} == {((behind, following - 1),)}
    assert {one.action for one in found} == {Action.SALVAGE}
    assert segstore.salvage(directory.path, tmp_path / "new" / "a-0").lost == []


def test_a_batch_with_a_wrong_offset_hides_no_later_record(written_log, tmp_path: Path):
    """[DUR-79] A segment that seems to reach further, and has nothing there, is no overlap."""
    copied = written_log.copy(tmp_path / "orders-0")
    (copied.path / ".segstore").unlink()
    file = copied.file(copied.bases[0])
    data = bytearray(file.read_bytes())
    last = batches_of(file)[-1]
    data[last.position : last.position + 8] = (1 << 20).to_bytes(8)
    file.write_bytes(data)
    gap = copied.bases[2]
    compacted = copied.file(gap)
    kept = batches_of(compacted)[-1].position
    cut(compacted, kept)
    for kind in ("index", "timeindex"):
        copied.file(gap, kind).unlink()
    with copied.open(read_only=True) as log:
        found = [one[0] for one in log.scan(gap).tuples()]

        assert found == [one for one in range(gap, RECORDS_COUNT) if one != copied.bases[3] - 1]


@pytest.mark.parametrize("batch", [1, 3])
def test_nothing_is_missing_behind_a_batch_whose_offset_jumps(tmp_path: Path, batch: int):
    """[DUR-58] `verify` took the recovery point for the end of records that are in the file."""
    directory = build(tmp_path / "topic-0", clean=True)
    for name in (".segstore", CLEAN_SHUTDOWN_MARKER):
        (directory.path / name).unlink()
    moved = batches_of(directory.last)[batch]
    data = bytearray(directory.last.read_bytes())
    data[moved.position : moved.position + 8] = (moved.base_offset + 4).to_bytes(8)
    directory.last.write_bytes(data)

    checked = check_partition(str(directory.path))

    lost = [(one.code, one.lost) for one in checked.findings if one.lost]
    assert lost == [("BATCH_OUT_OF_ORDER", ((moved.base_offset, moved.base_offset),))]
    assert checked.segments[-1].next_offset == moved.base_offset


PAGE = 4096
LARGE_RECORDS = 300


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = ROOT / "tests" / "regression" / "unreadable_pages.c"
    return compiled(source, tmp_path_factory.mktemp("library"))


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """A log of two segments; ten pages and more of batches of a record in the first."""
    path = tmp_path / "topic-0"
    with segstore.open(path, index_interval_bytes=4096) as log:
        for number in range(LARGE_RECORDS):
            log.append([(None, b"%d" % number * 50)])
        log.roll()
        log.append([(None, b"last")])
    return path


class UnreadablePage:
    """Commands on a log of one of whose segments the disk does not give out the sixth page."""

    def __init__(self, path: Path, library: Path, base: int = 0, page: int = 5) -> None:
        first, end, file = page * PAGE, (page + 1) * PAGE, f"{base:020}.log"
        bad = {"EIO_FILE": f"{path.name}/{file}", "EIO_FROM": f"{first}", "EIO_TO": f"{end}"}
        self._commands, self._bad = warm_commands(library), bad
        self.path = path
        batches = batches_of(path / file)
        self.lost = [one.base_offset for one in batches if one.position < end and one.end > first]
        self.behind = self.lost[-1] + 1

    def run(self, command: str, *arguments: str) -> tuple[int, list[str], str]:
        return self.command(command, str(self.path), *arguments)

    def command(self, *arguments: str) -> tuple[int, list[str], str]:
        done = self._commands.run(*arguments, **self._bad)
        return done.returncode, done.stdout.decode().splitlines(), done.stderr.decode()

    def program(self, text: str, *arguments: str) -> str:
        """Return what a program in Python prints."""
        done = self._commands.run("-c", text, *arguments, **self._bad)
        assert done.returncode == 0, done.stderr
        return done.stdout.decode()

    def cat(self, *arguments: str) -> tuple[int, list[int], str]:
        return self.cat_file(str(self.path), *arguments)

    def cat_file(self, path: str, *arguments: str) -> tuple[int, list[int], str]:
        code, lines, errors = self.command("cat", path, "-f", "%o\n", *arguments)
        return code, [int(line) for line in lines], errors


@pytest.fixture
def unreadable(large: Path, library: Path) -> UnreadablePage:
    return UnreadablePage(large, library)


def test_what_lies_around_a_page_that_cannot_be_read(unreadable):
    """[DUR-33] Case 17: the error names the offsets of its batches and no other."""
    first, behind = unreadable.lost[0], unreadable.behind
    code, found, errors = unreadable.cat()
    assert (code, found) == (1, list(range(first)))
    assert f"offsets {first} to {behind - 1} cannot be read" in errors
    assert f"the next readable offset is {behind}: " in errors
    assert unreadable.cat("-o", str(behind))[:2] == (0, list(range(behind, LARGE_RECORDS + 1)))
    assert unreadable.cat("-o", str(first - 2), "-c", "2") == (0, [first - 2, first - 1], "")
    assert unreadable.cat("-o", str(behind), "-c", "1") == (0, [behind], "")


def test_a_file_alone_around_a_page_that_cannot_be_read(unreadable):
    """[DUR-33] Case 17, 35: `cat FILE` and `dump FILE` show what the disk gives out."""
    first, behind = unreadable.lost[0], unreadable.behind
    file = f"{unreadable.path}/{0:020}.log"
    after = list(range(behind, LARGE_RECORDS))
    code, found, errors = unreadable.cat_file(file)
    assert (code, found) == (1, list(range(first)))
    assert "ReadIOError" in errors
    assert f"the next readable offset is {behind}: `segstore cat -o {behind} {file}`" in errors
    assert unreadable.cat_file(file, "-o", str(behind))[:2] == (0, after)
    code, found, errors = unreadable.cat_file(file, "--skip-damaged")
    assert (code, found) == (1, [*range(first), *after])
    assert f"left out: {0:020}.log" in errors
    code, lines, errors = unreadable.command("dump", file)
    assert code == 1
    assert sum(line.startswith("baseOffset: ") for line in lines) == first
    assert f"position {5 * PAGE}: the disk cannot read this" in errors


FETCHES = """
import sys, segstore
with segstore.open(sys.argv[1], read_only=True) as log:
    offset, found = 0, []
    while offset < log.log_end_offset:
        try:
            read = [record.offset for record in log.read(offset, int(sys.argv[2]))]
        except segstore.ReadIOError as error:
            offset = error.next_readable_offset
        else:
            found += read
            offset = read[-1] + 1
print(*found)
"""


@pytest.mark.parametrize("max_bytes", [1, 700, 1 << 20])
def test_fetches_around_a_page_that_cannot_be_read(unreadable, max_bytes):
    """[DUR-33] Headers are read ahead: those of an unreadable page stop no fetch before it."""
    found = unreadable.program(FETCHES, str(unreadable.path), str(max_bytes))
    readable = {*range(LARGE_RECORDS + 1)}.difference(unreadable.lost)
    assert [int(offset) for offset in found.split()] == sorted(readable)


def test_the_tail_of_a_log_with_a_page_that_cannot_be_read(unreadable):
    """[DUR-33] It printed nothing; it advised an option that it does not have."""
    first, behind = unreadable.lost[0], unreadable.behind
    count = LARGE_RECORDS + 1 - first + 2
    readable = [*range(first - len(unreadable.lost) - 2, first), *range(behind, LARGE_RECORDS + 1)]
    code, lines, errors = unreadable.run("tail", "--template", "%o\n", "-n", str(count))
    assert (code, list(map(int, lines))) == (1, readable[-count:])
    assert f"`segstore cat -o {behind} {unreadable.path}`" in errors
    assert f"`segstore cat --skip-damaged {unreadable.path}`" in errors
    code, lines, errors = unreadable.run("tail", "--template", "%o\n", "-n", str(count), "-c", "2")
    assert (code, list(map(int, lines))) == (1, readable[-count:][:2])
    assert "next readable offset" in errors
    code, lines, errors = unreadable.run("tail", "--template", "%o\n", "-n", "2")
    assert (code, lines, errors) == (0, [str(LARGE_RECORDS - 1), str(LARGE_RECORDS)], "")


LAST_BASE = 10
LAST_END = LAST_BASE + LARGE_RECORDS


@pytest.fixture
def unclosed(tmp_path: Path) -> Path:
    """A log of two segments that was not closed cleanly; pages of batches in the last one."""
    path = tmp_path / "topic-0"
    with segstore.open(path, index_interval_bytes=4096) as log:
        log.append([(None, b"first")] * LAST_BASE)
        log.roll()
        for number in range(LARGE_RECORDS):
            log.append([(None, b"%d" % number * 50)])
            if number == LARGE_RECORDS // 2:
                log.assign_epoch_start_offset(3, log.log_end_offset)
    (path / CLEAN_SHUTDOWN_MARKER).unlink()
    return path


OPENED = """
import json, sys, segstore
with segstore.open(sys.argv[1], read_only=True) as log:
    epochs = [tuple(one) for one in log.leader_epochs]
    print(json.dumps([log.log_end_offset, log.report.damage, log.report.clean, epochs]))
    try:
        log.refresh()
    except segstore.ReadIOError:
        print("refresh")
    assert log.log_end_offset == int(sys.argv[2])
try:
    segstore.open(sys.argv[1])
except segstore.ReadIOError as error:
    print(error.os_error, "read_only=True opens" in str(error), "segstore salvage" in str(error))
"""


def opened(
    unreadable: UnreadablePage, end: int, *errors: str
) -> tuple[str | None, bool, list[tuple[int, int]]]:
    """Return what an open to read finds, and require that an open to write is refused."""
    printed, *failed = unreadable.program(OPENED, str(unreadable.path), str(end)).splitlines()
    assert failed == [*errors, "5 True True"]
    found, *others = json.loads(printed)
    assert found == end
    return others


@pytest.mark.parametrize(("page", "recovery_point"), [(0, None), (0, 0), (5, None), (5, 100)])
def test_a_page_of_the_last_segment_that_cannot_be_read(unclosed, library, page, recovery_point):
    """[DUR-33, DUR-51] No record of the partition could be read: the open failed.

    An open to read names the page and the offsets, and the log ends where it did.
    """
    LogDirectory(unclosed).set_recovery_point(recovery_point)
    unreadable = UnreadablePage(unclosed, library, LAST_BASE, page)
    first, behind = unreadable.lost[0], unreadable.behind

    damage, clean, epochs = opened(unreadable, LAST_END)
    assert (clean, epochs) == (False, [[0, 0], [3, LAST_BASE + LARGE_RECORDS // 2 + 1]])
    assert f"{LAST_BASE:020}.log, bytes " in damage
    assert f"offsets {first} to {behind - 1}: the disk cannot read these bytes (EIO:" in damage
    for max_bytes in ("1", "100000"):
        found = unreadable.program(FETCHES, str(unclosed), max_bytes)
        readable = {*range(LAST_END)}.difference(unreadable.lost)
        assert [int(offset) for offset in found.split()] == sorted(readable)
    code, found, errors = unreadable.cat()
    assert (code, found) == (1, list(range(first)))
    assert f"the next readable offset is {behind}: " in errors
    assert unreadable.cat("-o", str(behind))[:2] == (1, list(range(behind, LAST_END)))
    code, found, errors = unreadable.cat("--skip-damaged")
    assert (code, found) == (1, sorted(readable))
    assert "the disk cannot read these bytes (EIO" in errors
    code, rows, _ = unreadable.run("ls", "--json")
    assert (code, json.loads(rows[0])["log_end_offset"]) == (1, LAST_END)
    code, shown, _ = unreadable.run("inspect", "--json")
    assert (code, json.loads("".join(shown))["log_end_offset"]) == (1, LAST_END)
    assert_verify_agrees(unreadable, LAST_END)


def assert_verify_agrees(unreadable: UnreadablePage, end: int) -> None:
    """verify ended the log at the page, and said that an index names offsets behind that end."""
    code, shown, _ = unreadable.run("verify", "--json")
    verified = json.loads("".join(shown))
    assert (code, verified["log_end_offset"]) == (1, end)
    assert [one["code"] for one in verified["findings"]] == ["FILE_UNREADABLE"]


@pytest.mark.parametrize("closed", [True, False])
def test_the_last_page_cannot_be_read_and_the_recovery_point_is_known(unclosed, library, closed):
    """[DUR-33, DUR-51] The records of the page are unreadable, and not after the log end."""
    if closed:
        segstore.open(unclosed).close()
    size = (unclosed / f"{LAST_BASE:020}.log").stat().st_size
    unreadable = UnreadablePage(unclosed, library, LAST_BASE, (size - 1) // PAGE)

    damage, clean, _ = opened(unreadable, LAST_END)
    assert not clean
    assert f"offsets {unreadable.lost[0]} to {LAST_END - 1}: the disk cannot" in damage
    code, found, errors = unreadable.cat()
    assert (code, found) == (1, list(range(unreadable.lost[0])))
    assert "no whole batch follows" in errors
    assert_verify_agrees(unreadable, LAST_END)


def test_the_last_page_cannot_be_read_and_nothing_else_has_the_end(unclosed, library):
    """[DUR-33] The log ends before it for this reader, and the report says so.

    A refresh cannot say where the log ends now: it raises the error. So did a scan that leaves out
    what is damaged, at its end.
    """
    LogDirectory(unclosed).set_recovery_point(None)
    size = (unclosed / f"{LAST_BASE:020}.log").stat().st_size
    unreadable = UnreadablePage(unclosed, library, LAST_BASE, (size - 1) // PAGE)

    end = unreadable.lost[0]
    damage, _, _ = opened(unreadable, end, "refresh")
    assert f"offsets {end} on: the disk cannot read these bytes (EIO:" in damage
    code, found, errors = unreadable.cat("--skip-damaged")
    assert (code, found) == (1, list(range(end)))
    assert f"left out: {LAST_BASE:020}.log, bytes " in errors


REFRESHED = """
import sys, segstore
with segstore.open(sys.argv[1], read_only=True) as log:
    with open(sys.argv[2], "ab") as file:
        for half in sys.argv[3:]:
            file.write(bytes.fromhex(half))
            file.flush()
            print(log.refresh())
"""


def test_a_refresh_beside_a_writer_after_a_page_that_cannot_be_read(unclosed, library):
    """[DUR-33, DUR-76] A batch that is half written was a reason to read all before it again."""
    unreadable = UnreadablePage(unclosed, library, LAST_BASE)
    file = unclosed / f"{LAST_BASE:020}.log"
    added = at(LAST_END, epoch=3)
    halves = [added[:65].hex(), added[65:].hex()]
    printed = unreadable.program(REFRESHED, str(unclosed), str(file), *halves)
    assert printed.split() == [str(LAST_END), str(LAST_END + 1)]


def test_a_torn_batch_after_a_page_that_cannot_be_read(unclosed, library):
    """[DUR-2, DUR-33] It ends the log, as it does without the page."""
    LogDirectory(unclosed).set_recovery_point(None)
    append_bytes(unclosed / f"{LAST_BASE:020}.log", bytes(7) + b"torn")
    unreadable = UnreadablePage(unclosed, library, LAST_BASE)

    damage, _, _ = opened(unreadable, LAST_END)
    assert damage.endswith("the disk cannot read these bytes (EIO: Input/output error)")
    assert unreadable.cat("-o", str(unreadable.behind))[1][-1] == LAST_END - 1


@pytest.mark.parametrize("byte", [8, 70])
def test_damage_before_a_page_that_cannot_be_read_is_no_torn_end(unclosed, library, byte):
    """[DUR-33, DUR-51] After a wrong length the log counted as whole: `cat` ended there with 0.

    After a wrong CRC no record of the partition could be read.
    """
    LogDirectory(unclosed).set_recovery_point(None)
    unreadable = UnreadablePage(unclosed, library, LAST_BASE)
    file = unclosed / f"{LAST_BASE:020}.log"
    damaged = batches_of(file)[10]
    content = bytearray(file.read_bytes())
    content[damaged.position + byte] ^= 0x40
    file.write_bytes(content)

    code, found, errors = unreadable.cat()
    assert (code, found) == (1, list(range(damaged.base_offset)))
    assert f"damaged at offset {damaged.base_offset}: " in errors
    code, found, _ = unreadable.cat("--skip-damaged")
    lost = {damaged.base_offset, *unreadable.lost}
    assert (code, found) == (1, [one for one in range(LAST_END) if one not in lost])
    assert unreadable.run("ls")[0] == 1


def test_the_last_page_of_a_sealed_segment_above_the_recovery_point(large, library):
    """[DUR-33, DUR-54] What it hides is no gap: the segment reaches to the next one."""
    (large / CLEAN_SHUTDOWN_MARKER).unlink()
    LogDirectory(large).set_recovery_point(0)
    size = (large / f"{0:020}.log").stat().st_size
    unreadable = UnreadablePage(large, library, 0, (size - 1) // PAGE)

    damage, _, _ = opened(unreadable, LARGE_RECORDS + 1)
    assert f"offsets {unreadable.lost[0]} to {LARGE_RECORDS - 1}: the disk cannot" in damage
    assert unreadable.cat("-o", str(LARGE_RECORDS))[:2] == (1, [LARGE_RECORDS])


# ---- small files that cannot be read -------------------------------------------------------------
# `cat` printed no record and `ls` had no row, where `verify` said that no record was lost.


OPENED_TO_READ = """
import sys, segstore
with segstore.open(sys.argv[1], read_only=True) as log:
    log.refresh()
    print(len(log.report.warnings), log.report.damage, log.topic_id)
    print([tuple(one) for one in log.leader_epochs])
try:
    segstore.open(sys.argv[1])
except segstore.SegstoreError as error:
    print(type(error).__name__)
"""


@pytest.mark.parametrize("kind", ["a page", "a directory"])
@pytest.mark.parametrize("name", ["leader-epoch-checkpoint", "partition.metadata"])
def test_a_small_file_that_cannot_be_read_hides_no_record(tmp_path, library, name, kind):
    """[DUR-21, DUR-33, UNI-5] A reader warns; the batches have the epochs, the topic id is unknown.

    An open for writing refuses the log: it would replace the file.
    """
    path, topic_id = tmp_path / "topic-0", uuid.uuid4()
    with segstore.open(path, topic_id=topic_id) as log:
        for epoch in (2, 5):
            log.assign_epoch_start_offset(epoch, log.log_end_offset)
            log.append([(None, b"x")] * 10)
        epochs = [tuple(one) for one in log.leader_epochs]
    known, file = topic_id, path / name
    if name == "partition.metadata":
        known = None
    if kind == "a directory":
        file.unlink()
        file.mkdir()
    unreadable = f"{path.name}/{name}"

    def run(*command: str) -> tuple[int, str, str]:
        done = warm_commands(library).run(*command, EIO_FILE=unreadable)
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    code, printed, errors = run("cat", "-f", "%o ", str(path))
    assert (code, printed.split()) == (0, [str(one) for one in range(20)])
    assert str(file) in errors
    code, printed, errors = run("ls", "--json", str(path))
    assert (code, json.loads(printed)["log_end_offset"]) == (0, 20)
    assert str(file) in errors
    refusal = "NotALogError" if kind == "a directory" else "ReadIOError"
    assert run("-c", OPENED_TO_READ, str(path)) == (0, f"1 None {known}\n{epochs}\n{refusal}\n", "")


OPENED_BESIDE = """
import sys, segstore
with segstore.open(sys.argv[1], read_only=True) as log:
    log.refresh()
    print(log.report.clean, log.report.damage, log.log_start_offset, len(log.report.warnings))
try:
    segstore.open(sys.argv[1]).close()
except segstore.SegstoreError as error:
    print(type(error).__name__)
else:
    print("opened")
"""
SMALL_FILES = [
    (".segstore", True, 4, "NotALogError"),
    (".kafka_cleanshutdown", False, 4, "NotALogError"),
    ("recovery-point-offset-checkpoint", True, 4, "NotALogError"),
    ("../recovery-point-offset-checkpoint", True, 4, "opened"),
    ("../log-start-offset-checkpoint", True, 4, "opened"),
    ("log-start-offset-checkpoint", False, 0, "NotALogError"),
]


@pytest.mark.parametrize("kind", ["a page", "a directory"])
@pytest.mark.parametrize(("name", "is_clean", "start", "refusal"), SMALL_FILES)
def test_a_state_file_that_cannot_be_read_hides_no_record(  # noqa: PLR0913 - the case, and a disk
    tmp_path, library, name, is_clean, start, refusal, kind
):
    """[DUR-8, DUR-21, DUR-33] A reader warns of it by name; without a marker the log is unclean.

    Where no other file has the log start, deleted records may show: the warning says so.
    """
    path = tmp_path / "topic-0"
    with segstore.open(path, internal_segment_bytes=300) as log:
        for number in range(20):
            log.append([(None, b"%d" % number * 50)])
        log.delete_records(4)
    first = min(int(file.stem) for file in path.glob("*.log"))
    if name == "log-start-offset-checkpoint":
        (path / ".kafka_cleanshutdown").unlink()
        start = max(start, first)
    file = (path / name).resolve()
    if not file.exists():
        file.write_text("0\n0\n")
    if kind == "a directory":
        file.unlink()
        file.mkdir()
    unreadable = f"{file.parent.name}/{file.name}"

    def run(*command: str) -> tuple[int, str, str]:
        done = warm_commands(library).run(*command, EIO_FILE=unreadable)
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    code, printed, errors = run("cat", "-f", "%o ", str(path))
    assert (code, printed.split()[-16:]) == (0, [str(one) for one in range(4, 20)])
    assert f"{file} cannot be read" in errors or f"{file.name} cannot be read: {file}" in errors
    shows_deleted = "reads may show records that were deleted" in errors
    assert shows_deleted == ("log-start" in name)
    target = str(tmp_path / "out" / "s-0")
    code, printed, errors = run("salvage", "-q", str(path), target)
    assert (code, "nothing was lost" in printed, errors) == (0, True, "")
    if kind == "a page":
        refusal = "ReadIOError"
    printed = run("-c", OPENED_BESIDE, str(path))[1]
    assert printed == f"{is_clean} None {start} 1\n{refusal}\n"


def test_the_tail_of_a_log_that_ends_at_damage(directory: LogDirectory, capsys):
    """Case 36: what it shows are not the last records, and it names a command that goes on."""
    gone = zero_batches(directory, directory.bases[1], 1, 3)
    (directory.path / CLEAN_SHUTDOWN_MARKER).unlink()
    directory.set_recovery_point(0)
    arguments = ["tail", str(directory.path), "--template", "%o ", "-n", "3", "-c", "2"]

    assert cli.main(arguments) == 1
    printed, errors = capsys.readouterr()
    assert printed == f"{gone[0] - 3} {gone[0] - 2} "
    assert f"`segstore cat --skip-damaged {directory.path}`" in errors


def test_inspect_shows_a_segment_that_cannot_be_read(unreadable):
    """[DUR-33] It left the segment out, and answered 0."""
    code, lines, _ = unreadable.run("inspect", "-q")
    (row,) = [line for line in lines if line.split()[0] == "0!"]
    assert row.split()[1:4] == ["-", "-", "-"]
    assert code == 1
    assert any("in 2 segments" in line for line in lines)
    assert any(f"damaged segment: {0:020}.log" in line for line in lines)
    assert f"`segstore verify {unreadable.path}`" in lines[-1]


def test_inspect_marks_bytes_that_are_no_batch(directory: LogDirectory, capsys):
    """Case 36: it showed a last offset before the zeros, and no word of them."""
    base = directory.bases[1]
    zero_batches(directory, base, 1, 3)

    assert cli.main(["inspect", "-q", str(directory.path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert any(line.split()[0] == f"{base}!" for line in lines)
    assert any(f"damaged segment: {base:020}.log: bytes " in line for line in lines)
    assert f"`segstore verify {directory.path}`" in lines[-1]


def test_inspect_marks_a_segment_that_overlaps_the_next(directory: LogDirectory, capsys):
    """Case 31"""
    first, second = directory.bases[1:3]
    append_bytes(directory.file(first), directory.file(second).read_bytes())

    assert cli.main(["inspect", "-q", "--json", str(directory.path)]) == 1
    found = json.loads(capsys.readouterr().out)["segments"]
    damaged = [one["base_offset"] for one in found if one["damage"] is not None]
    assert damaged == [first]


def test_no_record_behind_those_that_were_asked_for_is_read(directory: LogDirectory, capsys):
    """Case 36: ``-c`` ends before damage."""
    gone = zero_batches(directory, directory.bases[1], 1, 3)
    start = gone[0] - 2
    arguments = ["cat", str(directory.path), "-o", str(start), "-c", "2", "-f", "%o "]

    assert cli.main(arguments) == 0
    assert capsys.readouterr() == (f"{start} {start + 1} ", "")


# ---- reads in front of the first segment ---------------------------------------------------------
# A range that began below the first segment was read as an empty one, and nothing was said.
#
# So it was of a log that was emptied to go on above its log start, and of a scan whose first
# records were deleted between the making of the scan and its reading.


PROFILES = ("safe", "kafka")

WAYS = {
    "rows": lambda scan: len(list(scan)),
    "tuples": lambda scan: len(scan.tuples()),
    "count": lambda scan: scan.count(),
    "by headers": lambda scan: scan.count(by_headers=True),
    "headers": lambda scan: sum(len(headers) for _, headers in scan.headers()),
    "arrow": lambda scan: scan.to_arrow().num_rows,
}


def emptied(path, profile):
    """Return a log of the offsets 200 and 201 whose readers were told to begin at 150."""
    log = segstore.open(path, recovery=profile)
    log.append([(None, b"x")] * 3)
    log.truncate_fully_and_start_at(200, 150)
    log.append([(None, b"a"), (None, b"b")])
    if profile == "kafka":
        log.update_high_watermark(202)
    return log


@pytest.mark.parametrize("profile", PROFILES)
def test_what_is_behind_the_log_start_is_read(tmp_path, profile):
    """[TRU-4, UNI-2] from the log start, and by default."""
    with emptied(tmp_path / "a-0", profile) as log:
        start = log.log_start_offset

        for scan in (log.scan(), log.scan(start), log.scan(start + 1 if start < 200 else start)):
            assert [record.value for record in scan] == [b"a", b"b"]
            found = {name: read(scan) for name, read in WAYS.items()}
            assert found == dict.fromkeys(WAYS, 2) | {"headers": 1}
            assert scan.cuts(1) == []
        assert [record.offset for record in log] == [200, 201]
        assert [record.offset for record in log.tail(start, timeout=0)] == [200, 201]
        assert [record.offset for record in log.scan(isolation="read_committed")] == [200, 201]
        assert log.scan(start, 201).count() == 1


def test_the_log_start_is_where_the_next_open_finds_it(tmp_path):
    """[TRU-4, UNI-2, LDR-9] No offset below the first segment can be read: none is promised.

    With nothing in remote storage the log starts at its first segment. Kafka's handle says what it
    was given until it is opened again, and has no answer for a fetch from there [LOC-6].
    """
    with emptied(tmp_path / "a-0", "safe") as log:
        assert log.log_start_offset == 200
        assert [record.offset for record in log.read(200, 1000)] == [200, 201]
        with pytest.raises(OffsetOutOfRangeError):
            log.read(199, 1000)
        with segstore.open(tmp_path / "a-0", read_only=True) as reader:
            assert reader.log_start_offset == 200
    with segstore.open(tmp_path / "a-0") as again:
        assert (again.report.clean, again.log_start_offset) == (True, 200)
    with emptied(tmp_path / "b-0", "kafka") as log:
        assert log.log_start_offset == 150
        with pytest.raises(OffsetOutOfRangeError, match="has 200 to 202"):
            log.read(150, 1000)
    with segstore.open(tmp_path / "b-0", recovery="kafka") as again:
        assert again.log_start_offset == 200


@pytest.mark.parametrize("way", WAYS)
def test_a_scan_whose_records_were_deleted(tmp_path, way):
    """[DUR-78] What is gone is out of range; it is not a range without records."""
    with segstore.open(tmp_path / "a-0") as log:
        for _ in range(5):
            log.append([(None, b"x")] * 10)
            log.roll()
        gone, there = log.scan(5), log.scan(25)
        log.delete_records(20)

        with pytest.raises(OffsetOutOfRangeError) as caught:
            WAYS[way](gone)
        assert (caught.value.file, caught.value.found) == (log.path, "5")
        assert caught.value.expected == "20 to 50"
        assert WAYS[way](there) == {"headers": 3}.get(way, 25)
        with pytest.raises(OffsetOutOfRangeError):
            gone.cuts(100)
        log.truncate_fully_and_start_at(100)
        with pytest.raises(LogTruncatedError):
            WAYS[way](there)


# ---- reader of a log that ends at damage ---------------------------------------------------------
# ``cat`` of a copied directory ended at damage, exit code 0 and no word; ``ls`` showed no mark.
#
# Without checkpoints nobody knows what had been synced, so a reader ends where a writer would cut.
# Records that follow, in the same file too, were not mentioned by the report of the open.


@pytest.fixture(scope="module")
def written_log(tmp_path_factory):
    return build(tmp_path_factory.mktemp("written") / "orders-0", clean=True)


@pytest.fixture
def copied(written_log, tmp_path):
    """The ``.log`` files alone, as somebody saves them from somewhere."""
    path = tmp_path / "orders-0"
    path.mkdir()
    for file in written_log.path.glob("*.log"):
        (path / file.name).write_bytes(file.read_bytes())
    return LogDirectory(path)


def payload(file, batch):
    flip_bit(file, batch.position + 70)


def length(file, batch):
    """It claims to reach beyond the end of the file, as half a write does."""
    flip_bit(file, batch.position + 8, bit=4)


def base_offset(file, batch):
    """No CRC covers it: the batch is whole, and says that it is the one before."""
    data = bytearray(file.read_bytes())
    data[batch.position : batch.position + 8] = (batch.base_offset - 1).to_bytes(8)
    file.write_bytes(data)


def header(file, batch):
    data = bytearray(file.read_bytes())
    data[batch.position : batch.position + 61] = bytes(61)
    file.write_bytes(data)


def page_of_zeros(file, batch):
    data = bytearray(file.read_bytes())
    data[batch.position : batch.end] = bytes(batch.size)
    file.write_bytes(data)


def run(capsys, *arguments):
    code = cli.main([*arguments])
    out, err = capsys.readouterr()
    return code, out, err


def check_all(copied, capsys, end):
    """Every door says that records behind *end* are not shown."""
    path = str(copied.path)
    with copied.open(read_only=True) as log:
        assert log.log_end_offset == end
        damage = log.report.damage
        assert damage in log.report.warnings
        assert f"warning: {damage}" in str(log.report)
        told = "".join(
            f"segstore: {path}: {text}\n" for text in [*log.report.warnings[:-1], damage]
        )

    code, out, err = run(capsys, "cat", "-q", "-f", "%o\n", path)
    assert out.split() == [str(offset) for offset in range(end)]
    assert code == 1
    assert err.startswith(f"segstore: {path}: {damage}")
    code, out, err = run(capsys, "tail", "-n", "1", path)
    way_on = f"; `segstore cat --skip-damaged {path}` reads on after it\n"
    assert (code, err) == (1, told.removesuffix("\n") + way_on)
    code, out, err = run(capsys, "ls", path)
    assert (code, err) == (1, told)
    assert out.splitlines()[1].split()[3] == f"{end}!"
    code, out, err = run(capsys, "ls", "--json", path)
    assert (code, json.loads(out)["damage"]) == (1, damage)


@pytest.mark.parametrize("harm", [payload, length, base_offset, header, page_of_zeros])
@pytest.mark.parametrize("number", [0, -1])
def test_records_behind_damage(copied, capsys, harm, number):
    """[DUR-51, DUR-58] In the first segment and in the last one, where only bytes follow."""
    file = copied.file(copied.bases[number])
    batch = batches_of(file)[1]
    harm(file, batch)

    check_all(copied, capsys, batch.base_offset)


def test_a_segment_that_is_missing(written_log, capsys, tmp_path):
    """[DUR-54] Where the log says of itself that it has no gap."""
    copied = written_log.copy(tmp_path / "orders-0")
    for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
        (copied.path / name).unlink()
    gone = copied.bases[2]
    copied.file(gone).unlink()

    check_all(copied, capsys, gone)


def test_records_that_had_been_synced(copied, capsys):
    """[DUR-51] The recovery point came along, the end of the last file did not."""
    last = batches_of(copied.last)[-1]
    cut(copied.last, last.position)
    copied.set_recovery_point(RECORDS_COUNT)

    check_all(copied, capsys, last.base_offset)


@pytest.mark.parametrize("tail", [b"half a batch", bytes(5000), b"\1" * 5000], ids=len)
def test_a_write_that_was_not_finished_is_no_damage(copied, capsys, tail):
    """[DUR-76] It ends the log for now; nothing that was told to anybody is in it."""
    append_bytes(copied.last, tail)
    path = str(copied.path)

    with copied.open(read_only=True) as log:
        assert (log.report.damage, log.log_end_offset) == (None, RECORDS_COUNT)
    assert run(capsys, "cat", "-q", "-f", "", path) == (0, "", "")
    code, out, err = run(capsys, "ls", path)
    assert (code, err) == (0, "")
    assert "!" not in out


def test_half_of_the_last_batch_is_no_damage(copied):
    """[DUR-76] The end of a torn write may hold what looks like records."""
    cut(copied.last, batches_of(copied.last)[-1].end - 1)

    with copied.open(read_only=True) as log:
        assert (log.report.damage, log.log_end_offset) == (None, RECORDS_COUNT - 1)


def test_who_asked_for_less_is_not_told(copied, capsys):
    """Records before the damage were asked for, and shown."""
    batch = batches_of(copied.last)[1]
    payload(copied.last, batch)
    time = 1_700_000_000_000 + 5

    assert run(capsys, "cat", "-q", "-c", "3", "-f", "%o ", str(copied.path)) == (0, "0 1 2 ", "")
    code, out, err = run(capsys, "cat", "-q", "-o", f"e@{time}", "-f", "%o ", str(copied.path))
    assert (code, out, err) == (0, "0 1 2 3 4 ", "")


def test_a_batch_that_was_completed_meanwhile(copied, monkeypatch):
    """[DUR-76] In a preallocated file: what was torn is whole when it is looked at again."""
    from segstore.log.recovery import view

    data = copied.last.read_bytes()
    torn = batches_of(copied.last)[-2]
    copied.last.write_bytes(data[: torn.position + 30] + bytes(len(data) - torn.position - 30))
    search = view.is_followed_by_batch

    def write_the_rest(*arguments):
        copied.last.write_bytes(data)
        return search(*arguments)

    monkeypatch.setattr(view, "is_followed_by_batch", write_the_rest)
    with copied.open(read_only=True) as log:
        assert (log.report.damage, log.log_end_offset) == (None, torn.base_offset)
        assert log.refresh() == RECORDS_COUNT


# ---- reader of a log with lost files -------------------------------------------------------------
# A reader of a log that had lost a `.log` file said so in a warning alone.
#
# `segstore ls` showed nothing, and `verify()` of the handle that knew better found all good.


CLOSED, KILLED = "closed", "killed"

FIRST, MIDDLE, LAST = 0, 2, -1


@pytest.fixture(params=[CLOSED, KILLED])
def log_directory(request, tmp_path):
    """Nine records in nine segments."""
    path = tmp_path / "a-0"
    log = segstore.open(path, internal_segment_bytes=150)
    for number in range(9):
        log.append([(None, b"%d" % number + b"v" * 60)])
    assert log._background.wait_until_idle()  # a sync after a roll may still note an older point
    log.flush()
    if request.param == CLOSED:
        log.close()
    else:
        log.close_quietly()
    return path


@pytest.mark.parametrize(
    ("which", "missing", "first_lost"),
    [(FIRST, "records? 0 ", 0), (MIDDLE, "records? 2 ", 2), (LAST, "at offset 8", 8)],
)
def test_it_is_damage(log_directory, which, missing, first_lost):
    """[DUR-7, DUR-51] In the report, in the list of partitions, and in what verifies the handle."""
    lost = sorted(log_directory.glob("*.log"))[which]
    lost.unlink()

    with segstore.open(log_directory, read_only=True) as log:
        told = log.report.damage or ""
        assert re.search(f"{missing}.* missing", told)
        assert len(set(log.report.warnings)) == len(log.report.warnings) > 0
        report = log.verify()
    assert not report.ok
    (found,) = report.findings
    assert found.records == Records.MISSING
    assert found.lost == ((first_lost, first_lost),)
    assert report.to_dict()["problems"] == report.problems
    listed = run_segstore("ls", log_directory)
    assert listed.returncode == 1
    assert re.search(rb" [289]! ", listed.stdout)
    assert told in listed.stderr.decode()


def test_a_whole_log_has_none(log_directory):
    """Nothing is told of a log that has all its files."""
    with segstore.open(log_directory, read_only=True) as log:
        assert log.report.damage is None
        assert log.verify().ok
    assert run_segstore("ls", log_directory).returncode == 0


# ---- scan is linear ------------------------------------------------------------------------------
# A scan without an offset index walked from the segment's beginning for each megabyte.
#
# And `count` trusted the number of records in a header that it had not checked.


def test_a_scan_goes_on_where_its_last_chunk_ended(tmp_path, monkeypatch):
    """[DUR-61] One look-up for each segment."""
    with segstore.open(tmp_path / "a-0", durability="none") as log:
        for _ in range(800):
            log.append([(None, b"v" * 5000)])
        positions = []
        read = Segment.read

        def noted(self, *args, **options):
            fetched = read(self, *args, **options)
            positions.append((options.get("start_position", 0), fetched.position))
            return fetched

        monkeypatch.setattr(Segment, "read", noted)
        assert len(log.scan().tuples()) == 800
        assert log.scan(790).count() == 10
    assert len(positions) > 4
    *chunks, last = positions
    assert chunks[0] == (0, 0)
    assert all(asked == found > 0 for asked, found in chunks[1:])
    assert last[0] == 0 < last[1]


def test_a_read_from_a_position_finds_what_the_index_finds(tmp_path):
    """[SEG-19] Also a position behind the end, which is none."""
    directory = build(tmp_path / "orders-0", clean=True)
    with directory.open(read_only=True) as log:
        segment = log.segments()[0]
        size = segment.size_bytes
        for batch in batches_of(directory.file(segment.base_offset))[1:]:
            by_index = segment.read(batch.base_offset, 200, size, min_one_message=True)
            by_position = segment.read(
                batch.base_offset, 200, size, min_one_message=True, start_position=batch.position
            )
            assert bytes(by_index) == bytes(by_position)
            assert by_position.position == batch.position
        last = batch.base_offset
        for position in (size, size + 1, 2**31 - 1):
            assert (
                segment.read(last, 200, -1, min_one_message=True, start_position=position) is None
            )


@pytest.mark.parametrize("check_crcs", [True, False])
def test_count_does_not_believe_a_damaged_header(tmp_path, check_crcs):
    """[DUR-79, DUR-87]"""
    directory = build(tmp_path / "orders-0", clean=True)
    first = directory.file(0)
    data = bytearray(first.read_bytes())
    data[57:61] = (1_000_000).to_bytes(4, "big")
    first.write_bytes(data)
    with (
        directory.open(read_only=True) as log,
        pytest.raises((CorruptRecordError, InvalidRecordError)),
    ):
        log.scan(check_crcs=check_crcs).count()


# ---- ways to read agree --------------------------------------------------------------------------
# Rows, tuples, Arrow and `count` gave different records of the same bytes.
#
# A record's offset beyond what its batch's header says; a control batch that nobody could open;
# records of one offset; a count in the header that is not that of the records.


def built(offsets: list[int], base_offset: int = 0, *, control: bool = False) -> bytearray:
    builder = RecordsBuilder(codec_table(), base_offset=base_offset, control=control)
    for offset in offsets:
        key = b"\0\0\0\1" if control else b"k"
        builder.append(offset, TIME, key, b"\0" * 6)
    return bytearray(builder.build())


def with_crc(batch: bytearray) -> bytes:
    from segstore._core import crc32c

    batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4)
    check_batch(bytes(batch))
    return bytes(batch)


def beyond_its_header() -> bytes:
    batch = built([0])
    delta_at = 61 + 3  # behind size, attributes and timestamp delta
    assert batch[delta_at] == 0
    batch[delta_at] = 2 * 60  # zigzag
    return with_crc(batch) + with_crc(built([1], 1))


def control_of_unknown_codec() -> bytes:
    batch = built([0], control=True)
    batch[22] |= 7
    return with_crc(batch) + with_crc(built([1], 1))


def two_of_one_offset() -> bytes:
    batch = built([0, 1])
    second = batch.index(b"k", 61 + 8) - 2
    assert batch[second] == 2
    batch[second] = 0
    return with_crc(batch) + with_crc(built([2], 2))


@pytest.mark.parametrize(
    ("content", "offsets"),
    [(beyond_its_header, [1]), (control_of_unknown_codec, [1]), (two_of_one_offset, [0, 2])],
)
def test_every_way_gives_the_same(tmp_path: Path, content, offsets):
    path = tmp_path / "a-0"
    path.mkdir()
    (path / f"{0:020}.log").write_bytes(content())
    with segstore.open(path, read_only=True) as log:
        assert [record.offset for record in log] == offsets
        assert [row[0] for row in log.scan().tuples()] == offsets
        assert log.to_arrow()["offset"].to_pylist() == offsets
        assert log.scan().count() == len(offsets)


def test_a_bound_that_asks_for_nothing_is_refused(new_log):
    """It gave empty Arrow batches without end."""
    log = new_log()
    log.append([(TIME, b"k", b"v")] * 10)
    for wrong in ({"rows": 0}, {"rows": -1}, {"max_bytes": 0}, {"max_bytes": -1}):
        with pytest.raises(segstore.IllegalArgumentError, match="above 0"):
            log.scan().arrow_batches(**wrong)
    with pytest.raises(segstore.ArgumentTypeError):
        log.scan().arrow_batches(rows="x")
    with pytest.raises(segstore.IllegalArgumentError):
        log.scan().arrow_batches(rows=10**30)
    assert sum(batch.rows_count for batch in log.scan().arrow_batches(rows=3)) == 10


def test_a_refused_record_is_named_by_its_index(new_log):
    """It was that in a batch of which the caller knows nothing."""
    log = new_log(message_timestamp_after_max_ms=5, max_message_bytes=2000)
    with pytest.raises(segstore.InvalidTimestampError, match=r"^record 30: timestamp") as caught:
        log.append([(TIME, None, b"x" * 500)] * 30 + [(2**60, None, b"x")])
    assert [index for index, _ in caught.value.record_errors] == [30]
    assert caught.value.message == caught.value.record_errors[0][1]


@pytest.mark.parametrize("seconds", ["1e10", "1e30", "inf", "nan"])
def test_no_sync_is_promised_for_the_end_of_time(tmp_path, seconds):
    """The thread that syncs died of it, silently."""
    with pytest.raises(segstore.IllegalArgumentError):
        segstore.open(tmp_path / "a-0", durability=f"seconds={seconds}")
    with segstore.open(tmp_path / "a-0", durability="seconds=9e9") as log:
        log.append([(TIME, b"k", b"v")])
        assert log.flush() == 1
