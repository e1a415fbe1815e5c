"""Compaction in the schedule of a manager, and what ends or pauses it [CLN-3, MGR-85, MGR-96]."""

from __future__ import annotations

import shutil
import threading
import time
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import segstore
from segstore import CleanerConfig
from segstore.errors import (
    ArgumentTypeError,
    ClosedError,
    CorruptLogError,
    CorruptRecordError,
    DiskFullError,
    FsyncFailedError,
    IllegalArgumentError,
    IllegalStateError,
    LogReadOnlyError,
    ReadIOError,
)
from segstore.log.files.checkpoints import parse_offset_checkpoint
from segstore.log.files.topics_file import TopicEntry, TopicState
from segstore.log.local.cleaned_output import CleanedOutput
from segstore.manager import log_cleaner_manager
from segstore.manager.compacted_logs import CompactedLogs
from segstore.manager.log_cleaner_manager import ABORTED, IN_PROGRESS
from segstore.manager.maintenance_intervals import MaintenanceIntervals
from segstore.manager.maintenance_report import Findings
from segstore.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from segstore import LogManager, UnifiedLog
    from segstore.errors import SegstoreError
    from segstore.manager.log_cleaner import LogCleaner
    from segstore.manager.log_cleaner_manager import LogCleanerManager
    from segstore.manager.maintenance import Maintenance

HOUR = 3_600_000
COMPACT = {"cleanup.policy": "compact"}
USERS = TopicPartition("users", 0)
CLEANER_CHECKPOINT = "cleaner-offset-checkpoint"


def open_small(path: Path | list[Path], **settings: object) -> LogManager:
    return segstore.open_dir(path, durability="none", internal_segment_bytes=300, **settings)


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[LogManager]:
    with open_small(tmp_path) as opened:
        yield opened


def fill(log: UnifiedLog, count: int = 40, keys: int = 5) -> dict[bytes, bytes]:
    """Append records one by one; return the last value of each key."""
    last = {}
    for number in range(count):
        key, value = b"k%d" % (number % keys), b"value %d" % number
        log.append([(key, value)])
        last[key] = value
    return last


def live(log: UnifiedLog) -> dict[bytes, bytes]:
    return {record.key: record.value for record in log}  # type: ignore[misc]


def sealed_offsets(log: UnifiedLog) -> list[int]:
    active = log.segments()[-1].base_offset
    return [record.offset for record in log if record.offset < active]


def maintenance_of(logs: LogManager, number: int = 0) -> Maintenance:
    maintenance = logs._directories[number].maintenance
    assert maintenance is not None
    return maintenance


def manager_of(logs: LogManager, number: int = 0) -> LogCleanerManager:
    return maintenance_of(logs, number).cleaner_manager


def lines(path: Path) -> dict[TopicPartition, int]:
    return dict(parse_offset_checkpoint((path / CLEANER_CHECKPOINT).read_bytes()))


class Held:
    """Holds a pass at its first piece, in a thread, until it may go on."""

    def __init__(self, logs: LogManager, monkeypatch: pytest.MonkeyPatch) -> None:
        self.has_begun, self.may_go_on = threading.Event(), threading.Event()
        cleaner: LogCleaner = maintenance_of(logs)._cleaner
        check_done = cleaner._check_done

        def wait(to_clean: Any) -> None:
            self.has_begun.set()
            assert self.may_go_on.wait(10)
            check_done(to_clean)

        monkeypatch.setattr(cleaner, "_check_done", wait)
        self.reports: list[Any] = []
        self.thread = threading.Thread(target=lambda: self.reports.append(logs.maintain()))
        self.thread.start()
        assert self.has_begun.wait(10)

    def beside(self, logs: LogManager, change: Callable[[], object]) -> None:
        """Make a change that waits for the pass, and let that go on."""
        changing = threading.Thread(target=change)
        changing.start()
        manager = manager_of(logs)
        while manager.cleaning_state(USERS) != ABORTED and changing.is_alive():
            time.sleep(0.001)
        assert manager.cleaning_state(USERS) == ABORTED, "it did not wait"
        self.may_go_on.set()
        changing.join(10)
        self.thread.join(10)
        assert not changing.is_alive()
        assert manager.cleaning_states() == {}


# ---- what is due ---------------------------------------------------------------------------------


