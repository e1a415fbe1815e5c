"""Many logs in one directory (Kafka ``LogManager``): list, create, open, append by key, close.

The directory is like a broker's ``log.dirs``. An open for writing locks its ``.lock``, as a broker
does [DUR-65]. A clean close leaves the checkpoints and the marker that a broker looks for.
Retention, compaction and schedules are not here.
"""

from __future__ import annotations

import os
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any, Final, Self, cast

import segstore._core as _core
from segstore._core import AppendLock, Directory
from segstore.arguments import integer, path_text, refuse_pickle
from segstore.config.log_config import LogConfig
from segstore.config.topic_properties import check_change, default_values, properties_of
from segstore.errors import (
    ClosedError,
    ForkedHandleError,
    IllegalArgumentError,
    LogNotFoundError,
    LogReadOnlyError,
    UnknownTopicOrPartitionError,
)
from segstore.log.files.checkpoints import UNREADABLE_TO_READERS, read_topic_id
from segstore.log.files.clean_shutdown_file_handler import NO_BROKER_EPOCH
from segstore.log.files.partition_directory import check_topic, directory_name
from segstore.log.files.partition_lock import hint_at_read_only
from segstore.log.files.stale_partition_state import remove_stale_state
from segstore.log.files.topics_file import TopicEntry, TopicState, read_topics
from segstore.log.log_dir_failure_channel import LogDirFailureChannel
from segstore.log.log_environment import LogEnvironment
from segstore.log.log_opener import open_partition
from segstore.log.open_options import OpenKeywords, open_options
from segstore.log.shutdown import Shutdown, suppress_repeated_error
from segstore.manager.current_logs import CurrentLogs
from segstore.manager.owned_log_directory import OwnedLogDirectory
from segstore.manager.partition_directories import (
    UNREADABLE_TOPICS,
    check_no_gap,
    refuse_partition_directory,
)
from segstore.manager.partition_listing import PartitionListing
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
from segstore.manager.topic_description import TopicDescription, settings_of
from segstore.manager.topic_directories import make_log_directory
from segstore.manager.topic_registry import TopicRegistry
from segstore.record_rows import refuse_counted_rows
from segstore.records.compression import require_codec
from segstore.records.record_builder import codec_of
from segstore.types import TopicPartition

if TYPE_CHECKING:
    import uuid
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import NoReturn, TypeAlias, Unpack

    from segstore.log.unified_log import UnifiedLog
    from segstore.manager.partition_listing import Listed
    from segstore.records.record_builder import Records
    from segstore.types import LogAppendInfo

    TopicValue: TypeAlias = str | int | float | bool
    """A setting of a topic; a text is read as Kafka's tools read it."""

MAX_PARTITIONS_OF_A_TOPIC: Final = 100_000


