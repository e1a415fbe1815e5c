"""Moving a partition to another log directory while it is written [MGR-90, DUR-127].

A copy is made in the other directory, under a name that ends in ``-future`` as a broker's. When it
has caught up, the log is closed and the rest is copied. ``topics.json`` of the other directory says
what a crash has left:

================  =====================  ======================================================
it says           the copy's directory   the next open for writing
================  =====================  ======================================================
no end            ``-future``            removes the copy
where it ended    ``-future``            gives it the partition's name, deletes the old directory
where it ended    the partition's        deletes the old directory
================  =====================  ======================================================

The old directory is deleted only where its log ends as the file says, and neither has other records
than the copy nor begins later. One that was used since keeps its records: a copy without a name is
removed then, and of two partitions none is.
"""

from __future__ import annotations

import logging
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Final, cast

from segstore._core import Barrier, Directory
from segstore.errors import (
    ClosedError,
    IllegalStateError,
    LogNotFoundError,
    ReadIOError,
    SegstoreError,
)
from segstore.log.files.checkpoints import LOG_START_OFFSET_CHECKPOINT, read_topic_id
from segstore.log.files.partition_directory import directory_name, future_directory_name
from segstore.log.files.topics_file import UNREADABLE_TOPICS, Arrival
from segstore.log.files.tree_removal import remove_trees
from segstore.log.log_dir_failure_channel import IO_ERRORS
from segstore.log.log_environment import LogEnvironment
from segstore.log.log_opener import open_partition
from segstore.manager.partition_copy import PartitionCopy, first_offset, has_other_records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from segstore._core import AppendLock
    from segstore.log.files.topics_file import TopicEntry
    from segstore.log.open_options import OpenOptions
    from segstore.manager.log_directory import LogDirectory
    from segstore.manager.owned_log_directory import OwnedLogDirectory
    from segstore.manager.shared_topics import SharedTopics
    from segstore.types import TopicPartition

_ENOUGH_BYTES: Final = 1024 * 1024
"""While the last bytes are copied, appends wait: at most a few milliseconds for so many."""
_MOST_PASSES: Final = 20
"""An appender that is faster than the copy waits in the end."""

_log = logging.getLogger(__name__)


