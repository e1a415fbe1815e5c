"""Iterations of the cleaner over a few logs [CLN-1..CLN-7, CLN-15..CLN-20, DUR-131]."""

from __future__ import annotations

import itertools
import math
import sys
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from segstore._core import Directory
from segstore.errors import (
    CorruptLogError,
    CorruptRecordError,
    IllegalArgumentError,
    IllegalStateError,
    LogCleaningAbortedError,
)
from segstore.log.files.profile import Profile
from segstore.log.log_dir_failure_channel import LogDirFailureChannel
from segstore.manager.cleaner_config import CleanerConfig
from segstore.manager.log_cleaner import CleanedLog, LogCleaner
from segstore.manager.log_cleaner_manager import ABORTED, LogCleanerManager, paused
from segstore.manager.maintenance_report import Findings
from segstore.manager.throttler import Throttler
from segstore.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import FrameType

    from segstore import UnifiedLog
    from segstore.log.cleaning.cleaner import Cleaner
    from segstore.manager.log_to_clean import LogToClean
    from segstore.manager.maintenance_report import FailedTask

    NewLog = Callable[..., UnifiedLog]

COMPACT = {"cleanup_policy": "compact", "internal_segment_bytes": 300}
SMALL = CleanerConfig(dedupe_buffer_size=24 * 1000, backoff_ms=1000)
DAMAGED = (CorruptLogError, CorruptRecordError)


class Pool:
    """A log directory with one log or more, its manager and its cleaner."""

    def __init__(
        self,
        path: Path,
        logs: list[UnifiedLog],
        config: CleanerConfig = SMALL,
        throttler: Throttler | None = None,
    ) -> None:
        self.logs = {log.topic_partition: log for log in logs}
        self.directory = Directory(str(path))
        profile, failures = Profile.SAFE, LogDirFailureChannel()
        self.manager = LogCleanerManager({str(path): self.directory}, self.logs, profile, failures)
        self.deleted: list[TopicPartition] = []
        self.cleaner = LogCleaner(
            config,
            self.manager,
            profile,
            throttler or Throttler(math.inf, time.monotonic_ns),
            failures,
            lambda topic_partition, *_: self.deleted.append(topic_partition),
            lambda: 0,
            lambda: self.now_ms,
        )
        self.now_ms = 0

    def iterate(self, now_ms: int = 0) -> tuple[bool, list[CleanedLog], list[FailedTask]]:
        self.now_ms = now_ms
        findings = Findings()
        is_picked = self.cleaner.try_clean_filthiest_log(now_ms, findings)
        return is_picked, findings.cleaned, findings.failed


def fill(log: UnifiedLog, count: int = 40, keys: int = 5) -> UnifiedLog:
    for number in range(count):
        log.append([(b"k%d" % (number % keys), b"value %d" % number)])
    return log


def damage(log: UnifiedLog, path: Path) -> Path:
    """Flip a bit in a value of the first segment; its file is returned."""
    file = path / log.segments()[0].name
    data = bytearray(file.read_bytes())
    data[70] ^= 1
    file.write_bytes(data)
    return file


def test_the_filthiest_log_is_cleaned(new_log: NewLog, tmp_path: Path):
    """[CLN-3, CLN-39, CLN-40, CLN-120, CKP-13] Then nothing is due, until more comes."""
    log = fill(new_log(**COMPACT))
    pool = Pool(tmp_path, [log])
    is_picked, [cleaned], failed = pool.iterate()

    assert (is_picked, failed) == (True, [])
    assert cleaned.topic_partition == log.topic_partition
    assert cleaned.stats.end_offset == log._clean_end() == log.segments()[-1].base_offset
    checkpoint = (tmp_path / "cleaner-offset-checkpoint").read_text()
    assert checkpoint == f"0\n1\ntopic 0 {cleaned.stats.end_offset}\n"
    assert pool.deleted == [log.topic_partition]
    assert pool.iterate()[:2] == (False, [])
    fill(log)
    assert pool.iterate()[0]


def test_an_abort_ends_a_pass_that_waits_for_its_limit(new_log: NewLog, tmp_path: Path):
    """[CLN-9, CLN-16] A byte a second: without the abort the pass would wait for an hour."""
    log = fill(new_log(**COMPACT))
    moments = itertools.chain([0], itertools.repeat(10**9))
    aborts: list[float] = []

    def abort(seconds: float) -> None:
        aborts.append(seconds)
        if len(aborts) > 1:  # the pass was not ended
            throttler.stop()
            return
        other.start()
        while pool.manager.cleaning_state(log.topic_partition) != ABORTED:
            time.sleep(0.001)

    throttler = Throttler(1, lambda: next(moments), abort)
    pool = Pool(tmp_path, [log], throttler=throttler)
    other = threading.Thread(
        target=pool.manager.abort_and_pause_cleaning, args=(log.topic_partition,)
    )

    assert pool.iterate()[:2] == (True, [])
    other.join()
    assert len(aborts) == 1
    assert aborts[0] <= 0.1
    assert pool.manager.cleaning_state(log.topic_partition) == paused(1)


