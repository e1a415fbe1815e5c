"""Random damages of partitions that a broker and this library wrote.

Bytes, sizes, files gone, old copies, zeros, other kinds of file; files of the partition, and those
of the log directory above it.
"""

from __future__ import annotations

import os
import shutil
import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import segstore
from segstore.types import CURRENT_MAGIC
from tests.kits.damaged_logs import batches_of, build
from tests.kits.golden_kinds import KINDS, partitions_of

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

ABOVE = "../"
MOST_BYTES = 100_000
OF_EACH_KIND = 2
LOCK = ".lock"
MAGIC_AT = 16
OF_LOG_DIRECTORY = (
    ".kafka_cleanshutdown",
    "log-start-offset-checkpoint",
    "meta.properties",
    "recovery-point-offset-checkpoint",
)


@dataclass(frozen=True, slots=True)
class Original:
    """A partition before it is damaged."""

    name: str
    files: dict[str, bytes]
    """By name; ``../name`` is one of the log directory."""
    offsets: frozenset[int]
    """Of its records."""
    earlier: dict[str, bytes] = field(default_factory=dict)
    """Older copies of some of the files."""

    @property
    def is_exact(self) -> bool:
        """Whether headers say where each batch begins: those of compressed message sets do not."""
        logs = (content for name, content in self.files.items() if name.endswith(".log"))
        return all(content[MAGIC_AT] >= CURRENT_MAGIC for content in logs if content)

    @property
    def kinds(self) -> list[list[str]]:
        """Names of the files, those of one kind together."""
        kinds: dict[str, list[str]] = {}
        for name in sorted(self.files.keys() - {f"{ABOVE}meta.properties"}):
            kind = Path(name).suffix if name[:1].isdigit() else name
            kinds.setdefault(kind, []).append(name)
        return list(kinds.values())

    def write_to(self, place: Path) -> Path:
        """Make the log directory at *place*; return the partition's."""
        path = place / self.name
        path.mkdir(parents=True)
        for name, content in self.files.items():
            (path / name).write_bytes(content)
        return path


def original_of(path: Path, earlier: Path | None = None) -> Original:
    """Read a partition, and the files of its log directory."""
    with segstore.open(path, read_only=True) as log:
        offsets = frozenset(record.offset for record in log.scan())
    return Original(path.name, _files(path), offsets, {} if earlier is None else _files(earlier))


def _files(path: Path) -> dict[str, bytes]:
    found = {file.name: file for file in path.iterdir() if file.is_file()}
    found |= {f"{ABOVE}{name}": path.parent / name for name in OF_LOG_DIRECTORY}
    return {
        name: file.read_bytes()
        for name, file in found.items()
        if file.is_file() and file.name != LOCK
    }


def originals_in(golden: Path, place: Path) -> list[Original]:
    """Return partitions of every kind: ours, closed cleanly and killed, and those in *golden*."""
    (place / "earlier").mkdir()
    found = []
    for name, clean in (("clean-0", True), ("killed-0", False)):
        half = build(place / name / name, 30, clean=clean).path
        earlier = Path(shutil.copytree(half, place / "earlier" / name))
        found.append(original_of(build(half, 30, clean=clean).path, earlier))
    sums = place / "sums" / "sums-0"
    settings = {"checksum_sidecar": True, "internal_segment_bytes": 2000, "durability": "none"}
    with segstore.open(sums, **settings) as log:
        for _ in range(60):
            log.append([(b"k", b"v" * 50)])
        log.write_checksum_sidecars()
    found.append(original_of(sums))
    for kind in KINDS:
        small = [
            one.directory
            for one in partitions_of(golden, kind)
            if sum(file.stat().st_size for file in one.directory.iterdir()) <= MOST_BYTES
        ]
        found += [original_of(path) for path in small[:OF_EACH_KIND]]
    return found


# ---- damages -------------------------------------------------------------------------------------


def flip(path: Path, draw: random.Random, _: Original) -> None:
    data = bytearray(path.read_bytes())
    for _ in range(draw.choice((1, 1, 1, 8)) if data else 0):
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    path.write_bytes(data)


