"""What a reader of committed data sees: the last stable offset, and the transactions left out.

Computed when it is asked for: at first from the newest producer snapshot that is known to be on
disk and the batches behind it; later from the batches that came since. Which transactions were
aborted below that snapshot is found in the batches of the range that is read (`BatchTransactions`);
no ``.txnindex`` is read.

Source: [TXX-*, LSO-*, LOC-10, PSM-*]; Kafka ``ProducerStateManager``, ``TransactionIndex``.
"""

from __future__ import annotations

import operator
from bisect import bisect_left
from typing import TYPE_CHECKING, NamedTuple

from segstore._core import AbortedTransactions
from segstore.errors import (
    CorruptLogError,
    LimitExceededError,
    LogNotFoundError,
    SegstoreError,
)
from segstore.log.files.partition_directory import file_name
from segstore.log.local.transaction_walk import TransactionWalk, Walked
from segstore.log.producers.producer_snapshot import open_transactions
from segstore.log.producers.snapshot_files import snapshot_offsets
from segstore.types import LogOffsetMetadata

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore._core import CodecTable, Directory
    from segstore.log.local.local_log import LocalLog
    from segstore.log.local.segments import Segments
    from segstore.log.local.transaction_walk import Damage


class LogMoment(NamedTuple):
    """What a log was like: a view holds as long as this does."""

    end: LogOffsetMetadata
    segments: Segments
    truncations: tuple[int, int]
    """Truncations that began, and that came to their end."""

    @classmethod
    def of(cls, local_log: LocalLog) -> LogMoment:
        """Return what *local_log* is like now."""
        truncations = local_log.generation, local_log.truncations.done
        return cls(local_log.log_end, local_log.segments, truncations)


class CommittedView:
    """What is committed at one moment; all that one call of a reader uses. Never changed.

    Attributes
    ----------
    last_stable_offset : int
        Everything below belongs to no transaction, or to one that is over.
    bound : LogOffsetMetadata
        The same, with its place.
    moment : LogMoment
        What the log was like.
    log_start_offset : int
        As it was then.
    walked : Walked
        The transactions.
    known_from : int
        Of those that ended below it nothing is known here.
    """

    __slots__ = (
        "_table",
        "bound",
        "known_from",
        "last_stable_offset",
        "log_start_offset",
        "moment",
        "walked",
    )

    def __init__(
        self,
        moment: LogMoment,
        log_start_offset: int,
        walked: Walked,
        bound: LogOffsetMetadata,
        known_from: int,
    ) -> None:
        self.moment = moment
        self.known_from = known_from
        self.log_start_offset = log_start_offset
        self.walked = walked
        self.bound = bound
        self.last_stable_offset = bound.message_offset
        self._table: tuple[int, AbortedTransactions] | None = None

    @property
    def damage(self) -> Damage | None:
        """Why nothing is known behind the last stable offset: the log is damaged there."""
        return self.walked.damage

    def aborted_from(self, offset: int, _upper_bound_offset: int) -> AbortedTransactions:
        """Return the aborted transactions that reach to *offset*, or lie behind it."""
        aborted = self.walked.aborted
        first = bisect_left(aborted, offset, key=lambda transaction: transaction[2])
        table = self._table
        if table is None or table[0] != first:
            table = self._table = first, AbortedTransactions(aborted[first:])
        return table[1]


def current_view(  # noqa: PLR0913 - the log, and what is known of it
    last: CommittedView | None,
    local_log: LocalLog,
    codecs: CodecTable,
    log_start_offset: int,
    durable_offset: Callable[[], int],
    *,
    has_other_writer: bool,
) -> CommittedView:
    """Compute the view of the log as it is, going on from the *last* one as far as that holds.

    Parameters
    ----------
    durable_offset : callable
        Snapshots above it may be of batches that a crash takes away.
    has_other_writer : bool
        Another process may have cut the log: `LocalLog` does not tell then.
    """
    while True:
        moment = LogMoment.of(local_log)
        if last is not None and last.moment == moment and last.log_start_offset == log_start_offset:
            return last
        try:
            known = None if last is None else _what_holds(last, moment, check=has_other_writer)
            is_known = known is not None
            known_from = 0 if last is None else last.known_from
            if known is None:
                known = _beginning(local_log, moment, durable_offset())
                known_from = known.next_offset
                if known_from == moment.segments.first_segment.base_offset:
                    known_from = 0  # there is nothing before
            walk = TransactionWalk(local_log, codecs, moment.segments, moment.end, known)
            walked = walk.walk()
            place = last.bound if last is not None and is_known else moment.end
            bound = _bound(local_log, moment, walked, log_start_offset, place)
        except SegstoreError:
            now = LogMoment.of(local_log)
            if now.segments is moment.segments and now.truncations == moment.truncations:
                raise
            continue
        # While files were read by name, segments may have gone with theirs.
        now = LogMoment.of(local_log)
        if now.truncations == moment.truncations and (is_known or now.segments is moment.segments):
            return CommittedView(moment, log_start_offset, walked, bound, known_from)


