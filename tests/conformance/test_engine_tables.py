"""Tables of edge cases that the engine's description ends with [T-*]."""

from __future__ import annotations

from pathlib import Path

import pytest

from segstore.errors import OffsetOutOfRangeError, RecordBatchTooLargeError
from segstore.log.files.leader_epoch_file_cache import LeaderEpochFileCache
from segstore.log.local.segment import Segment
from segstore.types import EpochEntry, LogOffsetMetadata
from tests.kits.log_kit import TIME, at, bases, batch, offsets
from tests.kits.unified_log_kit import write_plain

HOUR = 3_600_000


@pytest.fixture(params=["safe", "kafka"])
def open_log(new_log, request):
    """Open a log of either profile."""

    def open_one(path: Path | None = None, **settings: object):
        return new_log(path, recovery=request.param, **settings)

    return open_one


# ---- T-5, T-6: rolls -----------------------------------------------------------------------------


def sized(size: int) -> bytes:
    """A batch of exactly *size* bytes."""
    batches = (batch([(None, bytes(length))]) for length in range(size - 80, size - 60))
    return next(data for data in batches if len(data) == size)


@pytest.mark.parametrize(
    ("before", "added", "rolls"),
    [
        ([300, 300, 300], 100, False),
        ([300, 300, 301], 100, True),
        ([], 1000, False),
        ([100], 1000, True),
    ],
)
def test_rolls_by_size(open_log, before, added, rolls):
    """[SEG-13, APP-12, T-5] of ``segment.bytes=1000``."""
    log = open_log(internal_segment_bytes=1000)
    for size in before:
        log.append_as_leader(sized(size), 0)
    log.append_as_leader(sized(added), 0)
    assert bases(log) == ([0, len(before)] if rolls else [0])


def test_what_no_segment_holds_is_refused(open_log):
    """[APP-11, T-5]"""
    log = open_log(internal_segment_bytes=1000)
    with pytest.raises(RecordBatchTooLargeError):
        log.append_as_leader(sized(1001), 0)
    assert (log.log_end_offset, bases(log)) == (0, [0])


@pytest.mark.parametrize(
    ("first_timestamp", "waits", "max_timestamp", "waited", "rolls"),
    [
        (-1, HOUR, TIME, HOUR, False),
        (-1, HOUR + 1, TIME, HOUR + 1, True),
        (1000, 10**12, 1000 + HOUR, HOUR, False),
        (1000, 0, 1001 + HOUR, HOUR + 1, True),
        (1000, 10**12, -1, -1001, False),
    ],
)
def test_rolls_by_time(open_log, clock, first_timestamp, waits, max_timestamp, waited, rolls):  # noqa: PLR0913 - a row
    """[SEG-13, SEG-14, T-6] of ``segment.ms`` = an hour."""
    log = open_log(segment_ms=HOUR)
    log.append_as_leader(batch([(first_timestamp, None, b"v")]), 0)
    segment = log.segments()[0]
    now = segment.created_ms + waits
    assert segment.time_waited_for_roll(now, max_timestamp) == waited
    clock.sleep(now - clock.now)
    log.append_as_follower(batch([(max_timestamp, None, b"v")], base_offset=1, epoch=0), 0)
    assert bases(log) == ([0, 1] if rolls else [0])


# ---- T-7: offsets in a segment -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("base", "offset", "fits"),
    [
        (0, 2147483647, True),
        (0, 2147483648, False),
        (100, 99, False),
        (2147483648, 0, False),
        (2147483648, 4294967295, True),
        (2147483648, 4294967296, False),
    ],
)
def test_offsets_that_a_segment_holds(open_log, base, offset, fits):
    """[IDX-12, SEG-13, T-7]"""
    log = open_log()
    log.truncate_fully_and_start_at(base)
    assert log.segments()[0].can_hold(offset) is fits
    if offset > base:
        log.append_as_follower(at(base), 0)
        log.append_as_follower(at(offset), 0)
        assert bases(log) == ([base] if fits else [base, offset])


