"""A copy of a partition's directory that is made while the log is written [DUR-127].

Below a log's end nothing changes but by a truncation, compaction or split: then the copy is made
again. So the segments are copied first, while
others append, and what is left is copied when the log is closed. Files are copied byte for byte.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from segstore._core import Barrier, DataFile
from segstore.errors import LogNotFoundError, NotALogError, ReadIOError
from segstore.log.files.checkpoints import CLEAN_SHUTDOWN_MARKER, LOCK
from segstore.log.files.partition_directory import (
    CLEANED_FILE_SUFFIX,
    DELETED_FILE_SUFFIX,
    LOG_FILE_SUFFIX,
    SWAP_FILE_SUFFIX,
    file_name,
    parse_file_name,
    segment_files,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from segstore._core import Directory, FileInfo, LogSegment


_PIECE_BYTES: Final = 4 * 1024 * 1024
_LEFT_OUT: Final = (LOCK, CLEAN_SHUTDOWN_MARKER)
"""The marker is bound to the place where it was written, and would call a copy a copy."""


class _Copied(NamedTuple):
    inode: int
    size: int
    changed_ns: int = 0
    """Of the source when all of it was copied; 0 of a ``.log`` that may grow."""


class PartitionCopy:
    """Copies one directory to another; what was copied is on stable storage after each call.

    Parameters
    ----------
    source : Directory
        The partition's.
    target : Directory
        New and empty.

    Attributes
    ----------
    done_bytes : int
        The bytes that were copied so far.
    """

    def __init__(self, source: Directory, target: Directory) -> None:
        self.done_bytes = 0
        self._source = source
        self._target = target
        self._copied: dict[str, _Copied] = {}

    def forget(self) -> None:
        """Copy everything again: the log was cut or compacted, and has other bytes there."""
        self._copied = {}

    def missing_bytes(self, segments: Iterable[LogSegment]) -> int:
        """Return how much of these segments is not copied yet."""
        return sum(segment.size_bytes - self._size(_name(segment)) for segment in segments)

    def copy_segments(self, segments: Iterable[LogSegment]) -> Iterator[None]:
        """Copy the batches of a log that others may append to; nothing else.

        Yields after each piece, so that the caller can report it, or end the copy.

        Raises
        ------
        LogNotFoundError
            A segment was deleted meanwhile.
        """
        for segment in segments:
            name, size = _name(segment), segment.size_bytes
            if self._size(name) < size:
                yield from self._extend(name, _Copied(self._source.info(name).inode, size))

    def complete(self, segments: Iterable[LogSegment]) -> None:
        """Copy what is left of a log that was closed, and remove what it has no more.

        Parameters
        ----------
        segments : iterable of LogSegment
            Those that the log had.

        Raises
        ------
        NotALogError
            Something in the directory is no regular file, and is no part of a log.
        LogNotFoundError
            A segment's file is gone.
        """
        files, names = {}, self._source.names()
        is_replacing = any(name.endswith(SWAP_FILE_SUFFIX) for name in names)
        for name in names:
            if name.endswith(CLEANED_FILE_SUFFIX) and not is_replacing:
                continue  # of a pass that the close has ended: it counts for nothing [LDR-3]
            info = self._source.info(name)
            if not info.is_regular:
                raise NotALogError(
                    "this is no part of a log, and would be lost with the directory",
                    file=f"{self._source.path}/{name}",
                    found="no regular file",
                    expected="files alone",
                )
            if name not in _LEFT_OUT and not name.endswith(DELETED_FILE_SUFFIX):
                files[name] = info
        for name in map(_name, segments):
            if name not in files:
                raise LogNotFoundError(
                    "the log lacks a segment", file=f"{self._source.path}/{name}"
                )
        for name in self._target.names():
            if name not in files:
                self._target.unlink(name)
        for name, info in files.items():
            self._copy(name, info)
        self._target.sync(Barrier.MOVED_NAMES)

    def _copy(self, name: str, info: FileInfo) -> None:
        known, whole = self._copied.get(name), _Copied(info.inode, info.size, info.changed_ns)
        if known == whole:
            return
        if known is not None and not (
            _is_log(name) and known.inode == whole.inode and known.size <= whole.size
        ):
            del self._copied[name]
        for _ in self._extend(name, whole):
            pass
        self._target.set_modified(name, info.modified_ms)

    def _size(self, name: str) -> int:
        known = self._copied.get(name)
        return 0 if known is None else known.size

    def _extend(self, name: str, to: _Copied) -> Iterator[None]:
        """Copy a file from where its copy ends; yields after each piece."""
        position = self._size(name)
        with DataFile(self._target, name, create=True) as file:
            if file.size > position:
                file.truncate(position)
            while position < to.size:
                piece = self._source.read_range(
                    name, position, min(_PIECE_BYTES, to.size - position)
                )
                if not piece:
                    raise ReadIOError(
                        "the file ends before what was written to it",
                        file=f"{self._source.path}/{name}",
                        position=position,
                        found=f"{position} bytes",
                        expected=f"{to.size} bytes",
                    )
                file.write(position, piece)
                position += len(piece)
                self.done_bytes += len(piece)
                yield
            file.sync(Barrier.MOVED_RECORDS)
        self._copied[name] = to


def first_offset(directory: Directory) -> int:
    """Return the base offset of the first segment; 0 where there is none."""
    return min((file.offset for file in segment_files(directory.names())), default=0)


def has_other_records(one: Directory, other: Directory, segments: Iterable[LogSegment]) -> bool:
    """Whether these segments differ from what another directory has of them.

    It may lack the first ones, and have more at the end.
    """
    first = first_offset(other)
    for segment in segments:
        name = _name(segment)
        if segment.base_offset < first:
            continue
        if not other.exists(name):
            return True
        size_of_both = min(segment.size_bytes, other.info(name).size)
        for position in range(0, size_of_both, _PIECE_BYTES):
            count = min(_PIECE_BYTES, size_of_both - position)
            if one.read_range(name, position, count) != other.read_range(name, position, count):
                return True
    return False


def _name(segment: LogSegment) -> str:
    return file_name(segment.base_offset, LOG_FILE_SUFFIX)


def _is_log(name: str) -> bool:
    file = parse_file_name(name)
    return file is not None and file.kind == LOG_FILE_SUFFIX and not file.suffix
