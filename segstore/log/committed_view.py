"""Where committed data ends, and which open transactions hold that end.

Computed when it is asked for: at first from the newest producer snapshot that is known to be on
disk and the batches after it; later from the batches that came since. `BatchTransactions` goes
through them, and finds what a reader leaves out; no ``.txnindex`` is read.

Source: [TXX-*, LSO-*, LOC-10, PSM-*]; Kafka ``ProducerStateManager``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from segstore.errors import (
    CorruptLogError,
    LimitExceededError,
    LogNotFoundError,
    NotALogError,
    ReadIOError,
    SegstoreError,
)
from segstore.log.files.partition_directory import file_name
from segstore.log.local.batch_transactions import BatchTransactions, Damage
from segstore.log.producers.producer_snapshot import open_transactions
from segstore.log.producers.snapshot_files import snapshot_offsets

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore._core import Directory
    from segstore.log.local.batch_transactions import OpenAtEnd
    from segstore.log.local.local_log import LocalLog
    from segstore.log.local.segments import Segments
    from segstore.types import LogOffsetMetadata


class LogMoment(NamedTuple):
    """What a log was like."""

    end: LogOffsetMetadata
    segments: Segments
    truncations: tuple[int, int]
    """Truncations that began, and that came to their end."""

    @classmethod
    def of(cls, local_log: LocalLog) -> LogMoment:
        """Return what *local_log* is like now."""
        return cls(local_log.log_end, local_log.segments, local_log.truncation_counts)


class CommittedView(NamedTuple):
    """What is committed at one moment; it holds as long as its first four fields do.

    The last view is remembered, so it has the number of the segments, and keeps no file open.
    """

    end: LogOffsetMetadata
    segments_number: int
    truncations: tuple[int, int]
    log_start_offset: int
    bound: LogOffsetMetadata
    """The last stable offset: what is below belongs to no transaction, or to one that is over."""
    open_at_end: OpenAtEnd
    damage: Damage | None
    """Why nothing is known from the last stable offset on."""


class CommittedEnd:
    """Where committed data ends; any number of threads may ask.

    Parameters
    ----------
    durable_offset : callable
        Snapshots above it may be of batches that a crash takes away.
    """

    def __init__(self, local_log: LocalLog, durable_offset: Callable[[], int]) -> None:
        self._local_log = local_log
        self._batches = BatchTransactions(local_log)  # of its own: it begins where snapshots are
        self._durable_offset = durable_offset
        self._last: CommittedView | None = None

    def view(self, log_start_offset: int) -> tuple[CommittedView, LogMoment]:
        """Return the view of the log as it is now, and the moment that it is of."""
        while True:
            last, moment = self._last, LogMoment.of(self._local_log)
            if last is not None and last[:4] == _validity(moment, log_start_offset):
                return last, moment
            try:
                view = self._view_of(moment, log_start_offset, last)
            except SegstoreError:
                if self._is_of_now(moment):
                    raise
            else:
                if self._is_of_now(moment):
                    self._last = view
                    return view, moment

    def _is_of_now(self, moment: LogMoment) -> bool:
        """Whether no file went, and nothing was cut, while files were read by their names."""
        now = LogMoment.of(self._local_log)
        return now.segments is moment.segments and now.truncations == moment.truncations

    def _view_of(
        self, moment: LogMoment, log_start_offset: int, last: CommittedView | None
    ) -> CommittedView:
        first_offset = moment.segments.first_segment.base_offset
        if last is not None and last.truncations != moment.truncations:
            last = None
        if last is None or last.open_at_end.start_offset < first_offset:
            limit = min(self._durable_offset(), moment.end.message_offset)
            start = _newest_snapshot(self._local_log.directory, first_offset, limit)
        else:
            start = last.open_at_end[-2:]
        segments, end = moment.segments, moment.end
        try:
            found = self._batches.open_at_end(segments, end, *start)
        except CorruptLogError:  # where the snapshot is, nothing can be found
            found = self._batches.open_at_end(segments, end, first_offset, {})
        known, damage = found.end, found.damage
        if damage is not None and known.message_offset < log_start_offset:
            known = known._replace(message_offset=log_start_offset)
        stable = max(min([known.message_offset, *found.transactions.values()]), log_start_offset)
        validity = _validity(moment, log_start_offset)
        for place in (known, known if last is None else last.bound):
            if stable == place.message_offset and place.segment_base_offset in segments:
                return CommittedView(*validity, place, found, damage)
        bound = self._local_log.offset_metadata(stable)._replace(message_offset=stable)
        return CommittedView(*validity, bound, found, damage or _damage_at(bound, segments))


def _validity(
    moment: LogMoment, log_start_offset: int
) -> tuple[LogOffsetMetadata, int, tuple[int, int], int]:
    """Return the first fields of a view: when one of them changes, it holds no more."""
    return moment.end, moment.segments.serial_number, moment.truncations, log_start_offset


def _damage_at(bound: LogOffsetMetadata, segments: Segments) -> Damage | None:
    """Whether the batch that seems to begin an open transaction is what was written.

    Its header may have been changed: its transaction would stay open for ever.
    """
    segment = segments.get(bound.segment_base_offset)
    if segment is None:
        return None
    position = bound.relative_position_in_segment
    result = segment.scan_result(start_position=position, max_batches=1)
    if result.why is None:
        return None
    return Damage(bound.message_offset, segment.path, position, result.why.message)


def _newest_snapshot(directory: Directory, low: int, high: int) -> tuple[int, dict[int, int]]:
    """Return the offset of the newest good producer snapshot and the transactions open there.

    Of offsets from *low* to *high*; *low* and none without one.
    """
    for offset in reversed(snapshot_offsets(directory)):
        if not low <= offset <= high:
            continue
        try:
            found = open_transactions(directory.read_file(file_name(offset, "snapshot")))
        except (LogNotFoundError, LimitExceededError, NotALogError, ReadIOError):
            continue  # an older one, and the batches behind it, say the same
        if found is not None:
            return offset, found
    return low, {}
