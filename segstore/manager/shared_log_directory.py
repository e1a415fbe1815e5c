"""A log directory that several processes write: each partition belongs to one of them at a time.

It takes the place of `OwnedLogDirectory`. The ``.lock`` of the directory is held shared, which
keeps brokers and managers out. Each log is opened as `segstore.open` does: with the partition's own
lock, its own recovery, its own marker of a clean close. So nothing is written, and nothing
believed, of the directory as a whole. Source: [DUR-65], docs/decisions/shared-directories.md.
"""

from __future__ import annotations

from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, Final

from segstore._core import Directory
from segstore.errors import LogLockedError, LogNotFoundError
from segstore.log.files.checkpoints import (
    CLEANER_OFFSET_CHECKPOINT,
    format_offset_checkpoint,
)
from segstore.log.files.log_directory_checkpoints import (
    LogDirectoryCheckpoints,
    merge_lock,
    short_lock,
)
from segstore.log.files.partition_directory import directory_name
from segstore.log.files.partition_lock import PartitionLock, lock_shared
from segstore.log.log_environment import LogEnvironment

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from segstore._core import FileLock
    from segstore.types import TopicPartition

TOPICS_LOCK: Final = ".segstore.topics.lock"
"""Held while topics change; ``topics.json`` itself is replaced, and cannot be locked."""
_ATTEMPTS: Final = 500
"""Five seconds. A caller waits longer by ``lock_timeout``."""
MAINTENANCE_LOCK: Final = ".segstore.maintenance.lock"
"""Held by the process that maintains the partitions that no process writes."""


class SharedCheckpoints(LogDirectoryCheckpoints):
    """The checkpoint files of a shared directory: each log merges its own lines when it closes."""

    @contextmanager
    def forgetting(self, topic_partitions: Iterable[TopicPartition]) -> Iterator[None]:
        """Remove the lines of partitions that the caller has locked [DUR-121]."""
        gone = set(topic_partitions)
        with merge_lock(self._directory):
            self.forget(gone)
            lines = self._lines(CLEANER_OFFSET_CHECKPOINT) or {}
            if not gone.isdisjoint(lines):
                left = {one: at for one, at in lines.items() if one not in gone}
                self._put(CLEANER_OFFSET_CHECKPOINT, left)
        yield

    def gather(self) -> None:
        """See `OwnedCheckpoints`: no line waits here."""

    def write(self, names: Sequence[str] = ()) -> list[str]:
        """See `OwnedCheckpoints`: no line waits here."""
        del names
        return []


class SharedLogDirectory:
    """The right to write those logs of a directory that no other process writes, until `release`.

    Parameters
    ----------
    directory : Directory
        The log directory.

    Attributes
    ----------
    last_broker_epoch : None
        Whether the directory was closed cleanly is not known.
    checkpoints : SharedCheckpoints
        Those of the directory.

    Raises
    ------
    LogLockedError
        A broker, or a manager that does not share, holds the directory.
    """

    last_broker_epoch: None = None

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self.checkpoints = SharedCheckpoints(directory)
        self._elected: FileLock | None = None
        self._has_failed = False
        self._held: set[TopicPartition] = set()
        self._lock = lock_shared(directory)
        try:
            with merge_lock(directory):
                self.checkpoints.make_missing(format_offset_checkpoint({}))
        except BaseException:
            self.release()
            raise

    def environment_of(self, topic_partition: TopicPartition) -> LogEnvironment:  # noqa: ARG002 - as the owner's
        """Return how a log is opened: by itself, and not made: another process may delete it."""
        return LogEnvironment(makes_directory=False)

    def has_true_high_watermark(self, topic_partition: TopicPartition) -> bool:  # noqa: ARG002 - as above
        """See `OwnedLogDirectory`: no line of it is kept here."""
        return False

    def note_opened(self, topic_partition: TopicPartition) -> None:
        """See `OwnedLogDirectory`."""

    def note_new_names(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """See `OwnedLogDirectory`."""

    def remaining_logs_to_recover(self, listed: object) -> int:  # noqa: ARG002 - as above
        """See `OwnedLogDirectory`: other processes may recover them."""
        return 0

    def mark_clean(self, broker_epoch: int) -> None:
        """See `OwnedLogDirectory`: each log has its own marker."""

    def unmark(self) -> None:
        """See `OwnedLogDirectory`."""

    # ---- what only one process does at a time ----------------------------------------------------

    @contextmanager
    def changing_topics(self) -> Iterator[bool]:
        """Keep other processes from changing topics in the block; they may have done so before.

        Raises
        ------
        LogLockedError
            Another process has been changing topics for five seconds.
        """
        with ExitStack() as stack:
            try:
                stack.enter_context(short_lock(self._directory, TOPICS_LOCK, _ATTEMPTS))
            except LogLockedError as error:
                raise LogLockedError(
                    "another process changes topics of this log directory: try again, or wait"
                    " longer with lock_timeout",
                    file=f"{self._directory.path}/{TOPICS_LOCK}",
                ) from error
            yield True

    @contextmanager
    def locking(self, topic_partitions: Iterable[TopicPartition]) -> Iterator[None]:
        """Keep writers out of partitions that are not open here; a block within one is free.

        Raises
        ------
        LogLockedError
            Another process writes one of them; none is locked then.
        """
        with ExitStack() as stack:
            for one in set(topic_partitions) - self._held:
                try:
                    self._lock_partition(one, stack)
                except LogNotFoundError:  # another process has just deleted it
                    continue
            yield

    def _lock_partition(self, topic_partition: TopicPartition, stack: ExitStack) -> None:
        path = f"{self._directory.path}/{directory_name(topic_partition)}"
        directory = stack.enter_context(closing(Directory(path, self._directory.environment)))
        lock = PartitionLock.acquire(directory, self._directory, home=directory)
        stack.callback(lock.release)
        stack.callback(self._held.discard, topic_partition)
        self._held.add(topic_partition)

    def is_elected(self) -> bool:
        """Whether this process maintains the partitions that no process writes.

        The first one that asks does, until it ends, its directory fails, or `release`.
        """
        if self._elected is None:
            try:
                self._elected = self._directory.lock(MAINTENANCE_LOCK, exclusive=True)
            except LogLockedError:
                return False
        if self._has_failed:  # maybe while we locked
            self._resign()
        return self._elected is not None

    def poison(self, error: BaseException) -> None:  # noqa: ARG002 - as a log's
        """Let another process maintain those partitions: the directory has failed here."""
        self._has_failed = True
        self._resign()

    def _resign(self) -> None:
        elected, self._elected = self._elected, None
        if elected is not None:
            elected.release()

    def release(self) -> None:
        """Let managers that do not share, and brokers, come in."""
        self._resign()
        self._lock.release()
