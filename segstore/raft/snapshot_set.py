"""The snapshots of a metadata log: which are known, found at an open, forgotten, deleted.

Source: [RAFT-28…RAFT-32, RAFT-37, DUR-145]; Kafka ``KafkaRaftLog.recoverSnapshots``,
``forgetSnapshotsBefore``, ``Snapshots``.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final

from segstore.errors import (
    CorruptLogError,
    IllegalArgumentError,
    IllegalStateError,
    LogNotFoundError,
    SegstoreError,
)
from segstore.log.files.metadata_log_files import MetadataFile, is_whole_snapshot
from segstore.raft.offset_and_epoch import OffsetAndEpoch
from segstore.raft.raw_snapshot import (
    DELETED_SUFFIX,
    RawSnapshotReader,
    RawSnapshotWriter,
    SnapshotFileKind,
    parse_snapshot_name,
    snapshot_name,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore._core import Directory
    from segstore.log.files.background import Scheduler

ENDINGS: Final = (".checkpoint", ".checkpoint.part", ".checkpoint.deleted")

_log = logging.getLogger(__name__)


class SnapshotSet:
    """The snapshots that a log knows, by their ids; the caller holds a lock.

    Parameters
    ----------
    directory : Directory
        Of the log.
    scheduler : Scheduler
        Removes files later.
    delete_delay_ms : int
        How much later.
    checks_content : bool
        A file counts if it is whole. False: its name is enough, as in Kafka.

    Attributes
    ----------
    incomplete : tuple of str
        Names of finished snapshots that are not whole, as of the open; they are left as they are.
    """

    def __init__(
        self,
        directory: Directory,
        scheduler: Scheduler,
        delete_delay_ms: int,
        *,
        checks_content: bool,
    ) -> None:
        self.incomplete: tuple[str, ...] = ()
        self._directory = directory
        self._scheduler = scheduler
        self._delete_delay_ms = delete_delay_ms
        self._checks_content = checks_content
        self._ids: list[OffsetAndEpoch] = []

    # ---- an open ---------------------------------------------------------------------------------

    def recover(self, log_start_offset: int) -> None:
        """Find the snapshots, and remove what is none any more [RAFT-30…RAFT-32].

        Raises
        ------
        IllegalStateError
            The log begins later than 0, and no snapshot has what is below. Nothing was removed.
        CorruptLogError
            The same, and a snapshot would have it if it were whole.
        """
        useless, incomplete = [], []
        why: SegstoreError | None = None
        for name in self._directory.names():
            file = parse_snapshot_name(name)
            if file is None:
                self._refuse_as_kafka(name)
                continue
            is_finished = file.kind is SnapshotFileKind.FINISHED
            if not is_finished or file.snapshot_id.offset < log_start_offset:
                useless.append(name)
                continue
            try:
                self.check(name)
            except CorruptLogError as error:
                incomplete.append(name)
                why = error
                _log.warning("%s: the snapshot is passed over: %s", error.file, error.message)
            else:
                self.add(file.snapshot_id)
        if log_start_offset > 0 and not self.covers(log_start_offset):
            raise self._missing(log_start_offset, why)
        self.incomplete = tuple(incomplete)
        for name in useless:
            self._directory.unlink(name, missing_ok=True)

    def _refuse_as_kafka(self, name: str) -> None:
        """Raise for a name that Kafka takes for a snapshot's, and cannot read."""
        if not self._checks_content and name.endswith(ENDINGS):
            raise IllegalArgumentError(
                "the name of a file ends as that of a snapshot, and has no offset and epoch",
                file=f"{self._directory.path}/{name}",
                found=name,
                expected=f"a name such as {snapshot_name(OffsetAndEpoch(0, 0))}",
            )

    def check(self, name: str) -> None:
        """Raise `CorruptLogError` where a file is no whole snapshot, if that counts [DUR-145]."""
        if not self._checks_content:
            return
        file = MetadataFile(self._directory, name)
        if not is_whole_snapshot(file):
            raise CorruptLogError(
                "the snapshot is incomplete: its header or its footer is missing",
                file=file.path,
                position=file.end_position,
                found=f"{file.torn_bytes} bytes that are no batch",
                expected="a batch with the footer, as the last one",
            )

    def check_id(self, snapshot_id: OffsetAndEpoch) -> None:
        """As `check`, of a snapshot that is known."""
        self.check(snapshot_name(snapshot_id))

    def covers(self, offset: int) -> bool:
        """Whether the latest snapshot has everything below *offset* [RAFT-31]."""
        latest = self.latest
        return latest is not None and latest.offset >= offset

    def _missing(self, log_start_offset: int, why: SegstoreError | None) -> SegstoreError:
        latest = self.latest
        if why is not None:
            return CorruptLogError(
                f"the metadata log begins at {log_start_offset}, and the snapshot with what is"
                f" below is damaged: {why.message}. Copy a whole snapshot from another node of the"
                " quorum into this directory",
                file=why.file,
                position=why.position,
                found=why.found,
                expected=why.expected,
            ).lacks(0, log_start_offset)
        return IllegalStateError(
            f"the metadata log begins at {log_start_offset}, and there is no snapshot with what is"
            " below",
            file=self._directory.path,
            found="no snapshot" if latest is None else f"one that ends at {latest.offset}",
            expected=f"one that ends at {log_start_offset} or above",
        )

    # ---- what is known ---------------------------------------------------------------------------

    @property
    def ids(self) -> tuple[OffsetAndEpoch, ...]:
        """All, the earliest first [RAFT-29]."""
        return tuple(self._ids)

    @property
    def latest(self) -> OffsetAndEpoch | None:
        """The last one; None without one."""
        return self._ids[-1] if self._ids else None

    @property
    def earliest(self) -> OffsetAndEpoch | None:
        """The first one; None without one."""
        return self._ids[0] if self._ids else None

    def add(self, snapshot_id: OffsetAndEpoch) -> None:
        """Know a finished snapshot."""
        if snapshot_id not in self._ids:
            self._ids.append(snapshot_id)
            self._ids.sort(key=lambda one: one.order)

    def new_writer(
        self, snapshot_id: OffsetAndEpoch, on_frozen: Callable[[OffsetAndEpoch], None]
    ) -> RawSnapshotWriter | None:
        """Return what writes a snapshot; None of one that is known."""
        if snapshot_id in self._ids:
            return None
        return RawSnapshotWriter(self._directory, snapshot_id, on_frozen, self.check)

    def read(self, snapshot_id: OffsetAndEpoch) -> RawSnapshotReader | None:
        """Return what reads a snapshot; None of one that is not known, or whose file is gone."""
        if snapshot_id not in self._ids:
            return None
        try:
            return RawSnapshotReader(self._directory, snapshot_id)
        except LogNotFoundError:
            _log.warning(
                "%s/%s is gone: the snapshot is forgotten",
                self._directory.path,
                snapshot_name(snapshot_id),
            )
            self._ids.remove(snapshot_id)
            return None

    # ---- deletion --------------------------------------------------------------------------------

    def forget_before(self, snapshot_id: OffsetAndEpoch) -> list[OffsetAndEpoch]:
        """Know those before *snapshot_id* no longer; returns them."""
        gone = [one for one in self._ids if one.order < snapshot_id.order]
        self._ids = self._ids[len(gone) :]
        return gone

    def delete(self, snapshot_ids: list[OffsetAndEpoch]) -> None:
        """Give files another name now, and remove them after the delay [RAFT-37]."""
        for one in snapshot_ids:
            name = snapshot_name(one)
            self._directory.rename(name, name + DELETED_SUFFIX)
        if snapshot_ids:
            remove = partial(self._remove, snapshot_ids)
            self._scheduler.submit(remove, self._delete_delay_ms / 1000)

    def _remove(self, snapshot_ids: list[OffsetAndEpoch]) -> None:
        for one in snapshot_ids:
            for suffix in ("", DELETED_SUFFIX):
                name = snapshot_name(one) + suffix
                try:
                    self._directory.unlink(name, missing_ok=True)
                except SegstoreError as error:
                    _log.warning("%s/%s stays: %s", self._directory.path, name, error.message)
