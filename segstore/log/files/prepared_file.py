"""The next content of a small file, written before it counts."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from segstore.errors import SegstoreError

if TYPE_CHECKING:
    from segstore._core import Directory, FileBarrier


class PreparedFile:
    """Content on stable storage beside the file that it is for: no full disk refuses it now.

    What must come after a cut is prepared before it: then the cut is refused, or all of it is done
    [DUR-21, DUR-30]. A crash leaves a ``.tmp`` that the next open removes [DUR-55].

    Parameters
    ----------
    directory : Directory
        Where the file is.
    name : str
        Of the file; nobody else writes it meanwhile.
    data : bytes
        All of its next content.
    barrier : FileBarrier
        What both syncs are for.
    """

    def __init__(self, directory: Directory, name: str, data: bytes, barrier: FileBarrier) -> None:
        self._directory = directory
        self._name = name
        self._barrier = barrier
        try:
            directory.write_beside(name, data, barrier)
        except BaseException:
            self.discard()
            raise

    def publish(self) -> None:
        """Put it in the place of the old content."""
        self._directory.put_in_place(self._name, self._barrier)

    def discard(self) -> None:
        """Leave the old content as it is."""
        with suppress(SegstoreError):  # what stays is removed by the next open
            self._directory.unlink(f"{self._name}.tmp", missing_ok=True)
