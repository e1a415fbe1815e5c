"""Which log is cleaned next, and who may change a log beside that (Kafka ``LogCleanerManager``).

STATES [CLN-15]  none; in progress, while a thread cleans the log or deletes of it; aborted, when
that thread is to end; paused, n times. A truncation, a deletion or a move of a log aborts and
pauses its cleaning first, and resumes it afterwards.

CHECKPOINTS  ``cleaner-offset-checkpoint`` of each log directory has a line for each cleaned log.
Brokers and Kafka's profile go by it. The safe profile goes by what ``.segstore`` of the log says,
which is tied to the topic id and the segments [DUR-120, DUR-126].

THREADS  One lock guards states, checkpoints and marks. No thread waits for a pass under it. A log's
append lock is taken under it, and never the other way round.
"""

from __future__ import annotations

import logging
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from segstore._core import AppendLock, FileBarrier
from segstore.errors import (
    CorruptCheckpointError,
    DiskFullError,
    IllegalStateError,
    LogCleaningAbortedError,
    LogCleaningError,
    LogDirectoryOfflineError,
    ResourceError,
    SegstoreError,
    UnknownTopicOrPartitionError,
)
from segstore.log.files.checkpoints import (
    CLEANER_OFFSET_CHECKPOINT,
    MAX_CHECKPOINT_BYTES,
    UNREADABLE,
    format_offset_checkpoint,
    parse_checkpoint,
    parse_offset_checkpoint,
    read_offset_checkpoint,
)
from segstore.log.files.profile import Profile
from segstore.log.log_dir_failure_channel import IO_ERRORS
from segstore.manager.log_to_clean import LogToClean, PreCleanStats

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from segstore._core import Directory
    from segstore.log.log_dir_failure_channel import LogDirFailureChannel
    from segstore.log.unified_log import UnifiedLog
    from segstore.types import TopicPartition

_POLL_SECONDS: Final = 0.01
_log = logging.getLogger(__name__)


class LogPool(Protocol):
    """The logs that may be cleaned; a dict is one."""

    def __contains__(self, topic_partition: object) -> bool:
        """Whether the partition is there, open or not."""

    def get(self, topic_partition: TopicPartition) -> UnifiedLog | None:
        """Return a log, None where it is not there."""

    def items(self) -> Iterable[tuple[TopicPartition, UnifiedLog]]:
        """Yield the logs, all that may be compacted among them."""


class LogCleaningState(NamedTuple):
    """What is done with a log now (Kafka ``LogCleaningState``).

    Attributes
    ----------
    name : str
        ``InProgress``, ``Aborted`` or ``Paused``.
    paused_count : int
        How many times it is paused.
    """

    name: str
    paused_count: int = 0

    def __str__(self) -> str:
        return f"{self.name}({self.paused_count})" if self.paused_count else self.name


IN_PROGRESS: Final = LogCleaningState("InProgress")
ABORTED: Final = LogCleaningState("Aborted")


def paused(count: int) -> LogCleaningState:
    """Return the state of a log that is paused *count* times."""
    return LogCleaningState("Paused", count)


class _Use(NamedTuple):
    """Who has a log: both parts change in one step.

    Attributes
    ----------
    owner : int or None
        The thread that cleans it. One that waits for itself would wait for ever.
    holders : tuple
        Who has paused it: an object for a block, None for a call that another call takes back.
    """

    owner: int | None = None
    holders: tuple[object, ...] = ()

    @property
    def state(self) -> LogCleaningState:
        if self.owner is None:
            return paused(len(self.holders))
        return ABORTED if self.holders else IN_PROGRESS


_UNUSED: Final = _Use()


