"""The topics of a tiered bucket, read without a broker; ``segstore.open_bucket``."""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from contextlib import ExitStack, contextmanager
from itertools import islice
from operator import methodcaller
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from segstore.arguments import flag, partition_numbers
from segstore.errors import (
    ClosedError,
    LogNotFoundError,
    SegstoreError,
    UnknownTopicOrPartitionError,
)
from segstore.log.files.partition_directory import directory_name
from segstore.remote.local_folder import LocalFolder
from segstore.remote.remote_logs import RemoteLogs, RemoteSettings
from segstore.remote.storage.segment_files import STORAGE_FOLDER, storage_place
from segstore.remote.stores import open_store
from segstore.remote.tiered.aiven_layout import AivenLayout
from segstore.remote.tiered.joined_store import JoinedStore
from segstore.remote.tiered.key_ring import KeyRing
from segstore.remote.tiered.local_logs import LocalLogs
from segstore.remote.tiered.local_tiered_layout import LocalTieredLayout
from segstore.remote.tiered.segment_states import read_segment_states
from segstore.remote.tiered.tiered_store import AS_THE_LOG, TieredReading, TieredStore
from segstore.remote.urls import is_url, normal_url
from segstore.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from types import TracebackType
    from typing import Unpack
    from uuid import UUID

    from segstore.log.record_dataset import RecordDataset
    from segstore.log.unified_log import Log
    from segstore.remote.remote_file import RemoteFile
    from segstore.remote.tiered.partition_verify import BucketVerifyReport, Progress
    from segstore.remote.tiered.segment_states import Directories
    from segstore.remote.tiered.tiered_partition import LeftOut, TieredPartition
    from segstore.tables.parquet_transfer import ExportOptions
    from segstore.tables.partition_export import ExportReport
    from segstore.tables.topic_scan import TopicQuery, TopicScan, UnorderedQuery

MOST_SHOWN: Final = 20
"""So many partitions are named in a message."""


def open_bucket(  # noqa: PLR0913 - keywords of users
    url: str | os.PathLike[str],
    *,
    keys: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    key_prefix: str = "",
    remote_log_metadata: Directories | None = None,
    allow_gaps: bool = False,
    below_log_start: bool = False,
    local: Directories | None = None,
    spool_directory: str | None = None,
    spool_max_bytes: int | None = None,
    **settings: str,
) -> Bucket:
    """Open a bucket that brokers with Aiven's tiered storage plug-in have written.

    Or the folder ``kafka-tiered-storage`` of Kafka's own ``LocalTieredStorage``.

    Parameters
    ----------
    url : str or path
        ``s3://bucket/prefix``, a URL of another store, or a folder. It names what holds the
        folders of the topics.
    keys : path, mapping of str to path, or None
        Private RSA keys of an encrypted bucket. A folder with files ``<key id>.private.pem``. Or
        the PEM file of each key id; ``"env:NAME"`` reads that environment variable. None: the
        variable ``SEGSTORE_TIERED_KEYS``, a folder or ``id=file,id=file``.
    key_prefix : str
        The end of ``rsm.config.key.prefix`` after its last ``/``, which is not part of *url*.
    remote_log_metadata : path, sequence of paths, or None
        Log directories of brokers with the topic ``__remote_log_metadata``, or its partitions'
        directories. Then only copies that Kafka had finished and was not deleting are read. They
        are read once, here. None: all complete copies are read.
    allow_gaps : bool
        Records that no segment holds any more are left out, between others. A damaged segment
        at the start or end is left out too. The log's ``report.warnings`` names offsets and
        segments. False: they are an error of the open. A committed read cannot go over a gap where
        a transaction was open: how that ended is not known.
    below_log_start : bool
        Logs begin with the lowest offset that a segment still holds: records that were deleted show
        again. False: where they began when the newest segment was copied.
    local : path, sequence of paths, or None
        Log directories of a broker, which may be running. A partition that has a log there goes on
        with it: the bucket gives the records below the first local segment. The topics are those of
        the bucket.
    spool_directory : str or None
        Takes decrypted chunks that are read. None: a private folder of this user, in that for
        temporary files.
    spool_max_bytes : int or None
        Limit of its size. None: 10 GiB.
    **settings : str
        Of the store: ``endpoint="…"``, ``access_key_id="…"``; else those of the environment.

    Returns
    -------
    Bucket
        Nothing was listed yet.

    Raises
    ------
    ImportError
        ``segstore[remote]`` is not installed, or what the scheme needs.
    IllegalArgumentError, LogNotFoundError
        A setting is unknown, or a folder does not exist.
    CorruptLogError, UnsupportedFormatError
        A record of ``__remote_log_metadata`` cannot be read.
    """
    flag("allow_gaps", allow_gaps)
    flag("below_log_start", below_log_start)
    reading = TieredReading(allow_gaps, below_log_start)
    shown = open_tiered_store(url, keys, key_prefix, remote_log_metadata, settings, local, reading)
    return Bucket(shown, RemoteSettings(settings, spool_directory, spool_max_bytes))


