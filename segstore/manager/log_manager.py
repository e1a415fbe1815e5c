"""Many logs in one directory (Kafka ``LogManager``): list, create, open, append by key, close.

The directory is like a broker's ``log.dirs``. An open for writing locks its ``.lock``, as a broker
does [DUR-65]. A clean close leaves the checkpoints and the marker that a broker looks for.
What runs later is in `maintenance`, and there is no compaction.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self, cast

import segstore._core as _core
from segstore._core import AppendLock, Directory
from segstore.arguments import integer, path_text, refuse_pickle, timestamp
from segstore.errors import (
    ClosedError,
    ForkedHandleError,
    IllegalArgumentError,
    LogNotFoundError,
    LogReadOnlyError,
    NotALogError,
    UnknownTopicOrPartitionError,
)
from segstore.log.files.clean_shutdown_file_handler import NO_BROKER_EPOCH
from segstore.log.files.partition_directory import directory_name
from segstore.log.files.partition_lock import hint_at_read_only
from segstore.log.files.profile import Profile
from segstore.log.log_dir_failure_channel import LogDirFailureChannel
from segstore.log.open_options import OpenKeywords, open_options
from segstore.log.shutdown import Shutdown, suppress_repeated_error
from segstore.manager.current_logs import CurrentLogs
from segstore.manager.deleted_partitions import DeletedPartitions
from segstore.manager.directory_metadata import DirectoryMetadata
from segstore.manager.maintenance import Maintenance
from segstore.manager.maintenance_report import DeletionCounts
from segstore.manager.manager_stats import manager_stats
from segstore.manager.owned_log_directory import OwnedLogDirectory
from segstore.manager.partition_directories import check_no_gap, refuse_partition_directory
from segstore.manager.partition_listing import PartitionListing, numbers_in
from segstore.manager.partition_records import (
    StickyPartitioner,
    arrow_batches,
    chunks_of_records,
    is_arrow_data,
    joined,
    note_appended,
    split_batch,
    split_records,
)
from segstore.manager.pending_closes import PendingCloses
from segstore.manager.topic_changes import TopicChanges
from segstore.manager.topic_directories import make_log_directory
from segstore.manager.topic_registry import TopicRegistry
from segstore.manager.topic_settings import TopicSettings
from segstore.record_rows import refuse_counted_rows
from segstore.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime
    from typing import NoReturn, TypeAlias, Unpack

    from segstore.log.unified_log import UnifiedLog
    from segstore.manager.maintenance_report import MaintenanceReport
    from segstore.manager.manager_stats import ManagerStats
    from segstore.manager.partition_listing import Listed
    from segstore.manager.topic_description import TopicDescription
    from segstore.records.record_builder import Records
    from segstore.types import LogAppendInfo

    TopicValue: TypeAlias = str | int | float | bool
    """A setting of a topic; a text is read as Kafka's tools read it."""


def open_dir(
    path: str | os.PathLike[str],
    *,
    read_only: bool = False,
    background: bool = False,
    metadata_log: str | os.PathLike[str] | None = None,
    **settings: Unpack[OpenKeywords],
) -> LogManager:
    """Open a log directory, which holds ``<topic>-<partition>`` directories.

    Parameters
    ----------
    path : path
        The log directory; created when it is missing, unless *read_only*.
    read_only : bool
        Take no lock and change nothing; works beside a writer.
    background : bool
        Let threads do what `LogManager.maintain` does, from 30 seconds after the open until
        `close`.
    metadata_log : path or None
        ``__cluster_metadata-0`` of the directory's broker, or the directory that holds it: that of
        ``metadata.log.dir``, else the first of ``log.dirs``. Topics that it has go by its settings,
        and then by Kafka's defaults. None = the one in *path*, if there is one.
    **settings
        As for ``segstore.open``, for every log. ``progress`` must not use the manager.

    Returns
    -------
    LogManager
        Lists, creates and opens the logs in the directory.

    Raises
    ------
    LogLockedError
        A broker or another manager has the directory open, or another writer one of its logs.
    NotALogError
        *path* is a file, or the directory of one partition.
    LogNotFoundError
        There is no metadata log at *metadata_log*.
    """
    return LogManager(
        path,
        read_only=read_only,
        background=background,
        metadata_log=metadata_log,
        **settings,
    )


