"""What a log directory does for itself: retention, checkpoints, and what its logs do later.

A pass does what is due: `Maintenance.run_due` in the thread of a caller, or threads do it, where
the embedder has asked for them. Each log decides what it deletes, syncs and unlinks; here is when.

THREADS  A pass holds `_passing`, a job its own lock; under these come the manager's lock and those
of the logs. What a log tells is noted without a lock.

Source: [MGR-30, MGR-32, MGR-33, MGR-37, MGR-45, MGR-46, DUR-131], Kafka ``LogManager.startup``;
DESIGN D18.
"""

from __future__ import annotations

import logging
import weakref
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from segstore._core import AppendLock
from segstore.config.broker_keys import BROKER_KEYS
from segstore.errors import ClosedError
from segstore.manager.maintenance_report import FailedTask, Findings
from segstore.manager.retention_schedule import RetentionSchedule, retry_delay_ms
from segstore.manager.task_pool import MAX_THREADS, Clock, TaskPool

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore._core import Directory
    from segstore.config.broker_config import BrokerConfig
    from segstore.log.files.log_directory_checkpoints import OwnedCheckpoints
    from segstore.log.open_options import OpenOptions
    from segstore.log.unified_log import UnifiedLog
    from segstore.manager.maintenance_report import MaintenanceReport
    from segstore.manager.partition_listing import PartitionListing
    from segstore.manager.task_pool import PooledTasks
    from segstore.types import TopicPartition

FIRST_RETRY_MS: Final = 1000
"""What fails as a whole is tried again after that, then after twice as long, and so on."""

_log = logging.getLogger(__name__)


def _default_ms(name: str) -> int:
    return cast("int", BROKER_KEYS[name].default)


class MaintenanceIntervals(NamedTuple):
    """How often what is done, in ms.

    Attributes
    ----------
    retention_ms : int
        Kafka's ``log.retention.check.interval.ms``.
    checkpoints_ms : int
        Kafka's ``log.flush.offset.checkpoint.interval.ms``, and that of the log starts.
    initial_delay_ms : int
        Threads begin so long after the open: ``log.initial.task.delay.ms``.
    """

    retention_ms: int = _default_ms("log.retention.check.interval.ms")
    checkpoints_ms: int = _default_ms("log.flush.offset.checkpoint.interval.ms")
    initial_delay_ms: int = _default_ms("log.initial.task.delay.ms")

    @classmethod
    def of_broker(cls, config: BrokerConfig) -> MaintenanceIntervals:
        """Return those of a broker's settings; the two checkpoints are written together."""
        values = config.values
        recovery_points = values["log.flush.offset.checkpoint.interval.ms"]
        log_starts = values["log.flush.start.offset.checkpoint.interval.ms"]
        return cls(
            values["log.retention.check.interval.ms"],
            max(1, min(recovery_points, log_starts)),
            values["log.initial.task.delay.ms"],
        )


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
    ) -> None:
        self.background = pool.tasks
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
        self.attempts = 0
        self.run = run
        self.lock = AppendLock()
        self.tasks: PooledTasks | None = None  # where threads do it


