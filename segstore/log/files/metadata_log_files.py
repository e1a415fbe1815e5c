"""The files of a KRaft metadata log: its segments and its snapshots, read batch by batch.

Source: [format.md 6.4, 16.3], [RAFT-20…RAFT-23, RAFT-46…RAFT-48]. Nothing is written, and nothing
is locked: a broker may have the directory open.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from segstore._core import (
    SegmentListing,
    check_batch,
    first_batch_size,
    iterate_raw_records,
    scan_headers,
)
from segstore.errors import CorruptLogError, OffsetOutOfRangeError, SegstoreError
from segstore.log.files.partition_directory import file_name
from segstore.records.compression import codec_table
from segstore.records.control_record import ControlRecordType, parse_control_key
from segstore.types import CONTROL_FLAG, CURRENT_MAGIC

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from segstore._core import Directory, RawRecord

CHUNK_BYTES: Final = 1024 * 1024
SAME_LEADING_BYTES: Final = 5
"""Of the offsets of two batches that lie less than 2^24 records apart."""
MAGIC_POSITION: Final = 16
PREFIX_BYTES: Final = 17

_SNAPSHOT_NAME: Final = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint", re.ASCII)


class SnapshotId(NamedTuple):
    """What a snapshot covers; a later one is greater [RAFT-20]."""

    epoch: int
    end_offset: int
    """One more than the last offset that it contains."""

    @property
    def name(self) -> str:
        """The file's name [RAFT-21]."""
        return f"{self.end_offset:020}-{self.epoch:010}.checkpoint"


class MetadataBatch(NamedTuple):
    """One whole batch with a right checksum."""

    file: str
    position: int
    base_offset: int
    last_offset: int
    epoch: int
    timestamp: int
    is_control: bool
    data: memoryview

    def records(self) -> Iterator[RawRecord]:
        """Yield the records.

        Raises
        ------
        CorruptLogError
            The checksum is right, and the content is not.
        """
        try:
            yield from iterate_raw_records(self.data, codec_table())
        except SegstoreError as error:
            raise CorruptLogError(
                f"a batch of the metadata log cannot be read: {error.message}",
                file=self.file,
                position=self.position + (error.position or 0),
                found=error.found,
                expected=error.expected,
            ) from error


def snapshot_ids(names: Iterable[str]) -> list[SnapshotId]:
    """Return the finished snapshots among *names*, the newest first [RAFT-21, RAFT-22].

    Those that are being written or deleted have other names.
    """
    found = filter(None, map(_SNAPSHOT_NAME.fullmatch, names))
    return sorted((SnapshotId(int(one[2]), int(one[1])) for one in found), reverse=True)


