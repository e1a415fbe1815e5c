"""Findings about a file that cannot be read: the disk, its rights, or what stands in its place."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from segstore.errors import (
    LogNotFoundError,
    LogPermissionError,
    NotALogError,
    ReadIOError,
    SegstoreError,
)
from segstore.log.files.checksum_sidecar import sidecar_base_offset
from segstore.log.files.partition_directory import parse_file_name
from segstore.log.findings.finding import Action, Finding, FindingCode, Records, facts_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from segstore._core import Directory

UNREADABLE_ERRORS: Final = (ReadIOError, LogPermissionError, NotALogError)
"""What a file raises that is there and cannot be read."""
_KINDS: Final = {
    stat.S_IFDIR: "a directory",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_PROBE_BYTES: Final = 1024 * 1024
_PAGE_BYTES: Final = 4096


def is_derived(name: str) -> bool:
    """Whether *name* is of a file that is built from the ``.log`` files again [DUR-8]."""
    parsed = parse_file_name(name)
    is_of_segment = parsed is not None and parsed.kind != "log" and not parsed.suffix
    return is_of_segment or sidecar_base_offset(name) is not None


def holds_records(name: str) -> bool:
    """Whether *name* is of a ``.log``, or of what an open took out of one."""
    parsed = parse_file_name(name)
    is_log = parsed is not None and parsed.kind == "log" and not parsed.suffix
    return is_log or ".quarantine-" in name


def files_that_are_none(directory: Directory, names: Iterable[str]) -> Iterator[Finding]:
    """Yield a finding for each of *names* that is no regular file; none of them is opened."""
    for name in names:
        with suppress(LogNotFoundError, *UNREADABLE_ERRORS):  # reported where it is read
            if not directory.info(name).is_regular:
                yield no_file(directory, name)


def no_file(directory: Directory, name: str) -> Finding:
    """Return the finding of something else in the place of the file *name*."""
    found = None
    with suppress(OSError):  # on a simulated disk there is no such path
        found = _KINDS.get(stat.S_IFMT(os.lstat(f"{directory.path}/{name}").st_mode))
    return Finding(
        code=FindingCode.FILE_IS_NO_FILE,
        file=name,
        found=found or "no regular file",
        expected="a regular file",
        records=Records.UNREADABLE if holds_records(name) else Records.NONE,
        action=Action.MOVE_AWAY,
    )


def unreadable_file(
    directory: Directory, name: str, error: SegstoreError, file: str | None = None
) -> Finding:
    """Return the finding of a file of which a read failed.

    Parameters
    ----------
    file : str or None
        As the finding names it, where that is not *name*.
    """
    if isinstance(error, NotALogError):
        found = no_file(directory, name)
    else:
        is_forbidden = isinstance(error, LogPermissionError)
        repaired = is_derived(name) and not is_forbidden
        action = Action.RECOVER if repaired else Action.COPY_FROM_DISK
        found = Finding(
            code=FindingCode.FILE_UNREADABLE,
            file=name,
            position=None if is_forbidden else first_unreadable(directory, name),
            records=Records.UNREADABLE if holds_records(name) else Records.NONE,
            action=Action.GRANT_ACCESS if is_forbidden else action,
            repaired=repaired,
            **facts_of(error),
        )
    return found if file is None else replace(found, file=file)


def unreadable_directory(error: SegstoreError | OSError) -> Finding:
    """Return the finding of a partition that cannot be listed."""
    os_error = error.os_error if isinstance(error, SegstoreError) else error.errno
    is_forbidden = isinstance(error, PermissionError)
    return Finding(
        code=FindingCode.DIRECTORY_UNREADABLE,
        file=".",
        records=Records.UNREADABLE,
        action=Action.GRANT_ACCESS if is_forbidden else Action.COPY_FROM_DISK,
        os_error=os_error,
    )


def first_unreadable(directory: Directory, name: str) -> int | None:
    """Return where the first page begins that the disk does not give out; None without one."""
    position, step = 0, _PROBE_BYTES
    with suppress(LogNotFoundError, *UNREADABLE_ERRORS):
        size = directory.info(name).size
        while position < size:
            try:
                directory.read_range(name, position, min(step, size - position))
                position += step
            except ReadIOError:
                if step == _PAGE_BYTES:
                    return position
                step = _PAGE_BYTES
    return None
