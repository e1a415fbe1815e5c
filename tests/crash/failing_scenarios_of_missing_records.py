"""Logs that lack records between two segments, while calls fail [DUR-7, DUR-64, DUR-111].

An index or ``.segstore.missing`` proves that the records are missing. Whatever fails, the next open
still reports them as long as the log has the gap, and takes appends.
"""

from __future__ import annotations

import struct
from contextlib import closing, suppress
from functools import partial
from typing import TYPE_CHECKING, Final

import pytest

from segstore._core import Directory, FileBarrier, SegmentContext, SimulatedDisk
from segstore.errors import CorruptLogError, DiskFullError, LogReadOnlyError
from segstore.log.files.checkpoints import LOG_STATE, MISSING_RECORDS
from segstore.log.files.missing_records_file import note_ranges
from segstore.log.local.missing_records import note_missing
from segstore.log.local.segment import Segment
from segstore.records.compression import codec_table
from tests.crash.barrier_scene import new_disk
from tests.crash.crash_script import PATH, START_MS, Settings
from tests.crash.failing_scenarios_of_damage import MARKER, changed
from tests.crash.failing_scenarios_of_doors import read_only
from tests.crash.failing_scenarios_of_opens import settled, without
from tests.crash.failing_trial import BEHIND_MS, CLOSED, GOES_ON, READ_ONLY, Trial, asking
from tests.kits.directory_kit import name_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore import SegstoreError, UnifiedLog

DENSE: Final = Settings("none", interval_bytes=1)
MISSING: Final = (5, 6)
"""The range that is missing: the segments begin at 0, 3 and 6."""


# ---- disks ---------------------------------------------------------------------------------------


def written() -> SimulatedDisk:
    """Return a log of eight records, all of it on stable storage."""
    disk = new_disk()
    with closing(DENSE.open(disk)) as log:
        for number in range(8):
            if number in {3, 6}:
                log.roll()
            log.append([(START_MS + number, None, b"value")])
    return settled(disk)


