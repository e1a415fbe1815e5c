"""One ``.log`` file alone, under any name, such as a backup or an attachment."""

from __future__ import annotations

import os
import re
from contextlib import ExitStack, closing, suppress
from typing import TYPE_CHECKING, Any, Final, Literal, overload

from segstore._core import Directory, base_offset_of
from segstore.arguments import flag, integer, isolation_of, path_text, refuse_pickle
from segstore.errors import LogNotFoundError, NotALogError
from segstore.log.files.partition_directory import parse_directory_name
from segstore.log.files.partition_path import absolute_path
from segstore.log.local.file_bytes import FileBytes
from segstore.log.readable_chunks import ReadableChunks, settle_transactions
from segstore.log.recovery.recovery_report import RecoveryReport
from segstore.log.scan import LogScan, check_range, skips_damage, slice_bounds, timestamp_bounds
from segstore.notebook import as_html, first_records
from segstore.number_limits import MAX_LONG
from segstore.records.compression import codec_table
from segstore.types import CURRENT_MAGIC, Isolation, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime
    from typing import NoReturn, Self

    from segstore._core import Record
    from segstore.records.record_batch import RecordBatch
    from segstore.types import IsolationName

_OTHER_KINDS: Final = (".index", ".timeindex", ".txnindex", ".snapshot")
_NO_TOPIC: Final = TopicPartition("", -1)
_BASE_OFFSET = re.compile(r"[0-9]{20}(?=\.)", re.ASCII)


def open_segment(path: str | os.PathLike[str], *, as_: str | None = None) -> LoneSegment:
    """Open one ``.log`` file to read it, without a partition's directory around it.

    Parameters
    ----------
    path : path
        A file of record batches of any magic and codec, under any name. No index is needed,
        nothing is written and no lock is taken.
    as_ : str or None
        Name ``<topic>-<partition>`` for the records; None = the name of the file's directory, if
        that is one.

    Returns
    -------
    LoneSegment
        Iterate it for records, or use `LoneSegment.scan` or Arrow.

    Raises
    ------
    LogNotFoundError
        The file does not exist.
    NotALogError
        *path* is a directory, which `segstore.open` reads, or an index; or *as_* is not a
        partition.
    """
    return LoneSegment(path, as_=as_)


class LoneSegment:
    """The records of one ``.log`` file; `open_segment` returns one.

    Attributes
    ----------
    path : str
        Absolute path of the file.
    topic_partition : TopicPartition
        Topic and partition of the records; ``("", -1)`` when unknown.
    size_bytes : int
        Size at the open; bytes written after that are not read.
    report : RecoveryReport
        Empty: only the file is read.
    log_start_offset : int
        Base offset of the first batch. If that is damaged: the offset in the file name, or 0.
    """

    def __init__(self, path: str | os.PathLike[str], *, as_: str | None = None) -> None:
        self.path = absolute_path(path_text("path", path))
        above, name = os.path.split(self.path)
        if name.endswith(_OTHER_KINDS):
            raise NotALogError(
                "this file has no records; `segstore dump` prints it",
                file=self.path,
                found=name,
                expected="a .log file",
            )
        self.topic_partition = _NO_TOPIC if as_ is None else parse_directory_name(as_)
        if as_ is None:
            with suppress(NotALogError):
                self.topic_partition = parse_directory_name(above.rpartition("/")[2])
        self._directory, self.size_bytes = _directory_and_size(self.path)
        self._file = FileBytes(self._directory, name, self.size_bytes)
        self._codecs = codec_table()
        self.report = RecoveryReport()
        self._log_end_offset: int | None = None
        self.log_start_offset = self._first_offset(name)

    def _first_offset(self, name: str) -> int:
        headers = self._file.first_header()
        if headers is None:
            named = _BASE_OFFSET.match(name)
            return 0 if named is None else int(named[0])
        if headers["magic"][0] >= CURRENT_MAGIC:
            return int(headers["base_offset"][0])
        return base_offset_of(self._file.read(0, int(headers["size_bytes"][0])), self._codecs)

    @property
    def last_stable_offset(self) -> int:
        """Where committed reads end: at the first transaction without a marker in this file."""
        everything = self._chunks(self._file, self.log_start_offset, MAX_LONG, raises=False)
        return settle_transactions(everything, self._codecs, self.log_end_offset).end_offset

    @property
    def log_end_offset(self) -> int:
        """One more than the last readable offset; the log start when there is none.

        The first use reads the whole file.
        """
        if self._log_end_offset is None:
            end = self.log_start_offset
            for chunk in self._chunks(self._file, end, MAX_LONG, raises=False).headers_only():
                end = int(chunk.headers["last_offset"][-1]) + 1
            self._log_end_offset = end
        return self._log_end_offset

    def _chunks(
        self, file: FileBytes, start_offset: int, end_offset: int, *, raises: bool, **more: Any
    ) -> ReadableChunks:
        return ReadableChunks(
            [file],
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
        """Return a range of the file, to be read lazily; parameters as in `Log.scan`.

        Offsets outside of the file are not an error: they have no records. ``read_committed`` uses
        the markers in this file, and ends where the first transaction without a marker begins.
        """
        flag("check_crcs", check_crcs)
        start = (
            self.log_start_offset if start_offset is None else integer("start_offset", start_offset)
        )
        end = MAX_LONG if end_offset is None else integer("end_offset", end_offset)
        check_range(start, end, "offset")
        low, high = timestamp_bounds(start_timestamp, end_timestamp)
        raises = not skips_damage(on_damage, check_crcs=check_crcs)
        file, settled = self._file, None
        if not check_crcs:
            file = FileBytes(self._directory, file.name, file.size_bytes, check_crcs=False)
        if isolation_of(isolation) is Isolation.READ_COMMITTED:
            everything = self._chunks(file, start, MAX_LONG, raises=False)
            settled = settle_transactions(everything, self._codecs, MAX_LONG)
            end = min(end, settled.end_offset)
        undecided = settled.undecided if settled is not None else ()
        return LogScan(
            self._chunks(file, start, end, raises=raises, undecided=undecided),
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

    def __iter__(self) -> Iterator[Record]:
        """Yield all records, of aborted and open transactions too."""
        return iter(self.scan())

    def __len__(self) -> int:
        """Return the number of records; the whole file is read."""
        return len(self.scan())

    def __bool__(self) -> bool:
        """Return True: a file without records is a segment too."""
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

    def offset_for_timestamp(self, timestamp: int | datetime) -> int | None:
        """Return the offset of the first record with that timestamp or a later one, or None."""
        scan = self.scan(start_timestamp=timestamp, columns=("offset",), on_damage="skip")
        return next((record.offset for record in scan), None)

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        self._directory.close()

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


def _directory_and_size(path: str) -> tuple[Directory, int]:
    """Open the directory that the file at *path* is in; returns the file's size too."""
    above, name = os.path.split(path)
    try:
        with ExitStack() as stack:
            directory = stack.enter_context(closing(Directory(above)))
            info = directory.info(name)
            if info.is_regular:
                stack.pop_all()
                return directory, info.size
    except (LogNotFoundError, NotALogError) as error:
        raise LogNotFoundError("there is no such file", file=path) from error
    raise NotALogError(
        "this is no file: segstore.open reads the directory of a partition",
        file=path,
        found="a directory" if info.is_directory else "no regular file",
        expected="a .log file",
    )
