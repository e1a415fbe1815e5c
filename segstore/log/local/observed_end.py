"""Detects that a writer truncated the log below the end that a reader observed [DUR-77].

What was cut may have grown to the same size, or beyond, in files of the same names: then the bytes
before the end tell, and whether their file is the one that was read. Every truncation takes the
newest bytes; a repair may write the same ones again, into a new file.

Where the writer says so in ``.segstore``, files that were replaced without a truncation are known:
they were compacted, or split. Then the records that are left have their offsets still.
"""

from __future__ import annotations

import enum
import time
from contextlib import suppress
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from segstore._core import is_any_replaced
from segstore.errors import (
    CorruptLogError,
    CorruptRecordError,
    LogNotFoundError,
    LogTruncatedError,
    OffsetOutOfRangeError,
    ResourceError,
    SegstoreError,
)
from segstore.log.files.checkpoints import LOG_STATE
from segstore.log.files.log_state_file import uncut_generation
from segstore.log.files.partition_directory import LOG_FILE_SUFFIX, parse_file_name
from segstore.log.local.segment import Segment

if TYPE_CHECKING:
    from array import array

    from segstore._core import SegmentContext
    from segstore.log.files.checkpoint_store import CheckpointStore
    from segstore.log.local.segments import Segments
    from segstore.types import LogOffsetMetadata

_HEADER_BYTES: Final = 61
"""Of a batch: offsets, timestamps, and the CRC of everything in it."""
_WINDOW_BYTES: Final = 4096
_LOOKS: Final = 4
_PAUSE_SECONDS: Final = 0.001
_IS_BEING_CUT: Final = (LogNotFoundError, LogTruncatedError, CorruptLogError, CorruptRecordError)


class EndState(enum.Enum):
    """What became of the bytes before the end that was seen."""

    UNCHANGED = "unchanged"
    """So nothing before them was cut, either."""
    REPLACED = "replaced"
    """In a file that was compacted, or split; none of the log was truncated."""
    TRUNCATED = "truncated"
    DELETED = "deleted"
    """As all records that were seen, from the front of the log: that is no truncation."""