def test_a_pass_compacts_what_is_due(logs: LogManager, tmp_path: Path):
    """[CLN-3, CLN-30, CLN-39, CLN-120] Report and checkpoint say so; then nothing is due."""
    logs.create_topic("users", 2, config=COMPACT)
    logs.create_topic("clicks")
    last = [fill(logs.log("users", number)) for number in range(2)]
    clicks = fill(logs.log("clicks", 0))
    report = logs.maintain()

    assert {one.topic_partition for one in report.cleaned} == {USERS, TopicPartition("users", 1)}
    assert all("kept" in str(one) for one in report.cleaned)
    assert report.failed == ()
    assert [live(logs.log("users", number)) for number in range(2)] == last
    assert len(sealed_offsets(logs.log("users", 0))) <= 5
    assert live(logs.log("clicks", 0)) == clicks
    assert len(list(logs.log("clicks", 0))) == 40
    assert lines(tmp_path)[USERS] == logs.log("users", 0).segments()[-1].base_offset
    now = time.time_ns() // 1_000_000
    assert logs.maintain(now + HOUR).cleaned == ()


def test_a_log_that_is_not_open_is_compacted(tmp_path: Path):
    """[CLN-30]"""
    with open_small(tmp_path) as logs:
        logs.create_topic("users", config=COMPACT)
        last = fill(logs.log("users", 0))
    with open_small(tmp_path) as logs:
        assert [one.topic_partition for one in logs.maintain().cleaned] == [USERS]
        assert live(logs.log("users", 0)) == last
    with open_small(tmp_path) as logs:
        assert logs.maintain().cleaned == ()  # it is known to be clean


def test_compaction_waits_for_its_turn(logs: LogManager):
    """[CLN-3] Each 15 seconds, as ``log.cleaner.backoff.ms`` says."""
    begin = time.time_ns() // 1_000_000
    logs.create_topic("users", config=COMPACT)
    logs.maintain(begin + HOUR)
    fill(logs.log("users", 0))

    assert logs.maintain(begin + HOUR + 1000).cleaned == ()
    assert len(logs.maintain(begin + HOUR + 25_000).cleaned) == 1


def test_without_a_cleaner_nothing_is_compacted(tmp_path: Path):
    """[CLN-1]"""
    with open_small(tmp_path, cleaner=segstore.CleanerConfig(enable=False)) as logs:
        logs.create_topic("users", config=COMPACT)
        fill(logs.log("users", 0))

        assert logs.maintain().cleaned == ()
        assert not (tmp_path / CLEANER_CHECKPOINT).exists()
    with pytest.raises(ArgumentTypeError):
        open_small(tmp_path, cleaner=1)


def test_min_lag_keeps_what_is_young(logs: LogManager):
    """[CLN-32] By the time that is given."""
    begin = time.time_ns() // 1_000_000
    logs.create_topic("users", config={**COMPACT, "min.compaction.lag.ms": 2 * HOUR})
    fill(logs.log("users", 0))

    assert logs.maintain(begin + HOUR).cleaned == ()
    assert len(logs.maintain(begin + 3 * HOUR).cleaned) == 1


@pytest.mark.parametrize("threads", [1, 3])
def test_threads_compact(tmp_path: Path, threads: int):
    """[CLN-1, CLN-3]"""
    cleaner = segstore.CleanerConfig(threads=threads, backoff_ms=10)
    with open_small(tmp_path, cleaner=cleaner) as logs:
        logs.create_topic("users", 4, config=COMPACT)
        last = [fill(logs.log("users", number)) for number in range(4)]
        maintenance = maintenance_of(logs)
        maintenance._intervals = MaintenanceIntervals(initial_delay_ms=0)
        maintenance.start()
        deadline = time.monotonic() + 20
        while any(len(sealed_offsets(logs.log("users", n))) > 5 for n in range(4)):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert [live(logs.log("users", number)) for number in range(4)] == last


def cleaning_jobs(logs: LogManager, number: int = 0) -> list[Any]:
    return [job for job in maintenance_of(logs, number)._jobs if job.name == "cleaning"]


def test_another_configuration_counts_in_the_next_call(tmp_path: Path):
    """[CLN-8] In each directory, whatever the interval was; memory is shared by directories."""
    begin = time.time_ns() // 1_000_000
    config = CleanerConfig(backoff_ms=HOUR)
    with open_small([tmp_path / "a", tmp_path / "b"], cleaner=config) as logs:
        logs.create_topic("users", config=COMPACT)
        logs.maintain(begin)
        last = fill(logs.log("users", 0))
        assert logs.maintain(begin + 1000).cleaned == ()
        changed = CleanerConfig(threads=2, dedupe_buffer_size=4 * 2**20, backoff_ms=500)
        logs.reconfigure_cleaner(changed)
        for number in range(2):
            assert [job.interval_ms for job in cleaning_jobs(logs, number)] == [500, 500]
            assert maintenance_of(logs, number)._cleaner.config.dedupe_buffer_size == 2 * 2**20
        assert len(logs.maintain(begin + 1000).cleaned) == 1
        assert live(logs.log("users", 0)) == last
        logs.reconfigure_cleaner(replace(changed, threads=1))
        assert len(cleaning_jobs(logs)) == 1


