"""What quarantine files hold: records that an open for writing took out of a log [DUR-59].

It keeps what it cuts, and whole segments that it takes out, as ``<base offset>.quarantine-<n>``.
No open reads these files again; a check, and a salvage, has to know of the records in them.
"""

from __future__ import annotations

import re
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from segstore.log.files.recovery_advice import WAY_BACK
from segstore.log.local.batch_search import BatchSearch, NoBatch
from segstore.log.local.file_bytes import FileBytes
from segstore.log.local.segment import Segment
from segstore.numpy_on_demand import np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from segstore._core import BatchHeaders, Directory, ScanResult, SegmentContext

_NAME: Final = re.compile(r"([0-9]{20})\.quarantine-[1-9][0-9]{0,17}", re.ASCII)


class QuarantinedFile(NamedTuple):
    """One of them, and the records in it that the log does not have."""

    name: str
    size_bytes: int
    batches: int
    """Whole ones, from the log start on, that are not in the log as they are here."""
    first_offset: int
    next_offset: int
    unreadable_bytes: int = 0
    """That the disk does not give out: what is in them nobody knows."""
    deleted_batches: int = 0
    """Whole ones that end below the log start: they count as deleted, and nobody misses them."""
    deleted_first_offset: int = 0
    deleted_next_offset: int = 0
    log_start_offset: int = 0
    damaged_bytes: int = 0
    """That are no whole batch: what is in them may have been acknowledged."""

    def __str__(self) -> str:
        where = f"{self.name}, {self.size_bytes} bytes that an open for writing took out of the log"
        if self.unreadable_bytes:
            where += f", of which the disk cannot read {self.unreadable_bytes}"
        if self.batches:
            there = _range_text(self.batches, self.first_offset, self.next_offset)
            where += f": {there}, which the log does not have"
        if self.deleted_batches:
            there = _range_text(
                self.deleted_batches, self.deleted_first_offset, self.deleted_next_offset
            )
            where += (
                f"{'; and ' if self.batches else ': '}{there}, below the log start"
                f" {self.log_start_offset}: deleted, or quarantined for a wrong log start;"
                f" {WAY_BACK}"
            )
        elif not self.batches:
            where += ": they hold no whole batch that the log lacks"
        if self.damaged_bytes:
            where += (
                f"; {self.damaged_bytes} bytes of incomplete batches may hold acknowledged records"
            )
        return where


def _range_text(batches: int, first_offset: int, next_offset: int) -> str:
    count = "1 batch" if batches == 1 else f"{batches} batches"
    return f"{count} with offsets {first_offset} to {next_offset - 1}"


def quarantine_names(names: Iterable[str]) -> list[str]:
    """Return those of *names* that are quarantine files, in the order of their offsets."""
    return sorted(name for name in names if _NAME.fullmatch(name))


def base_offset_of(name: str) -> int:
    """Return the base offset of the segment whose bytes a quarantine file keeps."""
    return int(name[:20])


class QuarantineNames:
    """Names for more quarantine files: newer than any that is there.

    Parameters
    ----------
    read_names : callable
        Returns the names in the directory; called once, when it is needed.
    """

    def __init__(self, read_names: Callable[[], Iterable[str]]) -> None:
        self._read_names = read_names
        self._newest: dict[int, int] | None = None
        self._there: set[str] = set()

    def _known(self) -> dict[int, int]:
        if self._newest is None:
            self._newest = {}
            self.take(quarantine_names(self._read_names()))
        return self._newest

    def take(self, names: Iterable[str]) -> None:
        """Count *names* as given away."""
        newest = self._known()
        for name in names:
            self._there.add(name)
            base_offset = base_offset_of(name)
            number = int(name.rpartition("-")[2])
            newest[base_offset] = max(number, newest.get(base_offset, 0))

    def is_there(self, name: str) -> bool:
        """Whether that name is given away."""
        self._known()
        return name in self._there

    def next_of(self, base_offset: int) -> str:
        """Return a name that is given away with that."""
        name = quarantine_name(base_offset, self._known().get(base_offset, 0) + 1)
        self.take([name])
        return name


def quarantine_name(base_offset: int, number: int) -> str:
    """Return the name of a segment's quarantine file."""
    return f"{base_offset:020d}.quarantine-{number}"


def quarantine_hint(directory: Directory) -> str:
    """Return what is added where a log has no record; empty without a quarantine file [DUR-59]."""
    names = quarantine_names(directory.names())
    return f"; records may be in {names[0]}: {WAY_BACK}" if names else ""


