"""The folder in which files that are made once wait for the next run of the same user."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from segstore.remote.private_folder import make_private_folder

if TYPE_CHECKING:
    from collections.abc import Callable

_T = TypeVar("_T")


def in_user_cache(make: Callable[[Path], _T]) -> _T:
    """Call *make* with the folder to make something in; once more if it cannot be made there.

    That is ``segstore`` in ``XDG_CACHE_HOME`` or ``~/.cache``, and where there is none, or it
    cannot be written to, or somebody else could, a folder beside other temporary ones. What is in
    it is run, so it must be this user's alone.

    Raises
    ------
    OSError
        Neither can be used.
    """
    try:
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        return make(_private(home / "segstore"))
    except (OSError, RuntimeError):  # RuntimeError: the user has no home
        return make(_private(Path(tempfile.gettempdir()) / f"segstore-{os.geteuid()}"))


def _private(folder: Path) -> Path:
    make_private_folder(folder, "the cache of segstore", "set XDG_CACHE_HOME to another folder")
    return folder