class ObservedEnd:
    """Where a reader has seen the log end, and bytes of the last batches before it.

    They are read from the file that the reader has open, and compared with the one that has its
    name. The file stays open while that can be: so its inode is given to no other.

    Parameters
    ----------
    checkpoint_store : CheckpointStore
        The partition's directory, and its log start.
    context : SegmentContext
        Of its segments.
    segments : Segments
        What the reader knows.
    end : LogOffsetMetadata
        Where it has seen them end.
    generation : int or None
        `uncut_generation` before it looked at any of this.
    is_fixed : bool
        No writer changes the files: nothing is compared, and the end is never read for that.

    Raises
    ------
    ResourceError
        The file cannot be opened for want of descriptors or memory.
    """

    __slots__ = (
        "_base_offset",
        "_checkpoint_store",
        "_context",
        "_directory",
        "_name",
        "_position",
        "_seen",
        "_segment",
        "_size",
        "_suffix",
        "end",
        "generation",
    )

    def __init__(  # noqa: PLR0913 - what the reader has seen
        self,
        checkpoint_store: CheckpointStore,
        context: SegmentContext,
        segments: Segments,
        end: LogOffsetMetadata,
        generation: int | None,
        *,
        is_fixed: bool = False,
    ) -> None:
        self._checkpoint_store = checkpoint_store
        self._directory = checkpoint_store.directory
        self._context = context
        self.end = end
        self.generation = generation
        self._name: str | None = None
        self._suffix = ""
        self._base_offset = end.segment_base_offset
        self._position = self._size = 0
        self._seen: bytes | None = None
        segment, position = (None, 0) if is_fixed else _last_with_bytes(segments, end)
        self._segment = segment
        if segment is None:
            return  # no batch was seen, or none can be cut
        self._name, self._base_offset = segment.name, segment.base_offset
        self._suffix = segment.suffix
        try:
            self._seen = self._read(segment, position)
        except (LogNotFoundError, LogTruncatedError):
            return  # cut, or deleted, since the reader looked at it: nothing is the same
        except ResourceError:
            raise
        except SegstoreError:
            self._name = None  # who reads there is told of it

    def _read(self, segment: Segment, end_position: int) -> bytes:
        """Read the last batches, of a large one the header."""
        start = max(end_position - _WINDOW_BYTES, 0)
        size = end_position - start
        try:
            found = segment.translate_offset(self.end.message_offset - 1, end_position)
        except (CorruptLogError, CorruptRecordError):
            found = None
        if found is not None and found.position < start:
            start, size = found.position, _HEADER_BYTES
        self._position, self._size = start, size
        data = bytearray(size)
        segment.read_into(data, start)
        return bytes(data)

    def end_state(self) -> EndState:
        """Look what became of the bytes: one read of the file that has the name now.

        Raises
        ------
        ResourceError, ReadIOError
            Nothing is known then: nobody may go on as if they were there.
        """
        if self._segment is None:
            return EndState.UNCHANGED
        if is_any_replaced([self._segment]):
            return self._replaced()  # whatever bytes these are: it may be so of the others
        if self._name is None:
            return EndState.UNCHANGED
        found = self._read_now(self._name)
        if found is None:
            return self._state_of_missing()
        is_there = found == self._seen or (
            self._seen is not None and len(found) == self._size and self._is_damaged()
        )
        if is_there:
            return EndState.UNCHANGED
        # the name may have gone to another file between the two looks
        return self._replaced() if is_any_replaced([self._segment]) else EndState.TRUNCATED

    def is_uncut(self) -> bool:
        """Whether the writer says that nothing was truncated since the reader looked."""
        return self.generation is not None and self.generation == uncut_generation(self._directory)

    def _replaced(self) -> EndState:
        return EndState.REPLACED if self.is_uncut() else EndState.TRUNCATED

    def _read_now(self, name: str) -> bytes | None:
        """Return what stands there now, None without the file.

        That of a compaction which was interrupted has another name until its writer comes again.
        """
        for suffix in dict.fromkeys((self._suffix, "")):
            with suppress(LogNotFoundError):
                return self._directory.read_range(name + suffix, self._position, self._size)
        return None

    def _state_of_missing(self) -> EndState:
        """Deletion takes whole segments: what is left begins at the end that was seen, or behind.

        While a log is emptied it has no segment for a moment. Of one that stays without nothing is
        known: it was removed, and by whom.
        """
        for _ in range(_LOOKS):
            bases = self._bases()
            if bases:
                is_deleted = bases[0] >= self.end.message_offset
                return EndState.DELETED if is_deleted else self._replaced()
            time.sleep(_PAUSE_SECONDS)
        return EndState.UNCHANGED

    def _bases(self) -> array[int]:
        return self._directory.segment_listing().base_offsets(LOG_FILE_SUFFIX)

    def _is_damaged(self) -> bool:
        """Whether it is no batch that stands there now [DUR-79].

        One that is being written is whole a moment later [DUR-76]; zeros await it.
        """
        for _ in range(_LOOKS):
            segment = None
            try:
                segment = Segment(self._context, self._base_offset, suffix=self._suffix)
                scan = segment.scan_result(check_order=True)
                found = self._directory.read_range(
                    segment.name + self._suffix, scan.valid_bytes, _HEADER_BYTES
                )
            except _IS_BEING_CUT:
                return False
            finally:
                if segment is not None:
                    segment.close_quietly()
            if scan.stop == "complete" or scan.valid_bytes >= self._position + self._size:
                return False
            if not any(found):
                return False
            time.sleep(_PAUSE_SECONDS)
        return True

    def check_not_truncated(self) -> None:
        """Raise when the bytes are others now, or gone.

        Raises
        ------
        LogTruncatedError
            A read-only handle shows the log as it is now after `UnifiedLog.refresh`.
        """
        if self.end_state() is EndState.TRUNCATED:
            raise self._cut()

    def check_not_changed(self, error: SegstoreError | None) -> None:
        """Raise when what the writer did, not damage, is why reading failed.

        Parameters
        ----------
        error : SegstoreError or None
            What it failed with.

        Raises
        ------
        LogTruncatedError
            As in `check_not_truncated`.
        OffsetOutOfRangeError
            The writer deleted what was read.
        """
        try:
            end_state = self.end_state()
            bases = self._bases()
        except SegstoreError:  # the reader has an error already, of the same directory perhaps
            return
        if end_state is EndState.TRUNCATED:
            raise self._cut()
        if not bases:
            return  # the log was removed
        if self.is_uncut() and end_state is not EndState.DELETED:
            return
        missing = _base_of_missing(error)
        if end_state is EndState.DELETED or (
            missing is not None and self._was_deleted(missing, bases[0])
        ):
            raise self._deleted(bases[0])
        if missing is None:
            is_cut = is_rewritten(
                self._context, self.end, self._checkpoint_store.read().log_start_offset
            )
        else:  # an empty segment at the end, which goes first; others go by no cut
            is_cut = missing >= self.end.segment_base_offset
        if is_cut:
            raise self._cut()

    def _was_deleted(self, base_offset: int, first: int) -> bool:
        """Whether a segment that is missing went through the log; a broker writes no log start."""
        if base_offset >= first:
            return False
        if self._checkpoint_store.read().log_start_offset > base_offset:
            return True
        return not self._directory.exists(LOG_STATE)

    def _cut(self) -> LogTruncatedError:
        end = self.end
        return LogTruncatedError(
            f"the log's writer truncated it while it was read: the batches that ended at"
            f" {end.message_offset} are gone, or others",
            file=self._directory.path,
            found="other bytes",
            expected=f"those read up to byte {end.relative_position_in_segment} of segment"
            f" {end.segment_base_offset}",
        )

    def _deleted(self, first: int) -> OffsetOutOfRangeError:
        end = self.end
        return OffsetOutOfRangeError(
            f"the log's writer deleted what was read of it: the log begins at {first} now, and"
            f" ended at {end.message_offset}",
            file=self._directory.path,
            found=f"first offset {first}",
            expected=f"at most {end.segment_base_offset}",
        )


