"""Readers that look at what a writer has done, while calls fail [DUR-71, DUR-77, DUR-111].

Whatever fails, a reader shows a log that there was, and behind the failure the one that there is.
"""

from __future__ import annotations

import os
from contextlib import closing, suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from segstore._core import Directory, FileBarrier
from segstore.errors import LogTruncatedError, OffsetOutOfRangeError
from segstore.log.cleaning.cleaner import Cleaner
from segstore.log.files.checkpoints import LEADER_EPOCH_CHECKPOINT
from tests.crash.crash_script import PATH, START_MS
from tests.crash.failing_scenarios_of_damage import changed, told
from tests.crash.failing_scenarios_of_doors import read_only
from tests.crash.failing_scenarios_of_opens import (
    SEGMENTS,
    SETTINGS,
    TRANSACTIONS,
    left_by,
)
from tests.crash.failing_trial import GOES_ON, Trial, shown_by
from tests.kits.directory_kit import RECOVERY_POINT, disk_with, name_of, records, recovery_point
from tests.kits.log_kit import at

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore import SegstoreError, UnifiedLog
    from segstore._core import SimulatedDisk
    from tests.crash.crash_model import Found

THREE: Final = {name_of(0): records(0, 3), name_of(3): records(3, 6), name_of(6): records(6, 8)}
CUT: Final = (LogTruncatedError, OffsetOutOfRangeError)
"""What a reader says when what it has seen is gone; it shows the log as it is from then on."""


def look_again(log: UnifiedLog) -> tuple[Found | str, str]:
    """Return what a reader shows when it has looked; that it was cut may be told twice."""
    for _ in range(2):
        with suppress(*CUT):
            return look(log)
    return look(log)


def look(log: UnifiedLog) -> tuple[Found | str, str]:
    log.refresh()
    return told(shown_by)(log), str(told(committed_from_start)(log))


def committed_from_start(log: UnifiedLog) -> object:
    return [one.offset for one in log.scan(isolation="read_committed")]


def last_values(log: UnifiedLog) -> object:
    """Count them; as in `look_again`, that the log was cut may be told twice."""

    def count() -> int:
        batches = log._latest(None).arrow_batches(("offset",), 100, 100, microseconds=False)
        return sum(batch.rows_count for batch in batches)

    for _ in range(2):
        with suppress(*CUT):
            return count()
    return count()


def following(
    make: Callable[[], SimulatedDisk],
    change: Callable[[SimulatedDisk], object],
    *,
    is_damage: bool = False,
) -> Trial:
    """Let a reader see a log, let *change* have its way, and let the reader look again.

    Another that does the same undisturbed says what it shows then. Without damage that is what a
    new reader shows, which has never seen the log before.
    """
    disk = make()
    image, other = disk.crash_image(fate="lost"), disk.crash_image(fate="lost")
    reader, undisturbed = read_only(image), read_only(other)
    before = look_again(reader)
    assert look_again(undisturbed) == before
    change(image)
    change(other)
    behind = look_again(undisturbed)
    undisturbed.close_quietly()
    with closing(read_only(other)) as fresh:
        assert is_damage or look_again(fresh) == behind
    shown: list[tuple[Found | str, str]] = []

    def check(_: SegstoreError | None) -> str:
        assert all(each in {before, behind} for each in shown), shown
        now = look_again(reader)
        assert now == behind, (now, behind)
        reader.close_quietly()
        return GOES_ON

    return Trial(image, lambda: shown.append(look_again(reader)), check)


def lagging(
    make: Callable[[], SimulatedDisk],
    change: Callable[[SimulatedDisk], object],
    ask: Callable[[UnifiedLog], object],
) -> Trial:
    """Let a reader see a log, let *change* have its way, and ask the reader, who has not looked.

    Another that does the same undisturbed gives the right answer, which may be a refusal.
    """
    disk = make()
    image, other = disk.crash_image(fate="lost"), disk.crash_image(fate="lost")
    reader, undisturbed = read_only(image), read_only(other)
    change(image)
    change(other)
    expected = told_of_cut(ask)(undisturbed)
    undisturbed.close_quietly()
    answers: list[object] = []

    def check(_: SegstoreError | None) -> str:
        assert all(answer == expected for answer in answers), answers
        assert told_of_cut(ask)(reader) == expected
        reader.close_quietly()
        return GOES_ON

    return Trial(image, lambda: answers.append(told_of_cut(ask)(reader)), check)


def told_of_cut(ask: Callable[[UnifiedLog], object]) -> Callable[[UnifiedLog], object]:
    """Take for an answer that what was seen is gone."""

    def answer(log: UnifiedLog) -> object:
        try:
            return ask(log)
        except CUT as error:
            return type(error).__name__

    return answer


# ---- what a writer does --------------------------------------------------------------------------


def writing(*steps: Callable[[UnifiedLog], object]) -> Callable[[SimulatedDisk], object]:
    def change(disk: SimulatedDisk) -> None:
        log = SETTINGS.open(disk)
        for step in steps:
            step(log)
        log.close()

    return change


