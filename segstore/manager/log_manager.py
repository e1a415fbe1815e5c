"""Many logs in log directories (Kafka ``LogManager``): list, create, open, append by key, close.

The directories are like a broker's ``log.dirs``. An open for writing locks the ``.lock`` of each,
as a broker does [DUR-65]. A clean close leaves the checkpoints and the marker that a broker looks
for. What belongs to one directory is in `LogDirectory`; what runs later is in `maintenance`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from itertools import islice
from operator import is_, methodcaller
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, cast

import segstore._core as _core
from segstore._core import AppendLock
from segstore.arguments import (
    callback,
    flag,
    instance,
    integer,
    partition_numbers,
    path_text,
    refuse_pickle,
)
from segstore.arguments import timestamp as timestamp_of
from segstore.config.directory_config import directory_config
from segstore.errors import (
    AlreadyExistsError,
    ArgumentTypeError,
    ClosedError,
    ForkedHandleError,
    IllegalArgumentError,
    IllegalStateError,
    LogDirectoryOfflineError,
    LogLockedError,
    LogNotFoundError,
    LogReadOnlyError,
    NotALogError,
    RemoteStorageError,
    SegstoreError,
    UnknownTopicOrPartitionError,
)
from segstore.log.files.clean_shutdown_file_handler import NO_BROKER_EPOCH
from segstore.log.files.lock_waiting import waiting_for_lock
from segstore.log.files.partition_directory import directory_name
from segstore.log.files.partition_metadata_file import topic_id_text
from segstore.log.files.profile import Profile
from segstore.log.files.topic_directories import make_log_directory
from segstore.log.files.topic_names import REMOTE_LOG_METADATA_TOPIC
from segstore.log.files.topics_file import UNREADABLE_TOPICS, read_topics_file
from segstore.log.latest_values import LatestValues
from segstore.log.log_dir_failure_channel import LogDirFailureChannel
from segstore.log.open_options import OpenKeywords, open_options, with_settings
from segstore.log.remote_tier import is_remote_log_enabled, may_have_copies
from segstore.log.shutdown import Shutdown, suppress_repeated_error
from segstore.manager.cleaner_config import CleanerConfig
from segstore.manager.directory_metadata import DirectoryMetadata, metadata_log_of
from segstore.manager.directory_metadata_topic import NEVER_CLEANED
from segstore.manager.known_directories import KnownDirectories, is_new
from segstore.manager.log_directory import (
    LogDirectory,
    absolute,
    absolute_paths,
    close_all_logs,
    distinct_paths,
)
from segstore.manager.maintenance_intervals import MaintenanceIntervals
from segstore.manager.maintenance_report import combined_counts, combined_report
from segstore.manager.manager_stats import manager_stats
from segstore.manager.partition_directories import (
    MOST_LOOKS,
    check_no_gap,
    first_missing,
    unopened_directories,
)
from segstore.manager.partition_listing import CombinedListing
from segstore.manager.partition_moves import PartitionMoves
from segstore.manager.pending_closes import raise_of_several
from segstore.manager.placement import Placement
from segstore.manager.shared_topics import SharedTopics
from segstore.manager.throttler import Throttler
from segstore.manager.topic_appends import TopicAppends
from segstore.manager.topic_changes import TopicChanges, checked_count
from segstore.notebook import MOST_LINES, as_html
from segstore.types import Isolation, TopicPartition

if TYPE_CHECKING:
    import os
    import uuid
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from datetime import datetime
    from typing import NoReturn, TypeAlias, Unpack

    from segstore._core import Directory, Record
    from segstore.config.directory_config import DirectoryConfig
    from segstore.config.log_config import LogConfig, LogSettings
    from segstore.log.record_dataset import RecordDataset
    from segstore.log.unified_log import UnifiedLog
    from segstore.manager.log_directory import PathOrPaths
    from segstore.manager.maintenance_report import MaintenanceReport
    from segstore.manager.manager_stats import ManagerStats
    from segstore.manager.partition_listing import Listed
    from segstore.manager.tiered_topics import TieredTopics
    from segstore.manager.topic_description import TopicDescription
    from segstore.records.record_builder import Records
    from segstore.tables.partition_export import ExportReport
    from segstore.tables.topic_scan import (
        Offsets,
        OnDamage,
        Order,
        TopicQuery,
        TopicScan,
        UnorderedQuery,
    )
    from segstore.types import IsolationName, LogAppendInfo

    TopicValue: TypeAlias = str | int | float | bool
    """A setting of a topic; a text is read as Kafka's tools read it."""

_T = TypeVar("_T")
_log = logging.getLogger(__name__)

_KEYS_ARE_SPREAD: Final = (
    "the number of partitions of topic {topic!r} decides where a key belongs, and this log"
    " directory, which may have some of them, is offline. Name the partition"
)
_LATEST_OF_ALL: Final = (
    "the last values are read from all partitions of topic {topic!r}, and {lack}."
    " Read the others with log(topic, partition)"
)
_SCAN_OF_ALL: Final = (
    "all partitions of topic {topic!r} are to be read, and {lack}."
    " To read only those that are here, pass partitions=logs.topics()[{topic!r}]"
)
_EXPORT_OF_ALL: Final = (
    "all partitions of topic {topic!r} are to be exported, and {lack}."
    " To export only those that are here, pass partitions=logs.topics()[{topic!r}]"
)
_ONE_MAY_BE_OFFLINE: Final = "this log directory, which may have some of them, is offline"
_SOME_ARE_MISSING: Final = "some are missing, which may be in other log directories"


def open_dir(  # noqa: PLR0913 - keywords of users
    path: PathOrPaths,
    *,
    read_only: bool = False,
    shared: bool = False,
    background: bool = False,
    metadata_log: str | os.PathLike[str] | None = None,
    remote: str | os.PathLike[str] | None = None,
    remote_settings: Mapping[str, str] | None = None,
    cleaner: CleanerConfig | None = None,
    config: LogConfig | Mapping[str, TopicValue] | None = None,
    **settings: Unpack[OpenKeywords],
) -> LogManager:
    """Open a log directory, which holds ``<topic>-<partition>`` directories; or several.

    Of several, one that cannot be opened is offline, and the others work: see
    `LogManager.offline_directories`.

    Parameters
    ----------
    path : path or sequence of paths
        The log directory, or all of them, like ``log.dirs`` of a broker. One that is missing is
        created, unless *read_only*.
    read_only : bool
        Take no lock and change nothing; works beside a writer.
    shared : bool
        Let other processes that open the directory so write other partitions. A partition is
        locked at its first append, until `LogManager.close_log` or `close`. For one directory, in
        the safe profile. docs/guarantees.md says what a shared directory gives up.
    background : bool
        Let threads do what `LogManager.maintain` does, from 30 seconds after the open until
        `close`.
    metadata_log : path or None
        ``__cluster_metadata-0`` of the directory's broker, or the directory that holds it: that of
        ``metadata.log.dir``, else the first of ``log.dirs``. Topics that it has go by its settings,
        and then by Kafka's defaults. None = the one in *path*, if there is one.
    remote : str, path or None
        Where topics with ``remote.storage.enable=true`` keep their older segments:
        ``s3://bucket/tier``, a URL of another object store, or a folder. `LogManager.maintain`, or
        the background, copies sealed segments there, and deletes what expired. Reads go over both
        parts. For one log directory that is not shared. The topic ``__remote_log_metadata`` of the
        directory says what is there. `open_bucket` reads it without the directory.
    remote_settings : mapping of str to str, or None
        Of the object store, as the keywords of `open_bucket`: ``{"endpoint": "…"}``.
    cleaner : CleanerConfig or None
        How topics with ``cleanup.policy=compact`` are compacted by `LogManager.maintain` and in the
        background: threads, memory, a limit of bytes a second. None = what *config* says.
    config : LogConfig, mapping or None
        What logs go by whose topic was not given a setting; single settings are keywords. A mapping
        has keys of a broker's ``server.properties``: defaults of topics, with or without ``log.``
        before the key, how often what is done, and how logs are compacted, such as
        ``{"log.retention.check.interval.ms": 60_000, "log.cleaner.threads": 2}``.
    **settings
        As for ``segstore.open``, for every log. ``progress`` must not use the manager.
        ``lock_timeout`` is how long the open waits, in seconds, while others have the directory.

    Returns
    -------
    LogManager
        Lists, creates and opens the logs in the directory.

    Raises
    ------
    LogLockedError
        A broker or another manager has the directory open, or another writer one of its logs.
    NotALogError
        *path* is a file, or the directory of one partition. With *read_only*, also a directory that
        holds other files, and none of a log directory.
    LogNotFoundError
        There is no metadata log at *metadata_log*.
    IllegalArgumentError
        Two paths are the same directory [MGR-4]. A value of *config* has another type than its key,
        or is out of range; or it names settings of the cleaner beside *cleaner*.
    InvalidConfigurationError
        A key of *config* is unknown, or none that a log directory goes by.
    SegstoreError
        Another error of the directory; of several, the first one's, when none can be opened.
    """
    return LogManager(
        path,
        read_only=read_only,
        shared=shared,
        background=background,
        metadata_log=metadata_log,
        remote=remote,
        remote_settings=remote_settings,
        cleaner=cleaner,
        config=config,
        **settings,
    )


