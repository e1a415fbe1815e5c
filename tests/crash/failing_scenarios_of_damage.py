"""Logs that are damaged, or have lost files, while calls fail [DUR-6, DUR-51, DUR-54, DUR-111].

What a disk does not give out is no damage and no torn tail: it neither ends a log, nor lets one
begin anew, nor makes a reader believe that less was there.
"""

from __future__ import annotations

import functools
from contextlib import closing
from typing import TYPE_CHECKING, Final

import pytest

from segstore._core import Barrier, DataFile, Directory
from segstore.errors import CorruptLogError, CorruptRecordError
from segstore.log.files.checkpoints import LOG_STATE, LogState
from segstore.types import EpochEntry
from tests.crash.failing_scenarios_of_doors import committed, read_only
from tests.crash.failing_scenarios_of_ends import salvaging
from tests.crash.failing_scenarios_of_opens import (
    IN_LOG_DIRECTORY,
    SEGMENTS,
    SETTINGS,
    as_reader,
    closed,
    left_by,
    without,
)
from tests.crash.failing_trial import CLOSED, Trial, asking, changing, expecting, looking, opening
from tests.kits.directory_kit import (
    RECOVERY_POINT,
    disk_with,
    name_of,
    records,
    recovery_point,
)
from tests.kits.log_kit import at

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from segstore import SegstoreError, UnifiedLog
    from segstore._core import SimulatedDisk
    from tests.crash.crash_model import Found

LOG_START: Final = "log-start-offset-checkpoint"
MARKER: Final = ".kafka_cleanshutdown"
EPOCHS: Final = "leader-epoch-checkpoint"
ZEROS: Final = bytes(4096)
SECTOR_BYTES: Final = 512


def contents(disk: SimulatedDisk) -> dict[str, bytes]:
    """What is in the files of the partition, but for those that say how it was opened."""
    with closing(Directory("/data/topic-0", disk)) as directory:
        names = [name for name in directory.names() if not name.endswith((".lock", ".tmp"))]
        return {name: directory.read_file(name) for name in names}


def moved(content: bytes, base_offset: int) -> bytes:
    """Return a batch at another offset: no checksum covers it."""
    return base_offset.to_bytes(8) + content[8:]


def torn_at_a_sector() -> bytes:
    """Return batches of which the last lost the first bytes of its offset, with a sector's end."""
    whole = records(0, 200)
    size = len(at(0, epoch=0))
    position = next(n * size for n in range(200) if 0 < -n * size % SECTOR_BYTES <= 5)
    lost = -position % SECTOR_BYTES
    number = position // size
    next_one = at(number, epoch=0)
    return whole[:position] + bytes(lost) + next_one[lost:]


# ---- logs that are refused -----------------------------------------------------------------------


def refusing(disk: SimulatedDisk) -> Trial:
    """The log is refused whatever fails, and stays as it was: also behind it [DUR-54, DUR-57]."""
    image = disk.crash_image(fate="lost")
    before = contents(image)
    refusals: list[CorruptLogError] = []

    def run() -> None:
        try:
            SETTINGS.open(image).close()
        except CorruptLogError as error:
            refusals.append(error)

    def check(error: SegstoreError | None) -> str:
        assert error is not None or refusals, "a damaged log was opened"
        assert before.items() <= contents(image).items(), "a file was changed"
        with pytest.raises(CorruptLogError):
            SETTINGS.open(image)
        return CLOSED

    return Trial(image, run, check)


def state(latest_epoch: EpochEntry | None = None) -> bytes:
    return LogState(0, 0, latest_epoch).format()


def epochs(start_offset: int = 0) -> dict[str, bytes]:
    """A leader-epoch checkpoint of one epoch, and the state file that goes with it."""
    return {
        EPOCHS: f"0\n1\n0 {start_offset}\n".encode(),
        LOG_STATE: state(EpochEntry(0, start_offset)),
    }


def changed(
    disk: SimulatedDisk, name: str, change: Callable[[bytes], bytes], path: str = "/data/topic-0"
) -> SimulatedDisk:
    """Let a file have other bytes, all of them on stable storage."""
    directory = Directory(path, disk)
    content = change(directory.read_file(name) if directory.exists(name) else b"")
    with DataFile(directory, name, create=not directory.exists(name)) as file:
        file.truncate(0)
        file.write(0, content)
        file.sync(Barrier.APPENDED_RECORDS)
    directory.sync(Barrier.APPENDED_NAMES)
    return disk


