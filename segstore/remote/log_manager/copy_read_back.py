"""Whether what remote storage has of a segment is what was copied [DUR-140].

A plugin may call a copy done that was cut, or that another file took the place of. So each byte is
asked for again, and compared with the file here.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from segstore._core import crc32c, scan_headers
from segstore.errors import RemoteStorageError
from segstore.remote.storage.remote_storage_manager import IndexType

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from segstore.log.local.segment import Segment
    from segstore.log.sealed_segment_files import SealedSegmentFiles
    from segstore.log.unified_log import UnifiedLog
    from segstore.remote.metadata.segment_metadata import RemoteLogSegmentMetadata
    from segstore.remote.storage.remote_storage_manager import RemoteStorageManager

_PIECE_BYTES: Final = 4 * 1024 * 1024


def read_back(
    storage: RemoteStorageManager, metadata: RemoteLogSegmentMetadata, files: SealedSegmentFiles
) -> None:
    """Read all of a copy, and compare it with the files of the segment.

    Raises
    ------
    RemoteStorageError
        Another length or checksum; or what reading it raises.
    """
    for position, size, there in _pieces(storage, metadata):
        _check(files.log_segment, files.read_log(position, size), there, position)
    for kind, path in (
        (IndexType.OFFSET, files.offset_index),
        (IndexType.TIMESTAMP, files.time_index),
        (IndexType.TRANSACTION, files.transaction_index),
        (IndexType.PRODUCER_SNAPSHOT, files.producer_snapshot),
    ):
        if path is not None:
            _check(path, files.read(path), storage.fetch_index(metadata, kind))
    epochs = storage.fetch_index(metadata, IndexType.LEADER_EPOCH)
    _check("leader epochs", files.leader_epoch_checkpoint, epochs)


def is_as_here(
    storage: RemoteStorageManager, metadata: RemoteLogSegmentMetadata, log: UnifiedLog
) -> bool | None:
    """Read all records of a copy: whether they are those of the log, in whatever segments.

    Where the log begins later here, the batches before are only checked. None, and nothing is read:
    it begins behind the copy.

    Raises
    ------
    RemoteStorageError
        It cannot be read.
    """
    segments = log.segments()
    first_here = max(segments[0].base_offset, metadata.start_offset)
    if first_here > metadata.end_offset:
        return None
    at = 0  # in the copy
    if first_here > metadata.start_offset:
        found = _end_of_batches_before(storage, metadata, first_here)
        if found is None:
            return False
        at = found
    for here in _bytes_of(segments, first_here, metadata.end_offset + 1):
        end = at + len(here)
        if end > metadata.segment_size_bytes:
            return False
        if bytes(storage.fetch_log_segment(metadata, at, end)) != here:
            return False
        at = end
    return at == metadata.segment_size_bytes


def _bytes_of(
    segments: Sequence[Segment], start_offset: int, end_offset: int
) -> Iterator[bytearray]:
    """Yield the bytes of a range of offsets, from its first batch on, in pieces."""
    for segment, following in zip_longest(segments, segments[1:]):
        if following is not None and following.base_offset <= start_offset:
            continue
        if segment.base_offset >= end_offset:
            break
        first = segment.translate_offset(max(start_offset, segment.base_offset))
        behind = segment.translate_offset(end_offset)
        end = segment.size_bytes if behind is None else behind.position
        begin = end if first is None else first.position
        for position in range(begin, end, _PIECE_BYTES):
            piece = bytearray(min(_PIECE_BYTES, end - position))
            segment.read_into(piece, position)
            yield piece


def _end_of_batches_before(
    storage: RemoteStorageManager, metadata: RemoteLogSegmentMetadata, offset: int
) -> int | None:
    """Return where the batches of a copy end that lie below *offset*.

    None: one of them is damaged, or reaches over *offset*.
    """
    rest, begin = b"", 0  # what is not scanned yet, and where that begins
    for _, _, there in _pieces(storage, metadata):
        data = rest + there
        batches, result = scan_headers(data, check_crc=True)
        row = batches.first_row(offset)
        if row < len(batches):
            position, _, base_offset = batches.place(row)
            return begin + position if base_offset >= offset else None
        if result.stop not in {"complete", "incomplete"}:
            return None
        rest, begin = data[result.valid_bytes :], begin + result.valid_bytes
    return begin if not rest else None


def is_whole(storage: RemoteStorageManager, metadata: RemoteLogSegmentMetadata) -> bool:
    """Read all records of a copy: whether its batches are whole, to the last one.

    Raises
    ------
    RemoteStorageError
        It cannot be read.
    """
    rest, next_offset = b"", -1
    for _, size, there in _pieces(storage, metadata):
        data = rest + there
        _, result = scan_headers(data, check_crc=True)
        if len(there) != size or result.stop not in {"complete", "incomplete"}:
            return False
        rest = data[result.valid_bytes :]
        next_offset = result.next_offset if result.valid_bytes else next_offset
    return not rest and next_offset == metadata.end_offset + 1


def _pieces(
    storage: RemoteStorageManager, metadata: RemoteLogSegmentMetadata
) -> Iterator[tuple[int, int, bytes]]:
    """Yield position and size of each piece of a segment, and what remote storage has of it."""
    for position in range(0, metadata.segment_size_bytes, _PIECE_BYTES):
        end = min(position + _PIECE_BYTES, metadata.segment_size_bytes)
        there = bytes(storage.fetch_log_segment(metadata, position, end))
        yield position, end - position, there


def _check(
    name: str, here: bytes | bytearray, there: bytes | memoryview, position: int = 0
) -> None:
    if here == there:
        return
    raise RemoteStorageError(
        "a copy in remote storage is not what was copied: it does not count, and is deleted",
        file=name,
        position=position,
        found=f"{len(there)} bytes with the checksum {crc32c(there):08x}",
        expected=f"{len(here)} bytes with the checksum {crc32c(here):08x}",
    )
