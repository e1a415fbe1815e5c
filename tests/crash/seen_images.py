"""Disks with the same bytes show the same: each is looked at once.

Two crashes behind different effects, or with different seeds, often leave the same. What a log
shows is a function of its settings and of the bytes, names and times on its disk, so another look
at them shows nothing new. Whether that may be found there is asked of every crash.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from segstore._core import Directory

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from segstore._core import SimulatedDisk
    from tests.crash.crash_check import Looked
    from tests.crash.crash_script import Settings


class SeenImage(NamedTuple):
    """A disk that a crash left, behind the look at it.

    Attributes
    ----------
    disk : SimulatedDisk
        With what the open has written.
    begun : int
        Its effects before the look.
    looked : Looked
        What was there.
    """

    disk: SimulatedDisk
    begun: int
    looked: Looked


class SeenImages:
    """What was found on the disks that were looked at.

    It belongs to one test: another one may have replaced a part of the code.
    """

    def __init__(self) -> None:
        self._images: dict[Hashable, SeenImage] = {}
        self._settled: set[int] = set()

    def image(
        self,
        disk: SimulatedDisk,
        settings: Settings,
        look: Callable[[SimulatedDisk, Settings], Looked],
        unsynced: int | None = None,
    ) -> SeenImage:
        """Look at *disk*, or give what was looked at with the same bytes.

        Parameters
        ----------
        look : callable
            Opens the log and looks at it; raises where it is not as it must be.
        unsynced : int or None
            Where not all of the disk is synced: the effects that it is behind. Which of the bytes
            are synced cannot be seen, so only a disk behind as many is the same.
        """
        key = (settings, unsynced, disk.wall_clock_ms, disk.effects, *contents(disk, "/"))
        found = self._images.get(key)
        if found is None:
            begun = disk.effects
            found = self._images[key] = SeenImage(disk, begun, look(disk, settings))
        return found

    def settle(self, image: SeenImage, check: Callable[[SeenImage], None]) -> None:
        """Make a check that changes the image, once for each."""
        if id(image) not in self._settled:
            check(image)
            self._settled.add(id(image))


def contents(disk: SimulatedDisk, path: str) -> Iterator[Hashable]:
    """Yield names, sizes, times and bytes of all below *path*."""
    directory = Directory(path, disk)
    for name in directory.names():
        info = directory.info(name)
        if info.is_directory:
            yield name, info
            yield from contents(disk, f"{path.rstrip('/')}/{name}")
            yield None  # the end of it
        else:
            yield name, info, directory.read_file(name)
