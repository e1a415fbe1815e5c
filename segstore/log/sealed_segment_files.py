"""The files of one sealed segment, which a copy in remote storage has too [TIER-11, TIER-36]."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segstore.log.files.checkpoints import format_leader_epoch_checkpoint
from segstore.log.files.partition_directory import file_name

if TYPE_CHECKING:
    from segstore._core import Directory
    from segstore.log.files.leader_epoch_file_cache import LeaderEpochFileCache
    from segstore.log.local.segment import Segment
    from segstore.log.producers.snapshot_files import SnapshotFiles
    from segstore.types import EpochEntry


class SealedSegmentFiles:
    """Paths and bytes of what belongs to a segment.

    Parameters
    ----------
    segment : Segment
        It takes no more appends.
    next_base_offset : int
        Where the next segment begins.

    Attributes
    ----------
    leader_epochs : tuple of EpochEntry
        Those with records in it, each with its first offset there [TIER-35].
    leader_epoch_checkpoint : bytes
        All epochs of the log that begin below its end, as a checkpoint.
    producer_snapshot : str or None
        Path of the producers' state at its end; None: the log knows of none [TIER-37].
    """

    def __init__(
        self,
        directory: Directory,
        segment: Segment,
        next_base_offset: int,
        epochs: LeaderEpochFileCache,
        snapshots: SnapshotFiles,
    ) -> None:
        self._directory = directory
        self._segment = segment
        base_offset = segment.base_offset
        self.leader_epochs: tuple[EpochEntry, ...] = epochs.epoch_entries_in_range(
            base_offset, next_base_offset
        )
        self.leader_epoch_checkpoint = format_leader_epoch_checkpoint(
            epochs.epoch_entries_in_range(-1, next_base_offset)
        )
        snapshot = snapshots.get(next_base_offset)
        self.producer_snapshot = None if snapshot is None else snapshot.path

    @property
    def log_segment(self) -> str:
        """Path of the ``.log``."""
        return self._segment.path

    @property
    def offset_index(self) -> str:
        """Path of the ``.index``."""
        return self._path("index")

    @property
    def time_index(self) -> str:
        """Path of the ``.timeindex``."""
        return self._path("timeindex")

    @property
    def transaction_index(self) -> str | None:
        """Path of the ``.txnindex``; None: there is no such file."""
        path = self._path("txnindex")
        return path if self._directory.exists(path.rpartition("/")[2]) else None

    @property
    def has_aborted_transactions(self) -> bool:
        """Whether the transaction index has an entry."""
        path = self.transaction_index
        return path is not None and len(self.read(path)) > 0

    def read(self, path: str) -> bytes:
        """Return all bytes of one of these files but the ``.log``."""
        return self._directory.read_file(path.rpartition("/")[2])

    def read_log(self, position: int, size_bytes: int) -> bytearray:
        """Return bytes of the ``.log`` from *position* on."""
        buffer = bytearray(size_bytes)
        self._segment.read_into(buffer, position)
        return buffer

    def _path(self, suffix: str) -> str:
        return f"{self._directory.path}/{file_name(self._segment.base_offset, suffix)}"
