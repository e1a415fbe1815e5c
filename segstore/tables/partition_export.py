"""Export of a range of one partition into one file, which appears when it is whole."""

from __future__ import annotations

import errno
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from segstore.errors import (
    CorruptLogError,
    DiskFullError,
    IllegalArgumentError,
    OffsetOutOfRangeError,
    SegstoreError,
    WriteError,
)
from segstore.notebook import text_as_html
from segstore.tables.batch_comparison import first_misplaced_row, first_other_batch
from segstore.tables.parquet_files import COLUMNS
from segstore.tables.parquet_reader import ParquetReader
from segstore.tables.parquet_writer import write_parquet
from segstore.tables.row_comparison import first_difference
from segstore.tables.whole_file import whole_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from segstore.log.scan import LogScan
    from segstore.tables.offset_ranges import OffsetRange


class ExportReport(NamedTuple):
    """What was written to one file.

    Attributes
    ----------
    path : str
        Of the file.
    topic, partition : str, int
        Whose records it holds.
    from_offset, until_offset : int
        The offsets that it stands for: ``from_offset <= offset < until_offset``.
    records, batches : int
        Rows, and stored batches that the file knows, markers too.
    size_bytes : int
        Of the file.
    """

    path: str
    topic: str
    partition: int
    from_offset: int
    until_offset: int
    records: int
    batches: int
    size_bytes: int

    def _repr_html_(self) -> str:
        return text_as_html(self)


def export_range(  # noqa: PLR0913 - what, where, how, who is told
    scan: LogScan,
    file: Path,
    run: str,
    offsets: OffsetRange,
    isolation: str,
    *,
    planned: Sequence[OffsetRange] = (),
    leader_epochs: Sequence[tuple[int, int]] = (),
    compression: str = "zstd",
    verify: bool = False,
    progress: Callable[[int], None] | None = None,
) -> ExportReport:
    """Write the records of *scan* to *file*, whole and on stable storage.

    Parameters
    ----------
    run : str
        Of `whole_file`; it names what a kill leaves.
    verify : bool
        Read the file back, and compare it with the log, before it gets its name.
    scan, offsets, isolation, planned, leader_epochs, compression, progress
        As for `write_parquet`.

    Raises
    ------
    CorruptLogError
        With *verify*: the file is not what was written.
    OffsetOutOfRangeError
        The range begins above its end, where visible data ends.
    DiskFullError, WriteError
        The file system refuses the file; there is none then.
    """
    if offsets.size < 0:
        raise OffsetOutOfRangeError(
            f"the export of {offsets.topic_partition} would begin above the last stable offset "
            f"{offsets.until_offset}, where data that {isolation} sees ends",
            found=str(offsets.from_offset),
            expected=f"at most {offsets.until_offset}",
        )
    with _naming_write_errors(file), whole_file(file, run) as part:
        written = write_parquet(
            scan,
            part,
            offsets,
            isolation,
            planned=planned,
            leader_epochs=leader_epochs,
            compression=compression,
            progress=progress,
        )
        if verify:
            _compare(scan, str(part), written.records)
        size_bytes = part.stat().st_size
    return ExportReport(
        str(file),
        offsets.topic,
        offsets.partition,
        offsets.from_offset,
        offsets.until_offset,
        written.records,
        written.batches,
        size_bytes,
    )


def _compare(scan: LogScan, path: str, records: int) -> None:
    import pyarrow as pa

    expected = (pa.record_batch(one) for one in scan._arrow_batches(COLUMNS))  # noqa: SLF001 - as it was written
    reader = ParquetReader(path)
    what, difference = "record", first_difference(expected, reader.rows())
    if difference is None and reader.records != records:
        difference = reader.offsets.until_offset
    if difference is None and reader.keeps_batches:
        what, difference = (
            "batch",
            first_other_batch(scan, reader.batches(), ignores_codec=False, is_source=True),
        )
        if difference is None:
            difference = first_misplaced_row(reader.row_offsets(), reader.batches())
    if difference is not None:
        raise CorruptLogError(
            "the file that was written is not what the log holds: check the disk, and export again",
            file=path,
            found=f"another {what} at offset {difference}",
            expected="the log's",
        )


def make_folder(folder: Path) -> None:
    """Make the folder of an export, and those above it.

    Raises
    ------
    IllegalArgumentError
        It, or one above it, is a file.
    DiskFullError, WriteError
        The file system refuses it.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise IllegalArgumentError(
            "the export needs a folder, and this is a file, or lies below one: name another",
            file=str(folder),
            found="a file",
            expected="a folder, or nothing",
        ) from error
    except OSError as error:
        raise _write_error("the folder of the export cannot be made", folder, error) from error


@contextmanager
def _naming_write_errors(path: Path) -> Iterator[None]:
    """Raise what the file system says about *path* as an error of this library."""
    try:
        yield
    except SegstoreError:
        raise
    except OSError as error:
        if not path.parent.is_dir():
            raise WriteError(
                "the Parquet file cannot be written: its folder does not exist, create it first",
                file=str(path),
                os_error=error.errno,
            ) from error
        raise _write_error("the Parquet file cannot be written", path, error) from error


def _write_error(what: str, path: Path, error: OSError) -> DiskFullError | WriteError:
    kind = DiskFullError if error.errno in {errno.ENOSPC, errno.EDQUOT} else WriteError
    return kind(f"{what}: {error}", file=str(path), os_error=error.errno)
