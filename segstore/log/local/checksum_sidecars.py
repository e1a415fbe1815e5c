"""The checksum sidecars of a log that is written: made behind a roll, gone before a cut [DUR-60].

A sidecar that is there is true: it goes, durably, before the segment's bytes change or the segment
becomes the active one, and comes when all of it is on stable storage. So who compares may call a
difference damage. The append lock is held for the removal only.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from segstore._core import AppendLock, FileBarrier, crc32c
from segstore.errors import CorruptLogError, NotALogError, SegstoreError
from segstore.log.files.checksum_sidecar import BLOCK_BYTES, ChecksumSidecar, sidecar_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from segstore._core import Directory
    from segstore.log.local.segment import Segment

_PIECE_BYTES: Final = 16 * BLOCK_BYTES


class PendingSidecar(NamedTuple):
    """One that is to be written, unless its segment was cut since."""

    sidecar: ChecksumSidecar
    ticket: object


class ChecksumSidecars:
    """Those of one log, under its append lock but where it is said.

    Parameters
    ----------
    directory : Directory
        The partition's.
    base_offsets : iterable of int
        Of the segments that have one.
    are_written : bool
        Whether segments get one when they are sealed.

    Attributes
    ----------
    lock : AppendLock
        A segment is not cut while its sidecar gets its name.
    """

    def __init__(
        self, directory: Directory, base_offsets: Iterable[int], *, are_written: bool
    ) -> None:
        self.are_written = are_written
        self._directory = directory
        self._there = set(base_offsets)
        self._tickets: dict[int, object] = {}
        self.lock = AppendLock()

    def note_sealed(self, segment: Segment) -> None:
        """Let `make` work for *segment*, which is sealed, until it is not any more."""
        if segment.size_bytes > 0:
            self._tickets[segment.base_offset] = object()

    def make(self, segment: Segment, **how: bool) -> PendingSidecar | None:
        """Read all of a sealed segment, which is synced; without any lock.

        Returns None where none is wanted: it was not noted, or was cut or deleted since. *how* its
        batches are checked is as in ``LogSegment.scan``.

        Raises
        ------
        CorruptLogError
            Its batches are not all good: nothing is called right that is not.
        """
        ticket = self._tickets.get(segment.base_offset)
        if ticket is None:
            return None
        try:
            return PendingSidecar(sidecar_of(self._directory, segment, **how), ticket)
        except SegstoreError:
            if self._tickets.get(segment.base_offset) is not ticket:
                return None
            raise

    def publish(self, made: PendingSidecar) -> bool:
        """Write it, durably, and return True; False when its segment was cut or deleted since.

        Without the append lock; whoever cuts the log meanwhile waits for the file.
        """
        sidecar, ticket = made
        with self.lock:
            if self._tickets.get(sidecar.base_offset) is not ticket:
                return False
            self._there.add(sidecar.base_offset)
            name = sidecar_name(sidecar.base_offset)
            self._directory.write_file_atomically(
                name, sidecar.format(), FileBarrier.CHECKSUM_SIDECAR
            )
            del self._tickets[sidecar.base_offset]
        return True

    def forget_from(self, base_offset: int) -> None:
        """Remove those of *base_offset* and above: the segments are about to be cut, or to go.

        Where one of them has a sidecar, there is a higher segment, which is renamed first: that
        name's sync, before any byte changes, is theirs too [DUR-16].
        """
        with self.lock:
            for noted in [one for one in self._tickets if one >= base_offset]:
                del self._tickets[noted]
            for one in sorted(one for one in self._there if one >= base_offset):
                with suppress(NotALogError):  # a directory of that name says nothing of a segment
                    self._directory.unlink(sidecar_name(one), missing_ok=True)
                self._there.discard(one)

    def forget_deleted(self, base_offsets: Iterable[int]) -> None:
        """Remove those of segments that are gone; what stays is removed by the next open."""
        with self.lock:
            for base_offset in base_offsets:
                self._tickets.pop(base_offset, None)
                if base_offset in self._there:
                    with suppress(SegstoreError):  # garbage [DUR-42]
                        self._directory.unlink(sidecar_name(base_offset), missing_ok=True)
                        self._there.discard(base_offset)


def sidecar_of(directory: Directory, segment: Segment, **how: bool) -> ChecksumSidecar:
    """Return the sidecar of *segment* as it is; its batches are checked behind it.

    Raises
    ------
    CorruptLogError
        They are not all good.
    """
    size, base_offset = segment.size_bytes, segment.base_offset
    checksums = tuple(checksums_of(directory, segment.name, size))
    scan = segment.scan_result(check_order=True, expected_offset=base_offset, **how)
    file_bytes = directory.info(segment.name).size
    if scan.stop != "complete" or not scan.valid_bytes == size == file_bytes:
        raise CorruptLogError(
            "the segment has bytes that are no good batch: it gets no checksum sidecar",
            file=segment.path,
            position=scan.valid_bytes,
            found=str(scan.why or f"{file_bytes} bytes, {scan.valid_bytes} of them good"),
            expected=f"{size} good bytes",
        )
    return ChecksumSidecar(base_offset, size, scan.next_offset, checksums)


def checksums_of(directory: Directory, name: str, size_bytes: int) -> Iterator[int]:
    """Yield the CRC-32C of each block of a file, up to *size_bytes* or its end."""
    position = 0
    while position < size_bytes:
        wanted = min(_PIECE_BYTES, size_bytes - position)
        piece = memoryview(directory.read_range(name, position, wanted))
        for at in range(0, len(piece), BLOCK_BYTES):
            yield crc32c(piece[at : at + BLOCK_BYTES])
        position += len(piece)
        if len(piece) < wanted:
            return
