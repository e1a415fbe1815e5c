"""A disk that fills up: a tmpfs or an ext4 of a given size, where the user may mount one."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SIZE = 1024 * 1024


class SmallDisk:
    """A mounted tmpfs; a file of ballast takes what a test wants to be gone."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.ballast = path / "ballast"

    def fill(self, leave: int = 0) -> None:
        """Leave that many bytes free, to a page; a log may write in the background meanwhile."""
        with self.ballast.open("ab") as file:
            for _ in range(20):
                free = os.statvfs(self.path)
                size = max(free.f_bavail * free.f_frsize - leave, 0)
                try:
                    return os.posix_fallocate(file.fileno(), file.tell(), size) if size else None
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
            raise AssertionError(f"{self.path} does not come to rest")

    def fill_block_by_block(self) -> None:
        """Take all: ext4 has more free blocks than it reports, and a write gets them."""
        with suppress(OSError), self.ballast.open("ab", buffering=0) as file:
            while True:
                file.write(bytes(1024))

    def free(self) -> None:
        """Give the ballast's space back."""
        self.ballast.unlink(missing_ok=True)

    def remount(self, mode: str) -> None:
        """Make it read-only (``ro``) or writable (``rw``)."""
        subprocess.run(["mount", "-o", f"remount,{mode}", self.path], check=True)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """A disk of one MiB; the test is skipped where none can be mounted."""
    with _mounted(tmp_path, "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs") as disk:
        yield disk


@pytest.fixture
def disk_of_small_blocks(tmp_path: Path) -> Iterator[SmallDisk]:
    """An ext4 of 32 MiB whose blocks have 1 KiB: a page of memory has four of them."""
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(32 * SIZE)
    make = shutil.which("mkfs.ext4", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if make is None:
        pytest.skip("there is no mkfs.ext4 here")
    subprocess.run([make, "-q", "-b", "1024", "-m", "0", image], check=True)
    with _mounted(tmp_path, "-o", "loop", image) as disk:
        yield disk


@contextmanager
def _mounted(above: Path, *arguments: str | Path) -> Iterator[SmallDisk]:
    path = above / "disk"
    path.mkdir()
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small disk")
    command = ["mount", *arguments, path]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"no small disk can be mounted here: {mounted.stderr.strip()}")
    try:
        yield SmallDisk(path)
    finally:
        subprocess.run(["umount", "--lazy", path], check=True)