class MetadataFile:
    """One segment or snapshot.

    Attributes
    ----------
    end_position : int
        Where the last whole batch ends, after `batches` has ended.
    torn_bytes : int
        What follows it: a write that was interrupted, or zeros.
    """

    def __init__(self, directory: Directory, name: str) -> None:
        self.name = name
        self.path = f"{directory.path}/{name}"
        self.end_position = self.torn_bytes = 0
        self._directory = directory

    def batches(self, next_offset: int) -> Iterator[MetadataBatch]:
        """Yield the batches, of which the first begins with *next_offset*.

        Raises
        ------
        CorruptLogError
            Bytes are no batch, or a batch has other offsets than follow.
        """
        position = self.torn_bytes = 0
        wanted = CHUNK_BYTES
        while True:
            data = memoryview(self._directory.read_range(self.name, position, wanted))
            table, scan = scan_headers(data, check_crc=True)
            for header in map(table.__getitem__, range(len(table))):
                start = header.position
                batch = MetadataBatch(
                    self.path,
                    position + start,
                    header.base_offset,
                    header.last_offset,
                    header.partition_leader_epoch,
                    header.max_timestamp,
                    bool(header.attributes & CONTROL_FLAG),
                    data[start : start + header.size_bytes],
                )
                if batch.base_offset != next_offset:
                    raise CorruptLogError(
                        "a batch of the metadata log does not follow the one before it",
                        file=self.path,
                        position=batch.position,
                        found=f"offset {batch.base_offset}",
                        expected=f"offset {next_offset}",
                    )
                yield batch
                next_offset = batch.last_offset + 1
            self.end_position = position = position + scan.valid_bytes
            rest = data[scan.valid_bytes :]
            if scan.why is not None:
                if not self._is_zero_from(position):
                    raise self._damaged(position, scan.why)
                self.torn_bytes = self._directory.info(self.name).size - position
                return
            if len(data) < wanted:
                self._check_torn(bytes(rest), position, next_offset)
                self.torn_bytes = len(rest)
                return
            wanted = max(CHUNK_BYTES, first_batch_size(rest) or 0)

    def _is_zero_from(self, position: int) -> bool:
        while data := self._directory.read_range(self.name, position, CHUNK_BYTES):
            if data.strip(b"\0"):
                return False
            position += len(data)
        return True

    def _damaged(self, position: int, why: SegstoreError) -> CorruptLogError:
        error = CorruptLogError(
            f"the metadata log is damaged: {why.message}",
            file=self.path,
            position=position,
            found=why.found,
            expected=why.expected,
        )
        error.__cause__ = why
        return error

    def _check_torn(self, rest: bytes, position: int, next_offset: int) -> None:
        """Raise where a whole batch lies in *rest*: then the length before it is wrong."""
        leading = next_offset.to_bytes(8)[:SAME_LEADING_BYTES]
        at = rest.find(leading, 1)
        while at >= 0:
            if _is_batch(rest, at):
                raise CorruptLogError(
                    "the length of a batch of the metadata log is wrong",
                    file=self.path,
                    position=position,
                    found=f"more than the {len(rest)} bytes that follow",
                    expected=f"at most {at} bytes: a whole batch begins there",
                )
            at = rest.find(leading, at + 1)


def _is_batch(data: bytes, at: int) -> bool:
    head = data[at : at + PREFIX_BYTES]
    if len(head) < PREFIX_BYTES or head[MAGIC_POSITION] != CURRENT_MAGIC:
        return False
    with suppress(SegstoreError):
        check_batch(data[at : at + (first_batch_size(head) or 0)])
        return True
    return False


def is_whole_snapshot(file: MetadataFile) -> bool:
    """Whether a snapshot has its first and its last record [RAFT-47].

    Raises
    ------
    CorruptLogError
        It is damaged, or begins with another record.
    """
    first = last = None
    for batch in file.batches(0):
        first = first or batch
        last = batch
    if first is None or last is None:
        return False
    if ControlRecordType.SNAPSHOT_HEADER not in _control_types(first)[:1]:
        raise CorruptLogError(
            "this is no snapshot of a metadata log: it does not begin with a snapshot header",
            file=file.path,
            position=0,
            found="another record",
            expected="a control record SNAPSHOT_HEADER",
        )
    footer = ControlRecordType.SNAPSHOT_FOOTER
    return not file.torn_bytes and footer in _control_types(last)[-1:]


def _control_types(batch: MetadataBatch) -> list[ControlRecordType]:
    if not batch.is_control:
        return []
    return [parse_control_key(record.key).type for record in batch.records()]


