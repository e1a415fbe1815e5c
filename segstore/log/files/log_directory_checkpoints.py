"""Recovery points, log starts, high watermarks of all logs of a log directory [DUR-21, DUR-65].

The files are a broker's: one line for each log [CKP-10…CKP-12]. A log that is opened alone merges
its line when it closes, under a lock that keeps its siblings apart. Who owns the log directory
keeps the lines of the logs that it closes.
"""

from __future__ import annotations

import contextlib
import copy
import logging
import time
from typing import TYPE_CHECKING, Final

from segstore._core import AppendLock, FileBarrier
from segstore.errors import DiskFullError, LogLockedError, SegstoreError
from segstore.log.files.checkpoints import (
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    UNREADABLE,
    checked_offset,
    format_offset_checkpoint,
    read_offset,
    read_offset_checkpoint,
    require_unreadable,
)
from segstore.log.files.clean_shutdown_file_handler import CleanShutdownFileHandler
from segstore.log.files.kept_aside import keep_aside
from segstore.log.files.partition_directory import (
    is_partition_directory_name,
    parse_directory_name,
)
from segstore.log.files.profile import Profile

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from contextlib import AbstractContextManager

    from segstore._core import Directory
    from segstore.types import TopicPartition

CHECKPOINTS: Final = (
    RECOVERY_POINT_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
)

MERGE_LOCK: Final = ".segstore.lock"
_ATTEMPTS: Final = 6000
"""One minute: dozens of tasks that close logs take turns, with two syncs each."""
_PAUSE_SECONDS: Final = 0.01

_log = logging.getLogger(__name__)


def merge_lock(parent: Directory) -> AbstractContextManager[None]:
    """Keep writers of sibling partitions apart while one of them merges."""
    return short_lock(parent, MERGE_LOCK)


@contextlib.contextmanager
def short_lock(parent: Directory, name: str, attempts: int = _ATTEMPTS) -> Iterator[None]:
    """Hold the lock file *name* in the block: each holder has it for a moment only.

    Parameters
    ----------
    parent : Directory
        The log directory.
    name : str
        The name of the lock file.
    attempts : int
        How often to try, each 10 ms.

    Raises
    ------
    LogLockedError
        Others had the lock all the time.
    """
    for attempt in range(attempts):
        try:
            lock = parent.lock(name, exclusive=True)
            break
        except LogLockedError:
            if attempt == attempts - 1:
                raise
            time.sleep(_PAUSE_SECONDS)
    try:
        yield
    finally:
        lock.release()


