"""Whether what remote storage has of a segment is what was copied [DUR-140].

A plugin may call a copy done that was cut, or that another file took the place of. So each byte is
asked for again, and compared with the file here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from segstore._core import crc32c, scan_headers
from segstore.errors import RemoteStorageError
from segstore.remote.storage.remote_storage_manager import IndexType

if TYPE_CHECKING:
    from segstore.log.local.segment import Segment
    from segstore.log.sealed_segment_files import SealedSegmentFiles
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
    size, position = metadata.segment_size_bytes, 0
    while position < size:
        end = min(position + _PIECE_BYTES, size)
        here = files.read_log(position, end - position)
        _check(
            files.log_segment, here, storage.fetch_log_segment(metadata, position, end), position
        )
        position = end
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
    storage: RemoteStorageManager, metadata: RemoteLogSegmentMetadata, segment: Segment
) -> bool:
    """Read all records of a copy: whether they are those of the segment here, of the same size.

    Raises
    ------
    RemoteStorageError
        It cannot be read.
    """
    size = metadata.segment_size_bytes
    for position in range(0, size, _PIECE_BYTES):
        end = min(position + _PIECE_BYTES, size)
        here = bytearray(end - position)
        segment.read_into(here, position)
        if bytes(storage.fetch_log_segment(metadata, position, end)) != here:
            return False
    return True


def is_whole(storage: RemoteStorageManager, metadata: RemoteLogSegmentMetadata) -> bool:
    """Read all records of a copy: whether its batches are whole, to the last one.

    Raises
    ------
    RemoteStorageError
        It cannot be read.
    """
    size, position, rest = metadata.segment_size_bytes, 0, b""
    next_offset = -1
    while position < size:
        end = min(position + _PIECE_BYTES, size)
        piece = storage.fetch_log_segment(metadata, position, end)
        data = rest + bytes(piece)
        _, result = scan_headers(data, check_crc=True)
        if len(piece) != end - position or result.stop not in {"complete", "incomplete"}:
            return False
        position, rest = end, data[result.valid_bytes :]
        next_offset = result.next_offset if result.valid_bytes else next_offset
    return not rest and next_offset == metadata.end_offset + 1


def _check(
    name: str, here: bytes | bytearray, there: bytes | memoryview, position: int = 0
) -> None:
    if len(here) == len(there) and here == there:
        return
    raise RemoteStorageError(
        "a copy in remote storage is not what was copied: it does not count, and is deleted",
        file=name,
        position=position,
        found=f"{len(there)} bytes with the checksum {crc32c(there):08x}",
        expected=f"{len(here)} bytes with the checksum {crc32c(here):08x}",
    )
