"""What root could not hand over to the owner of a directory [DUR-133].

The core gives what it makes to the owner of the directory. A file system may refuse that, as NFS
does that maps root to nobody; or an earlier version made the files.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from segstore.log.files.checkpoints import LEADER_EPOCH_CHECKPOINT, LOCK, LOG_STATE

if TYPE_CHECKING:
    from segstore._core import Environment

_ASKED: Final = (LOCK, LOG_STATE, LEADER_EPOCH_CHECKPOINT)
"""Files that every open for writing makes or replaces."""


def ownership_warnings(path: str, environment: Environment | None) -> list[str]:
    """Return what to tell root of files that the owner of their directory may not open."""
    if os.geteuid() != 0 or environment is not None:
        return []
    try:
        owner = os.stat(path).st_uid  # noqa: PTH116 - as the directory spells it
        found = {name: os.lstat(os.path.join(path, name)).st_uid for name in _there(path)}  # noqa: PTH118
    except OSError:  # what is wrong with the directory, its open says
        return []
    foreign = [name for name, user in found.items() if user != owner]
    if not foreign:
        return []
    text = (
        f"{', '.join(foreign)} of {path} cannot be given to user {owner}, who owns the directory:"
        f" a broker that runs as this user cannot open the log. Run `chown -R {owner} {path}`"
    )
    return [text]


def _there(path: str) -> list[str]:
    return [name for name in _ASKED if os.path.lexists(os.path.join(path, name))]  # noqa: PTH118
