"""A reader beside a writer that cut the log and wrote it again, or deleted it.

The reader spoke of corruption where nothing was damaged, went on behind records that were others by
now, or waited for ever for records of a log that was gone.
"""

from __future__ import annotations

import pytest

import segstore
from segstore import CorruptLogError, LogNotFoundError, LogTruncatedError


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a-0"


def _stale(path):
    """Return a writer, and a reader that has not seen that the log was cut and written again."""
    writer = segstore.open(path)
    for _ in range(3):
        writer.append([(None, b"abc")])
    reader = segstore.open(path, read_only=True)
    writer.truncate_to(0)
    writer.append([(None, b"n%d" % number) for number in range(20)])
    return writer, reader


WAYS = {
    "iterate": list,
    "read": lambda log: list(log.read(0, 10**6)),
    "arrow": lambda log: log.to_arrow(),
    "slice": lambda log: list(log.slice(0, 10**6).records()),
    "committed": lambda log: list(log.scan(isolation="read_committed")),
}


@pytest.mark.parametrize("way", WAYS)
def test_what_is_no_damage_is_called_a_truncation(path, way):
    """[DUR-77]"""
    writer, reader = _stale(path)
    with writer, reader:
        with pytest.raises(LogTruncatedError):
            WAYS[way](reader)
        with pytest.raises(LogTruncatedError):
            reader.refresh()
        assert [record.offset for record in reader] == list(range(20))
        assert reader.verify().ok


def test_damage_stays_damage(path):
    """[DUR-79] Beside a writer that did not cut."""
    with segstore.open(path) as writer:
        for number in range(3):
            writer.append([(None, b"abc%d" % number)])
        reader = segstore.open(path, read_only=True)
        file = path / f"{0:020d}.log"
        content = bytearray(file.read_bytes())
        content[len(content) // 3 + 11] ^= 0xFF  # the length of the second batch
        file.write_bytes(content)
        with pytest.raises(CorruptLogError):
            list(reader)
        reader.close()


@pytest.mark.parametrize("more", [0, 1, 5])
def test_a_tail_over_other_records_up_to_the_same_end_or_beyond(path, more):
    """[DUR-77] The last batch that was read is another one now."""
    with segstore.open(path) as writer:
        writer.append([(None, b"a")])
        writer.append([(None, b"b")])
        with segstore.open(path, read_only=True) as reader:
            tail = reader.tail(0, timeout=0.2)
            assert [next(tail).value, next(tail).value] == [b"a", b"b"]
            writer.truncate_to(1)
            for number in range(1 + more):
                writer.append([(None, b"%d" % number)])
            with pytest.raises(LogTruncatedError):
                list(tail)
            assert reader.log_end_offset == 2 + more
            assert [record.value for record in reader.scan(1)] == [
                b"%d" % number for number in range(1 + more)
            ]
            assert reader.refresh() == 2 + more
            writer.append([(None, b"new")])
            assert [record.value for record in reader.tail(2 + more, timeout=0.1)] == [b"new"]


def test_a_log_that_was_emptied_and_written_again(path):
    """[DUR-77, TRU-4] Its file is another one."""
    with segstore.open(path) as writer:
        writer.append([(None, b"a")])
        with segstore.open(path, read_only=True) as reader:
            writer.truncate_fully_and_start_at(0)
            writer.append([(None, b"b")])
            with pytest.raises(LogTruncatedError):
                reader.refresh()
            assert [record.value for record in reader] == [b"b"]


def test_a_writer_that_only_appends_is_followed(path):
    """[DUR-76, DUR-77] Over rolls, too."""
    with segstore.open(path) as writer, segstore.open(path, read_only=True) as reader:
        for number in range(10):
            writer.append([(None, b"%d" % number)])
            if number % 3 == 2:
                writer.roll()
            if number % 2:
                assert reader.refresh() == number + 1
        writer.delete_records(5)
        assert reader.refresh() == 10
        assert [record.offset for record in reader] == list(range(5, 10))


@pytest.mark.parametrize("anew", [False, True])
def test_a_log_that_was_deleted(path, anew):
    """[DUR-77, DEL-1] Who follows it is told; another log of that name is another log."""
    writer = segstore.open(path)
    writer.append([(None, b"a")])
    reader = segstore.open(path, read_only=True)
    tail = reader.tail(0)
    assert next(tail).value == b"a"
    writer.delete()
    if anew:
        writer = segstore.open(path)
        writer.append([(None, b"n1")])
        writer.append([(None, b"n2")])
        writer.close()
    with pytest.raises(LogNotFoundError):
        next(tail)
    with pytest.raises(LogNotFoundError):
        reader.refresh()
    reader.close()