def open_tiered_store(  # noqa: PLR0913 - see open_bucket
    url: str | os.PathLike[str],
    keys: str | os.PathLike[str] | Mapping[str, Any] | None,
    key_prefix: str,
    remote_log_metadata: Directories | None,
    settings: Mapping[str, str],
    local: Directories | None = None,
    reading: TieredReading = AS_THE_LOG,
) -> TieredStore:
    """Return what shows a bucket as a log directory; arguments and errors are `open_bucket`'s."""
    path = os.fspath(url)
    if not is_url(path) and not Path(path).is_dir():
        raise LogNotFoundError(
            "there is no such folder", file=path, found="no folder", expected="a bucket's folder"
        )
    store = open_store(path, settings) if is_url(path) else LocalFolder(path)
    if not key_prefix and store.url.rpartition("/")[2] != STORAGE_FOLDER:
        below = store.list_folder(STORAGE_FOLDER)
        if below.folders or below.files:
            path = storage_place(normal_url(path) if is_url(path) else path)
            store = open_store(path, settings) if is_url(path) else LocalFolder(path)
    states = None if remote_log_metadata is None else read_segment_states(remote_log_metadata)
    ring = KeyRing(keys)
    layout: AivenLayout | LocalTieredLayout = AivenLayout(store, ring, key_prefix, states)
    if store.url.rpartition("/")[2] == STORAGE_FOLDER:
        layout = LocalTieredLayout(store, ring, states)
    if local is None:
        return TieredStore(store, layout, key_prefix, reading)
    return JoinedStore(store, layout, key_prefix, LocalLogs(local), reading)


class _OpenedLog:
    """A log that topics are read from, and how many reads there are that may still ask it."""

    def __init__(self, files: dict[str, RemoteFile], log: Log, stack: ExitStack) -> None:
        self.files, self.log, self.stack = files, log, stack
        self.users = 0


class _Lease:
    """Held by scans and their parts: when it is gone, none of them reads its logs any more."""