def cut(path: Path, draw: random.Random, _: Original) -> None:
    os.truncate(path, draw.randrange(path.stat().st_size + 1))


def cut_at_a_border(path: Path, draw: random.Random, _: Original) -> None:
    """Cut where a batch, a line or an entry ends: what is left is whole."""
    data = path.read_bytes()
    if path.suffix == ".log":
        ends = [one.position for one in batches_of(path)]
    elif b"\n" in data:
        ends = [place + 1 for place, byte in enumerate(data) if byte == ord("\n")]
    else:
        ends = list(range(0, len(data), 8 if path.suffix == ".index" else 12))
    os.truncate(path, draw.choice([0, *ends]))


def zeros(path: Path, draw: random.Random, _: Original) -> None:
    data = bytearray(path.read_bytes())
    first = draw.randrange(len(data) + 1)
    last = min(len(data), first + draw.choice((1, 100, 4096, len(data))))
    data[first:last] = bytes(last - first)
    path.write_bytes(data)


def pad(path: Path, draw: random.Random, _: Original) -> None:
    os.truncate(path, path.stat().st_size + draw.choice((1, 12, 96, 4096)))


def swap_lines(path: Path, draw: random.Random, _: Original) -> None:
    lines = [] if path.name[:1].isdigit() else path.read_bytes().splitlines(keepends=True)
    if lines:
        draw.shuffle(lines)
        path.write_bytes(b"".join(lines))


def take_away(path: Path, _: random.Random, __: Original) -> None:
    path.unlink()


def put_a_copy(path: Path, draw: random.Random, original: Original) -> None:
    """Put an older copy of the file there, or another derived file of its kind."""
    name = path.name
    others = [] if path.suffix == ".log" else original.files
    copies = [
        original.files[other]
        for other in others
        if Path(other).suffix == path.suffix and other != name
    ]
    if name in original.earlier:
        copies = [original.earlier[name]]
    path.write_bytes(draw.choice(copies) if copies else b"")


def put_a_directory(path: Path, _: random.Random, __: Original) -> None:
    path.unlink()
    path.mkdir()


def put_a_pipe(path: Path, _: random.Random, __: Original) -> None:
    path.unlink()
    os.mkfifo(path)


def put_a_link(path: Path, draw: random.Random, _: Original) -> None:
    path.unlink()
    path.symlink_to(draw.choice(("/dev/null", "nowhere", path.name)))


def put_a_socket(path: Path, _: random.Random, __: Original) -> None:
    path.unlink()
    folder = os.open(path.parent, os.O_RDONLY)  # the path of a socket is short
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"/proc/self/fd/{folder}/{path.name}")
    os.close(folder)


HOW: list[Callable[[Path, random.Random, Original], None]] = [
    flip, flip, flip, cut, cut, cut_at_a_border, cut_at_a_border, zeros, zeros, pad, swap_lines,
    take_away, take_away, put_a_copy, put_a_copy,
]  # fmt: skip
NO_FILE = [put_a_directory, put_a_pipe, put_a_link, put_a_socket]
"""Other kinds of file are rarer: `recover` does nothing then."""


def damage(original: Original, path: Path, draw: random.Random) -> list[str]:
    """Damage one to three files of the partition at *path*; return what was done."""
    done = []
    kinds = original.kinds
    for kind in draw.sample(kinds, min(len(kinds), draw.choice((1, 1, 2, 3)))):
        name = draw.choice(kind)
        how = draw.choice(NO_FILE) if draw.randrange(12) == 0 else draw.choice(HOW)
        how(path / name, draw, original)
        done.append(f"{how.__name__} {name}")
    return done


def page_of(original: Original, draw: random.Random) -> tuple[str, int, int]:
    """Return a file, and the bytes of it from and to which it cannot be read: a page, or all."""
    name = draw.choice(draw.choice(original.kinds))
    size = len(original.files[name])
    if draw.randrange(3) == 0 or size == 0:
        return name, 0, 1 << 40
    first = draw.randrange(0, size, min(512, size))
    return name, first, first + 512
