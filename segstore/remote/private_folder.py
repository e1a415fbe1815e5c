"""Folders that this user alone can change: what is read from them is believed."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from segstore.errors import LogPermissionError

if TYPE_CHECKING:
    from pathlib import Path


def make_private_folder(
    path: Path,
    what: str = "the spool of remote storage",
    way_out: str = "name another one by the option spoolDirectory",
) -> None:
    """Make *path* for this user alone; one that is there must be such a folder, and no link to one.

    Parameters
    ----------
    path : Path
        The folder.
    what, way_out : str
        For errors: what it is, and what to do.

    Raises
    ------
    LogPermissionError
        It cannot be made, or another user could change what is in it.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = path.lstat()
    except OSError as error:
        raise LogPermissionError(
            f"{what} cannot be used: {way_out} ({error.strerror})",
            file=str(path),
            os_error=error.errno,
        ) from error
    if stat.S_ISLNK(status.st_mode):  # of whoever made it: it can lead elsewhere at any time
        found = "a symbolic link"
    elif status.st_uid != os.geteuid() or status.st_mode & 0o022:
        found = f"user {status.st_uid}, mode {stat.S_IMODE(status.st_mode):o}"
    else:
        return
    raise LogPermissionError(
        f"another user could change the files in {what}: {way_out}, or a folder in it, which"
        " segstore then makes",
        file=str(path),
        found=found,
        expected=f"a folder of user {os.geteuid()}, mode 700",
    )
