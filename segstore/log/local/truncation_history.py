"""The truncations of a log, recorded for its concurrent readers [DUR-77]."""

from __future__ import annotations

from typing import Final, NamedTuple

from segstore.errors import LogTruncatedError
from segstore.types import LogOffsetMetadata

_KEPT_COUNT: Final = 64
"""How many cuts are told apart."""

UNKNOWN_PLACE: Final = LogOffsetMetadata(-1, -1, -1)
"""Place of a cut of another handle: how far down it reached is not known."""


class _Since(NamedTuple):
    """How far down the cuts from one on have reached."""

    number: int
    offset: int
    place: tuple[int, int]
    """Base offset of a segment, and byte in it."""


class TruncationHistory:
    """Where a log was cut, noted before anything goes, by its writer or by who follows it.

    A reader takes `done` before it looks at anything else, and asks with it afterwards. However
    many cuts there were, a few numbers are kept: to who asks for one of long ago, older ones count
    too.

    Attributes
    ----------
    done : int
        How many have come to their end.
    """

    __slots__ = ("_begun", "_since", "done")

    def __init__(self) -> None:
        self.done = 0
        self._begun = 0
        self._since: tuple[_Since, ...] = ()

    def begin(self, place: LogOffsetMetadata) -> None:
        """A cut begins: what lies from *place* on may not be the same any more."""
        offset, segment, position = place
        since = [
            _Since(number, min(lowest, offset), min(at, (segment, position)))
            for number, lowest, at in self._since
        ]
        since.append(_Since(self._begun, offset, (segment, position)))
        if len(since) > _KEPT_COUNT:
            since[1] = since[0]._replace(number=since[1].number)
            del since[0]
        self._since = tuple(since)
        self._begun += 1

    def finish(self) -> None:
        """All cuts that were noted have come to their end."""
        self.done = self._begun

    def reach(self, next_offset: int) -> bool:
        """Whether records below *next_offset* were cut, ever."""
        found = self._from(0)
        return found is not None and found.offset < next_offset

    def check_not_truncated(self, done: int, next_offset: int) -> None:
        """Raise when records below *next_offset* were cut [DUR-77].

        Parameters
        ----------
        done : int
            What the attribute was before the reader looked at anything else: a cut that had begun
            by then may have been seen in part.
        next_offset : int
            End of what was read.

        Raises
        ------
        LogTruncatedError
            They, or others in their place, are not those that a reader asked for.
        """
        found = self._from(done)
        if found is not None and found.offset < next_offset:
            raise _truncated(found.offset, f"up to {next_offset}")

    def check_place_not_truncated(
        self, done: int, segment_base_offset: int, end_position: int
    ) -> None:
        """Raise when bytes below *end_position* of that segment were cut [DUR-77].

        As `check_not_truncated`, for who knows where his records end and not at which offset.
        """
        found = self._from(done)
        if found is not None and found.place < (segment_base_offset, end_position):
            raise _truncated(found.offset, f"in the segment {segment_base_offset}")

    def _from(self, done: int) -> _Since | None:
        """Return how far down the cuts that were not *done* yet have reached, None without one."""
        since = self._since  # one attribute read: cuts come from other threads
        if not since or since[-1].number < done:
            return None
        return next(one for one in since if one.number >= done)


def _truncated(cut: int, where: str) -> LogTruncatedError:
    if cut < 0:
        return LogTruncatedError(
            f"the log's writer truncated it while it was read {where}",
            found="a truncation",
            expected=f"records {where}",
        )
    return LogTruncatedError(
        f"the log was truncated to {cut} while it was read {where}",
        found=f"a truncation to {cut}",
        expected=f"records {where}",
    )