class Maintenance:
    """The background work of one log directory that is open for writing.

    Parameters
    ----------
    directory : Directory
        The log directory.
    listing : PartitionListing
        Its partitions.
    checkpoints : OwnedCheckpoints
        Its checkpoint files.
    options : OpenOptions
        What it was opened with.
    open_log : callable
        Returns the log of a topic and a partition's number; opens it where it is not open.
    check : callable
        Raises where nothing may be written: after a failure of the disk, or a close.
    remove_deleted : callable
        Takes the time in ms, removes the directories of deleted partitions that are due then, and
        returns their names.
    intervals : MaintenanceIntervals
        How often what is done.
    max_threads : int
        At most so many threads do what logs do later; 0 = it is done in passes alone.
    """

    def __init__(  # noqa: PLR0913 - what it works with
        self,
        directory: Directory,
        listing: PartitionListing,
        checkpoints: OwnedCheckpoints,
        options: OpenOptions,
        open_log: Callable[[str, int], UnifiedLog],
        check: Callable[[], None],
        remove_deleted: Callable[[int], list[str]],
        *,
        intervals: MaintenanceIntervals = MaintenanceIntervals(),  # noqa: B008 - a value
        max_threads: int = MAX_THREADS,
    ) -> None:
        self._clock = Clock(directory.environment)
        self._pool = TaskPool(self._clock, max_threads)
        self._path = directory.path
        self._checkpoints = checkpoints
        self._check = check
        self._remove_deleted = remove_deleted
        self._intervals = intervals
        self._is_over = False
        self._passing = AppendLock()  # a handler that comes here in its midst is told
        self._noted: dict[TopicPartition, WatchedLog] = {}
        self._schedule = RetentionSchedule(
            directory, listing, options, open_log, intervals.retention_ms
        )
        now_ms = self._clock.now_ms()
        self._jobs = (
            _Job("retention", intervals.retention_ms, now_ms, self._run_retention),
            _Job("checkpoints", intervals.checkpoints_ms, now_ms, self._write_checkpoints),
            _Job("deleted partitions", intervals.checkpoints_ms, now_ms, self._remove_directories),
        )

    def watched(self, topic_partition: TopicPartition) -> WatchedLog:
        """Return what a log gets that is about to be opened."""
        return WatchedLog(self._pool, topic_partition, self._schedule.changed, self._noted)

    # ---- a pass ----------------------------------------------------------------------------------

    def run_due(self, now_ms: int | None = None) -> MaintenanceReport:
        """Do everything that is due, in this thread.

        Parameters
        ----------
        now_ms : int or None
            The time: the clock of the directory is moved on to it, for good. None = now.

        Raises
        ------
        RuntimeError
            A signal handler called in the middle of a pass.
        """
        findings = Findings()
        with self._passing:
            if now_ms is not None:
                self._clock.move_to(now_ms)
            for job in self._jobs:
                self._run_job(job, now_ms, findings)
            tasks, failed = self._pool.run_due()
            findings.failed += [FailedTask(name, None, error, 1, None) for name, error in failed]
            if now_ms is not None:
                self._pool.settle()
            next_ms = min(job.next_ms for job in self._jobs)
            due_ms = self._pool.next_due_ms()
        return findings.report(tasks, next_ms if due_ms is None else min(next_ms, due_ms))

    def _run_job(self, job: _Job, now_ms: int | None, findings: Findings) -> None:
        """Run a job that is due; a failure is reported, and it is tried again [DUR-131]."""
        with job.lock:
            clock_ms = self._clock.now_ms()
            if job.next_ms > clock_ms or self._is_over:
                return
            try:
                self._check()
                job.run(now_ms, findings)
            except ClosedError:  # the manager is being closed
                return
            except Exception as error:  # noqa: BLE001 - the next job runs all the same
                job.attempts += 1
                delay_ms = retry_delay_ms(FIRST_RETRY_MS, job.attempts, job.interval_ms)
                job.next_ms = clock_ms + delay_ms
                failed = FailedTask(job.name, None, error, job.attempts, job.next_ms)
                findings.failed.append(failed)
                _log.warning("%s: %s", self._path, failed)
            else:
                job.attempts, job.next_ms = 0, clock_ms + job.interval_ms

    def _run_retention(self, now_ms: int | None, findings: Findings) -> None:
        self._schedule.run(now_ms, findings, self._has_ended)

    def _write_checkpoints(self, now_ms: int | None, findings: Findings) -> None:
        """Write recovery points and log starts of logs where they changed [MGR-45, MGR-46]."""
        del now_ms
        while self._noted and not self._is_over:
            topic_partition, watched = self._noted.popitem()
            log = watched.log
            if log is not None:
                try:
                    log._note_checkpoints()  # noqa: SLF001 - asked by its manager
                except BaseException:
                    self._noted[topic_partition] = watched
                    raise
        findings.checkpoints += self._checkpoints.write()

    def _remove_directories(self, now_ms: int | None, findings: Findings) -> None:
        """Remove the directories of deleted partitions whose delay is over [MGR-66, MGR-67]."""
        findings.removed += self._remove_deleted(now_ms or self._clock.now_ms())

    # ---- threads ---------------------------------------------------------------------------------

    def start(self) -> None:
        """Let threads do what is due, the first time after the initial delay [MGR-36]."""
        first_ms = self._clock.now_ms() + self._intervals.initial_delay_ms
        for job in self._jobs:
            job.next_ms = first_ms
            job.tasks = self._pool.tasks(f"{self._path}: {job.name}")
            self._submit(job)

    def _submit(self, job: _Job) -> None:
        """Let a thread run a job at its time; nothing here keeps the manager alive."""
        if job.tasks is not None and not self._is_over:
            delay_ms = max(0, job.next_ms - self._clock.now_ms())
            tick = partial(_tick, weakref.ref(self), self._jobs.index(job))
            job.tasks.submit(tick, delay_ms / 1000)

    def tick(self, number: int) -> None:
        """Run a job in a thread, if it is due yet, and wait for its next time."""
        job = self._jobs[number]
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

    def stop(self) -> None:
        """Begin nothing any more, and wait for what runs: at most for what one log does.

        The logs go on to do later what they have to, until each is closed.
        """
        self._is_over = True
        for job in self._jobs:
            if job.tasks is not None:
                job.tasks.close()
        with self._passing:
            pass

    def close(self) -> None:
        """End the threads; the logs were closed before."""
        self._is_over = True
        self._pool.close()


def _tick(reference: weakref.ref[Maintenance], number: int) -> None:
    maintenance = reference()
    if maintenance is not None:
        maintenance.tick(number)
