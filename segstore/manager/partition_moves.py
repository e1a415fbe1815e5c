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
removed then, and of two partitions none is. The same holds where the partition has moved to a third
directory since.

THREADS  A move runs in the thread of its caller. It takes the manager's mutex for its first and its
last step alone, and calls ``progress`` without it. `PartitionMoves.wait` waits until no move runs.
An append that a move has interrupted goes before the next move of the partition.
"""

from __future__ import annotations

import logging
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Final, cast

from segstore._core import AppendLock, Barrier, Directory
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
    from collections.abc import Callable, Generator, Iterator, Sequence

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
    check_usable : callable
        Raises where the manager is closed.
    """

    def __init__(
        self,
        directories: Sequence[LogDirectory],
        topics: SharedTopics,
        options: OpenOptions,
        mutex: AppendLock,
        check_usable: Callable[[], None],
    ) -> None:
        self._directories = directories
        self._topics = topics
        self._options = options
        self._mutex = mutex
        self._check_usable = check_usable
        self._log_environment = LogEnvironment(environment=directories[0].directory.environment)
        self._under_way: dict[TopicPartition, AppendLock] = {}
        """Moves that run, each with the lock that its thread holds until it is over."""
        self._appends: set[tuple[TopicPartition, AppendLock]] = set()
        """Appends that a move has interrupted; their threads hold the locks until they are over."""

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
        running = AppendLock()
        with running:
            try:
                move = self._begin(topic_partition, find, target, progress, running)
                self._do(move)
            finally:
                if self._under_way.get(topic_partition) is running:
                    del self._under_way[topic_partition]
        move.report_end()

    def _begin(
        self,
        topic_partition: TopicPartition,
        find: Callable[[], LogDirectory],
        target: LogDirectory,
        progress: Callable[[int, int], None] | None,
        running: AppendLock,
    ) -> _Move:
        with self._mutex:
            self._check_usable()
            source = find()
            if source is target:
                raise IllegalStateError(
                    f"{topic_partition} lies in this log directory", file=target.path
                )
            if topic_partition in self._under_way:
                raise IllegalStateError(f"{topic_partition} is being moved", file=source.path)
            source.check_writable()
            target.check_writable()
            self._end_earlier_moves(topic_partition, source, target)
            find()  # of two directories that have it, none counts
            if target.holds(topic_partition):
                raise IllegalStateError(
                    "the log directory has another directory of the partition",
                    file=f"{target.path}/{directory_name(topic_partition)}",
                )
            self._under_way[topic_partition] = running
            return _Move(topic_partition, source, target, progress)

    def _do(self, move: _Move) -> None:
        try:
            with self._mutex:
                move.begin(self._entry_of(move))
            move.copy_beside_appends()
            self._let_appends_go_first(move.topic_partition)
            with self._mutex:
                move.finish(self._entry_of(move))
        except BaseException as error:
            try:
                with self._mutex:
                    move.undo()
            except (SegstoreError, OSError) as another:
                error.add_note(
                    "the next move of the partition, or the next open for writing, ends this one,"
                    f" which failed now: {another}"
                )
            raise
        finally:
            move.close()

    def _entry_of(self, move: _Move) -> TopicEntry | None:
        """Return what the topic is now, to be written in the other directory too."""
        entry = self._topics.entry_of(move.topic_partition.topic)
        return entry if entry is not None and entry.is_finished else None

    # ---- appends and the close beside it ---------------------------------------------------------

    @contextmanager
    def going_first(self, topic_partition: TopicPartition) -> Iterator[None]:
        """Let the next move of a partition wait for the block: an append that a move interrupted.

        Otherwise one move after another could interrupt it again and again.
        """
        turn = AppendLock()
        with turn:
            self._appends.add((topic_partition, turn))
            try:
                yield
            finally:
                self._appends.discard((topic_partition, turn))

    def _let_appends_go_first(self, topic_partition: TopicPartition) -> None:
        """Wait for interrupted appends, unless the manager is closed or one is of this thread."""

        def has_to_go() -> bool:
            self._check_usable()
            return False

        for one, turn in [*self._appends]:
            if one == topic_partition:
                with turn.unless(has_to_go):
                    pass

    def require_outside(self) -> None:
        """Raise RuntimeError in the middle of a move of this thread, which a close waits for."""
        for topic_partition, running in [*self._under_way.items()]:
            try:
                running.require_another_owner()
            except RuntimeError:
                raise RuntimeError(
                    f"this thread moves {topic_partition}: close the manager after move_partition"
                    " has returned"
                ) from None

    def wait(self) -> None:
        """Return when no move runs. The manager takes no calls any more: each undoes its steps."""
        for running in [*self._under_way.values()]:
            with running:
                pass

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
        source = self._source_of(arrival)
        if source is None:  # with it this can be decided; what has the partition's name counts
            return
        name = directory_name(topic_partition)
        has_copy = target.directory.exists(arrival.directory)
        is_named = arrival.is_copied and not has_copy and target.directory.exists(name)
        homes = [
            one for one in self._directories if one is not target and one.holds(topic_partition)
        ]
        counts = is_named or (has_copy and arrival.is_copied)
        if counts and homes == [source]:
            copy = f"{target.path}/{name if is_named else arrival.directory}"
            counts = self._is_as_copied(topic_partition, arrival, target, copy)
        elif homes:
            counts = False
        if counts:
            if has_copy:
                with target.guard():
                    _name_copy(target, arrival.directory, name)
            _hand_over(topic_partition, source, target)
            return
        if has_copy:
            for home in homes or [source]:
                self._require_same_topic(topic_partition, arrival, target, home)
        if is_named:
            _log.warning(
                "%s was moved from %s to %s, and its directory in %s was used since: none of these"
                " is taken for the right one",
                topic_partition,
                source.path,
                target.path,
                " and ".join(one.path for one in homes),
            )
        _remove_copy(topic_partition, arrival, target)

    def _end_earlier_moves(
        self, topic_partition: TopicPartition, source: LogDirectory, target: LogDirectory
    ) -> None:
        """End what an earlier move of a partition left that could be neither ended nor undone.

        The old directory of one that has ended in *source*, and a copy in *target*. The copy counts
        no more: the partition has been used since.
        """
        arrived = source.registry.arrivals().get(topic_partition)
        if arrived is not None and not source.directory.exists(arrived.directory):
            self._end(topic_partition, arrived, source)
        left = target.registry.arrivals().get(topic_partition)
        if left is None or not target.directory.exists(left.directory):
            return
        if self._source_of(left) is None:
            raise IllegalStateError(
                f"the log directory has a copy of {topic_partition}, of a move from a log directory"
                " that is not open. Open that one too, which ends the move; if it is lost, move the"
                " copy away",
                file=f"{target.path}/{left.directory}",
                found=f"a move from {left.source}",
            )
        self._require_same_topic(topic_partition, left, target, source)
        _remove_copy(topic_partition, left, target)

    def _source_of(self, arrival: Arrival) -> LogDirectory | None:
        return next((one for one in self._directories if one.path == arrival.source), None)

    def _require_same_topic(
        self,
        topic_partition: TopicPartition,
        arrival: Arrival,
        target: LogDirectory,
        home: LogDirectory,
    ) -> None:
        """Raise where a copy may be all that is left: the partition is gone, or of a later topic.

        The id of a copy that is not whole is missing or torn. ``topics.json`` has the topic's id.
        """
        name, there = directory_name(topic_partition), target.directory
        if home.holds(topic_partition):
            with (
                closing(Directory(f"{there.path}/{arrival.directory}", there.environment)) as copy,
                closing(Directory(f"{home.path}/{name}", there.environment)) as live,
            ):
                known = read_topic_id(copy) if arrival.is_copied else None
                found = read_topic_id(live)
            entry = target.registry.entry_of(topic_partition.topic)
            if known is None and entry is not None:
                known = entry.topic_id
            if known == found or None in {known, found}:
                return
        raise LogNotFoundError(
            "the partition that was moved is gone, and its copy is not whole",
            file=f"{arrival.source}/{name}",
            found=f"the copy {there.path}/{arrival.directory}",
        )

    def _is_as_copied(
        self, topic_partition: TopicPartition, arrival: Arrival, target: LogDirectory, copy: str
    ) -> bool:
        """Whether the old directory has the log that was copied, and no other records.

        Records that were deleted there since would come back with the copy.
        """
        old = f"{arrival.source}/{directory_name(topic_partition)}"
        log_start_line = _owned(target).checkpoints.offset(
            LOG_START_OFFSET_CHECKPOINT, topic_partition
        )
        environment = self._log_environment.environment
        to_read = self._options._replace(read_only=True, remote_log_reader=None)
        with (
            closing(Directory(copy, environment)) as new,
            closing(Directory(old, environment)) as before,
            closing(open_partition(old, to_read, self._log_environment)) as log,
        ):
            if (log.topic_id, log.log_end_offset) != (read_topic_id(new), arrival.end):
                return False
            log_start = max(log_start_line or 0, first_offset(new))
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
        self._generation = self._log._generation_of_files()  # noqa: SLF001 - asked by its manager
        self._total_bytes = 0
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
        self._copy = PartitionCopy(self._opened[0], self._opened[1])

    def copy_beside_appends(self) -> None:
        """Copy the records until little is left, or the manager is closed."""
        with closing(self._copy_pieces()) as pieces:
            for _ in pieces:
                self._target.check_writable()
                if self._progress is not None:
                    done = self._copy.done_bytes
                    self._progress(done, max(done, self._total_bytes))

    def _copy_pieces(self) -> Generator[None]:
        for _ in range(_MOST_PASSES):
            # a segment may be deleted meanwhile, or a shorter one take its name
            with self._writing(), self._changing_source():
                self._forget_if_changed()
                segments = self._log.segments()  # of that generation, or a later one that is seen
                self._total_bytes = sum(segment.size_bytes for segment in segments)
                if self._copy.missing_bytes(segments) < _ENOUGH_BYTES:
                    return
                yield from self._copy.copy_segments(segments)

    @contextmanager
    def _changing_source(self) -> Iterator[None]:
        """Let the next pass do what a change of the log has ended."""
        try:
            yield
        except (LogNotFoundError, ClosedError):
            pass
        except ReadIOError:
            if not self._forget_if_changed():
                raise

    def _forget_if_changed(self) -> bool:
        """Copy everything again where the log was cut, compacted or split since the last call."""
        generation = self._log._generation_of_files()  # noqa: SLF001 - asked by its manager
        is_changed: bool = generation != self._generation
        if is_changed:
            self._generation = generation
            self._copy.forget()
        return is_changed

    def finish(self, entry: TopicEntry | None) -> None:
        """Close the log, copy the rest, and let the copy take its place.

        The topic may have other settings by now than at the begin.
        """
        source, target, log = self._source, self._target, self._log
        source.check_writable()
        if source.logs.find_in_place(self.topic_partition) is not log:
            raise IllegalStateError(
                f"{self.topic_partition} was closed or deleted while it was moved",
                file=f"{source.path}/{self._name}",
            )
        with source.pausing_cleaning(self.topic_partition):
            self._finish_copy(entry)
        _hand_over(self.topic_partition, source, target)

    def _finish_copy(self, entry: TopicEntry | None) -> None:
        source, target, log = self._source, self._target, self._log
        with source.guard():
            log.close()
        segments = log.segments()  # a pass by hand may have replaced some until then
        _owned(source).note_arrived(self.topic_partition)  # if the move is undone, it is clean
        self._forget_if_changed()
        with self._writing():
            self._copy.complete(segments)
            _owned(target).checkpoints.take_over(self.topic_partition, _owned(source).checkpoints)
            arrival = self._arrival._replace(end=log.log_end_offset)
            target.registry.expect(self.topic_partition, arrival, entry)
            _owned(target).note_arrived(self.topic_partition)  # `undo` may have to hand over
            _name_copy(target, arrival.directory, self._name)

    def undo(self) -> None:
        """Remove the copy; where it has the partition's name, end the move.

        Whether it has it is in doubt when the disk has failed: the next open decides.
        """
        if not self._has_begun:
            return
        there = self._target.directory
        if there.exists(self._name) and not there.exists(self._arrival.directory):
            self._target.check_works()
            with self._target.guard():
                there.sync(Barrier.RENAMED_DIRECTORY)
            _hand_over(self.topic_partition, self._source, self._target)
            return
        _remove_copy(self.topic_partition, self._arrival, self._target)

    def close(self) -> None:
        """Let go of the two directories."""
        for one in self._opened:
            one.close()

    def report_end(self) -> None:
        """Say to the user that all is copied."""
        if self._progress is not None:
            self._progress(self._copy.done_bytes, self._copy.done_bytes)

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


def _remove_copy(topic_partition: TopicPartition, arrival: Arrival, target: LogDirectory) -> None:
    """Remove a copy that has no name, if it is there, and end its move.

    The file says first that the copy does not count: a crash may leave a part of it.
    """
    registry, there = target.registry, target.directory
    with target.guard():
        if there.exists(arrival.directory):
            registry.withdraw_arrival(topic_partition, arrival._replace(end=None))
            remove_trees(there, [arrival.directory])
        registry.end_arrival(topic_partition)


def _hand_over(topic_partition: TopicPartition, source: LogDirectory, target: LogDirectory) -> None:
    """Delete the old directory: the copy has the partition's name."""
    if source.holds(topic_partition):
        with target.guard():
            lines, old_lines = _owned(target).checkpoints, _owned(source).checkpoints
            lines.take_over(topic_partition, old_lines, keep=True)
            source.hand_over_cleaning(topic_partition, target)
        with source.guard():
            source.registry.doom([topic_partition])
    with target.guard():
        target.registry.end_arrival(topic_partition)


def _owned(one: LogDirectory) -> OwnedLogDirectory:
    return cast("OwnedLogDirectory", one.owned)  # who only reads moves nothing
