"""Segments without a log around them: one ``.log`` file under any name, several, or an archive."""

from __future__ import annotations

import glob
import os
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast, overload

from segstore.arguments import flag, integer, isolation_of, refuse_pickle
from segstore.errors import IllegalArgumentError, NotALogError
from segstore.log.files.partition_directory import parse_directory_name
from segstore.log.local.file_bytes import FileBytes
from segstore.log.lone_files import (
    Paths,
    absolute_paths,
    find_files,
    in_order,
    is_of_files,
    named_offset,
    partition_of,
)
from segstore.log.open_log import open as open_log
from segstore.log.readable_chunks import ReadableChunks, settle_transactions
from segstore.log.recovery.recovery_report import RecoveryReport
from segstore.log.scan import (
    LogQuery,
    LogScan,
    check_range,
    checked_columns,
    skips_damage,
    slice_bounds,
    timestamp_bounds,
)
from segstore.notebook import as_html, first_records
from segstore.number_limits import MAX_LONG
from segstore.records.compression import codec_table
from segstore.types import Isolation

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime
    from typing import NoReturn, Self, Unpack

    from segstore._core import ArrowStream, Record
    from segstore.log.readable_chunks import Settled
    from segstore.log.record_dataset import RecordDataset
    from segstore.log.scan import LogQueryOptions
    from segstore.log.unified_log import Log
    from segstore.record_columns import RecordColumns
    from segstore.records.record_batch import RecordBatch
    from segstore.types import IsolationName


def open_segment(path: Paths, *, as_: str | None = None) -> LoneSegment:
    """Open ``.log`` files to read them, without a partition's directory around them.

    Parameters
    ----------
    path : path, or sequence of paths
        A file of record batches of any magic and codec, under any name. A pattern such as
        ``"orders-0/*.log"``, with the wildcards of `glob`. A tar archive (``.tar``, ``.tar.gz``,
        ``.tar.zst``), whose members ``….log`` are read. Or several of these. All are of one
        partition. No index is needed, nothing is written beside them and no lock is taken.
    as_ : str or None
        Name ``<topic>-<partition>`` for the records; None = the name of the directory of the files,
        if that is one. For an archive without directories, that of the archive.

    Returns
    -------
    LoneSegment
        Iterate it for records, or use `LoneSegment.scan` or Arrow.

    Raises
    ------
    LogNotFoundError
        The file does not exist, or no file matches the pattern.
    NotALogError
        *path* is a directory, which `segstore.open` reads, or an index; or *as_* is not a
        partition. Also an archive without a ``.log``, or that is none. Also a ``.log`` in an
        archive that is a link to a file elsewhere.
    CorruptLogError
        The archive was cut, or is damaged; or two files begin at the same offset.
    DiskFullError, LimitExceededError
        A compressed archive is larger than the room for temporary files; or an archive has more
        than a million members.
    IllegalArgumentError
        The files are of directories of several names, and *as_* is None.
    """
    return LoneSegment(path, as_=as_)


def open_to_read(path: Paths, *, as_: str | None = None) -> Log | LoneSegment:
    """Open what *path* is, to read it: the directory of a partition, or files alone.

    Errors are those of `segstore.open` and `open_segment`.
    """
    paths = absolute_paths(path)
    if len(paths) == 1 and not is_of_files(paths[0]):
        try:
            return open_log(paths[0], read_only=True, as_=as_)
        except NotALogError as error:
            if glob.glob(f"{glob.escape(paths[0])}/*.log"):  # noqa: PTH207 - as `matching_files`
                error.message += f"; the pattern '{paths[0]}/*.log' reads its files alone"
                error.args = (error.message,)
            raise
    return LoneSegment(paths, as_=as_)


