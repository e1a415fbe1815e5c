"""The file of a snapshot of the metadata: written under another name, then read only.

Source: [RAFT-20…RAFT-22, RAFT-27, RAFT-28, DUR-145]; Kafka ``FileRawSnapshotWriter``,
``FileRawSnapshotReader``, ``Snapshots``.
"""

from __future__ import annotations

import re
import secrets
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from segstore._core import Barrier, DataFile
from segstore.arguments import natural
from segstore.errors import IllegalStateError, LogNotFoundError, SegstoreError
from segstore.log.files.metadata_log_files import SnapshotId
from segstore.raft.offset_and_epoch import OffsetAndEpoch

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from typing_extensions import Buffer

    from segstore._core import Directory

__all__ = ["RawSnapshotReader", "RawSnapshotWriter"]

DELETED_SUFFIX: Final = ".deleted"

_NAME: Final = re.compile(
    r"([0-9]{20})-([0-9]{10})(-[^/]*)?\.checkpoint(\.part|\.deleted)?", re.ASCII
)


class SnapshotFileKind(Enum):
    """What a name says of a file."""

    FINISHED = None
    PARTIAL = ".part"
    DELETED = DELETED_SUFFIX


class SnapshotFile(NamedTuple):
    """A name that is a snapshot's."""

    name: str
    snapshot_id: OffsetAndEpoch
    kind: SnapshotFileKind


def snapshot_name(snapshot_id: OffsetAndEpoch) -> str:
    """Return the name of a finished snapshot [RAFT-21]."""
    return SnapshotId(snapshot_id.epoch, snapshot_id.offset).name


def parse_snapshot_name(name: str) -> SnapshotFile | None:
    """Return what a name says; None of what is no snapshot [RAFT-22]."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    kind = SnapshotFileKind(found[4])
    if (found[3] is None) is (kind is SnapshotFileKind.PARTIAL):
        return None
    return SnapshotFile(name, OffsetAndEpoch(int(found[1]), int(found[2])), kind)


class RawSnapshotWriter:
    """A snapshot that is being written: bytes are added, then it is frozen, once.

    Until then its name ends in ``.part``, and no log takes it for a snapshot. Use it as a context
    manager: `close` removes what was not frozen.

    Attributes
    ----------
    snapshot_id : OffsetAndEpoch
        What the snapshot covers.
    is_frozen : bool
        Whether it is a snapshot.
    """

    def __init__(
        self,
        directory: Directory,
        snapshot_id: OffsetAndEpoch,
        on_frozen: Callable[[OffsetAndEpoch], None],
        check: Callable[[str], None],
    ) -> None:
        self.snapshot_id = snapshot_id
        self.is_frozen = False
        self._directory = directory
        self._on_frozen = on_frozen
        self._check = check
        final = snapshot_name(snapshot_id).removesuffix(".checkpoint")
        self._name = f"{final}-{secrets.randbits(63)}.checkpoint.part"
        self._size = 0
        self._is_ended = False
        self._file: DataFile | None = DataFile(directory, self._name, create=True)

    @property
    def path(self) -> str:
        """The file as it is called now."""
        name = snapshot_name(self.snapshot_id) if self.is_frozen else self._name
        return f"{self._directory.path}/{name}"

    @property
    def size_bytes(self) -> int:
        """Bytes that were added."""
        return self._size

    def wall_clock_ms(self) -> int:
        """Milliseconds since 1970, by the clock of the log."""
        return self._directory.wall_clock_ms()

    def append(self, data: Buffer) -> None:
        """Add bytes.

        Raises
        ------
        IllegalStateError
            The snapshot is frozen, or closed.
        """
        content = memoryview(data)
        self._open_file("add to").write(self._size, content)
        self._size += content.nbytes

    def freeze(self) -> None:
        """Make it a snapshot: durably, and all at once. Then the log knows it [RAFT-27].

        Raises
        ------
        IllegalStateError
            It is frozen already, or closed; or the file cannot be made read-only.
        CorruptLogError
            It is not whole: header and footer are missing, or a batch is damaged. The file goes
            with `close`. In Kafka's profile nothing is checked [DUR-145].
        """
        file = self._open_file("freeze")
        file.sync(Barrier.METADATA_SNAPSHOT, ends_writing=True)
        self._check(self._name)
        file.close()
        self._file = None
        self._make_read_only()
        self._directory.rename(self._name, snapshot_name(self.snapshot_id))
        self.is_frozen = True
        self._directory.sync(Barrier.METADATA_SNAPSHOT_NAME)
        self._on_frozen(self.snapshot_id)

    def _make_read_only(self) -> None:
        """Take the permission to write: a snapshot is whole, and no program changes it any more.

        No sync brings that to the disk. A power cut may give the permission back, and costs nothing
        else: the log itself never writes to a snapshot.
        """
        try:
            self._directory.make_read_only(self._name)
        except SegstoreError as error:
            raise IllegalStateError(
                f"the snapshot cannot be made read-only: {error.message}",
                file=self.path,
                found=error.found,
                expected="a file of this process, in a file system with permissions",
            ) from error

    def _open_file(self, what: str) -> DataFile:
        if self._file is None:
            state = "frozen" if self.is_frozen else "closed"
            raise IllegalStateError(
                f"you cannot {what} a snapshot that is {state}",
                file=self.path,
                found=state,
                expected="a snapshot that is being written",
            )
        return self._file

    def close(self) -> None:
        """End it; without `freeze` the file is removed. Twice is harmless."""
        file, self._file = self._file, None
        is_ended, self._is_ended = self._is_ended, True
        if file is not None:
            file.close()
        if not (is_ended or self.is_frozen):
            self._directory.unlink(self._name, missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        self.close()


class RawSnapshotReader:
    """The bytes of a finished snapshot.

    They can be read as long as the file is there: also when the log has forgotten the snapshot, up
    to the end of the delay [RAFT-37].

    Attributes
    ----------
    snapshot_id : OffsetAndEpoch
        What the snapshot covers.
    size_bytes : int
        Of the file.

    Raises
    ------
    LogNotFoundError
        The file is gone.
    """

    def __init__(self, directory: Directory, snapshot_id: OffsetAndEpoch) -> None:
        self.snapshot_id = snapshot_id
        self._directory = directory
        self._name = snapshot_name(snapshot_id)
        self.size_bytes = directory.info(self._name).size

    @property
    def path(self) -> str:
        """The file."""
        return f"{self._directory.path}/{self._name}"

    def slice(self, position: int, size: int) -> bytes:
        """Return up to *size* bytes from *position* on; fewer only at the end.

        Raises
        ------
        LogNotFoundError
            The file is gone.
        """
        size = min(natural("size", size), max(0, self.size_bytes - natural("position", position)))
        if not size:
            return b""
        try:
            return self._directory.read_range(self._name, position, size)
        except LogNotFoundError:
            return self._directory.read_range(self._name + DELETED_SUFFIX, position, size)

    def read(self) -> bytes:
        """Return all bytes."""
        return self.slice(0, self.size_bytes)
