"""Logs whose segments are fetched, as those of a bucket are, while the store fails [DUR-111].

The store is the simulated disk: any call for bytes can fail. The folder has the segments' sizes.
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from segstore._core import Directory, FetchedFiles
from segstore.log.log_environment import LogEnvironment
from segstore.log.log_opener import open_partition
from segstore.log.open_options import open_options
from tests.crash.crash_script import PATH
from tests.crash.failing_scenarios_of_doors import SETTINGS, committed, in_columns, quiet, scan
from tests.crash.failing_trial import asking

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore import UnifiedLog
    from segstore._core import SimulatedDisk
    from tests.crash.failing_trial import Trial


class StoredFile:
    """A file of the disk, as the core asks for its bytes."""

    def __init__(self, disk: SimulatedDisk, name: str) -> None:
        self._directory, self._name = Directory(PATH, disk), name

    def read_into(self, target: memoryview, position: int) -> int:
        content = self._directory.read_file(self._name)[position : position + len(target)]
        target[: len(content)] = content
        return len(content)


@functools.cache
def folder_of(what: str) -> Path:
    """Return a folder with the files of a log; segments have their sizes there, and no bytes."""
    above = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, above, ignore_errors=True)
    folder = Path(above, "topic-0")
    folder.mkdir()
    source = Directory(PATH, quiet(what))
    for name in source.names():
        content = source.read_file(name)
        is_segment = name.endswith(".log")
        (folder / name).write_bytes(b"" if is_segment else content)
        if is_segment:
            os.truncate(folder / name, len(content))
    return folder


def as_fetched(disk: SimulatedDisk, what: str) -> UnifiedLog:
    folder = folder_of(what)
    files = {each.name: StoredFile(disk, each.name) for each in folder.glob("*.log")}
    told = {int(each.stem): 0 for each in folder.glob("*.log")}
    environment = LogEnvironment(environment=FetchedFiles(files), max_timestamps=told)
    return open_partition(folder, open_options(read_only=True), environment)


def by_time(log: UnifiedLog) -> object:
    """Look up a time that is in the last segment; what the store says of the others is too low."""
    last = max(record.timestamp for record in log.scan())
    return log.offset_for_timestamp(last)


def committed_part(log: UnifiedLog) -> object:
    """Read a part that ends within a segment: no more is fetched than tells how it was ended."""
    records = log.scan(1, log.log_end_offset - 1, isolation="read_committed")
    return [record.offset for record in records]


ASKED: Final[dict[str, Callable[[UnifiedLog], object]]] = {
    "scan": scan,
    "in columns": in_columns,
    "look up a time": by_time,
    "read committed": committed,
    "read a committed part": committed_part,
}


def ask(name: str, what: str) -> Trial:
    return asking(quiet(what), SETTINGS, ASKED[name], functools.partial(as_fetched, what=what))


FETCHED_SCENARIOS: Final[dict[str, Callable[[], Trial]]] = {
    f"{name} of fetched segments, {what}": functools.partial(ask, name, what)
    for name in ASKED
    for what in ("segments", "transactions")
}
