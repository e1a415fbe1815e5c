"""Local files that are copied, read through the core."""

from __future__ import annotations

import os
from contextlib import closing
from typing import TYPE_CHECKING

from segstore._core import Directory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from segstore._core import Environment


def read_pieces(path: str, piece_bytes: int, environment: Environment | None) -> Iterator[bytes]:
    """Yield all bytes of a file, *piece_bytes* at a time; the last piece may be shorter.

    Raises
    ------
    SegstoreError
        The file cannot be read; the error names it.
    """
    folder, name = os.path.split(path)
    with closing(Directory(folder, environment)) as directory:
        position, piece = 0, directory.read_range(name, 0, piece_bytes)
        while piece:
            yield piece
            position += len(piece)
            piece = directory.read_range(name, position, piece_bytes)


def size_of(path: str, environment: Environment | None) -> int:
    """Return the size of a file in bytes.

    Raises
    ------
    SegstoreError
        There is no such file.
    """
    folder, name = os.path.split(path)
    with closing(Directory(folder, environment)) as directory:
        return directory.info(name).size
