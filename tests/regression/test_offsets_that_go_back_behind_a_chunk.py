"""A record was handed out at a false offset: its batch was the last one of the chunk that was read.

The next chunk began below it. So many good batches were said to be no batches, and not the one that
lies: offsets were compared within a chunk only. Or the range ended below the false offset, and the
records of the batch, and all behind it, were left out in silence.
"""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from segstore.errors import CorruptLogError, CorruptRecordError
from segstore.log import chunk_reader
from segstore.log.local.segment import Segment
from tests.kits.log_kit import at, offsets

SIZE = len(at(0, 3))
BATCHES = 6
END = 3 * BATCHES
LAST_OF_CHUNK = 2
BORDER = (LAST_OF_CHUNK + 1) * SIZE
LARGE, SMALL = BORDER + 40, BORDER
"""Of a chunk: the base offset of the next batch is in what was read, or is not."""
CHUNKS = [SMALL, BORDER + 7, BORDER + 8, LARGE, BORDER + SIZE - 1]


@pytest.fixture
def file(new_log, tmp_path) -> Path:
    """A sealed segment of batches of three, in a log that may have gaps, as a broker leaves it."""
    with new_log() as log:
        for base in range(0, END, 3):
            log.append_as_follower(at(base, 3), 0)
        log.roll()
        log.append_as_follower(at(END, 3), 0)
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
    new_log, monkeypatch, file, chunk_bytes, batch, named, found
):
    """[DUR-50, DUR-79] And the error names them, file and position."""
    name(file, batch, named)
    seen, error = read(new_log(read_only=True), monkeypatch, chunk_bytes, 0, END)

    assert seen == [0, 1, 2, 3, 4, 5]
    assert (error.file, error.position) == (str(file), LAST_OF_CHUNK * SIZE)
    assert (error.found, error.expected) == (found, "offsets that ascend")


@pytest.mark.parametrize("chunk_bytes", [1, SIZE, SIZE + 20])
def test_a_chunk_of_one_batch(new_log, monkeypatch, file, chunk_bytes):
    """[DUR-79]"""
    name(file, LAST_OF_CHUNK, 11)
    seen, error = read(new_log(read_only=True), monkeypatch, chunk_bytes)

    assert seen == [0, 1, 2, 3, 4, 5]
    assert error.position == LAST_OF_CHUNK * SIZE


@pytest.mark.parametrize("chunk_bytes", CHUNKS)
def test_a_range_that_ends_below_the_false_offset(new_log, monkeypatch, file, chunk_bytes):
    """[DUR-79] Records 6 to 8 are in the range, and are not there."""
    name(file, LAST_OF_CHUNK, 13)
    log = new_log(read_only=True)

    assert read(log, monkeypatch, chunk_bytes, 0, 12)[0] == [0, 1, 2, 3, 4, 5]
    assert offsets(log.scan(0, 6)) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("chunk_bytes", CHUNKS)
def test_a_gap_is_legal(new_log, monkeypatch, file, chunk_bytes):
    """[DUR-79] A broker compacted the log: 9 to 14 are gone."""
    content = file.read_bytes()
    file.write_bytes(content[:BORDER] + content[BORDER + 2 * SIZE :])
    monkeypatch.setattr(chunk_reader, "CHUNK_BYTES", chunk_bytes)

    assert offsets(new_log(read_only=True).scan()) == [*range(9), *range(15, 21)]


@pytest.mark.parametrize("chunk_bytes", CHUNKS)
@pytest.mark.parametrize("damage", [b"\0" * 30, b"\xff" * 30], ids=["zeros", "ones"])
def test_bytes_that_are_no_batch_say_nothing_of_the_one_before(
    new_log, monkeypatch, file, chunk_bytes, damage
):
    """[DUR-50, DUR-79] It is handed out, and they are named."""
    monkeypatch.setattr(chunk_reader, "CHUNK_BYTES", chunk_bytes)
    with file.open("r+b") as opened:
        opened.seek(BORDER)
        opened.write(damage)
    log = new_log(read_only=True)
    seen: list[int] = []
    with pytest.raises((CorruptLogError, CorruptRecordError)) as told:
        seen.extend(record.offset for record in log.scan())

    assert seen == [*range(9)]
    assert (told.value.file, told.value.position) == (str(file), BORDER)


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


@pytest.mark.usefixtures("file")
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