def quarantined_files(
    directory: Directory,
    context: SegmentContext,
    base_offsets: Sequence[int],
    log_start_offset: int,
) -> list[QuarantinedFile]:
    """Read all quarantine files of a partition, and compare them with its segments.

    Parameters
    ----------
    directory : Directory
        The partition's.
    context : SegmentContext
        To read the segments.
    base_offsets : sequence of int
        Of the segments, ascending.
    log_start_offset : int
        What lies below it counts as deleted, and is missed by nobody: it is only named.
    """
    found = []
    for name in quarantine_names(directory.names()):
        info = directory.info(name)
        if not info.is_regular:
            continue
        batches, unreadable_bytes, damaged_bytes = _whole_batches(directory, name, info.size)
        is_deleted = batches["last_offset"] < log_start_offset
        deleted, batches = batches[is_deleted], batches[~is_deleted]
        if len(batches):
            there = keys_within(
                directory,
                context,
                base_offsets,
                int(batches["base_offset"].min()),
                int(batches["last_offset"].max()),
            )
            batches = batches[~np.isin(batch_keys(batches), there)]
        found.append(
            QuarantinedFile(
                name,
                info.size,
                len(batches),
                int(batches["base_offset"].min()) if len(batches) else int(name[:20]),
                int(batches["last_offset"].max()) + 1 if len(batches) else int(name[:20]),
                unreadable_bytes,
                len(deleted),
                int(deleted["base_offset"].min()) if len(deleted) else 0,
                int(deleted["last_offset"].max()) + 1 if len(deleted) else 0,
                log_start_offset,
                damaged_bytes,
            )
        )
    return found


def _whole_batches(directory: Directory, name: str, size_bytes: int) -> tuple[np.ndarray, int, int]:
    """Return the whole batches of a file, also behind damage, what is unreadable, and no batch."""
    bytes_there: Any = _BytesOfFile(directory, name, size_bytes)
    reasons: dict[tuple[int, int], NoBatch] = {}
    search = BatchSearch(directory, bytes_there, name, 0, reasons, lambda _: None)
    lost = [row for rows in search.rows() for row in rows[~rows["whole"]]]
    unreadable_bytes = sum(
        int(row["size"]) for row in lost if reasons[0, int(row["position"])].os_error is not None
    )
    lost_bytes = sum(int(row["size"]) for row in lost)
    return bytes_there.batches(), unreadable_bytes, lost_bytes - unreadable_bytes


def keys_within(
    directory: Directory,
    context: SegmentContext,
    base_offsets: Sequence[int],
    first_offset: int,
    last_offset: int,
) -> np.ndarray:
    """Return the keys of the batches in the segments that may hold these offsets."""
    keys = [np.empty(0, np.uint64)]
    for base, following in zip_longest(base_offsets, base_offsets[1:]):
        if base > last_offset or (following is not None and following <= first_offset):
            continue
        segment, stop = Segment(context, base), "complete"
        try:
            for headers, scan in segment.scan_windows(check_crc=False):
                keys.append(batch_keys(headers))
                stop = scan.stop
            if stop in {"corrupt", "incomplete", "order"}:  # and it may go on behind that
                batches, *_ = _whole_batches(directory, segment.name, segment.size_bytes)
                keys.append(batch_keys(batches))
        finally:
            segment.close_quietly()
    return np.concatenate(keys)


def batch_keys(headers: np.ndarray) -> np.ndarray:
    """Return a number a batch, the same for the same bytes at the same offset."""
    offsets = headers["base_offset"].astype(np.uint64)
    return np.asarray((offsets << np.uint64(32)) ^ headers["crc"].astype(np.uint64))


class _BytesOfFile:
    """A file named by a base offset, gone through as a segment is; keeps what was found."""

    def __init__(self, directory: Directory, name: str, size_bytes: int) -> None:
        self.base_offset = int(name[:20])
        self.size_bytes = size_bytes
        self._file = FileBytes(directory, name, size_bytes, self.base_offset)
        self._found: list[BatchHeaders] = []

    def batches(self) -> np.ndarray:
        """Return base offset, last offset and CRC of the whole batches."""
        kinds = [("base_offset", "i8"), ("last_offset", "i8"), ("crc", "u4")]
        rows = np.zeros(sum(map(len, self._found)), kinds)
        for name, _ in kinds:
            rows[name] = np.concatenate([[], *(headers[name] for headers in self._found)])
        return rows

    def scan(self, **piece: int) -> tuple[BatchHeaders, ScanResult]:
        """Scan a piece, as `FileBytes.scan` does."""
        headers, result = self._file.scan(**piece)
        self._found.append(headers)
        return headers, result

    def scan_result(self, **piece: int) -> ScanResult:
        """Scan a piece, as `FileBytes.scan_result` does."""
        return self._file.scan_result(**piece)
