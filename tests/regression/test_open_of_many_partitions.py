"""Opening and closing a log directory was quadratic: its checkpoints were parsed for each log.

[DUR-21, DUR-65, CKP-10] 2,000 partitions took 35 s to open and 21 s to close. Looked for besides:
each append listed the directory; each first open looked through all open logs; each close wrote the
lines of all logs; readers (a read-only manager, ``segstore ls``, Spark's driver) parsed as writers.
"""

from __future__ import annotations

import time

import pytest

import segstore
from segstore.log.files import checkpoints, log_directory_checkpoints
from segstore.log.files.parsed_file import SETTLED_NS
from segstore.log.files.topics_file import TOPICS_FILE
from segstore.manager import partition_listing
from segstore.types import TopicPartition

TOPIC = "a-topic-with-a-rather-long-name-so-that-its-lines-are-long"
COUNTS = [80, 160]
"""The lines of 80 are more than the 4 KiB below which a file is parsed each time."""
START, POINT = "log-start-offset-checkpoint", "recovery-point-offset-checkpoint"


@pytest.fixture
def parses(monkeypatch):
    """The names of the log directory's checkpoints, one for each time that one was parsed."""
    found = []
    real = checkpoints.parse_checkpoint

    def parse(data, fields, name):
        if len(data) > 4096:
            found.append(name)
        return real(data, fields, name)

    monkeypatch.setattr(checkpoints, "parse_checkpoint", parse)
    return found


def filled(path, count: int) -> None:
    """A closed directory whose checkpoints have a line for each partition."""
    with segstore.open_dir(path, durability="none") as manager:
        manager.create_topic(TOPIC, count)
        for number in range(count):
            manager.log(TOPIC, number).append([(None, b"a"), (None, b"b")])
            manager.log(TOPIC, number).delete_records(1)
    time.sleep(2 * SETTLED_NS / 1e9)


@pytest.mark.parametrize("count", COUNTS)
def test_a_writer_parses_each_file_once_and_writes_it_once(tmp_path, parses, monkeypatch, count):
    filled(tmp_path, count)
    parses.clear()
    written = []
    real = checkpoints.format_offset_checkpoint

    def formatted(offsets):
        written.append(len(offsets))
        return real(offsets)

    monkeypatch.setattr(log_directory_checkpoints, "format_offset_checkpoint", formatted)
    with segstore.open_dir(tmp_path, durability="none") as manager:
        for number in range(count):
            manager.log(TOPIC, number).append([(None, b"c")])
    assert sorted(parses) == [START, POINT]
    assert written == [count]  # the recovery points; no log start has moved

    lines = checkpoints.parse_offset_checkpoint((tmp_path / POINT).read_bytes())
    assert lines == {TopicPartition(TOPIC, n): 3 for n in range(count)}


def test_a_log_that_is_closed_by_itself_leaves_its_log_start_above(tmp_path, monkeypatch):
    """[DUR-19, DUR-65] A manager that is killed then does not bring deleted records back.

    A broker knows no other place. Where the log start is the old one, nothing is written: a process
    that closes its logs one by one does not write the lines of all logs for each.
    """
    filled(tmp_path, 3)
    written = []
    real = checkpoints.format_offset_checkpoint

    def formatted(offsets):
        written.append(len(offsets))
        return real(offsets)

    manager = segstore.open_dir(tmp_path, durability="none")
    for number in range(3):
        manager.log(TOPIC, number).append([(None, b"c")])
    manager.log(TOPIC, 1).delete_records(2)
    monkeypatch.setattr(log_directory_checkpoints, "format_offset_checkpoint", formatted)
    for number in range(3):
        manager.log(TOPIC, number).close()

    lines = checkpoints.parse_offset_checkpoint((tmp_path / START).read_bytes())
    assert [lines[TopicPartition(TOPIC, n)] for n in range(3)] == [1, 2, 1]
    assert written == [3]
    manager.log(TOPIC, 0).delete_records(2)
    manager.log(TOPIC, 2).delete_records(3)
    manager.close()
    lines = checkpoints.parse_offset_checkpoint((tmp_path / START).read_bytes())
    assert [lines[TopicPartition(TOPIC, n)] for n in range(3)] == [2, 2, 3]
    assert written == [3, 3, 3]  # one file each


@pytest.mark.parametrize("count", COUNTS)
def test_readers_parse_each_file_once(tmp_path, parses, count):
    filled(tmp_path, count)
    parses.clear()

    for number in range(count):
        with segstore.open(tmp_path / f"{TOPIC}-{number}", read_only=True) as log:
            assert log.log_start_offset == 1
    with segstore.open_dir(tmp_path, read_only=True) as manager:
        assert {manager.log(TOPIC, n).log_end_offset for n in range(count)} == {2}
    assert sorted(parses) == [START, POINT]


def test_a_reader_sees_a_change_at_once(tmp_path):
    """[DUR-65] Also one that leaves the size as it is, and comes right behind the look."""
    filled(tmp_path, 100)
    path = tmp_path / f"{TOPIC}-7"
    (path / START).unlink()
    (path / ".kafka_cleanshutdown").unlink()
    data = (tmp_path / START).read_bytes()
    for start in (1, 2, 1, 2, 1):
        line = f"{TOPIC} 7 1\n".encode()
        (tmp_path / START).write_bytes(data.replace(line, f"{TOPIC} 7 {start}\n".encode()))
        with segstore.open(path, read_only=True) as log:
            assert log.log_start_offset == start


def test_an_append_does_not_list_a_directory_that_did_not_change(tmp_path, monkeypatch):
    filled(tmp_path, 100)
    listings = []
    real = partition_listing.PartitionListing._listed

    def listed(self):
        listings.append(1)
        return real(self)

    monkeypatch.setattr(partition_listing.PartitionListing, "_listed", listed)
    with segstore.open_dir(tmp_path, durability="none") as manager:
        manager.append(TOPIC, [(b"k", b"the first change removes the clean marker")])
        time.sleep(2 * SETTLED_NS / 1e9)
        for n in range(50):
            manager.append(TOPIC, [(b"k", b"%d" % n)])
        assert len(listings) <= 2

        (tmp_path / "new-0").mkdir()
        assert manager.topics()["new"] == [0]
        (tmp_path / "new-0").rmdir()
        assert "new" not in manager.topics()


def test_lines_of_logs_that_closed_well_are_written_beside_one_that_did_not(tmp_path, monkeypatch):
    """[DUR-24, DUR-65] No marker then; the next open, also a broker's, knows the log starts."""
    filled(tmp_path, 3)
    manager = segstore.open_dir(tmp_path, durability="none")
    for number in range(3):
        manager.log(TOPIC, number).append([(None, b"c")] * (number + 1))
    broken = manager.log(TOPIC, 1)
    real = type(broken).close

    def close(self):
        if self is broken:
            self.close_quietly()
            raise segstore.errors.CloseError("cannot close")
        real(self)

    monkeypatch.setattr(type(broken), "close", close)
    with pytest.raises(segstore.errors.CloseError):
        manager.close()

    lines = checkpoints.parse_offset_checkpoint((tmp_path / POINT).read_bytes())
    assert [lines[TopicPartition(TOPIC, n)] for n in range(3)] == [3, 2, 5]
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    assert (tmp_path / TOPICS_FILE).exists()
