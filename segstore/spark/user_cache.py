"""The folder in which files that are made once wait for the next run of the same user."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from segstore.errors import IllegalArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable

_T = TypeVar("_T")


def in_user_cache(make: Callable[[Path], _T]) -> _T:
    """Call *make* with the folder to make something in; once more if it cannot be made there.

    That is ``XDG_CACHE_HOME`` or ``~/.cache``, and where a home folder is missing or read-only, a
    folder beside other temporary ones that nobody else may write to.

    Raises
    ------
    IllegalArgumentError
        That one belongs to somebody else.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    try:
        return make(cache / "segstore")
    except OSError:
        private = Path(tempfile.gettempdir()) / f"segstore-{os.getuid()}"
        private.mkdir(mode=0o700, exist_ok=True)
        if private.is_symlink() or private.stat().st_uid != os.getuid():
            raise IllegalArgumentError(
                "the folder for what Spark needs belongs to somebody else; set XDG_CACHE_HOME",
                file=str(private),
            ) from None
        return make(private)
