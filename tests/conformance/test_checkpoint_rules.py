"""Checkpoints of log directories and partitions, rule by rule [CKP-*]."""

from __future__ import annotations

import errno
import uuid
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore._core import Directory, FileBarrier, SimulatedDisk
from segstore.errors import (
    CorruptCheckpointError,
    FsyncFailedError,
    LogReadOnlyError,
    ReadIOError,
)
from segstore.log.files.checkpoints import (
    HIGH_WATERMARK_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
    parse_leader_epoch_checkpoint,
    parse_offset_checkpoint,
    parse_partition_metadata,
)
from segstore.log.files.log_directory_checkpoints import OwnedCheckpoints
from segstore.log.files.partition_metadata_file import topic_id_text
from segstore.log.log_dir_failure_channel import LogDirFailureChannel
from segstore.log.log_environment import LogEnvironment
from segstore.log.log_opener import open_partition
from segstore.log.open_options import open_options
from segstore.types import EpochEntry, TopicPartition
from tests.kits.log_kit import TIME, Scheduler, batch

if TYPE_CHECKING:
    from pathlib import Path

    from segstore import UnifiedLog

OF_DIRECTORY = (RECOVERY_POINT_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT)
ORDERS = TopicPartition("orders", 0)
PLAIN = [(None, b"v")]


def written_by_kafkas_profile(path: Path) -> None:
    """Leave a directory with two partitions of 3 and 5 records, the second from offset 2 on."""
    with segstore.open_dir(path, recovery="kafka") as logs:
        logs.create_topic("orders", 2)
        for number, count in enumerate((3, 5)):
            log = logs.log("orders", number)
            for _ in range(count):
                log.append_as_leader(batch([(None, b"v")]), 4)
            log.update_high_watermark(count)
        logs.log("orders", 1).maybe_increment_log_start_offset(2)


@pytest.mark.parametrize(
    ("name", "entries"),
    [
        (RECOVERY_POINT_CHECKPOINT, {"orders 0 3", "orders 1 5"}),  # [CKP-10]
        (LOG_START_OFFSET_CHECKPOINT, {"orders 1 2"}),  # [CKP-11]
        (HIGH_WATERMARK_CHECKPOINT, {"orders 0 3", "orders 1 5"}),  # [CKP-12]
        (f"orders-0/{LEADER_EPOCH_CHECKPOINT}", {"4 0"}),  # [CKP-14]
    ],
)
def test_the_files_as_they_are_written(tmp_path, name, entries):
    """[CKP-1, CKP-2, CKP-10, CKP-11, CKP-12, CKP-14] Version, count, an entry a line."""
    written_by_kafkas_profile(tmp_path)
    version, count, *lines = (tmp_path / name).read_bytes().decode().split("\n")
    assert (version, count, lines.pop()) == ("0", str(len(entries)), "")
    assert set(lines) == entries
    assert len(lines) == len(entries)


def test_a_manager_makes_empty_files_and_keeps_those_that_are_there(tmp_path):
    """[CKP-3]"""
    kept = b"0\n1\nother 7 9\n"
    (tmp_path / RECOVERY_POINT_CHECKPOINT).write_bytes(kept)
    manager = segstore.open_dir(tmp_path, recovery="kafka")
    assert (tmp_path / RECOVERY_POINT_CHECKPOINT).read_bytes() == kept
    assert (tmp_path / LOG_START_OFFSET_CHECKPOINT).read_bytes() == b""
    manager.close()


def test_a_checkpoint_is_synced_before_it_has_its_name():
    """[CKP-4] Temporary file, sync, rename, sync of the directory."""
    disk = SimulatedDisk()
    directory = Directory("/d", disk, create=True)
    before = disk.effects
    directory.write_file_atomically("c", b"0\n0\n", FileBarrier.SHARED_CHECKPOINT)
    events = [disk.event(number) for number in range(before + 1, disk.effects + 1)]
    assert [(one.call, one.name, one.to) for one in events] == [
        ("open_file", "c.tmp", ""),
        ("truncate", "c.tmp", ""),
        ("write_at", "c.tmp", ""),
        ("sync_file", "c.tmp", ""),
        ("rename", "c.tmp", "c"),
        ("sync_directory", ".", ""),
    ]
    directory.close()


@pytest.mark.parametrize("fate", ["lost", "kept"])
def test_a_crash_leaves_the_old_checkpoint_or_the_new_one(fate):
    """[CKP-4] Whole, at each moment of the write."""
    disk = SimulatedDisk()
    directory = Directory("/d", disk, create=True)
    contents = [b"0\n1\norders 0 7\n", b"0\n2\norders 0 8\nclicks 0 9\n"]
    directory.write_file_atomically("c", contents[0], FileBarrier.SHARED_CHECKPOINT)
    before = disk.effects
    directory.write_file_atomically("c", contents[1], FileBarrier.SHARED_CHECKPOINT)
    found = []
    for effects in range(before, disk.effects + 1):
        image = disk.crash_image(effects, fate=fate)
        after = Directory("/d", image)
        found.append(contents.index(after.read_file("c")))
        after.close()
    assert found == sorted(found)
    assert (found[0], found[-1]) == (0, 1)
    directory.close()


