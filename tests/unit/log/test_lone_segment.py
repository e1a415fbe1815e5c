"""One ``.log`` file alone, under any name. Case 35: it could not be read without its directory."""

from __future__ import annotations

import itertools
import pickle
import struct
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore import cli
from segstore._core import crc32c
from segstore.errors import (
    ArgumentTypeError,
    CorruptRecordError,
    IllegalArgumentError,
    InvalidRecordError,
    LogNotFoundError,
    NotALogError,
)
from segstore.log.files.checkpoints import IMPORT_MARKER
from segstore.types import TopicPartition
from tests.kits.log_kit import at, batch, message_of_magic_1, offsets
from tests.unit.log.test_committed_view import PLAIN, data, marker

if TYPE_CHECKING:
    from pathlib import Path

BATCHES = [at(40, 2), at(42), at(43, 3), at(46)]


def file_of(tmp_path: Path, content: bytes, name: str = "a copy of it") -> Path:
    path = tmp_path / name
    path.write_bytes(content)
    return path


def test_a_file_under_any_name_is_read(tmp_path: Path):
    """Case 35: records, batches, Arrow, offsets; nothing is written beside it."""
    path = file_of(tmp_path, b"".join(BATCHES))
    with segstore.open_segment(path) as segment:
        assert offsets(segment) == list(range(40, 47))
        assert (segment.log_start_offset, segment.log_end_offset) == (40, 47)
        assert [one.base_offset for one in segment.batches()] == [40, 42, 43, 46]
        assert segment.to_arrow(["offset"]).column("offset").to_pylist() == list(range(40, 47))
        assert offsets(segment.scan(43, 46)) == [43, 44, 45]
        assert offsets(segment.scan(0, 41)) == [40]
        assert offsets(segment.scan(47)) == []
        assert segment.scan(41).count(by_headers=True) == 6
        assert segment.topic_partition == TopicPartition("", -1)
        assert segment.scan().skipped == ()
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


def test_what_the_records_are_said_to_be_of(tmp_path: Path):
    """The directory's name, where it is that of a partition, or what the caller says."""
    (tmp_path / "orders-3").mkdir()
    path = file_of(tmp_path / "orders-3", at(0), f"{0:020}.log.deleted")
    with segstore.open_segment(path) as segment:
        assert next(iter(segment)).topic == "orders"
    with segstore.open_segment(path, as_="other-1") as segment:
        assert [(one.topic, one.partition) for one in segment] == [("other", 1)]
    with pytest.raises(NotALogError):
        segstore.open_segment(path, as_="other")


def test_old_and_compressed_batches_are_read(tmp_path: Path):
    """Magic 1 and 2, plain and compressed, one behind the other."""
    content = message_of_magic_1(5) + batch([(None, b"a" * 500)] * 3, base_offset=6, codec=4)
    with segstore.open_segment(file_of(tmp_path, content)) as segment:
        assert offsets(segment) == [5, 6, 7, 8]
        assert segment.log_start_offset == 5


def test_a_file_that_ends_inside_a_batch(tmp_path: Path):
    """It may be one that is being written: the whole batches come, and the rest is named."""
    with segstore.open_segment(file_of(tmp_path, b"".join(BATCHES)[:-3])) as segment:
        scan = segment.scan()
        assert offsets(scan) == list(range(40, 46))
        assert [(one.first_offset, one.next_offset) for one in scan.skipped] == [(46, None)]
    with segstore.open_segment(file_of(tmp_path, b"".join(BATCHES) + b"\0" * 99)) as segment:
        scan = segment.scan()
        assert offsets(scan) == list(range(40, 47))
        assert scan.skipped == ()  # room that was allocated ahead


