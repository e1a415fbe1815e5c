"""Checks beside a writer, repeated until the log did not change meanwhile [DUR-71, DUR-77].

What a writer deletes, cuts or begins while a check goes from file to file looks like damage, and is
none. A finding counts when the log stood still meanwhile, or when it is there again and again.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeVar

from segstore.errors import (
    CorruptIndexError,
    CorruptLogError,
    CorruptRecordError,
    LogNotFoundError,
    OffsetOutOfRangeError,
)
from segstore.log.files.partition_directory import LOG_FILE_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore._core import Directory

    _State = list[tuple[str, object]]
    """Names, and what is known of each file."""

MAX_ATTEMPTS: Final = 5
_PAUSE_SECONDS: Final = 0.01
CHANGED: Final = (
    f"the log was changed during each of {MAX_ATTEMPTS} checks: a finding may come from a change"
    " that was under way"
)
_MADE_BY_CHANGES: Final = (
    CorruptIndexError,
    CorruptLogError,
    CorruptRecordError,
    LogNotFoundError,
    OffsetOutOfRangeError,
)

_T = TypeVar("_T")


def read_while_stable(
    directory: Directory,
    look: Callable[[], _T],
    is_good: Callable[[_T], bool],
    *,
    min_attempts: int = 1,
    is_of_newest: Callable[[_T], bool] = lambda _: True,
) -> tuple[_T, bool]:
    """Return what *look* found, and whether the log stood still where that is not good.

    Parameters
    ----------
    directory : Directory
        The partition's.
    look : callable
        Looks at all of it, anew each time.
    is_good : callable
        Whether its answer needs no second look.
    min_attempts : int
        Before what is not good counts: two where the first one may be of an older view of the log.
    is_of_newest : callable
        Whether the newest segment is among what is not good. Else it may grow meanwhile: damage of
        older ones is none that an append makes.

    Raises
    ------
    SegstoreError
        What the last look raised, or one of a log that stood still.
    """
    for number in range(1, MAX_ATTEMPTS + 1):
        before = _state_of(directory)
        try:
            found = look()
        except _MADE_BY_CHANGES:
            if number == MAX_ATTEMPTS or (
                number >= min_attempts and _state_of(directory) == before
            ):
                raise
        else:
            is_stable = is_good(found)
            if not is_stable and number >= min_attempts:
                looked_at = _everything if is_of_newest(found) else _without_newest
                is_stable = looked_at(before) == looked_at(_state_of(directory))
            if is_stable or number == MAX_ATTEMPTS:
                return found, is_stable
        time.sleep(_PAUSE_SECONDS)
    raise AssertionError


def _everything(state: _State) -> _State:
    return state


def _without_newest(state: _State) -> _State:
    """Return the ``.log`` files in *state*, with no more than the name of the newest one."""
    files = [(name, info) for name, info in state if name.endswith(LOG_FILE_SUFFIX)]
    newest = max((name for name, _ in files), default=None)
    return [(name, None if name == newest else info) for name, info in files]


def _state_of(directory: Directory) -> _State:
    """Return the names, and of ``.log`` files what they are like; None where one goes now."""
    state: _State = []
    for name in directory.names():
        info = None
        if name.endswith(LOG_FILE_SUFFIX):
            with suppress(LogNotFoundError):
                info = directory.info(name)
        state.append((name, info))
    return state
