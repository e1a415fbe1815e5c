"""Directories that get another name, go, or are made from a damaged one; calls fail [DUR-111].

And logs of Kafka's profile, which promises less, and those with a part in remote storage.
"""

from __future__ import annotations

import functools
from contextlib import closing
from typing import TYPE_CHECKING, Final

from segstore._core import Directory
from segstore.errors import LogReadOnlyError
from segstore.log.log_environment import LogEnvironment
from segstore.log.log_salvage import salvage_and_open
from segstore.log.open_options import open_options
from tests.crash.barrier_scene import open_log
from tests.crash.barrier_scenes_of_directories import exists
from tests.crash.crash_script import PATH, START_MS, ManualScheduler, Settings
from tests.crash.failing_scenarios_of_opens import SEGMENTS, TRANSACTIONS, as_kafka, closed
from tests.crash.failing_trial import CLOSED, GOES_ON, READ_ONLY, Trial
from tests.kits.directory_kit import disk_with, name_of, records
from tests.kits.remote_kit import RemoteRecords

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore import SegstoreError, UnifiedLog
    from segstore._core import SimulatedDisk

ABOVE: Final = "/data"
NEW_NAME: Final = "/data/other-3"
SETTINGS: Final = Settings("none")


@functools.cache
def quiet(what: str) -> SimulatedDisk:
    return closed(*(SEGMENTS if what == "segments" else TRANSACTIONS))


def offsets(disk: SimulatedDisk, path: str) -> list[int]:
    with closing(open_log(disk, path)) as log:
        return [record.offset for record in log.scan()]


def renaming() -> Trial:
    """The records are there under one of the two names, whatever fails."""
    image = quiet("segments").crash_image(fate="lost")
    expected = offsets(quiet("segments").crash_image(fate="lost"), PATH)
    log = SETTINGS.open(image)

    def check(_: SegstoreError | None) -> str:
        outcome = GOES_ON
        try:
            log.append([(START_MS, None, b"x")])
        except LogReadOnlyError:
            outcome = READ_ONLY
        log.close_quietly()
        for fate in ("killed", "lost", "seed"):
            left = image.crash_image(fate=fate)
            (path,) = [each for each in (PATH, NEW_NAME) if exists(left, each)]
            assert offsets(left, path)[: len(expected)] == expected
        return outcome

    return Trial(image, lambda: log.rename_dir("other-3"), check)


def deleting(disk: SimulatedDisk, *, is_closed: bool) -> Trial:
    """All of the log is there under its name, or nothing; and it can be deleted again."""
    image = disk.crash_image(fate="lost")
    expected = offsets(disk.crash_image(fate="lost"), PATH)
    log = SETTINGS.open(image)
    if is_closed:
        log.close()

    def check(error: SegstoreError | None) -> str:
        for fate in ("killed", "lost", "seed"):
            left = image.crash_image(fate=fate)
            is_there = exists(left, PATH)
            assert error is not None or not is_there
            if is_there and Directory(PATH, left).has_segments():
                assert offsets(left, PATH) == expected
        if exists(image, PATH):
            with closing(SETTINGS.open(image)) as again:
                again.delete()
        assert not exists(image, PATH)
        return CLOSED

    return Trial(image, log.delete, check)


def salvaging(files: dict[str, bytes], expected: list[int]) -> Trial:
    """The new log is whole or not there, and the old one as it was; a second try succeeds.

    What the disk does not give out is lost to the new log, and reported.
    """
    image = disk_with(files)
    made: list[UnifiedLog] = []
    lost: list[object] = []

    def run(name: str = NEW_NAME) -> None:
        options = open_options(durability="none", segment_ms=None)
        scheduler = ManualScheduler()
        log_environment = LogEnvironment(environment=image, background=lambda *_: scheduler)
        log, report = salvage_and_open(PATH, name, options, log_environment)
        made.append(log)
        lost.append(report.lost)

    def check(error: SegstoreError | None) -> str:
        while made:
            made.pop().close_quietly()
        found: list[list[int]] = []
        for fate in ("killed", "lost"):
            left = image.crash_image(fate=fate)
            assert error is not None or exists(left, NEW_NAME)
            if exists(left, NEW_NAME):
                found.append(offsets(left, NEW_NAME))
        source = Directory(PATH, image)
        assert {name: source.read_file(name) for name in source.names()} == files
        run("/data/again-0")
        assert [record.offset for record in made[0].scan()] == expected
        made.pop().close()
        assert all(each == expected or lost[0] != lost[-1] for each in found), (found, lost)
        return GOES_ON if error is None else CLOSED

    return Trial(image, run, check)


