"""A finding: something wrong in the directory of a partition, as a value.

`verify`, `scrub` and `recover` return the same findings for the same directory; opens and `ls`
report those that they notice. Programs compare codes, files, positions and offsets; people read
the sentences that `finding_text` makes of them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from segstore.errors import ReadIOError

if TYPE_CHECKING:
    from segstore.errors import SegstoreError

OffsetRange = tuple[int, int | None]
"""First and last offset; None where nothing tells the last one."""


class FindingCode(StrEnum):
    """What was found. A code keeps its name and its meaning; docs/operations.md lists all codes."""

    # the batches of a .log
    BATCH_CORRUPT = "BATCH_CORRUPT"
    BATCH_INCOMPLETE = "BATCH_INCOMPLETE"
    BATCH_OUT_OF_ORDER = "BATCH_OUT_OF_ORDER"
    RECORDS_CORRUPT = "RECORDS_CORRUPT"
    ZEROS_AT_END = "ZEROS_AT_END"
    SEGMENTS_OVERLAP = "SEGMENTS_OVERLAP"
    SEGMENT_OVERFLOWS = "SEGMENT_OVERFLOWS"
    SEGMENT_AFTER_DAMAGE = "SEGMENT_AFTER_DAMAGE"
    RECORDS_MISSING = "RECORDS_MISSING"
    RECORDS_MAYBE_MISSING = "RECORDS_MAYBE_MISSING"
    QUARANTINE_LOST = "QUARANTINE_LOST"
    # any file
    FILE_UNREADABLE = "FILE_UNREADABLE"
    FILE_IS_NO_FILE = "FILE_IS_NO_FILE"
    DIRECTORY_UNREADABLE = "DIRECTORY_UNREADABLE"
    # derived files
    INDEX_MISSING = "INDEX_MISSING"
    INDEX_CORRUPT = "INDEX_CORRUPT"
    INDEX_PADDED = "INDEX_PADDED"
    TRANSACTION_INDEX_CORRUPT = "TRANSACTION_INDEX_CORRUPT"
    SNAPSHOT_CORRUPT = "SNAPSHOT_CORRUPT"
    SIDECAR_CORRUPT = "SIDECAR_CORRUPT"
    SIDECAR_DIFFERS = "SIDECAR_DIFFERS"
    # small files
    CHECKPOINT_CORRUPT = "CHECKPOINT_CORRUPT"
    EPOCHS_WRONG = "EPOCHS_WRONG"
    LOG_START_UNKNOWN = "LOG_START_UNKNOWN"
    LOG_START_ABOVE_END = "LOG_START_ABOVE_END"
    RECOVERY_POINT_ABOVE_END = "RECOVERY_POINT_ABOVE_END"
    STATE_MISSING = "STATE_MISSING"
    TOPIC_ID_MISSING = "TOPIC_ID_MISSING"
    RESTART_UNFINISHED = "RESTART_UNFINISHED"
    RESTART_REFUSED = "RESTART_REFUSED"
    # an open that is refused for another reason
    OPEN_REFUSED = "OPEN_REFUSED"


class Records(StrEnum):
    """What a finding means for the records."""

    NONE = "NONE"
    """No record is lost; reads give all of them."""
    MAYBE_MISSING = "MAYBE_MISSING"
    """Records are gone, or were deleted: nothing tells which."""
    MISSING = "MISSING"
    """Records are gone that were there."""
    UNREADABLE = "UNREADABLE"
    """The bytes of records are there, and cannot be read."""
    WRONG = "WRONG"
    """A read may give other records than were written."""


class Action(StrEnum):
    """What to do about a finding."""

    NOTHING = "NOTHING"
    RECOVER = "RECOVER"
    """`segstore recover DIR` makes it good."""
    RESTORE = "RESTORE"
    """Restore the file from a copy; without one `segstore salvage` copies what can be proven."""
    RESTORE_SEGMENTS = "RESTORE_SEGMENTS"
    """Restore the segments that hold the missing offsets; without a copy `segstore salvage`."""
    RESTORE_FIRST = "RESTORE_FIRST"
    """Restore the file before the next open for writing, which goes on without it for good."""
    SALVAGE = "SALVAGE"
    """No copy of the file alone helps: `segstore salvage` copies what can be proven."""
    MOVE_AWAY = "MOVE_AWAY"
    """Move what stands in the place of the file away, then run `segstore recover`."""
    COPY_FROM_DISK = "COPY_FROM_DISK"
    """The disk fails: salvage to another disk what it still gives."""
    GRANT_ACCESS = "GRANT_ACCESS"
    """Run the command as a user who may read the file."""
    RENAME = "RENAME"
    """Rename files as `found` says, then check again."""
    WRITE_TOPIC_ID = "WRITE_TOPIC_ID"
    """Write the file with the topic's id, which the cluster knows."""
    COMPARE = "COMPARE"
    """Compare the log with another replica, then remove the file: it is no part of the log."""
    WRITE_LOG_START = "WRITE_LOG_START"
    """Write the right log start into the checkpoint, before the next open for writing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that is wrong in the directory of a partition.

    Attributes
    ----------
    code : FindingCode
        What it is.
    file : str
        Name in the partition's directory; ``../name`` is a file of the log directory, ``.`` the
        directory itself.
    position, size_bytes : int or None
        First byte concerned, and the number of bytes.
    first_offset, last_offset : int or None
        First and last record offset concerned; None when unknown.
    found, expected : str or None
        What is there, and what should be.
    records : Records
        What it means for the records.
    lost : tuple of (int, int or None)
        Ranges of offsets, first and last, that reads do not return.
    salvageable : tuple of (int, int)
        Ranges of offsets after the damage whose batches are whole. Reads end before them; salvage
        copies them.
    action : Action
        What to do.
    repaired : bool
        Whether `segstore recover` repairs it; for a file of the log directory, when run on that
        directory.
    os_error : int or None
        errno of the read that failed.
    """

    code: FindingCode
    file: str
    position: int | None = None
    size_bytes: int | None = None
    first_offset: int | None = None
    last_offset: int | None = None
    found: str | None = None
    expected: str | None = None
    records: Records = Records.NONE
    lost: tuple[OffsetRange, ...] = ()
    salvageable: tuple[tuple[int, int], ...] = ()
    action: Action
    repaired: bool = False
    os_error: int | None = None

    @property
    def is_of_log_directory(self) -> bool:
        """Whether the file has lines of all logs; the repair of one log does not change it."""
        return self.file.startswith("../")

    @property
    def identity(self) -> tuple[str, str, int | None, int | None]:
        """Code, file, position and first offset: equal for two findings of the same damage."""
        return self.code.value, self.file, self.position, self.first_offset

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as plain values, for JSON."""
        return asdict(self)


def facts_of(error: SegstoreError) -> dict[str, Any]:
    """Return what *error* says of a file, as fields of a `Finding`.

    A failed read says no more than its errno does.
    """
    is_read = isinstance(error, ReadIOError) and error.os_error is not None
    return {
        "found": error.found or (None if is_read else error.message),
        "expected": error.expected,
        "os_error": error.os_error,
    }
