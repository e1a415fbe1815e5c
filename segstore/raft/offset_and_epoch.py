"""A place in a metadata log, and the answer whether a log has it."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

__all__ = ["OffsetAndEpoch", "ValidOffsetAndEpoch", "ValidityKind"]


class OffsetAndEpoch(NamedTuple):
    """The end of what a log or a snapshot has, and the leader epoch of its last record."""

    offset: int
    """One more than the last offset."""
    epoch: int

    @property
    def order(self) -> tuple[int, int]:
        """Sorts snapshots from the earliest to the latest: by epoch, then offset [RAFT-20]."""
        return self.epoch, self.offset


class ValidityKind(Enum):
    """What a log says to the end of another one (Kafka ``ValidOffsetAndEpoch.Kind``)."""

    VALID = "valid"
    DIVERGING = "diverging"
    SNAPSHOT = "snapshot"


class ValidOffsetAndEpoch(NamedTuple):
    """An answer of `MetadataLog.validate_offset_and_epoch`."""

    kind: ValidityKind
    offset_and_epoch: OffsetAndEpoch
    """What was asked about; where the logs part at the latest; or the snapshot to begin with."""
