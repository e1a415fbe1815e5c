"""What a log directory does for itself: retention, compaction, checkpoints, tasks of its logs.

A pass does what is due: `Maintenance.run_due` in the thread of a caller, or threads do it, where
the embedder has asked for them. Each log decides what it deletes, syncs and unlinks; here is when.

THREADS  A pass holds `_passing`, a job its own lock; under these come the manager's lock and those
of the logs. What a log tells is noted without a lock.

Source: [TIER-31, MGR-30…MGR-33, MGR-35, MGR-37, MGR-40, MGR-45…MGR-47, DUR-131], Kafka
``LogManager.startup``; DESIGN D18.
"""

from __future__ import annotations

import logging
import weakref
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, cast

from segstore._core import AppendLock
from segstore.errors import ClosedError
from segstore.log.files.checkpoints import (
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
)
from segstore.log.files.profile import Profile
from segstore.manager.compacted_logs import CompactedLogs
from segstore.manager.listed_topics import ListedTopics
from segstore.manager.log_cleaner import LogCleaner
from segstore.manager.log_cleaner_manager import LogCleanerManager, parent_dir
from segstore.manager.maintenance_intervals import MaintenanceIntervals
from segstore.manager.maintenance_report import FailedTask, Findings
from segstore.manager.manager_stats import CLEANER, CLEANER_MANAGER
from segstore.manager.retention_schedule import RetentionSchedule
from segstore.manager.retries import retry_delay_ms
from segstore.manager.task_pool import THREADS, Clock, TaskPool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from segstore._core import Directory
    from segstore.config.log_config import LogConfig
    from segstore.log.files.log_directory_checkpoints import OwnedCheckpoints
    from segstore.log.log_dir_failure_channel import LogDirFailureChannel
    from segstore.log.open_options import OpenOptions
    from segstore.log.unified_log import UnifiedLog
    from segstore.manager.cleaner_config import CleanerConfig
    from segstore.manager.maintenance_report import DeletionCounts, MaintenanceReport
    from segstore.manager.partition_listing import PartitionListing
    from segstore.manager.shared_log_directory import SharedCheckpoints
    from segstore.manager.task_pool import PooledTasks
    from segstore.manager.throttler import Throttler
    from segstore.manager.tiered_topics import TieredTopics
    from segstore.types import TopicPartition

FIRST_RETRY_MS: Final = 1000
"""What fails as a whole is tried again after that, then after twice as long, and so on."""

_log = logging.getLogger(__name__)


class OtherPartitions(Protocol):
    """What a directory that several processes write does for its maintenance."""

    def update_settings(self) -> list[FailedTask]:
        """Let open logs go by settings that another process has changed; return what failed."""

    def find_what_is_left(self) -> bool:
        """Find what others have deleted; return whether this process looks after the others."""

    def borrowing(self, topic_partition: TopicPartition) -> AbstractContextManager[bool]:
        """Have a log open in the block that no process writes; False where one does."""


class WatchedLog:
    """What one log gets from the maintenance of its directory, and tells it (`LogWatcher`).

    Attributes
    ----------
    background : callable
        As `LogEnvironment.background`.
    """

    def __init__(
        self,
        pool: TaskPool,
        topic_partition: TopicPartition,
        changed: set[TopicPartition],
        noted: dict[TopicPartition, WatchedLog],
        truncating: Callable[[UnifiedLog, int | None], AbstractContextManager[None]],
    ) -> None:
        self.background = pool.tasks
        self._truncating = truncating
        self._topic_partition = topic_partition
        self._changed = changed
        self._noted = noted
        self._log: weakref.ref[UnifiedLog] | None = None

    @property
    def log(self) -> UnifiedLog | None:
        """The log, once it is open."""
        return None if self._log is None else self._log()

    def watch(self, log: UnifiedLog) -> None:
        """The log is open: retention looks at it in the next pass."""
        self._log = weakref.ref(log)
        self.note_segments()

    def note_segments(self) -> None:
        """See `LogWatcher`."""
        self._changed.add(self._name())

    def note_checkpoint(self) -> None:
        """See `LogWatcher`."""
        self._noted[self._name()] = self

    def truncating(self, offset: int | None) -> AbstractContextManager[None]:
        """See `LogWatcher`."""
        log = self.log
        return nullcontext() if log is None else self._truncating(log, offset)

    def _name(self) -> TopicPartition:
        log = self.log
        return self._topic_partition if log is None else log.topic_partition