def test_a_configuration_that_is_refused_changes_nothing(tmp_path: Path):
    """[CLN-8]"""
    with open_small(tmp_path) as logs:
        before = maintenance_of(logs)._cleaner.config
        for wrong in (
            CleanerConfig(threads=3),
            CleanerConfig(enable=False),
            CleanerConfig(dedupe_buffer_size=10, max_io_bytes_per_second=1),
        ):
            with pytest.raises(IllegalArgumentError):
                logs.reconfigure_cleaner(wrong)
        with pytest.raises(ArgumentTypeError):
            logs.reconfigure_cleaner(None)  # type: ignore[arg-type]
        assert maintenance_of(logs)._cleaner.config is before
        assert logs._throttler.desired_rate_per_sec == before.max_io_bytes_per_second
        assert len(cleaning_jobs(logs)) == 1
    with pytest.raises(ClosedError):
        logs.reconfigure_cleaner(CleanerConfig())
    with (
        segstore.open_dir(tmp_path, read_only=True) as reader,
        pytest.raises(LogReadOnlyError),
    ):
        reader.reconfigure_cleaner(CleanerConfig())


def test_threads_go_on_by_another_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """[CLN-8, CLN-12] More of them, then fewer; what ended one is forgotten, and gauges stay."""
    dead = "kafka.log:type=LogCleaner,name=DeadThreadCount"
    fails = True
    with open_small(tmp_path, background=True, cleaner=CleanerConfig(backoff_ms=HOUR)) as logs:
        logs.create_topic("users", 4, config={**COMPACT, "min.cleanable.dirty.ratio": 0})
        last = [fill(logs.log("users", number)) for number in range(4)]
        look = CompactedLogs.look

        def fail(self: CompactedLogs, findings: Findings) -> None:
            if fails:
                raise IllegalStateError("it ends a broker's thread")
            look(self, findings)

        monkeypatch.setattr(CompactedLogs, "look", fail)
        logs.reconfigure_cleaner(CleanerConfig(threads=2, backoff_ms=HOUR))
        wait_until(lambda: logs.stats().value(dead, logDirectory=logs.path) == 2)
        fails = False
        logs.reconfigure_cleaner(CleanerConfig(threads=2, backoff_ms=2 * HOUR))
        wait_until(
            lambda: manager_of(logs).all_cleaner_checkpoints().keys() == {*logs.partitions()}
        )
        wait_until(lambda: logs.stats().value(dead, logDirectory=logs.path) == 0)
        assert [live(logs.log("users", number)) for number in range(4)] == last
        logs.reconfigure_cleaner(CleanerConfig(backoff_ms=HOUR))
        assert len(cleaning_jobs(logs)) == 1
        fill(logs.log("users", 0))
        logs.reconfigure_cleaner(CleanerConfig(backoff_ms=HOUR))
        end = logs.log("users", 0).segments()[-1].base_offset
        wait_until(lambda: lines(tmp_path)[USERS] == end)


class EndlessPasses:
    """There is always another log to clean; those of the second thread wait until they may go."""

    def __init__(self, logs: LogManager, monkeypatch: pytest.MonkeyPatch) -> None:
        self.has_begun, self.may_go_on = threading.Event(), threading.Event()
        cleaner = maintenance_of(logs)._cleaner
        self.tasks = cleaning_jobs(logs)[1].tasks

        def clean(_: object, findings: Findings) -> bool:
            if self.tasks.runs_this_thread():
                self.has_begun.set()
                assert self.may_go_on.wait(20)
                time.sleep(0.001)
                findings.cleaned.append(None)  # type: ignore[arg-type]
            return True

        monkeypatch.setattr(cleaner, "try_clean_filthiest_log", clean)
        logs.reconfigure_cleaner(replace(cleaner.config, backoff_ms=HOUR))  # a pass begins
        assert self.has_begun.wait(20)


def test_a_thread_that_goes_begins_no_other_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """[CLN-8] The call waits for the log that is being cleaned, however many others are dirty."""
    with open_small(tmp_path, background=True, cleaner=CleanerConfig(threads=2)) as logs:
        passes = EndlessPasses(logs, monkeypatch)
        changing = threading.Thread(target=logs.reconfigure_cleaner, args=(CleanerConfig(),))
        changing.start()
        changing.join(0.1)
        assert changing.is_alive()  # it waits for the pass
        passes.may_go_on.set()
        changing.join(10)

        assert not changing.is_alive()


