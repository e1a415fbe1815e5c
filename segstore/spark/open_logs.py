"""Logs that stay open between the tasks of one Spark worker process.

Spark's workers are forked once and then run task after task; opening a log for each would read its
directory and checkpoints again and again. Nothing of this travels to another process: a forked
child begins with an empty cache.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from segstore.errors import InconsistentTopicIdError, LogTruncatedError
from segstore.log.files.checkpoints import PARTITION_METADATA
from segstore.log.files.partition_directory import directory_name
from segstore.log.open_log import open as open_log

if TYPE_CHECKING:
    from collections.abc import Iterator

    from segstore.log.unified_log import Log
    from segstore.types import TopicPartition

MAX_OPEN_LOGS: Final = 64
_SEEN_FILES: Final = (".log", "-checkpoint", PARTITION_METADATA)


class _Signature(NamedTuple):
    """What a directory looked like: (device, inode), and (inode, size, changed) by file name."""

    directory: tuple[int, int]
    files: dict[str, tuple[int, int, int]]


class OpenLogs:
    """Read-only logs by path, compared with the directory each time one is asked for.

    A log belongs to one user from `lease` on, so nobody closes or refreshes it meanwhile; a second
    user gets another handle. Only those that nobody uses count, and are closed beyond *limit*.
    """

    def __init__(self, limit: int = MAX_OPEN_LOGS) -> None:
        self._limit = limit
        self._forget()

    @contextmanager
    def lease(self, path: str, partition: TopicPartition) -> Iterator[Log]:
        """Lend the log of *partition* in the log directory *path*, as it is now."""
        if self._process_id != os.getpid():  # forked: handles and lock are the parent's
            self._forget()
        directory = os.path.join(path, directory_name(partition))  # noqa: PTH118 - a string is what open and the cache want
        idle = self._idle
        now = _signature(path, directory)
        with self._lock:
            cached = idle.pop(directory, None)
        log = None if cached is None else _refreshed(*cached, now)
        if log is None:
            log = open_log(directory, read_only=True)
        try:
            yield log
        finally:
            with self._lock:
                others = [idle.pop(directory)] if directory in idle else []
                idle[directory] = (now, log)
                while len(idle) > self._limit:
                    others.append(idle.popitem(last=False)[1])
            for _, other in others:
                other.close()

    def close(self) -> None:
        """Close all that nobody uses."""
        with self._lock:
            logs = [log for _, log in self._idle.values()]
            self._idle.clear()
        for log in logs:
            log.close()

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._idle: OrderedDict[str, tuple[_Signature, Log]] = OrderedDict()
        self._process_id = os.getpid()


def _refreshed(then: _Signature, log: Log, now: _Signature) -> Log | None:
    """Return *log* as the directory is now, or close it and return None."""
    if now == then:
        return log
    try:
        if _has_only_grown(then, now) and log.report.damage is None:  # an open alone judges that
            log.refresh()
            return log
    except (LogTruncatedError, InconsistentTopicIdError):
        # cut, and longer again, or another topic: another log as far as a query can tell
        pass
    except BaseException:
        log.close()
        raise
    log.close()
    return None


def _signature(log_directory: str, directory: str) -> _Signature:
    files: dict[str, tuple[int, int, int]] = {}
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.name.endswith(_SEEN_FILES):
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
    if then.files.get(PARTITION_METADATA) != now.files.get(PARTITION_METADATA):
        return False  # an open log knows its topic id from the open; a new directory may look alike
    for name, (inode, size, _) in then.files.items():
        other = now.files.get(name)
        if other is None:
            return False
        if name.endswith(".log") and (other[0] != inode or other[1] < size):
            return False
    return True


OPEN_LOGS: Final = OpenLogs()
"""The logs of this process that nobody uses."""
