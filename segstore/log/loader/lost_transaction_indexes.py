"""Transaction indexes that were lost below the recovery point, made anew [DUR-7, DUR-8, DUR-52].

Kafka takes a missing one for one without entries: records of aborted transactions count as
committed then [LDR-15].
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import segstore.errors as errors
from segstore.log.directory.checkpoints import DAMAGED_TRANSACTION_INDEX, TransactionIndexNote
from segstore.log.directory.partition_directory import file_name
from segstore.log.local.transaction_index_notes import TransactionIndexNotes, differs, look_at
from segstore.log.producers.producer_state_rebuild import rebuild_transaction_index

_NOT_MADE: Final = (
    errors.CodecError,
    errors.CodecMissingError,
    errors.CorruptLogError,
    errors.CorruptRecordError,
    errors.DiskFullError,
    errors.InvalidRecordError,
    errors.InvalidTxnStateError,
    errors.LimitExceededError,
    errors.ReadIOError,
    errors.ResourceError,
    errors.UnsupportedFormatError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from segstore._core import CodecTable, Directory, SegmentListing
    from segstore.log.loader.loaded_log import LoadedLog
    from segstore.log.loader.recovery_report import RecoveryReport
    from segstore.log.local.segment import Segment
    from segstore.log.producers.producer_state_manager import ProducerStateManager


class FoundTransactionIndexes(NamedTuple):
    """What there is of transaction indexes below what recovery makes anew."""

    noted: dict[int, TransactionIndexNote]
    lost: tuple[int, ...]
    """Base offsets of those that are missing, or not what was noted."""


def find_transaction_indexes(
    directory: Directory,
    listing: SegmentListing,
    segments: Sequence[Segment],
    known: Mapping[int, TransactionIndexNote],
    recovered: Collection[int],
) -> FoundTransactionIndexes:
    """Compare names and sizes with what was noted, of the active segment the bytes too [DUR-51].

    Those that nobody has noted count as they are from now on; their entries are compared with the
    log when they are first used.

    Parameters
    ----------
    listing : SegmentListing
        Of the directory.
    known : mapping of int to TransactionIndexNote
        What was noted, by `noted_transaction_indexes`.
    recovered : collection of int
        Base offsets of segments whose transaction index comes from the batches anyway.
    """
    kind = "txnindex"
    noted: dict[int, TransactionIndexNote] = {}
    lost: list[int] = []
    there = set(listing.base_offsets(kind))
    active = segments[-1].base_offset if segments else -1
    if not there and not known:
        return FoundTransactionIndexes({}, ())
    for base in (segment.base_offset for segment in segments):
        note = known.get(base)
        if base in recovered or (note is None and base not in there):
            continue
        name = file_name(base, kind)
        is_read = base == active and note is not None
        found = look_at(directory, name) if is_read else _size_of(directory, name)
        if note is None and found is not None and found.size_bytes > 0:
            note = found
        if note is not None:
            noted[base] = note
            if differs(note, found) is not None:
                lost.append(base)
    return FoundTransactionIndexes(noted, tuple(lost))


def _size_of(directory: Directory, name: str) -> TransactionIndexNote | None:
    try:
        return TransactionIndexNote(directory.info(name).size)
    except errors.LogNotFoundError:
        return None


def remake_transaction_indexes(
    loaded: LoadedLog,
    new_producers: Callable[[], ProducerStateManager],
    codecs: CodecTable,
    directory: Directory,
    report: RecoveryReport,
) -> LoadedLog:
    """Make the lost ones anew, and note what those of recovered segments are like.

    Where the batches are damaged too, nothing is told about transactions behind that place; the log
    is opened all the same, as any log with damage in a sealed segment that was closed cleanly.
    Without room on the disk it is opened too: the batches are asked, and the next open tries again.
    """
    noted = dict(loaded.transaction_indexes)
    remade = {*loaded.recovered, *loaded.lost_transaction_indexes}
    for base in loaded.lost_transaction_indexes:
        segment = loaded.segments.get(base)
        if segment is None:
            continue
        try:
            rebuild_transaction_index(
                new_producers(),
                loaded.segments,
                segment,
                codecs,
                directory,
                log_start_offset=loaded.log_start_offset,
                now_ms=directory.wall_clock_ms(),
            )
        except _NOT_MADE as error:
            remade.discard(base)
            noted[base] = DAMAGED_TRANSACTION_INDEX
            name = file_name(base, "txnindex")
            report.warnings.append(f"{name} was lost and cannot be made anew: {error}")
    for base in remade:
        found = look_at(directory, file_name(base, "txnindex"))
        noted.pop(base, None)
        if found is not None and found.size_bytes > 0:
            noted[base] = found
    notes = TransactionIndexNotes(directory, noted, loaded.state_file)
    try:
        notes.save(loaded.segments)
    except (errors.DiskFullError, errors.ResourceError) as error:
        if loaded.moves_recovery_point:
            raise  # it must not pass what is not noted
        report.warnings.append(f"the transaction indexes could not be noted: {error}")
    return loaded._replace(transaction_index_notes=notes)
