"""The logs of a broker's own directories, which go on where its bucket ends [TIER-2, SEL-10].

A broker deletes local segments that it has copied, so a log is in two places. The local one is the
newer: its leader epochs tell which copies in the bucket are of this history.
"""

from __future__ import annotations

import os
from contextlib import ExitStack, closing, suppress
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from segstore._core import Directory
from segstore.errors import (
    InconsistentTopicIdError,
    LogNotFoundError,
    LogPermissionError,
    LogTruncatedError,
    NotALogError,
    ReadIOError,
)
from segstore.log.files.checkpoint_store import CheckpointStore
from segstore.log.files.checkpoints import (
    PARTITION_METADATA,
    read_topic_id,
)
from segstore.log.files.file_origin import FileOrigin
from segstore.log.files.leader_epoch_file_cache import LeaderEpochFileCache
from segstore.log.files.partition_directory import (
    DELETED_FILE_SUFFIX,
    LOG_FILE_SUFFIX,
    directory_name,
    is_partition_directory_name,
    parse_directory_name,
    segment_files,
)
from segstore.log.open_log import open as open_log
from segstore.remote.local_folder import read_into
from segstore.remote.remote_file import RemoteFile, changed_error, vanished_error
from segstore.remote.tiered.tiered_store import ShownFile

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from uuid import UUID

    from segstore.types import EpochEntry, TopicPartition

KINDS: Final = frozenset({LOG_FILE_SUFFIX, "index", "timeindex", "snapshot"})
"""Transaction indexes are not shown: the batches themselves say what was aborted."""
_LOOKS: Final = 4
"""At a log whose segments are all copied and deleted between two looks."""
_LOG: Final = f".{LOG_FILE_SUFFIX}"
BLOCK_BYTES: Final = 1024 * 1024


class LocalLog(NamedTuple):
    """What a broker has of a partition on its own disk.

    Attributes
    ----------
    path : str
        Of its directory.
    topic_id : UUID
        In ``partition.metadata``.
    lineage : tuple of EpochEntry
        Its leader epochs, also those of records that only the bucket has; of a log that was never
        a broker's there may be none.
    log_start_offset : int
        Of the whole log.
    local_log_start_offset : int
        Base offset of its first segment.
    log_end_offset : int
        Of what was read of it.
    recovery_point : int
        Records below are durable here.
    files : tuple of ShownFile
        Segments, indexes and producer snapshots as they were listed. What is appended later is not
        in them; another file in the place of one is an error.
    is_whole : bool
        No damage is known.
    """

    path: str
    topic_id: UUID
    lineage: tuple[EpochEntry, ...]
    log_start_offset: int
    local_log_start_offset: int
    log_end_offset: int
    recovery_point: int
    files: tuple[ShownFile, ...]
    is_whole: bool


class LocalLogs:
    """The log directories of a broker; each look is at what is there then.

    Parameters
    ----------
    directories : path, or sequence of paths
        Its ``log.dirs``.

    Raises
    ------
    LogNotFoundError
        One is not there.
    """

    def __init__(
        self, directories: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
    ) -> None:
        named = [directories] if isinstance(directories, str | os.PathLike) else directories
        self.directories = [os.path.abspath(os.fspath(one)) for one in named]  # noqa: PTH100 - a link is not followed
        for one in self.directories:
            if not os.path.isdir(one):  # noqa: PTH112 - strings
                raise LogNotFoundError(
                    "there is no such log directory",
                    file=one,
                    found="no directory",
                    expected="a broker's log directory",
                )

    def partitions(self) -> list[TopicPartition]:
        """Return the partitions that have a directory, sorted."""
        found = set()
        for one in self.directories:
            with os.scandir(one) as entries:
                found |= {
                    parse_directory_name(entry.name)
                    for entry in entries
                    if is_partition_directory_name(entry.name) and entry.is_dir()
                }
        return sorted(found)

    def topic_id(self, topic_partition: TopicPartition) -> UUID | None:
        """Return the topic id of a partition's directory, None without one."""
        for above in self.directories:
            path = f"{above}/{directory_name(topic_partition)}"
            if os.path.isdir(path):  # noqa: PTH112 - strings
                with closing(Directory(path)) as directory:
                    return read_topic_id(directory)
        return None

    def find(self, topic_partition: TopicPartition) -> LocalLog | None:
        """Return the log of a partition as it is now; None: no directory has a segment of it.

        Raises
        ------
        InconsistentTopicIdError
            It has no topic id: the bucket may have another topic of its name.
        LogTruncatedError
            Again and again all of its segments were deleted while they were listed.
        SegstoreError
            Its small files cannot be read.
        """
        name = directory_name(topic_partition)
        for above in self.directories:
            path = f"{above}/{name}"
            if os.path.isdir(path):  # noqa: PTH112 - strings
                found = _read_while_deleted(path, above, topic_partition)
                if found is not None:
                    return found
        return None


