"""What verify says of a log that an open for writing was setting aside as a whole [DUR-54]."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segstore.cli.finding import Finding
from segstore.log.directory.checkpoints import BEGINS_ANEW_MARK, LOG_START_OFFSET_CHECKPOINT
from segstore.log.loader.quarantined_file import set_aside_hint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segstore.errors import CorruptLogError


def is_of_mark(error: CorruptLogError) -> bool:
    """Whether an open is refused since the log starts elsewhere than the mark says."""
    return error.file is not None and error.file.endswith(f"/{BEGINS_ANEW_MARK}")


def refused_mark(error: CorruptLogError) -> Finding:
    """Return the finding of a log that is refused so."""
    return Finding(
        file=BEGINS_ANEW_MARK,
        what=error.message,
        meaning="no open for writing goes on before that",
        advice="do that, and verify again",
        repaired=False,
    )


def standing_mark(names: Sequence[str]) -> Finding:
    """Return the finding of a log with which the next open goes on."""
    hint = set_aside_hint(names, BEGINS_ANEW_MARK)
    return Finding(
        file=BEGINS_ANEW_MARK,
        what="an open for writing was setting the whole log aside, and was not done",
        meaning="the log start lay above the log end; the next open for writing ends it",
        advice=f"where {LOG_START_OFFSET_CHECKPOINT} is not what was written: {hint[0].lower()}"
        f"{hint[1:]}, and write the right log start",
        repaired=True,
    )