class LogCleanerManager:
    """The states of the logs, the choice of the next one, and where each was cleaned up to.

    Parameters
    ----------
    log_dirs : mapping of str to Directory
        The log directories by their paths.
    logs : LogPool
        Their logs.
    profile : Profile
        Of the logs.
    failures : LogDirFailureChannel
        Hears of log directories whose checkpoint Kafka's profile cannot read or write [CKP-7].
    """

    def __init__(
        self,
        log_dirs: Mapping[str, Directory],
        logs: LogPool,
        profile: Profile,
        failures: LogDirFailureChannel,
    ) -> None:
        self._logs = logs
        self._is_safe = profile is Profile.SAFE
        self._failures = failures
        self._checkpoints = dict(log_dirs)
        self._uses: dict[TopicPartition, _Use] = {}
        self._uncleanable_partitions: dict[str, set[TopicPartition]] = {}
        self._lock = AppendLock()  # a handler that comes here in its midst is told
        self.pre_clean_stats = PreCleanStats()
        self._last_run_ms: int | None = None
        if not self._is_safe:
            for directory in log_dirs.values():  # [CKP-3]
                if not directory.exists(CLEANER_OFFSET_CHECKPOINT):
                    directory.write_file_atomically(
                        CLEANER_OFFSET_CHECKPOINT, b"", FileBarrier.SHARED_CHECKPOINT
                    )

    # ---- states ----------------------------------------------------------------------------------

    def cleaning_state(self, topic_partition: TopicPartition) -> LogCleaningState | None:
        """Return the state of a log, None without one."""
        with self._lock:
            use = self._uses.get(topic_partition)
            return None if use is None else use.state

    def cleaning_states(self) -> dict[TopicPartition, LogCleaningState]:
        """Return the states of all logs that have one."""
        with self._lock:
            return {one: use.state for one, use in self._uses.items()}

    def abort_cleaning(self, topic_partition: TopicPartition) -> None:
        """Let the cleaning of a log end, and wait for that; it may begin again [CLN-18]."""
        with self._pausing([topic_partition], is_alone=True):
            pass

    def abort_and_pause_cleaning(self, topic_partition: TopicPartition) -> None:
        """Let the cleaning of a log end, wait for that, and begin none before a resume [CLN-16].

        Raises
        ------
        IllegalStateError
            Another thread waits for the end of its cleaning.
        RuntimeError
            The cleaning is that of this thread: a signal handler calls in the middle of it.
        """
        with self._pausing([topic_partition], is_alone=True), self._lock:
            self._pause(topic_partition, None)

    @contextmanager
    def paused_cleaning(self, topic_partitions: Iterable[TopicPartition]) -> Iterator[None]:
        """Clean none of these logs until the block ends; wait for passes that run [MGR-85].

        Several threads may wait for the same pass. An interrupt may come anywhere: each pause is
        given back.
        """
        with self._pausing([*topic_partitions], is_alone=False):
            yield

    @contextmanager
    def _pausing(
        self, topic_partitions: Sequence[TopicPartition], *, is_alone: bool
    ) -> Iterator[None]:
        holder = object()
        try:
            for topic_partition in topic_partitions:
                with self._lock:
                    self._pause(topic_partition, holder, is_alone=is_alone)
                while self.cleaning_state(topic_partition) == ABORTED:
                    time.sleep(_POLL_SECONDS)
            yield
        finally:
            try:
                self._give_back(topic_partitions, holder)
            except BaseException:  # interrupted: what was given back is not there any more
                self._give_back(topic_partitions, holder)
                raise

    def _pause(
        self, topic_partition: TopicPartition, holder: object, *, is_alone: bool = False
    ) -> None:
        use = self._uses.get(topic_partition, _UNUSED)
        if is_alone and use.state == ABORTED:
            raise _illegal(topic_partition, ABORTED, "aborted and paused")
        if use.owner == threading.get_ident():
            raise RuntimeError(f"this thread cleans {topic_partition}: call after that")
        self._uses[topic_partition] = use._replace(holders=(*use.holders, holder))

    def _give_back(self, topic_partitions: Sequence[TopicPartition], holder: object) -> None:
        with self._lock:
            for one in topic_partitions:
                use = self._uses.get(one, _UNUSED)
                self._put_use(one, use.owner, tuple(by for by in use.holders if by is not holder))

    def _put_use(
        self, topic_partition: TopicPartition, owner: int | None, holders: tuple[object, ...]
    ) -> None:
        """Know it in one step, which no interrupt divides."""
        if owner is None and not holders:
            self._uses.pop(topic_partition, None)
        else:
            self._uses[topic_partition] = _Use(owner, holders)

    def resume_cleaning(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Take back one pause of each of these logs [CLN-17].

        Raises
        ------
        IllegalStateError
            One is not paused; those before it are resumed.
        """
        with self._lock:
            for one in topic_partitions:
                use = self._uses.get(one, _UNUSED)
                if use.owner is not None or None not in use.holders:
                    raise _illegal(one, use.state if one in self._uses else None, "resumed")
                at = use.holders.index(None)
                self._put_use(one, None, use.holders[:at] + use.holders[at + 1 :])

    def check_cleaning_aborted(self, topic_partition: TopicPartition) -> None:
        """Raise when the cleaning of a log is to end [CLN-19].

        Raises
        ------
        LogCleaningAbortedError
            It was aborted.
        """
        with self._lock:
            if self._uses.get(topic_partition, _UNUSED).state == ABORTED:
                raise LogCleaningAbortedError(f"the cleaning of {topic_partition} was aborted")

    def pause_cleaning_for_non_compacted_partitions(
        self,
    ) -> list[tuple[TopicPartition, UnifiedLog]]:
        """Pause the logs that are not compacted and have no state; return them [CLN-22]."""
        with self._lock:
            found = [
                (one, log)
                for one, log in self._logs.items()
                if not _is_compacted(log) and one not in self._uses
            ]
            for topic_partition, _ in found:
                self._pause(topic_partition, None)
            return found

    def deletable_logs(self) -> list[tuple[TopicPartition, UnifiedLog]]:
        """Return the logs whose old segments the cleaner deletes, in progress from here on [CLN-7].

        Compacted logs without a state. Kafka leaves those out that are marked uncleanable.
        """
        with self._lock:
            found = [
                (one, log)
                for one, log in self._logs.items()
                if _is_compacted(log)
                and one not in self._uses
                and (self._is_safe or not self._is_uncleanable(one, log))
            ]
            for topic_partition, _ in found:
                self._begin(topic_partition)
            return found

    def _begin(self, topic_partition: TopicPartition) -> None:
        self._uses[topic_partition] = _Use(threading.get_ident(), ())

    def done_cleaning(self, topic_partition: TopicPartition, log_dir: str, end_offset: int) -> None:
        """A pass has ended: write where, unless it was aborted, and release the log [CLN-20].

        Parameters
        ----------
        topic_partition : TopicPartition
            Whose log was cleaned.
        log_dir : str
            Where it lies.
        end_offset : int
            Where the clean part ends; the first dirty offset after a pass that did not end.

        Raises
        ------
        IllegalStateError
            The log is not being cleaned.
        """
        with self._lock:
            state = self._require_under_way(topic_partition)
            try:
                if state == IN_PROGRESS:
                    self._update_checkpoints(log_dir, update=(topic_partition, end_offset))
            finally:
                self._end(topic_partition)

    def done_deleting(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Release logs that `deletable_logs` has given [CLN-21].

        Raises
        ------
        IllegalStateError
            One is neither in progress nor aborted; those before it are released.
        """
        with self._lock:
            for topic_partition in topic_partitions:
                self._require_under_way(topic_partition)
                self._end(topic_partition)

    def release_interrupted(self) -> None:
        """Release what this thread has in progress yet: an interrupt has ended its iteration."""
        with self._lock:
            for topic_partition, use in [*self._uses.items()]:
                if use.owner == threading.get_ident():
                    self._end(topic_partition)

    def _require_under_way(self, topic_partition: TopicPartition) -> LogCleaningState:
        use = self._uses.get(topic_partition)
        if use is None:
            raise IllegalStateError(f"{topic_partition} has no state of cleaning")
        if use.owner is None:
            raise _illegal(topic_partition, use.state, "in progress")
        return use.state

    def _end(self, topic_partition: TopicPartition) -> None:
        self._put_use(topic_partition, None, self._uses[topic_partition].holders)

    # ---- the choice ------------------------------------------------------------------------------

    def grab_filthiest_compacted_log(self, now_ms: int) -> LogToClean | None:
        """Return the log with the highest dirty ratio, in progress from here on [CLN-30, CLN-40].

        Returns
        -------
        LogToClean or None
            None where no pass is due.

        Raises
        ------
        LogCleaningError
            A log cannot be looked at. Its ``__cause__`` says why.
        CorruptCheckpointError, IllegalStateError
            In Kafka's profile: an offset in a checkpoint is no number, or two directories have the
            same partition [CLN-26].
        """
        with self._lock:
            self._last_run_ms = now_ms
            last_clean = {} if self._is_safe else self._all_cleaner_checkpoints()
            found = [
                self._look_at(one, log, last_clean.get(one), now_ms)
                for one, log in self._logs.items()
                if _is_compacted(log)
                and one not in self._uses
                and not self._is_uncleanable(one, log)
            ]
            candidates = [one for one in found if one.total_bytes > 0]  # [CLN-37]
            self.pre_clean_stats = PreCleanStats.of(candidates)
            eligible = [one for one in candidates if one.is_eligible]
            filthiest = max(eligible, key=lambda one: one.cleanable_ratio, default=None)
            if filthiest is not None:
                self._begin(filthiest.topic_partition)
            return filthiest

    def _look_at(
        self, topic_partition: TopicPartition, log: UnifiedLog, last_clean: int | None, now_ms: int
    ) -> LogToClean:
        try:
            generation = log._generation()  # noqa: SLF001 - asked by its manager
            compaction = log._compaction()  # noqa: SLF001 - as above
            if self._is_safe:
                last_clean = log._clean_end()  # noqa: SLF001 - as above
            offsets = compaction.cleanable_offsets(last_clean, now_ms)
            first_dirty = offsets.first_dirty_offset
            if offsets.force_update_checkpoint:
                if self._is_safe:
                    log._note_clean_end(first_dirty, generation)  # noqa: SLF001 - as above
                self._update_checkpoints(parent_dir(log), update=(topic_partition, first_dirty))
            return LogToClean(
                log,
                first_dirty,
                *compaction.calculate_cleanable_bytes(
                    first_dirty, offsets.first_uncleanable_dirty_offset
                ),
                compaction.max_compaction_delay(first_dirty, now_ms),
                generation,
            )
        except Exception as error:
            raise cleaning_error(
                log, f"whether {topic_partition} is to be cleaned cannot be said"
            ) from error

    # ---- checkpoints -----------------------------------------------------------------------------

    def all_cleaner_checkpoints(self) -> dict[TopicPartition, int]:
        """Return the lines of all log directories; one that cannot be read has none [CLN-26].

        Raises
        ------
        IllegalStateError
            Two log directories have the same partition.
        CorruptCheckpointError
            An offset is no number.
        """
        with self._lock:
            return self._all_cleaner_checkpoints()

    def _all_cleaner_checkpoints(self) -> dict[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}
        for log_dir in self._checkpoints:
            for topic_partition, offset in (self._read_or_report(log_dir) or {}).items():
                if topic_partition in found:
                    raise IllegalStateError(
                        f"two log directories have {topic_partition}",
                        file=f"{log_dir}/{CLEANER_OFFSET_CHECKPOINT}",
                        found=f"{found[topic_partition]} and {offset}",
                    )
                found[topic_partition] = offset
        return found

    def update_checkpoints(
        self,
        log_dir: str,
        *,
        update: tuple[TopicPartition, int] | None = None,
        remove: TopicPartition | None = None,
    ) -> None:
        """Write the checkpoint of a log directory, without partitions that are gone [CLN-25].

        What the disk refuses is logged, and reported to the failure channel.
        """
        with self._lock:
            self._update_checkpoints(log_dir, update=update, remove=remove)

    def _update_checkpoints(
        self,
        log_dir: str,
        *,
        update: tuple[TopicPartition, int] | None = None,
        remove: TopicPartition | None = None,
    ) -> None:
        known = self._read_or_report(log_dir)
        if known is None:
            return
        lines = {one: offset for one, offset in known.items() if one in self._logs}
        if remove is not None:
            lines.pop(remove, None)
        if update is not None:
            lines[update[0]] = update[1]
        if lines != known or not self._is_safe:
            self._write(log_dir, lines)

    def forget(self, log_dir: str, topic_partitions: Iterable[TopicPartition]) -> None:
        """Remove the lines and marks of partitions that are deleted, durably [MGR-63, DUR-121]."""
        with self._lock:
            gone = set(topic_partitions)
            self._uncleanable_partitions.get(log_dir, set()).difference_update(gone)
            known = self._read_or_report(log_dir)
            if known is not None and not gone.isdisjoint(known):
                self._put(log_dir, {one: at for one, at in known.items() if one not in gone})

    def hand_over(
        self,
        topic_partition: TopicPartition,
        log_dir: str,
        other: LogCleanerManager,
        other_log_dir: str,
    ) -> None:
        """Give line and mark of a log to the manager of the directory where it is now [CLN-28].

        `forget` follows, with the old directory of the log.
        """
        with self._lock:
            offset = (self._read_or_report(log_dir) or {}).get(topic_partition)
            is_marked = topic_partition in self._uncleanable_partitions.get(log_dir, ())
        if offset is not None:
            other.update_checkpoints(other_log_dir, update=(topic_partition, offset))
        if is_marked:
            other.mark_partition_uncleanable(other_log_dir, topic_partition)

    def maybe_truncate_checkpoint(
        self, log_dir: str, topic_partition: TopicPartition, offset: int
    ) -> None:
        """Bring the line of a compacted log down to *offset*, if it is above [CLN-27].

        Raises
        ------
        UnknownTopicOrPartitionError
            There is no such log.
        SegstoreError
            The checkpoint cannot be read or written.
        """
        with self._lock:
            log = self._logs.get(topic_partition)
            if log is None:
                raise UnknownTopicOrPartitionError(f"no partition {topic_partition} here")
            if _is_compacted(log):
                self._lower(log_dir, topic_partition, offset)

    def lower_checkpoint(self, log_dir: str, topic_partition: TopicPartition, offset: int) -> None:
        """As `maybe_truncate_checkpoint`, for a log that the caller has, known here or not."""
        with self._lock:
            self._lower(log_dir, topic_partition, offset)

    def _lower(self, log_dir: str, topic_partition: TopicPartition, offset: int) -> None:
        if log_dir in self._checkpoints:
            lines = self._read_or_report(log_dir) if self._is_safe else self._read(log_dir)
            if lines is not None and lines.get(topic_partition, 0) > offset:
                self._put(log_dir, {**lines, topic_partition: offset})

    def alter_checkpoint_dir(
        self, topic_partition: TopicPartition, source_log_dir: str, dest_log_dir: str
    ) -> None:
        """A log has moved to another log directory: its line and its mark go with it [CLN-28]."""
        with self._lock:
            lines = self._read_or_report(source_log_dir) or {}
            if topic_partition in lines:
                self._update_checkpoints(source_log_dir, remove=topic_partition)
                self._update_checkpoints(
                    dest_log_dir, update=(topic_partition, lines[topic_partition])
                )
            marked = self._uncleanable_partitions.get(source_log_dir, set())
            if topic_partition in marked:
                marked.discard(topic_partition)
                self._mark(dest_log_dir, topic_partition)

    def handle_log_dir_failure(self, log_dir: str) -> None:
        """Forget the checkpoint of a log directory that has failed [CLN-29]."""
        with self._lock:
            self._checkpoints.pop(log_dir, None)

    def _read(self, log_dir: str) -> dict[TopicPartition, int]:
        directory = self._checkpoints[log_dir]
        if self._is_safe:
            return {**(read_offset_checkpoint(directory, CLEANER_OFFSET_CHECKPOINT) or {})}
        with self._failures.guard(log_dir):
            data = directory.read_file(CLEANER_OFFSET_CHECKPOINT, MAX_CHECKPOINT_BYTES)
        try:
            parse_checkpoint(data, 3, CLEANER_OFFSET_CHECKPOINT)
        except CorruptCheckpointError as error:  # [CKP-6, CKP-7] an I/O error to a broker
            self._failures.maybe_add_offline_log_dir(log_dir, error)
            raise LogDirectoryOfflineError(error.message, file=error.file) from error
        return parse_offset_checkpoint(data, CLEANER_OFFSET_CHECKPOINT)  # [CKP-30]

    def _read_or_report(self, log_dir: str) -> dict[TopicPartition, int] | None:
        """Return the lines; None where there is no checkpoint, or the disk does not give it."""
        if log_dir not in self._checkpoints:
            return None
        try:
            return self._read(log_dir)
        except (LogDirectoryOfflineError, *IO_ERRORS) as error:
            _log.warning("%s/%s: %s", log_dir, CLEANER_OFFSET_CHECKPOINT, error)
            return None
        except UNREADABLE as error:
            if not self._is_safe:
                raise
            _log.warning("%s/%s is written again: %s", log_dir, CLEANER_OFFSET_CHECKPOINT, error)
            return {}  # only a broker goes by it, and it could not read it either

    def _write(self, log_dir: str, lines: Mapping[TopicPartition, int]) -> None:
        try:
            self._put(log_dir, lines)
        except (*IO_ERRORS, DiskFullError, ResourceError) as error:
            _log.warning("%s/%s: %s", log_dir, CLEANER_OFFSET_CHECKPOINT, error)

    def _put(self, log_dir: str, lines: Mapping[TopicPartition, int]) -> None:
        content = format_offset_checkpoint(lines)
        with self._failures.guard(log_dir):
            self._checkpoints[log_dir].write_file_atomically(
                CLEANER_OFFSET_CHECKPOINT, content, FileBarrier.SHARED_CHECKPOINT
            )

    # ---- numbers ---------------------------------------------------------------------------------

    def gauges(self, now_ms: int) -> dict[str, int]:
        """Return numbers of the choice and of marked logs, by Kafka's names [CLN-10, CLN-41]."""
        with self._lock:
            last_run_ms = now_ms if self._last_run_ms is None else self._last_run_ms
            marked = [one for ones in self._uncleanable_partitions.values() for one in ones]
            known = {} if self._is_safe else self._all_cleaner_checkpoints()
            logs = [(log, known.get(one)) for one in marked if (log := self._logs.get(one))]
            max_dirty_ratio = self.pre_clean_stats.max_dirty_ratio
        return {
            "max-dirty-percent": int(100 * max_dirty_ratio),
            "time-since-last-run-ms": now_ms - last_run_ms,
            "uncleanable-partitions-count": len(marked),
            "uncleanable-bytes": sum(self._cleanable_bytes(*one, now_ms) for one in logs),
        }

    def _cleanable_bytes(self, log: UnifiedLog, last_clean: int | None, now_ms: int) -> int:
        try:
            compaction = log._compaction()  # noqa: SLF001 - asked by its manager
            if self._is_safe:
                last_clean = log._clean_end()  # noqa: SLF001 - as above
            first, limit, _ = compaction.cleanable_offsets(last_clean, now_ms)
            return compaction.calculate_cleanable_bytes(first, limit)[2]
        except SegstoreError:  # it is closed by now, or cannot be read
            return 0

    # ---- marks -----------------------------------------------------------------------------------

    def uncleanable_partitions(self) -> dict[str, set[TopicPartition]]:
        """Return the logs whose cleaning has failed, by log directory [CLN-6]."""
        with self._lock:
            return {log_dir: {*ones} for log_dir, ones in self._uncleanable_partitions.items()}

    def _is_uncleanable(self, topic_partition: TopicPartition, log: UnifiedLog) -> bool:
        return topic_partition in self._uncleanable_partitions.get(parent_dir(log), ())

    def mark_partition_uncleanable(self, log_dir: str, topic_partition: TopicPartition) -> None:
        """Clean a log no more, while it is in this log directory [CLN-4]."""
        with self._lock:
            self._mark(log_dir, topic_partition)

    def _mark(self, log_dir: str, topic_partition: TopicPartition) -> None:
        self._uncleanable_partitions.setdefault(log_dir, set()).add(topic_partition)

    def mark_failed(self, log: UnifiedLog) -> None:
        """Mark a log that has failed, unless it is gone.

        One that is paused may be about to be deleted: a later log of the name gets no mark of it.
        """
        one = log.topic_partition
        with self._lock:
            use = self._uses.get(one, _UNUSED)
            if not use.holders and dict(self._logs.items()).get(one) is log:
                self._mark(parent_dir(log), one)

    def unmark(self, topic_partitions: Sequence[TopicPartition]) -> None:
        """Let logs be tried again; only the safe profile does that [DUR-131]."""
        with self._lock:
            for marked in self._uncleanable_partitions.values():
                marked.difference_update(topic_partitions)

    def maintain_uncleanable_partitions(self) -> None:
        """Forget the marks of logs that are gone [CLN-6]."""
        with self._lock:
            for log_dir, marked in [*self._uncleanable_partitions.items()]:
                marked.difference_update([one for one in marked if one not in self._logs])
                if not marked:
                    del self._uncleanable_partitions[log_dir]


def _is_compacted(log: UnifiedLog) -> bool:
    return "compact" in log.config.cleanup_policies


def cleaning_error(log: UnifiedLog, message: str) -> LogCleaningError:
    """Return an error of the cleaner that names its log."""
    error = LogCleaningError(message, file=log.path)
    error.log = log
    return error


def parent_dir(log: UnifiedLog) -> str:
    """Return the log directory that a log lies in."""
    return log.path.rpartition("/")[0]


def _illegal(
    topic_partition: TopicPartition, state: LogCleaningState | None, what: str
) -> IllegalStateError:
    return IllegalStateError(
        f"the cleaning of {topic_partition} cannot be {what}",
        found="not paused" if state is None else str(state),
    )