@pytest.mark.parametrize("name", ["any", f"{40:020}.log"])
def test_a_damaged_file(tmp_path: Path, name: str):
    """The error has the way on; a scan may go on by itself."""
    content = bytearray(b"".join(BATCHES))
    content[len(BATCHES[0]) + 30] ^= 1
    with segstore.open_segment(file_of(tmp_path, bytes(content), name)) as segment:
        with pytest.raises(CorruptRecordError) as caught:
            list(segment)
        assert caught.value.position == len(BATCHES[0])
        assert caught.value.next_readable_offset == 43
        assert offsets(segment.scan(43)) == [43, 44, 45, 46]
        scan = segment.scan(on_damage="skip")
        assert offsets(scan) == [40, 41, 43, 44, 45, 46]
        assert [(one.first_offset, one.next_offset) for one in scan.skipped] == [(42, 43)]
        assert offsets(segment.scan(check_crcs=False)) == list(range(40, 47))


def test_a_file_whose_beginning_is_damaged(tmp_path: Path):
    """Its name says what is missing, when it is that of a segment."""
    content = b"\0" * 20 + b"".join(BATCHES)[20:]
    for name, first in (("any", 0), (f"{40:020}.log", 40)):
        with segstore.open_segment(file_of(tmp_path, content, name)) as segment:
            assert (segment.log_start_offset, segment.log_end_offset) == (first, 47)
            scan = segment.scan(on_damage="skip")
            assert offsets(scan) == list(range(42, 47))
            assert [(one.first_offset, one.next_offset) for one in scan.skipped] == [(first, 42)]


def test_a_batch_that_cannot_be_decoded(tmp_path: Path):
    """Its checksum is right: the records before it come, and the error says where to go on."""
    broken = bytearray(at(41))
    broken[61] = 99  # the length of the record
    broken[17:21] = struct.pack(">I", crc32c(broken[21:]))
    with segstore.open_segment(file_of(tmp_path, at(40) + broken + at(42))) as segment:
        with pytest.raises(InvalidRecordError) as caught:
            list(segment)
        assert caught.value.next_readable_offset == 42
        assert offsets(segment.scan(on_damage="skip")) == [40, 42]


def test_committed_data_of_one_file(tmp_path: Path):
    """Its own markers decide; a transaction that is open at its end is left out."""
    content = data(11, 0, 2) + data(PLAIN, 2, 1) + marker(11, 3, "abort") + data(11, 4, 1)
    with segstore.open_segment(file_of(tmp_path, content)) as segment:
        assert offsets(segment.scan(isolation="read_committed")) == [2]
        assert segment.last_stable_offset == 4


def test_a_scan_from_any_offset_ends_at_the_same_stable_one(tmp_path: Path):
    """[TXX-*] The transaction that holds committed reads back may begin before the scan does."""
    plain = b"".join(data(PLAIN, n, 1) for n in range(1, 11))
    aborted = data(11, 0, 2) + data(PLAIN, 2, 1) + data(11, 3, 2) + marker(11, 5, "abort")
    (tmp_path / "t-0").mkdir()
    for stored, visible in ((data(11, 0, 1) + plain, []), (aborted + data(PLAIN, 6, 1), [2, 6])):
        path = file_of(tmp_path / "t-0", stored, f"{0:020}.log")
        with (
            segstore.open_segment(path) as files,
            segstore.open(path.parent, read_only=True) as log,
        ):
            for reader in (files, log):
                for start, on_damage in itertools.product(range(8), ("raise", "skip")):
                    query = {"isolation": "read_committed", "on_damage": on_damage}
                    if start <= log.log_end_offset:
                        wanted = [offset for offset in visible if offset >= start]
                        assert offsets(reader.scan(start, **query)) == wanted
                        assert offsets(reader.scan(**query)[start:]) == wanted


def test_an_open_transaction_before_the_log_start_holds_back_a_scan_around_damage(tmp_path: Path):
    """[LSO-1] Its records were deleted, and it is open as before."""
    (tmp_path / "t-0").mkdir()
    file_of(tmp_path / "t-0", data(11, 0, 1) + data(PLAIN, 1, 9), f"{0:020}.log")
    with segstore.open(tmp_path / "t-0") as log:
        log.delete_records(5)
        for on_damage in ("raise", "skip"):
            assert offsets(log.scan(isolation="read_committed", on_damage=on_damage)) == []


