"""Small files of a log directory that are parsed once, and again only after a change.

A log directory has one recovery-point checkpoint for all its logs. A process that opens these logs
one after another asks the same file once for each: to parse it each time is quadratic.
"""

from __future__ import annotations

import copy
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar, cast

from segstore._core import Directory
from segstore.errors import LogNotFoundError, SegstoreError

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore._core import Environment

SETTLED_NS: Final = 100_000_000
"""File systems give times in steps of up to 10 ms: two changes within one step have one time."""
MAX_KEPT_FILES: Final = 4
MIN_KEPT_BYTES: Final = 4096
"""The files of one partition are smaller: they are read each time, see `parse_once`."""
MAX_KEPT_BYTES: Final = 8 * 1024 * 1024

_T = TypeVar("_T")


class _Kept(NamedTuple):
    signature: tuple[int, int, int] | None  # None: the file was too young to be known by it
    data: bytes
    parsed: object
    error: SegstoreError | None


_kept: dict[tuple[Environment, tuple[int, int], str], _Kept] = {}
"""Of this process. Nothing in it changes; a forked child goes on with it."""


def read_parsed(
    directory: Directory,
    name: str,
    parse: Callable[[bytes], _T],
    max_bytes: int,
) -> _T | None:
    """Return what *parse* makes of the file, None where there is none; never change the result.

    The file counts as unchanged when its inode, size and time of change are the same and the time
    had passed when it was read. Otherwise it is read, and parsed when the bytes are others.

    Parameters
    ----------
    directory : Directory
        Where the file is.
    name : str
        Of the file.
    parse : callable
        The only one for files of that name; its errors are kept as its results are.
    max_bytes : int
        A larger file is an error.
    """
    try:
        info = directory.info(name)
        is_kept = MIN_KEPT_BYTES <= info.size <= MAX_KEPT_BYTES
        if not is_kept or not isinstance(directory, Directory):  # a forecast's has other files
            return parse_once(parse, directory.read_file(name, max_bytes))
        key = (directory.environment, directory.identity, name)
        signature = (info.inode, info.size, info.changed_ns)
        kept = _kept.get(key)
        if kept is None or kept.signature != signature:
            is_settled = info.changed_ns + SETTLED_NS < directory.wall_clock_ms() * 1_000_000
            data = directory.read_file(name, max_bytes)
            if kept is None or kept.data != data:
                kept = _parsed(data, parse)
            _kept[key] = kept = kept._replace(signature=signature if is_settled else None)
            _forget_the_oldest()
    except LogNotFoundError:
        return None
    if kept.error is not None:
        raise copy.copy(kept.error)  # each has a traceback, and may get notes, of its own
    return cast("_T", kept.parsed)


def parse_once(parse: Callable[[bytes], _T], data: bytes) -> _T:
    """Return what *parse* makes of a small file; never change the result.

    An open reads some files twice, and the partitions of a topic have some files of the same bytes:
    what was made of the last few is kept.
    """
    return cast("_T", _parsed_small(parse, data)) if len(data) < MIN_KEPT_BYTES else parse(data)


@lru_cache(maxsize=16)
def _parsed_small(parse: Callable[[bytes], object], data: bytes) -> object:
    return parse(data)


def _parsed(data: bytes, parse: Callable[[bytes], object]) -> _Kept:
    try:
        return _Kept(None, data, parse(data), None)
    except SegstoreError as error:
        return _Kept(None, data, None, error.with_traceback(None))


def _forget_the_oldest() -> None:
    for key in [*_kept][:-MAX_KEPT_FILES]:
        _kept.pop(key, None)
