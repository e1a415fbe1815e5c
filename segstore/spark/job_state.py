"""The folder that keeps a job's results, each with what the partition's directory looked like.

A result holds while it is the same directory with the same files: their inodes, sizes and times of
change of data (mtime) and of the inode (ctime). A copy keeps names, sizes and mtime, and a program
may set mtime to what it was; nothing sets ctime. Devices have other numbers on other machines, so
they are left out.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any, Final

from segstore.errors import IllegalArgumentError
from segstore.log.files.checkpoints import (
    CLEAN_SHUTDOWN_MARKER,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    LOG_STATE,
    MISSING_RECORDS,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
    RESTART_MARKER,
    SYNC_FAILED_MARK,
)
from segstore.tables.whole_file import new_run, remove_parts, whole_file

_OFFSET_CHECKPOINTS: Final = (LOG_START_OFFSET_CHECKPOINT, RECOVERY_POINT_CHECKPOINT)
_SMALL_FILES: Final = frozenset(
    {
        *_OFFSET_CHECKPOINTS,
        CLEAN_SHUTDOWN_MARKER,
        LEADER_EPOCH_CHECKPOINT,
        RESTART_MARKER,
        LOG_STATE,
        MISSING_RECORDS,
        PARTITION_METADATA,
        SYNC_FAILED_MARK,
    }
)
_OF_A_SEGMENT: Final = re.compile(r"\d{20}\.")


class JobState:
    """Results of the job *name* in *folder*, which is made; travels pickled to the executors."""

    def __init__(self, folder: str | os.PathLike[str], name: str) -> None:
        self._folder = os.path.abspath(folder)  # noqa: PTH100 - links stay as they are
        self._name = name
        self._run = new_run()
        Path(self._folder).mkdir(parents=True, exist_ok=True)

    def keep(self, key: str, directory: str, looks: dict[str, Any], result: dict[str, Any]) -> None:
        """Write a result down, whole or not at all, and the *looks* of its directory."""
        kept = {"directory": directory, "looks": looks, "result": result}
        with whole_file(self._file_of(key), self._run) as part:
            part.write_text(json.dumps(kept), encoding="utf-8")

    def read(self, key: str, directory: str) -> dict[str, Any] | None:
        """Return the result for *directory* that is there and still holds.

        Raises
        ------
        IllegalArgumentError
            The file holds no result, or that of another directory.
        """
        file = self._file_of(key)
        if not file.is_file():
            return None
        try:
            kept = json.loads(file.read_text(encoding="utf-8"))
            other, looks = kept["directory"], kept["looks"]
            result: dict[str, Any] = kept["result"]
        except (ValueError, KeyError, TypeError):
            raise IllegalArgumentError(
                "this is no result of a job: move it away, or name another folder",
                file=str(file),
                found="other text",
                expected="what a job wrote",
            ) from None
        if other != directory:
            raise IllegalArgumentError(
                f"this is the result of another directory, {other}: name another folder",
                file=str(file),
                found=str(other),
                expected=directory,
            )
        return result if looks == directory_signature(directory) else None

    def remove_parts(self) -> None:
        """Remove what killed tasks left; this run is over."""
        remove_parts(self._folder, self._run)

    def _file_of(self, key: str) -> Path:
        return Path(self._folder) / f"{self._name}-{key}.json"


def directory_signature(directory: str) -> dict[str, Any]:
    """Return, for JSON, what changes when anything that an open reads changes."""
    with os.scandir(directory) as entries:
        files = [
            (entry.name, entry.stat())
            for entry in entries
            if entry.name in _SMALL_FILES or _OF_A_SEGMENT.match(entry.name)
        ]
    parent, name = os.path.split(directory)
    return {
        "inode": os.stat(directory).st_ino,  # noqa: PTH116 - as scandir
        "files": sorted(
            [name, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns]
            for name, stat in files
        ),
        "offsets": [_line_of(Path(parent) / one, name) for one in _OFFSET_CHECKPOINTS],
        "is_clean": (Path(parent) / CLEAN_SHUTDOWN_MARKER).exists(),
    }


def _line_of(checkpoint: Path, directory_name: str) -> str | None:
    """Return what the log directory's *checkpoint* has for a partition; others change, too."""
    try:
        text = checkpoint.read_bytes()
    except FileNotFoundError:
        return None
    topic, _, partition = directory_name.rpartition("-")
    words = re.escape(f"{topic} {partition} ".encode())
    found = re.findall(rb"^" + words + rb".*$", text, re.MULTILINE)
    return found[-1].decode("ascii", errors="replace") if found else None