def shortened(*lost: str) -> SimulatedDisk:
    """Return one whose second ``.log`` lost its last batch; *lost* are files that are gone too."""
    disk = changed(written(), name_of(3), lambda content: content[: len(content) // 3 * 2])
    return settled(without(disk, LOG_STATE, *lost))


def noted(*lost: str) -> SimulatedDisk:
    """Return one that was opened: the index is whole again, and a file holds the proof."""
    disk = shortened(name_of(3, "timeindex"))
    DENSE.open(disk).close()
    return settled(without(disk, *lost))


def damaged() -> SimulatedDisk:
    """Return one whose note is damaged: only an index proves that records are missing."""
    disk = shortened(name_of(3, "timeindex"))
    directory = Directory(PATH, disk)
    directory.write_file_atomically(MISSING_RECORDS, b"?", FileBarrier.LOG_STATE)
    return settled(disk)


def with_a_lone_index() -> SimulatedDisk:
    """Return one of whose second segment only an index is left."""
    return settled(without(written(), LOG_STATE, name_of(3), name_of(3, "timeindex")))


def noted_twice() -> SimulatedDisk:
    """Return one with another range in the note, behind the end of the log."""
    disk = noted()
    note_ranges(Directory(PATH, disk), [(20, 30)])
    return settled(without(disk, MARKER))


# ---- trials --------------------------------------------------------------------------------------


def missing(log: UnifiedLog) -> list[tuple[int, int]]:
    return [one[:2] for one in log.missing_records()]


def readable(log: UnifiedLog) -> list[int]:
    return [record.offset for record in log.scan(on_damage="skip")]


def check_reported(log: UnifiedLog) -> None:
    """The range is reported exactly where the log has the gap, and all else can be read."""
    start, end = log.log_start_offset, log.log_end_offset
    has_gap = start <= MISSING[0] < end
    assert missing(log) == ([MISSING] if has_gap else [])
    assert readable(log) == [n for n in range(start, end) if not (has_gap and n == MISSING[0])]


def reporting(
    disk: SimulatedDisk, act: Callable[[UnifiedLog], object], *, is_open: bool = True
) -> Trial:
    """Return the trial of a change: no later open takes the gap for one that compaction left.

    Unless *is_open*, the open belongs to what fails.
    """
    image = disk.crash_image(fate="lost")
    logs = [DENSE.open(image)] if is_open else []

    def run() -> None:
        if not is_open:
            logs.append(DENSE.open(image))
        act(logs[0])

    def check(_: SegstoreError | None) -> str:
        outcome = CLOSED
        for log in logs:
            if not log.closed:
                outcome = go_on(log)
                if outcome == GOES_ON:  # else memory and disk may be apart
                    check_reported(log)
                log.close_quietly()
        for fate in ("killed", "lost", "seed"):
            with closing(DENSE.open(image.crash_image(fate=fate))) as again:
                check_reported(again)
                assert go_on(again) == GOES_ON
                assert readable(again)[-1] == again.log_end_offset - 1
        return outcome

    return Trial(image, run, check)


def go_on(log: UnifiedLog) -> str:
    try:
        log.append([(BEHIND_MS, None, b"x")])
    except LogReadOnlyError:
        return READ_ONLY
    return GOES_ON


def scan_over_the_gap(log: UnifiedLog) -> list[int]:
    """Return what comes before the gap: a scan ends there with an error."""
    found: list[int] = []
    with pytest.raises(CorruptLogError):
        found.extend(record.offset for record in log.scan())
    return found


def noting(disk: SimulatedDisk) -> Trial:
    """`segstore recover` notes what an index proves before it removes the index."""
    image = disk.crash_image(fate="lost")
    directory = Directory(PATH, image)

    def run() -> None:
        context = SegmentContext(directory, codec_table(), writable=False, heap_indexes=True)
        segments = [Segment(context, base) for base in (3, 6)]
        try:
            note_missing(directory, *segments)
        finally:
            for segment in segments:
                segment.close_quietly()

    def check(error: SegstoreError | None) -> str:
        for fate in ("killed", "lost"):
            with closing(DENSE.open(image.crash_image(fate=fate))) as log:
                check_reported(log)
        return GOES_ON if error is None else CLOSED

    return Trial(image, run, check)


def opening_beside_a_lone_index() -> Trial:
    """Without its ``.log`` it is noted what it proves, or it is kept; the log goes on."""
    image = with_a_lone_index().crash_image(fate="lost")
    logs: list[UnifiedLog] = []

    def check(_: SegstoreError | None) -> str:
        outcome = go_on(logs[0]) if logs else CLOSED
        for log in logs:
            log.close_quietly()
        for fate in ("killed", "lost"):
            with closing(DENSE.open(image.crash_image(fate=fate))) as again:
                assert go_on(again) == GOES_ON
                assert {0, 1, 2, 6, 7} < {*readable(again)}
        return outcome

    return Trial(image, lambda: logs.append(DENSE.open(image)), check)


# ---- all of them ---------------------------------------------------------------------------------


def nothing(_log: UnifiedLog) -> None:
    """Only the open is tried."""


def close_without_room(log: UnifiedLog) -> None:
    """Only an index proves that records are missing, and there is no room for a note of that."""
    disk, entries = log._directory.environment, struct.pack(">4i", 1, 73, 2, 146)
    assert isinstance(disk, SimulatedDisk)
    changed(disk, name_of(3, "index"), lambda _: entries)
    log._directory.unlink(MISSING_RECORDS)
    with suppress(CorruptLogError):
        list(log.scan(4))
    disk.set_room(0)
    try:
        with suppress(DiskFullError):
            log.close()
    finally:
        disk.set_room(None)


ACTS: Final[dict[str, Callable[[UnifiedLog], object]]] = {
    "truncate below": lambda log: log.truncate_to(4),
    "truncate behind": lambda log: log.truncate_to(7),
    "truncate into": lambda log: log.truncate_to(6),
    "empty": lambda log: log.truncate_fully_and_start_at(9),
    "close": lambda log: log.close(),
    "delete records": lambda log: log.delete_records(7),
    "close without room at": close_without_room,
}

MISSING_RECORD_SCENARIOS: dict[str, Callable[[], Trial]] = {
    "open a log that lacks records": lambda: reporting(shortened(), nothing, is_open=False),
    "open a log that lacks records, without an index": lambda: reporting(
        shortened(name_of(3, "timeindex")), nothing, is_open=False
    ),
    "open a log that lacks records, as a note says": lambda: reporting(
        noted(name_of(3, "index"), MARKER), nothing, is_open=False
    ),
    "open a log that lacks records, with a damaged note": lambda: reporting(
        damaged(), nothing, is_open=False
    ),
    "open a log with a note of what was cut": lambda: reporting(
        noted_twice(), nothing, is_open=False
    ),
    **{
        f"{name} a gap that is noted": partial(reporting, noted(), act)
        for name, act in ACTS.items()
    },
    "scan over a gap that is noted": lambda: asking(noted(), DENSE, scan_over_the_gap, read_only),
    "open a log with an index that has no .log": opening_beside_a_lone_index,
    "note missing records": lambda: noting(shortened()),
}