class Bucket:
    """Topics and partitions of a tiered bucket; from `open_bucket`.

    The methods that read whole topics are those of a `LogManager`. They open the logs as the bucket
    is at the call. The latest log of each partition stays open, with its files in the spool, until
    `close`. An earlier one stays open as long as there is a scan of it; the next read of its topic
    closes it. It is a context manager.

    Attributes
    ----------
    url : str
        Without secrets.
    """

    def __init__(self, store: TieredStore, settings: RemoteSettings) -> None:
        self.url = store.url
        self._shown = store
        self._is_closed = False
        self._settings = settings
        self._logs = RemoteLogs(store.url, settings, store)
        self._mutex = threading.Lock()
        self._opened: dict[TopicPartition, _OpenedLog] = {}
        self._older: set[_OpenedLog] = set()
        """Of an earlier listing, and still used."""
        self._ended: deque[list[_OpenedLog]] = deque()
        """What scans that are gone had used; no lock, as any line may be the end of a scan."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the logs that topics were read from; nothing can be read any more."""
        with self._mutex, ExitStack() as stack:
            self._is_closed = True
            for one in (*self._opened.values(), *self._older):
                stack.push(one.stack)
            self._opened.clear()
            self._older.clear()

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._is_closed

    def __repr__(self) -> str:
        return f"Bucket({self.url!r})"

    @property
    def _store(self) -> TieredStore:
        if self._is_closed:
            raise ClosedError("the bucket is closed", file=self.url)
        return self._shown

    def topics(self) -> list[str]:
        """Return the topics of which the bucket holds something, sorted."""
        return list(self._store.topic_ids())

    def topic_ids(self, topic: str) -> list[UUID]:
        """Return the ids of a topic. More than one: the topic was deleted and created again.

        `open` reads the id with the latest copy.
        """
        return self._store.topic_ids().get(topic, [])

    def partitions(self) -> list[TopicPartition]:
        """Return the partitions of which the bucket holds something, sorted.

        A partition without a copied segment is not in the bucket.
        """
        return self._store.partitions()

    def left_out(self, topic: str, partition: int) -> list[LeftOut]:
        """Return the segments of a partition that are not read, each with the reason.

        Raises
        ------
        LogNotFoundError
            The bucket holds nothing of the partition.
        """
        topic_partition = TopicPartition(topic, partition)
        found = self._store.partition(topic_partition)
        if found is not None and (found.segments or found.left_out):
            return list(found.left_out)
        if topic_partition in self.partitions():  # of the broker alone
            return []
        raise self._unknown(topic_partition)

    def verify(
        self, topic: str, partition: int, progress: Progress | None = None
    ) -> BucketVerifyReport:
        """Check all segments of a partition: objects, chunks, batches, indexes, and their history.

        One segment at a time is fetched.

        Parameters
        ----------
        topic, partition : str, int
            Which one.
        progress : callable or None
            Called with the partition's path, plain bytes checked so far and bytes in all.

        Returns
        -------
        BucketVerifyReport
            Damage, and a missing key, are problems in it.

        Raises
        ------
        LogNotFoundError
            The bucket holds nothing of the topic.
        LogTruncatedError, LogPermissionError, ReadIOError
            The partition cannot be listed.
        """
        from segstore.remote.spool import Spool
        from segstore.remote.tiered.partition_verify import verify_partition

        topic_partition = TopicPartition(topic, partition)
        found = self._found(topic_partition)
        path = self._logs.url_of(topic_partition)
        spool = Spool(self._settings.spool_directory, self._settings.spool_max_bytes)
        return verify_partition(path, topic_partition, found, spool, progress)

    def _found(self, topic_partition: TopicPartition) -> TieredPartition:
        found = self._store.partition(topic_partition)
        if found is None or not (found.segments or found.left_out):
            raise self._unknown(topic_partition)
        return found

    def _unknown(self, topic_partition: TopicPartition) -> LogNotFoundError:
        return LogNotFoundError(
            "the bucket holds nothing of this partition",
            file=self._logs.url_of(topic_partition),
            found="no object of a segment",
            expected=f"one of {', '.join(map(str, self.partitions()[:MOST_SHOWN]))}",
        )

    @contextmanager
    def open(self, topic: str, partition: int) -> Iterator[Log]:
        """Open one partition as a read-only log, as the bucket is now.

        The log begins where it began when its newest segment was copied, unless `open_bucket` got
        ``below_log_start=True``. It ends with that segment.
        Chunks are fetched when they are read, and the next ones meanwhile; the spool keeps them,
        decrypted and decompressed.

        Yields
        ------
        Log
            Closed at the end of the block.

        Raises
        ------
        LogNotFoundError
            The bucket holds no complete segment of the partition.
        CorruptLogError
            A segment is damaged, or records are missing between two segments, without
            ``allow_gaps=True`` of `open_bucket`.
        EncryptionKeyError, ImportError
            A private key, or ``segstore[tiered]``, is missing.
        LogTruncatedError, LogPermissionError, ReadIOError
            The store fails, or segments were deleted again and again during the open. A read of the
            log raises ReadIOError when a segment was deleted meanwhile.
        """
        topic_partition = TopicPartition(topic, partition)
        _ = self._store  # or say that the bucket is closed
        with ExitStack() as stack:
            try:
                log = stack.enter_context(self._logs.open_whole(topic_partition))
            except LogNotFoundError as error:
                raise self._with_reason(topic_partition, error) from error
            stack.enter_context(self._naming(log))
            yield log

    # ---- a topic as a table ----------------------------------------------------------------------

    def scan(self, topic: str, **query: Unpack[TopicQuery]) -> TopicScan:
        """Return the records of a topic, to be read lazily.

        Parameters
        ----------
        topic : str
            A topic of the bucket.
        **query
            As for `LogManager.scan`: columns, bounds, isolation, order; and partitions, by default
            all of which the bucket holds records.

        Returns
        -------
        TopicScan
            Of the logs as the bucket is now.

        Raises
        ------
        UnknownTopicOrPartitionError
            The bucket holds nothing of the topic.
        SegstoreError, ImportError
            What `open` raises for a partition, and `LogManager.scan`.
        """
        from segstore.tables.topic_scan import scan_logs

        lease = _Lease()
        used: list[_OpenedLog] = []
        weakref.finalize(lease, self._ended.append, used).atexit = False
        logs = self._logs_of(topic, query.pop("partitions", None), used)
        scan = scan_logs(topic, logs, **query)  # type: ignore[misc] # it has no partitions any more
        scan._hold(lease)  # noqa: SLF001 - its reader is of this bucket
        return scan

    def dataset(self, topic: str, **query: Unpack[UnorderedQuery]) -> RecordDataset:
        """Return a topic as a dataset of pyarrow, as `LogManager.dataset` does.

        Each query reads the bucket as it is when the query begins.
        """
        from segstore.tables.topic_scan import checked_query, dataset_of

        numbers = self._numbers_of(topic)
        if query.get("partitions") is not None:
            query["partitions"] = numbers = partition_numbers(query["partitions"])
        checked = checked_query(numbers, **query)
        return dataset_of(checked["columns"], lambda: self.scan(topic, **checked))

    def to_arrow(self, topic: str, **query: Unpack[TopicQuery]) -> Any:
        """Return the records of a topic as a ``pyarrow.Table``, with the parameters of `scan`."""
        from segstore.tables.topic_scan import TopicScan

        return self._read_whole(topic, query, TopicScan.to_arrow)

    def to_pandas(self, topic: str, **query: Unpack[TopicQuery]) -> Any:
        """Return the records of a topic as a ``pandas.DataFrame``, with the parameters of `scan`.

        Needs pyarrow and pandas.
        """
        from segstore.tables.topic_scan import TopicScan

        return self._read_whole(topic, query, TopicScan.to_pandas)

    def count(self, topic: str, *, by_headers: bool = False, **query: Unpack[TopicQuery]) -> int:
        """Return the number of records of a topic, with the parameters of `scan`.

        Parameters
        ----------
        by_headers : bool
            True: trust the batch headers, as in `LogScan.count`.
        """
        counted: int = self._read_whole(topic, query, methodcaller("count", by_headers=by_headers))
        return counted

    def export_parquet(
        self,
        topic: str,
        folder: str | os.PathLike[str],
        *,
        partitions: Iterable[int] | None = None,
        **options: Unpack[ExportOptions],
    ) -> list[ExportReport]:
        """Write the records of a topic to Parquet files, as `LogManager.export_parquet` does.

        Parameters
        ----------
        **options
            As there: isolation, compression, verify, bytes_of_a_file, progress.
        """
        from segstore.tables.parquet_transfer import export_logs

        with self._lent(topic, partitions) as logs:
            return export_logs(topic, logs, folder, **options)

    def _read_whole(self, topic: str, query: TopicQuery, read: Callable[[TopicScan], Any]) -> Any:
        from segstore.tables.topic_scan import read_whole, scan_logs

        with self._lent(topic, query.pop("partitions", None)) as logs:
            scan = scan_logs(topic, logs, **query)  # type: ignore[misc] # as in scan
            return read_whole(scan, read)

    @contextmanager
    def _lent(self, topic: str, partitions: Iterable[int] | None) -> Iterator[dict[int, Log]]:
        """Lend the logs of a topic for a read that ends with the block."""
        used: list[_OpenedLog] = []
        try:
            yield self._logs_of(topic, partitions, used)
        finally:
            with self._mutex:
                self._give_back(used)

    def _give_back(self, used: list[_OpenedLog]) -> None:
        """Close those of *used* that are older ones without another user; under the lock."""
        for one in used:
            one.users -= 1
            if not one.users and one in self._older:
                self._older.remove(one)
                one.stack.close()

    def _numbers_of(self, topic: str) -> list[int]:
        topic_ids = self._store.topic_ids()
        if topic not in topic_ids:
            raise UnknownTopicOrPartitionError(
                f"the bucket holds nothing of topic {topic!r}",
                file=self.url,
                found=f"{len(topic_ids)} topics",
                expected=", ".join(islice(topic_ids, MOST_SHOWN)) or "folders <topic>-<topic id>",
            )
        current = self._store.current_topic_id(topic, topic_ids[topic])
        return self._store.partitions_of(topic, current)

    def _logs_of(
        self, topic: str, partitions: Iterable[int] | None, used: list[_OpenedLog]
    ) -> dict[int, Log]:
        """Return the logs of a topic by partition, ascending, as they are now; note them in *used*.

        They stay open as long as they are used.
        """
        numbers = self._numbers_of(topic)
        if partitions is not None:
            named = [TopicPartition(topic, number) for number in partition_numbers(partitions)]
            return {one.partition: self._log(one, used) for one in named}
        logs = {}
        for number in numbers:
            topic_partition = TopicPartition(topic, number)
            try:
                logs[number] = self._log(topic_partition, used)
            except LogNotFoundError:
                found = self._store.partition(topic_partition)
                if found is None or not found.is_empty:
                    raise
        return logs

    def _log(self, topic_partition: TopicPartition, used: list[_OpenedLog]) -> Log:
        """Return the log of a partition, opened when the bucket was as it is now."""
        listed = self._store.list_folder(directory_name(topic_partition))
        with self._mutex:
            while self._ended:
                self._give_back(self._ended.popleft())
            known = self._opened.get(topic_partition)
            if known is None or known.files != listed.files:
                known = self._open_in_place_of(known, topic_partition, listed.files)
            known.users += 1
            used.append(known)
            return known.log

    def _open_in_place_of(
        self,
        older: _OpenedLog | None,
        topic_partition: TopicPartition,
        files: dict[str, RemoteFile],
    ) -> _OpenedLog:
        stack = ExitStack()
        log = stack.enter_context(self.open(*topic_partition))
        self._opened[topic_partition] = opened = _OpenedLog(files, log, stack)
        if older is not None and older.users:
            self._older.add(older)
        elif older is not None:
            older.stack.close()
        return opened

    def _with_reason(
        self, topic_partition: TopicPartition, error: LogNotFoundError
    ) -> LogNotFoundError:
        """Return *error*, or one that says why none of the segments that are there is read."""
        found = self._found(topic_partition)
        if found.segments:
            return error
        return found.unreadable(self._logs.url_of(topic_partition))

    @contextmanager
    def _naming(self, log: Log) -> Iterator[None]:
        """Name the bucket in errors: the files of the open log are gone when it is closed."""
        try:
            yield
        except SegstoreError as error:
            error.rename(log.path, self._logs.url_of(log.topic_partition))
            raise