class LogDirectoryCheckpoints:
    """The files as one log sees them that has no other log beside it.

    Parameters
    ----------
    directory : Directory
        The log directory.

    Attributes
    ----------
    is_owned : bool
        Whether the lines of all logs are kept here, also those of Kafka's profile.
    """

    is_owned = False

    def __init__(self, directory: Directory) -> None:
        self._directory = directory

    def make_missing(self, content: bytes) -> None:
        """Make the files that are not there: a log that is opened alone merges its lines into them.

        On a full disk none is made: who is to make room must get in [DUR-30].
        """
        for name in (RECOVERY_POINT_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT):
            if not self._directory.exists(name):
                with contextlib.suppress(DiskFullError):
                    self._directory.write_file_atomically(
                        name, content, FileBarrier.SHARED_CHECKPOINT
                    )

    def offset(self, name: str, topic_partition: TopicPartition) -> int | None:
        """Return what file *name* says of a log; None without a line, or without the file.

        Raises
        ------
        CorruptCheckpointError, LimitExceededError, NotALogError
            The file cannot be read as a checkpoint, or the offset is negative.
        """
        return read_offset(self._directory, name, topic_partition)

    def begin_change(self, topic_partition: TopicPartition) -> None:  # noqa: ARG002 - for an owner
        """Remove the directory's clean marker, durably: a log is about to change [DUR-24]."""
        CleanShutdownFileHandler(self._directory).delete()

    def lower(self, name: str, topic_partition: TopicPartition, offset: int) -> None:
        """Bring the line of a log down to *offset*, on stable storage."""
        with merge_lock(self._directory):
            self._merge(name, {topic_partition: offset})

    def note_high_watermark(self, topic_partition: TopicPartition, offset: int) -> None:
        """Let the line of a high watermark wait for an owner's `write`; without one, nothing."""

    def note_close(
        self, topic_partition: TopicPartition, log_start_offset: int | None, recovery_point: int
    ) -> None:
        """Take over what a log was closed with, where there are such files.

        Where the lines say so already, nothing is written, not even the lock of the merge. The log
        start is None only for an owner in Kafka's profile: the log needs no line [MGR-46].
        """
        offsets = _by_file(log_start_offset or 0, recovery_point)
        differing = [
            name
            for name, offset in offsets.items()
            if self._directory.exists(name)
            and (lines := self._lines(name)) is not None
            and lines.get(topic_partition, 0) != offset
        ]
        if differing:
            with merge_lock(self._directory):
                for name in differing:
                    self._merge(name, {topic_partition: offsets[name]})

    def note_offsets(
        self, topic_partition: TopicPartition, log_start_offset: int | None, recovery_point: int
    ) -> None:
        """Let the lines of an open log wait for a `write`: only an owner of many logs does that."""

    def has_lines_of(self, topic_partition: TopicPartition) -> bool:
        """Whether one of the files has a line of a partition."""
        return any(topic_partition in (self._lines(name) or ()) for name in CHECKPOINTS)

    def forget(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Remove the lines of partitions that are no more, on stable storage [DUR-121].

        The caller keeps everybody else from writing the files.
        """
        gone = set(topic_partitions)
        for name in CHECKPOINTS:
            offsets = self._lines(name)
            if offsets is not None and not gone.isdisjoint(offsets):
                self._put(name, {one: kept for one, kept in offsets.items() if one not in gone})

    def _lines(self, name: str) -> Mapping[TopicPartition, int] | None:
        """Return the lines, None of a file that cannot be read: it is left as it is."""
        try:
            return read_offset_checkpoint(self._directory, name) or {}
        except UNREADABLE as error:  # the others' lines are not ours to lose
            require_unreadable(self._directory, name, error)
            _log.warning("%s/%s is left as it is: %s", self._directory.path, name, error.message)
            return None

    def _merge(self, name: str, lines: Mapping[TopicPartition, int]) -> None:
        offsets = self._lines(name)
        if offsets is None:
            return
        if any(offsets.get(one, 0) != offset for one, offset in lines.items()):
            self._put(name, {**offsets, **lines})

    def _put(self, name: str, offsets: dict[TopicPartition, int]) -> None:
        """Write a file whole."""
        content = format_offset_checkpoint(offsets)
        self._directory.write_file_atomically(name, content, FileBarrier.SHARED_CHECKPOINT)


class OwnedCheckpoints(LogDirectoryCheckpoints):
    """The files of a log directory whose ``.lock`` is held: no other process writes them.

    They are read at the first use. Recovery points of logs that were closed wait in memory for
    `write`, which comes before the directory's clean marker: a process that is killed before leaves
    older ones, which only make the next recovery longer. A log start that is another one is written
    when its log is closed, or a broker would bring deleted records back. `gather` makes those wait
    too, for an owner that closes all logs now: to write a file of all lines for each is quadratic.

    In Kafka's profile, a write is a broker's: it has the lines of all logs that are in the
    directory, and of no other, whether they have changed or not [MGR-45, MGR-46, MGR-48]. A log
    start that the first segment shows has no line, unless the log is tiered. Logs that are not open
    keep their lines in both profiles [DUR-123].

    Parameters
    ----------
    directory : Directory
        The log directory.
    profile : Profile
        That of its logs.

    Attributes
    ----------
    changed : set of TopicPartition
        Logs that have begun to change since the directory was taken.
    closed : set of TopicPartition
        Logs that were flushed and closed since they last began to change.
    not_opened_since : set of TopicPartition
        Logs that were closed so, and that were not opened again.
    """

    is_owned = True

    def __init__(self, directory: Directory, profile: Profile = Profile.SAFE) -> None:
        super().__init__(directory)
        self.changed: set[TopicPartition] = set()
        self.closed: set[TopicPartition] = set()
        self.not_opened_since: set[TopicPartition] = set()
        self._is_safe = profile is Profile.SAFE
        self._known: dict[str, dict[TopicPartition, int] | SegstoreError] = {}
        self._unreadable: dict[str, dict[TopicPartition, int]] = {}  # what they would say
        self._changed: set[str] = set()
        self._forgotten: frozenset[TopicPartition] = frozenset()
        self._gathers = False
        self._marker_is_gone = False
        self._mutex = AppendLock()  # a handler that comes here in its midst is told

    def offset(self, name: str, topic_partition: TopicPartition) -> int | None:
        """See `LogDirectoryCheckpoints`."""
        with self._mutex:
            return checked_offset(self._offsets(name), name, topic_partition)

    def begin_change(self, topic_partition: TopicPartition) -> None:
        """See `LogDirectoryCheckpoints`; by the threads of all its logs."""
        with self._mutex:
            self.changed.add(topic_partition)
            self.closed.discard(topic_partition)
            if not self._marker_is_gone:  # the directory is synced once, not for each log
                super().begin_change(topic_partition)
                self._marker_is_gone = True

    def lower(self, name: str, topic_partition: TopicPartition, offset: int) -> None:
        """See `LogDirectoryCheckpoints`."""
        with self._mutex:
            if topic_partition not in self._forgotten:
                self._merge(name, {topic_partition: offset})

    def note_close(
        self, topic_partition: TopicPartition, log_start_offset: int | None, recovery_point: int
    ) -> None:
        """See `LogDirectoryCheckpoints`; what is not written here, `write` writes."""
        self.closed.add(topic_partition)
        self.not_opened_since.add(topic_partition)
        if not self._is_safe:
            self.note_offsets(topic_partition, log_start_offset, recovery_point)
            return
        offsets = _by_file(log_start_offset or 0, recovery_point)
        with self._mutex:
            for name, offset in offsets.items():
                if not self._note(name, topic_partition, offset):
                    self._unreadable.setdefault(name, {})[topic_partition] = offset
            if LOG_START_OFFSET_CHECKPOINT in self._changed and not self._gathers:
                self._put(LOG_START_OFFSET_CHECKPOINT, self._offsets(LOG_START_OFFSET_CHECKPOINT))

    def note_offsets(
        self, topic_partition: TopicPartition, log_start_offset: int | None, recovery_point: int
    ) -> None:
        """Let the lines of an open log wait for `write`, in files that can be read."""
        with self._mutex:
            self._note(RECOVERY_POINT_CHECKPOINT, topic_partition, recovery_point)
            self._note(LOG_START_OFFSET_CHECKPOINT, topic_partition, log_start_offset)

    def _note(self, name: str, topic_partition: TopicPartition, offset: int | None) -> bool:
        """Change a line, or remove it with None; False where the file cannot be read."""
        if topic_partition in self._forgotten:
            return True
        offsets = self._lines(name)
        if offsets is None:
            return False
        if offset is None:
            if offsets.pop(topic_partition, None) is not None:
                self._changed.add(name)
        elif not self._is_safe or offsets.get(topic_partition, 0) != offset:
            offsets[topic_partition] = offset
            self._changed.add(name)
        return True

    def forget(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """See `LogDirectoryCheckpoints`."""
        with self._mutex:
            super().forget(topic_partitions)

    @contextlib.contextmanager
    def forgetting(self, topic_partitions: Iterable[TopicPartition]) -> Iterator[None]:
        """As `forget`; and until the block ends, their logs bring no line back [DUR-121]."""
        self._forgotten = frozenset(topic_partitions)
        try:
            self.forget(self._forgotten)
            yield
        finally:
            self._forgotten = frozenset()

    def take_over(
        self, topic_partition: TopicPartition, other: OwnedCheckpoints, *, keep: bool = False
    ) -> None:
        """Bring the lines of a log that is moved here to stable storage [MGR-90].

        With *keep*, lines that are here stay: the copy may have been used since.
        """
        for name in CHECKPOINTS:
            theirs = other._lines(name)
            with self._mutex:
                ours = self._lines(name)
                if theirs is None or ours is None or (keep and topic_partition in ours):
                    continue
                # a line here that they lack is of a move that failed
                self._note(name, topic_partition, theirs.get(topic_partition))
        self.write()

    def gather(self) -> None:
        """From now on let all lines wait for `write`."""
        self._gathers = True

    def note_high_watermark(self, topic_partition: TopicPartition, offset: int) -> None:
        """Let the line of a high watermark wait for `write` [MGR-47]."""
        with self._mutex:
            self._note(HIGH_WATERMARK_CHECKPOINT, topic_partition, offset)

    def write(self, names: Sequence[str] = CHECKPOINTS) -> list[str]:
        """Bring the lines of logs that were closed or noted to stable storage; return the files.

        Of *names*, in the safe profile, only files with other lines than before are written.
        """
        with self._mutex:
            if not self._is_safe:
                return self._write_all(names)
            written = sorted(self._changed.intersection(names))
            for name in written:
                self._put(name, self._offsets(name))
            return written

    def _write_all(self, names: Sequence[str]) -> list[str]:
        """Write files as a broker does; those that cannot be read are left as they are."""
        found = self._directory.names(ordered=False)
        there = {parse_directory_name(name) for name in found if is_partition_directory_name(name)}
        written = [name for name in names if self._lines(name) is not None]
        for name in written:
            lines = self._offsets(name).items()
            self._put(name, {one: offset for one, offset in lines if one in there})
        return written

    def write_unreadable(self, all_logs: AbstractSet[TopicPartition]) -> None:
        """Write files that cannot be read again, where all logs of the directory were closed.

        What they were is kept under another name: they alone may say which records were deleted.
        """
        with self._mutex:
            for name in sorted(self._unreadable):
                if self._unreadable[name].keys() >= all_logs:
                    offsets = self._unreadable.pop(name)  # it can be read from now on
                    kept = keep_aside(self._directory, name)
                    _log.warning("%s/%s is kept as %s", self._directory.path, name, kept)
                    self._put(name, offsets)

    def _put(self, name: str, offsets: dict[TopicPartition, int]) -> None:
        """Write a file whole; where that fails, what was known stays known."""
        super()._put(name, offsets)
        self._known[name] = offsets
        self._changed.discard(name)

    def _lines(self, name: str) -> dict[TopicPartition, int] | None:
        """Return the lines; None where the file cannot be read: it is left as it is."""
        is_first = name not in self._known
        try:
            return self._offsets(name)
        except UNREADABLE as error:
            if is_first:
                path = self._directory.path
                _log.warning("%s/%s is left as it is: %s", path, name, error.message)
            return None

    def _offsets(self, name: str) -> dict[TopicPartition, int]:
        known = self._known.get(name)
        if known is None:
            try:
                known = {**(read_offset_checkpoint(self._directory, name) or {})}
            except UNREADABLE as error:
                require_unreadable(self._directory, name, error)
                known = error
            self._known[name] = known
        if isinstance(known, SegstoreError):
            raise copy.copy(known)
        return known


def _by_file(log_start_offset: int, recovery_point: int) -> dict[str, int]:
    return {
        RECOVERY_POINT_CHECKPOINT: recovery_point,
        LOG_START_OFFSET_CHECKPOINT: log_start_offset,
    }
