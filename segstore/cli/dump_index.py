"""The text of .index and .timeindex files, and their check against the log [18.3, 18.4]."""

from __future__ import annotations

import bisect
import os
import struct
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from segstore.cli.batch_file import BatchFile, open_for_reading, pieces_of
from segstore.cli.dump_log import batch_records, named_base_offset
from segstore.cli.dump_report import IndexFindings, absolute_path
from segstore.cli.output import say, write, write_line
from segstore.errors import CorruptIndexError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from segstore.cli.dump_report import DumpOptions, Findings

OFFSET_ENTRY = struct.Struct(">ii")
TIME_ENTRY = struct.Struct(">qi")
READ_ENTRIES = 8192


class IndexEntry(NamedTuple):
    """An entry of either index; ``number`` is its place in the file."""

    number: int
    offset: int
    value: int
    """Position in the log, or timestamp."""


def dump_offset_index(path: str, options: DumpOptions, findings: Findings) -> None:
    """Print the entries of the offset index at *path*; compare each with the batch it names."""
    base_offset = _base_offset_of(path)
    with _log_beside(path) as log:
        size_bytes = _file_size(path)
        if size_bytes < OFFSET_ENTRY.size:
            write_line(f"{path} is empty.")
            return
        if options.index_sanity_check:
            _sanity_check(path, base_offset, OFFSET_ENTRY)
            write_line(f"{path} passed sanity check.")
            return
        for entry in used_entries(path, base_offset, OFFSET_ENTRY):
            if log is not None:
                last_offset = _last_offset_at(log, entry, options.max_message_size, path)
                if last_offset != entry.offset:
                    absolute = absolute_path(path)
                    findings.offset_mismatches.setdefault(absolute, {})[entry.offset] = last_offset
            if not options.verify_index_only:
                write(f"offset: {entry.offset} position: {entry.value}\n".encode())


def dump_time_index(path: str, options: DumpOptions, findings: Findings) -> None:
    """Print the entries of the time index at *path* and compare each with the log."""
    base_offset = _base_offset_of(path)
    index_path = _beside(path, ".index")
    with _log_beside(path) as log:
        _file_size(path)
        lookup = PositionLookup(index_path, base_offset)
        if options.index_sanity_check:
            _sanity_check(path, base_offset, TIME_ENTRY)
            write_line(f"{path} passed sanity check.")
            return
        noted = IndexFindings(absolute_path(path))
        findings.time_indexes.append(noted)
        previous = -1
        for entry in used_entries(path, base_offset, TIME_ENTRY):
            if log is not None:
                _compare(entry, previous, log, lookup.position(entry.offset), noted)
            if not options.verify_index_only:
                write(f"timestamp: {entry.value} offset: {entry.offset}\n".encode())
            previous = entry.value


def _compare(
    entry: IndexEntry, previous: int, log: BatchFile, position: int, noted: IndexFindings
) -> None:
    """Note what is wrong with an entry of a time index, behind one with timestamp *previous*."""
    timestamp = entry.value
    last_offset, max_timestamp = _batch_with(log, entry.offset, position)
    if last_offset != entry.offset:
        noted.not_found.append((entry.offset, last_offset))
        return
    if max_timestamp != timestamp:
        noted.mismatches.append((timestamp, max_timestamp))
    if previous >= timestamp:
        noted.out_of_order.append((timestamp, previous))


class PositionLookup:
    """Offset to position by an offset index file; 0 below its first entry [IDX-7]."""

    def __init__(self, path: str, base_offset: int) -> None:
        self._offsets: list[int] = []
        self._positions: list[int] = []
        previous = -1
        if not Path(path).exists():
            return
        for entry in used_entries(path, base_offset, OFFSET_ENTRY):
            if entry.offset <= previous:
                break  # what does not increase is padding or damage [DUR-80]
            previous = entry.offset
            self._offsets.append(entry.offset)
            self._positions.append(entry.value)

    def position(self, offset: int) -> int:
        """Return the position of the last entry at or below *offset*."""
        rank = bisect.bisect_right(self._offsets, offset)
        return self._positions[rank - 1] if rank else 0


def used_entries(path: str, base_offset: int, layout: struct.Struct) -> Iterator[IndexEntry]:
    """Yield the entries of an index file up to its unused tail.

    A file that a crash left preallocated ends in zeros: an entry for the base offset, other than
    the first, is where Kafka stops.
    """
    number = 0
    for data in pieces_of(path, layout.size * READ_ENTRIES):
        whole = len(data) - len(data) % layout.size
        for first, second in layout.iter_unpack(data[:whole]):
            relative, value = (first, second) if layout is OFFSET_ENTRY else (second, first)
            if relative == 0 and number > 0:
                return
            yield IndexEntry(number, base_offset + relative, value)
            number += 1


def _base_offset_of(path: str) -> int:
    base_offset = named_base_offset(Path(path).name)
    if base_offset is None:
        say(f"{path}: its name is no base offset: the offsets count from the segment's first one")
    return base_offset or 0


def _log_beside(path: str) -> AbstractContextManager[BatchFile | None]:
    """Open the log of an index; None where the index is alone."""
    beside = _beside(path, ".log")
    if Path(beside).exists():
        return BatchFile(beside)
    say(f"{path}: there is no {Path(beside).name} beside it: its entries are not compared")
    return nullcontext()


def _beside(path: str, suffix: str) -> str:
    """Return the path of the file of the same segment with another suffix."""
    directory, slash, name = path.rpartition("/")
    return f"{directory}{slash}{name.split('.')[0]}{suffix}"


def _file_size(path: str) -> int:
    descriptor = open_for_reading(path)
    try:
        return os.fstat(descriptor).st_size
    finally:
        os.close(descriptor)


def _sanity_check(path: str, base_offset: int, layout: struct.Struct) -> None:
    """Kafka's sanity check of format.md 13.2 and 13.3, by the core."""
    import segstore._core as _core

    directory = _core.Directory(str(Path(path).absolute().parent))
    try:
        kind = _core.OffsetIndex if layout is OFFSET_ENTRY else _core.TimeIndex
        index = kind(directory, Path(path).name, base_offset)
        try:
            index.sanity_check()
        finally:
            index.close()
    finally:
        directory.close()


def _last_offset_at(log: BatchFile, entry: IndexEntry, max_bytes: int, path: str) -> int:
    batch = None
    if 0 <= entry.value <= log.size_bytes:
        batch = next(log.batches(entry.value, max_bytes), None)
    if batch is None:
        raise CorruptIndexError(
            f"entry {entry.number} (offset {entry.offset}) points at byte {entry.value} of the "
            f"log, where no whole batch begins within {max_bytes} bytes",
            file=path,
            position=entry.number * OFFSET_ENTRY.size,
            found=f"position {entry.value}",
            expected=f"the start of a batch, below {log.size_bytes}",
        )
    return batch.last_offset


def _batch_with(log: BatchFile, offset: int, position: int) -> tuple[int, int]:
    """Return the last offset and largest timestamp of the first batch that reaches *offset*.

    (-1, -1) where there is none.
    """
    if not 0 <= position <= log.size_bytes:
        return -1, -1
    for batch in log.batches(position):
        if batch.last_offset >= offset:
            timestamps = (record.timestamp for record in batch_records(batch, log.path))
            return batch.last_offset, max(timestamps, default=-1)
    return -1, -1