def _last_with_bytes(segments: Segments, end: LogOffsetMetadata) -> tuple[Segment | None, int]:
    """Return the segment of the last batch before *end*, and the byte where that batch ends."""
    segment = segments.get(end.segment_base_offset)
    position = end.relative_position_in_segment
    while segment is not None and not position:
        segment = segments.lower_segment(segment.base_offset)
        position = 0 if segment is None else segment.size_bytes
    return segment, position


def _base_of_missing(error: SegstoreError | None) -> int | None:
    """Return the base offset of the file that *error* did not find."""
    if not isinstance(error, LogNotFoundError) or error.file is None:
        return None
    found = parse_file_name(PurePath(error.file).name)
    return None if found is None else found.offset


def is_rewritten(context: SegmentContext, end: LogOffsetMetadata, log_start_offset: int) -> bool:
    """Whether good batches lie where *end* was, and none of them ends there.

    Reads the segment; for who has met bytes that are not what was expected. Damage is no rewriting.
    A log that was cut into the batch that *log_start_offset* is in has its end there, above that of
    its last batch.
    """
    position = end.relative_position_in_segment
    if not position:
        return False  # no batch was there
    segment, reached = None, 0
    try:
        segment = Segment(context, end.segment_base_offset)
        for headers, scan in segment.scan_windows(check_order=True):
            ends = headers["position"] + headers["size_bytes"]
            is_end = headers["last_offset"] + 1 == end.message_offset
            if end.message_offset == log_start_offset:
                is_end |= headers["last_offset"] < end.message_offset
            is_there = (ends == position) & is_end
            if is_there.any():
                return False
            if scan.valid_bytes > position:
                return True
            reached = scan.valid_bytes
    except SegstoreError:  # the reader has an error already
        return False
    finally:
        if segment is not None:
            segment.close_quietly()
    return reached == position