def test_the_map_is_no_larger_than_it_has_to_be(new_log: NewLog, tmp_path: Path):
    """[CLN-1] Half a GiB of keys for a few records is not taken."""
    log = fill(new_log(**COMPACT))
    pool = Pool(tmp_path, [log], CleanerConfig(dedupe_buffer_size=2**29, backoff_ms=1000))
    to_clean = pool.manager.grab_filthiest_compacted_log(0)
    assert to_clean is not None

    assert pool.cleaner._map_bytes_for(to_clean) < 24 * 100
    assert pool.cleaner.clean_log(to_clean).end_offset == log.segments()[-1].base_offset


def test_a_config_with_no_room_for_keys_is_refused(tmp_path: Path):
    """[CLN-2]"""
    with pytest.raises(IllegalArgumentError, match="no room for a key"):
        Pool(tmp_path, [], CleanerConfig(dedupe_buffer_size=40))
    with pytest.raises(IllegalArgumentError, match="cannot have 0 threads"):
        CleanerConfig(threads=0)
    for rate in (0, -1.0, math.nan):
        with pytest.raises(IllegalArgumentError, match="may read and write nothing"):
            CleanerConfig(max_io_bytes_per_second=rate)


def test_a_damaged_log_is_marked_and_tried_again(new_log: NewLog, tmp_path: Path):
    """[CLN-4, CLN-6, DUR-125, DUR-131] Later and later; when it is whole again, it is cleaned."""
    log = fill(new_log(**COMPACT))
    log.flush(force_active_segment=True)
    file = damage(log, tmp_path / "topic-0")
    damaged = file.read_bytes()
    pool = Pool(tmp_path, [log])
    is_picked, cleaned, [failed] = pool.iterate(now_ms=0)

    assert (is_picked, cleaned) == (False, [])
    assert isinstance(failed.error, DAMAGED)
    assert failed[:2] == ("cleaning", log.topic_partition)
    assert (failed.attempts, failed.retry_ms) == (1, 1000)
    assert pool.manager.uncleanable_partitions() == {str(tmp_path): {log.topic_partition}}
    assert pool.manager.cleaning_states() == {}
    assert file.read_bytes() == damaged
    assert pool.iterate(now_ms=999) == (False, [], [])
    [failed] = pool.iterate(now_ms=1000)[2]
    assert (failed.attempts, failed.retry_ms) == (2, 3000)
    assert pool.cleaner.failing == 1
    damage(log, tmp_path / "topic-0")
    assert pool.iterate(now_ms=3000)[0]
    assert pool.cleaner.failing == 0
    assert pool.manager.uncleanable_partitions() == {}


def test_what_fails_with_one_log_keeps_no_other(new_log: NewLog, tmp_path: Path):
    """[CLN-4, DUR-131]"""
    first = fill(new_log(**COMPACT))
    first.flush(force_active_segment=True)
    second = fill(new_log(tmp_path / "other-0", **COMPACT))
    damage(first, tmp_path / "topic-0")
    pool = Pool(tmp_path, [first, second])
    pool.iterate()
    pool.iterate()

    assert second._clean_end() == second.segments()[-1].base_offset


def test_an_aborted_pass_leaves_what_was_clean(new_log: NewLog, tmp_path: Path):
    """[CLN-19, CLN-20] Some groups are replaced, and the clean part is known all the same."""
    log = fill(new_log(**COMPACT))
    pool = Pool(tmp_path, [log])
    pool.iterate()
    end = log._clean_end()
    fill(log, count=80, keys=50)
    to_clean = pool.manager.grab_filthiest_compacted_log(0)
    assert to_clean is not None
    before = [one.size_bytes for one in log.segments()]
    check_done = pool.cleaner._check_done

    def abort_late(to_clean: LogToClean | None) -> None:
        check_done(to_clean)
        if [one.size_bytes for one in log.segments()] != before:
            raise LogCleaningAbortedError

    pool.cleaner._check_done = abort_late  # type: ignore[method-assign]
    assert pool.cleaner.clean_log(to_clean) is None

    assert [one.size_bytes for one in log.segments()] != before
    assert log._clean_end() == end
    assert pool.manager.cleaning_states() == {}


def test_a_truncation_beside_a_pass_is_no_failure(new_log: NewLog, tmp_path: Path):
    """[CLN-5, DUR-131] The log is not marked."""
    log = fill(new_log(**COMPACT))
    pool = Pool(tmp_path, [log])
    to_clean = pool.manager.grab_filthiest_compacted_log(0)
    assert to_clean is not None
    log.truncate_to(3)

    assert pool.cleaner.clean_log(to_clean) is None
    assert pool.manager.uncleanable_partitions() == {}
    assert log._clean_end() is None


