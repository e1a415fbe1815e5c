"""From a path that a user gave to the directory of a partition, or to an error that helps."""

from __future__ import annotations

import os
import re
from contextlib import closing
from typing import TYPE_CHECKING, Final

import segstore._core as _core
from segstore.errors import (
    IllegalArgumentError,
    IllegalStateError,
    InvalidTopicError,
    LogNotFoundError,
    LogPermissionError,
    NotALogError,
)
from segstore.log.files.checkpoints import (
    CLEAN_SHUTDOWN_MARKER,
    IMPORT_MARKER,
    LEADER_EPOCH_CHECKPOINT,
    LOCK,
    LOG_START_OFFSET_CHECKPOINT,
    LOG_STATE,
    MISSING_RECORDS,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
    RESTART_MARKER,
    SYNC_FAILED_MARK,
    TEMPORARY_FILES,
)
from segstore.log.files.kept_aside import KEPT_ASIDE
from segstore.log.files.partition_directory import (
    has_unique_id,
    is_partition_directory_name,
    parse_directory_name,
    segment_files,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore.types import TopicPartition

_LIKELY_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+?-(?:0|[1-9][0-9]{0,9})(?![0-9])", re.ASCII)
_IS_OURS = re.compile(
    rf"[0-9]{{20}}\.(?:quarantine-.*|snapshot\.tmp)|{KEPT_ASIDE}", re.ASCII | re.DOTALL
)
"""What recovery set aside, and a snapshot that was not finished."""

OWN_FILES = TEMPORARY_FILES | {
    CLEAN_SHUTDOWN_MARKER,
    IMPORT_MARKER,
    LEADER_EPOCH_CHECKPOINT,
    LOCK,
    LOG_START_OFFSET_CHECKPOINT,
    LOG_STATE,
    MISSING_RECORDS,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
    RESTART_MARKER,
    SYNC_FAILED_MARK,
    "lost+found",
}
"""What a directory without a ``.log`` may hold and still become a log."""

ANYBODYS: Final = frozenset({LOCK, "lost+found"})
"""Of those, what says nothing of a log: other programs have locks, and a disk its own directory."""


def absolute_path(path: str | os.PathLike[str]) -> str:
    """Return *path* absolute; a link to a partition's directory becomes that directory.

    The directory above it is the one whose lock shuts out a broker, and whose checkpoints count
    [DUR-65]. Links further up stay as the user wrote them.
    """
    full_path = os.path.abspath(os.fsdecode(path))  # noqa: PTH100 - as it was given
    return os.path.realpath(full_path) if os.path.islink(full_path) else full_path  # noqa: PTH114


def open_partition_directory(  # noqa: PLR0913 - each by its name
    path: str,
    *,
    read_only: bool,
    environment: _core.Environment | None = None,
    as_broker: bool = False,
    before_making: Callable[[TopicPartition], None] | None = None,
    as_: TopicPartition | None = None,
) -> tuple[_core.Directory, TopicPartition]:
    """Open the partition's directory, or make it; say what is wrong with it otherwise.

    *as_broker* opens for writing also what a broker has begun to delete or to move, and what holds
    other files than a log's [DUR-62]. *before_making* is called where there is no directory yet.
    With *as_* the directory is that partition's, whatever its name is.
    """
    name = os.path.basename(path)  # noqa: PTH119 - the path as it was given
    try:
        directory = _core.Directory(path, environment)
    except LogNotFoundError as error:
        if read_only:
            raise LogNotFoundError(
                f"there is no such directory{hint_beside(path, environment)}", file=path
            ) from error
        topic_partition = _parse_name(name, path)
        if before_making is not None:
            before_making(topic_partition)
        return make_directory(path, environment), topic_partition
    except NotALogError as error:
        raise NotALogError(
            "this is a file: give the directory <topic>-<partition> that holds the .log files;"
            " segstore.open_segment, or `segstore cat` and `segstore dump`, reads one file alone",
            file=path,
            found="a file",
            expected="a directory",
        ) from error
    try:
        topic_partition = as_ or _parse_name(name, path, directory)
        if not read_only:
            if not (as_broker or directory.exists(LOG_STATE) or directory.has_segments()):
                _check_may_become_a_log(path, directory.names(ordered=False))
            if not as_broker:
                _check_is_live(name, path)
    except BaseException:
        directory.close()
        raise
    return directory, topic_partition


def refuse_partition_directory(directory: _core.Directory) -> None:
    """Raise `NotALogError` when *directory* is one partition's: its parent was meant."""
    if directory.has_segments():
        raise NotALogError(
            "this is the directory of one partition; the log directory is the one above it",
            file=directory.path,
            found="segment files (.log)",
            expected="directories <topic>-<partition>",
        )


def _parse_name(name: str, path: str, directory: _core.Directory | None = None) -> TopicPartition:
    try:
        return parse_directory_name(name)
    except (NotALogError, InvalidTopicError) as error:
        names = [] if directory is None else directory.names(ordered=False)
        partitions = [entry for entry in names if is_partition_directory_name(entry)]
        hint = ""
        if partitions:
            hint = (
                f"; it holds the partitions {_some(partitions)}: open one of them, or all with"
                " segstore.open_dir"
            )
        elif directory is not None and directory.has_segments():
            likely = likely_name(name)
            hint = (
                f"; to read it as {likely}, add --as {likely} to the command, or"
                f" read_only=True, as_={likely!r} to segstore.open"
            )
        raise type(error)(
            f"{error.message}{hint}", file=path, found=error.found, expected=error.expected
        ) from error


def likely_name(name: str) -> str:
    """Return the partition that a directory of another name may be a copy of."""
    found = _LIKELY_NAME.search(name)
    if found is not None and is_partition_directory_name(found[0]):
        return found[0]
    return f"{name}-0" if is_partition_directory_name(f"{name}-0") else "orders-0"


def _check_may_become_a_log(path: str, names: list[str]) -> None:
    """Refuse a directory that holds something else: nothing is written beside foreign files.

    One that has lost its ``.log`` files and kept others of a log is a log [LDR-26].
    """
    ours = {file.name for file in segment_files(names)}.union(OWN_FILES.intersection(names))
    ours |= {name for name in names if _IS_OURS.fullmatch(name)}
    foreign = [name for name in names if name not in ours]
    if foreign and not ours - ANYBODYS:
        raise NotALogError(
            f"the directory holds no .log file, but {_some(foreign)}: it is no partition of a log",
            file=path,
            found=_some(foreign),
            expected="an empty directory or one with .log files",
        )


def _check_is_live(name: str, path: str) -> None:
    if has_unique_id(name):
        raise NotALogError(
            f"{name} is being deleted or moved by a broker: only read_only=True opens it",
            file=path,
            found=name,
            expected="<topic>-<partition>",
        )


def hint_beside(path: str, environment: _core.Environment | None) -> str:
    """Name what is beside a path that does not exist."""
    try:
        parent = _core.Directory(_above(path), environment)
    except LogPermissionError:
        return ""
    except (LogNotFoundError, NotALogError):
        return ", nor the one above it"
    with closing(parent):
        partitions = [name for name in parent.names() if is_partition_directory_name(name)]
    return f"; beside it are {_some(partitions)}" if partitions else ""


def _some(names: list[str], count: int = 5) -> str:
    shown = ", ".join(repr(name)[1:-1] for name in sorted(names)[:count])
    return f"{shown} and {len(names) - count} more" if len(names) > count else shown


def _above(path: str) -> str:
    return os.path.dirname(path)  # noqa: PTH120 - as the name: links are not resolved


def make_directory(path: str, environment: _core.Environment | None = None) -> _core.Directory:
    """Make the directory and those above it, each on stable storage before the next [DUR-11]."""
    try:
        return _core.Directory(path, environment, create=True)
    except LogNotFoundError:
        if _above(path) == path:  # the root itself: nothing can be made above it
            raise
        make_directory(_above(path), environment).close()
        return _core.Directory(path, environment, create=True)


def open_parent_directory(
    path: str,
    environment: _core.Environment | None = None,
    topic_partition: TopicPartition | None = None,
) -> _core.Directory | None:
    """Open the directory above, where that is permitted.

    None too where a directory of another name is read as that of *topic_partition*, and the one of
    that name is beside it: the checkpoints above speak of that one.
    """
    try:
        parent = _core.Directory(_above(path), environment)
    except LogPermissionError:
        return None
    name = str(topic_partition)
    if topic_partition is None or path.endswith(f"/{name}") or not parent.exists(name):
        return parent
    parent.close()
    return None


def refuse_unfinished_import(directory: _core.Directory) -> None:
    """Raise IllegalStateError where an import of the log, or of its topic, is not finished."""
    if directory.exists(IMPORT_MARKER):
        raise IllegalStateError(
            "the import of this log is not finished, and records may be missing: run the same"
            " import again, which goes on where the log ends, or delete the directory",
            file=directory.path,
            found=IMPORT_MARKER,
            expected="no marker of an import",
        )


def is_of_an_empty_log(name: str) -> bool:
    """Whether *name*, which is no segment's, is of a file that a log without a record may have."""
    return name in OWN_FILES or (_IS_OURS.fullmatch(name) is not None and name.endswith(".tmp"))


def check_file_system(directory: _core.Directory, *, allowed: bool) -> None:
    """Refuse to write on a network file system unless that is *allowed* [DUR-72]."""
    if not allowed and directory.is_network_file_system():
        raise IllegalArgumentError(
            "this is a network file system, where locks and syncs may not work:"
            " allow_network_fs=True permits writing",
            file=directory.path,
            found="NFS, CIFS or FUSE",
            expected="a local file system",
        )
