"""Which files alone are read as the segments of one partition, and in which order."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, closing, suppress
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from segstore._core import Directory, base_offset_of
from segstore.arguments import path_text
from segstore.errors import (
    CorruptLogError,
    IllegalArgumentError,
    LogNotFoundError,
    NotALogError,
    SegstoreError,
)
from segstore.log.files.partition_directory import (
    INDEX_ENTRY_BYTES,
    file_name,
    parse_directory_name,
)
from segstore.log.files.partition_path import absolute_path, refuse_unfinished_import
from segstore.log.local.file_bytes import FileBytes
from segstore.log.producers.producer_snapshot import MAX_SNAPSHOT_BYTES, open_transactions
from segstore.log.segment_archive import SegmentArchive, is_archive, without_suffix
from segstore.numpy_on_demand import np
from segstore.types import CURRENT_MAGIC, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segstore._core import CodecTable
    from segstore.log.local.file_bytes import FileSource

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
"""A file, a pattern or an archive; or several of them."""

_MOST_INDEX_BYTES: Final = 64 * 1024 * 1024
_OTHER_KINDS: Final = (".index", ".timeindex", ".txnindex", ".snapshot")
NO_TOPIC: Final = TopicPartition("", -1)
_BASE_OFFSET = re.compile(r"[0-9]{20}(?=\.)", re.ASCII)


class LoneFile(NamedTuple):
    """A ``.log`` file under any name, or a member of an archive.

    Attributes
    ----------
    source : FileSource
        What it lies in.
    name : str
        Of the file there; that of a member has its folders.
    size_bytes : int
        At the open.
    folder : str
        Name of the directory that it is in, or was in.
    first_offset : int
        Base offset of the first batch. If that is damaged: the offset in the name, or 0.
    """

    source: FileSource
    name: str
    size_bytes: int
    folder: str
    first_offset: int = 0

    @property
    def path(self) -> str:
        """For messages."""
        return f"{self.source.path}/{self.name}"

    @property
    def base_offset(self) -> int:
        """What the name says, if it is that of a segment; else that of the first batch.

        Compaction may have removed the batches in between.
        """
        named = named_offset(self.name)
        return self.first_offset if named is None else min(named, self.first_offset)

    def batch_before(self, offset: int) -> tuple[int, int] | None:
        """Return position and base offset of a batch at or before *offset*, by the index beside it.

        None where there is none, or where it is not that of the file: no whole batch with offsets
        that fit begins there.
        """
        base, entry_bytes = self.base_offset, INDEX_ENTRY_BYTES["index"]
        if offset <= base:
            return None
        try:
            name = f"{self.name.removesuffix('.log')}.index"
            data = self.source.read_file(name, _MOST_INDEX_BYTES)
        except SegstoreError:
            return None
        if len(data) < entry_bytes:
            return None
        numbers = np.frombuffer(data, ">i4", len(data) // entry_bytes * 2)
        offsets, positions = numbers[::2].astype(np.int64) + base, numbers[1::2]
        count = int(np.argmax(np.append(offsets[1:] <= offsets[:-1], True))) + 1
        row = int(np.searchsorted(offsets[:count], offset, "right")) - 1  # behind them: zeros
        if row < 0 or not 0 <= positions[row] < self.size_bytes:
            return None
        position = int(positions[row])
        headers = FileBytes(self.source, self.name, self.size_bytes).header_at(position)
        if headers is None or headers["magic"][0] < CURRENT_MAGIC:
            return None
        found, before = int(headers["base_offset"][0]), offsets[row - 1] if row else base - 1
        return (position, found) if before < found <= offsets[row] else None

    def open_transactions(self) -> Mapping[int, int] | None:
        """Return {producer id: first offset} where it begins, by the snapshot beside it.

        None where there is none, or where that is damaged.
        """
        folder, slash, _ = self.name.rpartition("/")
        name = f"{folder}{slash}{file_name(self.base_offset, 'snapshot')}"
        try:
            return open_transactions(self.source.read_file(name, MAX_SNAPSHOT_BYTES))
        except SegstoreError:
            return None


def named_offset(name: str) -> int | None:
    """Return the base offset in the name of a segment; None for another name."""
    found = _BASE_OFFSET.match(name.rpartition("/")[2])
    return None if found is None else int(found[0])


def is_of_files(path: str) -> bool:
    """Whether *path* is a file, an archive or a pattern, and so nothing that a log can be."""
    if os.path.lexists(path):
        return not os.path.isdir(path)  # noqa: PTH112 - as the user wrote it
    return glob.has_magic(path) or is_archive(path)


def absolute_paths(paths: Paths) -> list[str]:
    """Return *paths* absolute; patterns stay patterns."""
    several = [paths]
    if isinstance(paths, Iterable) and not isinstance(paths, str | bytes | os.PathLike):
        several = [*paths]
    if not several:
        raise IllegalArgumentError("no path is given", found="[]", expected="one path or more")
    return [absolute_path(path_text("path", one)) for one in several]


def matching_files(path: str) -> list[str]:
    """Return *path*, or the paths that match it where it is a pattern, sorted.

    Raises
    ------
    LogNotFoundError
        Nothing matches.
    """
    if os.path.lexists(path) or not glob.has_magic(path):
        return [path]
    matching = sorted(glob.glob(path, recursive=True))  # noqa: PTH207 - the user's pattern
    if not matching:
        raise LogNotFoundError("no file matches this pattern", file=path)
    return matching


def find_files(paths: Iterable[str], stack: ExitStack) -> list[LoneFile]:
    """Return the files at *paths*, which *stack* closes.

    Raises
    ------
    LogNotFoundError, NotALogError, CorruptLogError
        See `segstore.open_segment`.
    """
    return [
        one for each in paths for path in matching_files(each) for one in _found_at(path, stack)
    ]


def in_order(found: Sequence[LoneFile], codecs: CodecTable) -> list[LoneFile]:
    """Return files in the order of their offsets, which they have from now on.

    Raises
    ------
    CorruptLogError
        Two of them begin at the same offset.
    """
    if len(found) > 1:  # of those without a batch nothing says where they belong
        found = [one for one in found if one.size_bytes] or found[:1]
    placed = [one._replace(first_offset=_first_offset(one, codecs)) for one in found]
    placed.sort(key=lambda one: one.base_offset)
    for one, other in pairwise(placed):
        if one.base_offset == other.base_offset:
            raise CorruptLogError(
                f"two files begin at offset {one.base_offset}: they are copies of one segment, or"
                " of two partitions; leave one of them out",
                file=one.path,
                found=f"{other.path}, which begins there too",
                expected="each offset in one file",
            )
    return placed


def partition_of(files: Iterable[LoneFile]) -> TopicPartition:
    """Return the partition that the folder of *files* names; ``("", -1)`` where it names none.

    Raises
    ------
    IllegalArgumentError
        They are of several folders, as those of several partitions are.
    """
    folders: dict[str, str] = {}
    for one in files:
        folders.setdefault(one.folder, one.path)
    if len(folders) > 1:
        names = ", ".join([*folders][:5])
        raise IllegalArgumentError(
            f"these are files of {len(folders)} folders ({names}), and maybe of several"
            " partitions: give those of one, or say of which partition all of them are, with as_,"
            " --as, or Spark's option asPartition",
            found=" and ".join([*folders.values()][:2]),
            expected="the files of one partition",
        )
    with suppress(NotALogError):
        return parse_directory_name(*folders)
    return NO_TOPIC


def _found_at(path: str, stack: ExitStack) -> list[LoneFile]:
    """Return what is at *path*: a file, or the members of an archive."""
    above, name = os.path.split(path)
    if is_archive(name) and os.path.isfile(path):  # noqa: PTH113 - as the user wrote it
        return _members(path, name, stack)
    if name.endswith(_OTHER_KINDS):
        raise NotALogError(
            "this file has no records; `segstore dump` prints it",
            file=path,
            found=name,
            expected="a .log file",
        )
    directory, size_bytes = _directory_and_size(path)
    stack.callback(directory.close)
    refuse_unfinished_import(directory)
    return [LoneFile(directory, name, size_bytes, above.rpartition("/")[2])]


def _members(path: str, archive_name: str, stack: ExitStack) -> list[LoneFile]:
    """Return the ``.log`` files of an archive; one without folders may have their name itself."""
    archive = SegmentArchive(path)
    stack.callback(archive.close)
    found = []
    for name, member in archive.members.items():
        if name.endswith(".log"):
            folder = name.rpartition("/")[0].rpartition("/")[2] or without_suffix(archive_name)
            found.append(LoneFile(archive, name, member.size_bytes, folder))
    if not found:
        raise NotALogError(
            "the archive has no .log file",
            file=path,
            found=f"{len(archive.members)} other files",
            expected="the .log files of a partition",
        )
    return found


def _first_offset(file: LoneFile, codecs: CodecTable) -> int:
    data = FileBytes(file.source, file.name, file.size_bytes)
    headers = data.first_header()
    if headers is None:
        return named_offset(file.name) or 0
    if headers["magic"][0] >= CURRENT_MAGIC:
        return int(headers["base_offset"][0])
    return base_offset_of(data.read(0, int(headers["size_bytes"][0])), codecs)


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