def _read_while_deleted(path: str, above: str, topic_partition: TopicPartition) -> LocalLog | None:
    for _ in range(_LOOKS - 1):
        with suppress(LogTruncatedError):
            return _read(path, above, topic_partition)
    return _read(path, above, topic_partition)


def _read(path: str, above: str, topic_partition: TopicPartition) -> LocalLog | None:
    names = os.listdir(path)  # noqa: PTH208 - strings
    if not any(one.kind == LOG_FILE_SUFFIX and not one.suffix for one in segment_files(names)):
        return None
    with ExitStack() as stack:
        directory, parent = (stack.enter_context(closing(Directory(one))) for one in (path, above))
        # Before the log: a recovery point of later would say that its end is lost.
        found = CheckpointStore(directory, parent, topic_partition).read()
        log = stack.enter_context(open_log(path, read_only=True))
        epochs = LeaderEpochFileCache.read(directory, writable=False, is_strict=True)
        topic_id, of_batches = log.topic_id, log.leader_epochs
        sizes = {segment.base_offset: segment.size_bytes for segment in log.segments()}
        end, is_whole = log.log_end_offset, log.report.damage is None
    if topic_id is None:
        raise InconsistentTopicIdError(
            "the local log has no topic id, so it may be of another topic than the bucket's",
            file=f"{path}/{PARTITION_METADATA}",
            found="no topic id",
            expected="the id that the topic has in the bucket",
        )
    files = tuple(_listed(path, sizes))
    bases = [_base_of(one.file) for one in files if one.file.name.endswith(_LOG)]
    if not bases:  # it has rolled, and copied and deleted all that there was
        raise LogTruncatedError(
            "all segments of the local log were deleted while they were listed",
            file=path,
            found="no .log file",
            expected=f"one from offset {min(sizes)} on",
        )
    lineage: tuple[EpochEntry, ...] = ()
    if epochs is not None and epochs.entries:
        latest = epochs.entries[-1].epoch  # a running broker's log may have more by now
        lineage = (*epochs.entries, *(one for one in of_batches if one.epoch > latest))
    return LocalLog(
        path,
        topic_id,
        lineage,
        max(found.log_start_offset, lineage[0].start_offset if lineage else 0),
        min(bases),
        end,
        max(found.recovery_point or 0, min(bases)),
        files,
        is_whole,
    )


def _base_of(file: RemoteFile) -> int:
    return int(file.name.partition(".")[0])


def _listed(path: str, sizes: Mapping[int, int]) -> Iterator[ShownFile]:
    """Yield the files of these segments; what is gone meanwhile was copied before."""
    with os.scandir(path) as entries:
        names = sorted(entry.name for entry in entries)
    for one in segment_files(names):
        is_of_segment = one.offset in sizes or one.kind == "snapshot"
        if one.kind not in KINDS or one.suffix or not is_of_segment:
            continue
        place = f"{path}/{one.name}"
        try:
            status = os.stat(place)  # noqa: PTH116 - strings
        except FileNotFoundError:
            continue
        # Without an identity nothing of it is kept in the spool: it is on this disk already.
        shown = RemoteFile(
            f"{path.rpartition('/')[2]}/{one.name}",
            sizes[one.offset] if one.kind == LOG_FILE_SUFFIX else status.st_size,
            None,
            status.st_mtime_ns,
            BLOCK_BYTES,
            origin=FileOrigin(place),
        )
        yield ShownFile(
            shown,
            partial(_read_range, place, status.st_ino, shown),
            partial(_read_into, place, status.st_ino, shown),
        )


def _read_range(place: str, inode: int, file: RemoteFile, start: int, end: int) -> bytes:
    data = bytearray(end - start)
    _read_into(place, inode, file, start, memoryview(data))
    return bytes(data)


def _read_into(place: str, inode: int, file: RemoteFile, start: int, target: memoryview) -> bool:
    above = place.rpartition("/")[0].rpartition("/")[0]
    try:
        descriptor = _opened(place)
    except FileNotFoundError:
        raise vanished_error(above, file) from None
    except OSError as error:
        raise _unreadable(place, error) from None
    try:
        if os.fstat(descriptor).st_ino != inode:
            raise changed_error(above, file, "another file")
        got = read_into(descriptor, start, target)
    except OSError as error:
        raise _unreadable(place, error) from None
    finally:
        os.close(descriptor)
    if got < len(target):
        raise changed_error(above, file, f"{start + got} bytes")
    return True


def _opened(place: str) -> int:
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        return os.open(place, flags)
    except FileNotFoundError:  # a broker that deletes a segment keeps it for a minute
        return os.open(f"{place}{DELETED_FILE_SUFFIX}", flags)


def _unreadable(place: str, error: OSError) -> LogPermissionError | NotALogError | ReadIOError:
    kind = LogPermissionError if isinstance(error, PermissionError) else ReadIOError
    return kind(f"the file cannot be read: {error.strerror}", file=place, os_error=error.errno)
