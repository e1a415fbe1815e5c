"""What an error of a read says of the way on: where the next whole batch begins behind damage."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from segstore._core import scan_batches
from segstore.errors import (
    CodecError,
    CorruptLogError,
    CorruptRecordError,
    InvalidRecordError,
    LimitExceededError,
    ReadIOError,
    SegstoreError,
    UnsupportedFormatError,
)
from segstore.log.files.partition_directory import LOG_FILE_SUFFIX, file_name
from segstore.log.files.recovery_advice import way_on
from segstore.log.local.file_bytes import FileBytes
from segstore.log.recovery.readable_batches import batch_of, next_readable_offset, stretches_of
from segstore.number_limits import MAX_LONG
from segstore.numpy_on_demand import np

if TYPE_CHECKING:
    from segstore._core import CodecTable
    from segstore.log.local.batch_transactions import Damage
    from segstore.log.local.local_log import LocalLog
    from segstore.log.local.segment import Segment
    from segstore.log.recovery.readable_batches import BatchPlace
    from segstore.records.fetch_data_info import FetchDataInfo

DAMAGE: Final = (
    CodecError,
    CorruptLogError,
    CorruptRecordError,
    InvalidRecordError,
    LimitExceededError,
    ReadIOError,
    UnsupportedFormatError,
)
"""What reading bytes fails with because of these bytes, not of the caller or of another process."""


def explain(  # noqa: PLR0913 - an error, and what was read
    error: SegstoreError,
    local_log: LocalLog,
    offset: int | None,
    codecs: CodecTable,
    *,
    may_begin_there: bool = False,
    committed: bool = False,
) -> None:
    """Let an *error* of reading *offset* say where the next whole batch begins, if it is damage.

    And what holds the damaged bytes, where that is no file of the log's directory.
    Without an offset, as of a look-up by time, it is the place of the error that counts.

    Parameters
    ----------
    may_begin_there : bool
        All before *offset* was read: the next whole batch may be the one that begins there.
    """
    if isinstance(error, DAMAGE) and not error.says_way_on:
        _say_way_on(error, local_log, offset, codecs, may_begin_there, committed)
    local_log.name_origin(error)


def _say_way_on(  # noqa: PLR0913 - as `explain`
    error: SegstoreError,
    local_log: LocalLog,
    offset: int | None,
    codecs: CodecTable,
    may_begin_there: bool,  # noqa: FBT001
    committed: bool,  # noqa: FBT001
) -> None:
    files = files_of(local_log)
    if offset is None:
        offset, may_begin_there = _offset_before(error, files, local_log) + 1, True
    above = offset - 1 if may_begin_there else offset
    try:
        found = next_readable_offset(files, local_log.written_order.state, above, codecs)
    except SegstoreError:
        return  # the first error is the one to be told
    if found is not None and found >= local_log.log_end.message_offset:
        found = None
    readable_from(error, local_log.directory.path, offset, found, committed=committed)


def undecided(damage: Damage, local_log: LocalLog, codecs: CodecTable) -> CorruptLogError:
    """Return an error that says behind which *damage* nobody knows what is committed."""
    error = damage.error()
    explain(error, local_log, damage.offset, codecs, committed=True)
    return error


def lacks_records(damage: str, local_log: LocalLog) -> CorruptLogError:
    """Return an error that says why the log ends before what it is known to have held."""
    path, end = local_log.directory.path, local_log.log_end.message_offset
    error = CorruptLogError(
        damage,
        file=path,
        found=f"an end at offset {end}",
        expected="all that was synced",
    )
    return error.go_on(
        None,
        f"end_offset={end} reads what is before it; on_damage='skip' leaves out what is damaged,"
        " and names it",
    )


class FetchCheck:
    """What a fetch asks of the log that it is from, when its records are shown.

    Attributes
    ----------
    order : WrittenOrder
        Says whether its batches are in the order in which they were written.
    """

    __slots__ = ("_codecs", "_local_log", "order")

    def __init__(self, local_log: LocalLog, codecs: CodecTable) -> None:
        self.order = local_log.written_order
        self._local_log = local_log
        self._codecs = codecs

    def explain(self, error: SegstoreError, fetched: FetchDataInfo) -> None:
        """Let an *error* about the batches of *fetched* say where the next one begins."""
        headers, _ = scan_batches(fetched.records, check_crc=False)
        place = fetched.fetch_offset_metadata.relative_position_in_segment
        position = (error.position or 0) - place
        row = max(int(np.searchsorted(headers["position"], position, "right")) - 1, 0)
        offset = int(headers["base_offset"][row]) if len(headers) else fetched.start_offset
        explain(error, self._local_log, offset, self._codecs)


def readable_from(
    error: SegstoreError,
    path: str,
    first_offset: int,
    next_offset: int | None,
    *,
    committed: bool = False,
) -> SegstoreError:
    """Let *error* say that *next_offset* is the next readable one; returns it.

    From *first_offset* up to there nothing can be read.
    """
    return error.go_on(next_offset, way_on(path, first_offset, next_offset, committed=committed))


def batch_behind_damage(
    local_log: LocalLog, segment: Segment, offset: int, codecs: CodecTable
) -> BatchPlace | None:
    """Return where the whole batch of *segment* is that holds *offset*.

    For a reader whose way there, from the last index entry on, leads through damage. None: there is
    no such batch.
    """
    try:
        return batch_of(file_of(local_log, segment), local_log.written_order.state, offset, codecs)
    except SegstoreError:
        return None


def file_of(local_log: LocalLog, segment: Segment) -> FileBytes:
    """Return the ``.log`` file of *segment* as it is now."""
    return _bytes_of(local_log, segment, local_log.end_of_segment(segment.base_offset))


def files_of(local_log: LocalLog, *, beyond: bool = False) -> list[FileBytes]:
    """Return the ``.log`` files of a log as they are now.

    Parameters
    ----------
    beyond : bool
        Also the segments behind the damage that ends the log for this handle.
    """
    segments, directory = local_log.segments.as_tuple, local_log.directory
    bases = [segment.base_offset for segment in segments]
    if beyond:
        there = directory.segment_listing().base_offsets(LOG_FILE_SUFFIX)
        bases += [base for base in there if base > bases[-1]]
    following = [*bases[1:], MAX_LONG]
    files = [_bytes_of(local_log, *one) for one in zip(segments, following, strict=False)]
    for base, behind in zip(bases[len(files) :], following[len(files) :], strict=True):
        name = file_name(base, LOG_FILE_SUFFIX)
        files.append(FileBytes(directory, name, directory.info(name).size, base, behind))
    return files


def _bytes_of(local_log: LocalLog, segment: Segment, next_base_offset: int) -> FileBytes:
    name = f"{segment.name}{segment.suffix}"
    return FileBytes(
        local_log.directory, name, segment.size_bytes, segment.base_offset, next_base_offset
    )


def _offset_before(error: SegstoreError, files: list[FileBytes], local_log: LocalLog) -> int:
    """Return the last offset before the byte that *error* names, or before the first damage."""
    reached = -1
    for file in files:
        if file.path == error.file and file.base_offset is not None:
            reached = file.base_offset - 1
            with suppress(SegstoreError):
                for stretch in stretches_of(file, local_log.written_order.state):
                    rows, position = stretch.rows, error.position
                    if position is not None:
                        rows = rows[rows["position"] < position]
                    elif stretch.lost is not None:
                        break
                    if stretch.lost is None and len(rows):
                        reached = int(rows["last_offset"][-1])
    return reached