DAMAGED: Final = {name_of(0): records(0, 3) + b"?" * 70, name_of(5): records(5, 6)}


# ---- what promises less --------------------------------------------------------------------------


def doing(
    disk: SimulatedDisk,
    act: Callable[[UnifiedLog], object],
    open_it: Callable[[SimulatedDisk], UnifiedLog],
) -> Trial:
    """Return the trial of something whose outcome is not looked at: the log can be opened again."""
    image = disk.crash_image(fate="lost")
    log = open_it(image)

    def check(_: SegstoreError | None) -> str:
        outcome = CLOSED if log.closed else GOES_ON
        if not log.closed:
            try:
                log.append([(START_MS, None, b"behind the failure")])
            except LogReadOnlyError:
                outcome = READ_ONLY
            log.close_quietly()
        with closing(open_it(image.crash_image(fate="killed"))) as again:
            first = again.local_log_start_offset
            shown = [record.offset for record in again.scan(first)]
            assert again.append([(START_MS, None, b"x")]).base_offset == again.log_end_offset - 1
            assert [record.offset for record in again.scan(first)] == [
                *shown,
                again.log_end_offset - 1,
            ]
        return outcome

    return Trial(image, lambda: act(log), check)


def roll_twice(log: UnifiedLog) -> None:
    for value in (b"a", b"b"):
        log.append([(START_MS, None, value)])
        log.roll()
    log.flush()
    log.update_high_watermark(log.log_end_offset)
    log.delete_records(3)


def close_it(log: UnifiedLog) -> None:
    log.append([(START_MS, None, b"a")])
    log.close()


def _as_kafka(what: str, act: Callable[[UnifiedLog], object]) -> Trial:
    return doing(quiet(what), act, as_kafka)


ACTS: dict[str, Callable[[UnifiedLog], object]] = {
    "roll twice": roll_twice,
    "truncate": lambda log: log.truncate_to(3),
    "truncate below": lambda log: log.truncate_to(1),
    "empty": lambda log: log.truncate_fully_and_start_at(9),
    "close": close_it,
    "flush": lambda log: log.flush_up_to_offset_exclusive(log.log_end_offset),
    "snapshot": lambda log: log.take_producer_snapshot(),
}


def as_tiered(disk: SimulatedDisk) -> UnifiedLog:
    return open_log(
        disk,
        remote_storage_enable=True,
        replicated=False,
        remote_log_reader=RemoteRecords(),
        retention_ms=None,
        retention_bytes=1,
        file_delete_delay_ms=0,
    )


def give_to_remote_storage(log: UnifiedLog) -> None:
    log.update_highest_offset_in_remote_storage(3)
    log.delete_old_segments()
    log.offset_for_timestamp(START_MS)
    log.update_log_start_offset_from_remote_tier(2)


def keep_little(log: UnifiedLog) -> None:
    log.roll()
    log.delete_old_segments()


def as_keeping_little(disk: SimulatedDisk) -> UnifiedLog:
    return open_log(disk, retention_bytes=1, file_delete_delay_ms=0)


END_SCENARIOS: dict[str, Callable[[], Trial]] = {
    "rename": renaming,
    "delete": lambda: deleting(quiet("segments"), is_closed=False),
    "delete what was closed": lambda: deleting(quiet("segments"), is_closed=True),
    "salvage": functools.partial(salvaging, DAMAGED, [0, 1, 2, 5]),
    "retention": lambda: doing(quiet("segments"), keep_little, as_keeping_little),
    "tiered": lambda: doing(quiet("segments"), give_to_remote_storage, as_tiered),
    **{
        f"{name} as Kafka, {what}": functools.partial(_as_kafka, what, act)
        for name, act in ACTS.items()
        for what in ("segments", "transactions")
    },
}
