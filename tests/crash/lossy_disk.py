"""Takes back what a dead process had not synced, from the journal that ``lossy_disk.c`` has kept.

As a disk whose power was cut: of each file that was not synced each block of 4 KiB is as it was at
the last sync or as it is, the size too; of the names in a directory the last ones are lost.
"""

from __future__ import annotations

import os
import shutil
import struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import random
    from pathlib import Path

HEAD = struct.Struct("=QQQQII")
BLOCK_BYTES = 4096
INDEX_SUFFIXES = {".index", ".timeindex"}


class Record(NamedTuple):
    """A line of the journal, see ``lossy_disk.c``."""

    position: int
    kind: str
    inode: int
    first: int
    second: int
    old: bytes
    new: bytes


def read_journal(path: Path) -> list[Record]:
    """Return the whole records; a change behind half of one did not happen."""
    data = path.read_bytes() if path.exists() else b""
    records, at = [], 0
    while at + HEAD.size <= len(data):
        kind, inode, first, second, size, more = HEAD.unpack_from(data, at)
        begin, end = at + HEAD.size, at + HEAD.size + size + more
        if end > len(data):
            break
        old, new = data[begin : begin + size], data[begin + size : end]
        records.append(Record(at, chr(kind), inode, first, second, old, new))
        at = end
    return records


def settle(journal: Path) -> None:
    """Call all that is there now durable."""
    if journal.exists():
        os.truncate(journal, 0)  # processes have it open
    for path in journal.parent.glob(f"{journal.name}.*"):
        path.unlink()


def take_back(root: Path, journal: Path, chooser: random.Random) -> int:
    """Lose some of what was not synced below *root*; returns how many changes could be lost."""
    records = read_journal(journal)
    synced = {(one.kind, one.inode): one.first for one in records if one.kind in "SD"}
    names = [r for r in records if r.kind in "CR" and r.position >= synced.get(("D", r.inode), 0)]
    writes = [r for r in records if r.kind == "W" and r.position >= synced.get(("S", r.inode), 0)]
    inodes = {path.stat().st_ino: path for path in root.rglob("*")}
    for inode in {one.inode for one in writes}:
        path = inodes.get(inode)
        if path is not None and path.suffix not in INDEX_SUFFIXES:
            _take_back_writes(path, [one for one in writes if one.inode == inode], chooser)
    for directory in {one.inode for one in names}:
        if directory in inodes or directory == root.stat().st_ino:
            mine = [one for one in names if one.inode == directory]
            kept = chooser.choice([0, len(mine), chooser.randrange(len(mine) + 1)])
            for one in reversed(mine[kept:]):
                _take_back_name(inodes.get(directory, root), one, journal)
    for path in root.rglob("*"):  # stores into mappings were not seen: anything may be there
        if path.suffix in INDEX_SUFFIXES and chooser.random() < 0.5:
            os.truncate(path, 0)
    settle(journal)
    return len(writes) + len(names)


def _take_back_writes(path: Path, writes: list[Record], chooser: random.Random) -> None:
    """Put old bytes into the blocks that are lost, the newest change first."""
    fate = chooser.choice(["lost", "kept", "mixed", "mixed"])
    is_lost = {"lost": lambda: True, "kept": lambda: False}.get(
        fate, lambda: chooser.random() < 0.5
    )
    lost: dict[int, bool] = {}
    size_now = path.stat().st_size
    old_size = writes[0].second
    with path.open("r+b") as file:
        content = bytearray(file.read())
        longest = max([size_now, *(one.first + len(one.old) for one in writes)])
        content.extend(bytes(longest - len(content)))
        was = bytearray(content)
        for one in reversed(writes):
            was[one.first : one.first + len(one.old)] = one.old
        was[old_size:] = bytes(len(was) - old_size)
        for begin in range(0, longest, BLOCK_BYTES):
            if lost.setdefault(begin, is_lost()):
                content[begin : begin + BLOCK_BYTES] = was[begin : begin + BLOCK_BYTES]
        file.seek(0)
        file.write(content)
        file.truncate(old_size if is_lost() else size_now)


def _take_back_name(directory: Path, one: Record, journal: Path) -> None:
    old = directory / os.fsdecode(one.old)
    if one.kind == "C":
        old.unlink(missing_ok=True)
        return
    new = directory / os.fsdecode(one.new)
    if new.exists():
        new.rename(old)
    if one.first:
        shutil.copyfile(journal.with_name(f"{journal.name}.{one.first}"), new)
