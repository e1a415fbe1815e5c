"""The logs that a manager has opened, by name (Kafka's ``LogManager.currentLogs``)."""

from __future__ import annotations

import os
import weakref
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

from segstore.log.closed_log_end import closed_log_end
from segstore.log.files.log_directory_checkpoints import LogDirectoryCheckpoints
from segstore.log.files.partition_directory import (
    delete_directory_name,
    directory_name,
    stray_directory_name,
)
from segstore.log.files.profile import Profile
from segstore.log.files.stale_partition_state import remove_stale_state
from segstore.log.log_environment import STANDALONE
from segstore.log.log_opener import open_partition
from segstore.log.unified_log import Log, UnifiedLog
from segstore.manager.missing_remote_storage import MissingRemoteStorage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from typing import TypeAlias

    from segstore._core import Directory
    from segstore.config.log_config import LogConfig
    from segstore.log.files.postponed_syncs import PostponedSyncs
    from segstore.log.log_dir_failure_channel import LogDirFailureChannel
    from segstore.log.open_options import OpenOptions
    from segstore.manager.maintenance import Maintenance
    from segstore.manager.owned_log_directory import OwnedLogDirectory
    from segstore.manager.shared_log_directory import SharedLogDirectory
    from segstore.types import TopicPartition

    DirectoryOwner: TypeAlias = OwnedLogDirectory | SharedLogDirectory


