"""A log directory that is held for writing: its lock, and whether its stops are clean.

The marker of a clean stop goes before the first log changes, and comes back after the last one was
closed. Where no log has changed it is left as it is. Source: [DUR-24, DUR-65].
"""

from __future__ import annotations

from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING

from segstore.errors import LogLockedError, SegstoreError
from segstore.log.files.checkpoints import LOCK, format_offset_checkpoint
from segstore.log.files.clean_shutdown_file_handler import (
    NO_BROKER_EPOCH,
    CleanShutdownFileHandler,
)
from segstore.log.files.log_directory_checkpoints import OwnedCheckpoints
from segstore.log.files.profile import Profile
from segstore.log.log_environment import LogEnvironment
from segstore.manager.partition_directories import (
    has_unopened_logs,
    list_partition_directories,
    was_closed_cleanly,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from collections.abc import Set as AbstractSet
    from contextlib import AbstractContextManager

    from segstore._core import Directory
    from segstore.types import TopicPartition


class OwnedLogDirectory:
    """The right to write the logs of a directory, until `release`.

    Parameters
    ----------
    directory : Directory
        Locked first: what decides a write is read after that.
    profile : Profile
        With Kafka's, marker and checkpoints are written as a broker writes them.

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

    def __init__(self, directory: Directory, profile: Profile = Profile.SAFE) -> None:
        self._directory = directory
        self._marker = CleanShutdownFileHandler(directory)
        self.checkpoints = OwnedCheckpoints(directory, profile)
        self._profile = profile
        self._opened: set[TopicPartition] = set()
        self._arrived: set[TopicPartition] = set()
        self._found_unclean: frozenset[TopicPartition] = frozenset()
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
            # remembered: a log may be opened long after another one has removed the marker
            self._was_clean, self.last_broker_epoch = self._marker.exists, self._marker.read()
            if not self._was_clean:
                self._found_unclean = frozenset(list_partition_directories(directory))
            is_kafka = profile is Profile.KAFKA
            no_lines = b"" if is_kafka else format_offset_checkpoint({})  # [CKP-3]
            self.checkpoints.make_missing(no_lines)
            if is_kafka:
                self._marker.delete()  # [MGR-16] also where no log changes
        except BaseException:
            self.release()
            raise

    def was_clean(self, topic_partition: TopicPartition) -> bool:
        """Whether this log was closed cleanly here, or before it was moved here, and is as then."""
        is_known = self._was_clean or topic_partition in self._arrived
        return is_known and topic_partition not in self.checkpoints.changed

    def environment_of(self, topic_partition: TopicPartition) -> LogEnvironment:
        """Return what a log here gets from the owner of its directory."""
        return LogEnvironment(
            parent_is_locked=True,
            parent_was_clean=self.was_clean(topic_partition),
            checkpoints_above=self.checkpoints,
        )

    def has_true_high_watermark(self, topic_partition: TopicPartition) -> bool:
        """Whether the line of a log is true that was opened just now.

        A line is true of a log that its last writer has closed. Any other log may have been cut,
        and written again. The open itself may have changed files meanwhile.
        """
        is_first = topic_partition not in self._opened
        was_closed = topic_partition in self.checkpoints.not_opened_since or (
            self._was_clean and is_first
        )
        self.checkpoints.not_opened_since.discard(topic_partition)
        return was_closed or self._profile is Profile.KAFKA

    def changing_topics(self) -> AbstractContextManager[bool]:
        """See `SharedLogDirectory`: no other process changes topics here."""
        return nullcontext(enter_result=False)

    def locking(self, topic_partitions: object) -> AbstractContextManager[None]:  # noqa: ARG002 - as there
        """See `SharedLogDirectory`: no other process writes here."""
        return nullcontext()

    def is_elected(self) -> bool:
        """See `SharedLogDirectory`: all is maintained here."""
        return True

    def remaining_logs_to_recover(self, listed: AbstractSet[TopicPartition]) -> int:
        """Return how many of *listed* were here after an unclean stop and are not opened [MGR-24].

        The first use of each recovers it, as far as it must be.
        """
        return len((self._found_unclean & listed) - self._opened)

    def note_arrived(self, topic_partition: TopicPartition) -> None:
        """Note a log that was closed cleanly elsewhere, and all of which is on the disk here."""
        self._arrived.add(topic_partition)
        self._opened.add(topic_partition)
        self.checkpoints.not_opened_since.add(topic_partition)
        self.checkpoints.changed.discard(topic_partition)

    def note_opened(self, topic_partition: TopicPartition) -> None:
        """Note a log that could be opened."""
        self._opened.add(topic_partition)

    def note_new_names(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Note logs that were opened here, under the names that they have by now."""
        names = {*topic_partitions}
        self.checkpoints.changed |= names - self._opened
        self._opened |= names

    def write_checkpoints(self) -> None:
        """Bring the lines of all logs that were closed to stable storage.

        A file that cannot be read is left as it is while it may have the line of another log.
        """
        self.checkpoints.write()
        if not has_unopened_logs(self._directory):
            self.checkpoints.write_unreadable({*list_partition_directories(self._directory)})

    def mark_clean(self, broker_epoch: int) -> None:
        """Leave the marker, unless the next who opens the directory may have a log to recover.

        That is one that was never opened here, in a directory that was not clean, or one that could
        not be opened or closed. In a directory that was not clean it may also be one that a broker
        moves (``-future``) or has found to be a stray (``-stray``): no writer here opens these. A
        marker that is still there stays as it is, unless there is a new broker epoch. A log that
        was refused as damaged has not changed: of it the marker says what it said before.
        """
        here = {*list_partition_directories(self._directory)}
        if not self._was_clean and not (
            self._opened.issuperset(here) and not has_unopened_logs(self._directory)
        ):
            return
        if self._marker.exists and broker_epoch == NO_BROKER_EPOCH:
            return
        asked = self.checkpoints.changed if self._was_clean else self._opened
        unchanged = self._arrived - self.checkpoints.changed
        if all(self._was_closed_cleanly(key) for key in (asked & here) - unchanged):
            self._marker.write(broker_epoch)

    def _was_closed_cleanly(self, topic_partition: TopicPartition) -> bool:
        """Whether its last writer closed a log; in the safe profile its own marker says so."""
        if self._profile is Profile.KAFKA:
            return topic_partition in self.checkpoints.closed
        return was_closed_cleanly(self._directory, topic_partition)

    def unmark(self) -> None:
        """Remove a marker that still stands: the disk has failed, or a log could not be closed."""
        with suppress(SegstoreError):  # the caller has an error to raise
            self._marker.delete()

    def release(self) -> None:
        """Let somebody else write."""
        self._lock.release()