def test_close_waits_for_a_thread_that_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """[CLN-8] No log is closed under a pass that another call waits for."""
    with open_small(tmp_path, background=True, cleaner=CleanerConfig(threads=2)) as logs:
        logs.create_topic("users")
        log = logs.log("users", 0)
        passes = EndlessPasses(logs, monkeypatch)
        threads = [
            threading.Thread(target=logs.reconfigure_cleaner, args=(CleanerConfig(),)),
            threading.Thread(target=logs.close),
        ]
        threads[0].start()
        wait_until(lambda: passes.tasks.is_closed)
        threads[1].start()
        threads[1].join(0.3)
        assert not log.closed
        passes.may_go_on.set()
        for thread in threads:
            thread.join(10)

        assert log.closed
        assert logs.closed


def test_other_memory_ends_the_pass_and_begins_another(
    logs: LogManager, monkeypatch: pytest.MonkeyPatch
):
    """[CLN-8] In the next call, whatever the interval is."""
    logs.create_topic("users", config=COMPACT)
    last = fill(logs.log("users", 0))
    held = Held(logs, monkeypatch)
    logs.reconfigure_cleaner(CleanerConfig(dedupe_buffer_size=2**20, backoff_ms=HOUR))
    held.may_go_on.set()
    held.thread.join(10)

    assert held.reports[0].cleaned == held.reports[0].failed == ()
    assert len(logs.maintain().cleaned) == 1
    assert live(logs.log("users", 0)) == last