REFUSED: Final[Mapping[str, Callable[[], SimulatedDisk]]] = {
    "lost its beginning": lambda: disk_with({name_of(9): records(9, 12), **epochs()}),
    "lost all .log files": lambda: without(
        closed(*SEGMENTS), *(name_of(base) for base in (0, 2, 4)), MARKER
    ),
    "lost all .log files, and its epochs": lambda: disk_with(
        {name_of(0, "index"): b"\0\0\0\1\0\0\0\1", LOG_STATE: state()}
    ),
    "has .log files that were to be deleted": lambda: disk_with(
        {name_of(0, "log.deleted"): records(0, 3), LOG_STATE: state()}
    ),
    "lost all .log files, and .segstore": lambda: disk_with({RECOVERY_POINT: recovery_point(6)}),
    "ends in no batch below the recovery point": lambda: changed(
        without(closed(*SEGMENTS), MARKER), name_of(0), lambda content: content + b"?" * 90
    ),
    "has a batch that goes back": lambda: disk_with(
        {name_of(0): records(0, 3) + moved(at(3, epoch=0, value=b"other"), 1)}
    ),
    "reaches into the next segment": lambda: changed(
        without(closed(*SEGMENTS), MARKER),
        name_of(0),
        lambda content: content + at(2, epoch=0, value=b"other"),
    ),
    "reaches into a newer epoch": lambda: disk_with(
        {name_of(0): records(0, 5), name_of(3): at(3, epoch=1), RECOVERY_POINT: recovery_point(2)}
    ),
}


# ---- logs that are opened ------------------------------------------------------------------------

OPENED: Final[Mapping[str, Callable[[], SimulatedDisk]]] = {
    "with an impossible log start": lambda: changed(
        closed(*SEGMENTS), LOG_START, lambda _: b"0\n1\ntopic 0 99\n"
    ),
    "with an impossible log start above": lambda: changed(
        closed(*SEGMENTS, settings=IN_LOG_DIRECTORY),
        LOG_START,
        lambda _: b"0\n1\ntopic 0 99\n",
        "/data",
    ),
    "with a lost log start": lambda: without(closed(*SEGMENTS, ("delete_records", 3)), LOG_START),
    "emptied above its log start": lambda: disk_with({name_of(9): b"", **epochs()}),
    "with padding in a sealed segment": lambda: changed(
        without(closed(*SEGMENTS), MARKER), name_of(0), lambda content: content + ZEROS
    ),
    "with a base offset that jumped": lambda: disk_with(
        {
            name_of(0): records(0, 3) + moved(at(3, epoch=0), 50) + records(4, 6),
            RECOVERY_POINT: recovery_point(3),
        }
    ),
    "with a base offset that jumped into the next segment": lambda: disk_with(
        {
            name_of(0): records(0, 2) + moved(at(2, epoch=0), 3),
            name_of(3): records(3, 6),
            RECOVERY_POINT: recovery_point(2),
        }
    ),
    "with a batch that is there twice": lambda: disk_with(
        {name_of(0): records(0, 3) + records(1, 2)}
    ),
    "with an offset that a sector took along": lambda: disk_with({name_of(0): torn_at_a_sector()}),
    "with an epoch that begins at its end": lambda: disk_with(
        {
            name_of(0): records(0, 3),
            name_of(3): records(3, 6),
            LOG_STATE: state(EpochEntry(0, 0)),
            EPOCHS: b"0\n2\n0 0\n1 6\n",
            RECOVERY_POINT: recovery_point(3),
        }
    ),
    "that was being emptied": lambda: disk_with(
        {
            LOG_STATE: LogState(0, 0, EpochEntry(0, 0), is_being_emptied=True).format(),
            EPOCHS: b"0\n1\n0 0\n",
            LOG_START: b"0\n1\ntopic 0 3\n",
        }
    ),
    "with a torn tail that hides records": lambda: disk_with(
        {name_of(0): records(0, 3) + b"?" * 70 + records(4, 6)}
    ),
}
UNREADABLE: Final = {
    "with padding in a sealed segment",  # a reader does not take it for an end
    "that was being emptied",  # and has no .log yet
}


