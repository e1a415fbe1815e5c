"""Logs that an import fills: nobody opens one of them before all are whole.

A marker in the directory of each partition says so, `IMPORT_MARKER`. A directory that an import
makes gets it before its name. All logs get theirs before the first is filled, and lose them after
the last is. So a topic that is not whole cannot be read, wherever a kill comes. The next import
finds the marker, and goes on where the log ends.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from segstore.errors import AlreadyExistsError, LogNotFoundError, SegstoreError
from segstore.log.files.checkpoints import IMPORT_MARKER
from segstore.log.files.partition_directory import parse_directory_name
from segstore.log.files.partition_path import absolute_path, make_directory
from segstore.log.files.stale_partition_state import remove_stale_checkpoints
from segstore.log.log_environment import LogEnvironment
from segstore.log.log_opener import open_partition, open_partition_to_write
from segstore.log.open_options import open_options
from segstore.tables.whole_file import new_run, part_of, remove_parts, sync_path

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segstore.log.unified_log import UnifiedLog

_FILLING: Final = LogEnvironment(fills_import=True)


class _Begun(NamedTuple):
    """A log that this import has marked, or made."""

    path: str
    is_made: bool
    log_end_offset: int


class MarkedLogs:
    """Logs that an import fills; none of them is opened by others before `finish`.

    Parameters
    ----------
    starts : mapping of str to int
        For each path the offset at which the log is to begin.

    Raises
    ------
    AlreadyExistsError
        A log begins at another offset.
    LogLockedError, SegstoreError
        A log cannot be opened. After an error all logs are as they were.
    """

    def __init__(self, starts: Mapping[str, int]) -> None:
        self._paths = [absolute_path(path) for path in starts]
        self._begun: list[_Begun] = []
        self._run = new_run()
        try:
            for path, first_offset in zip(self._paths, starts.values(), strict=True):
                self._begin(path, first_offset)
        except BaseException:
            self._undo()
            raise
        finally:
            for folder in {Path(path).parent for path in self._paths}:
                remove_parts(str(folder), self._run)

    def _begin(self, path: str, first_offset: int) -> None:
        is_made = not Path(path).exists()
        if is_made:
            self._make(path)
            self._begun.append(_Begun(path, is_made, 0))
        with open_log_to_fill(path) as log:
            check_log_start(log, first_offset)
            if not is_unfinished(path):
                _mark(Path(path))
                self._begun.append(_Begun(path, is_made, log.log_end_offset))

    def _make(self, path: str) -> None:
        """Make the directory of a partition, which has its marker when it gets its name."""
        directory = Path(path)
        topic_partition = parse_directory_name(directory.name)
        make_directory(str(directory.parent)).close()
        remove_stale_checkpoints(path, topic_partition, None)
        part = part_of(directory, self._run)
        part.mkdir()
        _mark(part)
        part.rename(directory)
        sync_path(directory.parent)

    def finish(self) -> None:
        """Let others open the logs, which are whole and durable."""
        for path in self._paths:
            (Path(path) / IMPORT_MARKER).unlink(missing_ok=True)
            sync_path(Path(path))

    def give_up(self) -> bool:
        """Leave the logs to the next import; where none has a record of it, as they were.

        Returns
        -------
        bool
            Whether they are left.
        """
        was_all_marked = len(self._begun) == len(self._paths)
        if was_all_marked and not any(map(_has_changed, self._begun)):
            self._undo()
            return False
        return True

    def _undo(self) -> None:
        for one in reversed(self._begun):
            with suppress(OSError):
                if one.is_made:
                    shutil.rmtree(one.path)
                else:
                    (Path(one.path) / IMPORT_MARKER).unlink(missing_ok=True)


def open_log_to_fill(path: str) -> UnifiedLog:
    """Open a log that is imported, also one that others may not open yet."""
    return open_partition_to_write(path, open_options(durability="none"), _FILLING)


def is_unfinished(path: str) -> bool:
    """Whether an earlier import of the log was not finished."""
    return (Path(path) / IMPORT_MARKER).exists()


def begins_with_import(path: str) -> bool:
    """Whether the log has no records but those of an import that is not finished."""
    if is_unfinished(path) or not Path(path).exists():
        return True
    try:
        with open_partition(path, open_options(read_only=True)) as log:
            return log.log_start_offset == log.log_end_offset
    except LogNotFoundError:  # an empty directory
        return True


def check_log_start(log: UnifiedLog, first_offset: int) -> None:
    """Refuse a log that cannot begin at *first_offset*."""
    is_below = log.log_start_offset == log.log_end_offset < first_offset
    if log.log_start_offset != first_offset and not is_below:
        raise AlreadyExistsError(
            f"the log begins at offset {log.log_start_offset}, the export at {first_offset}: "
            "they are not of one log",
            file=log.path,
            found=str(log.log_start_offset),
            expected=str(first_offset),
        )


def _has_changed(begun: _Begun) -> bool:
    try:
        with open_log_to_fill(begun.path) as log:
            if begun.is_made:
                return log.log_start_offset < log.log_end_offset
            return log.log_end_offset != begun.log_end_offset
    except (SegstoreError, OSError):
        return True


def _mark(directory: Path) -> None:
    marker = directory / IMPORT_MARKER
    marker.touch()
    sync_path(marker)
    sync_path(directory)