def test_times_of_one_file(tmp_path: Path):
    """Without a time index, by the records."""
    content = b"".join(batch([(1000 + n, None, b"v")], base_offset=n) for n in range(5))
    with segstore.open_segment(file_of(tmp_path, content)) as segment:
        assert segment.offset_for_timestamp(1003) == 3
        assert segment.offset_for_timestamp(2000) is None
        assert offsets(segment.scan(start_timestamp=1001, end_timestamp=1003)) == [1, 2]


def test_what_is_no_log_file(tmp_path: Path):
    """Each refusal names what reads the thing; bytes that are no batch are damage of a segment."""
    with pytest.raises(LogNotFoundError):
        segstore.open_segment(tmp_path / "none")
    with pytest.raises(LogNotFoundError):
        segstore.open_segment(tmp_path / "none" / "x.log")
    with pytest.raises(NotALogError, match=r"segstore\.open"):
        segstore.open_segment(tmp_path)
    with pytest.raises(NotALogError, match="segstore dump"):
        segstore.open_segment(file_of(tmp_path, b"", f"{0:020}.index"))
    with pytest.raises(NotALogError, match="open_segment"):
        segstore.open(file_of(tmp_path, at(0)), read_only=True)
    name = f"{0:020}.log"
    with segstore.open_segment(file_of(tmp_path, b"hello world" * 99, name)) as segment:
        with pytest.raises(CorruptRecordError) as caught:
            list(segment)
        assert caught.value.next_readable_offset is None
    with segstore.open_segment(file_of(tmp_path, b"")) as segment:
        assert offsets(segment) == []
        assert (segment.log_start_offset, segment.log_end_offset) == (0, 0)


def test_arguments_are_those_of_a_log(tmp_path: Path):
    """And a handle does not travel to another process."""
    with segstore.open_segment(file_of(tmp_path, at(0))) as segment:
        with pytest.raises(IllegalArgumentError):
            segment.scan(3, 1)
        with pytest.raises(IllegalArgumentError):
            segment.scan(columns=["nothing"])
        with pytest.raises(ArgumentTypeError):
            segment.scan("0")  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            pickle.dumps(segment)


def test_a_file_without_a_batch_is_no_log(tmp_path):
    """Parquet and CSV were logs without records: a lazy frame had no rows."""
    polars = pytest.importorskip("segstore.polars")
    for name, content in {"other.parquet": b"PAR1" * 500, "rows.csv": b"a,b\n1,2\n" * 50}.items():
        path = tmp_path / name
        path.write_bytes(content)
        for opened in (segstore.open_segment, lambda path: polars.scan_log(path).collect()):
            with pytest.raises(Exception, match="this is no log"):  # polars has errors of its own
                opened(path)
        assert cli.main(["cat", str(path)]) != 0
    empty = tmp_path / "empty.log"
    empty.touch()
    with segstore.open_segment(empty) as segment:
        assert len(segment) == 0
    named = tmp_path / f"{0:020d}.log"  # a damaged segment
    named.write_bytes(b"?" * 500)
    with segstore.open_segment(named) as segment:
        assert segment.damaged_end is not None


def test_files_of_an_unfinished_import_are_refused(tmp_path):
    """As the log itself is: records may be missing."""
    polars = pytest.importorskip("segstore.polars")
    with segstore.open(tmp_path / "orders-0") as log:
        log.append([(b"k", b"v")])
    (tmp_path / "orders-0" / IMPORT_MARKER).touch()
    for opened in (segstore.open_segment, lambda path: polars.scan_log(path).collect()):
        with pytest.raises(Exception, match="import of this log is not finished"):
            opened(f"{tmp_path}/orders-0/*.log")
