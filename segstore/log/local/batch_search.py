"""Finding whole batches in a damaged ``.log``, also behind what is damaged.

A batch is whole when its magic, its length and its CRC are right [DUR-50]. Behind damage the next
one may begin at any byte. Its offsets say whether it belongs there; that is for `batch_chain`.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Final, NamedTuple

from segstore.errors import CorruptRecordError, LogNotFoundError, ReadIOError, SegstoreError
from segstore.number_limits import MAX_INT
from segstore.numpy_on_demand import np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from segstore._core import BatchHeaders, Directory
    from segstore.log.local.segment import Segment

ROW: Final = [
    ("position", "i8"),
    ("size", "i8"),
    ("base_offset", "i8"),
    ("last_offset", "i8"),
    ("segment", "i4"),
    ("epoch", "i4"),
    ("whole", "?"),
]
"""The dtype of a row: a whole batch, or a range of bytes that is none."""

_PREFIX_BYTES: Final = 17
_LOG_OVERHEAD: Final = 12
_LEAST_LENGTHS: Final = (14, 14, 49)
_WINDOW_BYTES: Final = 256 * 1024
_BLOCK_BYTES: Final = 4096
_SCAN_BATCHES: Final = 8192
_MAX_STEPS: Final = 16
_WASTE_PER_BYTE: Final = 16
_WASTE: Final = 64 * 1024 * 1024
_LOOK_AHEAD_BYTES: Final = 64 * 1024 * 1024
TOO_MANY: Final = "more places look like a batch here than can be tried"
NOT_WHOLE: Final = "a batch whose length is wrong, or whose end is missing"


class NoBatch(NamedTuple):
    """Why a range of bytes is no batch."""

    reason: str
    os_error: int | None = None
    """errno, where the disk does not give these bytes; None where it does."""


class BatchSearch:
    """Goes through one ``.log`` up to its end; every byte is in one of the rows.

    Parameters
    ----------
    directory : Directory
        The partition's.
    segment : Segment
        Open to read.
    name : str
        Of the file.
    number : int
        Which segment it is, for the rows.
    reasons : dict
        Takes, by number and position, why a range of bytes is no batch.
    progress : callable
        Called with the number of bytes that were dealt with since the last time.
    start_position : int
        Where it begins: a batch does.
    """

    def __init__(  # noqa: PLR0913 - each by its name
        self,
        directory: Directory,
        segment: Segment,
        name: str,
        number: int,
        reasons: dict[tuple[int, int], NoBatch],
        progress: Callable[[int], None],
        start_position: int = 0,
    ) -> None:
        self._directory = directory
        self._segment = segment
        self._name = name
        self._number = number
        self._reasons = reasons
        self._progress = progress
        self._position = start_position
        self._os_error: int | None = None
        """Of the block that could not be read last."""
        self._budget = _WASTE_PER_BYTE * segment.size_bytes + _WASTE
        """Bytes that may be read to find that they are no batch: the work is linear [DUR-103]."""

    @property
    def was_given_up(self) -> bool:
        """Whether more looked like a batch than can be tried: that none was found says little."""
        return self._budget < 0

    def rows(self) -> Iterator[np.ndarray]:
        """Yield tables of `ROW`, without a hole between them."""
        size = self._segment.size_bytes
        try:
            try:
                yield from self._rows_of(size)
            except ReadIOError:
                yield from self._rows_between_unreadable(size)
        except LogNotFoundError:
            yield self._lost(size, "the file was deleted while it was read")
        except CorruptRecordError as error:  # it was cut by its writer
            yield self._lost(size, str(error.message))

    def _rows_between_unreadable(self, size: int) -> Iterator[np.ndarray]:
        """Go around what the disk does not give out: each block is tried by itself."""
        while self._position < size:
            bad = self._next_block(self._position, size, readable=False)
            if bad > self._position:
                yield from self._rows_of(bad)
            if bad < size:  # its own block is not tried again: it may be given out now and then
                end = self._next_block(min(size, _block_end(bad)), size, readable=True)
                yield self._lost(end, "the disk cannot read these bytes", os_error=self._os_error)

    def _next_block(self, position: int, size: int, *, readable: bool) -> int:
        """Return where the first block begins that can be read, or cannot; *size* without one."""
        while position < size:
            end = min(size, _block_end(position))
            try:
                self._directory.read_range(self._name, position, end - position)
                is_readable = True
            except ReadIOError as error:
                is_readable, self._os_error = False, error.os_error or errno.EIO
            if is_readable == readable:
                return position
            position = end
        return size

    def _rows_of(self, end: int) -> Iterator[np.ndarray]:
        """Yield the rows from where we are to *end*."""
        stop = "limit"
        while stop != "complete":
            headers, scan = self._segment.scan(
                start_position=self._position, end_position=end, max_batches=_SCAN_BATCHES
            )
            if len(headers):
                yield self._whole(headers)
                self._moved_to(scan.valid_bytes)
            stop = scan.stop
            if stop in {"corrupt", "order", "incomplete"}:
                why = NOT_WHOLE if scan.why is None else scan.why.args[0]
                found = self.next_whole(self._position, end)
                yield self._lost(found, str(why))

    def _moved_to(self, position: int) -> None:
        self._progress(position - self._position)
        self._position = position

    def _whole(self, headers: BatchHeaders) -> np.ndarray:
        rows = np.zeros(len(headers), ROW)
        rows["segment"], rows["whole"] = self._number, True
        for name in ("position", "base_offset", "last_offset"):
            rows[name] = headers[name]
        rows["size"] = headers["size_bytes"]
        rows["epoch"] = headers["partition_leader_epoch"]
        return rows

    def _lost(self, end: int, why: str, *, os_error: int | None = None) -> np.ndarray:
        """Return the row of what is between here and *end*, and go on there."""
        row = np.zeros(1, ROW)
        row["segment"], row["position"] = self._number, self._position
        row["size"] = end - self._position
        if self.was_given_up:
            why = f"{why}; {TOO_MANY}"
        self._reasons[self._number, self._position] = NoBatch(why, os_error)
        self._moved_to(end)
        return row

    # ---- behind damage ---------------------------------------------------------------------------

    def next_whole(self, position: int, end: int) -> int:
        """Return where the next whole batch behind the damaged one at *position* begins, or *end*.

        Where lengths lead to a whole batch, or to the end, they are believed: what is found before
        that counts only if it goes on up to there. A record may hold what looks like a batch, but
        it is not the end of the batch that it is in.
        """
        behind = self._behind_damaged(position, end)
        limit = end if behind is None else behind
        position += 1
        while (found := self._find(position, limit)) < limit:
            if behind is None:
                return found
            scan = self._segment.scan_result(
                start_position=found, end_position=behind, max_batches=_SCAN_BATCHES
            )
            if scan.stop in {"complete", "limit"}:
                return found
            position = scan.valid_bytes
        return limit

    def _behind_damaged(self, position: int, end: int) -> int | None:
        """Step over damaged batches by their lengths; None when these lead nowhere."""
        for _ in range(_MAX_STEPS):
            prefix = self._read(position, min(_PREFIX_BYTES, end - position))  # none behind it
            if len(prefix) < _PREFIX_BYTES or not len(self._plausible(prefix, position, end)):
                return None
            position += _LOG_OVERHEAD + int.from_bytes(prefix[8:12])
            if position == end or self._is_whole(position, end):
                return position
        return None

    def _find(self, position: int, end: int) -> int:
        """Return where the first whole batch begins that lies within, byte by byte, or *end*."""
        while position + _PREFIX_BYTES < end:
            window = self._read(position, min(_WINDOW_BYTES, end - position))
            if not window.strip(b"\0"):  # room that was allocated ahead
                position += max(len(window) - _PREFIX_BYTES + 1, 1)
                continue
            for at in self._plausible(window, position, end):
                if self._is_whole(position + int(at), end):
                    return position + int(at)
                if self.was_given_up:
                    return end
            if len(window) < _PREFIX_BYTES:
                break
            position += len(window) - _PREFIX_BYTES + 1
        return end

    def _read(self, position: int, size: int) -> bytes:
        return self._directory.read_range(self._name, position, size)

    def _plausible(self, window: bytes, position: int, end: int) -> np.ndarray:
        """Return the places in *window* where a batch may begin: magic, length, base offset."""
        data = np.frombuffer(window, np.uint8)
        if len(data) < _PREFIX_BYTES:
            return np.empty(0, np.int64)
        at: np.ndarray = np.flatnonzero(data[16:] <= 2)  # noqa: PLR2004 - magic 0, 1, 2
        lengths = _big_endian(data, at + 8, 4)
        least = np.array(_LEAST_LENGTHS)[data[at + 16]]
        at = at[(lengths >= least) & (lengths <= end - position - at - _LOG_OVERHEAD)]
        high = _big_endian(data, at, 4)
        at = at[high <= MAX_INT]  # not negative
        offsets = (_big_endian(data, at, 4) << 32) | _big_endian(data, at + 4, 4)
        base = self._segment.base_offset
        if base is not None:
            at = at[(offsets >= base) & (offsets - base <= MAX_INT)]
        return np.asarray(at)

    def _is_whole(self, position: int, end: int) -> bool:
        """Whether a batch begins there whose CRC is right; a vain look costs of the budget."""
        prefix = self._read(position, _PREFIX_BYTES)
        if len(prefix) < _PREFIX_BYTES or not len(self._plausible(prefix, position, end)):
            return False
        size = _LOG_OVERHEAD + int.from_bytes(prefix[8:12])
        if size > self._budget:
            self._budget = -1
            return False
        scan = self._segment.scan_result(
            start_position=position, end_position=position + size, max_batches=1
        )
        if scan.batches_count == 0:
            self._budget -= size
        return scan.batches_count == 1


def _block_end(position: int) -> int:
    return position - position % _BLOCK_BYTES + _BLOCK_BYTES


def is_followed_by_batch(directory: Directory, segment: Segment, position: int) -> bool:
    """Whether a whole batch follows the bytes at *position*, which are none, or may follow.

    As far as can be told from the next 64 MiB: an open to read is not to take long for that. One
    may follow where the disk does not give out what does [DUR-33].
    """
    end = min(segment.size_bytes, position + _LOOK_AHEAD_BYTES)
    search = BatchSearch(directory, segment, segment.name, 0, {}, lambda _: None)
    try:
        return search.next_whole(position, end) < end
    except ReadIOError:
        return True
    except SegstoreError:  # whoever reads on is told what it is
        return False


def may_hold_batch(directory: Directory, segment: Segment, position: int) -> bool:
    """Whether a whole batch may follow anywhere behind *position*; for who would cut there.

    A search that was given up has not seen all of it: there may be one.

    Raises
    ------
    ReadIOError, ResourceError
        Nobody knows [DUR-6].
    """
    search = BatchSearch(directory, segment, segment.name, 0, {}, lambda _: None)
    found = search.next_whole(position, segment.size_bytes)
    return found < segment.size_bytes or search.was_given_up


def _big_endian(data: np.ndarray, at: np.ndarray, count: int) -> np.ndarray:
    """Return the unsigned numbers of *count* bytes at the places *at*."""
    number = np.zeros(len(at), np.int64)
    for index in range(count):
        number = (number << 8) | data[at + index]
    return number
