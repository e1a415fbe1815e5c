"""Questions and changes to which two rare things come at once, while calls fail [DUR-111].

The first of them lies on the disk, or the scenario lets it happen; the other is the call that
fails.
"""

from __future__ import annotations

import errno
import struct
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Final

from segstore import Isolation, SpecialTimestamp
from segstore._core import Directory, RecordsBuilder, SegmentContext
from segstore.errors import LogNotFoundError, LogReadOnlyError, SegstoreError
from segstore.log.check.damaged_ranges import damaged_ranges
from segstore.log.files.checkpoints import LOCK, PARTITION_METADATA
from segstore.records.compression import codec_table
from tests.crash.crash_script import PATH, START_MS
from tests.crash.failing_scenarios_of_damage import changed, told
from tests.crash.failing_scenarios_of_doors import (
    quiet,
    read_each,
    read_only,
    tells_of_problems,
    verify,
)
from tests.crash.failing_scenarios_of_ends import DAMAGED, deleting, doing, salvaging
from tests.crash.failing_scenarios_of_opens import SEGMENTS, SETTINGS, as_kafka, closed, without
from tests.crash.failing_scenarios_of_readers import committed_from_start
from tests.crash.failing_trial import (
    BEHIND_MS,
    CLOSED,
    GOES_ON,
    READ_ONLY,
    Trial,
    asking,
    changing,
    check_left,
    expecting,
    states_of,
)
from tests.kits.directory_kit import disk_with, name_of, records
from tests.kits.log_kit import at

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore import UnifiedLog
    from segstore._core import SimulatedDisk

TOPIC_ID: Final = b"version: 0\ntopic_id: l1C1myon2PBpSRpRav27fA"
CRC_BYTE: Final = 20
TIME_INDEX_ENTRY: Final = struct.Struct(">qi")


# ---- batches that are rare -----------------------------------------------------------------------


def compressed_messages() -> bytes:
    """Return old messages in a compressed one, which has the offset of the last alone."""
    builder = RecordsBuilder(codec_table(), magic=1, codec=1)
    for offset in range(3):
        builder.append(offset, START_MS, None, b"old")
    return bytes(builder.build())


def compacted() -> bytes:
    """Return a batch from which records were taken out."""
    builder = RecordsBuilder(codec_table(), partition_leader_epoch=0)
    for offset in (0, 4, 8):
        builder.append(offset, START_MS, None, b"kept")
    return bytes(builder.build())


def holding_a_batch() -> bytes:
    """Return a damaged batch in whose record a whole one lies."""
    batch = bytearray(at(3, epoch=0, value=at(3, epoch=0)))
    batch[CRC_BYTE] ^= 1
    return bytes(batch)


HIDING: Final = {name_of(0): records(0, 3) + holding_a_batch() + records(4, 6)}


def damaged_in_front() -> SimulatedDisk:
    return changed(closed(*SEGMENTS), name_of(0), lambda content: content[:-1] + b"?")


def marker_of_another_magic() -> SimulatedDisk:
    """Return a log with such a marker in a segment that no open reads [DUR-79].

    Only the batches tell of transactions.
    """
    disk = closed(("transactional", 1), ("abort", 1), "roll", ("append", 2))
    left = name_of(0, "txnindex"), name_of(5, "snapshot")
    return changed(without(disk, *left), name_of(0), _with_other_magic)


def _with_other_magic(content: bytes) -> bytes:
    data = bytearray(content)
    data[12 + int.from_bytes(data[8:12]) + 16] = 7
    return bytes(data)


def with_times_of_what_was_cut() -> SimulatedDisk:
    """Return a log with half a batch at its end, and an index entry that a truncation left."""
    return disk_with(
        {
            name_of(0): records(0, 3) + at(3)[:30],
            name_of(0, "index"): b"",
            name_of(0, "timeindex"): TIME_INDEX_ENTRY.pack(BEHIND_MS, 5),
        }
    )


# ---- questions -----------------------------------------------------------------------------------


def first_ones(log: UnifiedLog) -> object:
    return [log.scan(0, end).count(by_headers=True) for end in range(1, 10)]


def up_to_each(log: UnifiedLog) -> object:
    scans = [log.scan(0, end) for end in range(1, log.log_end_offset + 1)]
    return [([one.offset for one in scan], scan.count(by_headers=True)) for scan in scans]


def since(log: UnifiedLog) -> object:
    times = range(START_MS - 5, START_MS + 40, 5)
    return [[one.offset for one in log.scan(start_timestamp=time)] for time in times]


def rolling_timestamps(log: UnifiedLog) -> object:
    return [segment.rolling_timestamp() for segment in log.segments()]


def latest(log: UnifiedLog) -> object:
    return [log.fetch_offset_by_timestamp(SpecialTimestamp.MAX, one) for one in Isolation]


def finding_lost_records() -> Trial:
    """Of what the disk does not give out all counts as lost."""
    image = disk_with({name_of(0): records(0, 3) + b"?" * 70 + records(4, 6)})
    answers: list[list[tuple[int, int]]] = []

    def run() -> None:
        directory = Directory(PATH, image)
        context = SegmentContext(directory, codec_table(), writable=False, heap_indexes=True)
        found = damaged_ranges(directory, context, 0, None, 0, 6, None).ranges
        answers.append([(one.first_offset, one.next_offset or 6) for one in found])

    def check(error: SegstoreError | None) -> str:
        assert error is not None or any(first <= 3 < end for first, end in answers[0])
        run()
        assert answers[-1] == [(3, 4)]
        return GOES_ON

    return Trial(image, run, check)