def test_a_closed_log_is_no_failure(new_log: NewLog, tmp_path: Path):
    """[CLN-5]"""
    log = fill(new_log(**COMPACT))
    pool = Pool(tmp_path, [log])
    to_clean = pool.manager.grab_filthiest_compacted_log(0)
    assert to_clean is not None
    log.close()

    assert pool.cleaner.clean_log(to_clean) is None
    assert pool.manager.cleaning_states() == {}


def test_stop_ends_a_pass(new_log: NewLog, tmp_path: Path):
    """[CLN-11]"""
    log = fill(new_log(**COMPACT))
    pool = Pool(tmp_path, [log])
    pool.cleaner.stop()

    assert pool.iterate() == (True, [], [])
    assert log._clean_end() is None


def test_who_pauses_a_log_waits_for_its_pass(new_log: NewLog, tmp_path: Path):
    """[CLN-16, CLN-19, CLN-20]"""
    log = fill(new_log(**COMPACT))
    pool = Pool(tmp_path, [log])
    one = log.topic_partition
    has_begun, may_go_on = threading.Event(), threading.Event()
    check_done = pool.cleaner._check_done

    def wait(to_clean: LogToClean | None) -> None:
        has_begun.set()
        may_go_on.wait(10)
        check_done(to_clean)

    pool.cleaner._check_done = wait  # type: ignore[method-assign]
    cleaning = threading.Thread(target=pool.iterate)
    cleaning.start()
    assert has_begun.wait(10)
    pausing = threading.Thread(target=pool.manager.abort_and_pause_cleaning, args=(one,))
    pausing.start()
    while pool.manager.cleaning_state(one) != ABORTED:
        time.sleep(0.001)
    with pytest.raises(IllegalStateError):  # [CLN-16] somebody waits
        pool.manager.abort_and_pause_cleaning(one)
    may_go_on.set()
    pausing.join(10)
    cleaning.join(10)

    assert pool.manager.cleaning_state(one) == paused(1)
    assert pool.iterate()[0] is False
    pool.manager.resume_cleaning([one])
    assert pool.iterate()[0] is True


def test_an_interrupt_anywhere_gives_each_pause_back():
    """[MGR-85] At each call in the manager, those that give back among them."""
    one = TopicPartition("topic", 0)
    manager = LogCleanerManager({}, {}, Profile.SAFE, LogDirFailureChannel())
    at, is_over = 0, False

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal left
        if frame.f_globals.get("__name__") != LogCleanerManager.__module__:
            return None
        if event == "call":
            left -= 1
            if left == 0:
                raise KeyboardInterrupt
        return trace

    while not is_over:
        at += 1
        left = at
        before = sys.gettrace()
        try:
            sys.settrace(trace)
            with manager.paused_cleaning([one]):
                pass
            is_over = left > 0
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)
        assert manager.cleaning_states() == {}, at
    assert at > 5


def test_a_thread_does_not_wait_for_its_own_pass(new_log: NewLog, tmp_path: Path):
    """[CLN-16] A signal handler in the middle of a pass gets an error, not a hang."""
    log = fill(new_log(**COMPACT))
    pool = Pool(tmp_path, [log])
    assert pool.manager.grab_filthiest_compacted_log(0) is not None

    with pytest.raises(RuntimeError, match="this thread cleans topic-0"):
        pool.manager.abort_cleaning(log.topic_partition)


def test_a_pass_begins_at_the_log_start_where_the_checkpoint_is_stale(
    new_log: NewLog, tmp_path: Path
):
    """[DUR-120, DUR-126] A line that is left of another topic of the name hides nothing."""
    log = fill(new_log(**COMPACT))
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\ntopic 0 30\n")
    pool = Pool(tmp_path, [log])
    to_clean = pool.manager.grab_filthiest_compacted_log(0)

    assert to_clean is not None
    assert to_clean.first_dirty_offset == 0


def test_the_log_start_moves_above_what_was_clean(new_log: NewLog, tmp_path: Path):
    """[CLN-31] It is written once, not in each iteration."""
    log = fill(new_log(**{**COMPACT, "cleanup_policy": "compact,delete"}))
    log._note_clean_end(1, log._generation())
    log.delete_records(2)
    pool = Pool(tmp_path, [log])
    to_clean = pool.manager.grab_filthiest_compacted_log(0)

    assert to_clean is not None
    assert to_clean.first_dirty_offset == log._clean_end() == 2
    assert (tmp_path / "cleaner-offset-checkpoint").read_text() == "0\n1\ntopic 0 2\n"


