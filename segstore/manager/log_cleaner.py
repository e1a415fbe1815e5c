"""Cleans the logs of log directories, one pass after another (Kafka ``LogCleaner``).

One iteration cleans the filthiest log, then deletes old segments of all compacted logs. Several
threads may run iterations at the same time, each with a log of its own. They share a limit for what
they read and write.

In Kafka's profile a log that cannot be cleaned is left alone until the next start. In the safe
profile it is tried again, after longer and longer waits [DUR-131].

Source: [CLN-1..CLN-9], Kafka ``LogCleaner``, ``CleanerThread``.
"""

from __future__ import annotations

import logging
import math
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from segstore.errors import (
    ClosedError,
    IllegalArgumentError,
    LogCleaningAbortedError,
    LogCleaningError,
    LogDirectoryOfflineError,
    LogReadOnlyError,
    LogTruncatedError,
    ReadIOError,
    SegstoreError,
)
from segstore.log.cleaning.cleaner import (
    BYTES_PER_KEY,
    Cleaner,
    map_bytes_for,
)
from segstore.log.files.profile import Profile
from segstore.log.log_dir_failure_channel import IO_ERRORS
from segstore.manager.log_cleaner_manager import cleaning_error, parent_dir
from segstore.manager.maintenance_report import FailedTask
from segstore.manager.retries import next_retry
from segstore.number_limits import MAX_INT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from segstore.log.cleaning.cleaner_stats import CleanerStats
    from segstore.log.log_dir_failure_channel import LogDirFailureChannel
    from segstore.log.unified_log import UnifiedLog
    from segstore.manager.cleaner_config import CleanerConfig
    from segstore.manager.log_cleaner_manager import LogCleanerManager
    from segstore.manager.log_to_clean import LogToClean
    from segstore.manager.maintenance_report import Findings
    from segstore.manager.retries import Retry
    from segstore.manager.throttler import Throttler
    from segstore.types import TopicPartition

_FIRST_RETRY_MS: Final = 1000
_MS_PER_SECOND: Final = 1000
_ENDED: Final = (LogCleaningAbortedError, LogTruncatedError)
"""The log was changed beside the pass, or it was to end."""
_STORAGE: Final = (ClosedError, LogDirectoryOfflineError, LogReadOnlyError)
"""The log takes no changes any more; who has ended that has reported it."""

_log = logging.getLogger(__name__)


class CleanedLog(NamedTuple):
    """A pass over a log.

    Attributes
    ----------
    topic_partition : TopicPartition
        Whose log it was.
    stats : CleanerStats
        What the pass did.
    """

    topic_partition: TopicPartition
    stats: CleanerStats

    def __str__(self) -> str:
        return f"{self.topic_partition}: {self.stats}"


