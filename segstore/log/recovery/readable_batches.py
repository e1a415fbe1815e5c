"""Which batches of a damaged file can be read: those whose offsets fit those around them.

A salvage leaves out more: batches whose leader epoch is older than that of a batch before them.
Readers ask it after the usual way, by index and lengths, has failed, or where they are told to
leave out what is damaged. So does an open to read where the disk does not give out a part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from segstore._core import base_offset_of
from segstore.errors import SegstoreError
from segstore.log.findings.finding import FindingCode
from segstore.log.local.batch_chain import choose_batches
from segstore.log.local.batch_search import BatchSearch, NoBatch
from segstore.log.recovery.salvage_report import LostRange
from segstore.number_limits import MAX_LONG, MIN_LONG
from segstore.numpy_on_demand import np
from segstore.types import CURRENT_MAGIC

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from segstore._core import CodecTable
    from segstore.log.files.checkpoints import LogState
    from segstore.log.local.file_bytes import FileBytes

_MAGIC_AT: Final = 16
_UNFIT: Final = "a whole batch whose offsets do not fit those around it"


class Stretch(NamedTuple):
    """Bytes of a file from its beginning to its end: batches that can be read, or none."""

    rows: np.ndarray
    """Of `ROW`, one behind the other, without a hole between them."""
    lost: LostRange | None
    """Why they cannot be read, without the offsets that are lost; None: they can."""


class UnreadableParts(NamedTuple):
    """What of a file the disk does not give out, and how far its batches can be read."""

    ranges: tuple[LostRange, ...]
    """With the offsets that are lost; `next_offset` is None where no batch follows."""
    next_offset: int
    """The offset behind the last batch that can be read."""
    ends_clean: bool
    """Whether the file ends with that batch."""


class BatchPlace(NamedTuple):
    """Where a batch is, and how far all that follows it can be read."""

    first_offset: int
    position: int
    readable_to: int
    """Byte of the file at which the readable batches end."""
    next_offset: int
    """The offset behind them."""


def stretches_of(
    file: FileBytes, state: LogState | None, from_offset: int = MIN_LONG
) -> Iterator[Stretch]:
    """Yield all bytes of *file*, the readable and the others in turns.

    Parameters
    ----------
    state : LogState or None
        From where on the log has no gap, where that is known.
    from_offset : int
        Batches that end below it need not come.
    """
    position, lowest = file.place_before(from_offset)
    reasons: dict[tuple[int, int], NoBatch] = {}
    bytes_there = cast("Any", file)
    search = BatchSearch(bytes_there, bytes_there, file.name, 0, reasons, lambda _: None, position)
    known_end = -1 if file.next_base_offset == MAX_LONG else file.next_base_offset
    gapless_from = None if state is None else state.contiguous_from
    lost: list[np.ndarray] = []
    for rows, kept, _ in choose_batches(
        search.rows(),
        [lowest],
        gapless_from,
        end_offset=known_end,
        below=file.next_base_offset,
    ):
        borders = np.flatnonzero(kept[1:] != kept[:-1]) + 1
        for piece in np.split(np.arange(len(rows)), borders):
            if not kept[piece[0]]:
                lost.append(rows[piece])
                continue
            if lost:
                yield _lost(file, np.concatenate(lost), reasons)
                lost = []
            yield Stretch(rows[piece], None)
    if lost:
        yield _lost(file, np.concatenate(lost), reasons)


def _lost(file: FileBytes, rows: np.ndarray, reasons: dict[tuple[int, int], NoBatch]) -> Stretch:
    """Return the stretch; what the disk does not give out is why the rest of a batch is none."""
    position = int(rows["position"][0])
    size = int(rows["position"][-1] + rows["size"][-1]) - position
    found = [reasons.get((0, at), NoBatch(_UNFIT)) for at in rows["position"].tolist()]
    reason, os_error = next((one for one in found if one.os_error is not None), found[0])
    code = FindingCode.BATCH_OUT_OF_ORDER if reason == _UNFIT else FindingCode.BATCH_CORRUPT
    if os_error is not None:
        code = FindingCode.FILE_UNREADABLE
    return Stretch(rows, LostRange(file.name, position, size, 0, None, reason, code, os_error))


def unreadable_parts(file: FileBytes, codecs: CodecTable) -> UnreadableParts:
    """Return what of *file* the disk does not give out."""
    ranges: list[LostRange] = []
    pending, reached, ends_clean = None, file.base_offset or 0, True
    for stretch in stretches_of(file, None):
        ends_clean = stretch.lost is None
        if stretch.lost is not None:
            pending = stretch.lost._replace(first_offset=reached)
            continue
        if pending is not None and pending.os_error is not None:
            first = first_offset_of(file, stretch.rows[0], codecs)
            ranges.append(pending._replace(next_offset=first))
        pending, reached = None, int(stretch.rows["last_offset"][-1]) + 1
    if pending is not None and pending.os_error is not None:
        ranges.append(pending)
    return UnreadableParts(tuple(ranges), reached, ends_clean)


def jumped_batch(
    file: FileBytes, state: LogState | None, begin: int, end: int, codecs: CodecTable
) -> LostRange | None:
    """Return the first batch from byte *begin* to *end* whose offset jumped ahead; None without.

    It fits the batch before it: those after it, or the next file, show that its offset is wrong.
    """
    jumped: tuple[LostRange, np.void] | None = None
    reached = file.base_offset or 0
    for stretch in stretches_of(file, state):
        lost, first = stretch.lost, stretch.rows[0]
        if jumped is not None and not _is_same(file, jumped[1], first):
            return jumped[0]._replace(next_offset=first_offset_of(file, first, codecs))
        jumped = None  # a set of an old format that stands there twice: its header has the last
        if lost is None:
            reached = int(stretch.rows["last_offset"][-1]) + 1
        elif first["whole"] and first["base_offset"] > reached and begin <= lost.position < end:
            jumped = lost._replace(first_offset=reached), first
    return None if jumped is None else jumped[0]


def _is_same(file: FileBytes, one: np.void, other: np.void) -> bool:
    """Whether two batches are the same bytes."""
    first, second = (file.read(int(row["position"]), int(row["size"])) for row in (one, other))
    return first == second


def first_offset_of(file: FileBytes, row: np.void, codecs: CodecTable) -> int:
    """Return the first offset of a whole batch; an old compressed one is opened for it."""
    offset = int(row["base_offset"])
    if file.read(int(row["position"]) + _MAGIC_AT, 1)[0] >= CURRENT_MAGIC:
        return offset
    try:
        return base_offset_of(file.read(int(row["position"]), int(row["size"])), codecs)
    except SegstoreError:  # told by who reads it
        return offset


def batch_of(
    file: FileBytes, state: LogState | None, offset: int, codecs: CodecTable
) -> BatchPlace | None:
    """Return where the whole batch is that holds *offset*; None without."""
    for stretch in stretches_of(file, state):
        rows = stretch.rows[stretch.rows["last_offset"] >= offset]
        if stretch.lost is None and len(rows):
            first = first_offset_of(file, rows[0], codecs)
            end, behind = rows["position"][-1] + rows["size"][-1], rows["last_offset"][-1] + 1
            place = BatchPlace(first, int(rows["position"][0]), int(end), int(behind))
            return place if first <= offset else None
    return None


def next_readable_offset(
    files: Iterable[FileBytes], state: LogState | None, offset: int, codecs: CodecTable
) -> int | None:
    """Return the first offset of the first whole batch that begins above *offset*.

    Parameters
    ----------
    files : iterable of FileBytes
        Ascending; those that end at or below *offset* are passed over.
    """
    reaching = [file for file in files if file.next_base_offset > offset]
    for file in reaching:
        for stretch in stretches_of(file, state):
            above = stretch.rows[stretch.rows["base_offset"] > offset]
            if stretch.lost is None and len(above):
                return max(first_offset_of(file, above[0], codecs), offset + 1)
    return None