def test_config_bounds_the_cleaner(new_log: NewLog, tmp_path: Path):
    """[CLN-1] Each thread has its part of the memory."""
    config = CleanerConfig(threads=4, dedupe_buffer_size=24 * 1000, io_buffer_size=4096)
    pool = Pool(tmp_path, [fill(new_log(**COMPACT), count=400)], config)
    to_clean = pool.manager.grab_filthiest_compacted_log(0)
    assert to_clean is not None
    cleaner: Cleaner = pool.cleaner._new_cleaner(to_clean)

    assert cleaner.offset_map.slots == 250
    assert cleaner.io_buffer_bytes == 512


@pytest.mark.parametrize(
    ("change", "ends"),
    [
        ({"backoff_ms": 5}, False),
        ({"max_io_bytes_per_second": 10.0**9}, False),
        ({"threads": 2}, True),
        ({"dedupe_buffer_size": 24 * 500}, True),
        ({"io_buffer_size": 4096}, True),
        ({"dedupe_buffer_load_factor": 0.5}, True),
    ],
)
def test_a_pass_ends_where_it_has_other_memory(
    new_log: NewLog, tmp_path: Path, change: dict[str, Any], *, ends: bool
):
    """[CLN-8] And the next one has what the configuration says."""
    log = fill(new_log(**COMPACT))
    pool = Pool(tmp_path, [log])
    check, config = pool.cleaner._check_done, replace(SMALL, **change)

    def reconfigure(to_clean: LogToClean) -> None:
        if pool.cleaner.config is SMALL:
            pool.cleaner.reconfigure(config)
        check(to_clean)

    pool.cleaner._check_done = reconfigure  # type: ignore[method-assign]
    _, found, failed = pool.iterate()
    assert ([len(found), failed]) == [0 if ends else 1, []]
    assert pool.manager.cleaning_states() == {}
    if ends:
        assert len(pool.iterate()[1]) == 1
    assert log._clean_end() == log.segments()[-1].base_offset


def test_a_configuration_that_goes_too_far_is_refused(tmp_path: Path):
    """[CLN-8] Half of the threads to twice as many; memory for two keys; enabled or not."""
    pool = Pool(tmp_path, [], replace(SMALL, threads=5))
    for threads in (2, 5, 10):
        pool.cleaner.validate_reconfiguration(replace(SMALL, threads=threads))
    for wrong in ({"threads": 1}, {"threads": 11}, {"enable": False}, {"dedupe_buffer_size": 100}):
        with pytest.raises(IllegalArgumentError):
            pool.cleaner.validate_reconfiguration(replace(pool.cleaner.config, **wrong))


def test_pauses_are_counted(new_log: NewLog, tmp_path: Path):
    """[CLN-15, CLN-16, CLN-17] As many resumes as pauses; one more is refused."""
    log = fill(new_log(**COMPACT))
    pool = Pool(tmp_path, [log])
    manager, one = pool.manager, log.topic_partition
    for count in (1, 2):
        manager.abort_and_pause_cleaning(one)
        assert manager.cleaning_states() == {one: paused(count)}
    manager.resume_cleaning([one])
    assert pool.iterate()[0] is False
    manager.resume_cleaning([one])
    with pytest.raises(IllegalStateError, match="cannot be resumed"):
        manager.resume_cleaning([one])

    assert pool.iterate()[0] is True


def test_the_numbers_of_a_choice(new_log: NewLog):
    """[CLN-34…CLN-38] A limit in a segment moves down; one with both parts counts as both."""
    log = fill(new_log(**{**COMPACT, "max_compaction_lag_ms": 1000}))
    first, second, third, *_ = log.segments()
    compaction = log._compaction()
    numbers = compaction.calculate_cleanable_bytes
    inside = second.base_offset + 1

    assert numbers(0, inside) == (second.base_offset, 0, first.size_bytes)
    assert numbers(inside, third.base_offset) == (
        third.base_offset,
        first.size_bytes + second.size_bytes,
        second.size_bytes,
    )
    assert numbers(third.base_offset, inside) == (
        second.base_offset,
        first.size_bytes + second.size_bytes,
        0,
    )
    begun = first.first_batch_timestamp()
    assert compaction.max_compaction_delay(0, begun + 1000) == 0
    assert compaction.max_compaction_delay(0, begun + 1007) == 7
    assert compaction.max_compaction_delay(log.log_end_offset, begun + 1007) == 0


def test_an_empty_log_is_no_candidate(new_log: NewLog, tmp_path: Path):
    """[CLN-37] It has no dirty ratio."""
    pool = Pool(tmp_path, [new_log(**COMPACT)])

    assert pool.manager.grab_filthiest_compacted_log(0) is None
    assert pool.manager.pre_clean_stats == (0, 0, 0, 0.0)