class PartitionMoves:
    """Moves partitions between the log directories of a manager, and ends what a crash has left.

    Parameters
    ----------
    directories : sequence of LogDirectory
        Those of the manager, whose locks are held.
    topics : SharedTopics
        What the topics are.
    options : OpenOptions
        Those of the manager.
    mutex : AppendLock
        The manager's.
    """

    def __init__(
        self,
        directories: Sequence[LogDirectory],
        topics: SharedTopics,
        options: OpenOptions,
        mutex: AppendLock,
    ) -> None:
        self._directories = directories
        self._topics = topics
        self._options = options
        self._mutex = mutex
        self._log_environment = LogEnvironment(environment=directories[0].directory.environment)
        self._under_way: set[TopicPartition] = set()

    # ---- a move ----------------------------------------------------------------------------------

    def move(
        self,
        topic_partition: TopicPartition,
        find: Callable[[], LogDirectory],
        target: LogDirectory,
        progress: Callable[[int, int], None] | None,
    ) -> None:
        """Move a partition; see `LogManager.move_partition`.

        Parameters
        ----------
        topic_partition : TopicPartition
            The partition.
        find : callable
            Returns the log directory that it lies in.
        target : LogDirectory
            Where it is to go.
        progress : callable or None
            Gets the bytes that are copied, and those of the log.
        """
        with self._mutex:
            source = find()
            if source is target:
                raise IllegalStateError(
                    f"{topic_partition} lies in this log directory", file=target.path
                )
            if topic_partition in self._under_way:
                raise IllegalStateError(f"{topic_partition} is being moved", file=source.path)
            source.check_writable()
            target.check_writable()
            if target.holds(topic_partition):
                raise IllegalStateError(
                    "the log directory has another directory of the partition",
                    file=f"{target.path}/{directory_name(topic_partition)}",
                )
            move = _Move(topic_partition, source, target, progress)
            self._under_way.add(topic_partition)
        try:
            self._do(move)
        finally:
            self._under_way.discard(topic_partition)

    def _do(self, move: _Move) -> None:
        try:
            with self._mutex:
                move.begin(self._entry_of(move))
            move.copy_beside_appends()
            with self._mutex:
                move.finish(self._entry_of(move))
        except BaseException as error:
            try:
                with self._mutex:
                    move.undo()
            except (SegstoreError, OSError) as another:
                error.add_note(
                    f"the next open for writing ends the move, which failed now: {another}"
                )
            raise
        finally:
            move.close()

    def _entry_of(self, move: _Move) -> TopicEntry | None:
        """Return what the topic is now, to be written in the other directory too."""
        entry = self._topics.entry_of(move.topic_partition.topic)
        return entry if entry is not None and entry.is_finished else None

    # ---- what was left ---------------------------------------------------------------------------

    def reconcile(self) -> None:
        """End what a process left that was killed, under the manager's mutex.

        What cannot be ended now is logged, and tried again by the next open.
        """
        for target in self._directories:
            try:
                with target.guard():
                    arrivals = dict(target.registry.arrivals())
            except UNREADABLE_TOPICS:  # the listing of the directory logs it
                continue
            for topic_partition, arrival in arrivals.items():
                try:
                    self._end(topic_partition, arrival, target)
                except (SegstoreError, OSError) as error:
                    _log.warning(
                        "%s: the move of %s from %s was not ended, and cannot be ended now: %s",
                        target.path,
                        topic_partition,
                        arrival.source,
                        error,
                    )

    def _end(self, topic_partition: TopicPartition, arrival: Arrival, target: LogDirectory) -> None:
        source = next((one for one in self._directories if one.path == arrival.source), None)
        if source is None:  # with it this can be decided; what has the partition's name counts
            return
        name = directory_name(topic_partition)
        old = f"{source.path}/{name}" if source.holds(topic_partition) else None
        line = _owned(target).checkpoints.offset(LOG_START_OFFSET_CHECKPOINT, topic_partition)
        has_copy = target.directory.exists(arrival.directory)
        if arrival.is_copied and target.directory.exists(name) and not has_copy:
            if old is None or self._is_as_copied(old, f"{target.path}/{name}", arrival, line or 0):
                _hand_over(topic_partition, source, target)
                return
            _log.warning(
                "%s was moved from %s to %s, and its old directory was used since: none of the two"
                " is taken for the right one",
                topic_partition,
                source.path,
                target.path,
            )
        elif has_copy:
            copy = f"{target.path}/{arrival.directory}"
            is_whole = arrival.is_copied and (
                old is None or self._is_as_copied(old, copy, arrival, line or 0)
            )
            if old is None and not is_whole:
                raise LogNotFoundError(
                    "the partition that was moved is gone, and its copy is not whole",
                    file=f"{source.path}/{name}",
                    found=f"the copy {copy}",
                )
            if is_whole:
                with target.guard():
                    _name_copy(target, arrival.directory, name)
                _hand_over(topic_partition, source, target)
                return
            with target.guard():
                remove_trees(target.directory, [arrival.directory])
        with target.guard():
            target.registry.end_arrival(topic_partition)

    def _is_as_copied(self, old: str, copy: str, arrival: Arrival, log_start_line: int) -> bool:
        """Whether the old directory has the log that was copied, and no other records.

        Records that were deleted there since would come back with the copy.
        """
        environment = self._log_environment.environment
        to_read = self._options._replace(read_only=True, remote_offset_reader=None)
        with (
            closing(Directory(copy, environment)) as new,
            closing(Directory(old, environment)) as before,
            closing(open_partition(old, to_read, self._log_environment)) as log,
        ):
            if (log.topic_id, log.log_end_offset) != (read_topic_id(new), arrival.end):
                return False
            log_start = max(log_start_line, first_offset(new))
            return log.log_start_offset <= log_start and not has_other_records(
                before, new, log.segments()
            )


