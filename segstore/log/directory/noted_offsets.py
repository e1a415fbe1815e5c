"""Log start and recovery point in the name of an empty file, where no block is left for more.

A checkpoint is written beside the old one [DUR-21], which takes a block. On a full disk that would
keep away the very operations that give space back: they note an offset first [DUR-16, DUR-19]. An
empty file takes a name and an inode only. It counts beside the checkpoints, as those of another
place do [DUR-65], and goes when the checkpoint is written the next time.
"""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Final

from segstore.errors import CorruptCheckpointError, DiskFullError
from segstore.log.directory.checkpoints import (
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    read_offset,
    write_offset,
)

if TYPE_CHECKING:
    from segstore._core import Directory
    from segstore.types import TopicPartition

NOTES: Final = ".segstore.notes"
"""There while there may be such names: an open of 10,000 segments does not list them for these."""
_PREFIXES: Final = {
    LOG_START_OFFSET_CHECKPOINT: ".segstore.log-start-",
    RECOVERY_POINT_CHECKPOINT: ".segstore.recovery-point-",
}
_OFFSET_DIGITS: Final = 20
_IS_NOTE: Final = re.compile(
    rf"(?:{'|'.join(map(re.escape, _PREFIXES.values()))})[0-9]{{{_OFFSET_DIGITS}}}", re.ASCII
)


def is_note(name: str) -> bool:
    """Whether a file of that name is one of these."""
    return name == NOTES or _IS_NOTE.fullmatch(name) is not None


def noted_offsets(directory: Directory, checkpoint: str) -> list[int]:
    """Return the offsets that count beside *checkpoint*."""
    return [int(name[-_OFFSET_DIGITS:]) for name in _notes(directory, checkpoint)]


def write_or_note_offset(
    directory: Directory, checkpoint: str, topic_partition: TopicPartition, offset: int
) -> None:
    """Write *checkpoint*; without space for it, note *offset* by a name, durably.

    Of several the greatest log start counts, and the smallest recovery point: what a name could not
    say is raised.

    Raises
    ------
    DiskFullError
        There is no room even for a name, or *offset* would not count.
    """
    try:
        write_offset(directory, checkpoint, topic_partition, offset)
    except DiskFullError:
        older = _notes(directory, checkpoint)
        if not _would_count(directory, checkpoint, topic_partition, offset):
            raise
        name = f"{_PREFIXES[checkpoint]}{offset:0{_OFFSET_DIGITS}d}"
        for needed in (NOTES, name):
            directory.create_file(needed)
        for other in older:
            if other != name:
                directory.unlink(other)
    else:
        forget_offsets(directory, checkpoint)


def _would_count(
    directory: Directory, checkpoint: str, topic_partition: TopicPartition, offset: int
) -> bool:
    known = noted_offsets(directory, checkpoint)
    with contextlib.suppress(CorruptCheckpointError):
        written = read_offset(directory, checkpoint, topic_partition)
        known += [] if written is None else [written]
    if checkpoint == LOG_START_OFFSET_CHECKPOINT:
        return offset >= max(known, default=0)
    return offset <= min(known, default=-1)


def forget_offsets(directory: Directory, checkpoint: str) -> None:
    """Remove the names that stand for *checkpoint*, durably: it was written."""
    notes = _notes(directory, checkpoint)
    for name in notes:
        directory.unlink(name)
    if notes:
        if not any(_notes(directory, other) for other in _PREFIXES):
            directory.unlink(NOTES)
        directory.sync()


def _notes(directory: Directory, checkpoint: str) -> list[str]:
    if not directory.exists(NOTES):
        return []
    prefix = _PREFIXES[checkpoint]
    names = directory.names(ordered=False)
    return [name for name in names if name.startswith(prefix) and is_note(name)]
