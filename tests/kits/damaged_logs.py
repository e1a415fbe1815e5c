"""A small log in a known state, its bytes by batch, and ways to damage it."""

from __future__ import annotations

import hashlib
import os
import shutil
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import pytest

import segstore
from segstore.errors import CorruptLogError
from segstore.log.files.checkpoints import CLEAN_SHUTDOWN_MARKER, LOCK
from segstore.log.files.partition_directory import file_name

if TYPE_CHECKING:
    from pathlib import Path

SETTINGS = {
    "internal_segment_bytes": 2000,
    "index_interval_bytes": 200,
    "segment_ms": None,
    "file_delete_delay_ms": 0,
}
RECORDS_COUNT = 60
BATCH_HEADER = struct.Struct(">qi")
VALUE = b"value of record "
TIME = 1_700_000_000_000


class Batch(NamedTuple):
    """Where a batch stands in its file."""

    base_offset: int
    position: int
    size: int

    @property
    def end(self) -> int:
        return self.position + self.size


def batches_of(log_file: Path) -> list[Batch]:
    """Walk a ``.log`` file by the length fields alone."""
    data, position, found = log_file.read_bytes(), 0, []
    while position + BATCH_HEADER.size <= len(data):
        base_offset, length = BATCH_HEADER.unpack_from(data, position)
        found.append(Batch(base_offset, position, BATCH_HEADER.size + length))
        position = found[-1].end
    return found


@dataclass
class LogDirectory:
    """A partition directory as files."""

    path: Path

    def file(self, base_offset: int, kind: str = "log") -> Path:
        return self.path / file_name(base_offset, kind)

    @property
    def bases(self) -> list[int]:
        return sorted(int(path.stem) for path in self.path.glob("*.log"))

    @property
    def last(self) -> Path:
        return self.file(self.bases[-1])

    def names(self) -> set[str]:
        return {path.name for path in self.path.iterdir()}

    def snapshot(self) -> dict[str, str]:
        """Name and content of every file: what must not change, or change again."""
        return {
            str(path.relative_to(self.path)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(self.path.rglob("*"))
            if path.is_file()
        }

    def logs(self) -> dict[str, bytes]:
        """The bytes of the ``.log`` files."""
        return {path.name: path.read_bytes() for path in self.path.glob("*.log")}

    def copy(self, target: Path) -> LogDirectory:
        shutil.copytree(self.path, target)
        return LogDirectory(target)

    def open(self, **settings) -> segstore.UnifiedLog:
        return segstore.open(self.path, **{**SETTINGS, **settings})

    def set_recovery_point(self, offset: int | None) -> None:
        """Write the partition's own checkpoint, or remove it."""
        checkpoint = self.path / "recovery-point-offset-checkpoint"
        if offset is None:
            checkpoint.unlink(missing_ok=True)
        else:
            topic, _, partition = self.path.name.rpartition("-")
            checkpoint.write_text(f"0\n1\n{topic} {partition} {offset}\n")


def values_of(log: segstore.UnifiedLog) -> list[tuple[int, bytes]]:
    """(offset, value) of every record."""
    return [(offset, value) for offset, _, _, value in log.scan().tuples()]


def expected_values(start: int, end: int) -> list[tuple[int, bytes]]:
    """What `build` wrote."""
    return [(offset, VALUE + b"%d" % offset * 20) for offset in range(start, end)]


def build(path: Path, records_count: int = RECORDS_COUNT, *, clean: bool = False) -> LogDirectory:
    """Write a log of one-record batches in some segments; crash it, or close it.

    A crashed one has no marker; its recovery point is 0, as no flush has moved it.
    """
    log = segstore.open(path, durability="none", **SETTINGS)
    for offset in range(log.log_end_offset, log.log_end_offset + records_count):
        log.append([(TIME + offset, b"key", VALUE + b"%d" % offset * 20)])
    directory = LogDirectory(path)
    if clean:
        log.close()
    else:
        log.close_quietly()
        directory.set_recovery_point(0)
    return directory


def append_bytes(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def flip_bit(path: Path, position: int, bit: int = 0) -> None:
    """Change one bit of a file."""
    with path.open("r+b") as file:
        file.seek(position)
        byte = file.read(1)[0]
        file.seek(position)
        file.write(bytes([byte ^ (1 << bit)]))


def cut(path: Path, size: int) -> None:
    os.truncate(path, size)


def open_twice(directory, end):
    """Open for reading, for writing and again: the same log each time; returns the first report."""
    with directory.open(read_only=True) as log:
        assert values_of(log) == expected_values(0, end)
    with directory.open() as log:
        report = log.report
        assert values_of(log) == expected_values(0, end)
    logs = directory.logs()
    with directory.open() as log:
        assert log.report.clean
        assert log.log_end_offset == end
        log.append([(None, b"goes on")])
    with directory.open() as log:
        assert values_of(log)[:-1] == expected_values(0, end)
        assert values_of(log)[-1] == (end, b"goes on")
    assert all(directory.logs()[name].startswith(content) for name, content in logs.items())
    assert report.log_end_offset == end
    assert not report.clean
    return report


def refused(directory, match):
    """Opening for writing raises, twice, and changes no byte of the directory [DUR-51].

    Only the clean marker goes, before anything else [DUR-24], and the lock file comes.
    """
    before = directory.snapshot()
    for _ in range(2):
        with pytest.raises(CorruptLogError, match=match):
            directory.open()
        after = directory.snapshot()
        assert set(before.items()) ^ set(after.items()) <= {
            item
            for item in [*before.items(), *after.items()]
            if item[0] in {CLEAN_SHUTDOWN_MARKER, LOCK}
        }