def open_dir(
    path: str | os.PathLike[str], *, read_only: bool = False, **settings: Unpack[OpenKeywords]
) -> LogManager:
    """Open a log directory, which holds ``<topic>-<partition>`` directories.

    Parameters
    ----------
    path : path
        The log directory; created when it is missing, unless *read_only*.
    read_only : bool
        Take no lock and change nothing; works beside a writer.
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
    """
    return LogManager(path, read_only=read_only, **settings)


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
        **settings: Unpack[OpenKeywords],
    ) -> None:
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
        full_path = os.path.abspath(path_text("path", path))  # noqa: PTH100 - links stay as they are
        if self._options.state_dir is not None:  # one that cannot be made leaves nothing behind
            make_log_directory(self._options.state_dir).close()
        self._directory = Directory(full_path) if read_only else make_log_directory(full_path)
        self._listing = PartitionListing(self._directory)
        self._registry: TopicRegistry | None = None
        try:
            refuse_partition_directory(self._directory)
            if not read_only:
                with hint_at_read_only():
                    self._owned = OwnedLogDirectory(self._directory)
        except BaseException:
            self._release()
            raise
        self._logs = CurrentLogs(self._owned)
        if self._owned is not None:
            self._reconcile_topics(self._owned)

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
        self._check_writable()
        check_topic(name)
        partitions = integer("partitions", partitions)
        if not 1 <= partitions <= MAX_PARTITIONS_OF_A_TOPIC:
            raise IllegalArgumentError(
                f"a topic cannot have {partitions} partitions",
                found=str(partitions),
                expected=f"1 to {MAX_PARTITIONS_OF_A_TOPIC}",
            )
        given = properties_of({} if config is None else config)
        properties = {key: text for key, text in given.items() if text is not None}
        self._check_settings(properties, {})
        with self._mutex:
            self._check_usable()  # while we waited
            if self._registry is not None:
                with self._failures.guard(self.path):
                    self._registry.create(name, partitions, properties)
        return [TopicPartition(name, number) for number in range(partitions)]

    def alter_topic(self, name: str, config: Mapping[str, TopicValue | None]) -> TopicDescription:
        """Give a topic other settings, durably; logs that are open go by them at once.

        Parameters
        ----------
        name : str
            A topic of the directory, made by whomever.
        config : mapping
            Settings in Kafka's keys; None takes one back. Others stay as they are.

        Returns
        -------
        TopicDescription
            The topic as it is now.

        Raises
        ------
        UnknownTopicOrPartitionError
            There is no such topic.
        InvalidConfigurationError, IllegalArgumentError
            A setting is unknown, contradicts another, or has a wrong value; nothing changed
            [CFG-37…CFG-46].
        CorruptCheckpointError, UnsupportedFormatError
            ``topics.json`` is damaged, or of a later version; nothing changed.
        """
        self._check_writable()
        given = properties_of(config)
        with self._mutex:
            self._check_usable()  # while we waited
            numbers = self._partitions_of(name)
            registry = cast("TopicRegistry", self._registry)
            entry = registry.entry_of(name)
            if entry is None:
                topic_id = self._topic_id_of(name, numbers)
                entry = TopicEntry(topic_id, numbers[-1] + 1, TopicState.LIVE)
            changed = {**entry.config, **given}
            properties = {key: text for key, text in changed.items() if text is not None}
            self._check_settings(properties, entry.config)
            with self._failures.guard(self.path):
                registry.alter(name, entry._replace(config=properties))
            log_config = self._options.config.with_properties(properties)
            for number in numbers:
                log = self._logs.find(directory_name(TopicPartition(name, number)))
                if log is not None and not log.closed:
                    log.update_config(log_config)
        return self.describe_topic(name)

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
        numbers = self._partitions_of(name)
        entry = read_topics(self._directory).get(name)
        topic_id = None if entry is None else entry.topic_id
        if topic_id is None:
            topic_id = self._topic_id_of(name, numbers)
        options = self._options
        defaults, opened = LogConfig().to_values(), options.config.to_values()
        directory = {key: value for key, value in opened.items() if value != defaults[key]}
        properties = {} if entry is None else entry.config
        settings = tuple(settings_of(properties, directory, options.profile))
        return TopicDescription(name, topic_id, tuple(numbers), settings)

    def _partitions_of(self, topic: str) -> Sequence[int]:
        numbers = self._listing.current().topics.get(topic)
        if numbers is None:
            raise UnknownTopicOrPartitionError(
                f"no topic {topic!r} here: create_topic makes it",
                file=self.path,
                found="no such topic",
            )
        return numbers

    def _topic_id_of(self, topic: str, numbers: Sequence[int]) -> uuid.UUID | None:
        """Return the id that the partitions have; None where none has one that can be read."""
        for number in numbers:
            path = f"{self.path}/{directory_name(TopicPartition(topic, number))}"
            with suppress(LogNotFoundError, *UNREADABLE_TO_READERS):
                with closing(Directory(path, self._directory.environment)) as directory:
                    found = read_topic_id(directory)
                if found is not None:
                    return found
        return None

    def _check_settings(self, properties: Mapping[str, str], existing: Mapping[str, str]) -> None:
        """Check what a topic is to be given: by Kafka's rules, and that a log here takes it."""
        options = self._options
        defaults = {**default_values(), **options.config.to_values()}
        is_on = options.remote_offset_reader is not None
        check_change(properties, existing, defaults, is_tiered_system_on=is_on)
        require_codec(codec_of(options.config.with_properties(properties)))

    def _config_of(self, topic: str) -> LogConfig:
        """Return what the logs of a topic go by."""
        try:
            entry = read_topics(self._directory).get(topic)
        except UNREADABLE_TOPICS:  # told by who lists the directory, and nothing is deleted then
            entry = None
        config = self._options.config
        return config if entry is None else config.with_properties(entry.config)

    def _reconcile_topics(self, owned: OwnedLogDirectory) -> None:
        """Finish or undo what was left of a topic's making."""
        self._registry = TopicRegistry(
            self._directory,
            lambda gone: self._forget(owned, gone),
            self._find_or_open,
            self._close_logs,
        )
        try:
            with self._mutex, self._failures.guard(self.path):
                self._registry.reconcile()
        except BaseException:
            self.close()
            raise

    def _forget(self, owned: OwnedLogDirectory, gone: Sequence[TopicPartition]) -> None:
        owned.checkpoints.forget(gone)
        for topic_partition in gone:
            state_dir = self._state_dir_of(topic_partition)
            if state_dir is not None:
                remove_stale_state(state_dir, topic_partition, self._directory.environment)

    def _close_logs(self, topic_partitions: Iterable[TopicPartition]) -> None:
        for topic_partition in topic_partitions:
            name = directory_name(topic_partition)
            log = self._logs.find(name)
            if log is not None:
                log.close_quietly()
                self._logs.forget(name)

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
            log = self._logs.find(name)
            if log is not None and not log._is_in_place():  # noqa: SLF001 - asked by its manager
                self._logs.forget(name)  # its user keeps it; `close` closes it too
                log = None
            if log is None:
                if not self._directory.exists(name):
                    raise self._unknown(topic_partition, "no such directory")
                # after the look at the directory: topics.json names a topic before that is made
                if topic in self._listing.current().hidden:
                    raise self._unknown(topic_partition, "a topic whose creation is not finished")
                log = self._find_or_open(topic_partition)
            return log

    def _unknown(self, topic_partition: TopicPartition, found: str) -> UnknownTopicOrPartitionError:
        return UnknownTopicOrPartitionError(
            f"no partition {topic_partition} here", file=self.path, found=found
        )

    def _find_or_open(self, topic_partition: TopicPartition) -> UnifiedLog:
        name = directory_name(topic_partition)
        log = self._logs.find(name)
        if log is None:
            log = self._open(topic_partition)
            self._logs.add(name, log)
        return log

    def _open(self, topic_partition: TopicPartition) -> UnifiedLog:
        # a log that only reads refuses what it does not have: whoever asks for one asked to write
        name = directory_name(topic_partition)
        path = os.path.join(self.path, name)  # noqa: PTH118 - the directory's own spelling
        options = self._options._replace(
            config=self._config_of(topic_partition.topic),
            state_dir=self._state_dir_of(topic_partition),
        )
        log_environment = LogEnvironment(
            failures=self._failures,
            checkpoints_above=None if self._owned is None else self._owned.checkpoints,
            on_new_name=self._logs.note_rename,
        )
        if self._owned is None:  # to be read only: nothing is to be ended
            return cast("UnifiedLog", open_partition(path, options, log_environment))
        was_clean = self._owned.was_clean(topic_partition)
        log_environment = log_environment._replace(parent_was_clean=was_clean)
        if self._failures.has_offline_log_dir(self.path):  # to be read, as those that are open
            options = options._replace(read_only=True, remote_offset_reader=None)
            return cast("UnifiedLog", open_partition(path, options, log_environment))
        log_environment = log_environment._replace(parent_is_locked=True)
        with self._failures.guard(self.path):
            log = cast("UnifiedLog", open_partition(path, options, log_environment))
        self._owned.note_opened(topic_partition)
        return log

    def _state_dir_of(self, topic_partition: TopicPartition) -> str | None:
        """Return where a partition keeps its state: each has a directory of its own there."""
        state_dir = self._options.state_dir
        if state_dir is None:
            return None
        return os.path.join(state_dir, directory_name(topic_partition))  # noqa: PTH118 - as above

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
            numbers = listed.topics.get(topic)
            if numbers is None:
                raise UnknownTopicOrPartitionError(
                    f"no topic {topic!r} here: create_topic makes it",
                    file=self.path,
                    found="no such topic",
                )
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
        self._logs.require_none_waits_for_this_thread()
        with self._mutex:  # who opens a log does so first, and nobody does behind it
            pending = self._pending_closes or PendingCloses(self._logs.all_writable())
            self._pending_closes = pending
        self._shutdown.run(lambda: self._close_alone(pending, broker_epoch))

    def _close_alone(self, pending: PendingCloses, broker_epoch: int) -> None:
        if self.closed:  # by the thread that was waited for
            return
        if self._owned is not None:
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
                    self._failures.check(self.path)  # those opened behind it are well
                    self._logs.note_new_names()
                    self._owned.mark_clean(broker_epoch)
        finally:
            self._release()
        pending.raise_errors()

    def _release(self) -> None:
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