class LoneSegment:
    """The records of one ``.log`` file, or of several of one partition; from `open_segment`.

    Attributes
    ----------
    path : str
        Absolute path of the file, pattern or archive; of several, of the folder above all.
    files : tuple of str
        Paths of the segments, in the order of their offsets.
    topic_partition : TopicPartition
        Topic and partition of the records; ``("", -1)`` when unknown.
    size_bytes : int
        Size of the segments at the open; bytes written after that are not read.
    report : RecoveryReport
        Empty: only the files are read.
    log_start_offset : int
        Base offset of the first batch. If that is damaged: the offset in the file name, or 0.
    """

    def __init__(self, path: Paths, *, as_: str | None = None) -> None:
        paths = absolute_paths(path)
        self.path = paths[0] if len(paths) == 1 else os.path.commonpath(paths)
        self.report = RecoveryReport()
        self._codecs = codec_table()
        self._ends: _Ends | None = None
        with ExitStack() as stack:
            found = find_files(paths, stack)
            named = partition_of(found) if as_ is None else parse_directory_name(as_)
            self._lone_files = in_order(found, self._codecs)
            self._close = stack.pop_all().close
        self.topic_partition = named
        self.files = tuple(one.path for one in self._lone_files)
        self.size_bytes = sum(one.size_bytes for one in self._lone_files)
        self.log_start_offset = self._lone_files[0].first_offset
        self._files = self._files_to_read(check_crcs=True)
        try:
            self._require_batches()
        except BaseException:
            self.close()
            raise

    def _require_batches(self) -> None:
        """Refuse what is no log: bytes without one whole batch, under names that no segment has."""
        is_known = any(
            named_offset(one.name) is not None or files.first_header() is not None
            for one, files in zip(self._lone_files, self._files, strict=True)
        )
        if is_known or not self.size_bytes:
            return
        everything = self._chunks(self._files, self.log_start_offset, MAX_LONG, raises=False)
        if next(iter(everything.headers_only()), None) is None:
            raise NotALogError(
                "this is no log: not one whole record batch of Kafka is in it",
                file=self.path,
                found=f"{self.size_bytes} other bytes",
                expected="the .log file of a segment, under any name",
            )

    def _files_to_read(self, *, check_crcs: bool) -> list[FileBytes]:
        ends = [*(one.base_offset for one in self._lone_files[1:]), MAX_LONG]
        return [
            FileBytes(
                one.source,
                one.name,
                one.size_bytes,
                None,
                end,
                check_crcs=check_crcs,
                batch_before=one.batch_before,
            )
            for one, end in zip(self._lone_files, ends, strict=True)
        ]

    @property
    def last_stable_offset(self) -> int:
        """Where committed reads end: at the first transaction without a marker in the files."""
        return self._settled(self._files, self.log_start_offset, self.log_end_offset).end_offset

    @property
    def log_end_offset(self) -> int:
        """One more than the last readable offset; the log start when there is none.

        The first use reads the files whole.
        """
        return self._read_ends().end

    @property
    def holes(self) -> tuple[tuple[int, int], ...]:
        """Ranges ``[first, next)`` of offsets between two files, of which neither has a record.

        A file may be missing, or compaction has removed these records: the files do not say which.
        The first use reads the files whole.
        """
        return self._read_ends().holes

    @property
    def damaged_end(self) -> str | None:
        """Why the bytes after the last readable batch cannot be read; None = there are none.

        The first use reads the files whole.
        """
        return self._read_ends().damage

    def _read_ends(self) -> _Ends:
        if self._ends is None:
            end, holes = self.log_start_offset, []
            file: FileBytes | None = None
            everything = self._chunks(self._files, end, MAX_LONG, raises=False)
            for chunk in everything.headers_only():
                next_file = cast("FileBytes", chunk.segment)
                if file is not None and file is not next_file and file.next_base_offset > end:
                    holes.append((end, file.next_base_offset))
                file, end = next_file, chunk.last_offset + 1
            damaged = {lost.first_offset for lost in everything.skipped}
            behind = [str(lost) for lost in everything.skipped if lost.next_offset is None]
            self._ends = _Ends(
                end,
                tuple(hole for hole in holes if hole[0] not in damaged),
                behind[-1] if behind else None,
            )
        return self._ends

    def _settled(self, files: Sequence[FileBytes], start_offset: int, end_offset: int) -> Settled:
        """Decide the transactions of a range.

        One that began before it may be open, or end after it. So all is read from where a producer
        snapshot says what was open: at the beginning of a file, or else of all files.
        """
        by_path = {one.path: one for one in self._lone_files}

        def open_before(file: FileBytes) -> Mapping[int, int] | None:
            return by_path[file.path].open_transactions()

        first, known = 0, None
        for number in range(len(files) - 1, 0, -1):
            if self._lone_files[number].base_offset <= start_offset:
                known = open_before(files[number])
                if known is not None:
                    first = number
                    break
        start = self._lone_files[first].base_offset if first else self.log_start_offset
        chunks = self._chunks(files[first:], start, MAX_LONG, raises=False)
        return settle_transactions(chunks, self._codecs, end_offset, open_before, known or {})

    def _chunks(
        self,
        files: Sequence[FileBytes],
        start_offset: int,
        end_offset: int,
        *,
        raises: bool,
        **more: Any,
    ) -> ReadableChunks:
        return ReadableChunks(
            files,
            self._codecs,
            start_offset=start_offset,
            end_offset=end_offset,
            raises=raises,
            stands_alone=True,
            **more,
        )

    def scan(  # noqa: PLR0913 - the parts of a query
        self,
        start_offset: int | None = None,
        end_offset: int | None = None,
        *,
        columns: Sequence[str] | None = None,
        start_timestamp: int | datetime | None = None,
        end_timestamp: int | datetime | None = None,
        isolation: Isolation | IsolationName = Isolation.LOG_END,
        check_crcs: bool = True,
        on_damage: Literal["raise", "skip"] = "raise",
    ) -> LogScan:
        """Return a range of the files, to be read lazily; parameters as in `Log.scan`.

        Offsets outside of the files are not an error: they have no records. ``read_committed`` uses
        the markers in the files, and ends where the first transaction without a marker begins. If
        a marker may be between two files, its transaction is left out, and `LogScan.skipped` lists
        it. The producer snapshot beside the second file can show that it went on.
        """
        flag("check_crcs", check_crcs)
        start = (
            self.log_start_offset if start_offset is None else integer("start_offset", start_offset)
        )
        end = MAX_LONG if end_offset is None else integer("end_offset", end_offset)
        check_range(start, end, "offset")
        low, high = timestamp_bounds(start_timestamp, end_timestamp)
        raises = not skips_damage(on_damage, check_crcs=check_crcs)
        files, settled = self._files, None
        if not check_crcs:
            files = self._files_to_read(check_crcs=False)
        level = isolation_of(isolation)
        if level is Isolation.DURABLE:
            raise IllegalArgumentError(
                "files without their directory do not say what was synced",
                file=self.path,
                found="isolation durable",
                expected="log_end, read_uncommitted or read_committed",
            )
        if level is Isolation.READ_COMMITTED:
            settled = self._settled(files, start, end)
            end = min(end, settled.end_offset)
        undecided = settled.undecided if settled is not None else ()
        return LogScan(
            self._chunks(files, start, end, raises=raises, undecided=undecided),
            self._codecs,
            self.topic_partition,
            start_offset=start,
            end_offset=end,
            aborted=None if settled is None else settled.aborted,
            columns=columns,
            start_timestamp=low,
            end_timestamp=high,
            check_crcs=False,
        )

    def dataset(self, **query: Unpack[LogQueryOptions]) -> RecordDataset:
        """Return the files as a dataset of pyarrow; parameters and errors as of `Log.dataset`."""
        from segstore.log.record_dataset import RecordDataset, RecordSource, one_by_one

        columns = checked_columns(query.get("columns"))
        checked = LogQuery.of(**query)
        query["columns"] = columns

        def within(first: int, behind: int) -> list[LogScan]:
            """Scan a part: of committed data less is read for it than for the whole."""
            start, end = checked.start_offset, checked.end_offset
            low = max(first, self.log_start_offset if start is None else start)
            high = max(low, min(behind, MAX_LONG if end is None else end))
            part: LogQueryOptions = {**query, "start_offset": low, "end_offset": high}
            return [self.scan(**part)]

        source = RecordSource(columns, lambda: [self.scan(**query)], one_by_one, within)
        return RecordDataset(source)

    def __iter__(self) -> Iterator[Record]:
        """Yield all records, of aborted and open transactions too."""
        return iter(self.scan())

    def __len__(self) -> int:
        """Return the number of records; the files are read whole."""
        return len(self.scan())

    def __bool__(self) -> bool:
        """Return True: files without records are segments too."""
        return True

    @overload
    def __getitem__(self, key: int) -> Record: ...

    @overload
    def __getitem__(self, key: slice) -> LogScan: ...

    def __getitem__(self, key: int | slice) -> Record | LogScan:
        """Return the record at an offset; ``segment[a:b]`` is ``segment.scan(a, b)``."""
        return self.scan(*slice_bounds(key)) if isinstance(key, slice) else self.scan()[key]

    __reversed__ = None

    def batches(self) -> Iterator[RecordBatch]:
        """Yield the batches, control batches too."""
        return self.scan().batches()

    def to_arrow(self, columns: Sequence[str] | None = None) -> Any:
        """Return all records as a ``pyarrow.Table``; needs pyarrow."""
        return self.scan(columns=columns).to_arrow()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Give the records to any Arrow consumer: pandas, polars, DuckDB, pyarrow."""
        return self.scan().__arrow_c_stream__(requested_schema)

    def _columns_to_append(self, named: RecordColumns) -> ArrowStream:
        return self.scan()._columns_to_append(named)  # noqa: SLF001 - the same question to another

    def offset_for_timestamp(self, timestamp: int | datetime) -> int | None:
        """Return the offset of the first record with that timestamp or a later one, or None.

        Markers of transactions do not count; those of a log do, see `Log.offset_for_timestamp`.
        """
        scan = self.scan(start_timestamp=timestamp, columns=("offset",), on_damage="skip")
        return next((record.offset for record in scan), None)

    def close(self) -> None:
        """Close the files; a second call does nothing."""
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self.close()

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        refuse_pickle(f"the segment {self.path}", "pass its path, and open it there")

    @as_html
    def _repr_html_(self) -> Iterator[tuple[str, object]]:
        yield "size", f"{self.size_bytes:,} bytes"
        scan = self.scan()
        yield "first records", first_records(scan._first(), scan.columns)  # noqa: SLF001 - as a scan shows them

    def __repr__(self) -> str:
        return f"<LoneSegment {self.path}, {self.size_bytes} bytes>"


class _Ends(NamedTuple):
    """What a pass over the files has found."""

    end: int
    holes: tuple[tuple[int, int], ...]
    damage: str | None
    """What is behind the end, and is no whole batch."""