class CurrentLogs:
    """Opens each log at its first use. Guarded by the manager's mutex, if nothing else is said.

    Parameters
    ----------
    directory : Directory
        The log directory.
    options : OpenOptions
        Those of the manager, for every log.
    failures : LogDirFailureChannel
        Shared by all logs.
    owned : OwnedLogDirectory, SharedLogDirectory or None
        Hears of the names of logs that were renamed or closed; None for a reader.
    config_of : callable
        Returns the settings of a log.
    maintenance : Maintenance or None
        Does what logs do later; None for a reader.

    Attributes
    ----------
    by_name : dict of str to UnifiedLog
        By the name of the directory.
    """

    def __init__(  # noqa: PLR0913 - what it works with
        self,
        directory: Directory,
        options: OpenOptions,
        failures: LogDirFailureChannel,
        owned: DirectoryOwner | None,
        config_of: Callable[[TopicPartition], LogConfig],
        maintenance: Maintenance | None,
    ) -> None:
        self._directory = directory
        self._options = options
        self._failures = failures
        self._owned = owned
        self._config_of = config_of
        self._maintenance = maintenance
        self.by_name: dict[str, UnifiedLog] = {}
        self._closing: list[UnifiedLog] = []  # not over yet: closed, or of a directory that is gone
        self._gone: weakref.WeakSet[UnifiedLog] = weakref.WeakSet()  # read only: users keep them
        self._may_have_new_names = False

    def note_rename(self) -> None:
        """Called by a log when it has another name, by any thread and without the mutex."""
        self._may_have_new_names = True

    def find(self, name: str) -> UnifiedLog | None:
        """Return the open log whose directory has that name now."""
        self.note_new_names()
        log = self.by_name.get(name)
        if log is not None and log.closed:
            self.forget(name)
            return None
        return log

    def find_in_place(self, topic_partition: TopicPartition) -> UnifiedLog | None:
        """Return the open log of a partition, unless another directory has its name now."""
        name = directory_name(topic_partition)
        log = self.find(name)
        if log is not None and not log._is_in_place():  # noqa: SLF001 - asked by its manager
            self.forget(name)  # its user keeps it; `close` closes it too
            return None
        return log

    def find_or_open(self, topic_partition: TopicPartition) -> UnifiedLog:
        """Return the open log of a partition; open it, and make it, where there is none."""
        name = directory_name(topic_partition)
        log = self.find(name)
        if log is None:
            log = self._open(topic_partition)
            self.by_name[name] = log
        return log

    def open_new(self, topic_partition: TopicPartition, postponed: PostponedSyncs) -> None:
        """Open the log of a partition whose directory was just made; the caller does its syncs."""
        name = directory_name(topic_partition)
        self.by_name[name] = self._open(topic_partition, postponed)

    def closed_log_end(self, topic_partition: TopicPartition) -> int | None:
        """Return where a log that is not open ends; None where it has to be opened for that."""
        is_safe = self._options.profile is Profile.SAFE and self._options.state_dir is None
        if not is_safe or self._failures.has_offline_log_dir(self._directory.path):
            return None
        owned = self._owned
        above = LogDirectoryCheckpoints(self._directory) if owned is None else owned.checkpoints
        return closed_log_end(self._path_of(topic_partition), topic_partition, above)

    def _path_of(self, topic_partition: TopicPartition) -> str:
        log_dir = self._directory.path
        return os.path.join(log_dir, directory_name(topic_partition))  # noqa: PTH118 - the directory's own spelling

    def _open(
        self, topic_partition: TopicPartition, postponed: PostponedSyncs | None = None
    ) -> UnifiedLog:
        # a log that only reads refuses what it does not have: whoever asks for one asked to write
        log_dir, path = self._directory.path, self._path_of(topic_partition)
        config = self._config_of(topic_partition)
        options = self._options._replace(
            config=config,
            state_dir=self._state_dir_of(topic_partition),
        )
        owned = self._owned
        log_environment = STANDALONE if owned is None else owned.environment_of(topic_partition)
        log_environment = log_environment._replace(
            failures=self._failures,
            on_new_name=self.note_rename,
            has_settings=True,
            postponed=postponed,
        )
        is_safe = options.profile is Profile.SAFE
        if is_safe and config.remote_storage_enable and options.remote_log_reader is None:
            options = options._replace(remote_log_reader=MissingRemoteStorage(log_dir))
        if owned is None or self._maintenance is None:  # to be read only: nothing ends
            return cast("UnifiedLog", open_partition(path, options, log_environment))
        if self._failures.has_offline_log_dir(log_dir):  # to be read, as those that are open
            options = options._replace(read_only=True, remote_log_reader=None)
            return cast("UnifiedLog", open_partition(path, options, log_environment))
        watched = self._maintenance.watched(topic_partition)
        log_environment = log_environment._replace(background=watched.background, watcher=watched)
        with self._failures.guard(log_dir):
            log = cast("UnifiedLog", open_partition(path, options, log_environment))
            if owned.has_true_high_watermark(topic_partition):
                log._take_high_watermark(owned.checkpoints)  # noqa: SLF001 - asked by its manager
        watched.watch(log)
        owned.note_opened(topic_partition)
        return log

    def _state_dir_of(self, topic_partition: TopicPartition) -> str | None:
        """Return where a partition keeps its state: each has a directory of its own there."""
        state_dir = self._options.state_dir
        if state_dir is None:
            return None
        return os.path.join(state_dir, directory_name(topic_partition))  # noqa: PTH118 - as above

    @contextmanager
    def forgetting_state_of(self, gone: Sequence[TopicPartition]) -> Iterator[None]:
        """Remove what is known of partitions that are deleted, or whose directories are gone.

        In the block their directories get other names, or are made; no log that is still open
        brings its lines of checkpoints back before [DUR-121]. What a log has in a directory for
        its state has the log's lock: the log is closed.
        """
        if self._options.state_dir is not None:
            self.close_all_quietly(gone)
        owned = cast("DirectoryOwner", self._owned)  # who only reads deletes nothing
        cleaner_manager = cast("Maintenance", self._maintenance).cleaner_manager
        with (
            self.locking(gone),
            cleaner_manager.paused_cleaning(gone),
            owned.checkpoints.forgetting(gone),
        ):
            cleaner_manager.forget(self._directory.path, gone)
            for topic_partition in gone:
                state_dir = self._state_dir_of(topic_partition)
                if state_dir is not None:
                    remove_stale_state(state_dir, topic_partition, self._directory.environment)
            yield

    def locking(self, topic_partitions: Iterable[TopicPartition]) -> AbstractContextManager[None]:
        """Keep other processes from writing partitions in the block.

        Raises
        ------
        LogLockedError
            One of them writes one.
        """
        owned = cast("DirectoryOwner", self._owned)
        return owned.locking(
            [one for one in topic_partitions if self.find(directory_name(one)) is None]
        )

    def rename_for_deletion(self, topic_partition: TopicPartition) -> str:
        """Give the directory of a partition a name that ends in ``-delete``; return it [MGR-63]."""
        return self._rename_away(topic_partition, delete_directory_name(topic_partition))

    def rename_as_stray(self, topic_partition: TopicPartition) -> str:
        """Give the directory of a partition a name that ends in ``-stray``; return it [MGR-63]."""
        return self._rename_away(topic_partition, stray_directory_name(topic_partition))

    def _rename_away(self, topic_partition: TopicPartition, new_name: str) -> str:
        """Rename a directory; its log stays open, and takes no changes.

        The caller has removed what is known of the partition, and syncs the log directory.
        """
        log = self.find_in_place(topic_partition)
        if log is None:
            self._directory.rename(directory_name(topic_partition), new_name)
        else:
            log.rename_dir(new_name, reinitialize=False)
        return new_name

    def close_quietly(self, name: str) -> None:
        """End the log of the directory *name*, if one is open, without a write."""
        log = self.find(name)
        if log is not None:
            log.close_quietly()
            self.forget(name)

    def close_all_quietly(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """End the logs of partitions, without a write."""
        for topic_partition in topic_partitions:
            self.close_quietly(directory_name(topic_partition))

    def close(self, topic_partition: TopicPartition) -> None:
        """Close the log of a partition, if it is open; the next use opens it again."""
        name = directory_name(topic_partition)
        log = self.find(name)
        if log is not None:
            try:
                log.close()
            finally:
                if log.closed:
                    self.forget(name)

    def forget(self, name: str) -> None:
        """Know a log by its name no more; where it is not over, its end is waited for.

        One that is read only ends when its last user drops it, or with the manager: until then it
        keeps deleted files on the disk.
        """
        log = self.by_name.pop(name)
        if self._owned is None:
            self._gone.add(log)
            return
        self._closing = [one for one in self._closing if not one.shutdown.is_over]
        if not log.shutdown.is_over:
            self._closing.append(log)

    def forget_others(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Know no logs but those of these partitions."""
        for name in self.by_name.keys() - {directory_name(one) for one in topic_partitions}:
            self.forget(name)

    def note_new_names(self) -> None:
        """Know the logs by the names that `UnifiedLog.rename_dir` has given them [REN-1]."""
        if not self._may_have_new_names:
            return
        self._may_have_new_names = False  # before the look: what comes meanwhile is seen next time
        logs = [*self.by_name.values()]
        if self._owned is not None:
            self._owned.note_new_names(log.topic_partition for log in logs)
        self.by_name = {_name_of(log): log for log in logs if not log.closed}
        ending = [*self._closing, *(log for log in logs if log.closed)]
        self._closing = [log for log in ending if not log.shutdown.is_over]

    def all_of_partitions(self) -> list[UnifiedLog]:
        """Return the open logs of partitions: none that is deleted or a stray [MGR-63]."""
        self.note_new_names()
        logs = self.by_name.items()
        return [
            log
            for name, log in logs
            if name == directory_name(log.topic_partition) and not log.closed
        ]

    def all_writable(self) -> list[UnifiedLog]:
        """Return all that are not over; also without the mutex."""
        while True:
            try:
                return [*self._closing, *self._gone, *self.by_name.values()]
            except RuntimeError:  # a reader's log has come: look again
                continue

    def all_open(self) -> list[UnifiedLog]:
        """Return those that take changes; others were opened to read, as the disk had failed."""
        logs: list[Log] = [*self.all_writable()]
        return [log for log in logs if isinstance(log, UnifiedLog)]

    def end_with_this_thread(self) -> bool:
        """Whether it is the thread of one of them, whose end waits for it."""
        return any(
            log.shutdown.waits_for_this_thread()
            for log in self.all_writable()
            if not log.shutdown.is_over
        )

    def require_none_waits_for_this_thread(self) -> None:
        """Raise RuntimeError in the midst of a call that the end of one of them waits for."""
        for log in self.all_writable():
            if not log.shutdown.is_over:
                log._closing.require_not_awaited()  # noqa: SLF001 - one ends with the other


def _name_of(log: UnifiedLog) -> str:
    return log.path.rpartition("/")[2]
