"""One log directory of a manager: its lock, its partitions, its topics, what failed in it.

All that belongs to one directory has its owner here. So a directory is whole when it is opened
alone, and the failure of one takes no other with it. Source: [MGR-5…MGR-10, MGR-70…MGR-72].
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, cast

from segstore._core import Directory
from segstore.arguments import path_text
from segstore.errors import (
    ClosedError,
    IllegalArgumentError,
    LogLockedError,
    LogNotFoundError,
    ReadIOError,
    SegstoreError,
)
from segstore.log.files.checkpoints import LOCK
from segstore.log.files.clean_shutdown_file_handler import NO_BROKER_EPOCH
from segstore.log.files.meta_properties import read_meta_properties
from segstore.log.files.partition_directory import FUTURE_DIRECTORY_SUFFIX, directory_name
from segstore.log.files.partition_lock import hint_at_read_only
from segstore.log.files.partition_path import refuse_partition_directory
from segstore.log.files.profile import Profile
from segstore.log.files.topic_directories import make_log_directory
from segstore.log.files.topic_names import CLUSTER_METADATA_TOPIC
from segstore.log.files.topics_file import read_topics_file
from segstore.log.log_dir_failure_channel import IO_ERRORS
from segstore.manager.current_logs import CurrentLogs
from segstore.manager.deleted_partitions import DeletedPartitions
from segstore.manager.maintenance_report import FailedTask
from segstore.manager.owned_log_directory import OwnedLogDirectory
from segstore.manager.partition_directories import refuse_other_directory
from segstore.manager.partition_listing import NOTHING_LISTED, PartitionListing
from segstore.manager.pending_closes import PendingCloses
from segstore.manager.shared_log_directory import SharedLogDirectory
from segstore.manager.topic_registry import TopicRegistry
from segstore.manager.topic_settings import TopicSettings
from segstore.types import TopicPartition

if TYPE_CHECKING:
    import uuid
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager
    from typing import TypeAlias

    from segstore._core import AppendLock
    from segstore.log.log_dir_failure_channel import LogDirFailureChannel
    from segstore.log.open_options import OpenOptions
    from segstore.log.unified_log import UnifiedLog
    from segstore.manager.cleaner_config import CleanerConfig
    from segstore.manager.current_logs import DirectoryOwner
    from segstore.manager.directory_metadata import DirectoryMetadata
    from segstore.manager.maintenance import Maintenance
    from segstore.manager.maintenance_intervals import MaintenanceIntervals
    from segstore.manager.maintenance_report import MaintenanceReport
    from segstore.manager.partition_listing import Listed
    from segstore.manager.throttler import Throttler
    from segstore.manager.tiered_topics import TieredTopics

    PathOrPaths: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]

_log = logging.getLogger(__name__)


class LogDirectory:
    """A log directory that is open. Guarded by the manager's mutex, if nothing else is said.

    Parameters
    ----------
    path : str
        Absolute.
    options : OpenOptions
        Those of the manager.
    failures : LogDirFailureChannel
        Of all directories of the manager.
    mutex : AppendLock
        The manager's.
    open_log : callable
        Returns the log of a topic and a partition's number, in whichever directory it lies.
    check_usable : callable
        Raises where the manager is closed.
    metadata_of : callable
        Takes the directory, returns what its broker's metadata log says of topics.
    cleaner_config : CleanerConfig
        How compaction runs in this directory.
    intervals : MaintenanceIntervals
        How often what is done.
    throttler : Throttler
        What limits it in all directories together.
    is_shared : bool
        Other processes write some of the logs: those that are read take no lock.
    tiered : TieredTopics or None
        The remote part of the directory.

    Attributes
    ----------
    path : str
        The log directory.
    logs : CurrentLogs
        Those that are open.
    logs_to_read : CurrentLogs
        Those that are open to be read; of a shared directory they are apart.
    registry : TopicRegistry
        The steps by which topics change; a reader takes none.
    deleted : DeletedPartitions
        What waits for its removal.
    owned : OwnedLogDirectory, SharedLogDirectory or None
        The lock and the checkpoints; None for a reader.
    maintenance : Maintenance or None
        The background work; None for a reader.
    """

    def __init__(  # noqa: PLR0913 - what it works with
        self,
        path: str,
        options: OpenOptions,
        failures: LogDirFailureChannel,
        mutex: AppendLock,
        open_log: Callable[[str, int], UnifiedLog],
        check_usable: Callable[[], None],
        metadata_of: Callable[[Directory], DirectoryMetadata],
        cleaner_config: CleanerConfig,
        intervals: MaintenanceIntervals,
        throttler: Throttler,
        *,
        is_shared: bool = False,
        tiered: TieredTopics | None = None,
    ) -> None:
        self.path = path
        self._options = options
        self._failures = failures
        self._mutex = mutex
        self._check_usable = check_usable
        self._may_mark = True
        self._listed_logs = NOTHING_LISTED
        self._borrowed: set[TopicPartition] = set()  # opened by the maintenance, and used by nobody
        self._pending: PendingCloses | None = None  # since its close has begun
        self.owned: DirectoryOwner | None = None
        self.maintenance: Maintenance | None = None
        self.directory = Directory(path) if options.read_only else make_log_directory(path)
        self._listing = PartitionListing(self.directory)
        try:
            refuse_partition_directory(self.directory)
            if options.read_only:
                refuse_other_directory(self.directory)
            metadata = metadata_of(self.directory)
            if not options.read_only:
                with hint_at_read_only():
                    self.owned = (
                        SharedLogDirectory(self.directory)
                        if is_shared
                        else OwnedLogDirectory(self.directory, options.profile)
                    )
        except BaseException:
            self.release()
            raise
        self.settings = TopicSettings(self.directory, self._listing, options, metadata)
        if self.owned is not None:
            from segstore.manager.maintenance import Maintenance  # who only reads needs none

            self.maintenance = Maintenance(
                self.directory,
                self._listing,
                self.owned.checkpoints,
                options,
                self.settings.configs_of,
                self._log_that_is_written if is_shared else open_log,
                lambda: self.logs.all_open(),  # noqa: PLW0108 - made below
                self._maintaining,
                self._remove_deleted,
                cleaner_config,
                throttler,
                failures,
                intervals=intervals,
                others=self if is_shared else None,
                tiered=tiered,
            )
        self.logs = CurrentLogs(
            self.directory,
            options,
            failures,
            self.owned,
            self.settings.config_of,
            self.maintenance,
        )
        self.logs_to_read = self.logs
        if is_shared:
            failures.watch(self.path, cast("SharedLogDirectory", self.owned))
            self.logs_to_read = CurrentLogs(
                self.directory,
                options._replace(read_only=True, remote_log_reader=None),
                failures,
                None,
                self.settings.config_of,
                None,
            )
        delay_ms = options.config.file_delete_delay_ms
        now_ms = self.directory.wall_clock_ms
        if self.maintenance is not None:
            now_ms = self.maintenance.now_ms
        self.deleted = DeletedPartitions(self.directory, delay_ms, self.logs.close_quietly, now_ms)
        self.registry = TopicRegistry(self.directory, self.logs, self.deleted)

    @property
    def last_broker_epoch(self) -> int | None:
        """Of the clean stop before; None after any other, or unknown."""
        return None if self.owned is None else self.owned.last_broker_epoch

    @property
    def directory_id(self) -> uuid.UUID | None:
        """The id in ``meta.properties``; None where a broker has given it none [MGR-9]."""
        properties = read_meta_properties(self.directory)
        return None if properties is None else properties.directory_id

    def use_options(self, options: OpenOptions) -> None:
        """Let the settings of *options* count where a topic was given none [MGR-97]."""
        self.settings.use_options(options)
        self.deleted.delay_ms = options.config.file_delete_delay_ms
        if self.maintenance is not None:
            self.maintenance.use_options(options)

    # ---- failure ---------------------------------------------------------------------------------

    @property
    def error(self) -> SegstoreError | None:
        """The error that has ended writing in the directory; None while there was none."""
        return self._failures.error_of(self.path)

    def guard(self) -> AbstractContextManager[None]:
        """End writing in the directory when an I/O error comes out of the block [MGR-72]."""
        return self._failures.guard(self.path)

    def check_works(self) -> None:
        """Raise where the directory has failed."""
        self._failures.check(self.path)

    def check_writable(self) -> None:
        """Raise where the manager is closed, or the directory has failed."""
        self._check_usable()
        self.check_works()

    @contextmanager
    def _maintaining(self) -> Iterator[None]:
        """Around a job of the maintenance: an I/O error ends writing in the directory [MGR-72]."""
        self.check_writable()
        with self.guard():
            yield

    # ---- partitions ------------------------------------------------------------------------------

    def listed(self) -> Listed:
        """Return what is there now."""
        before = self._listing.last
        listed = self._listing.current()
        if listed is not before and self.owned is not None:
            self._require_in_place()
        return listed

    def _require_in_place(self) -> None:
        if not self.directory.exists(LOCK):
            raise ReadIOError(
                "the log directory was removed while it was open, or its lock file was",
                file=f"{self.path}/{LOCK}",
                found="no such file",
                expected="the lock file of the open log directory",
            )

    def listed_if_it_works(self) -> Listed:
        """Return what is there now; of a disk that has failed or is gone, what was there."""
        before = self._listing.last
        try:
            return self.listed()
        except IO_ERRORS as error:
            if not self._options.read_only:
                self._failures.maybe_add_offline_log_dir(self.path, error)
            return before or NOTHING_LISTED

    def forget_gone(self) -> None:
        """Let who reads keep no log of a partition that is not there any more."""
        listed = self.listed_if_it_works()
        if listed is not self._listed_logs:
            self._listed_logs = listed
            self.logs_to_read.forget_others(listed.partitions)

    @property
    def is_unknown(self) -> bool:
        """Whether it has failed before anybody saw what is there."""
        return self.error is not None and self._listing.last is None

    def remaining_logs_to_recover(self) -> int:
        """Return how many logs are not opened since an unclean stop; 0 for a reader [MGR-24]."""
        if self.owned is None:
            return 0
        return self.owned.remaining_logs_to_recover({*self.listed_if_it_works().partitions})

    def holds(self, topic_partition: TopicPartition) -> bool:
        """Whether there is a directory of the partition; one that has failed holds what it held."""
        if self.error is not None:
            return topic_partition in self.listed_if_it_works().partitions
        return self.directory.exists(directory_name(topic_partition))

    def find_open(self, topic_partition: TopicPartition) -> UnifiedLog | None:
        """Return the open log of a partition, one that is written before one that is read."""
        log = self.logs.find_in_place(topic_partition)
        if log is not None and topic_partition not in self._borrowed:
            return log
        return self.logs_to_read.find_in_place(topic_partition)

    def open_to_write(self, topic_partition: TopicPartition) -> UnifiedLog:
        """Return the log of a partition, open to be written, for a user."""
        log = self.logs.find_or_open(topic_partition)
        self._borrowed.discard(topic_partition)
        return log

    def undoing_open(self, topic_partition: TopicPartition) -> Callable[[], object]:
        """Return what undoes an `open_to_write` that is to come, for a user who goes without it."""
        if topic_partition in self._borrowed:
            return partial(self._borrowed.add, topic_partition)
        if self.logs.find_in_place(topic_partition) is None:
            return partial(self.close_unused, topic_partition)
        return lambda: None

    def close_log(self, topic_partition: TopicPartition) -> None:
        """Close the log of a partition, if it is open."""
        for logs in self._all_logs():
            logs.close(topic_partition)

    def close_unused(self, topic_partition: TopicPartition) -> None:
        """Close a log that was opened on the way to something else; no error of it counts there."""
        try:
            self.logs.close(topic_partition)
        except (SegstoreError, OSError) as error:  # the next open recovers it
            name = directory_name(topic_partition)
            _log.warning("%s/%s: it is not closed cleanly: %s", self.path, name, error)
            self.logs.close_quietly(name)

    def _all_logs(self) -> Iterable[CurrentLogs]:
        return dict.fromkeys((self.logs, self.logs_to_read))

    def keeping_others_from_changes(self) -> AbstractContextManager[bool]:
        """Keep other processes from changing topics; it may wait, and comes before the mutex.

        Returns whether there are other processes that may change topics.
        """
        return cast("DirectoryOwner", self.owned).changing_topics()

    @contextmanager
    def seeing_changes_of_others(self) -> Iterator[None]:
        """See what other processes have changed; close what the block opens: they may write it."""
        self.registry.reread()
        before = {directory_name(log.topic_partition) for log in self.logs.all_of_partitions()}
        try:
            yield
        finally:
            for log in self.logs.all_of_partitions():
                name = directory_name(log.topic_partition)
                if name not in before:
                    self.close_unused(log.topic_partition)

    def has_arrived(self, topic_partition: TopicPartition) -> bool:
        """Whether a partition was moved here: another directory of it does not count [DUR-127]."""
        arrival = read_topics_file(self.directory).arrivals.get(topic_partition)
        return arrival is not None and arrival.is_copied

    def count_of_logs(self) -> int:
        """Return how many logs lie here, with those that are being moved here [MGR-78].

        A metadata log is none of the manager's.
        """
        names = self.directory.names(ordered=False)
        moving = sum(name.endswith(FUTURE_DIRECTORY_SUFFIX) for name in names)
        of_topics = (one.topic != CLUSTER_METADATA_TOPIC for one in self.listed().partitions)
        return moving + sum(of_topics)

    def _remove_deleted(self, now_ms: int) -> list[str]:
        with self._mutex:
            return self.deleted.delete_due(now_ms)

    # ---- partitions that no process writes -------------------------------------------------------

    def _log_that_is_written(self, topic: str, partition: int) -> UnifiedLog:
        """Return the log of a partition that this process writes, for the maintenance."""
        with self._mutex:
            log = self.logs.find_in_place(TopicPartition(topic, partition))
        if log is None:
            raise LogNotFoundError(f"{topic}-{partition} is not written here", file=self.path)
        return log

    def update_settings(self) -> list[FailedTask]:
        """Let the logs that are written here go by settings that another process has changed."""
        failed = []
        with self._mutex:
            for log in self.logs.all_of_partitions():
                try:
                    with self.guard():
                        config = self.settings.config_of(log.topic_partition)
                        if config != log.config:
                            log.update_config(config)
                except ClosedError:  # by its user
                    continue
                except SegstoreError as error:  # one log stops no other [DUR-131]
                    failed.append(FailedTask("settings", log.topic_partition, error, 1, None))
        return failed

    def find_what_is_left(self) -> bool:
        """Find what other processes have deleted; False where another one looks after that."""
        with self._mutex:
            is_elected = cast("DirectoryOwner", self.owned).is_elected()
            if is_elected:
                self.deleted.find_left()
            return is_elected

    @contextmanager
    def borrowing(self, topic_partition: TopicPartition) -> Iterator[bool]:
        """Have a log open in the block that no process writes; False where one does.

        A user who asks for it meanwhile keeps it.
        """
        is_borrowed = self._borrow(topic_partition)
        try:
            yield is_borrowed
        finally:
            with self._mutex:
                if is_borrowed and topic_partition in self._borrowed:
                    self._borrowed.discard(topic_partition)
                    try:
                        self.logs.close(topic_partition)
                    finally:  # one that cannot be closed lets go of its locks, too
                        self.logs.close_quietly(directory_name(topic_partition))

    def _borrow(self, topic_partition: TopicPartition) -> bool:
        with self._mutex:
            self.check_writable()  # while we waited
            if self.logs.find(directory_name(topic_partition)) is not None:
                return False
            try:
                self.logs.find_or_open(topic_partition)
            except (LogLockedError, LogNotFoundError):
                return False
            self._borrowed.add(topic_partition)
            return True

    # ---- background work -------------------------------------------------------------------------

    def pausing_cleaning(self, topic_partition: TopicPartition) -> AbstractContextManager[None]:
        """Clean the log not until the block ends; a pass that runs ends before."""
        manager = cast("Maintenance", self.maintenance).cleaner_manager
        return manager.paused_cleaning([topic_partition])

    def end_cleaning(self, topic_partition: TopicPartition) -> None:
        """End a pass that runs over a log."""
        with self.pausing_cleaning(topic_partition):
            pass

    def hand_over_cleaning(self, topic_partition: TopicPartition, target: LogDirectory) -> None:
        """Let the directory where a partition has moved know how far it is clean [CLN-28]."""
        if self.maintenance is not None and target.maintenance is not None:
            manager, other = self.maintenance.cleaner_manager, target.maintenance.cleaner_manager
            manager.hand_over(topic_partition, self.path, other, target.path)

    def ask_for_retention(self) -> None:
        """Let retention look at the logs in the next pass, or in a thread now: a limit changed."""
        if self.maintenance is not None:
            self.maintenance.ask_for_retention()

    def validate_cleaner_config(self, config: CleanerConfig) -> None:
        """Refuse what cannot take the place of how compaction runs [CLN-8]."""
        cast("Maintenance", self.maintenance).validate_cleaner_config(config)

    def use_cleaner_config(self, config: CleanerConfig) -> None:
        """Let compaction run by another configuration, which was validated [CLN-8]."""
        cast("Maintenance", self.maintenance).use_cleaner_config(config)

    def start(self) -> None:
        """Let threads do what is due."""
        cast("Maintenance", self.maintenance).start()

    def maintain(
        self, now_ms: int | None, progress: Callable[[TopicPartition, int, int], None] | None
    ) -> MaintenanceReport:
        """Do everything that is due, in this thread."""
        with self.guard():
            return cast("Maintenance", self.maintenance).run_due(now_ms, progress)

    # ---- close -----------------------------------------------------------------------------------

    def require_outside(self) -> None:
        """Raise RuntimeError in the middle of a call of this thread that a close waits for."""
        if self.maintenance is not None:
            self.maintenance.require_outside()
        for logs in self._all_logs():
            logs.require_none_waits_for_this_thread()

    def all_open(self) -> list[UnifiedLog]:
        """Return all logs that are not over, also those that are read; also without the mutex."""
        return [log for logs in self._all_logs() for log in logs.all_writable()]

    def ends_with_this_thread(self) -> bool:
        """Whether it is the thread of a log, whose end waits for it."""
        return any(logs.end_with_this_thread() for logs in self._all_logs())

    def begin_close(self) -> None:
        """Note which logs are to be closed; no log is opened after that."""
        if self.maintenance is not None:
            self.maintenance.begin_close()
        if self._pending is None:
            self._pending = PendingCloses(self.all_open())

    def close_logs(self) -> bool:
        """Close the logs; False where one is left to the next call."""
        if self.maintenance is not None and self.owned is not None:
            self.maintenance.stop()
            self.owned.checkpoints.gather()
        return self._pending is None or self._pending.close()

    def close(self, broker_epoch: int = NO_BROKER_EPOCH) -> None:
        """Write what a clean stop leaves, after the close of all logs, and let go of all."""
        pending = self._pending or PendingCloses(())
        may_write = self._options.profile is Profile.SAFE or not (pending.errors or self.error)
        if self._may_mark and self.owned is not None and may_write:  # [MGR-53] as a broker
            try:
                self.owned.checkpoints.write()  # also of logs that closed well beside others
            except Exception as error:  # noqa: BLE001 - raised when all is let go of
                pending.errors.append(error)
        may_mark, self._may_mark = self._may_mark, False  # once: the lock is there yet
        try:
            if may_mark and self.owned is not None:
                self._leave_marker(self.owned, broker_epoch, has_errors=bool(pending.errors))
        finally:
            self.release()
        pending.raise_errors()

    def _leave_marker(self, owned: DirectoryOwner, broker_epoch: int, *, has_errors: bool) -> None:
        if has_errors or self.error is not None:
            owned.unmark()
        if not has_errors:
            if self._options.profile is Profile.SAFE:
                self.deleted.delete_at_close()
            self._failures.check(self.path)  # those opened behind it are well
            self.logs.note_new_names()
            owned.mark_clean(broker_epoch)

    def release(self) -> None:
        """Let go of everything; also a second time."""
        if self.maintenance is not None:
            self.maintenance.close()
        if self.owned is not None:
            self.owned.release()
        self.directory.close()


def absolute(path: str) -> str:
    """Return *path* absolute; links stay as they are."""
    return os.path.abspath(path)  # noqa: PTH100 - it resolves no links


def absolute_paths(name: str, paths: PathOrPaths) -> list[str]:
    """Return what a user has given as the argument *name*, one path or several, each absolute."""
    if isinstance(paths, str | bytes) or not isinstance(paths, Sequence):
        return [absolute(path_text(name, paths))]
    return [absolute(path_text(name, one)) for one in paths]


def distinct_paths(paths: PathOrPaths) -> tuple[str, ...]:
    """Return the paths that a user has given, absolute.

    Raises
    ------
    IllegalArgumentError
        There is none, or two are the same directory [MGR-4].
    """
    found: dict[str, str] = {}
    for path in absolute_paths("path", paths):
        canonical = os.path.realpath(path)
        if canonical in found:
            raise IllegalArgumentError(
                "two of the log directories are the same one",
                found=f"{found[canonical]} and {path}",
                expected="another directory",
            )
        found[canonical] = path
    if not found:
        raise IllegalArgumentError(
            "there is no log directory to open", found=repr(paths), expected="at least one path"
        )
    return tuple(found.values())


def close_all_logs(directories: Iterable[LogDirectory]) -> bool:
    """Close the logs of all directories; False where one is left to the next call."""
    kept_from: Exception | None = None
    is_over = True
    for one in directories:
        try:
            is_over = one.close_logs() and is_over
        except Exception as error:  # noqa: BLE001 - the other directories close theirs
            kept_from = kept_from or error
    if kept_from is not None:
        raise kept_from
    return is_over