@pytest.mark.parametrize("data", [b"", b"0", b"0\n"])
def test_a_file_without_a_count_has_no_entries(data):
    """[CKP-5]"""
    assert parse_offset_checkpoint(data) == {}
    assert parse_leader_epoch_checkpoint(data) == []


@pytest.mark.parametrize(
    "data",
    [
        b"zero\n0\n",
        b"1\n0\n",
        b"0\nmany\n",
        b"0\n1\norders 0\n",
        b"0\n1\norders 0 1 2\n",
        b"0\n2\norders 0 1\n",
        b"0\n1\norders 0 1\norders 1 1\n",
    ],
)
def test_a_file_that_is_no_checkpoint(data):
    """[CKP-6]"""
    with pytest.raises(CorruptCheckpointError):
        parse_offset_checkpoint(data)


@pytest.mark.parametrize(
    ("line", "is_read"),
    [
        (b"orders 0 7", True),
        (b"orders   0\t7", True),
        (b"orders 0 7  ", True),
        (b" orders 0 7", False),
        (b"orders 0", False),
        (b"orders 0 7 8", False),
        (b"", False),
    ],
)
def test_blanks_in_a_line(line, is_read):
    """[CKP-15] Three words for an offset, two for an epoch; a blank before them is a word."""
    data = b"0\n1\n%s\n" % line
    epochs = data.replace(b"orders", b"", 1) if line.startswith(b"orders ") else data
    if is_read:
        assert parse_offset_checkpoint(data) == {ORDERS: 7}
        two_words = b"0\n1\n%s\n" % line.partition(b"orders")[2].strip()
        assert parse_leader_epoch_checkpoint(two_words) == [EpochEntry(0, 7)]
        return
    for parse, content in (
        (parse_offset_checkpoint, data),
        (parse_leader_epoch_checkpoint, epochs),
    ):
        with pytest.raises(CorruptCheckpointError):
            parse(content)


def test_the_order_of_the_lines():
    """[CKP-16] It says nothing; of two lines for a partition the last counts."""
    lines = [b"orders 0 5\n", b"clicks 3 1\n", b"orders 0 7\n"]
    expected = {ORDERS: 7, TopicPartition("clicks", 3): 1}
    assert parse_offset_checkpoint(b"0\n3\n" + b"".join(lines)) == expected
    lines.insert(0, lines.pop(1))
    assert parse_offset_checkpoint(b"0\n3\n" + b"".join(lines)) == expected


def test_high_watermarks_are_read_once_and_late(tmp_path):
    """[CKP-17] At the first question; later ones are answered from memory."""
    directory = Directory(str(tmp_path))
    checkpoints = OwnedCheckpoints(directory)
    file = tmp_path / HIGH_WATERMARK_CHECKPOINT
    file.write_bytes(b"0\n1\norders 0 7\n")
    assert checkpoints.offset(HIGH_WATERMARK_CHECKPOINT, ORDERS) == 7
    file.write_bytes(b"0\n1\norders 0 8\n")
    assert checkpoints.offset(HIGH_WATERMARK_CHECKPOINT, ORDERS) == 7
    assert checkpoints.offset(HIGH_WATERMARK_CHECKPOINT, TopicPartition("orders", 1)) is None
    directory.close()


# ---- partition.metadata --------------------------------------------------------------------------

TOPIC_ID = uuid.UUID(int=0x9750B59B2A27D8F069491A516AFDBB7C)
TEXT = topic_id_text(TOPIC_ID)


@pytest.mark.parametrize(
    "text",
    [
        "version: 0\ntopic_id: {}",
        "version: 7\ntopic_id: {}\n",
        "another word:  0\nand another: {}\nmore lines: 1\nx",
    ],
)
def test_what_is_not_looked_at_in_partition_metadata(text):
    """[CKP-27] Any version from 0 on, the words before the colons, and what follows two lines."""
    assert parse_partition_metadata(text.format(TEXT).encode()) == TOPIC_ID


@pytest.mark.parametrize(
    "text",
    [
        "version: -1\ntopic_id: {}",
        "version: one\ntopic_id: {}",
        "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA",
        "version:0\ntopic_id: {}",
        "version: 0\ntopic_id {}",
        "version: 0",
        "version: 0\ntopic_id: x{}",
    ],
)
def test_what_is_no_partition_metadata(text):
    """[CKP-27] One error for all of it: the log is not opened, and the directory goes on."""
    with pytest.raises(CorruptCheckpointError):
        parse_partition_metadata(text.format(TEXT).encode())