class _Move:
    """One move, step by step; `copy_beside_appends` is called without the manager's mutex."""

    def __init__(
        self,
        topic_partition: TopicPartition,
        source: LogDirectory,
        target: LogDirectory,
        progress: Callable[[int, int], None] | None,
    ) -> None:
        self.topic_partition = topic_partition
        self._source = source
        self._target = target
        self._progress = progress
        self._name = directory_name(topic_partition)
        self._arrival = Arrival(future_directory_name(topic_partition), source.path)
        self._log = source.logs.find_or_open(topic_partition)
        self._generation = self._log._generation()  # noqa: SLF001 - asked by its manager
        self._done_bytes = self._total_bytes = 0
        self._has_begun = False
        self._opened: list[Directory] = []

    def begin(self, entry: TopicEntry | None) -> None:
        """Say in the other directory that the partition is to come, and make its directory."""
        target, there = self._target, self._target.directory
        with self._writing():
            self._has_begun = True
            target.registry.expect(self.topic_partition, self._arrival, entry)
            there.make_directory(self._arrival.directory)
        for path in (
            f"{self._source.path}/{self._name}",
            f"{there.path}/{self._arrival.directory}",
        ):
            self._opened.append(Directory(path, there.environment))
        self._copy = PartitionCopy(self._opened[0], self._opened[1], self._note_bytes)

    def copy_beside_appends(self) -> None:
        """Copy the records until little is left."""
        for _ in range(_MOST_PASSES):
            # a segment may be deleted meanwhile
            with self._writing(), suppress(LogNotFoundError, ClosedError):
                segments = self._log.segments()
                self._total_bytes = sum(segment.size_bytes for segment in segments)
                if self._copy.missing_bytes(segments) < _ENOUGH_BYTES:
                    break
                self._copy.copy_segments(segments)

    def finish(self, entry: TopicEntry | None) -> None:
        """Close the log, copy the rest, and let the copy take its place.

        The topic may have other settings by now than at the begin.
        """
        source, target, log = self._source, self._target, self._log
        if source.logs.find_in_place(self.topic_partition) is not log:
            raise IllegalStateError(
                f"{self.topic_partition} was closed or deleted while it was moved",
                file=f"{source.path}/{self._name}",
            )
        source.check_writable()
        segments = log.segments()
        with source.guard():
            log._note_high_watermark(_owned(source).checkpoints)  # noqa: SLF001 - asked by its manager
            log.close()
        if log._generation() != self._generation:  # noqa: SLF001 - as above
            self._copy.forget()
        with self._writing():
            self._copy.complete(segments)
            _owned(target).checkpoints.take_over(self.topic_partition, _owned(source).checkpoints)
            arrival = self._arrival._replace(end=log.log_end_offset)
            target.registry.expect(self.topic_partition, arrival, entry)
            _name_copy(target, arrival.directory, self._name)
        _owned(target).note_arrived(self.topic_partition)
        _hand_over(self.topic_partition, source, target)

    def undo(self) -> None:
        """Remove the copy; where it has the partition's name, end the move.

        Whether it has it is in doubt when the disk has failed: the next open decides.
        """
        if not self._has_begun:
            return
        registry, there = self._target.registry, self._target.directory
        if there.exists(self._name) and not there.exists(self._arrival.directory):
            self._target.check_writable()
            with self._target.guard():
                there.sync(Barrier.RENAMED_DIRECTORY)
            _hand_over(self.topic_partition, self._source, self._target)
            return
        with self._target.guard():
            registry.withdraw_arrival(self.topic_partition, self._arrival)
            if there.exists(self._arrival.directory):
                remove_trees(there, [self._arrival.directory])
            registry.end_arrival(self.topic_partition)

    def close(self) -> None:
        """Let go of the two directories."""
        for one in self._opened:
            one.close()

    def _note_bytes(self, count: int) -> None:
        self._done_bytes += count
        self._total_bytes = max(self._total_bytes, self._done_bytes)
        if self._progress is not None:
            self._progress(self._done_bytes, self._total_bytes)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Take the other directory offline when it cannot be written."""
        try:
            yield
        except ReadIOError:  # of the log: other records of that disk may be read
            raise
        except IO_ERRORS:
            with self._target.guard():
                raise


def _name_copy(target: LogDirectory, copy: str, name: str) -> None:
    """Give a copy the partition's name, before anything says that the move is over."""
    target.directory.rename(copy, name)
    target.directory.sync(Barrier.RENAMED_DIRECTORY)


def _hand_over(topic_partition: TopicPartition, source: LogDirectory, target: LogDirectory) -> None:
    """Delete the old directory: the copy has the partition's name."""
    if source.holds(topic_partition):
        with target.guard():
            lines, old_lines = _owned(target).checkpoints, _owned(source).checkpoints
            lines.take_over(topic_partition, old_lines, keep=True)
        with source.guard():
            source.registry.doom([topic_partition])
    with target.guard():
        target.registry.end_arrival(topic_partition)


def _owned(one: LogDirectory) -> OwnedLogDirectory:
    return cast("OwnedLogDirectory", one.owned)  # who only reads moves nothing
