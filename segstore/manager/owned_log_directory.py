"""A log directory that is held for writing: its lock, and whether its stops are clean.

The marker of a clean stop goes before the first log is opened, and comes back behind the last one
that was closed. Source: [DUR-24, DUR-65].
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from segstore._core import FileBarrier
from segstore.errors import InconsistentTopicIdError, LogLockedError
from segstore.log.files.checkpoints import (
    LOCK,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    format_offset_checkpoint,
)
from segstore.log.files.clean_shutdown_file_handler import CleanShutdownFileHandler
from segstore.log.files.log_directory_checkpoints import OwnedCheckpoints
from segstore.manager.partition_directories import list_partition_directories, was_closed_cleanly

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from segstore._core import Directory
    from segstore.types import TopicPartition


class OwnedLogDirectory:
    """The right to write the logs of a directory, until `release`.

    Parameters
    ----------
    directory : Directory
        Locked first: what decides a write is read after that.

    Attributes
    ----------
    last_broker_epoch : int or None
        Of the clean stop before; None after any other, or unknown.
    checkpoints : OwnedCheckpoints
        Those of the directory, for all its logs.

    Raises
    ------
    LogLockedError
        A broker or another manager holds the directory, or somebody one of its partitions.
    """

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._marker = CleanShutdownFileHandler(directory)
        self.checkpoints = OwnedCheckpoints(directory)
        self._touched: set[TopicPartition] = set()
        try:
            self._lock = directory.lock(LOCK, exclusive=True)
        except LogLockedError as error:
            raise LogLockedError(
                "a broker or another LogManager has the log directory open for writing, or a writer"
                " one of its partitions; reading works with read_only=True",
                file=f"{directory.path}/{LOCK}",
                os_error=error.os_error,
            ) from error
        try:
            # remembered: the logs are opened one by one, long after the marker is gone
            self._was_clean, self.last_broker_epoch = self._marker.exists, self._marker.read()
            self._marker.delete()
            # a log that is opened alone later merges its line where the files exist
            for name in (RECOVERY_POINT_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT):
                if not directory.exists(name):
                    content = format_offset_checkpoint({})
                    directory.write_file_atomically(name, content, FileBarrier.SHARED_CHECKPOINT)
        except BaseException:
            self.release()
            raise

    def was_clean(self, topic_partition: TopicPartition) -> bool:
        """Whether the directory's marker spoke of this log, and it was not opened since."""
        return self._was_clean and topic_partition not in self._touched

    @contextlib.contextmanager
    def opening(self, topic_partition: TopicPartition) -> Iterator[bool]:
        """Open a log in the block; says whether the directory's marker spoke of it.

        From then on only the log's own marker says that it is clean.
        """
        was_touched, was_clean = topic_partition in self._touched, self.was_clean(topic_partition)
        self._touched.add(topic_partition)
        try:
            yield was_clean
        except InconsistentTopicIdError:  # nothing was written to it
            if not was_touched:
                self._touched.discard(topic_partition)
            raise

    def touch(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Note logs that were opened here, under the names that they have by now."""
        self._touched.update(topic_partitions)

    def mark_clean(self, broker_epoch: int) -> None:
        """Leave the marker, unless the next who opens the directory may have a log to recover.

        That is one that was never opened here, in a directory that was not clean, or one that could
        not be opened or closed.
        """
        here = list_partition_directories(self._directory)
        if not self._was_clean and not self._touched.issuperset(here):
            return
        if all(was_closed_cleanly(self._directory, key) for key in self._touched & {*here}):
            self._marker.write(broker_epoch)

    def release(self) -> None:
        """Let somebody else write."""
        self._lock.release()
