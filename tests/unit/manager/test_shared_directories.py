"""``open_dir(shared=True)``: several processes, each writes other partitions [DUR-65, DUR-24]."""

from __future__ import annotations

import threading
import time
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore import _core
from segstore.errors import (
    ClosedError,
    DiskFullError,
    IllegalArgumentError,
    LogDirectoryOfflineError,
    LogLockedError,
    LogReadOnlyError,
    UnknownTopicOrPartitionError,
    WriteError,
)
from segstore.log.files import log_directory_checkpoints
from segstore.log.files.topics_file import TopicState, format_topics, parse_topics
from segstore.manager import shared_log_directory
from segstore.manager.log_directory import LogDirectory
from tests.kits.peer_kit import Peer, PeerError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from segstore import LogManager, TopicPartition

PATIENCE = 60.0
KEYED = [(b"%d" % number, b"v") for number in range(100)]
"""Records of all three partitions."""
MONTH_MS = 30 * 24 * 3600 * 1000


@pytest.fixture(scope="module")
def process() -> Iterator[Peer]:
    """One process for all tests: what each has opened is closed after it."""
    with Peer() as peer:
        yield peer


@pytest.fixture
def other(process: Peer, tmp_path: Path) -> Iterator[Peer]:
    """Another process with the directory open, as ``logs``."""
    process.do("logs = segstore.open_dir({path}, shared=True)", path=tmp_path)
    yield process
    process.do("logs.close()")


@pytest.fixture
def logs(other: Peer, tmp_path: Path) -> Iterator[LogManager]:
    """The directory, open here beside that; with a topic of three partitions."""
    del other
    with segstore.open_dir(tmp_path, shared=True) as opened:
        opened.create_topic("orders", 3)
        yield opened


def is_free(path: Path) -> bool:
    """Whether a program can open the directory for itself."""
    try:
        segstore.open_dir(path).close()
    except LogLockedError:
        return False
    return True


# ---- partitions ----------------------------------------------------------------------------------


def test_different_partitions_at_once(logs: LogManager, other: Peer):
    """[DUR-65] Each process sees what the other has appended; none waits for the other."""
    for number in range(5):
        logs.append("orders", [(None, b"%d" % number)], partition=0)
        other.do("logs.append('orders', [(None, b'v')], partition=1)")
    assert logs.log_end_offsets("orders") == {0: 5, 1: 5, 2: 0}
    assert other.ask("logs.log_end_offsets('orders')") == {0: 5, 1: 5, 2: 0}
    assert [record.value for record in logs.log("orders", 1)] == [b"v"] * 5


def test_a_partition_belongs_to_one_process_at_a_time(logs: LogManager, other: Peer):
    """[DUR-65] The other is refused, and waits with ``lock_timeout``; they write in turn."""
    logs.append("orders", [(None, b"1")], partition=0)
    with pytest.raises(PeerError, match=r"LogLockedError.*another process has the log open"):
        other.do("logs.append('orders', [(None, b'2')], partition=0)")
    assert other.ask("logs.log('orders', 0).log_end_offset") == 1
    logs.close_log("orders", 0)
    other.do("logs.append('orders', [(None, b'2')], partition=0)")
    with pytest.raises(LogLockedError):
        logs.append("orders", [(None, b"3")], partition=0)
    other.do("logs.close_log('orders', 0)")
    assert logs.append("orders", [(None, b"3")], partition=0)[0].base_offset == 2
    assert [record.value for record in logs.log("orders", 0)] == [b"1", b"2", b"3"]


@pytest.mark.usefixtures("logs")
def test_a_partition_is_waited_for(other: Peer, tmp_path: Path):
    """[DUR-65] Without the mutex of the manager: other partitions are written meanwhile."""
    other.do("logs.append('orders', [(None, b'1')], partition=0)")
    with segstore.open_dir(tmp_path, shared=True, lock_timeout=PATIENCE) as patient:
        waiting = threading.Thread(
            target=lambda: patient.append("orders", [(None, b"2")], partition=0)
        )
        waiting.start()
        time.sleep(0.05)
        patient.append("orders", [(None, b"v")], partition=1)
        assert waiting.is_alive()
        other.do("logs.close_log('orders', 0)")
        waiting.join(PATIENCE)
        assert patient.log("orders", 0).log_end_offset == 2