class LogCleaner:
    """Runs iterations; each may be in a thread of its own.

    Parameters
    ----------
    config : CleanerConfig
        How.
    cleaner_manager : LogCleanerManager
        The choice.
    profile : Profile
        Of the logs.
    throttler : Throttler
        The limit that all threads share.
    failures : LogDirFailureChannel
        Hears of disks that fail.
    delete : callable
        Deletes old segments of a log: takes the partition, the log, the time and the findings.
    wall_clock_ms, timer_ms : callable
        The clock of records, and that of waits.
    """

    def __init__(  # noqa: PLR0913 - what it works with
        self,
        config: CleanerConfig,
        cleaner_manager: LogCleanerManager,
        profile: Profile,
        throttler: Throttler,
        failures: LogDirFailureChannel,
        delete: Callable[[TopicPartition, UnifiedLog, int | None, Findings], object],
        wall_clock_ms: Callable[[], int],
        timer_ms: Callable[[], int],
    ) -> None:
        self.config = config
        self.cleaner_manager = cleaner_manager
        self._profile = profile
        self._is_safe = profile is Profile.SAFE
        self._throttler = throttler
        self._failures = failures
        self._delete = delete
        self._wall_clock_ms = wall_clock_ms
        self._timer_ms = timer_ms
        self._is_over = False
        self._retries: dict[TopicPartition, Retry] = {}
        self._deletion_retries: dict[TopicPartition, Retry] = {}
        self._last_passes: dict[int, tuple[CleanerStats, int]] = {}
        """By thread: what its last pass did, and the longest delay when its log was chosen."""
        self._turn = 0
        """A pass of an earlier one ends: it uses memory by other settings."""
        _check_memory(config)

    def validate_reconfiguration(self, config: CleanerConfig) -> None:
        """Refuse a configuration that cannot take the place of this one.

        Raises
        ------
        IllegalArgumentError
            It has less than half of the threads, or more than twice as many; or a thread has no
            room for two keys; or it ends or begins compaction.

        Source: [CLN-8]; Kafka ``LogCleaner.validateReconfiguration``.
        """
        threads, enable = self.config.threads, self.config.enable
        if not threads // 2 <= config.threads <= 2 * threads:
            raise IllegalArgumentError(
                f"the threads of a cleaner change from {threads} to {config.threads}, which is more"
                " than double or less than half: change them in steps",
                found=str(config.threads),
                expected=f"{max(1, threads // 2)} to {2 * threads}",
            )
        if config.enable != enable:
            raise IllegalArgumentError(
                "whether logs are compacted is set by the open: close the log directory first",
                found=f"enable={config.enable}",
                expected=f"enable={enable}",
            )
        _check_memory(config)

    def reconfigure(self, config: CleanerConfig) -> None:
        """Clean by another configuration, which `validate_reconfiguration` takes [CLN-8].

        Passes that run end at their next piece where it has other memory or threads, and else go
        on.
        """
        before, self.config = self.config, config
        if replace(config, backoff_ms=before.backoff_ms, max_io_bytes_per_second=math.inf) != (
            replace(before, max_io_bytes_per_second=math.inf)
        ):
            self._turn += 1  # last: a pass that begins meanwhile ends, whichever it has read

    def stop(self) -> None:
        """End the passes that run, each at its next piece; no further one begins."""
        self._is_over = True
        self._throttler.stop()

    @property
    def failing(self) -> int:
        """How many logs could not be cleaned, or not deleted of, and are tried again."""
        return len({*self._retries, *self._deletion_retries})

    def gauges(self) -> dict[str, int]:
        """Return the numbers of the last pass of each thread, by Kafka's names [CLN-10]."""
        last = [*self._last_passes.values()]
        read = sum(stats.bytes_read for stats, _ in last)
        written = sum(stats.bytes_written for stats, _ in last)
        used = max((stats.buffer_utilization for stats, _ in last), default=0.0)
        return {
            "max-buffer-utilization-percent": int(100 * used),
            "cleaner-recopy-percent": int(100 * written / max(read, 1)),
            "max-clean-time-secs": int(max((stats.elapsed_secs for stats, _ in last), default=0.0)),
            "max-compaction-delay-secs": max((delay for _, delay in last), default=0)
            // _MS_PER_SECOND,
        }

    # ---- an iteration ----------------------------------------------------------------------------

    def try_clean_filthiest_log(self, now_ms: int | None, findings: Findings) -> bool:
        """Delete of all logs and clean the filthiest; return whether one was picked [CLN-3].

        Parameters
        ----------
        now_ms : int or None
            The time by which records are young or old, in ms since 1970; None = the wall clock.
        findings : Findings
            Gets what was cleaned, deleted, and what failed. A log that failed is marked, and the
            others are cleaned [CLN-4, DUR-131]. The safe profile marks none for a failed deletion,
            but waits longer and longer before the next.
        """
        self.cleaner_manager.release_interrupted()
        due = self._due(self._retries)
        if due:  # [DUR-131]
            self.cleaner_manager.unmark([*due])
        try:
            is_picked = self._clean_filthiest_log(now_ms, findings, due)
        except LogCleaningError as error:
            self.cleaner_manager.mark_failed(error.log)
            cause = error.__cause__
            reason = cause if isinstance(cause, Exception) else error
            findings.failed.append(self._failed("cleaning", self._retries, error.log, reason))
            is_picked = False
        finally:
            self.cleaner_manager.release_interrupted()
        self.cleaner_manager.maintain_uncleanable_partitions()
        return is_picked

    def _clean_filthiest_log(
        self, now_ms: int | None, findings: Findings, due: Mapping[TopicPartition, Retry]
    ) -> bool:
        now = self._wall_clock_ms() if now_ms is None else now_ms
        if self._is_safe:
            # Kafka deletes last, when the pass has put old records into segments of younger ones.
            self._delete_old_segments(now_ms, findings)
        to_clean = self.cleaner_manager.grab_filthiest_compacted_log(now)
        delay_ms = self.cleaner_manager.pre_clean_stats.max_compaction_delay_ms
        if to_clean is not None:
            try:
                stats = self.clean_log(to_clean, now)
            except Exception as error:
                raise cleaning_error(
                    to_clean.log, f"{to_clean.topic_partition} cannot be cleaned"
                ) from error
            if stats is not None:
                self._retries.pop(to_clean.topic_partition, None)
                self._last_passes[threading.get_ident()] = stats, delay_ms
                cleaned = CleanedLog(to_clean.topic_partition, stats)
                findings.cleaned.append(cleaned)
                _log.info("cleaned %s", cleaned)
        else:  # what was due again has been looked at
            self._drop_settled(self._retries, due)
        if not self._is_safe:
            self._delete_old_segments(now_ms, findings)
        return to_clean is not None

    def _delete_old_segments(self, now_ms: int | None, findings: Findings) -> None:
        """Delete of all compacted logs; they are released together [CLN-7]."""
        due = self._due(self._deletion_retries)
        deletable = self.cleaner_manager.deletable_logs()
        try:
            for topic_partition, log in deletable:
                if topic_partition in self._deletion_retries.keys() - due.keys():
                    continue
                try:
                    self._delete(topic_partition, log, now_ms, findings)
                except _STORAGE as error:
                    _log.info("nothing of %s is deleted: %s", topic_partition, error)
                except Exception as error:
                    if not self._is_safe:
                        raise cleaning_error(
                            log, f"{topic_partition} cannot have its old segments deleted"
                        ) from error
                    failed = self._failed("retention", self._deletion_retries, log, error)
                    findings.failed.append(failed)
        finally:
            self.cleaner_manager.done_deleting(one for one, _ in deletable)
        self._drop_settled(self._deletion_retries, due)

    # ---- one log ---------------------------------------------------------------------------------

    def clean_log(self, to_clean: LogToClean, now_ms: int | None = None) -> CleanerStats | None:
        """Run a pass over a log that was grabbed, and release it [CLN-5].

        Returns
        -------
        CleanerStats or None
            None where it was aborted, or the log takes no changes any more.
        """
        log, topic_partition = to_clean.log, to_clean.topic_partition
        end_offset = to_clean.first_dirty_offset
        try:
            cleaner = self._new_cleaner(to_clean)
            stats = log.clean(cleaner, end_offset, to_clean.first_uncleanable_offset, now_ms=now_ms)
            end_offset = stats.end_offset
        except (*_ENDED, *_STORAGE) as error:
            _log.info("the pass over %s has ended early: %s", topic_partition, error)
            return None
        except IO_ERRORS as error:
            if not self._is_safe or not isinstance(error, ReadIOError):  # that may be one file's
                self._failures.maybe_add_offline_log_dir(parent_dir(log), error)
            if self._is_safe:
                raise
            return None
        except Exception as error:
            if log._generation() != to_clean.generation:  # noqa: SLF001 - asked by its manager
                _log.info("%s was truncated during a pass: %s", topic_partition, error)
                return None
            raise
        finally:
            self._note_clean_end(to_clean, end_offset)
            self.cleaner_manager.done_cleaning(topic_partition, parent_dir(log), end_offset)
        return stats

    def _note_clean_end(self, to_clean: LogToClean, end_offset: int) -> None:
        """Let the log say up to where it is clean, also when the pass has replaced a part alone."""
        log = to_clean.log
        if self._is_safe:
            try:
                log._note_clean_end(end_offset, to_clean.generation)  # noqa: SLF001 - as above
            except SegstoreError as error:  # the next pass begins at the log start
                _log.info("%s: %s", log.path, error)

    def _map_bytes_for(self, to_clean: LogToClean) -> int:
        """Return how much memory the keys need at most: each offset has one record at most."""
        map_bytes = _map_bytes(self.config)
        if not self._is_safe:
            return map_bytes
        offsets = to_clean.first_uncleanable_offset - to_clean.first_dirty_offset
        return map_bytes_for(offsets, map_bytes, self.config.dedupe_buffer_load_factor)

    def _new_cleaner(self, to_clean: LogToClean) -> Cleaner:
        turn, config = self._turn, self.config

        def check_done() -> None:
            if turn != self._turn:
                raise LogCleaningAbortedError("the cleaner was given other threads or memory")
            self._check_done(to_clean)

        return Cleaner(
            offset_map_bytes=self._map_bytes_for(to_clean),
            io_buffer_bytes=max(1, config.io_buffer_size // config.threads // 2),
            load_factor=config.dedupe_buffer_load_factor,
            profile=self._profile,
            throttle=lambda count: self._throttler.maybe_throttle(count, check_done),
            check_done=check_done,
        )

    def _check_done(self, to_clean: LogToClean) -> None:
        if self._is_over:
            raise LogCleaningAbortedError("the log directory is being closed")
        self.cleaner_manager.check_cleaning_aborted(to_clean.topic_partition)
        if to_clean.log._generation() != to_clean.generation:  # noqa: SLF001 - as above
            raise LogCleaningAbortedError("the log was truncated: what is clean is not known")

    # ---- logs that cannot be cleaned -------------------------------------------------------------

    def _failed(
        self,
        task: str,
        retries: dict[TopicPartition, Retry],
        log: UnifiedLog,
        error: Exception,
    ) -> FailedTask:
        topic_partition = log.topic_partition
        retry_ms, first_ms = None, max(self.config.backoff_ms, _FIRST_RETRY_MS)
        retry = next_retry(retries.get(topic_partition), self._timer_ms(), first_ms)
        if self._is_safe:
            retry_ms, retries[topic_partition] = retry.due_ms, retry
        failed = FailedTask(task, topic_partition, error, retry.attempts, retry_ms)
        _log.warning("%s: %s", log.path, failed)
        return failed

    def _due(self, retries: Mapping[TopicPartition, Retry]) -> dict[TopicPartition, Retry]:
        """Return those whose time has come [DUR-131]."""
        now_ms = self._timer_ms()
        return {one: retry for one, retry in [*retries.items()] if retry.due_ms <= now_ms}

    def _drop_settled(
        self, retries: dict[TopicPartition, Retry], due: Mapping[TopicPartition, Retry]
    ) -> None:
        """Forget who was due and has not failed again: the log is well, or gone."""
        used = self.cleaner_manager.cleaning_states() if due else {}
        for one, retry in due.items():
            if retries.get(one) == retry and one not in used:
                retries.pop(one, None)


def _map_bytes(config: CleanerConfig) -> int:
    """Return how much memory a thread has for keys [CLN-1]."""
    return min(config.dedupe_buffer_size // config.threads, MAX_INT)


def _check_memory(config: CleanerConfig) -> None:
    """Refuse memory that has no room for keys; warn of memory that is not used [CLN-1, CLN-2]."""
    map_bytes = _map_bytes(config)
    if map_bytes < config.dedupe_buffer_size // config.threads:
        _log.warning("a cleaner uses %d bytes for keys, not more", MAX_INT)
    Cleaner(
        offset_map_bytes=min(map_bytes, 100 * BYTES_PER_KEY),
        load_factor=config.dedupe_buffer_load_factor,
    )
