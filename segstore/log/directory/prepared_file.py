"""The next content of a small file, written before it counts."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from segstore.errors import SegstoreError

if TYPE_CHECKING:
    from segstore._core import Directory


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
    """

    def __init__(self, directory: Directory, name: str, data: bytes) -> None:
        self._directory = directory
        self._name = name
        self._temporary = f"{name}.tmp"
        try:
            directory.create_file(self._temporary, data)
        except BaseException:
            self.discard()
            raise

    def publish(self) -> None:
        """Put it in the place of the old content."""
        self._directory.rename(self._temporary, self._name)
        self._directory.sync()

    def discard(self) -> None:
        """Leave the old content as it is."""
        with suppress(SegstoreError):  # what stays is removed by the next open
            self._directory.unlink(self._temporary, missing_ok=True)
