"""Logs that stay open between the tasks of one Spark worker process.

Spark's workers are forked once and then run task after task; opening a log for each would read its
directory and checkpoints again and again. Nothing of this travels to another process: a forked
child begins with an empty cache.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, NamedTuple

from segstore.log.directory.partition_directory import directory_name
from segstore.log.open_log import open as open_log

if TYPE_CHECKING:
    from segstore.log.unified_log import UnifiedLog
    from segstore.types import TopicPartition

MAX_OPEN_LOGS: Final = 64


class _Signature(NamedTuple):
    """What a directory looked like: (device, inode), and (inode, size, changed) by file name."""

    directory: tuple[int, int]
    files: dict[str, tuple[int, int, int]]


class OpenLogs:
    """Read-only logs by path, compared with the directory each time one is asked for."""

    def __init__(self, limit: int = MAX_OPEN_LOGS) -> None:
        self._limit = limit
        self._logs: OrderedDict[str, tuple[_Signature, UnifiedLog]] = OrderedDict()
        self._process_id = os.getpid()

    def get(self, path: str, partition: TopicPartition) -> UnifiedLog:
        """Return the log of *partition* in the log directory *path*, as it is now."""
        if self._process_id != os.getpid():  # forked: the handles are the parent's
            self._logs = OrderedDict()
            self._process_id = os.getpid()
        directory = os.path.join(path, directory_name(partition))  # noqa: PTH118 - a string is what open and the cache want
        now = _signature(path, directory)
        cached = self._logs.pop(directory, None)
        if cached is None:
            log = open_log(directory, read_only=True)
        else:
            then, log = cached
            if now != then:
                if _has_only_grown(then, now):
                    log.refresh()
                else:
                    log.close()
                    log = open_log(directory, read_only=True)
        self._logs[directory] = (now, log)
        while len(self._logs) > self._limit:
            _, (_, oldest) = self._logs.popitem(last=False)
            oldest.close()
        return log

    def close(self) -> None:
        """Close all."""
        while self._logs:
            _, (_, log) = self._logs.popitem()
            log.close()


def _signature(log_directory: str, directory: str) -> _Signature:
    files: dict[str, tuple[int, int, int]] = {}
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.name.endswith((".log", "-checkpoint")):
                stat = entry.stat(follow_symlinks=False)
                files[entry.name] = (stat.st_ino, stat.st_size, stat.st_mtime_ns)
    with os.scandir(log_directory) as entries:
        for entry in entries:
            if entry.name.endswith("-checkpoint"):
                stat = entry.stat(follow_symlinks=False)
                files[f"../{entry.name}"] = (stat.st_ino, stat.st_size, stat.st_mtime_ns)
    stat = os.stat(directory)  # noqa: PTH116
    return _Signature((stat.st_dev, stat.st_ino), files)


def _has_only_grown(then: _Signature, now: _Signature) -> bool:
    """Whether the same files are there, or longer or more of them: a writer went on."""
    if then.directory != now.directory:
        return False
    for name, (inode, size, _) in then.files.items():
        other = now.files.get(name)
        if other is None:
            return False
        if name.endswith(".log") and (other[0] != inode or other[1] < size):
            return False
    return True


OPEN_LOGS: Final = OpenLogs()
"""The logs of this process."""