# ---- failures ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data", [b"0\n1\norders x 7\n", b"0\n1\norders 0 seven\n", b"0\n-1\n", b"0\n1\norders 0 -1\n"]
)
@pytest.mark.parametrize("name", OF_DIRECTORY)
def test_a_word_for_a_number_takes_no_directory_out_of_use(tmp_path, name, data):
    """[CKP-30, MGR-17] The file counts as one that cannot be read; its logs open."""
    with segstore.open_dir(tmp_path) as logs:
        logs.create_topic("orders")
        logs.log("orders", 0).append(PLAIN)
    (tmp_path / name).write_bytes(data)
    with segstore.open_dir(tmp_path) as logs:
        assert logs.log("orders", 0).log_end_offset == 1
        assert logs.offline_directories() == {}
        logs.log("orders", 0).append(PLAIN)


@pytest.fixture
def disk() -> SimulatedDisk:
    made = SimulatedDisk()
    made.wall_clock_ms = TIME
    Directory("/", made).make_directory("logs")
    return made


@pytest.fixture(params=["safe", "kafka"])
def two_logs(disk, request):
    """Open two logs of one directory, which share what they know of its disk."""
    failures, opened = LogDirFailureChannel(), []
    options = open_options(recovery=request.param, durability="none", segment_ms=None)
    environment = LogEnvironment(
        environment=disk, failures=failures, background=lambda *_: Scheduler()
    )

    def open_them() -> list[UnifiedLog]:
        opened[:] = [open_partition(f"/logs/orders-{n}", options, environment) for n in (0, 1)]
        return opened

    yield failures, open_them
    for log in opened:
        log.close_quietly()


def fail_at(disk: SimulatedDisk, call: str, name: str) -> None:
    """Let each such call of files of that name fail."""

    def watch(this_call: str, file: str) -> None:
        if this_call == call and file == name:
            disk.fail(call, 1, errno.EIO)

    disk.watch(watch)


def check_is_out_of_use(failures: LogDirFailureChannel, other: UnifiedLog, error: object) -> None:
    assert failures.has_offline_log_dir("/logs")
    with pytest.raises(LogReadOnlyError) as refused:
        other.append(PLAIN)
    assert refused.value.__cause__ is error


def test_a_checkpoint_that_cannot_be_synced_ends_writing_in_its_directory(disk, two_logs):
    """[CKP-7, MGR-72] All its logs raise the error of the disk as a cause from then on."""
    failures, open_them = two_logs
    log, other = open_them()
    log.append_as_leader(batch(PLAIN), 3)
    fail_at(disk, "sync_file", f"{LEADER_EPOCH_CHECKPOINT}.tmp")
    with pytest.raises(FsyncFailedError, match=LEADER_EPOCH_CHECKPOINT) as caught:
        log.append_as_leader(batch(PLAIN), 4)
    check_is_out_of_use(failures, other, caught.value)


def test_a_topic_id_that_cannot_be_synced_ends_writing_in_its_directory(disk, two_logs):
    """[CKP-26] It is due before the records of the next append, which are not written either."""
    failures, open_them = two_logs
    log, other = open_them()
    log.assign_topic_id(TOPIC_ID)
    fail_at(disk, "sync_file", f"{PARTITION_METADATA}.tmp")
    with pytest.raises(FsyncFailedError, match=PARTITION_METADATA) as caught:
        log.append(PLAIN)
    check_is_out_of_use(failures, other, caught.value)
    assert log.log_end_offset == 0


@pytest.mark.parametrize("call", ["open_file", "write_at"])
def test_a_checkpoint_that_was_not_written_is_written_by_the_next_append(disk, two_logs, call):
    """[CKP-7] Kafka ends writing here too. No record is lost: the append fails, and is tried again.

    A failed sync is another case: what the disk has is unknown then [DUR-35].
    """
    failures, open_them = two_logs
    log, _ = open_them()
    log.append_as_leader(batch(PLAIN), 3)
    fail_at(disk, call, f"{LEADER_EPOCH_CHECKPOINT}.tmp")
    with pytest.raises(OSError, match=LEADER_EPOCH_CHECKPOINT):
        log.append_as_leader(batch(PLAIN), 4)
    assert not failures.has_offline_log_dir("/logs")
    disk.watch(None)
    before = log.log_end_offset
    log.append_as_leader(batch(PLAIN), 4)
    assert log.log_end_offset == before + 1
    written = Directory(log.path, disk).read_file(LEADER_EPOCH_CHECKPOINT)
    assert parse_leader_epoch_checkpoint(written) == [EpochEntry(3, 0), EpochEntry(4, 1)]


@pytest.mark.parametrize("name", [LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA])
def test_a_file_that_the_disk_does_not_give_out_stops_the_open(disk, two_logs, name):
    """[CKP-7] Nothing is known of what it says, and nothing is guessed."""
    _, open_them = two_logs
    log, other = open_them()
    log.assign_topic_id(TOPIC_ID)
    log.append_as_leader(batch(PLAIN), 3)
    log.close()
    other.close()
    fail_at(disk, "read_at", name)
    with pytest.raises(ReadIOError, match=name):
        open_them()
