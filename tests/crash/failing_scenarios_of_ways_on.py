"""Reads that go on behind damage, and batches there that are asked for, while calls fail.

A failed call is an error, or the answer names what it left out; it makes no record of a log
disappear [DUR-79, DUR-111].
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Final

from segstore._core import Directory
from segstore.errors import CorruptLogError, CorruptRecordError
from segstore.log.files.checkpoints import LOG_STATE
from segstore.types import SpecialTimestamp
from tests.crash.barrier_scene import new_disk
from tests.crash.crash_script import START_MS, Settings
from tests.crash.failing_scenarios_of_damage import changed
from tests.crash.failing_scenarios_of_doors import read_only
from tests.crash.failing_scenarios_of_ends import salvaging
from tests.crash.failing_scenarios_of_opens import settled, without
from tests.crash.failing_trial import Trial, asking
from tests.kits.directory_kit import PATH, disk_with, name_of, records

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from segstore import UnifiedLog
    from segstore._core import SimulatedDisk

SPARSE: Final = Settings("none", segment_bytes=4096, interval_bytes=4096)
"""The way to a batch leads through all before it in its segment."""
DAMAGED: Final[Mapping[str, bytes]] = {
    name_of(0): records(0, 3) + b"?" * 70 + records(4, 7),
    name_of(7): records(7, 9),
}


def sealed(damage: bytes = bytes(4)) -> SimulatedDisk:
    """Return a log with damage where no open looks: over the size of its fourth batch."""
    return settled(
        changed(two_segments(), name_of(0), lambda content: overwritten(content, damage))
    )


def nested() -> SimulatedDisk:
    """Return a log with a segment inside the first one; nothing says that it has no gap."""
    disk = without(settled(two_segments()), LOG_STATE)
    content = Directory(PATH, disk).read_file(name_of(0))
    size = len(content) // 7
    return settled(changed(disk, name_of(2), lambda _: content[2 * size : 4 * size]))


def two_segments() -> SimulatedDisk:
    """Return a log of seven batches and two."""
    disk = new_disk()
    with closing(SPARSE.open(disk)) as log:
        for number in range(9):
            if number == 7:
                log.roll()
            log.append([(START_MS + number, None, b"value")])
    return disk


def overwritten(content: bytes, damage: bytes) -> bytes:
    """Return seven batches of one size with *damage* from the size of the fourth on."""
    position = 3 * len(content) // 7 + 8
    return content[:position] + damage + content[position + len(damage) :]


def of_each(log: UnifiedLog, read: Callable[[int], object]) -> list[object]:
    """Return what is read at each offset, and the errors about damage."""
    answers: list[object] = []
    for offset in range(log.log_end_offset):
        try:
            answers.append(read(offset))
        except (CorruptRecordError, CorruptLogError) as error:
            answers.append((type(error).__name__, error.next_readable_offset))
    return answers


def read_each(log: UnifiedLog) -> object:
    return of_each(log, lambda offset: bytes(log.read(offset, 1).records))


def slice_each(log: UnifiedLog) -> object:
    return of_each(log, lambda offset: bytes(log.slice(offset, 1).read().records))


def count_each(log: UnifiedLog) -> object:
    return of_each(log, lambda offset: log.scan(offset).cuts(1))


def headers_each(log: UnifiedLog) -> object:
    return of_each(log, lambda offset: log.scan(offset, offset + 1).count(by_headers=True))


def latest_record(log: UnifiedLog) -> object:
    try:
        return log.fetch_offset_by_timestamp(SpecialTimestamp.MAX)
    except (CorruptRecordError, CorruptLogError) as error:
        return type(error).__name__, error.next_readable_offset


def scan_up_to_an_error(log: UnifiedLog) -> object:
    offsets: list[int] = []
    try:
        offsets.extend(record.offset for record in log.scan())
    except CorruptLogError as error:
        return offsets, type(error).__name__
    return offsets


def skip_damage(log: UnifiedLog) -> object:
    scan = log.scan(on_damage="skip")
    offsets = [record.offset for record in scan]
    return offsets, [(one.first_offset, one.next_offset) for one in scan.skipped]


def tells_what_is_left_out(answer: object) -> bool:
    """Whether each record is read or left out, and said to be."""
    match answer:
        case (list(offsets), list(skipped)):
            left_out = {
                n for first, end in skipped for n in range(first, 9 if end is None else end)
            }
            return {*offsets} | left_out == {*range(9)} and left_out.isdisjoint(offsets)
    return False


WAY_ON_SCENARIOS: dict[str, Callable[[], Trial]] = {
    "read each batch behind damage": lambda: asking(sealed(), SPARSE, read_each, read_only),
    "slice each batch behind damage": lambda: asking(sealed(), SPARSE, slice_each, read_only),
    "cut a range that begins behind damage": lambda: asking(
        sealed(), SPARSE, count_each, read_only
    ),
    "count in front of damage and behind it": lambda: asking(
        sealed(), SPARSE, headers_each, read_only
    ),
    "ask for the latest record beside damage": lambda: asking(
        sealed(), SPARSE, latest_record, read_only
    ),
    "scan beyond the damage that ends a log": lambda: asking(
        disk_with(DAMAGED), SPARSE, skip_damage, read_only, tells_what_is_left_out
    ),
    "scan beyond a segment inside another one": lambda: asking(
        nested(), SPARSE, scan_up_to_an_error, read_only
    ),
    "salvage a segment that is there again": lambda: salvaging(
        {name_of(0): records(0, 3), name_of(3): records(3, 6) + records(0, 3)}, [*range(6)]
    ),
}