def wait_until(holds: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_gauges_of_the_cleaner(tmp_path: Path):
    """[CLN-10, CLN-41] Kafka's names; percents and seconds are whole numbers."""
    with open_small(tmp_path) as logs:
        logs.create_topic("users", 2, config=COMPACT)
        for number in range(2):
            fill(logs.log("users", number))

        def gauge(name: str, kind: str = "LogCleaner") -> int:
            metric = f"kafka.log:type={kind},name={name}"
            return logs.stats().value(metric, logDirectory=str(tmp_path))

        assert gauge("cleaner-recopy-percent") == gauge("max-clean-time-secs") == 0
        manager_of(logs).mark_partition_uncleanable(str(tmp_path), USERS)
        logs.maintain()
        assert 0 < gauge("cleaner-recopy-percent") < 100
        assert 0 < gauge("max-buffer-utilization-percent") <= 100
        assert gauge("max-compaction-delay-secs") == gauge("DeadThreadCount") == 0
        kind = "LogCleanerManager"
        assert gauge("max-dirty-percent", kind) == 0  # the last choice: all is clean
        assert gauge("uncleanable-partitions-count", kind) == 1
        sealed = logs.log("users", 0).segments()[:-1]
        assert gauge("uncleanable-bytes", kind) == sum(one.size_bytes for one in sealed)
        assert 0 <= gauge("time-since-last-run-ms", kind) < HOUR
        text = logs.stats().prometheus_text()
        assert "kafka_log_logcleaner_cleaner_recopy_percent{logDirectory=" in text


def test_settings_that_are_unknown_compact_nothing(tmp_path: Path):
    """[DUR-128] Nor do defaults of the directory: the topic may have been given others."""
    with open_small(tmp_path, cleanup_policy="compact") as logs:
        logs.create_topic("users", config={"cleanup.policy": "delete"})
        logs.create_topic("others")
        fill(logs.log("users", 0))
        fill(logs.log("others", 0))
        entry = TopicEntry(None, 1, TopicState.LIVE, {"cleanup.policy": "of a later version"})
        logs._directories[0].registry.put("users", entry)
    with open_small(tmp_path, cleanup_policy="compact") as logs:
        assert [one.topic_partition.topic for one in logs.maintain().cleaned] == ["others"]
        assert len(list(logs.log("users", 0))) == 40


# ---- failures ------------------------------------------------------------------------------------


def test_a_damaged_log_keeps_no_other_and_comes_again(tmp_path: Path):
    """[CLN-4, DUR-125, DUR-131] KAFKA-7215, KAFKA-8725, KAFKA-19895: no restart is needed."""
    begin = time.time_ns() // 1_000_000
    with open_small(tmp_path) as logs:
        logs.create_topic("users", 2, config=COMPACT)
        last = [fill(logs.log("users", number)) for number in range(2)]
        file = tmp_path / "users-0" / logs.log("users", 0).segments()[0].name
        whole = file.read_bytes()
        file.write_bytes(whole[:70] + bytes([whole[70] ^ 1]) + whole[71:])
        report = logs.maintain(begin + 1000)
        [failed] = report.failed

        assert isinstance(failed.error, CorruptLogError | CorruptRecordError)
        assert (failed.task, failed.topic_partition, failed.attempts) == ("cleaning", USERS, 1)
        assert [one.topic_partition.partition for one in report.cleaned] == [1]
        assert logs.stats().value("segstore.manager:type=Maintenance,name=FailingTasks") == 1
        file.write_bytes(whole)
        report = logs.maintain(begin + HOUR)
        assert [one.topic_partition for one in report.cleaned] == [USERS]
        assert [live(logs.log("users", number)) for number in range(2)] == last


def test_a_log_that_cannot_be_opened_keeps_no_other(tmp_path: Path):
    """[DUR-124, DUR-131] It is tried again later."""
    with open_small(tmp_path) as logs:
        logs.create_topic("users", 2, config=COMPACT)
        fill(logs.log("users", 1))
    (tmp_path / "users-0" / ".segstore").unlink()
    (tmp_path / "users-0" / ".segstore").mkdir()
    with open_small(tmp_path) as logs:
        report = logs.maintain()

        assert [one.topic_partition.partition for one in report.cleaned] == [1]
        assert {one.topic_partition for one in report.failed} == {USERS}
        assert logs.maintain(time.time_ns() // 1_000_000 + 1000).failed == ()


def test_what_ends_kafkas_thread_is_tried_again(logs: LogManager, monkeypatch: pytest.MonkeyPatch):
    """[CLN-12, DUR-131] LogCleanerIntegrationTest.testIsThreadFailed: it waits, and runs again."""
    begin = time.time_ns() // 1_000_000
    logs.create_topic("users", config=COMPACT)
    fill(logs.log("users", 0))
    dead = "kafka.log:type=LogCleaner,name=DeadThreadCount"

    def fail(_: int) -> None:
        raise IllegalStateError("two log directories have it")

    with monkeypatch.context() as patched:
        patched.setattr(manager_of(logs), "grab_filthiest_compacted_log", fail)
        [failed] = logs.maintain(begin + HOUR).failed

    assert (failed.task, failed.topic_partition, failed.attempts) == ("cleaning", None, 1)
    assert logs.stats().value(dead, logDirectory=logs.path) == 1
    assert len(logs.maintain(begin + 2 * HOUR).cleaned) == 1
    assert logs.stats().value(dead, logDirectory=logs.path) == 0


def test_an_interrupt_ends_a_pass_and_leaves_no_state(
    logs: LogManager, monkeypatch: pytest.MonkeyPatch
):
    """[CLN-19] Ctrl-C; then the log can be truncated, and compacted."""
    logs.create_topic("users", config=COMPACT)
    log = logs.log("users", 0)
    last = fill(log)
    cleaner = maintenance_of(logs)._cleaner

    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(cleaner, "_check_done", interrupt)
        with pytest.raises(KeyboardInterrupt):
            logs.maintain()

    assert manager_of(logs).cleaning_states() == {}
    assert len(logs.maintain().cleaned) == 1
    assert live(log) == last


def test_close_ends_a_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """[CLN-11] It waits for a piece, not for the whole log."""
    logs = open_small(tmp_path)
    logs.create_topic("users", config=COMPACT)
    last = fill(logs.log("users", 0))
    held = Held(logs, monkeypatch)
    closing = threading.Thread(target=logs.close)
    closing.start()
    while not maintenance_of(logs)._cleaner._is_over:
        time.sleep(0.001)
    held.may_go_on.set()
    closing.join(10)
    held.thread.join(10)

    assert logs.closed
    with open_small(tmp_path) as logs:
        assert live(logs.log("users", 0)) == last
        assert len(logs.maintain().cleaned) == 1


def test_a_deletion_that_fails_keeps_no_other_log_and_waits(
    logs: LogManager, monkeypatch: pytest.MonkeyPatch
):
    """[CLN-7, DUR-131] Longer and longer; the pass ends, and compaction goes on."""
    begin = time.time_ns() // 1_000_000
    logs.create_topic("users", 2, config={"cleanup.policy": "compact,delete"})
    cleaner = maintenance_of(logs)._cleaner
    tried: list[int] = []

    def delete(topic_partition: TopicPartition, *_: object) -> None:
        tried.append(topic_partition.partition)
        if len(tried) > 100:
            pytest.fail("the pass does not end")
        if topic_partition == USERS:
            raise CorruptLogError("damage may hide the newest record")

    with monkeypatch.context() as patched:
        patched.setattr(cleaner, "_delete", delete)
        [failed] = logs.maintain(begin + HOUR).failed
        assert failed[:2] == ("retention", USERS)
        assert failed.attempts == 1
        assert {*tried} == {0, 1}
        assert manager_of(logs).uncleanable_partitions() == {}
        tried.clear()
        assert logs.maintain(begin + HOUR + 14_000).failed == ()
        assert 0 not in tried
        [failed] = logs.maintain(begin + HOUR + 30_000).failed
        assert failed.attempts == 2
        assert maintenance_of(logs).failing == 1
    assert logs.maintain(begin + 3 * HOUR).failed == ()
    assert maintenance_of(logs).failing == 0


@pytest.mark.parametrize("is_gone", [False, True])
def test_a_log_that_is_gone_or_clean_fails_no_more(
    logs: LogManager, monkeypatch: pytest.MonkeyPatch, *, is_gone: bool
):
    """[DUR-131]"""
    begin = time.time_ns() // 1_000_000
    logs.create_topic("users", config=COMPACT)
    log = logs.log("users", 0)
    fill(log)

    def fail(*_: object) -> None:
        raise CorruptLogError("damaged")

    with monkeypatch.context() as patched:
        patched.setattr(maintenance_of(logs)._cleaner, "clean_log", fail)
        assert len(logs.maintain(begin + HOUR).failed) == 1
    assert maintenance_of(logs).failing == 1
    if is_gone:
        logs.delete_topic("users")
    else:
        log._note_clean_end(log.segments()[-1].base_offset, log._generation())
    logs.maintain(begin + 3 * HOUR)

    assert maintenance_of(logs).failing == 0


@pytest.mark.parametrize(
    ("error", "is_offline"), [(FsyncFailedError("EIO"), True), (ReadIOError("EIO"), False)]
)
def test_a_disk_that_fails_in_a_pass_ends_writing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, error: SegstoreError, is_offline: bool
):
    """[MGR-72, CLN-5] But what cannot be read may be one file."""
    logs = open_small(tmp_path)
    logs.create_topic("users", config=COMPACT)
    fill(logs.log("users", 0))

    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(CleanedOutput, "finish", fail)
    [failed] = logs.maintain().failed

    assert failed.error is error
    assert logs.offline_directories() == ({str(tmp_path): error} if is_offline else {})
    with pytest.raises(LogReadOnlyError) if is_offline else nullcontext():
        logs.close()


def test_a_full_disk_fails_no_pass_that_went_well(
    logs: LogManager, monkeypatch: pytest.MonkeyPatch
):
    """[CLN-25] Only a line for brokers could not be written."""
    logs.create_topic("users", config=COMPACT)
    fill(logs.log("users", 0))

    def fail(*_: object) -> None:
        raise DiskFullError("no space")

    monkeypatch.setattr(manager_of(logs), "_put", fail)
    report = logs.maintain()

    assert [one.topic_partition for one in report.cleaned] == [USERS]
    assert report.failed == ()
    assert manager_of(logs).uncleanable_partitions() == {}


@pytest.mark.parametrize("is_made_again", [False, True])
@pytest.mark.parametrize("profile", ["safe", "kafka"])
def test_a_topic_that_is_deleted_before_the_choice_comes_not_back(
    tmp_path: Path, profile: str, *, is_made_again: bool
):
    """[DUR-121, CLN-6] Neither its line nor a mark: a later topic of the name has nothing of it."""
    with open_small(tmp_path, recovery=profile) as logs:
        logs.create_topic("users", config=COMPACT)
        log = logs.log("users", 0)
        fill(log)
        log.update_high_watermark(log.log_end_offset) if profile == "kafka" else None
        maintenance, findings = maintenance_of(logs), Findings()
        assert len(logs.maintain().cleaned) == 1
        assert USERS in lines(tmp_path)
        fill(log)
        log.update_high_watermark(log.log_end_offset) if profile == "kafka" else None
        maintenance._compacted.look(findings)
        logs.delete_topic("users")
        logs.create_topic("users", config=COMPACT) if is_made_again else None
        maintenance._cleaner.try_clean_filthiest_log(None, findings)
        cleaner_manager = maintenance.cleaner_manager
        cleaner_manager.mark_failed(log)  # a pass that ended before the deletion

        assert findings.failed == []
        assert lines(tmp_path) == {}
        assert cleaner_manager.uncleanable_partitions() == {}


# ---- changes beside a pass -----------------------------------------------------------------------


@pytest.mark.parametrize("is_full", [False, True])
def test_a_truncation_ends_the_pass_first(
    logs: LogManager, monkeypatch: pytest.MonkeyPatch, *, is_full: bool
):
    """[MGR-85, MGR-87, CLN-27]"""
    logs.create_topic("users", config=COMPACT)
    log = logs.log("users", 0)
    fill(log)
    held = Held(logs, monkeypatch)
    held.beside(logs, lambda: log.truncate_fully_and_start_at(7) if is_full else log.truncate_to(7))

    assert held.reports[0].failed == ()
    assert log.log_end_offset == 7


def test_a_truncation_of_the_active_segment_waits_for_nothing(
    logs: LogManager, monkeypatch: pytest.MonkeyPatch
):
    """[MGR-85]"""
    logs.create_topic("users", config=COMPACT)
    log = logs.log("users", 0)
    fill(log)
    held = Held(logs, monkeypatch)
    assert log.truncate_to(log.log_end_offset - 1)
    held.may_go_on.set()
    held.thread.join(10)

    assert log.log_end_offset == 39


def test_a_truncation_lowers_the_checkpoint_of_kafkas_profile(tmp_path: Path):
    """[MGR-85, CLN-27]"""
    with open_small(tmp_path, recovery="kafka") as logs:
        logs.create_topic("users", config=COMPACT)
        log = logs.log("users", 0)
        fill(log)
        log.update_high_watermark(40)
        logs.maintain()
        assert lines(tmp_path)[USERS] == log.segments()[-1].base_offset > 7
        log.truncate_to(7)

        assert lines(tmp_path)[USERS] == log.segments()[-1].base_offset <= 7


def test_a_deletion_ends_the_pass_and_takes_the_line(
    logs: LogManager, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    """[MGR-63, DUR-121] A later topic of the name has nothing of it."""
    logs.create_topic("users", config=COMPACT)
    fill(logs.log("users", 0))
    logs.maintain()
    fill(logs.log("users", 0))
    logs._directories[0].maintenance._jobs[-1].next_ms = 0  # type: ignore[union-attr]
    held = Held(logs, monkeypatch)
    held.beside(logs, lambda: logs.delete_topic("users"))

    assert held.reports[0].failed == ()
    assert lines(tmp_path) == {}


def test_topic_config_change_stops_cleaning_if_compact_is_removed(
    logs: LogManager, monkeypatch: pytest.MonkeyPatch
):
    """[MGR-96]"""
    logs.create_topic("users", config=COMPACT)
    log = logs.log("users", 0)
    fill(log)
    held = Held(logs, monkeypatch)
    held.beside(logs, lambda: logs.alter_topic("users", {"cleanup.policy": "delete"}))

    assert len(list(log)) == 40
    assert logs.maintain(time.time_ns() // 1_000_000 + HOUR).cleaned == ()


@pytest.mark.parametrize("profile", ["safe", "kafka"])
def test_a_move_takes_along_what_is_clean(tmp_path: Path, profile: str):
    """[MGR-90, CLN-28] Line and mark go with it; the safe profile begins at the log start."""
    paths = [tmp_path / "d0", tmp_path / "d1"]
    with open_small(paths, recovery=profile) as logs:
        logs.create_topic("users", config=COMPACT, directories={0: paths[0]})
        log = logs.log("users", 0)
        last = fill(log)
        log.update_high_watermark(40) if profile == "kafka" else None
        logs.maintain()
        end = lines(paths[0])[USERS]
        manager_of(logs, 0).mark_partition_uncleanable(str(paths[0]), USERS)
        logs.move_partition("users", 0, paths[1])

        assert lines(paths[0]) == {}
        assert lines(paths[1]) == {USERS: end}
        assert manager_of(logs, 1).uncleanable_partitions() == {str(paths[1]): {USERS}}
        moved = logs.log("users", 0)
        assert moved._clean_end() is None  # what .segstore said counts no more in a copy
        assert live(moved) == last


def test_a_move_ends_the_pass_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """[MGR-90]"""
    paths = [tmp_path / "d0", tmp_path / "d1"]
    with open_small(paths) as logs:
        logs.create_topic("users", config=COMPACT, directories={0: paths[0]})
        last = fill(logs.log("users", 0))
        held = Held(logs, monkeypatch)
        held.beside(logs, lambda: logs.move_partition("users", 0, paths[1]))

        assert live(logs.log("users", 0)) == last


def test_a_copy_of_an_older_state_is_cleaned_from_its_start(tmp_path: Path):
    """[DUR-120, DUR-126] A restored backup is not what the line was written for."""
    with open_small(tmp_path) as logs:
        logs.create_topic("users", config=COMPACT)
        fill(logs.log("users", 0))
    shutil.copytree(tmp_path / "users-0", tmp_path / "backup")
    with open_small(tmp_path) as logs:
        logs.maintain()
    shutil.rmtree(tmp_path / "users-0")
    (tmp_path / "backup").rename(tmp_path / "users-0")
    with open_small(tmp_path) as logs:
        [cleaned] = logs.maintain().cleaned

        assert cleaned.stats.map_messages_read == cleaned.stats.end_offset


def test_an_interrupt_of_a_truncation_that_waits_leaves_no_pause(
    logs: LogManager, monkeypatch: pytest.MonkeyPatch
):
    """[MGR-85] Ctrl-C; the pass that runs goes on, and others come."""
    logs.create_topic("users", config=COMPACT)
    log = logs.log("users", 0)
    last = fill(log)
    held = Held(logs, monkeypatch)

    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(log_cleaner_manager, "time", SimpleNamespace(sleep=interrupt))
        with pytest.raises(KeyboardInterrupt):
            log.truncate_to(7)
    assert manager_of(logs).cleaning_state(USERS) == IN_PROGRESS
    held.may_go_on.set()
    held.thread.join(10)

    assert len(held.reports[0].cleaned) == 1
    assert manager_of(logs).cleaning_states() == {}
    assert live(log) == last


def test_a_handler_in_a_pass_does_not_wait_for_it_with_another_thread(
    logs: LogManager, monkeypatch: pytest.MonkeyPatch
):
    """[MGR-85] It is told, also when another thread waits for the same pass."""
    logs.create_topic("users", config=COMPACT)
    log = logs.log("users", 0)
    fill(log)
    manager, cleaner = manager_of(logs), maintenance_of(logs)._cleaner
    check_done = cleaner._check_done
    told: list[BaseException] = []
    waiting = threading.Thread(target=lambda: log.truncate_to(7))

    def hang(_: float) -> None:
        if threading.current_thread() is threading.main_thread():
            raise AssertionError("it waits for itself")
        time.sleep(0.001)

    def call(to_clean: Any) -> None:
        if not told:
            waiting.start()
            while manager.cleaning_state(USERS) != ABORTED:
                time.sleep(0.001)
            with pytest.raises(RuntimeError, match="this thread cleans users-0") as raised:
                log.truncate_to(5)
            told.append(raised.value)
        check_done(to_clean)

    monkeypatch.setattr(log_cleaner_manager, "time", SimpleNamespace(sleep=hang))
    monkeypatch.setattr(cleaner, "_check_done", call)
    logs.maintain()
    waiting.join(10)

    assert len(told) == 1
    assert log.log_end_offset == 7
    assert manager.cleaning_states() == {}


def test_a_truncation_does_not_ask_which_logs_the_cleaner_has_seen(
    logs: LogManager, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    """[MGR-85] A look at the directory beside it may know the log no more, or not yet."""
    logs.create_topic("users", config=COMPACT)
    log = logs.log("users", 0)
    fill(log)
    logs.maintain()
    end = lines(tmp_path)[USERS]
    compacted = maintenance_of(logs)._compacted
    monkeypatch.setattr(compacted, "add", lambda _: None, raising=False)
    compacted._logs = {}

    log.truncate_to(7)
    assert lines(tmp_path)[USERS] <= 7 < end


def test_a_roll_and_a_pass_before_a_truncation_has_the_lock(
    logs: LogManager, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    """[MGR-85, CLN-27] What was the active segment is clean by then: the line is lowered."""
    logs.create_topic("users", config={**COMPACT, "min.cleanable.dirty.ratio": 0})
    log = logs.log("users", 0)
    fill(log, 10)
    offset = log.segments()[-1].base_offset + 1
    fill(log, 1)
    changing, cleaned_to = log._changing, []

    class AfterOthers:
        """The append lock, for a thread that gets it after what others do."""

        def __enter__(self) -> None:
            if not cleaned_to:
                cleaned_to.append(log.log_end_offset)
                log.roll()
                logs.maintain()
                assert lines(tmp_path)[USERS] == cleaned_to[0] > offset
            changing.__enter__()

        def __exit__(self, *error: object) -> None:
            changing.__exit__(*error)

    monkeypatch.setattr(log, "_changing", AfterOthers())
    log.truncate_to(offset)

    assert lines(tmp_path)[USERS] <= offset == log.log_end_offset


@pytest.mark.parametrize("is_full", [False, True])
def test_a_truncation_lowers_the_line_of_brokers_before_the_cut(
    logs: LogManager, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, is_full: bool
):
    """[MGR-85, MGR-87, CLN-27] A kill between leaves no line above what is clean."""
    logs.create_topic("users", config=COMPACT)
    log = logs.log("users", 0)
    fill(log)
    logs.maintain()
    assert lines(tmp_path)[USERS] > 7
    name = "truncate_fully_and_start_at" if is_full else "truncate_to"
    at_the_cut: list[int] = []

    def kill(*_: object) -> None:
        at_the_cut.append(lines(tmp_path)[USERS])
        raise KeyboardInterrupt

    monkeypatch.setattr(log._truncation, name, kill)
    with pytest.raises(KeyboardInterrupt):
        getattr(log, name)(7)

    assert len(at_the_cut) == 1
    assert at_the_cut[0] <= 7
