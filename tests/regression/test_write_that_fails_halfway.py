"""A write without a name that failed in its commit left rows, which came twice when repeated.

An abort left the files of attempts whose messages never came to the driver.
"""

from __future__ import annotations

import re

import pytest

pytest.importorskip("pyspark")

import segstore
from segstore.errors import CorruptRecordError, DiskFullError, FsyncFailedError
from segstore.log.unified_log import UnifiedLog
from segstore.spark.datasource import SegstoreDataSource
from tests.kits.commit_kit import SMALL, all_values, fail_at_append
from tests.kits.sink_kit import hidden_files, make_topic, numbered, schema_of, write_batch


@pytest.fixture
def directory(tmp_path):
    make_topic(tmp_path / "logs")
    write_batch(tmp_path / "logs", numbered(0, 10), topic="t")
    return tmp_path / "logs"


def writer_of(directory):
    options = {"path": str(directory), "topic": "t", **SMALL}
    return SegstoreDataSource(options).writer(schema_of("key", "value"), overwrite=False)


@pytest.mark.parametrize("nth", [1, 2, 9])
def test_what_was_appended_is_taken_back(directory, monkeypatch, nth):
    fail_at_append(monkeypatch, nth)
    with pytest.raises(OSError, match="as asked"):
        write_batch(directory, numbered(10, 20), topic="t", **SMALL)
    monkeypatch.undo()

    assert all_values(directory) == list(range(10))
    write_batch(directory, numbered(10, 20), topic="t")
    assert all_values(directory) == list(range(30))
    with segstore.open_dir(directory, read_only=True) as manager:
        assert all(manager.log("t", number).report.damage is None for number in range(3))


@pytest.mark.parametrize("at", [-1, 8, 16], ids=["record", "length", "magic"])
def test_a_damaged_staged_batch_takes_back_what_came_before_it(directory, at):
    """The log that refuses it is check enough: nothing of the batch is changed on its way."""
    writer = writer_of(directory)
    message = writer.write(iter([numbered(10, 20)]))
    last = max(
        (batch for batches in message.batches.values() for batch in batches),
        key=lambda batch: batch.position,
    )
    file = directory / message.file
    data = bytearray(file.read_bytes())
    data[last.position + (at if at >= 0 else last.size_bytes - 1)] ^= 1
    file.write_bytes(data)

    with pytest.raises(
        CorruptRecordError, match=rf"{message.file}, position {last.position}: a staged"
    ):
        writer.commit([message])
    assert all_values(directory) == list(range(10))


def test_a_batch_of_another_number_of_records_is_none_of_the_write(directory):
    writer = writer_of(directory)
    message = writer.write(iter([numbered(10, 20)]))
    batches = next(iter(message.batches.values()))
    batches[0] = batches[0]._replace(records_count=batches[0].records_count + 1)

    with pytest.raises(CorruptRecordError, match=r"found \d+ records, expected a batch of"):
        writer.commit([message])
    assert all_values(directory) == list(range(10))


def test_what_cannot_be_taken_back_is_told(directory, monkeypatch):
    def failing(_log, _offset):
        raise DiskFullError("no room")

    fail_at_append(monkeypatch, 9)
    monkeypatch.setattr(UnifiedLog, "truncate_to", failing)
    with pytest.raises(OSError, match="as asked") as caught:
        write_batch(directory, numbered(10, 20), topic="t", **SMALL)
    (note, *_) = caught.value.__notes__
    assert re.search(r"may be left in t-\d from offset \d+ on: .*no room", note)
    assert len(all_values(directory)) > 10


def test_a_failure_to_sync_says_where_the_records_are(directory, monkeypatch):
    """Some are durable then, and may have been read: nothing is taken back without a word."""
    close, closed = UnifiedLog.close, []

    def failing(self):
        closed.append(self)
        if len(closed) == 2:
            raise FsyncFailedError("as asked")
        close(self)

    monkeypatch.setattr(UnifiedLog, "close", failing)
    with pytest.raises(FsyncFailedError, match="as asked") as caught:
        write_batch(directory, numbered(10, 20), topic="t")
    monkeypatch.undo()
    notes = "".join(caught.value.__notes__)
    assert re.findall(r"may be left in (t-\d) from offset \d+ on: others", notes) == [
        "t-0",
        "t-1",
        "t-2",
    ]
    assert set(range(10)) < set(all_values(directory))


def test_an_abort_removes_the_files_of_lost_attempts(directory):
    """Killed, or denied by the coordinator: the driver has no message of them."""
    writer = writer_of(directory)
    messages = [writer.write(iter([numbered(0, 10)])) for _ in range(2)]
    others = writer_of(directory).write(iter([numbered(0, 10)]))
    writer.abort([messages[0], None])

    assert hidden_files(directory, "staged") == [others.file]


def test_an_abort_of_nothing_makes_no_directory(tmp_path):
    writer_of(tmp_path / "none").abort([None])
    assert list(tmp_path.iterdir()) == []