@pytest.mark.parametrize("written", range(3))
def test_a_refused_append_keeps_no_partition(logs: LogManager, other: Peer, written: int):
    """[DUR-65] Of keyed records, one partition is written elsewhere: all others stay free."""
    mine, free = {*range(3)} - {written}
    other.do(f"logs.append('orders', [(None, b'1')], partition={written})")
    logs.append("orders", [(None, b"1")], partition=mine)
    with pytest.raises(LogLockedError):
        logs.append("orders", KEYED)
    other.do(f"logs.append('orders', [(None, b'2')], partition={free})")
    with pytest.raises(PeerError, match="LogLockedError"):  # its writer keeps it
        other.do(f"logs.append('orders', [(None, b'2')], partition={mine})")
    assert logs.log_end_offsets("orders") == {0: 1, 1: 1, 2: 1}


@pytest.mark.parametrize("written", range(3))
@pytest.mark.usefixtures("logs")
def test_an_append_that_waits_keeps_no_partition(other: Peer, tmp_path: Path, written: int):
    """[DUR-65] So two processes that append keyed records do not wait for each other."""
    other.do(f"logs.append('orders', [(None, b'1')], partition={written})")
    with segstore.open_dir(tmp_path, shared=True, lock_timeout=PATIENCE) as patient:
        waiting = threading.Thread(target=lambda: patient.append("orders", KEYED))
        waiting.start()
        for number in range(3):
            append_when_free(other, "orders", number)
            assert waiting.is_alive()
        for number in range(3):
            other.do(f"logs.close_log('orders', {number})")
        waiting.join(PATIENCE)
        assert sum(patient.log_end_offsets("orders").values()) == 4 + len(KEYED)


@pytest.mark.parametrize("written", range(3))
@pytest.mark.usefixtures("logs")
def test_an_append_that_waits_looks_at_what_it_waits_for(
    other: Peer, tmp_path: Path, written: int, monkeypatch: pytest.MonkeyPatch
):
    """[DUR-65] It does not open the others again and again, which their writers would meet."""
    other.do(f"logs.append('orders', [(None, b'1')], partition={written})")
    looks: list[TopicPartition] = []
    look = LogDirectory.open_to_write

    def note(directory: LogDirectory, one: TopicPartition) -> segstore.UnifiedLog:
        looks.append(one)
        return look(directory, one)

    monkeypatch.setattr(LogDirectory, "open_to_write", note)
    with (
        segstore.open_dir(tmp_path, shared=True, lock_timeout=0.3) as patient,
        pytest.raises(LogLockedError, match=r"within 0\.3 seconds"),
    ):
        patient.append("orders", KEYED)
    counts = Counter(one.partition for one in looks)
    assert counts.pop(written) > 3
    assert all(count == 1 for count in counts.values())


def append_when_free(other: Peer, topic: str, partition: int) -> None:
    """Append a record by the other process, which tries again: we may look at that partition."""
    for _ in range(1000):
        try:
            other.do(f"logs.append({topic!r}, [(None, b'v')], partition={partition})")
        except PeerError as error:
            if "LogLockedError" not in str(error):
                raise
        else:
            return
    pytest.fail(f"partition {partition} was never free")


def test_a_partition_of_a_killed_process(logs: LogManager, tmp_path: Path):
    """[DUR-65] Its locks end with it; what it has acknowledged is there, after a recovery."""
    with Peer() as victim:
        victim.do("logs = segstore.open_dir({path}, shared=True)", path=tmp_path)
        victim.do("logs.append('orders', [(None, b'1')], partition=0)")
        victim.kill()
    log = logs.log_to_write("orders", 0)
    assert log.log_end_offset == 1
    assert not log.report.clean


def test_reads_take_no_lock_and_make_no_file(logs: LogManager, other: Peer, tmp_path: Path):
    """[DUR-71] A log is opened to be read until this process appends to it."""
    other.do("logs.append('orders', [(None, b'1')], partition=0)")
    before = {one: one.stat().st_mtime_ns for one in tmp_path.rglob("*")}
    log = logs.log("orders", 0)
    assert log.read_only
    with pytest.raises(LogReadOnlyError):
        log.append([(None, b"2")])
    assert {one: one.stat().st_mtime_ns for one in tmp_path.rglob("*")} == before
    other.do("logs.append('orders', [(None, b'2')], partition=0)")
    assert log.refresh() == 2


