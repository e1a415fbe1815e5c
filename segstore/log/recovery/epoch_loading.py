"""Leader epochs of a log that is opened: from the checkpoint, or from the batches [DUR-21]."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from segstore.errors import NotALogError, SegstoreError
from segstore.log.files.checkpoints import LEADER_EPOCH_CHECKPOINT
from segstore.log.files.leader_epoch_file_cache import (
    UNREADABLE_EPOCHS,
    LeaderEpochFileCache,
    RebuiltEpochs,
)
from segstore.log.files.recovery_advice import MOST_NAMES
from segstore.log.recovery.epoch_changes import epoch_changes, latest_epoch, note_epochs
from segstore.log.recovery.tail_or_damage import NO_DAMAGE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segstore._core import BatchHeaders, Directory
    from segstore.log.local.segment import Segment
    from segstore.log.recovery.recovery_report import RecoveryReport


def read_epochs(
    directory: Directory,
    segments: Sequence[Segment],
    log_start_offset: int,
    report: RecoveryReport,
    *,
    writable: bool,
) -> LeaderEpochFileCache:
    """Read the leader-epoch checkpoint, or make the cache anew from headers of batches [DUR-21].

    Parameters
    ----------
    segments : sequence of Segment
        From the log start on.
    writable : bool
        What is made anew is written; and no error of the disk may leave out a part of it.
    """
    try:
        cache = LeaderEpochFileCache.read(directory, writable=writable, believes_empty=False)
        if cache is not None:
            return cache
    except UNREADABLE_EPOCHS as error:
        report.warnings.append(f"{LEADER_EPOCH_CHECKPOINT} cannot be read: {error}")
    cache = LeaderEpochFileCache(directory if writable else None)
    log_end_offset, gaps_count, gaps = 0, 0, deque[tuple[int, int]](maxlen=MOST_NAMES)
    for segment in segments:
        expected = segment.base_offset
        try:
            for headers, result in segment.scan_windows(check_crc=False):
                changes = epoch_changes(headers, latest_epoch(cache), log_start_offset)
                note_epochs(cache, changes)
                if len(headers):
                    found, count = _gaps(headers, max(expected, log_start_offset))
                    gaps_count += count
                    gaps += found
                    expected = log_end_offset = result.next_offset
        except SegstoreError as error:
            if writable and isinstance(error, (*NO_DAMAGE, NotALogError)):
                raise  # the rest would be lost for good
            break  # damage is found, and reported, by who reads the segment
    cache.rebuilt = RebuiltEpochs(log_end_offset, tuple(gaps), gaps_count)
    if any(segment.size_bytes for segment in segments):
        report.rebuilt.append(LEADER_EPOCH_CHECKPOINT)
        if writable and not cache.entries:
            cache.clear_and_flush()  # an empty file says that there are none
    return cache


def _gaps(headers: BatchHeaders, expected: int) -> tuple[list[tuple[int, int]], int]:
    """Return which offsets are missing in front of batches: the last such runs, and their number.

    What lies below *expected* is none.
    """
    before = np.maximum(np.concatenate(([expected], headers["last_offset"][:-1] + 1)), expected)
    rows = np.flatnonzero(headers["base_offset"] > before)
    last = rows[-MOST_NAMES:]
    return [(int(before[row]), int(headers["base_offset"][row])) for row in last], len(rows)