# ---- changes -------------------------------------------------------------------------------------


def making_a_lost_transaction_index_anew() -> Trial:
    """It is lost or whole, and no record is touched [DUR-8, DUR-52]."""
    image = quiet("transactions").crash_image(fate="lost")
    states = states_of(expecting(image, SETTINGS))
    directory, name = Directory(PATH, image), name_of(0, "txnindex")
    whole = directory.read_file(name)
    directory.unlink(name)
    log = SETTINGS.open(image)

    def check(error: SegstoreError | None) -> str:
        log.close_quietly()
        is_there = directory.exists(name)
        assert error is not None or is_there
        assert not is_there or directory.read_file(name) == whole
        check_left(image, SETTINGS, lambda _: states, lambda _: states)
        return CLOSED

    return Trial(image, log.rebuild_transaction_indexes, check)


def writing_without_a_lock() -> Trial:
    """Somebody has removed the lock file: nothing more is called durable [DUR-4]."""
    image = quiet("segments").crash_image(fate="lost")
    before = expecting(image, SETTINGS)
    log = SETTINGS.open(image)
    Directory(PATH, image).unlink(LOCK)
    told: list[SegstoreError] = []

    def run() -> None:
        log.append([(START_MS, None, b"x")])
        try:
            log.flush()
        except LogNotFoundError as error:
            told.append(error)

    def check(error: SegstoreError | None) -> str:
        assert error is not None or told
        outcome = GOES_ON
        try:
            log.append([(START_MS, None, b"y")])
            with suppress(LogNotFoundError):
                log.flush()
                raise AssertionError("nobody knows who else writes")
        except LogReadOnlyError:
            outcome = READ_ONLY
        log.close_quietly()
        with closing(SETTINGS.open(image.crash_image(fate="killed"))) as again:
            assert [one.offset for one in again.scan(0, before.log_end)] == list(
                range(before.log_end)
            )
        return outcome

    return Trial(image, run, check)


def full_disk(log: UnifiedLog) -> None:
    """The disk is full for a moment: what is to be deleted makes room [DUR-30]."""
    log._directory.environment.fail("write_at", 1, errno.ENOSPC)
    log.delete_records(3)


def deleting_on_a_full_disk() -> Trial:
    disk = quiet("segments")
    found = expecting(disk, SETTINGS)
    return changing(disk, SETTINGS, full_disk, found._replace(log_start=3))


def cut_one_by_one() -> Trial:
    """Segments of which nobody knows whether there are gaps between them go one by one [DUR-2]."""
    files = {name_of(0): records(0, 3), name_of(3): records(3, 6), name_of(6): records(6, 7)}
    left = [
        expecting(disk_with(kept), SETTINGS)
        for kept in (
            {name_of(0): records(0, 1)},
            {name_of(0): records(0, 3)},
            {name_of(0): records(0, 3), name_of(3): records(3, 6)},
        )
    ]
    return changing(disk_with(files), SETTINGS, lambda log: log.truncate_to(1), *left)


def roll_in_vain(log: UnifiedLog) -> None:
    """A roll of an empty segment fails, and is undone."""
    log.roll()
    log._directory.environment.fail("open_file", 1, errno.EIO)
    with suppress(SegstoreError):
        log.roll()


def with_directories() -> SimulatedDisk:
    disk = closed(*SEGMENTS)
    for name in ("inner", "inner/most", "other"):
        with closing(Directory(f"{PATH}/{name}", disk, create=True)) as directory:
            directory.make_file("file")
    return disk.crash_image(fate="kept")


RARE_TURN_SCENARIOS: dict[str, Callable[[], Trial]] = {
    "read old compressed messages": lambda: asking(
        disk_with({name_of(0): compressed_messages()}), SETTINGS, read_each, read_only
    ),
    "read up to within old compressed messages": lambda: asking(
        disk_with({name_of(0): compressed_messages()}), SETTINGS, up_to_each, read_only
    ),
    "count in a compacted batch": lambda: asking(
        disk_with({name_of(0): compacted()}), SETTINGS, first_ones
    ),
    "scan from a time on": lambda: asking(quiet("segments"), SETTINGS, since),
    "ask when segments roll": lambda: asking(quiet("segments"), SETTINGS, rolling_timestamps),
    "verify a damaged log, as a reader": lambda: asking(
        damaged_in_front(), SETTINGS, verify, read_only, tells_of_problems
    ),
    "read committed behind a damaged marker": lambda: asking(
        marker_of_another_magic(), SETTINGS, told(committed_from_start), read_only
    ),
    "ask for the latest beside a writer": lambda: asking(
        with_times_of_what_was_cut(), SETTINGS, latest, read_only
    ),
    "find lost records": finding_lost_records,
    "salvage a record that holds a batch": lambda: salvaging(HIDING, [0, 1, 2, 4, 5]),
    "salvage a topic id": lambda: salvaging(
        {**DAMAGED, PARTITION_METADATA: TOPIC_ID}, [0, 1, 2, 5]
    ),
    "make a transaction index anew": making_a_lost_transaction_index_anew,
    "write without a lock": writing_without_a_lock,
    "delete records on a full disk": deleting_on_a_full_disk,
    "truncate a log that may have gaps": cut_one_by_one,
    "roll in vain as Kafka": lambda: doing(quiet("segments"), roll_in_vain, as_kafka),
    "delete directories too": lambda: deleting(with_directories(), is_closed=False),
}