def test_each_partition_is_closed_as_one_that_is_opened_alone(logs: LogManager, tmp_path: Path):
    """[DUR-24, DUR-65] It has its own marker and lines in the checkpoints, the directory none."""
    (tmp_path / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":-1}')
    log = logs.log_to_write("orders", 1)
    log.append([(None, b"v")])
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    log.append([(None, b"v")])
    log.delete_records(1)
    logs.close_log("orders", 1)
    logs.close()
    assert (tmp_path / "orders-1" / ".kafka_cleanshutdown").exists()
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    for name, offset in (("recovery-point-offset", 2), ("log-start-offset", 1)):
        assert f"orders 1 {offset}\n" in (tmp_path / f"{name}-checkpoint").read_text()


# ---- the lock of the directory -------------------------------------------------------------------


def test_owners_of_the_whole_directory_are_kept_out(logs: LogManager, other: Peer, tmp_path: Path):
    """[DUR-65] A manager that does not share, and a broker, until the last one has closed."""
    logs.close()
    assert not is_free(tmp_path)
    other.do("logs.close()")
    assert is_free(tmp_path)


def test_an_owner_of_the_whole_directory_keeps_sharers_out(process: Peer, tmp_path: Path):
    """[DUR-65] The other way round."""
    process.do("logs = segstore.open_dir({path})", path=tmp_path)
    with pytest.raises(LogLockedError, match="a broker or a LogManager"):
        segstore.open_dir(tmp_path, shared=True)
    process.do("logs.close()")
    segstore.open_dir(tmp_path, shared=True).close()


def test_a_program_with_one_partition_and_a_tool_work_beside_it(logs: LogManager, tmp_path: Path):
    """[DUR-65] They lock the one partition."""
    with segstore.open(tmp_path / "orders-0") as log:
        log.append([(None, b"v")])
        with pytest.raises(LogLockedError):
            logs.append("orders", [(None, b"v")], partition=0)
    assert logs.append("orders", [(None, b"v")], partition=0)[0].base_offset == 1


@pytest.mark.parametrize("more", [{"read_only": True}, {"recovery": "kafka"}])
def test_what_cannot_be_shared(more: dict[str, object], tmp_path: Path):
    """Each would be a rule of its own for every other process."""
    with pytest.raises(IllegalArgumentError, match=r"shared=True is for one log directory"):
        segstore.open_dir(tmp_path / "a", shared=True, **more)
    with pytest.raises(IllegalArgumentError, match=r"found 2 log directories"):
        segstore.open_dir([tmp_path / "a", tmp_path / "b"], shared=True)
    assert not [*tmp_path.iterdir()]


# ---- topics --------------------------------------------------------------------------------------


def test_topics_of_two_processes_at_the_same_time(logs: LogManager, other: Peer, tmp_path: Path):
    """[DUR-128] Neither overwrites what the other has written in ``topics.json``."""
    other.begin("exec:for n in range(8): logs.create_topic('b-%d' % n, 2)")
    for number in range(8):
        logs.create_topic(f"a-{number}", 2, config={"retention.ms": 1000 + number})
        logs.alter_topic(f"a-{number}", {"retention.bytes": number})
    other.finish()
    expected = {"orders", *(f"{letter}-{number}" for letter in "ab" for number in range(8))}
    assert parse_topics((tmp_path / "topics.json").read_bytes()).topics.keys() == expected
    assert {*logs.topics()} == {*other.ask("list(logs.topics())")} == expected
    config = other.ask("logs.log('a-3', 1).config.to_values()['retention.ms']")
    assert config == 1003


def test_a_new_topic_is_for_all(logs: LogManager, other: Peer):
    """[MGR-63] The process that made it holds none of its partitions."""
    other.do("logs.create_topic('new', 2)")
    logs.append("new", [(None, b"v")], partition=0)
    logs.alter_topic("new", partitions=4)
    other.do("logs.append('new', [(None, b'v')], partition=3)")


def test_a_deletion_is_refused_while_a_partition_is_written(logs: LogManager, other: Peer):
    """[MGR-63] All of the topic stays; after that it goes, for all processes."""
    other.do("logs.append('orders', [(None, b'v')], partition=2)")
    with pytest.raises(LogLockedError, match=r"orders-2.*another process"):
        logs.delete_topic("orders")
    with pytest.raises(LogLockedError, match=r"orders-2.*another process"):
        logs.delete_partition("orders", 2)
    with pytest.raises(LogLockedError, match=r"orders-2.*another process"):
        logs.set_aside_partition("orders", 2)
    assert other.ask("logs.topics()") == {"orders": [0, 1, 2]}
    logs.append("orders", [(None, b"v")], partition=0)
    other.do("logs.close_log('orders', 2)")
    logs.delete_topic("orders")
    assert other.ask("logs.topics()") == {}
    with pytest.raises(UnknownTopicOrPartitionError):
        logs.log("orders", 0)
    with pytest.raises(PeerError, match="UnknownTopicOrPartitionError"):
        other.do("logs.append('orders', [(None, b'v')], partition=0)")


def test_a_topic_that_is_made_again(logs: LogManager, other: Peer, tmp_path: Path):
    """[DUR-120, DUR-121] It has nothing of the one before, in no file of the directory."""
    other.do("log = logs.log_to_write('orders', 0)")
    other.do("log.append([(None, b'v')] * 5); log.delete_records(3); logs.close_log('orders', 0)")
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 5\n")
    assert logs.log("orders", 0).log_start_offset == 3
    logs.delete_topic("orders")
    for name in ("recovery-point-offset", "log-start-offset", "cleaner-offset"):
        assert "orders 0" not in (tmp_path / f"{name}-checkpoint").read_text()
    other.do("logs.create_topic('orders', 1)")
    assert other.ask("logs.log_end_offsets('orders')") == {0: 0}
    assert logs.append("orders", [(None, b"v")], partition=0)[0].base_offset == 0


def test_a_change_that_a_kill_has_interrupted(logs: LogManager, tmp_path: Path):
    """[DUR-23] The next change of the topic, or the next open, finishes or undoes it."""
    file = parse_topics((tmp_path / "topics.json").read_bytes())
    entry = file.topics["orders"]

    def leave(**changes: object) -> None:
        half = file._replace(topics={"orders": entry._replace(**changes)})
        (tmp_path / "topics.json").write_bytes(format_topics(*half))

    leave(adding=1, partitions=2)
    logs.append("orders", [(None, b"v")], partition=0)
    with segstore.open_dir(tmp_path, shared=True) as again:
        assert again.topics() == {"orders": [0, 1]}
    leave(state=TopicState.DELETING)
    with segstore.open_dir(tmp_path, shared=True) as again:  # this process writes a partition
        assert again.topics() == {}
        with pytest.raises(LogLockedError, match="orders-0"):
            again.create_topic("orders", 2)
        logs.close_log("orders", 0)
        again.create_topic("orders", 2)
        assert logs.topics() == {"orders": [0, 1]}
        assert logs.log_end_offsets("orders") == {0: 0, 1: 0}


def test_a_partition_that_another_process_has_filled_is_not_undone(
    other: Peer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """[DUR-23, DUR-24] A creation that finds a new partition locked removes none with records."""
    monkeypatch.setattr("segstore.manager.topic_registry._ROUND", 1)
    with segstore.open_dir(tmp_path, shared=True) as logs:

        def fill(done: int, total: int) -> None:
            del total
            if done == 1:
                other.do("alone = segstore.open({path}, durability='sync')", path=tmp_path / "t-2")
                other.do("alone.append([(None, b'v')] * 10)")

        with pytest.raises(LogLockedError):
            logs.create_topic("t", 3, progress=fill)
        assert not (tmp_path / "t-2" / "partition.metadata").exists()
        assert not (tmp_path / "t-0").exists()
        other.do("alone.close()")
        with segstore.open(tmp_path / "t-2") as log:
            assert log.log_end_offset == 10


def test_a_partition_that_another_process_holds_is_not_undone_by_an_open(
    logs: LogManager, other: Peer, tmp_path: Path
):
    """[DUR-23, DUR-24] Of a creation that was killed, what is locked stays, unlisted."""
    file = parse_topics((tmp_path / "topics.json").read_bytes())
    entry = file.topics["orders"]._replace(state=TopicState.CREATING)
    (tmp_path / "topics.json").write_bytes(format_topics(*file._replace(topics={"orders": entry})))
    other.do("alone = segstore.open({path})", path=tmp_path / "orders-0")
    with segstore.open_dir(tmp_path, shared=True) as again:
        assert again.topics() == {}
        assert (tmp_path / "orders-0").exists()
        assert not (tmp_path / "orders-1").exists()
        other.do("alone.append([(None, b'v')]); alone.close()")
        logs.close()
    with segstore.open_dir(tmp_path, shared=True) as again:
        assert again.log_end_offsets("orders") == {0: 1, 1: 0, 2: 0}


def test_a_directory_that_two_processes_give_up(process: Peer, tmp_path: Path):
    """[DUR-124, DUR-128] The second one keeps the topics that the first has made meanwhile."""
    segstore.open_dir([tmp_path / "a", tmp_path / "b"]).close()
    process.do("logs = segstore.open_dir({path}, shared=True)", path=tmp_path / "a")
    with segstore.open_dir(tmp_path / "a", shared=True) as logs:
        with pytest.raises(LogDirectoryOfflineError):
            logs.create_topic("t", 1)
        (missing,) = logs.missing_directories()
        process.do("logs.forget_directory(next(iter(logs.missing_directories())))")
        process.do("logs.create_topic('t', 1); logs.close()")
        logs.forget_directory(missing)
    assert parse_topics((tmp_path / "a" / "topics.json").read_bytes()).topics.keys() == {"t"}


def test_a_long_change_of_another_process(logs: LogManager, tmp_path: Path, monkeypatch, caplog):
    """[DUR-65] It is waited for five seconds; an open does without what it would settle."""
    pauses: list[float] = []
    monkeypatch.setattr(log_directory_checkpoints.time, "sleep", pauses.append)
    with closing(_core.Directory(str(tmp_path))) as theirs:
        lock = theirs.lock(".segstore.topics.lock", exclusive=True)
        with pytest.raises(LogLockedError, match="another process changes topics"):
            logs.create_topic("new", 1)
        assert sum(pauses) == pytest.approx(5, abs=0.1)
        segstore.open_dir(tmp_path, shared=True).close()
        assert "not settled now" in caplog.text
        lock.release()
    logs.create_topic("new", 1)


def test_a_directory_is_given_up_after_a_change_of_another_process(tmp_path: Path, monkeypatch):
    """[DUR-65, DUR-124] ``lock_timeout`` counts as for any other change."""
    segstore.open_dir([tmp_path / "a", tmp_path / "b"]).close()
    monkeypatch.setattr(shared_log_directory, "_ATTEMPTS", 1)
    with (
        segstore.open_dir(tmp_path / "a", shared=True, lock_timeout=PATIENCE) as logs,
        closing(_core.Directory(str(tmp_path / "a"))) as theirs,
    ):
        (missing,) = logs.missing_directories()
        lock = theirs.lock(".segstore.topics.lock", exclusive=True)
        timer = threading.Timer(0.05, lock.release)
        timer.start()
        logs.forget_directory(missing)
        timer.join()
        assert not logs.missing_directories()


@pytest.mark.parametrize(
    "change",
    [
        lambda logs: logs.alter_topic("t", {"retention.ms": 1}),
        lambda logs: logs.delete_partition("t", 0),
    ],
)
def test_a_growth_that_was_killed_is_settled_by_a_change(logs: LogManager, tmp_path: Path, change):
    """[DUR-23] Of a topic that is altered, or loses a partition, as by any other change."""
    logs.create_topic("t", 3)
    file = parse_topics((tmp_path / "topics.json").read_bytes())
    half = file.topics["t"]._replace(adding=1, partitions=2)
    (tmp_path / "topics.json").write_bytes(
        format_topics(*file._replace(topics={**file.topics, "t": half}))
    )
    change(logs)
    assert not (tmp_path / "t-2").exists()
    after = parse_topics((tmp_path / "topics.json").read_bytes()).topics["t"]
    assert (after.partitions, after.adding) == (2, 0)


def test_a_log_of_a_change_that_cannot_be_closed(
    logs: LogManager, other: Peer, monkeypatch, caplog
):
    """[DUR-65] The topic is made, nothing is raised, and all its partitions are free."""
    close = segstore.UnifiedLog.close

    def fail(log: segstore.UnifiedLog) -> None:
        if log.topic_partition.partition == 0:
            raise WriteError("no", file=log.path)
        close(log)

    with monkeypatch.context() as patch:
        patch.setattr(segstore.UnifiedLog, "close", fail)
        logs.create_topic("new", 2)
    assert "not closed cleanly" in caplog.text
    for number in range(2):
        other.do(f"logs.append('new', [(None, b'v')], partition={number})")


def test_a_topic_that_was_written_here_before_it_was_deleted(logs: LogManager, other: Peer):
    """[DUR-65] Made again here, its partitions are free; the handle of before does not count."""
    logs.append("orders", [(None, b"v")], partition=0)
    logs.log_to_write("orders", 0).close()
    other.do("logs.delete_topic('orders')")
    logs.create_topic("orders", 1)
    other.do("logs.append('orders', [(None, b'v')], partition=0)")


# ---- background work -----------------------------------------------------------------------------


def with_old_segments(logs: LogManager, topic: str) -> None:
    """Fill each partition of a topic with segments that retention does not keep."""
    logs.alter_topic(topic, {"retention.ms": 1000, "segment.bytes": 1_048_576})
    for number in logs.topics()[topic]:
        log = logs.log_to_write(topic, number)
        for _ in range(3):
            log.append([(1000, None, b"v")])
            log.roll()
        logs.close_log(topic, number)


def test_one_process_maintains_what_no_process_writes(logs: LogManager, other: Peer):
    """[MGR-30] And each what it writes itself; no pass takes a partition from another process."""
    with_old_segments(logs, "orders")
    other.do("log = logs.log_to_write('orders', 2)")
    report = logs.maintain()
    assert {one.topic_partition.partition for one in report.deleted} == {0, 1}
    assert not report.failed
    assert logs.log_end_offsets("orders") == {0: 3, 1: 3, 2: 3}
    other.do("report = logs.maintain()")
    assert other.ask("[str(one.topic_partition) for one in report.deleted]") == ["orders-2"] * 3
    other.do("logs.append('orders', [(None, b'v')])")  # no partition is held by the pass


def test_the_work_of_a_killed_process_is_taken_over(logs: LogManager, tmp_path: Path):
    """[DUR-131] The lock goes with it; the next pass of another one does all."""
    with Peer() as victim:
        victim.do("logs = segstore.open_dir({path}, shared=True)", path=tmp_path)
        victim.do("logs.maintain()")
        with_old_segments(logs, "orders")
        assert not logs.maintain(now=time.time_ns() // 1_000_000 + MONTH_MS).deleted
        victim.kill()
    report = logs.maintain(now=time.time_ns() // 1_000_000 + 2 * MONTH_MS)
    assert {one.topic_partition.partition for one in report.deleted} == {0, 1, 2}


def test_the_work_of_a_process_whose_directory_has_failed_is_taken_over(
    logs: LogManager, tmp_path: Path
):
    """[DUR-131, MGR-72] The process lives on, for its readers."""
    now = time.time_ns() // 1_000_000
    with Peer() as failing:
        failing.do("logs = segstore.open_dir({path}, shared=True)", path=tmp_path)
        failing.do("logs.maintain()")
        with_old_segments(logs, "orders")
        assert not logs.maintain(now=now + MONTH_MS).deleted
        failing.do(
            "logs._failures.maybe_add_offline_log_dir({path},"
            " segstore.errors.FsyncFailedError('the disk is broken'))",
            path=tmp_path,
        )
        assert not failing.ask("logs._directories[0].owned.is_elected()")
        report = logs.maintain(now=now + 2 * MONTH_MS)

    assert {one.topic_partition.partition for one in report.deleted} == {0, 1, 2}


def test_compaction_and_directories_of_deleted_partitions(logs: LogManager, other: Peer, tmp_path):
    """[CLN-30, MGR-66] They are the work of the same process."""
    logs.create_topic("keys", 1, config={"cleanup.policy": "compact"})
    log = logs.log_to_write("keys", 0)
    for _ in range(2):
        log.append([(b"k", b"v")] * 10)
        log.roll()
    logs.close_log("keys", 0)
    other.do("logs.create_topic('gone', 1); logs.delete_topic('gone')")
    assert [*tmp_path.glob("gone-0.*-delete")]
    report = logs.maintain()
    assert [str(one.topic_partition) for one in report.cleaned] == ["keys-0"]
    logs.maintain(now=time.time_ns() // 1_000_000 + MONTH_MS)
    assert not [*tmp_path.glob("gone-0.*-delete")]
    assert not (tmp_path / "cleaner-offset-checkpoint").exists()


def test_settings_that_another_process_changes(logs: LogManager, other: Peer):
    """[MGR-95] A log that is open goes by them from the next pass on."""
    log = logs.log_to_write("orders", 0)
    other.do("logs.alter_topic('orders', {{'retention.ms': 1000}})")
    assert log.config.retention_ms is None
    logs.maintain()
    assert log.config.retention_ms == 1000


def test_a_log_that_refuses_its_new_settings(logs: LogManager, other: Peer, monkeypatch):
    """[DUR-131] The other logs go by them, and retention goes on; a closed log is no failure."""
    written = [logs.log_to_write("orders", number) for number in range(3)]
    for _ in range(3):
        written[2].append([(1000, None, b"v")])
        written[2].roll()
    other.do("logs.alter_topic('orders', {{'retention.ms': 1000}})")
    refusals = {0: IllegalArgumentError("refused"), 1: ClosedError("closed")}
    update = segstore.UnifiedLog.update_config

    def refuse(log: segstore.UnifiedLog, config: segstore.LogConfig) -> segstore.LogConfig:
        if log.topic_partition.partition in refusals:
            raise refusals[log.topic_partition.partition]
        return update(log, config)

    monkeypatch.setattr(segstore.UnifiedLog, "update_config", refuse)
    report = logs.maintain()

    assert [(one.task, str(one.topic_partition)) for one in report.failed] == [
        ("settings", "orders-0")
    ]
    assert [str(one.topic_partition) for one in report.deleted] == ["orders-2"] * 3


def test_a_log_that_a_user_asks_for_during_a_pass_stays_open(logs: LogManager, monkeypatch):
    """[DUR-70] The pass closes only what is its own."""
    with_old_segments(logs, "orders")
    taken: list[segstore.UnifiedLog] = []
    run = segstore.UnifiedLog._run_retention

    def take(log: segstore.UnifiedLog, *arguments: object) -> object:
        if log.topic_partition.partition == 1 and not taken:
            assert logs.log("orders", 1).read_only  # what the pass has open is not shown
            taken.append(logs.log_to_write("orders", 1))
        return run(log, *arguments)

    monkeypatch.setattr(segstore.UnifiedLog, "_run_retention", take)
    assert not logs.maintain().failed
    assert not taken[0].closed
    taken[0].append([(None, b"v")])
    assert logs.log("orders", 0).read_only


def test_a_log_of_a_pass_that_cannot_be_closed(logs: LogManager, other: Peer, monkeypatch):
    """[DUR-65, DUR-131] The failure is in the report, and the partition is free."""
    with_old_segments(logs, "orders")
    close = segstore.UnifiedLog.close

    def fail(log: segstore.UnifiedLog) -> None:
        if log.topic_partition.partition == 0:
            raise DiskFullError("no", file=log.path)
        close(log)

    with monkeypatch.context() as patch:
        patch.setattr(segstore.UnifiedLog, "close", fail)
        report = logs.maintain()
    assert [str(one.topic_partition) for one in report.failed] == ["orders-0"]
    for number in range(3):
        other.do(f"logs.append('orders', [(None, b'v')], partition={number})")


@pytest.mark.parametrize("written", range(3))
def test_a_log_that_a_refused_append_has_met_during_a_pass(
    logs: LogManager, other: Peer, monkeypatch: pytest.MonkeyPatch, written: int
):
    """[DUR-65] The append has not written it: it is the pass's again, which closes it."""
    with_old_segments(logs, "orders")
    other.do(f"logs.append('orders', [(None, b'1')], partition={written})")
    refused: list[LogLockedError] = []
    run = segstore.UnifiedLog._run_retention

    def append(log: segstore.UnifiedLog, *arguments: object) -> object:
        with pytest.raises(LogLockedError) as caught:
            logs.append("orders", KEYED)
        refused.append(caught.value)
        return run(log, *arguments)

    monkeypatch.setattr(segstore.UnifiedLog, "_run_retention", append)
    assert not logs.maintain().failed
    assert len(refused) == 2
    for number in range(3):
        other.do(f"logs.append('orders', [(None, b'v')], partition={number})")


def test_threads_do_the_work(other: Peer, tmp_path: Path):
    """[MGR-36] ``background=True``."""
    other.do("logs.create_topic('orders', 1, config={{'retention.ms': 1000}})")
    config = {"log.initial.task.delay.ms": 0, "log.retention.check.interval.ms": 20}
    with segstore.open_dir(tmp_path, shared=True, background=True, config=config) as logs:
        with_old_segments(logs, "orders")
        until = time.monotonic() + PATIENCE
        while logs.log("orders", 0).refresh() and logs.log("orders", 0).log_start_offset < 3:
            assert time.monotonic() < until
            time.sleep(0.01)