class LogManager:
    """The logs of one directory, or of several; safe to use from several threads.

    `open_dir` returns one. The first use of a log opens it, and it stays open until `close`. An I/O
    error of one log ends writing in all logs of its directory, and in no other one. All logs, also
    those not open yet, can be read until the manager is closed [LOC-27, DUR-35, DUR-38, MGR-72].
    """

    def __init__(  # noqa: PLR0913 - as `open_dir`
        self,
        path: PathOrPaths,
        *,
        read_only: bool = False,
        shared: bool = False,
        background: bool = False,
        metadata_log: str | os.PathLike[str] | None = None,
        remote: str | os.PathLike[str] | None = None,
        remote_settings: Mapping[str, str] | None = None,
        cleaner: CleanerConfig | None = None,
        config: LogConfig | Mapping[str, TopicValue] | None = None,
        **settings: Unpack[OpenKeywords],
    ) -> None:
        if read_only and background:
            raise IllegalArgumentError(
                "background work needs a directory that is open for writing",
                found="read_only=True, background=True",
                expected="one of them",
            )
        self._read_only = read_only
        self._is_shared = flag("shared", shared)
        given = directory_config(config if isinstance(config, Mapping) else {})
        self._intervals = MaintenanceIntervals.of_broker(given.broker)
        log_config = None if isinstance(config, Mapping) else config
        settings = {**given.defaults, **settings}
        options = open_options(read_only=read_only, config=log_config, **settings)
        self._lock_timeout = options.lock_timeout
        self._options = options._replace(lock_timeout=0.0)  # no log is waited for with the mutex
        self._failures = LogDirFailureChannel()
        self._mutex = AppendLock()  # a handler that comes here in its midst is told
        self._reconfiguring = AppendLock()  # held over the end of passes; the mutex is below it
        self._process_id = _core.process_id()
        self._shutdown = Shutdown(self._ends_with_this_thread)
        self._is_closing = False
        self._combined = CombinedListing()
        self._metadata_log = (
            None if metadata_log is None else path_text("metadata_log", metadata_log)
        )
        paths = distinct_paths(path)
        if shared:
            self._check_may_be_shared(paths)
        self._cleaner_config = _cleaner_config(cleaner, given, len(paths))
        self._throttler = Throttler(self._cleaner_config.max_io_bytes_per_second, time.monotonic_ns)
        if self._options.state_dir is not None:  # one that cannot be made leaves nothing behind
            make_log_directory(self._options.state_dir).close()
        self._paths = paths
        self._directories: list[LogDirectory] = []
        self._offline: dict[str, SegstoreError] = {}
        self._tiered: TieredTopics | None = None
        self._use_remote_storage(remote, remote_settings, given)
        try:
            waiting_for_lock(self._lock_timeout, self._open_directories)
            if not self._directories:
                raise_of_several([*self._offline.values()], "another log directory is offline too")
        except BaseException:
            self._release()
            raise
        self._placement = Placement(self._directories, self._directory_at)
        self._topics = SharedTopics(self._directories, self._offline)
        self._changes = TopicChanges(
            self._directories, self._placement, self._topics, self._numbers_of, self._home_of
        )
        self._moves = PartitionMoves(
            self._directories, self._topics, self._options, self._mutex, self._check_usable
        )
        self._appends = TopicAppends(
            self._mutex,
            self._moves,
            self._check_writable,
            self._listed,
            self._keyed_partitions,
            self._logs_to_write,
        )
        if not read_only:
            self._find_what_is_left()
            if background:
                for directory in self._directories:
                    directory.start()

    def _check_may_be_shared(self, paths: Sequence[str]) -> None:
        """Refuse what other processes do not expect of one that shares a directory."""
        for is_wrong, found, expected in (
            (self._read_only, "shared=True, read_only=True", "one of them"),
            (self._options.profile is Profile.KAFKA, "recovery='kafka'", "recovery='safe'"),
            (len(paths) > 1, f"{len(paths)} log directories", "one log directory"),
        ):
            if is_wrong:
                raise IllegalArgumentError(
                    "shared=True is for one log directory that is open for writing in the safe"
                    " profile",
                    found=found,
                    expected=expected,
                )

    def _use_remote_storage(
        self,
        remote: str | os.PathLike[str] | None,
        settings: Mapping[str, str] | None,
        given: DirectoryConfig,
    ) -> None:
        """Have the remote part of the directory, where a user names one; its notes are there."""
        if remote is None and settings is None:
            return
        if settings is not None and not isinstance(settings, Mapping):
            raise ArgumentTypeError(
                f"remote_settings is of type {type(settings).__name__}",
                found=type(settings).__name__,
                expected="a mapping of str to str",
            )
        place = "" if remote is None else path_text("remote", remote)
        count = len(self._paths)
        for is_wrong, found, expected in (
            (remote is None, "remote_settings=, and no remote=", "remote= too"),
            (remote is not None and not place, "remote='', no place", "a folder or a URL"),
            (self._is_shared, "remote=, shared=True", "one of them"),
            (count > 1, f"remote=, {count} log directories", "one log directory"),
            (self._options.remote_log_reader, "remote=, remote_log_reader=", "one of them"),
        ):
            if is_wrong:
                raise IllegalArgumentError(
                    "remote= is the remote storage of one log directory that no other process"
                    " writes",
                    found=found,
                    expected=expected,
                )
        from segstore.manager.directory_metadata_topic import DirectoryMetadataTopic
        from segstore.manager.tiered_topics import TieredTopics

        topic = DirectoryMetadataTopic(
            self.path,
            lambda: self._listed().topics.get(REMOTE_LOG_METADATA_TOPIC, ()),
            lambda: self._directories[0].settings.partitions_count(REMOTE_LOG_METADATA_TOPIC),
            lambda number: self.log(REMOTE_LOG_METADATA_TOPIC, number),
            None if self._read_only else self._create_metadata_topic,
        )
        self._tiered = TieredTopics(
            place,
            settings or {},
            given.broker.values,
            lambda: self._directories[0].directory,
            topic,
            lambda one: self._directories[0].settings.topic_id_of(one.topic, [one.partition]),
            lambda *one: self._directories[0].settings.may_be_here(*one),  # noqa: PLW0108 - opened below
            lambda *one: self._directories[0].settings.was_deleted(*one),  # noqa: PLW0108 - as above
            read_only=self._read_only,
            kafka_profile=self._options.profile is Profile.KAFKA,
        )
        self._options = self._options._replace(remote_log_reader=self._tiered)

    def _create_metadata_topic(self) -> None:
        """Make the topic that says what is remote; another thread may do so first."""
        self._directories[0].settings.refuse_first_remote_copy()
        with suppress(AlreadyExistsError):
            self._change_topics(
                lambda changes: changes.create(
                    REMOTE_LOG_METADATA_TOPIC, 1, NEVER_CLEANED, {}, None
                )
            )

    def _open_directories(self) -> None:
        """Open all; an empty one only while none is missing that was used with the others.

        Where one is locked, those that were opened are given back.
        """
        self._offline.clear()
        try:
            self._open_known_and_new()
        except LogLockedError:
            while self._directories:
                self._directories.pop().release()
            raise
        if len(self._paths) > 1:  # else the open fails with this error
            for path, error in self._offline.items():
                _log.warning("%s is offline: %s", path, error)
        for path, error in self._known_directories.errors().items():
            self._offline.setdefault(path, error)

    def _open_known_and_new(self) -> None:
        is_safe = self._options.profile is Profile.SAFE
        new = {one for one in self._paths if is_safe and len(self._paths) > 1 and is_new(one)}
        for path in self._paths:
            if path not in new:
                self._open_directory(path)
        self._known_directories = KnownDirectories(self._directories if is_safe else ())
        for path in self._paths:
            if path in new:
                error = self._known_directories.error_of_new(path)
                if error is None:
                    self._open_directory(path)
                else:
                    self._offline[path] = error
        self._directories.sort(key=lambda one: self._paths.index(one.path))

    def _open_directory(self, path: str) -> None:
        """Open one of them; where there are several, one that cannot be opened is offline."""
        try:
            directory = LogDirectory(
                path,
                self._options,
                self._failures,
                self._mutex,
                self.log,
                self._check_usable,
                self._metadata_of,
                self._cleaner_config,
                self._intervals,
                self._throttler,
                is_shared=self._is_shared,
                tiered=self._tiered,
            )
        except LogLockedError:  # another process uses it: the disk has no fault [MGR-6]
            raise
        except SegstoreError as error:
            self._offline[path] = error
        else:
            self._directories.append(directory)

    def _metadata_of(self, directory: Directory) -> DirectoryMetadata:
        def find() -> str | None:
            return metadata_log_of([one.directory for one in self._directories], self._offline)

        return DirectoryMetadata(directory, self._metadata_log, find)

    def _find_what_is_left(self) -> None:
        """Finish or undo what was left of changes of topics, and of deletions."""
        try:
            try:
                with self._keeping_others_from_changes():
                    for directory in self._directories:
                        if not self._is_shared:  # the process does that which maintains the others
                            with directory.guard():
                                directory.deleted.find_left()
                    if self._options.profile is Profile.SAFE and len(self._directories) > 1:
                        self._known_directories.write_down()
                    self._topics.reconcile()
                    if not self._is_shared:  # a move is over two directories
                        self._moves.reconcile()
            except LogLockedError as error:
                _log.warning("what killed processes left of topics is not settled now: %s", error)
            for path in self.unopened_directories():
                _log.warning("%s is not opened: it is a stray, or a move that has not ended", path)
        except BaseException:
            self.close()
            raise

    @property
    def path(self) -> str:
        """The log directory; of several, the first one."""
        return self._paths[0]

    @property
    def paths(self) -> tuple[str, ...]:
        """All log directories, in their configured order, with those that are offline [MGR-10]."""
        return self._paths

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
        """The broker epoch of the last close; None when unknown, or after an unclean close.

        None too where a directory is offline, or two directories disagree [MGR-56].
        """
        if self._offline or self._read_only:
            return None
        epochs = [one.last_broker_epoch for one in self._directories]
        known = [one for one in epochs if one != NO_BROKER_EPOCH] or epochs[:1]
        return known[0] if None not in epochs and len({*known}) == 1 else None

    def offline_directories(self) -> dict[str, SegstoreError]:
        """Return the directories that take no changes, each with its first error [MGR-5, MGR-10].

        One that could not be opened has no logs here. The logs of one that has failed since can
        still be read. To use it again, open the directories again.
        """
        errors = {one.path: one.error for one in self._directories} | self._offline
        return {path: error for path in self._paths if (error := errors[path]) is not None}

    def missing_directories(self) -> dict[uuid.UUID, str]:
        """Return ids of directories that were used with these and are not open, and last paths.

        A disk may not be mounted. Reads and appends to the partitions that are here go on. While
        one is missing, no topic is changed, and an empty directory beside the others is offline. It
        is offline too while ``topics.json`` of another one cannot be read. In Kafka's profile none
        is ever missing. `forget_directory` gives one up. Source: [DUR-124].
        """
        self._check_usable()
        with self._mutex:
            return {**self._known_directories.missing}

    def forget_directory(self, directory_id: uuid.UUID | str) -> None:
        """Go on for good without a log directory that is missing: its records are given up.

        Topics can be changed again, and the next open takes an empty directory for a new one. A
        directory that is back after that joins the others with all partitions that it has.

        Parameters
        ----------
        directory_id : UUID or str
            One of `missing_directories`; a text as in ``meta.properties`` and in the error.

        Raises
        ------
        IllegalArgumentError
            No directory with that id is missing.
        SegstoreError
            It cannot be written down. Call it again: the directory is missing until then.
        """

        def attempt() -> None:
            self._check_writable()
            with self._keeping_others_from_changes():
                missing = self._known_directories.missing
                found = {topic_id_text(one): one for one in missing}
                known = found.get(directory_id) if isinstance(directory_id, str) else directory_id
                if known is None or known not in missing:
                    raise IllegalArgumentError(
                        "no log directory with that id is missing",
                        found=str(directory_id),
                        expected=f"one of {[*found]}",
                    )
                path = missing[known]
                self._known_directories.forget(known)
                for name in {path, topic_id_text(known)}.difference(self._paths):
                    self._offline.pop(name, None)

        waiting_for_lock(self._lock_timeout, attempt)

    # ---- directories -----------------------------------------------------------------------------

    def cordon(self, directories: PathOrPaths) -> None:
        """Place no new partition in these directories, and again in all others [MGR-78].

        A directory that ``directories=`` of `create_topic` names gets partitions all the same. One
        that is offline gets none anyway. If no directory is left, the first one that is not offline
        gets partitions all the same, as in Kafka.

        Parameters
        ----------
        directories : path or sequence of paths
            Some of `paths`; an empty sequence takes all cordons back.

        Raises
        ------
        ArgumentTypeError
            It is neither a path nor a sequence of paths.
        IllegalArgumentError
            The manager was not opened with one of them.
        """
        self._check_writable()
        with self._mutex:
            paths = absolute_paths("directories", directories)
            works = (self._directory_at(one) for one in paths if one not in self._offline)
            self._placement.cordoned = frozenset(works)

    def _directory_at(self, path: str | os.PathLike[str]) -> LogDirectory:
        """Return the directory that a user names.

        Raises
        ------
        IllegalArgumentError
            The manager was not opened with it [MGR-11].
        LogDirectoryOfflineError
            It could not be opened.
        """
        full_path = absolute(path_text("directories", path))
        for one in self._directories:
            if one.path == full_path:
                return one
        if full_path in self._offline:
            raise LogDirectoryOfflineError(
                "the log directory is offline", file=full_path
            ) from self._offline[full_path]
        raise IllegalArgumentError(
            "the manager was opened without this log directory",
            found=full_path,
            expected=f"one of {[*self._paths]}",
        )

    def _listed(self) -> Listed:
        directories = self._directories
        if len(directories) == 1:
            return directories[0].listed()
        parts = [one.listed_if_it_works() for one in directories]
        for _ in range(MOST_LOOKS):
            if self._combined.is_of(parts):
                break
            # a partition that moves between two looks is seen in none of the directories
            before, parts = parts, [one.listed_if_it_works() for one in directories]
            if all(map(is_, before, parts)):
                break
        return self._combined.of(parts)

    def _numbers_of(
        self,
        topic: str,
        advice: str = ": create_topic, or `segstore topics create`, makes it",
    ) -> Sequence[int]:
        numbers = self._listed().topics.get(topic)
        if numbers is None:
            raise self._unknown(f"no topic {topic!r} here{advice}", "no such topic")
        return numbers

    # ---- topics ----------------------------------------------------------------------------------

    def topics(self) -> dict[str, list[int]]:
        """Return the partitions of each topic as of now, sorted; internal topics too.

        But for ``__remote_log_metadata``, in which the directory notes what is in remote storage.
        """
        self._check_usable()
        topics = self._listed().topics.items()
        return {name: [*numbers] for name, numbers in topics if name != REMOTE_LOG_METADATA_TOPIC}

    def partitions(self) -> list[TopicPartition]:
        """Return the partitions of all `topics` as of now, sorted."""
        self._check_usable()
        listed = self._listed().partitions
        return [one for one in listed if one.topic != REMOTE_LOG_METADATA_TOPIC]

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        *,
        config: Mapping[str, TopicValue] | None = None,
        directories: Mapping[int, str | os.PathLike[str]] | None = None,
        progress: Callable[[int, int], None] | None = None,
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
        directories : mapping of int to path, or None
            The log directory of some partitions. The others go where the fewest logs are
            [MGR-77, MGR-78].
        progress : callable or None
            Called with how many partitions are made and how many there are to be, after each 256.
            What it raises undoes the creation. It must not use the manager.

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
        LogDirectoryOfflineError
            One of several log directories could not be opened: the topic may be there.
        IllegalStateError
            It is ``__remote_log_metadata``, and topics are tiered: the first copy makes it.
        """
        self._refuse_change_of_notes(name)
        return self._change_topics(
            lambda changes: changes.create(name, partitions, config, directories or {}, progress)
        )

    def alter_topic(
        self,
        name: str,
        config: Mapping[str, TopicValue | None] | None = None,
        *,
        partitions: int | None = None,
        directories: Mapping[int, str | os.PathLike[str]] | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> TopicDescription:
        """Give a topic other settings or more partitions, durably: all of it, or nothing.

        Logs that are open go by the settings at once. A lowered limit deletes in the next pass of
        `maintain`; with ``background=True`` a thread begins that pass now. With more partitions,
        keys belong to other partitions than before.

        Parameters
        ----------
        name : str
            A topic of the directory, made by whomever.
        config : mapping or None
            Settings in Kafka's keys; None takes one back. Others stay as they are.
        partitions : int or None
            How many there are to be; at least as many as there are.
        directories : mapping of int to path, or None
            The log directory of some of the new partitions, as for `create_topic`.
        progress : callable or None
            Gets the new partitions that are made, as for `create_topic`.

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
            A partition below the last is missing, so none can be added. Or a new one was here
            before, and its records are in remote storage. Or the topic is
            ``__remote_log_metadata``, and topics are tiered.
        CorruptCheckpointError, UnsupportedFormatError
            ``topics.json`` is damaged, or of a later version; nothing changed.
        RemoteStorageError
            Remote storage has not deleted what these settings end, or what earlier ones have ended;
            a note says which settings the topic has. It is tiered again only without old copies.
        SegstoreError
            An open log cannot take the settings; a note says that the topic has them.
        """
        self._refuse_change_of_notes(name)
        # old copies would pass for those of records that are written at the same offsets next
        if config and "remote.storage.enable" in config:
            self._delete_disabled(name, f"topic {name!r} is as before")
        if partitions is not None:
            self._refuse_lost(name, checked_count(partitions))
        self._change_topics(
            lambda changes: changes.alter(name, config, partitions, directories or {}, progress)
        )
        if self._may_be_remote(TopicPartition(name, 0)):
            self._delete_disabled(name, f"topic {name!r} has the settings")
        return self.describe_topic(name)

    def _refuse_lost(self, name: str, count: int) -> None:
        """Raise where remote storage has one of *count* partitions that is not here any more."""
        tiered = self._tiered
        if tiered is not None and self._may_be_remote(TopicPartition(name, 0)):
            self._change_topics(lambda changes: changes.refuse_topic_of_broker(name))
            tiered.begin_deletions(name)
            tiered.refuse_lost(name, self._numbers_of(name), count)

    def _delete_disabled(self, name: str, what_happened: str) -> None:
        """Delete the remote parts of a topic that its settings have ended [TIER-90, CFG-46]."""
        tiered = self._tiered
        if tiered is None:
            return
        for number in self._numbers_of(name):
            log = self.log(name, number)
            if not log.remote_log_enabled:
                with _telling_what_follows(what_happened):
                    tiered.delete_disabled(log)

    def reconfigure_default_log_config(
        self, config: LogConfig | None = None, **settings: Unpack[LogSettings]
    ) -> None:
        """Use other settings where a topic was given none, until `close`.

        They take the place of all settings that `open_dir` got; what a topic was given stays. Open
        logs go by them at once, and the next pass of `maintain` looks for segments to delete.

        Parameters
        ----------
        config : LogConfig or None
            As for `open_dir`.
        **settings
            Single settings, as for `open_dir`.

        Raises
        ------
        IllegalArgumentError
            A setting is unknown, or out of range; nothing changed.
        RemoteStorageError
            Topics are to be tiered again, and what was remote of them is not deleted yet; nothing
            changed.
        SegstoreError
            An open log cannot take the settings; a note says that its topic has them.

        Source: [MGR-97]; Kafka ``LogManager.reconfigureDefaultLogConfig``.
        """
        self._check_writable()
        if with_settings(self._options, config, settings).config.remote_storage_enable:
            for topic in self._listed().topics:
                if self._is_disabled(topic):
                    self._delete_disabled(topic, "nothing changed")
        with self._mutex:
            self._check_usable()  # while we waited
            options = with_settings(self._options, config, settings)
            for directory in self._directories:
                directory.use_options(options)
            errors: list[Exception] = []
            for topic in self._listed().topics:
                try:
                    self._changes.update_open_logs(topic)
                except SegstoreError as error:
                    errors.append(error)
            for directory in self._directories:
                directory.ask_for_retention()
            raise_of_several(errors, "another topic's log cannot take the settings")

    def reconfigure_cleaner(self, cleaner: CleanerConfig) -> None:
        """Compact in another way, until `close`.

        Another limit of bytes counts at once, also for passes that run. With other threads or
        memory those end at their next piece, and the call waits for a thread that goes. A pass
        begins at once then: in threads, or in the next call of `maintain`.

        Parameters
        ----------
        cleaner : CleanerConfig
            As for `open_dir`. It takes the place of all that `open_dir` got.

        Raises
        ------
        IllegalArgumentError
            There are less than half of the threads, or more than double. Or ``enable`` changes. Or
            a thread has no room for two keys. Nothing changed.

        Source: [CLN-8]; Kafka ``LogCleaner.reconfigure``.
        """
        self._check_writable()
        with self._reconfiguring:
            self._check_usable()  # while we waited
            config = _cleaner_of_each(cleaner, len(self._paths))
            for directory in self._directories:
                directory.validate_cleaner_config(config)
            self._throttler.update_desired_rate(config.max_io_bytes_per_second)
            for directory in self._directories:
                directory.use_cleaner_config(config)

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
        self._refuse_change_of_notes(name)
        with self._deleting_remote_parts(name):
            self._change_topics(lambda changes: changes.delete(name))

    def delete_partition(self, topic: str, partition: int) -> None:
        """Delete one partition with its records, as a broker does when the partition moves away.

        The others stay, and so do the settings. `append` by key needs all partitions of a topic.

        Raises
        ------
        UnknownTopicOrPartitionError
            There is no such partition.
        IllegalStateError
            Several log directories have it: `set_aside_partition` takes one of them out of use.
        CorruptCheckpointError, UnsupportedFormatError
            ``topics.json`` is damaged, or of a later version; nothing was deleted.

        Source: [MGR-63]; Kafka ``LogManager.asyncDelete``.
        """
        partition = integer("partition", partition)
        self._refuse_change_of_notes(topic)
        with self._deleting_remote_parts(topic, partition):
            self._change_topics(lambda changes: changes.delete_partition(topic, partition))

    @contextmanager
    def _deleting_remote_parts(self, topic: str, partition: int | None = None) -> Iterator[None]:
        """Delete what is in remote storage with the partitions that the block deletes [TIER-90]."""
        self._check_writable()
        tiered = self._tiered
        numbers = self._listed().topics.get(topic, ())
        if tiered is None:
            self._refuse_to_forget(topic, numbers)
            yield
            return
        chosen = [
            TopicPartition(topic, one)
            for one in numbers
            if partition in {None, one} and self._may_be_remote(TopicPartition(topic, one))
        ]
        if not chosen:  # what the directory has noted is not asked for
            yield
            return
        self._change_topics(lambda changes: changes.check_deletable(topic, partition))
        count = self._directories[0].settings.partitions_count(topic) if partition is None else 0
        try:
            with tiered.deleting(topic, [one.partition for one in chosen], count):
                yield
        except Exception:
            with suppress(SegstoreError, OSError):  # the next pass tries again
                tiered.withdraw_marks(self._listed().partitions)
            raise
        with _telling_what_follows(f"what was asked for is deleted of {topic!r} here"):
            tiered.finish_deletions(topic)

    def _refuse_change_of_notes(self, topic: str) -> None:
        """Raise where a topic says what is in remote storage: without it nothing there is found.

        Before it says anything, and before there are tiered topics, it is one like others.
        """
        if topic != REMOTE_LOG_METADATA_TOPIC:
            return
        self._check_writable()
        topics = self._listed().topics
        numbers = topics.get(topic, ())
        tiered = (
            name
            for name, its_numbers in topics.items()
            if self._may_be_remote(TopicPartition(name, its_numbers[0]))
        )
        if any(self.log(topic, one).log_end_offset for one in numbers) or any(tiered):
            raise IllegalStateError(
                f"{topic} holds what of this log directory is in remote storage: only segstore"
                " writes, alters and deletes it",
                file=self.path,
                found="its records, or tiered topics",
                expected="another topic; or a change before the first topic is tiered",
            )

    def _may_be_remote(self, topic_partition: TopicPartition) -> bool:
        """Whether a partition has a remote part, or had one that is perhaps not deleted yet."""
        configs = [one.settings.config_of(topic_partition) for one in self._directories]
        return any(may_have_copies(config, topic_partition.topic) for config in configs)

    def _is_disabled(self, topic: str) -> bool:
        """Whether the settings of a topic have ended its remote part, which is to be deleted."""
        config = self._directories[0].settings.config_of(TopicPartition(topic, 0))
        is_tiered = is_remote_log_enabled(config, topic, system_enabled=True)
        return config.remote_log_delete_on_disable and not is_tiered

    def _refuse_to_forget(self, topic: str, numbers: Sequence[int]) -> None:
        """Raise where records of a topic are in remote storage: nothing would delete them."""
        for one in self._directories:
            for number in numbers:
                config = one.settings.config_of(TopicPartition(topic, number))
                if is_remote_log_enabled(config, topic, system_enabled=True):
                    raise IllegalStateError(
                        f"topic {topic!r} has remote.storage.enable=true, and the log directory was"
                        " opened without remote=: its records in remote storage would be left"
                        " there",
                        file=one.path,
                        found="no remote=",
                        expected="open_dir(…, remote=…)",
                    )

    def set_aside_partition(
        self, topic: str, partition: int, directory: str | os.PathLike[str] | None = None
    ) -> str:
        """Give a partition's directory a name that ends in ``-stray``, and return its path.

        The records stay there. Nothing opens or removes such a directory, and the partition is no
        more listed. So one of two directories of a partition is taken out of use.

        Parameters
        ----------
        topic : str
            The topic.
        partition : int
            Its number.
        directory : path or None
            The log directory; needed where several have the partition.

        Raises
        ------
        UnknownTopicOrPartitionError
            There is no such partition.
        IllegalStateError
            Several log directories have it, and none is named.

        Source: [MGR-21, MGR-63]; Kafka ``LogManager.asyncDelete`` of a stray log.
        """
        topic_partition = TopicPartition(topic, integer("partition", partition))
        directory_name(topic_partition)  # checks both

        def attempt() -> str:
            self._check_writable()
            with self._keeping_others_from_changes():
                home = self._home_of(topic_partition) if directory is None else None
                home = home or self._directory_at(cast("str", directory))
                if not home.holds(topic_partition):
                    raise self._unknown(f"no partition {topic_partition} here", "no such directory")
                home.check_writable()
                with home.guard():
                    return f"{home.path}/{home.registry.set_aside(topic_partition)}"

        return waiting_for_lock(self._lock_timeout, attempt)

    def move_partition(
        self,
        topic: str,
        partition: int,
        directory: str | os.PathLike[str],
        *,
        progress: Callable[[int, int], None] | None = None,
    ) -> str:
        """Move a partition to another log directory, while others read and append; return its path.

        The records are copied first. Then the log is closed, the rest is copied, and the partition
        is in the other directory: it is in one of them at any time, also after a crash. Appends
        through the manager wait for that moment; one that it has interrupted goes before the next
        move. A handle that `log` has returned is closed by it, and `log` returns another one. The
        old directory is deleted as by `delete_partition`. `close` ends a move: it is undone, unless
        its last step has begun.

        Parameters
        ----------
        topic : str
            The topic.
        partition : int
            Its number.
        directory : path
            A log directory of this manager.
        progress : callable or None
            Called with the bytes that are copied and the bytes of the log: about once for 4 MiB
            while others append, and when the partition has moved. No lock is held. What it raises
            comes out of this call, and undoes the move but for the last call. It must not call
            `close`, nor wait for a thread that does.

        Raises
        ------
        UnknownTopicOrPartitionError
            There is no such partition.
        IllegalArgumentError
            The manager was opened without the directory, or with ``state_dir``.
        IllegalStateError
            The partition lies there, is being moved, or was closed or deleted meanwhile. Or the
            directory has a copy of it, from a log directory that is not open.
        ClosedError
            The manager was closed meanwhile: the partition is where it was.
        SegstoreError
            It cannot be copied. The partition is where it was, or a note says what follows.

        Source: [MGR-79, MGR-90, MGR-91, DUR-127]; Kafka ``LogManager.replaceCurrentWithFutureLog``.
        """
        topic_partition = TopicPartition(topic, integer("partition", partition))
        name = directory_name(topic_partition)
        self._check_writable()
        if self._options.state_dir is not None:
            raise IllegalArgumentError(
                "a partition whose state lies elsewhere cannot be moved",
                found=f"state_dir={self._options.state_dir}",
                expected="no state_dir",
            )
        target = self._directory_at(directory)
        self._moves.move(
            topic_partition, lambda: self._live_home_of(topic_partition), target, progress
        )
        return f"{target.path}/{name}"

    def unopened_directories(self) -> list[str]:
        """Return the paths of directories with a log that nothing here opens or removes [DUR-122].

        A broker, or `set_aside_partition`, gives names that end in ``-stray``. A log that is being
        moved, here or by a broker, has a copy whose name ends in ``-future``.
        """
        self._check_usable()
        return [
            f"{one.path}/{name}"
            for one in self._directories
            if one.error is None
            for name in unopened_directories(one.directory)
        ]

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
        for _ in range(MOST_LOOKS):
            numbers = self._numbers_of(name)
            for one in self._directories:  # it may be deleted, or moved, since that look
                if name in one.listed_if_it_works().topics:
                    return one.settings.describe(name, numbers)
        raise self._unknown(f"topic {name!r} is being deleted or moved", "no such topic")

    def stray_partitions(self) -> dict[TopicPartition, str]:
        """Return the partitions that the directories' broker takes for stray, and each reason.

        The metadata log says which: a topic was deleted, or a replica moved. A broker that starts
        renames their directories; segstore leaves them. Without a metadata log there are none.

        Raises
        ------
        CorruptLogError, CorruptCheckpointError, UnsupportedFormatError
            The metadata log cannot be read.

        Source: [MGR-26].
        """
        self._check_usable()
        live = [one for one in self._directories if one.error is None]
        return {key: reason for one in live for key, reason in one.settings.strays().items()}

    def _change_topics(self, change: Callable[[TopicChanges], _T]) -> _T:
        """Change topics; of a shared directory, wait for those that write the partitions."""

        def attempt() -> _T:
            self._check_writable()
            with self._keeping_others_from_changes():
                self._topics.check_complete()
                return change(self._changes)

        return waiting_for_lock(self._lock_timeout, attempt)

    @contextmanager
    def _keeping_others_from_changes(self) -> Iterator[None]:
        """Hold the mutex, and what keeps other processes from changing topics meanwhile."""
        with ExitStack() as stack:
            directories = [
                one
                for one in self._directories
                if stack.enter_context(one.keeping_others_from_changes())
            ]
            stack.enter_context(self._mutex)
            self._check_usable()  # while we waited
            for one in directories:
                stack.enter_context(one.seeing_changes_of_others())
            yield

    # ---- logs ------------------------------------------------------------------------------------

    def log(self, topic: str, partition: int) -> UnifiedLog:
        """Return the log of a partition; the first call opens it, and the manager closes it.

        With *read_only*, it is another log after the directory was removed and created again. The
        manager then drops what it has open of partitions that are not there any more, at the next
        call: a log that is still used can be read until `close`.

        Raises
        ------
        UnknownTopicOrPartitionError
            The partition does not exist.
        """
        self._check_usable()
        topic_partition = TopicPartition(topic, integer("partition", partition))
        directory_name(topic_partition)  # checks both
        with self._mutex:
            self._check_usable()  # while we waited
            if self._read_only or self._is_shared:
                for directory in self._directories:
                    directory.forget_gone()
            log = self._find_open(topic_partition)
            if log is not None:
                return log
            try:
                return self._open_log(topic_partition)
            except UnknownTopicOrPartitionError:
                if len(self._directories) == 1:
                    raise
            return self._open_log(topic_partition)  # it may have moved between two looks

    def log_to_write(self, topic: str, partition: int) -> UnifiedLog:
        """Return the log of a partition, open for writing; `log`, unless the directory is shared.

        Raises
        ------
        UnknownTopicOrPartitionError
            The partition does not exist.
        LogLockedError
            Another process writes the partition, and did not let go of it within ``lock_timeout``.
        LogReadOnlyError
            The directory was opened read-only.
        """
        self._check_writable()
        return self._logs_to_write(topic, [integer("partition", partition)])[0]

    def _logs_to_write(self, topic: str, partitions: Sequence[int]) -> list[UnifiedLog]:
        """Return the logs of partitions, open for writing.

        Where another process writes one of them, those that were opened for this call are closed
        before it waits or raises: two processes never wait for each other here [DUR-65].
        """
        if not self._is_shared:
            return [self.log(topic, partition) for partition in partitions]
        wanted = [TopicPartition(topic, partition) for partition in partitions]
        for topic_partition in wanted:
            directory_name(topic_partition)  # checks both

        in_turn = [*wanted]

        def attempt() -> list[UnifiedLog]:
            with self._mutex, ExitStack() as opened:
                self._check_usable()  # while we waited
                logs = {}
                for topic_partition in in_turn:
                    directory = self._live_home_of(topic_partition)
                    opened.callback(directory.undoing_open(topic_partition))
                    try:
                        logs[topic_partition] = self._open_log(topic_partition, to_write=True)
                    except LogLockedError:
                        # the next try begins with it: no writer of the others meets us meanwhile
                        in_turn.sort(key=topic_partition.__ne__)
                        raise
                opened.pop_all()
                return [logs[topic_partition] for topic_partition in wanted]

        return waiting_for_lock(self._lock_timeout, attempt)

    def close_log(self, topic: str, partition: int) -> None:
        """Close the log of a partition, if it is open; its next use opens it again.

        Of a shared directory, another process may write the partition then.

        Raises
        ------
        SegstoreError
            What `UnifiedLog.close` raises.
        """
        topic_partition = TopicPartition(topic, integer("partition", partition))
        directory_name(topic_partition)  # checks both
        self._check_usable()
        with self._mutex:
            self._check_usable()  # while we waited
            for one in self._directories:
                one.close_log(topic_partition)

    def log_end_offsets(self, topic: str) -> dict[int, int]:
        """Return the ``log_end_offset`` of each partition of a topic; few logs are opened for it.

        An open log answers itself; one that is open to be read looks for new records first. A log
        that is not open, and that nothing has changed since its clean close, ends where the close
        says: that takes a look at its files and its last batch. Any other log is opened, as by
        `log`, and stays open.

        Parameters
        ----------
        topic : str
            An existing topic.

        Returns
        -------
        dict of int to int
            By the number of the partition, ascending: the offset that its next record gets. Each is
            of another moment when others append. A partition without records has its log start.

        Raises
        ------
        UnknownTopicOrPartitionError
            The topic does not exist, or was deleted meanwhile.
        SegstoreError
            What `log` raises for a partition, such as `CorruptLogError`, or for a reader `refresh`.

        Source: [DUR-24, DUR-51]; Kafka ``Consumer.endOffsets``, which bounds by isolation level.
        """
        self._check_usable()
        return {number: self._log_end_offset(topic, number) for number in self._numbers_of(topic)}

    def latest(self, topic: str, *, columns: Sequence[str] | None = None) -> LatestValues:
        """Return the last committed value of each key of a topic, to be read lazily as Arrow.

        It does not matter whether the cleaner has run. A key whose last record is a tombstone has
        no row; records without a key have none either. Aborted and open transactions are left out,
        as by ``read_committed``. Each partition answers for itself: a key that lies in two of them,
        because partitions were added, has a row of each. Records appended later are not in it.

        The logs are read twice. Of one partition at a time there is a map in memory, of 30 to 38
        bytes for each key, tombstones too. Keys are compared by a hash of 128 bits with a secret.

        Parameters
        ----------
        topic : str
            An existing topic.
        columns : sequence of str or None
            Some of key, value, topic, partition, offset, timestamp, timestampType, headers,
            leaderEpoch. Default: all but the last.

        Returns
        -------
        LatestValues
            ``polars.DataFrame(logs.latest("users"))`` reads it; so does `append` to another topic.

        Raises
        ------
        UnknownTopicOrPartitionError
            The topic does not exist.
        LogDirectoryOfflineError
            One of several log directories is offline, and may have partitions of the topic.
        IllegalStateError
            Partitions of the topic are missing.
        OffsetOutOfRangeError
            What a log begins with is in remote storage alone.
        IllegalArgumentError
            There is no such column.
        SegstoreError
            What `log` raises for a partition, or a read of its transactions.

        Source: [CLN-84, DUR-126]: what Kafka's cleaner would leave, without tombstones.
        """
        logs = self._logs_of(topic, None, _LATEST_OF_ALL)
        latest = [log._latest(columns) for log in logs.values()]  # noqa: SLF001 - asked by its manager
        return LatestValues(topic, latest)

    # ---- a topic as a table ----------------------------------------------------------------------

    def scan(  # noqa: PLR0913 - the parts of a query
        self,
        topic: str,
        *,
        columns: Sequence[str] | None = None,
        start_offset: Offsets | None = None,
        end_offset: Offsets | None = None,
        start_timestamp: int | datetime | None = None,
        end_timestamp: int | datetime | None = None,
        partitions: Iterable[int] | None = None,
        isolation: Isolation | IsolationName = Isolation.LOG_END,
        order: Order = "partition",
        on_damage: OnDamage = "raise",
    ) -> TopicScan:
        """Return the records of a topic, or of a range of each partition, to be read lazily.

        Parameters
        ----------
        topic : str
            An existing topic.
        columns : sequence of str or None
            For Arrow, some of key, value, topic, partition, offset, timestamp, timestampType,
            headers, leaderEpoch. Default: all but the last.
        start_offset, end_offset : int, mapping of int to int, or None
            First offset, and one more than the last. An int is for all partitions: of each it
            selects what that has of the range. A mapping has offsets by partition, which must be in
            their logs, as in `Log.scan`. It need not name all: the others have no such bound.
        start_timestamp, end_timestamp : int, datetime or None
            As in `Log.scan`: only records with ``start <= timestamp < end``.
        partitions : iterable of int or None
            Which ones to read. Default: all of the topic.
        isolation : Isolation or str
            Where visible data ends; ``read_committed`` leaves out aborted transactions.
        order : str
            ``partition``: partition after partition, each in the order of its offsets.
            ``timestamp``: the partitions merged by the timestamps of their next records, as they
            come; those of the same time by partition. Records of a partition keep their order, so
            the result is sorted only where each partition is: producers set timestamps. One chunk
            of each partition is in memory. The Arrow methods need pyarrow for it.
        on_damage : str
            As in `Log.scan`. With ``raise``, the scan of a log that ends before what it is known to
            have held ends with that error too. With ``skip``, `TopicScan.skipped` lists what was
            left out; `to_arrow`, `to_pandas` and `count` warn of it.

        Returns
        -------
        TopicScan
            Up to the ends of the partitions as of now.

        Raises
        ------
        UnknownTopicOrPartitionError
            The topic or a partition does not exist.
        IllegalArgumentError
            A reversed range, an unknown column, or offsets of a partition that is not read.
        OffsetOutOfRangeError
            A start by partition is below the log start or above the log end.
        IllegalStateError, LogDirectoryOfflineError
            Without *partitions*: some of the topic are missing, or may be in a directory that is
            offline.
        SegstoreError
            What `log` raises for a partition, or a read of its transactions.
        """
        from segstore.tables.topic_scan import scan_logs

        return scan_logs(
            topic,
            self._logs_of(topic, partitions, _SCAN_OF_ALL),
            columns=columns,
            start_offset=start_offset,
            end_offset=end_offset,
            start_timestamp=start_timestamp,
            end_timestamp=end_timestamp,
            isolation=isolation,
            order=order,
            on_damage=on_damage,
        )

    def dataset(self, topic: str, **query: Unpack[UnorderedQuery]) -> RecordDataset:
        """Return a topic as a dataset of pyarrow, of which an engine reads what a query needs.

        With ``orders = logs.dataset("orders")``, ``duckdb.sql("select … from orders")`` reads it,
        and so do ``polars.scan_pyarrow_dataset`` and the methods of pyarrow's datasets. Nothing is
        read before. Each query sees the topic as it is when the query begins.

        Parameters
        ----------
        topic : str
            An existing topic.
        **query
            As for `scan`: columns, bounds, partitions, isolation, on_damage. There is no order.

        Raises
        ------
        UnknownTopicOrPartitionError
            The topic does not exist.
        IllegalArgumentError
            As in `scan`.
        ImportError
            When pyarrow is not installed.
        """
        from segstore.tables.topic_scan import checked_query, dataset_of

        self._check_usable()
        numbers = self._numbers_of(topic)
        if query.get("partitions") is not None:
            query["partitions"] = numbers = partition_numbers(query["partitions"])
        checked = checked_query(numbers, **query)
        return dataset_of(checked["columns"], lambda: self.scan(topic, **checked))

    def to_arrow(self, topic: str, **query: Unpack[TopicQuery]) -> Any:
        """Return the records of a topic as a ``pyarrow.Table``, with the parameters of `scan`."""
        from segstore.tables.topic_scan import TopicScan, read_whole

        return read_whole(self.scan(topic, **query), TopicScan.to_arrow)

    def to_pandas(self, topic: str, **query: Unpack[TopicQuery]) -> Any:
        """Return the records of a topic as a ``pandas.DataFrame``, with the parameters of `scan`.

        Needs pyarrow and pandas.
        """
        from segstore.tables.topic_scan import TopicScan, read_whole

        return read_whole(self.scan(topic, **query), TopicScan.to_pandas)

    def count(self, topic: str, *, by_headers: bool = False, **query: Unpack[TopicQuery]) -> int:
        """Return the number of records of a topic, with the parameters of `scan`.

        Parameters
        ----------
        by_headers : bool
            True: trust the batch headers, as in `LogScan.count`.
        """
        from segstore.tables.topic_scan import read_whole

        counted: int = read_whole(
            self.scan(topic, **query), methodcaller("count", by_headers=by_headers)
        )
        return counted

    def export_parquet(  # noqa: PLR0913 - keywords of users
        self,
        topic: str,
        folder: str | os.PathLike[str],
        *,
        partitions: Iterable[int] | None = None,
        isolation: Isolation | IsolationName = Isolation.LOG_END,
        compression: str = "zstd",
        verify: bool = False,
        bytes_of_a_file: int | None = None,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> list[ExportReport]:
        """Write the records of a topic to Parquet files, one for each partition.

        The files are those of `segstore.export_parquet`, and `segstore.import_parquet` restores the
        logs from the folder. A file is named ``<topic>-<partition>-<from>-<until>.parquet``. A
        second call writes the offsets that no file of the folder has: partitions that an
        interrupted call left, and records that were appended since.

        Parameters
        ----------
        topic : str
            An existing topic.
        folder : path
            Created if missing; exports of other topics may be in it.
        partitions : iterable of int or None
            Which ones to export. Default: all of the topic.
        bytes_of_a_file : int or None
            Begin another file after so many bytes of stored batches. None = one a partition.
        isolation, compression, verify, progress
            As in `segstore.export_parquet`.

        Returns
        -------
        list of ExportReport
            One for each file that was written.

        Raises
        ------
        IllegalArgumentError
            The folder is a file, or has an export with another isolation, or of another log.
        InconsistentTopicIdError
            The folder has records of a topic that was deleted and made again.
        SegstoreError
            What `scan` and `segstore.export_parquet` raise. Files that are whole stay.
        """
        from segstore.tables.parquet_transfer import export_logs

        return export_logs(
            topic,
            self._logs_of(topic, partitions, _EXPORT_OF_ALL),
            folder,
            isolation=isolation,
            compression=compression,
            verify=verify,
            bytes_of_a_file=bytes_of_a_file,
            progress=progress,
        )

    def tail(  # noqa: PLR0913 - as `Log.tail`, for several partitions
        self,
        topic: str,
        offset: Offsets | None = None,
        *,
        partitions: Iterable[int] | None = None,
        timeout: float | None = None,
        poll_interval: float = 0.05,
        isolation: Isolation | IsolationName = Isolation.LOG_END,
    ) -> Iterator[Record]:
        """Yield records of all partitions and wait for more; also while another process writes.

        Records of a partition come in the order of their offsets. Of several that have some, each
        has its turn. A partition that is added later is read from its start. One that moves to
        another log directory is followed there.

        Parameters
        ----------
        topic : str
            An existing topic.
        offset : int, mapping of int to int, or None
            Where to begin, as *start_offset* of `scan`; a partition that a mapping does not name
            begins at its log end. None = at all log ends: only new records.
        partitions : iterable of int or None
            Which ones to follow. Default: all of the topic.
        timeout : float or None
            Seconds without a new record in any of them after which the iterator ends; None = never.
        poll_interval : float
            Seconds between two checks for new records.
        isolation : Isolation or str
            As in `scan`; ``read_committed`` waits until a transaction ends.

        Raises
        ------
        UnknownTopicOrPartitionError
            The topic or a partition does not exist, or was deleted.
        SegstoreError
            What `Log.tail` raises for a partition.
        """
        from segstore.tables.topic_tail import follow_logs

        chosen = None if partitions is None else partition_numbers(partitions)
        return follow_logs(
            self._logs_of(topic, chosen, _SCAN_OF_ALL),
            offset,
            lambda: self._numbers_of(topic) if chosen is None else chosen,
            lambda number: self.log(topic, number),
            timeout=timeout,
            poll_interval=poll_interval,
            isolation=isolation,
        )

    def _logs_of(
        self, topic: str, partitions: Iterable[int] | None, why_all: str
    ) -> dict[int, UnifiedLog]:
        """Return the logs of a topic by partition, ascending, as they are now.

        Parameters
        ----------
        why_all : str
            The error where all are asked for and some are not here.
        """
        self._check_usable()
        numbers = self._numbers_of(topic)
        if partitions is None:
            self._check_all_are_here(topic, numbers, why_all)
        else:
            numbers = partition_numbers(partitions)
        logs = {number: self.log(topic, number) for number in numbers}
        for log in logs.values():
            if log.read_only:
                log.refresh()
        return logs

    def _log_end_offset(self, topic: str, partition: int) -> int:
        topic_partition = TopicPartition(topic, partition)
        with self._mutex:
            self._check_usable()  # while we waited
            if self._find_open(topic_partition) is None:
                with suppress(UnknownTopicOrPartitionError):  # `log` looks again
                    logs = self._live_home_of(topic_partition).logs
                    end = logs.closed_log_end(topic_partition)
                    if end is not None:
                        return end
        log = self.log(topic, partition)
        return log.refresh() if log.read_only else log.log_end_offset

    def _find_open(self, topic_partition: TopicPartition) -> UnifiedLog | None:
        for directory in self._directories:
            log = directory.find_open(topic_partition)
            if log is not None:
                return log
        return None

    def _open_log(self, topic_partition: TopicPartition, *, to_write: bool = False) -> UnifiedLog:
        directory = self._live_home_of(topic_partition)
        try:
            if to_write:
                return directory.open_to_write(topic_partition)
            return directory.logs_to_read.find_or_open(topic_partition)
        except (LogNotFoundError, NotALogError) as error:
            if topic_partition in directory.listed_if_it_works().partitions:
                raise
            found = "a directory that was removed meanwhile"
            raise self._unknown(f"no partition {topic_partition} here", found) from error

    def _live_home_of(self, topic_partition: TopicPartition) -> LogDirectory:
        directory = self._home_of(topic_partition)
        # after the look at the directory: topics.json names a topic before that is made
        if self._listed().unfinished.hides(topic_partition):
            found = "one whose creation or deletion is not finished"
            raise self._unknown(f"no partition {topic_partition} here", found)
        return directory

    def _home_of(self, topic_partition: TopicPartition) -> LogDirectory:
        """Return the directory that a partition lies in.

        Raises
        ------
        UnknownTopicOrPartitionError, LogDirectoryOfflineError
            There is none, or none in the directories that could be opened.
        IllegalStateError
            There are several [MGR-22].
        """
        homes = [one for one in self._directories if one.holds(topic_partition)]
        if not homes:
            raise self._unknown(f"no partition {topic_partition} here", "no such directory")
        if len(homes) > 1:
            arrived = [one for one in homes if one.has_arrived(topic_partition)]
            homes = arrived if len(arrived) == 1 else homes
        if len(homes) > 1:
            raise IllegalStateError(
                f"partition {topic_partition} lies in several log directories, and nothing says"
                " which one counts. Compare them with `segstore verify` and `segstore cat`; then"
                " set_aside_partition takes one of them out of use",
                file=homes[0].path,
                found=", ".join(one.path for one in homes),
                expected="one log directory",
            )
        return homes[0]

    def _unknown(self, message: str, found: str) -> SegstoreError:
        """Return the error for what is not here: where a directory is offline, it may be there."""
        for path, error in self._offline.items():
            offline = LogDirectoryOfflineError(
                f"{message}; this log directory is offline, and may have it", file=path, found=found
            )
            offline.__cause__ = error
            return offline
        return UnknownTopicOrPartitionError(message, file=self.path, found=found)

    def stats(self) -> ManagerStats:
        """Return numbers of the directories and of their open logs, by Kafka's metric names.

        No log is opened for it: one that is not open has no size and no offsets here.
        ``stats().prometheus_text()`` is what Prometheus reads. Source: [MGR-12, MGR-24].
        """
        self._check_process()
        with self._mutex:
            self._check_usable()
            logs = [log for one in self._directories for log in one.logs.all_of_partitions()]
        offline = self.offline_directories()
        maintained = [one.maintenance for one in self._directories if one.maintenance is not None]
        return manager_stats(
            {path: path in offline for path in self._paths} | dict.fromkeys(self._offline, True),
            remaining_logs={one.path: one.remaining_logs_to_recover() for one in self._directories},
            partitions=len(self._listed().partitions),
            logs=logs,
            deletions=combined_counts([one.deletions for one in maintained]),
            failing_tasks=sum(one.failing for one in maintained),
            cleaning={
                one.path: one.maintenance.cleaning_gauges()
                for one in self._directories
                if one.maintenance is not None and one.error is None
            },
            remote={} if self._tiered is None else self._tiered.figures(),
        )

    # ---- background work -------------------------------------------------------------------------

    def maintain(
        self,
        now: int | datetime | None = None,
        *,
        progress: Callable[[TopicPartition, int, int], None] | None = None,
    ) -> MaintenanceReport:
        """Do everything that is due, in this thread; return what was done [MGR-30, RTN-1].

        Retention deletes what the settings of topics say. Topics with ``cleanup.policy=compact``
        keep the last record of each key, as far as their settings say so: a log is compacted when
        more than ``min.cleanable.dirty.ratio`` of it is new, or ``max.compaction.lag.ms`` are over.
        With *remote* of `open_dir`, sealed segments of tiered topics are copied there, and what is
        expired is deleted there.
        The checkpoints of the log directory are written. Directories of deleted partitions are
        removed, and logs do what they have to do later: timed syncs, unlinking, the look for silent
        producers. Call it as often as you like:
        retention is due every five minutes, and after `alter_topic`; compaction every 15 seconds,
        the rest every minute, or as each log says. Remote storage is due every 30 seconds, and
        after `alter_topic`.
        ``open_dir(..., background=True)`` needs no call.

        In the safe profile, a topic without limits loses nothing. What fails is in the report, and
        is tried again later; the rest is done [DUR-131].

        Parameters
        ----------
        now : int, datetime or None
            For tests: the time, in ms since 1970. Timers go on from there, and segments are as old
            as it says. None = the clock of the system.
        progress : callable or None
            Called with a partition that is copied to remote storage, the bytes that are copied, and
            those that were to be. It must not use the manager.

        Raises
        ------
        LogReadOnlyError
            The directory is read only, or the disk has failed.
        RuntimeError
            A signal handler called in the middle of another pass.
        """
        self._check_writable()
        callback("progress", progress)
        now_ms = None if now is None else timestamp_of("now", now)
        reports: list[MaintenanceReport] = []
        errors: list[Exception] = []
        for one in self._directories:
            if one.error is None:
                try:
                    reports.append(one.maintain(now_ms, progress))
                except Exception as error:  # noqa: BLE001 - the others do what is due all the same
                    errors.append(error)
        raise_of_several(errors, "another log directory could not be maintained")
        return combined_report(reports)

    # ---- append ----------------------------------------------------------------------------------

    def append(  # noqa: PLR0913 - the columns of a frame
        self,
        topic: str,
        records: Records,
        *,
        partition: int | str | None = None,
        timestamp: int | datetime | str | None = None,
        key: str | None = None,
        value: str | Sequence[str] | None = None,
        headers: str | None = None,
    ) -> dict[int, LogAppendInfo]:
        """Append *records*, each to the partition that Kafka's clients choose for its key.

        Parameters
        ----------
        topic : str
            An existing topic.
        records : records
            Any iterable of ``(key, value)`` or ``(timestamp, key, value)`` tuples or `Record`; or
            a frame of any library, with columns key, value, timestamp, headers.
        partition : int, str or None
            Append all records to this partition instead. A str is the name of a frame's column
            that has the partitions, as a scan has. Where it is null, the key chooses.
        timestamp, key, value, headers : optional
            The time of records without one, and the names of a frame's columns, as for
            `UnifiedLog.append`.

        Returns
        -------
        dict of int to LogAppendInfo
            The result for each partition that got records. Order is kept within a partition.

        Raises
        ------
        RecordTypeError
            An object is not a record. If *records* is a list, nothing was appended.
        IllegalArgumentError
            A column of a frame, or one of its values, cannot be stored. If the frame is in memory,
            nothing was appended; of a stream of batches those before it were. Or *records* are a
            scan with records of transactions, and its isolation is not ``read_committed``.
        UnknownTopicOrPartitionError
            The topic or partition does not exist.
        SegstoreError
            Any other error of one partition. Records that were appended before it stay:
            ``appended`` of the error and a note list them. Ctrl-C gets the note too. For a list or
            a frame, all logs are opened before the first append. By then all rows of a frame are
            checked.
        """
        self._check_writable()
        self._refuse_change_of_notes(topic)
        return self._appends.append(
            topic, records, partition, timestamp=timestamp, key=key, value=value, headers=headers
        )

    def _keyed_partitions(self, topic: str) -> int:
        """Return over how many partitions keys are spread; raise where one may be missing."""
        numbers = self._numbers_of(topic)
        self._check_none_is_offline(topic, len(numbers), _KEYS_ARE_SPREAD)
        check_no_gap(self._directories[0].directory, topic, numbers)
        return len(numbers)

    def _check_none_is_offline(self, topic: str, there: int, why: str) -> None:
        """Raise where all partitions are needed: one may be in a directory that is offline."""
        failed = {one.path: one.error for one in self._directories if one.is_unknown}
        offline = self._offline | failed
        if not offline:
            return
        entry = self._topics.entry_of(topic)
        if entry is None or entry.partitions != there:
            path, error = next(iter(offline.items()))
            raise LogDirectoryOfflineError(
                why.format(topic=topic, lack=_ONE_MAY_BE_OFFLINE),
                file=path,
                found=f"{there} partitions in the other directories",
            ) from error

    def _check_all_are_here(self, topic: str, numbers: Sequence[int], why: str) -> None:
        """Raise where a partition is missing, or may be: rows of the rest look like all of them.

        There is a gap, topics.json has more by now, or a directory is offline.
        """
        self._check_none_is_offline(topic, len(numbers), why)
        entries = []
        for directory in self._directories:
            with suppress(*UNREADABLE_TOPICS):  # the listing logs it, and reads go on [DUR-128]
                entries.append(read_topics_file(directory.directory).topics.get(topic))
        newest = max(filter(None, entries), key=lambda entry: entry.change, default=None)
        known = max(len(numbers), 0 if newest is None else newest.partitions)
        missing = first_missing(numbers)
        if missing < known:
            raise IllegalStateError(
                why.format(topic=topic, lack=_SOME_ARE_MISSING),
                file=self.path,
                found=f"no partition {missing}",
                expected=f"{known} partitions" if newest else "partitions 0, 1, 2 … without a gap",
            )

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        refuse_pickle(
            f"the log directory {self.path}",
            "pass its path, and open it there: segstore.open_dir(path, read_only=True)",
        )

    # ---- close -----------------------------------------------------------------------------------

    def close(self, broker_epoch: int = NO_BROKER_EPOCH) -> None:
        """Close every log; write the clean shutdown marker if all closed cleanly [DUR-24].

        A move of another thread ends first: it is undone, or finished where its last step has begun
        [DUR-127].

        The marker is not written when a partition may need recovery. It contains *broker_epoch*, if
        given. A second call completes an interrupted one. A call by a signal handler during the
        close of a log does nothing, because that log still writes: call again.

        Raises
        ------
        RuntimeError
            A signal handler called during an append, a sync or an open of a log, or ``progress`` of
            a move called: nothing was closed. Or the interpreter's end has stopped a thread that
            this call waits for.
        """
        if self.closed:
            return
        self._check_process()  # no thread of the parent's lets go of the mutex here [DUR-68]
        shutdowns = [self._shutdown, *(log.shutdown for log in self._all_writable())]
        if any(shutdown.runs_in_this_thread() for shutdown in shutdowns):
            return
        self._mutex.require_another_owner()
        for directory in self._directories:
            directory.require_outside()
        self._moves.require_outside()
        with self._mutex:  # who opens a log does so first, and nobody does behind it
            for directory in self._directories:
                directory.begin_close()
            self._is_closing = True
        self._moves.wait()
        self._shutdown.run(lambda: self._close_alone(broker_epoch))

    def _close_alone(self, broker_epoch: int) -> None:
        if self.closed:  # by the thread that was waited for
            return
        if not close_all_logs(self._directories):
            return  # one still writes: the next close does the rest
        errors: list[Exception] = []
        try:
            for directory in self._directories:
                try:
                    directory.close(broker_epoch)
                except Exception as error:  # noqa: BLE001 - the others are closed all the same
                    errors.append(error)
        finally:
            self._release()
        raise_of_several(errors, "another log directory could not be closed")

    def _release(self) -> None:
        if self._tiered is not None:
            self._tiered.close()
        for directory in self._directories:
            directory.release()
        self._shutdown.finish()

    def _all_writable(self) -> list[UnifiedLog]:
        return [log for one in self._directories for log in one.all_open()]

    def _ends_with_this_thread(self) -> bool:
        return any(one.ends_with_this_thread() for one in self._directories)

    def _check_process(self) -> None:
        if self._process_id != _core.process_id():
            raise ForkedHandleError(
                "the manager was opened before the process forked: open the directory again here",
                file=self.path,
            )

    def _check_usable(self) -> None:
        self._check_process()
        if self._is_closing:
            raise ClosedError("the log directory is closed, or being closed", file=self.path)

    def _check_writable(self) -> None:
        self._check_usable()
        if self._read_only:
            raise LogReadOnlyError("the log directory was opened read-only", file=self.path)
        if all(one.error is not None for one in self._directories):
            self._failures.check(self._directories[0].path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        with suppress_repeated_error(error):
            self.close()

    @as_html
    def _repr_html_(self) -> Iterator[tuple[str, object]]:
        topics = self.topics()
        yield (
            "topics",
            [
                {"topic": topic, "partitions": len(numbers)}
                for topic, numbers in islice(topics.items(), MOST_LINES + 1)
            ],
        )
        counts = {"topic": len(topics), "partition": sum(map(len, topics.values()))}
        yield "all", ", ".join(f"{n} {one}{'' if n == 1 else 's'}" for one, n in counts.items())
        if offline := self.offline_directories():
            yield "offline", ", ".join(offline)

    def __repr__(self) -> str:
        state = "closed" if self.closed else "read-only" if self._read_only else "open"
        return f"<LogManager {', '.join(self._paths)} {state}>"


@contextmanager
def _telling_what_follows(what_happened: str) -> Iterator[None]:
    """Say in an error of remote storage what was done before it, and that a pass does the rest."""
    try:
        yield
    except RemoteStorageError as error:
        error.add_note(f"{what_happened}; the next maintain deletes the rest in remote storage")
        raise


def _cleaner_config(
    cleaner: CleanerConfig | None, given: DirectoryConfig, directories: int
) -> CleanerConfig:
    """Return how each of so many directories is compacted."""
    if cleaner is not None and given.is_of_cleaner:
        raise IllegalArgumentError(
            "config= has settings of the cleaner, and cleaner= was given too",
            found="both",
            expected="one of them",
        )
    config = CleanerConfig.of_broker(given.broker) if cleaner is None else cleaner
    return _cleaner_of_each(config, directories)


def _cleaner_of_each(config: CleanerConfig, directories: int) -> CleanerConfig:
    """Return *config* for each of so many directories: they share the memory for keys."""
    instance("cleaner", config, CleanerConfig, "a CleanerConfig")
    return replace(config, dedupe_buffer_size=config.dedupe_buffer_size // directories)