class MetadataLogFiles:
    """What of a metadata log has to be read: the newest whole snapshot, and the log after it.

    Parameters
    ----------
    directory : Directory
        ``__cluster_metadata-0``. Its names are listed once: a broker that takes a snapshot
        deletes older files, and each listing has what belongs together.
    at : int or None
        Only records below this offset are read, and snapshots of them; None = all.

    Attributes
    ----------
    snapshot : SnapshotId or None
        The one to begin with.
    incomplete_snapshots : tuple of str
        Names of later ones that were passed over: their end is missing.
    torn_bytes : int
        Of the log, after `batches` has ended.

    Raises
    ------
    CorruptLogError
        A snapshot is damaged.
    OffsetOutOfRangeError
        What is below *at* is gone: later snapshots have replaced it.
    """

    def __init__(self, directory: Directory, at: int | None = None) -> None:
        self.torn_bytes = 0
        self._at = at
        self.snapshot: SnapshotId | None = None
        incomplete = []
        self._directory = directory
        names = directory.names()
        self._bases = SegmentListing(names).base_offsets("log").tolist()
        ids = snapshot_ids(names)
        for one in ids:
            if at is not None and one.end_offset > at:
                continue
            if is_whole_snapshot(MetadataFile(directory, one.name)):
                self.snapshot = one
                break
            incomplete.append(one.name)
        self.incomplete_snapshots = tuple(incomplete)
        if at is not None and self.snapshot is None and (self._bases[:1] or [0])[0] > 0:
            oldest = min((one.end_offset for one in ids if one.end_offset > at), default="none")
            raise OffsetOutOfRangeError(
                f"what the metadata was at offset {at} is gone: a later snapshot has replaced it",
                file=directory.path,
                found=f"a log that begins at {self._bases[0]}, an oldest snapshot that ends at"
                f" {oldest}",
                expected=f"a log that begins at 0, or a snapshot that ends at {at} or below",
            )

    def snapshot_batches(self) -> Iterator[MetadataBatch]:
        """Yield the batches of the snapshot; their offsets begin with 0."""
        if self.snapshot is not None:
            yield from MetadataFile(self._directory, self.snapshot.name).batches(0)

    def batches(self) -> Iterator[MetadataBatch]:
        """Yield the batches that reach beyond the snapshot.

        The first one may begin before its end. A snapshot of a later epoch replaces the whole log
        [RAFT-23].

        Raises
        ------
        CorruptLogError
            The log is damaged, or lacks records.
        """
        start = 0 if self.snapshot is None else self.snapshot.end_offset
        if self.snapshot is not None:
            last_epoch = max((batch.epoch for batch in self._log_batches(start)), default=-1)
            if last_epoch < self.snapshot.epoch:
                return
        yield from (batch for batch in self._log_batches(start) if batch.last_offset >= start)

    def _log_batches(self, start: int) -> Iterator[MetadataBatch]:
        bases = self._bases
        if not bases:
            return
        if bases[0] > start:
            raise self._missing(start, bases[0])
        bases = [*[base for base in bases if base <= start][-1:], *[b for b in bases if b > start]]
        next_offset = bases[0]
        for base, following in zip(bases, [*bases[1:], None], strict=True):
            if base != next_offset:
                raise self._missing(next_offset, base)
            file = MetadataFile(self._directory, file_name(base, "log"))
            for batch in file.batches(base):
                if self._at is not None and batch.base_offset >= self._at:
                    return
                yield batch
                next_offset = batch.last_offset + 1
            self.torn_bytes = file.torn_bytes
            if file.torn_bytes and following is not None:
                raise CorruptLogError(
                    "a segment of the metadata log ends inside a batch",
                    file=file.path,
                    position=file.end_position,
                    found=f"offset {next_offset}",
                    expected=f"records up to offset {following - 1}",
                ).lacks(next_offset, following)

    def _missing(self, first_offset: int, next_offset: int) -> CorruptLogError:
        """Return the error for a log that does not hold the offsets from *first_offset* on."""
        incomplete = ", ".join(self.incomplete_snapshots)
        reason = f"; these snapshots are incomplete: {incomplete}" if incomplete else ""
        return CorruptLogError(
            f"the metadata log lacks the records {first_offset} to {next_offset - 1}{reason}",
            file=self._directory.path,
            found=f"a segment that begins with offset {next_offset}",
            expected=f"offset {first_offset}",
        ).lacks(first_offset, next_offset)