class _Job:
    """Something that is done for the whole directory, every so often."""

    def __init__(
        self,
        name: str,
        interval_ms: int,
        now_ms: int,
        run: Callable[[int | None, Findings], None],
    ) -> None:
        self.name = name
        self.interval_ms = interval_ms
        self.next_ms = now_ms
        self.is_asked = False  # it is due whatever `next_ms` says
        self.attempts = 0
        self.run = run
        self.lock = AppendLock()
        self.tasks: PooledTasks | None = None  # where threads do it
        self.turn = 0  # of the task that counts: another one was submitted before

    @property
    def due_ms(self) -> int:
        """When it is due."""
        return 0 if self.is_asked else self.next_ms


class Maintenance:
    """The background work of one log directory that is open for writing.

    Parameters
    ----------
    directory : Directory
        The log directory.
    listing : PartitionListing
        Its partitions.
    checkpoints : OwnedCheckpoints or SharedCheckpoints
        Its checkpoint files.
    options : OpenOptions
        What it was opened with.
    configs_of : callable
        Takes names of topics, returns what the logs of each go by.
    open_log : callable
        Returns the log of a topic and a partition's number; opens it where it is not open.
    open_logs : callable
        Returns the logs that are open.
    changing : callable
        Returns a context for one job. It raises where nothing may be written: after a failure of
        the disk, or a close. An I/O error in it ends writing in the directory.
    remove_deleted : callable
        Takes the time in ms, removes the directories of deleted partitions that are due then, and
        returns their names.
    cleaner_config : CleanerConfig
        How compaction runs.
    throttler : Throttler
        What limits it, with that of other directories.
    failures : LogDirFailureChannel
        Hears of disks that fail.
    intervals : MaintenanceIntervals
        How often what is done.
    others : OtherPartitions or None
        Of a directory that other processes write too.
    tiered : TieredTopics or None
        The remote part of the directory.
    thread_count : int
        How many threads do what logs do later; 0 = it is done in passes alone.

    Attributes
    ----------
    cleaner_manager : LogCleanerManager
        Who changes a log pauses its cleaning there.
    """

    def __init__(  # noqa: PLR0913 - what it works with
        self,
        directory: Directory,
        listing: PartitionListing,
        checkpoints: OwnedCheckpoints | SharedCheckpoints,
        options: OpenOptions,
        configs_of: Callable[[Iterable[str]], Mapping[str, LogConfig]],
        open_log: Callable[[str, int], UnifiedLog],
        open_logs: Callable[[], list[UnifiedLog]],
        changing: Callable[[], AbstractContextManager[None]],
        remove_deleted: Callable[[int], list[str]],
        cleaner_config: CleanerConfig,
        throttler: Throttler,
        failures: LogDirFailureChannel,
        *,
        intervals: MaintenanceIntervals = MaintenanceIntervals(),  # noqa: B008 - a value
        others: OtherPartitions | None = None,
        tiered: TieredTopics | None = None,
        thread_count: int = THREADS,
    ) -> None:
        self._clock = Clock(directory.environment)
        self._thread_count = thread_count
        self._pool = TaskPool(self._clock, self._threads_with(cleaner_config))
        self._path = directory.path
        self._wall_clock_ms = directory.wall_clock_ms
        self._checkpoints = checkpoints
        self._changing = changing
        self._remove_deleted = remove_deleted
        self._intervals = intervals
        self._is_over = False
        self._passing = AppendLock()  # a handler that comes here in its midst is told
        self._noted: dict[TopicPartition, WatchedLog] = {}
        self._topics = ListedTopics(directory, listing, options, configs_of)
        self._schedule = RetentionSchedule(
            self._topics, open_log, intervals.retention_ms, cleans=cleaner_config.enable
        )
        self._compacted = CompactedLogs(
            self._topics, open_log, self.now_ms, cleaner_config.backoff_ms
        )
        self._others = others
        has_checkpoint = cleaner_config.enable or options.profile is Profile.SAFE  # [CLN-25]
        if others is not None:  # other processes would write it too
            has_checkpoint = False
        self.cleaner_manager = LogCleanerManager(
            {directory.path: directory} if has_checkpoint else {},
            self._compacted,
            options.profile,
            failures,
        )
        self._cleaner = LogCleaner(
            cleaner_config,
            self.cleaner_manager,
            options.profile,
            throttler,
            failures,
            self._schedule.delete_of_compacted,
            directory.wall_clock_ms,
            self.now_ms,
        )
        now_ms = self._clock.now_ms()
        self._open_log = open_log
        self._open_logs = open_logs
        self._tiered = tiered
        self._is_kafka = options.profile is Profile.KAFKA
        runs = [
            ("retention", intervals.retention_ms, self._run_retention),
            ("recovery points", intervals.recovery_points_ms, self._write_recovery_points),
            ("log starts", intervals.log_starts_ms, self._write_log_starts),
            ("deleted partitions", intervals.recovery_points_ms, self._remove_directories),
        ]
        if tiered is not None:  # before retention: that deletes here what is copied
            runs.insert(0, ("remote storage", tiered.interval_ms, self._run_remote))
        if self._is_kafka:
            runs.insert(1, ("flushes", intervals.flushes_ms, self._flush_late))
        if options.replicated:
            runs.append(
                ("high watermarks", intervals.high_watermarks_ms, self._write_high_watermarks)
            )
        self._jobs = tuple(_Job(name, interval, now_ms, run) for name, interval, run in runs)
        self._set_cleaning_jobs(cleaner_config)

    def _threads_with(self, config: CleanerConfig) -> int:
        return self._thread_count + config.threads - 1 if self._thread_count else 0

    def _set_cleaning_jobs(self, config: CleanerConfig) -> None:
        """Have one for each thread of the cleaner; wait for the pass of one that goes."""
        cleaning = [job for job in self._jobs if job.name == "cleaning"]
        others = [job for job in self._jobs if job not in cleaning]
        count = config.threads if config.enable else 0
        for job in cleaning[count:]:  # in `_jobs` until it has ended: `stop` waits for it too
            if job.tasks is not None:
                job.tasks.close()
        interval_ms, now_ms = max(1, config.backoff_ms), self._clock.now_ms()
        while len(cleaning) < count:
            run = partial(self._run_cleaning, len(cleaning))
            cleaning.append(_Job("cleaning", interval_ms, now_ms, run))
        for job in cleaning:
            job.interval_ms = interval_ms
        self._jobs = (*others, *cleaning[:count])

    def use_cleaner_config(self, config: CleanerConfig) -> None:
        """Let compaction run by another configuration, which `LogCleaner` has validated [CLN-8].

        A thread, or the next pass, looks for a log to clean then, whatever the interval.
        """
        self._cleaner.reconfigure(config)
        self._compacted.interval_ms = config.backoff_ms
        self._set_cleaning_jobs(config)
        self._pool.grow(self._threads_with(config))
        if self._jobs[0].tasks is not None:  # threads do it
            for job in self._jobs:
                if job.tasks is None or job.tasks.is_closed:  # by an interrupted call
                    job.tasks = self._pool.tasks(f"{self._path}: {job.name}")
        self._ask_for("cleaning")

    def validate_cleaner_config(self, config: CleanerConfig) -> None:
        """See `LogCleaner.validate_reconfiguration`."""
        self._cleaner.validate_reconfiguration(config)

    def use_options(self, options: OpenOptions) -> None:
        """Go by these settings, where a topic was given none, from the next run on [MGR-97]."""
        self._topics.options = options

    def watched(self, topic_partition: TopicPartition) -> WatchedLog:
        """Return what a log gets that is about to be opened."""
        return WatchedLog(
            self._pool,
            topic_partition,
            self._schedule.changed,
            self._noted,
            self._truncating,
        )

    @contextmanager
    def _truncating(self, log: UnifiedLog, offset: int | None) -> Iterator[None]:
        """Let a pass over the log end, and know less of it as clean [MGR-85, MGR-87].

        The safe profile knows less before the cut: a kill in between leaves no line that is too
        high for what is appended later.
        """
        with self.cleaner_manager.paused_cleaning([log.topic_partition]):
            is_compacted = "compact" in log.config.cleanup_policies
            if is_compacted and not self._is_kafka:
                # a roll beside it adds a base above the line: no pass moves that now
                bases = [segment.base_offset for segment in log.segments()]
                active = (
                    0 if offset is None else max((b for b in bases if b <= offset), default=offset)
                )
                self._lower_checkpoint(log, active)
            yield
            if is_compacted and self._is_kafka:
                self._lower_checkpoint(log, log.segments()[-1].base_offset)

    def _lower_checkpoint(self, log: UnifiedLog, offset: int) -> None:
        self.cleaner_manager.lower_checkpoint(parent_dir(log), log.topic_partition, offset)

    @property
    def deletions(self) -> DeletionCounts:
        """What retention has deleted since the open."""
        return self._schedule.deletions

    @property
    def failing(self) -> int:
        """How many tasks failed when they ran last, and are tried again."""
        jobs = sum(job.attempts > 0 for job in self._jobs)
        return jobs + self._schedule.failing + self._compacted.failing + self._cleaner.failing

    def cleaning_gauges(self) -> dict[str, int]:
        """Return the numbers of the cleaner, by Kafka's names of metrics [CLN-10, CLN-12].

        No thread dies here: one whose last run has failed counts as dead until it runs again.
        """
        dead = sum(job.attempts > 0 for job in self._jobs if job.name == "cleaning")
        of_cleaner = {**self._cleaner.gauges(), "DeadThreadCount": dead}
        of_manager = self.cleaner_manager.gauges(self._wall_clock_ms())
        return {
            **{f"{CLEANER}{name}": number for name, number in of_cleaner.items()},
            **{f"{CLEANER_MANAGER}{name}": number for name, number in of_manager.items()},
        }

    def now_ms(self) -> int:
        """Return the time in ms by the clock of the directory."""
        return self._clock.now_ms()

    # ---- a pass ----------------------------------------------------------------------------------

    def run_due(
        self,
        now_ms: int | None = None,
        progress: Callable[[TopicPartition, int, int], None] | None = None,
    ) -> MaintenanceReport:
        """Do everything that is due, in this thread.

        Parameters
        ----------
        now_ms : int or None
            The time: the clock of the directory is moved on to it, for good. None = now.
        progress : callable or None
            See `LogManager.maintain`.

        Raises
        ------
        RuntimeError
            A signal handler called in the middle of a pass.
        """
        findings = Findings(progress)
        with self._passing:
            if now_ms is not None:
                self._clock.move_to(now_ms)
            for job in self._jobs:
                self._run_job(job, now_ms, findings)
            tasks, failed = self._pool.run_due()
            findings.failed += [FailedTask(name, None, error, 1, None) for name, error in failed]
            if now_ms is not None:
                self._pool.settle()
            next_ms = min(job.due_ms for job in self._jobs)
            due_ms = self._pool.next_due_ms()
        first_ms = next_ms if due_ms is None else min(next_ms, due_ms)
        return findings.report(tasks, max(0, first_ms - self._clock.now_ms()))

    def _run_job(self, job: _Job, now_ms: int | None, findings: Findings) -> None:
        """Run a job that is due; a failure is reported, and it is tried again [DUR-131]."""
        with job.lock:
            clock_ms = self._clock.now_ms()
            if job.due_ms > clock_ms or self._is_over:
                return
            if job.is_asked:
                job.next_ms = min(job.next_ms, clock_ms)  # an interrupted run leaves it due
                job.is_asked = False  # before the run: what is asked meanwhile makes it due again
            try:
                with self._changing():
                    job.run(now_ms, findings)
            except Exception as error:  # noqa: BLE001 - the next job runs all the same
                if isinstance(error, ClosedError) and self._has_ended():  # by `begin_close`
                    return
                job.attempts += 1
                delay_ms = retry_delay_ms(FIRST_RETRY_MS, job.attempts, job.interval_ms)
                job.next_ms = clock_ms + delay_ms
                failed = FailedTask(job.name, None, error, job.attempts, job.next_ms)
                findings.failed.append(failed)
                _log.warning("%s: %s", self._path, failed)
            else:
                job.attempts, job.next_ms = 0, clock_ms + job.interval_ms

    def ask_for_retention(self) -> None:
        """Let the next pass look for segments to delete, or a thread now; also beside a pass."""
        self._ask_for("retention")
        self._ask_for("remote storage")  # the limits of a topic may be other ones

    def _ask_for(self, name: str) -> None:
        for job in self._jobs:
            if job.name == name:
                job.is_asked = True
                self._submit(job)

    def _run_remote(self, now_ms: int | None, findings: Findings) -> None:
        """Copy to remote storage, and delete there [TIER-31]."""
        tiered = cast("TieredTopics", self._tiered)
        tiered.run(self._topics.current(), self._open_log, now_ms, findings, self._has_ended)

    def _run_retention(self, now_ms: int | None, findings: Findings) -> None:
        if self._others is not None:
            for failed in self._others.update_settings():
                findings.failed.append(failed)
                _log.warning("%s: %s", self._path, failed)
        self._schedule.run(now_ms, findings, self._has_ended)
        if self._others is not None and self._others.find_what_is_left():
            self._look_after(self._others, now_ms, findings)

    def _look_after(self, others: OtherPartitions, now_ms: int | None, findings: Findings) -> None:
        """Do for each partition that no process writes what is due, one after another."""
        now = self._topics.current()
        for one in now.listed.partitions:
            config = now.configs[one.topic]
            is_compacted = self._cleaner.config.enable and "compact" in config.cleanup_policies
            if self._is_over:
                break
            if not (config.is_limited or is_compacted):
                continue
            try:
                with others.borrowing(one) as is_borrowed:
                    if is_borrowed:
                        self._schedule.run(now_ms, findings, self._has_ended)
                    if is_borrowed and is_compacted:
                        self._run_cleaning(0, now_ms, findings)
            except ClosedError:  # by its user, or with the directory
                continue
            except Exception as error:  # noqa: BLE001 - one log stops no other [DUR-131]
                failed = FailedTask("retention", one, error, 1, None)
                findings.failed.append(failed)
                _log.warning("%s: %s", self._path, failed)

    def _run_cleaning(self, number: int, now_ms: int | None, findings: Findings) -> None:
        """Clean one log after another, until none is due, or there are fewer threads [CLN-3]."""
        count, cleaner = -1, self._cleaner
        while (
            not self._is_over
            and number < cleaner.config.threads
            and count < len(findings.cleaned) + len(findings.failed)
        ):
            self._compacted.look(findings)
            count = len(findings.cleaned) + len(findings.failed)
            cleaner.try_clean_filthiest_log(now_ms, findings)

    def _flush_late(self, now_ms: int | None, findings: Findings) -> None:
        """Flush logs whose ``flush.ms`` have passed; one that fails stops no other [MGR-40]."""
        now = self._clock.now_ms() if now_ms is None else now_ms
        for log in self._open_logs():
            try:
                log._flush_if_late(now)  # noqa: SLF001 - asked by its manager
            except ClosedError:
                continue
            except Exception as error:  # noqa: BLE001 - one log stops no other [DUR-131]
                failed = FailedTask("flushes", log.topic_partition, error, 1, None)
                findings.failed.append(failed)
                _log.warning("%s: %s", self._path, failed)

    def _write_recovery_points(self, now_ms: int | None, findings: Findings) -> None:
        """Write the file of recovery points, where they changed [MGR-45]."""
        del now_ms
        self._note_checkpoints()
        findings.checkpoints += self._checkpoints.write((RECOVERY_POINT_CHECKPOINT,))

    def _write_log_starts(self, now_ms: int | None, findings: Findings) -> None:
        """Write the file of log starts, where they changed [MGR-46]."""
        del now_ms
        self._note_checkpoints()
        findings.checkpoints += self._checkpoints.write((LOG_START_OFFSET_CHECKPOINT,))

    def _write_high_watermarks(self, now_ms: int | None, findings: Findings) -> None:
        """Write the file of high watermarks, where they changed [MGR-47]."""
        del now_ms
        for log in self._open_logs():
            log._note_high_watermark()  # noqa: SLF001 - asked by its manager
        findings.checkpoints += self._checkpoints.write((HIGH_WATERMARK_CHECKPOINT,))

    def _note_checkpoints(self) -> None:
        """Ask the logs where recovery point or log start changed; a broker asks all."""
        if self._is_kafka:
            for one in self._open_logs():
                one._note_checkpoints()  # noqa: SLF001 - asked by its manager
        for topic_partition, watched in [*self._noted.items()]:
            if self._is_over:
                break
            try:
                self._noted.pop(topic_partition, None)  # first: a change meanwhile notes again
                if (log := watched.log) is not None:
                    log._note_checkpoints()  # noqa: SLF001 - asked by its manager
            except BaseException:
                self._noted.setdefault(topic_partition, watched)
                raise

    def _remove_directories(self, now_ms: int | None, findings: Findings) -> None:
        """Remove the directories of deleted partitions whose delay is over [MGR-66, MGR-67]."""
        del now_ms
        findings.removed += self._remove_deleted(self.now_ms())

    # ---- threads ---------------------------------------------------------------------------------

    def start(self) -> None:
        """Let threads do what is due, the first time after the initial delay [MGR-36]."""
        first_ms = self._clock.now_ms() + self._intervals.initial_delay_ms
        for job in self._jobs:
            job.next_ms = first_ms
            job.tasks = self._pool.tasks(f"{self._path}: {job.name}")
            self._submit(job)

    def _submit(self, job: _Job) -> None:
        """Let a thread run a job at its time; nothing here keeps the manager alive.

        The task that was submitted before counts no more.
        """
        if job.tasks is not None and not self._is_over:
            job.turn += 1
            delay_ms = max(0, job.due_ms - self._clock.now_ms())
            tick = partial(_tick, weakref.ref(self), self._jobs.index(job), job.turn)
            job.tasks.submit(tick, delay_ms / 1000)

    def tick(self, number: int, turn: int) -> None:
        """Run a job in a thread, if it is due yet, and wait for its next time."""
        job = self._jobs[number]
        if turn != job.turn:
            return
        try:
            self._run_job(job, None, Findings())
        finally:
            self._submit(job)

    def _has_ended(self) -> bool:
        return self._is_over

    # ---- the end ---------------------------------------------------------------------------------

    def require_outside(self) -> None:
        """Raise RuntimeError in the middle of a pass of this thread."""
        self._passing.require_another_owner()

    def begin_close(self) -> None:
        """Begin no job any more; `ClosedError` comes out of those that run, and is no failure."""
        self._is_over = True
        if self._tiered is not None:
            self._tiered.cancel()

    def stop(self) -> None:
        """Begin nothing any more, and wait for what runs: at most for what one log does.

        The logs go on to do later what they have to, until each is closed.
        """
        self._is_over = True
        self._cleaner.stop()
        for job in self._jobs:
            if job.tasks is not None:
                job.tasks.close()
        with self._passing:
            pass

    def close(self) -> None:
        """End the threads; the logs were closed before."""
        self._is_over = True
        self._pool.close()


def _tick(reference: weakref.ref[Maintenance], number: int, turn: int) -> None:
    maintenance = reference()
    if maintenance is not None:
        maintenance.tick(number, turn)