def _bound(
    local_log: LocalLog,
    moment: LogMoment,
    walked: Walked,
    log_start_offset: int,
    place: LogOffsetMetadata,
) -> LogOffsetMetadata:
    """Return the last stable offset and where it is; *place* is one that is known [LSO-1, T-24]."""
    stable = max(min(walked.under_way.values(), default=walked.next_offset), log_start_offset)
    if walked.damage is not None and stable >= walked.next_offset:
        return LogOffsetMetadata(stable, walked.segment_base_offset, walked.position)
    for known in (moment.end, place):
        if stable == known.message_offset and known.segment_base_offset in moment.segments:
            return known
    return local_log.offset_metadata(stable)._replace(message_offset=stable)


def _what_holds(last: CommittedView, moment: LogMoment, *, check: bool) -> Walked | None:
    """Return what was walked when it is part of the log still; None when all is to be done again.

    Deletions from the front change nothing but that: what is known of deleted records goes.
    """
    walked, segments = last.walked, moment.segments
    at = walked.segment_base_offset
    is_cut = (
        last.moment.truncations != moment.truncations
        or walked.next_offset > moment.end.message_offset
    )
    if is_cut or at not in segments or at > moment.end.segment_base_offset:
        return None
    if check and not _endings_are_there(walked, segments):
        return None
    if segments is not last.moment.segments:
        if not _are_the_same_below(at, last.moment.segments, segments):
            return None
        first_offset = segments.first_segment.base_offset
        if first_offset == last.moment.segments.first_segment.base_offset:
            return walked
        if min(walked.under_way.values(), default=first_offset) < first_offset:
            return None  # it may have begun later, as far as the log has it
        gone = bisect_left(walked.aborted, first_offset, key=lambda one: one[2])
        walked = walked._replace(aborted=walked.aborted[gone:])
    return walked


def _are_the_same_below(offset: int, known: Segments, segments: Segments) -> bool:
    """Whether the sealed segments before *offset* are those that were known, or the newest ones."""
    before = [one for one in known if one.base_offset < offset]
    sealed = [one for one in segments if one.base_offset < offset]
    newest = before[max(len(before) - len(sealed), 0) :]
    return len(newest) == len(sealed) and all(map(operator.is_, newest, sealed))


def _endings_are_there(walked: Walked, segments: Segments) -> bool:
    """Whether no other process put other batches in the place of those that were walked."""
    for ending in walked.endings:
        segment = segments.get(ending.segment_base_offset)
        if segment is not None and not ending.is_still_in(segment):
            return False
    return True


def _beginning(local_log: LocalLog, moment: LogMoment, durable_offset: int) -> Walked:
    """Return what the newest snapshot tells, or nothing."""
    segments, directory = moment.segments, local_log.directory
    first_offset = segments.first_segment.base_offset
    nothing = Walked(first_offset, first_offset, 0, {}, ())
    limit = min(durable_offset, moment.end.message_offset)
    offset, under_way = _newest_snapshot(directory, first_offset, limit)
    segment = segments.floor_segment(offset)
    if segment is None:
        return nothing
    try:
        end = moment.end
        if (offset, segment.base_offset) == end[:2]:
            position = end.relative_position_in_segment  # what lies there is no batch yet
        else:
            place = segment.translate_offset(offset)
            position = segment.size_bytes if place is None else place.position
            if segment.base_offset == end.segment_base_offset:
                position = min(position, end.relative_position_in_segment)
    except CorruptLogError:
        return nothing  # the log is damaged: a walk finds where
    return Walked(offset, segment.base_offset, position, under_way, ())


def _newest_snapshot(directory: Directory, low: int, high: int) -> tuple[int, dict[int, int]]:
    """Return the offset of the newest good producer snapshot and the transactions open there.

    Of offsets from *low* to *high*; -1 without one.
    """
    for offset in reversed(snapshot_offsets(directory)):
        if not low <= offset <= high:
            continue
        try:
            found = open_transactions(directory.read_file(file_name(offset, "snapshot")))
        except (LogNotFoundError, LimitExceededError):
            continue
        if found is not None:
            return offset, found
    return -1, {}