# ---- T-8: reads ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "bound", "count", "place"),
    [
        (3, (4, 4, 0), 1, (3, 2, 1)),
        (4, (4, 4, 0), 0, (4, 4, 0)),
        (5, (4, 4, 0), 0, (5, 4, 1)),
        (3, (4, -1, -1), 0, (3, 2, 1)),
        (3, (4, 0, 40), 0, (3, 2, 1)),
        (6, (4, 4, 0), None, None),
        (6, (6, 4, 1), None, None),
    ],
)
def test_reads_below_a_bound(open_log, start, bound, count, place):
    """[LOC-6, LOC-8, T-8] segments of two records, the last of one; places in records."""
    size = len(at(0))
    log = open_log(internal_segment_bytes=2 * size)
    for number in range(5):
        log.append_as_follower(at(number), 0)
    assert bases(log) == [0, 2, 4]

    def fetch():
        return log._local_log.fetch(
            start, 1000, LogOffsetMetadata(*bound), min_one_message=True, take=Segment.read
        )

    if place is None:
        with pytest.raises(OffsetOutOfRangeError):
            fetch()
        return
    metadata, fetched = fetch()
    assert metadata == (place[0], place[1], place[2] * size)
    assert (0 if fetched is None else fetched.size_bytes) == count * size


# ---- T-12: epochs --------------------------------------------------------------------------------

ENTRIES = [(2, 6), (3, 8), (4, 11)]


def cache() -> LeaderEpochFileCache:
    return LeaderEpochFileCache(None, [EpochEntry(*entry) for entry in ENTRIES])


@pytest.mark.parametrize(
    ("end", "left"), [(8, [(2, 6)]), (9, ENTRIES[:2]), (11, ENTRIES[:2]), (-1, ENTRIES)]
)
def test_epochs_are_cut_at_the_end(end, left):
    """[EPC-8, T-12]"""
    epochs = cache()
    epochs.truncate_from_end(end)
    assert list(epochs.entries) == left


@pytest.mark.parametrize(
    ("start", "left"),
    [
        (1, ENTRIES),
        (6, ENTRIES),
        (8, [(3, 8), (4, 11)]),
        (9, [(3, 9), (4, 11)]),
        (11, [(4, 11)]),
        (15, [(4, 15)]),
        (-1, ENTRIES),
    ],
)
def test_epochs_are_cut_at_the_start(start, left):
    """[EPC-9, T-12]"""
    epochs = cache()
    epochs.truncate_from_start(start)
    assert list(epochs.entries) == left


@pytest.mark.parametrize(
    ("entry", "left"),
    [
        ((4, 9), [(2, 6), (3, 8), (4, 9)]),
        ((3, 20), [(2, 6), (3, 20)]),
        ((5, 11), [(2, 6), (3, 8), (5, 11)]),
        ((4, 12), ENTRIES),
    ],
)
def test_epochs_are_assigned(entry, left):
    """[EPC-2, T-12]"""
    epochs = cache()
    epochs.note(*entry)
    assert list(epochs.entries) == left


# ---- T-20: snapshots that an open makes ----------------------------------------------------------


@pytest.mark.parametrize("is_clean", [True, False])
def test_snapshots_of_an_open_without_any(open_log, is_clean):
    """[PSM-60, PSM-61, T-20] before the last segment, at its begin and at the log end."""
    log = open_log(internal_segment_bytes=150)
    for _ in range(8):
        write_plain(log)
    path, starts, end = Path(log.path), bases(log), log.log_end_offset
    if is_clean:
        log.close()
    else:
        log.close_quietly()
    for file in path.glob("*.snapshot"):
        file.unlink()
    again = open_log(internal_segment_bytes=150)
    found = sorted(int(file.stem) for file in path.glob("*.snapshot"))
    if log.profile == "kafka":  # which knows of no clean stop without a place for its marker
        assert found == [*starts[1:], end]
    elif is_clean:
        assert found == [*starts[-2:], end]
    else:  # what is recovered is read once: a snapshot where that begins, and one where it ends
        assert (found[-1], set(found) <= {*starts, end}) == (end, True)
    assert offsets(again.scan()) == list(range(end))