class LogManager:
    """The logs of one directory; safe to use from several threads. `open_dir` returns one.

    The first use of a log opens it, and it stays open until `close`. An I/O error of one log ends
    writing in all of them. All logs, also those not open yet, can be read until the directory is
    closed [LOC-27, DUR-35, DUR-38].
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        read_only: bool = False,
        background: bool = False,
        metadata_log: str | os.PathLike[str] | None = None,
        **settings: Unpack[OpenKeywords],
    ) -> None:
        if read_only and background:
            raise IllegalArgumentError(
                "background work needs a directory that is open for writing",
                found="read_only=True, background=True",
                expected="one of them",
            )
        self._read_only = read_only
        self._options = open_options(read_only=read_only, **settings)
        self._failures = LogDirFailureChannel()
        self._mutex = AppendLock()  # a handler that comes here in its midst is told
        self._process_id = _core.process_id()
        self._partitioners: dict[str, tuple[Listed, StickyPartitioner]] = {}
        self._owned: OwnedLogDirectory | None = None
        self._shutdown = Shutdown(lambda: self._logs.end_with_this_thread())  # noqa: PLW0108 - made below
        self._pending_closes: PendingCloses | None = None  # since `close` was called
        self._may_mark = True
        if metadata_log is not None:
            metadata_log = path_text("metadata_log", metadata_log)
        full_path = os.path.abspath(path_text("path", path))  # noqa: PTH100 - links stay as they are
        if self._options.state_dir is not None:  # one that cannot be made leaves nothing behind
            make_log_directory(self._options.state_dir).close()
        self._directory = Directory(full_path) if read_only else make_log_directory(full_path)
        self._listing = PartitionListing(self._directory)
        self._changes: TopicChanges | None = None
        self._deleted: DeletedPartitions | None = None
        self._maintenance: Maintenance | None = None
        try:
            refuse_partition_directory(self._directory)
            metadata = DirectoryMetadata(self._directory, metadata_log)
            if not read_only:
                with hint_at_read_only():
                    self._owned = OwnedLogDirectory(self._directory, self._options.profile)
        except BaseException:
            self._release()
            raise
        self._settings = TopicSettings(self._directory, self._listing, self._options, metadata)
        if self._owned is not None:
            self._maintenance = Maintenance(
                self._directory,
                self._listing,
                self._owned.checkpoints,
                self._options,
                self._settings.configs_of,
                self.log,
                lambda: self._logs.all_open(),  # noqa: PLW0108 - made below
                self._check_writable,
                self._remove_deleted,
            )
        self._logs = CurrentLogs(
            self._directory,
            self._options,
            self._failures,
            self._owned,
            self._settings.config_of,
            self._maintenance,
        )
        if self._maintenance is not None:
            self._own_topics()
            if background:
                self._maintenance.start()

    @property
    def path(self) -> str:
        """The log directory."""
        return self._directory.path

    @property
    def read_only(self) -> bool:
        """Whether the manager was opened for reading only."""
        return self._read_only

    @property
    def closed(self) -> bool:
        """Whether everything was closed; False after a `close` that was interrupted."""
        return self._shutdown.is_over

    @property
    def last_broker_epoch(self) -> int | None:
        """The broker epoch of the last close; None when unknown, or after an unclean close."""
        return None if self._owned is None else self._owned.last_broker_epoch

    # ---- topics ----------------------------------------------------------------------------------

    def topics(self) -> dict[str, list[int]]:
        """Return the partitions of each topic as of now, sorted; internal topics too."""
        self._check_usable()
        return {topic: [*numbers] for topic, numbers in self._listing.current().topics.items()}

    def partitions(self) -> list[TopicPartition]:
        """Return all partitions as of now, sorted; other directories are ignored."""
        self._check_usable()
        return [*self._listing.current().partitions]

    def create_topic(
        self, name: str, partitions: int = 1, *, config: Mapping[str, TopicValue] | None = None
    ) -> list[TopicPartition]:
        """Create a topic: partition directories with one topic id and empty logs; all or none.

        Parameters
        ----------
        name : str
            A legal name that no directory has.
        partitions : int
            How many, 1 to 100,000.
        config : mapping or None
            Settings in Kafka's keys, such as ``{"retention.ms": 604_800_000}``. They stay with the
            topic, in ``topics.json``.

        A call that fails removes what it created. After a crash, the next open for writing removes
        it; ``topics.json`` of the directory records the progress.

        Raises
        ------
        AlreadyExistsError
            The topic exists.
        InvalidTopicError
            *name* is not a legal topic name [DUR-98].
        InvalidConfigurationError, IllegalArgumentError
            A setting is unknown, contradicts another, or has a wrong value [CFG-37…CFG-45].
        CorruptCheckpointError, UnsupportedFormatError
            ``topics.json`` is damaged, or of a later version; nothing was created.
        """
        with self._changing_topics() as changes:
            return changes.create(name, partitions, config)

    def alter_topic(
        self,
        name: str,
        config: Mapping[str, TopicValue | None] | None = None,
        *,
        partitions: int | None = None,
    ) -> TopicDescription:
        """Give a topic other settings or more partitions, durably: all of it, or nothing.

        Logs that are open go by the settings at once. With more partitions, keys belong to other
        partitions than before.

        Parameters
        ----------
        name : str
            A topic of the directory, made by whomever.
        config : mapping or None
            Settings in Kafka's keys; None takes one back. Others stay as they are.
        partitions : int or None
            How many there are to be; at least as many as there are.

        Returns
        -------
        TopicDescription
            The topic as it is now.

        Raises
        ------
        UnknownTopicOrPartitionError
            There is no such topic.
        InvalidConfigurationError, IllegalArgumentError
            A setting is unknown, contradicts another, or has a wrong value; or the topic has more
            partitions. Nothing changed [CFG-37…CFG-46].
        IllegalStateError
            A partition below the last is missing, so none can be added.
        CorruptCheckpointError, UnsupportedFormatError
            ``topics.json`` is damaged, or of a later version; nothing changed.
        SegstoreError
            An open log cannot take the settings; a note says that the topic has them.
        """
        with self._changing_topics() as changes:
            changes.alter(name, config, partitions)
        return self.describe_topic(name)

    def delete_topic(self, name: str) -> None:
        """Delete a topic with all its records: all of it, or nothing.

        The directories get names that end in ``-delete``, and are removed after
        ``file_delete_delay_ms``, or by `close`. Until then, an open log of the topic can be read; a
        change of it is an `IllegalStateError`. A topic made again with the name has another id.

        After a call that fails or a crash, ``topics.json`` decides. If it says that the topic is
        being deleted, no reader lists the topic, and the next open for writing deletes it.

        Raises
        ------
        UnknownTopicOrPartitionError
            There is no such topic.
        InconsistentTopicIdError
            The partitions are of several topics: nothing was deleted.
        CorruptCheckpointError, UnsupportedFormatError
            ``topics.json`` is damaged, or of a later version; nothing was deleted.

        Source: [MGR-63, MGR-66, DUR-121]; Kafka ``LogManager.asyncDelete``.
        """
        with self._changing_topics() as changes:
            changes.delete(name)

    def delete_partition(self, topic: str, partition: int) -> None:
        """Delete one partition with its records, as a broker does when the partition moves away.

        The others stay, and so do the settings. `append` by key needs all partitions of a topic.

        Raises
        ------
        UnknownTopicOrPartitionError
            There is no such partition.

        Source: [MGR-63]; Kafka ``LogManager.asyncDelete``.
        """
        partition = integer("partition", partition)
        with self._changing_topics() as changes:
            changes.delete_partition(topic, partition)

    def describe_topic(self, name: str) -> TopicDescription:
        """Return a topic's id, its partitions, and each setting with where it comes from.

        Raises
        ------
        UnknownTopicOrPartitionError
            There is no such topic.
        CorruptCheckpointError, UnsupportedFormatError
            ``topics.json`` is damaged, or of a later version.
        """
        self._check_usable()
        return self._settings.describe(name)

    def stray_partitions(self) -> dict[TopicPartition, str]:
        """Return the partitions that the directory's broker takes for stray, each with the reason.

        The metadata log says which: a topic was deleted, or a replica moved. A broker that starts
        renames their directories; segstore leaves them. Without a metadata log there are none.

        Raises
        ------
        CorruptLogError, CorruptCheckpointError, UnsupportedFormatError
            The metadata log cannot be read.

        Source: [MGR-26].
        """
        self._check_usable()
        return self._settings.strays()

    @contextmanager
    def _changing_topics(self) -> Iterator[TopicChanges]:
        self._check_writable()
        with self._mutex:
            self._check_usable()  # while we waited
            with self._failures.guard(self.path):
                yield cast("TopicChanges", self._changes)

    def _own_topics(self) -> None:
        """Finish or undo what was left of changes of topics, and take changes from now on."""
        logs, delay_ms = self._logs, self._options.config.file_delete_delay_ms
        deleted = self._deleted = DeletedPartitions(
            self._directory,
            delay_ms,
            logs.close_quietly,
            cast("Maintenance", self._maintenance).now_ms,
        )
        registry = TopicRegistry(self._directory, logs, deleted)
        self._changes = TopicChanges(self._directory, self._settings, registry, logs)
        try:
            with self._mutex, self._failures.guard(self.path):
                deleted.find_left()
                registry.reconcile()
        except BaseException:
            self.close()
            raise

    # ---- logs ------------------------------------------------------------------------------------

    def log(self, topic: str, partition: int) -> UnifiedLog:
        """Return the log of a partition; the first call opens it, and the manager closes it.

        With *read_only*, it is another log after the directory was removed and created again.

        Raises
        ------
        UnknownTopicOrPartitionError
            The partition does not exist.
        """
        self._check_usable()
        topic_partition = TopicPartition(topic, integer("partition", partition))
        name = directory_name(topic_partition)
        with self._mutex:
            self._check_usable()  # while we waited
            log = self._logs.find_in_place(topic_partition)
            if log is None:
                if not self._directory.exists(name):
                    raise self._unknown(topic_partition, "no such directory")
                # after the look at the directory: topics.json names a topic before that is made
                if self._listing.current().unfinished.hides(topic_partition):
                    found = "one whose creation or deletion is not finished"
                    raise self._unknown(topic_partition, found)
                try:
                    log = self._logs.find_or_open(topic_partition)
                except (LogNotFoundError, NotALogError) as error:
                    if topic_partition in self._listing.current().partitions:
                        raise
                    found = "a directory that was removed meanwhile"
                    raise self._unknown(topic_partition, found) from error
            return log

    def _unknown(self, topic_partition: TopicPartition, found: str) -> UnknownTopicOrPartitionError:
        return UnknownTopicOrPartitionError(
            f"no partition {topic_partition} here", file=self.path, found=found
        )

    def stats(self) -> ManagerStats:
        """Return numbers of the directory and of its open logs, by Kafka's metric names.

        No log is opened for it: one that is not open has no size and no offsets here.
        ``stats().prometheus_text()`` is what Prometheus reads. Source: [MGR-12].
        """
        self._check_process()
        with self._mutex:
            self._check_usable()
            logs = [log for log in self._logs.by_name.values() if not log.closed]
        maintenance = self._maintenance
        return manager_stats(
            self.path,
            is_offline=self._failures.has_offline_log_dir(self.path),
            partitions=len(self._listing.current().partitions),
            logs=logs,
            deletions=DeletionCounts() if maintenance is None else maintenance.deletions,
            failing_tasks=0 if maintenance is None else maintenance.failing,
        )

    # ---- background work -------------------------------------------------------------------------

    def maintain(self, now: int | datetime | None = None) -> MaintenanceReport:
        """Do everything that is due, in this thread; return what was done [MGR-30, RTN-1].

        Retention deletes what the settings of topics say, and the checkpoints of the log directory
        are written. Directories of deleted partitions are removed, and logs do what they have to do
        later: timed syncs, unlinking, the look for silent producers. Call it as often as you like:
        retention is due every five minutes, the rest every minute, or as each log says.
        ``open_dir(..., background=True)`` needs no call.

        In the safe profile, a topic without limits loses nothing. What fails is in the report, and
        is tried again later; the rest is done [DUR-131].

        Parameters
        ----------
        now : int, datetime or None
            For tests: the time, in ms since 1970. Timers go on from there, and segments are as old
            as it says. None = the clock of the system.

        Raises
        ------
        LogReadOnlyError
            The directory is read only, or the disk has failed.
        RuntimeError
            A signal handler called in the middle of another pass.
        """
        self._check_writable()
        now_ms = None if now is None else timestamp("now", now)
        return cast("Maintenance", self._maintenance).run_due(now_ms)

    def _remove_deleted(self, now_ms: int) -> list[str]:
        with self._mutex, self._failures.guard(self.path):
            return [] if self._deleted is None else self._deleted.delete_due(now_ms)

    # ---- append ----------------------------------------------------------------------------------

    def append(
        self, topic: str, records: Records, *, partition: int | None = None
    ) -> dict[int, LogAppendInfo]:
        """Append *records*, each to the partition that Kafka's clients choose for its key.

        Parameters
        ----------
        topic : str
            An existing topic.
        records : records
            Any iterable of ``(key, value)`` or ``(timestamp, key, value)`` tuples or `Record`; or
            Arrow data with columns key, value, timestamp, headers.
        partition : int or None
            Append all records to this partition instead.

        Returns
        -------
        dict of int to LogAppendInfo
            The result for each partition that got records. Order is kept within a partition.

        Raises
        ------
        RecordTypeError
            An object is not a record. If *records* is a list, nothing was appended.
        UnknownTopicOrPartitionError
            The topic or partition does not exist.
        SegstoreError
            Any other error of one partition. Records that other partitions got before it stay:
            ``appended`` of the error and a note list them. For a list, all logs are opened before
            the first append.
        """
        self._check_writable()
        if partition is not None:
            return {partition: self.log(topic, partition).append(records)}
        partitioner = self._partitioner(topic)
        done: dict[int, LogAppendInfo] = {}
        try:
            for by_partition in self._split(records, partitioner):
                logs = {number: self.log(topic, number) for number in by_partition}
                for number, part in by_partition.items():
                    info = logs[number].append(part)
                    done[number] = joined(done[number], info) if number in done else info
        except BaseException as error:
            note_appended(error, topic, done)
            raise
        return done

    def _split(self, records: Any, partitioner: StickyPartitioner) -> Iterator[dict[int, Any]]:
        with self._mutex:
            partitioner.begin_append()
        if is_arrow_data(records):
            for batch in arrow_batches(records):
                with self._mutex:
                    by_partition: dict[int, Any] = split_batch(batch, partitioner)
                yield by_partition
            return
        for number, chunk in enumerate(chunks_of_records(records)):
            with self._mutex:
                by_partition = split_records(chunk, partitioner)
            if number == 0:
                refuse_counted_rows(chunk)
            yield by_partition

    def _partitioner(self, topic: str) -> StickyPartitioner:
        with self._mutex:
            self._check_usable()  # while we waited
            listed = self._listing.current()
            known = self._partitioners.get(topic)
            if known is not None and known[0] is listed:
                return known[1]
            numbers = numbers_in(listed, topic, self.path)
            check_no_gap(self._directory, topic, numbers)
            if known is None or known[1].partitions_count != len(numbers):
                known = listed, StickyPartitioner(len(numbers))
            self._partitioners[topic] = listed, known[1]
            return known[1]

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        refuse_pickle(
            f"the log directory {self.path}",
            "pass its path, and open it there: segstore.open_dir(path, read_only=True)",
        )

    # ---- close -----------------------------------------------------------------------------------

    def close(self, broker_epoch: int = NO_BROKER_EPOCH) -> None:
        """Close every log; write the clean shutdown marker if all closed cleanly [DUR-24].

        The marker is not written when a partition may need recovery. It contains *broker_epoch*, if
        given. A second call completes an interrupted one. A call by a signal handler during the
        close of a log does nothing, because that log still writes: call again.

        Raises
        ------
        RuntimeError
            A signal handler called during an append, a sync or an open of a log; nothing was
            closed.
        """
        if self.closed:
            return
        self._check_process()  # no thread of the parent's lets go of the mutex here [DUR-68]
        shutdowns = [self._shutdown, *(log.shutdown for log in self._logs.all_writable())]
        if any(shutdown.runs_in_this_thread() for shutdown in shutdowns):
            return
        self._mutex.require_another_owner()
        if self._maintenance is not None:
            self._maintenance.require_outside()
        self._logs.require_none_waits_for_this_thread()
        with self._mutex:  # who opens a log does so first, and nobody does behind it
            pending = self._pending_closes or PendingCloses(self._logs.all_writable())
            self._pending_closes = pending
        self._shutdown.run(lambda: self._close_alone(pending, broker_epoch))

    def _close_alone(self, pending: PendingCloses, broker_epoch: int) -> None:
        if self.closed:  # by the thread that was waited for
            return
        if self._maintenance is not None and self._owned is not None:
            self._maintenance.stop()
            self._maintenance.note_high_watermarks()
            self._owned.checkpoints.gather()
        if not pending.close():
            return  # one still writes: the next close does the rest
        if self._may_mark and self._owned is not None:
            try:
                self._owned.checkpoints.write()  # also of logs that closed well beside others
            except Exception as error:  # noqa: BLE001 - raised when all is let go of
                pending.errors.append(error)
        may_mark, self._may_mark = self._may_mark, False  # once: the lock is there yet
        try:
            if may_mark and self._owned is not None:
                if pending.errors or self._failures.has_offline_log_dir(self.path):
                    self._owned.unmark()
                if not pending.errors:
                    if self._deleted is not None and self._options.profile is Profile.SAFE:
                        self._deleted.delete_at_close()
                    self._failures.check(self.path)  # those opened behind it are well
                    self._logs.note_new_names()
                    self._owned.mark_clean(broker_epoch)
        finally:
            self._release()
        pending.raise_errors()

    def _release(self) -> None:
        if self._maintenance is not None:
            self._maintenance.close()
        if self._owned is not None:
            self._owned.release()
        self._directory.close()
        self._shutdown.finish()

    def _check_process(self) -> None:
        if self._process_id != _core.process_id():
            raise ForkedHandleError(
                "the manager was opened before the process forked: open the directory again here",
                file=self.path,
            )

    def _check_usable(self) -> None:
        self._check_process()
        if self._pending_closes is not None:
            raise ClosedError("the log directory is closed, or being closed", file=self.path)

    def _check_writable(self) -> None:
        self._check_usable()
        if self._read_only:
            raise LogReadOnlyError("the log directory was opened read-only", file=self.path)
        self._failures.check(self.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        with suppress_repeated_error(error):
            self.close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else "read-only" if self._read_only else "open"
        return f"<LogManager {self.path} {state}>"