@functools.cache
def opened(name: str) -> tuple[SimulatedDisk, Found]:
    disk = OPENED[name]()
    return disk, expecting(disk, SETTINGS)


def open_it(name: str) -> Trial:
    return opening(*opened(name)[:1], SETTINGS, opened(name)[1])


def look_at(name: str) -> Trial:
    return looking(opened(name)[0], as_reader)


# ---- questions to damaged logs -------------------------------------------------------------------


def quarantined(log: UnifiedLog) -> object:
    report = log.verify()
    return [*map(str, report.quarantined), *report.problems, *report.notes]


def tells_what_is_unread(answer: object) -> bool:
    said = ("the disk cannot read", "_UNREADABLE]", "[FILE_", "not compared")
    return any(text in str(answer) for text in said)


def with_quarantine() -> SimulatedDisk:
    """Return a log of two segments, and what was set aside: some of it is in the log."""
    return changed(
        closed(*SEGMENTS),
        f"{2:020d}.quarantine-1",
        lambda _: records(2, 3) + b"?" * 30 + records(5, 6),
    )


def told(ask: Callable[[UnifiedLog], object]) -> Callable[[UnifiedLog], object]:
    """Take a refusal because of damage for an answer: it is the same whatever fails."""

    def answer(log: UnifiedLog) -> object:
        try:
            return ask(log)
        except (CorruptRecordError, CorruptLogError) as error:
            return type(error).__name__

    return answer


def marker_of_another_magic() -> SimulatedDisk:
    """Return a log whose last marker has lost its magic: there it ends for a reader [DUR-79]."""
    return changed(
        left_by(("transactional", 1), ("abort", 1), ("append", 2)),
        name_of(0),
        lambda content: _with_magic(content, 1, 7),
    )


def _with_magic(content: bytes, number: int, magic: int) -> bytes:
    """Change the magic of the *number*-th batch."""
    data, position = bytearray(content), 0
    for _ in range(number):
        position += 12 + int.from_bytes(data[position + 8 : position + 12])
    data[position + 16] = magic
    return bytes(data)


# ---- changes of logs with gaps -------------------------------------------------------------------

GAPS: Final[Mapping[str, Mapping[str, bytes]]] = {
    "between segments": {name_of(0): records(0, 3), name_of(9): records(9, 11)},
    "within a segment": {name_of(0): records(0, 3) + moved(at(3, epoch=0), 9)},
}


def truncating(name: str) -> Trial:
    disk = disk_with(GAPS[name])
    cut = expecting(disk_with({name_of(0): records(0, 3)}), SETTINGS)
    at_five = cut._replace(log_end=5)
    return changing(disk, SETTINGS, lambda log: log.truncate_to(5), cut, at_five)


# ---- all of them ---------------------------------------------------------------------------------

DAMAGE_SCENARIOS: dict[str, Callable[[], Trial]] = {
    **{
        f"refuse a log that {name}": lambda make=make: refusing(make())
        for name, make in REFUSED.items()
    },
    **{f"open a log {name}": functools.partial(open_it, name) for name in OPENED},
    **{
        f"read a log {name}": functools.partial(look_at, name)
        for name in OPENED
        if name not in UNREADABLE
    },
    "salvage damage in the midst": lambda: salvaging(
        {name_of(0): records(0, 3) + b"?" * 70 + records(4, 6)}, [0, 1, 2, 4, 5]
    ),
    "salvage an epoch above those behind it": lambda: salvaging(
        {name_of(0): records(0, 1) + at(1, epoch=7) + records(2, 4), **epochs()}, [0, 1, 2, 3]
    ),
    "verify what was set aside": lambda: asking(
        with_quarantine(), SETTINGS, quarantined, tells_of=tells_what_is_unread
    ),
    "read committed in front of a damaged marker": lambda: asking(
        marker_of_another_magic(), SETTINGS, told(committed), read_only
    ),
    **{f"truncate into a gap {name}": functools.partial(truncating, name) for name in GAPS},
}