def append(log: UnifiedLog) -> object:
    return log.append([(START_MS + 50, None, b"newer")])


def roll(log: UnifiedLog) -> object:
    return log.roll()


def compact(log: UnifiedLog) -> object:
    """Records without a key go; what is left of the segments becomes one."""
    return log.clean(Cleaner(offset_map_bytes=480), log.log_start_offset)


CHANGES: Final[dict[str, Callable[[SimulatedDisk], object]]] = {
    "appends": writing(append, append),
    "rolls": writing(append, roll, append),
    "cuts": writing(lambda log: log.truncate_to(3)),
    "cuts a segment": writing(lambda log: log.truncate_to(2)),
    "cuts and writes again": writing(lambda log: log.truncate_to(4), append, append),
    "cuts and rolls": writing(lambda log: log.truncate_to(3), append, roll, append),
    "empties": writing(lambda log: log.truncate_fully_and_start_at(9), append),
    "begins anew": writing(lambda log: log.truncate_fully_and_start_at(0), append),
    "deletes records": writing(lambda log: log.delete_records(3)),
    "compacts": writing(roll, compact, append),
}


def many_segments() -> SimulatedDisk:
    disk = left_by(*SEGMENTS)
    writing(*[append, roll] * 6)(disk)
    return disk


def compact_the_first(log: UnifiedLog) -> object:
    third = log.segments()[2].base_offset
    return log.clean(Cleaner(offset_map_bytes=480), log.log_start_offset, third)


def deleted_by_a_broker(disk: SimulatedDisk) -> None:
    """A broker writes its log start later; without .segstore nobody knows of one."""
    directory = Directory(PATH, disk)
    first, second, *_ = directory.segment_listing().base_offsets("log")
    for name in directory.names():
        if name.startswith((f"{first:020d}.", f"{second:020d}.")):
            directory.unlink(name)


def synced_by_a_broker() -> SimulatedDisk:
    """Return a log of which no open reads the second segment."""
    epochs = {LEADER_EPOCH_CHECKPOINT: b"0\n1\n0 0\n"}
    disk = disk_with({**THREE, **epochs})
    above = Directory(os.path.dirname(PATH), disk)  # noqa: PTH120 - not a real one
    above.write_file_atomically(RECOVERY_POINT, recovery_point(8), FileBarrier.SHARED_CHECKPOINT)
    return disk


def damage_the_end(disk: SimulatedDisk) -> None:
    changed(disk, name_of(0), lambda content: content[:-30] + b"?" * 30)


def write_half(disk: SimulatedDisk) -> None:
    """A batch is there as far as it was written until now [DUR-76]."""
    changed(disk, name_of(0), lambda content: content + at(6)[:30])


def swapped() -> SimulatedDisk:
    """Return a log of which a part has names that the next writer changes [LDR-5]."""
    return disk_with(
        {
            name_of(0): records(0, 3),
            name_of(3): records(3, 6),
            name_of(0, "log.swap"): records(0, 6),
            name_of(6): records(6, 7),
        }
    )


def refilled(disk: SimulatedDisk) -> None:
    """Another batch of the same size stands where the last one was."""
    changed(disk, name_of(0), lambda content: content[: -len(at(5))] + at(5, value=b"other"))


READER_SCENARIOS: dict[str, Callable[[], Trial]] = {
    **{
        f"follow a writer that {name}, {what}": partial(following, partial(left_by, *kinds), change)
        for name, change in CHANGES.items()
        for what, kinds in (
            ("segments", SEGMENTS),
            ("transactions", (*TRANSACTIONS, ("append", 1))),
        )
    },
    "follow a broker that deletes": partial(
        following,
        lambda: disk_with(THREE),
        deleted_by_a_broker,
    ),
    "follow a log that is damaged": partial(
        following, lambda: disk_with({name_of(0): records(0, 6)}), damage_the_end, is_damage=True
    ),
    "follow a log that is written again": partial(
        following, lambda: disk_with({name_of(0): records(0, 6)}), refilled
    ),
    "follow a writer in the midst of a batch": partial(
        following, lambda: disk_with({name_of(0): records(0, 6)}), write_half
    ),
    "read behind a broker that deletes": partial(
        lagging,
        synced_by_a_broker,
        deleted_by_a_broker,
        told(shown_by),
    ),
    "look again behind a compaction": partial(
        lagging, many_segments, writing(compact_the_first), told(look)
    ),
    "read the last value of each key": partial(
        lagging, many_segments, writing(compact_the_first), told(last_values)
    ),
    "follow a writer that compacts the first segments": partial(
        following, many_segments, writing(compact_the_first)
    ),
    "read behind a compaction": partial(
        lagging, partial(left_by, *SEGMENTS), CHANGES["compacts"], told(shown_by)
    ),
    "follow a writer that ends a compaction": partial(following, swapped, writing(append)),
}
