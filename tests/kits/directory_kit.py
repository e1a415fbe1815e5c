"""Partition directories on a simulated disk that hold what a test says, all of it synced."""

from __future__ import annotations

import errno
import os
import struct
from typing import TYPE_CHECKING

from segstore._core import Barrier, DataFile, Directory, SimulatedDisk
from tests.crash.crash_script import PATH, START_MS
from tests.kits.log_kit import at

if TYPE_CHECKING:
    from collections.abc import Mapping

RECOVERY_POINT = "recovery-point-offset-checkpoint"


def disk_with(files: Mapping[str, bytes]) -> SimulatedDisk:
    """Return a disk with these files in the partition's directory, and nothing to lose."""
    disk = SimulatedDisk()
    disk.wall_clock_ms = START_MS
    Directory(os.path.dirname(PATH), disk, create=True)  # noqa: PTH120 - not a real one
    directory = Directory(PATH, disk, create=True)
    for name, content in files.items():
        with DataFile(directory, name, create=True) as file:
            file.write(0, content)
            file.sync(Barrier.APPENDED_RECORDS)
    directory.sync(Barrier.APPENDED_NAMES)
    return disk


def fail_reads_of(disk: SimulatedDisk, ending: str) -> None:
    """Let each read of a file whose name ends so fail, until the disk is watched by another."""

    def watch(call: str, name: str) -> None:
        if call == "read_at" and name.endswith(ending):
            disk.fail(call, 1, errno.EIO)

    disk.watch(watch)


def name_of(base_offset: int, ending: str = "log") -> str:
    return f"{base_offset:020d}.{ending}"


def records(first: int, end: int) -> bytes:
    """Batches of one record each."""
    return b"".join(at(offset, epoch=0) for offset in range(first, end))


def far_record(offset: int) -> bytes:
    """Return a batch of one record at an offset that no CRC covers."""
    content = bytearray(at(0, epoch=0))
    struct.pack_into(">q", content, 0, offset)
    return bytes(content)


def recovery_point(offset: int) -> bytes:
    return f"0\n1\ntopic 0 {offset}\n".encode()
