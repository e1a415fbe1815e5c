"""Where the bytes of a log's file come from, for errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from segstore.errors import SegstoreError


class FileOrigin(NamedTuple):
    """What a file of a log is called in errors, where its bytes come from elsewhere.

    Attributes
    ----------
    name : str
        Of what holds them.
    position : int
        Of the file's first byte among the plain ones there.
    """

    name: str
    position: int = 0

    def locate(self, error: SegstoreError) -> None:
        """Let an *error* about the file name what holds its bytes."""
        error.file = self.name
        if error.position is not None:
            error.position += self.position
