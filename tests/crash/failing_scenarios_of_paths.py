"""What is asked of a path, not of a log that is open, while calls fail [DUR-6, DUR-58, DUR-111].

``segstore recover --dry-run`` foretells an open, ``verify`` compares transaction indexes, Spark
lists partitions. They open the system's directories: they are given those of the disk instead.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final, NamedTuple
from unittest import mock

from segstore._core import Barrier, Directory
from segstore.errors import LogNotFoundError, NotALogError, SegstoreError
from segstore.log.check.reader_view import wrong_transaction_indexes_of
from segstore.log.files.checkpoints import LOG_STATE
from segstore.log.recovery.forecast import forecast_open
from segstore.manager import partition_directories
from segstore.manager.partition_directories import partitions_with_logs
from tests.crash.barrier_scene import open_log
from tests.crash.crash_script import PATH
from tests.crash.failing_scenarios_of_damage import OPENED, REFUSED, changed
from tests.crash.failing_scenarios_of_opens import DISKS, SEGMENTS, TRANSACTIONS, closed
from tests.crash.failing_trial import CLOSED, GOES_ON, Trial
from tests.kits.directory_kit import disk_with, name_of, records

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from segstore._core import SimulatedDisk

ABOVE: Final = "/data"


class Refusal(NamedTuple):
    """An error that is an answer."""

    words: str
    os_error: int | None


def errno_behind(error: BaseException | None) -> int | None:
    """Return the errno of an error, or of what it was raised from."""
    while error is not None:
        if isinstance(error, SegstoreError) and error.os_error is not None:
            return error.os_error
        error = error.__cause__
    return None


def tells_of_a_failed_call(answer: object) -> bool:
    return isinstance(answer, Refusal) and answer.os_error is not None


def asking_of_path(
    disk: SimulatedDisk,
    ask: Callable[[SimulatedDisk], object],
    tells_of: Callable[[object], bool] = lambda _: False,
) -> Trial:
    """Return the trial of a question: no wrong answer, and nothing is changed on the disk.

    *tells_of* says of an answer that it has the failure in it.
    """
    expected = ask(disk.crash_image(fate="lost"))
    image = disk.crash_image(fate="lost")
    answers: list[object] = []

    def check(error: SegstoreError | None) -> str:
        assert error is not None or answers
        assert all(answer == expected or tells_of(answer) for answer in answers), answers
        assert image.effects == 0, "something was changed"
        assert ask(image) == expected
        return CLOSED if error is not None else GOES_ON

    return Trial(image, lambda: answers.append(ask(image)), check)


# ---- what an open would do -----------------------------------------------------------------------


def forecast(disk: SimulatedDisk) -> object:
    """Return all that is foretold, but for how long it took."""
    made = forecast_open(PATH, environment=disk)
    if made.error is not None:
        return Refusal(str(made.error), errno_behind(made.error))
    report = {**made.report.to_dict(), "seconds": 0}
    return report, made.truncations, made.reindexed, made.recovered, made.split


FORETOLD: Final[Mapping[str, Callable[[], SimulatedDisk]]] = {
    **{
        name: make
        for name, (make, _) in DISKS.items()
        if name != "files to be removed"  # where an end cannot be read the file would be kept
    },
    **{f"a log {name}": make for name, make in OPENED.items()},
    **{f"a log that {name}": make for name, make in REFUSED.items()},
}


def foretell(make: Callable[[], SimulatedDisk]) -> Trial:
    return asking_of_path(make(), forecast, tells_of_a_failed_call)


# ---- other questions -----------------------------------------------------------------------------


def wrong_transaction_indexes(disk: SimulatedDisk) -> object:
    return wrong_transaction_indexes_of(PATH, disk)


def with_a_lost_entry() -> SimulatedDisk:
    return changed(closed(*TRANSACTIONS), name_of(0, "txnindex"), lambda _: b"")


def partitions(disk: SimulatedDisk) -> object:
    there = functools.partial(Directory, environment=disk)
    with mock.patch.object(partition_directories, "Directory", there):
        return partitions_with_logs(ABOVE)


def of_three_partitions() -> SimulatedDisk:
    """Return a directory with a log, with one that has lost its ``.log``, and with none."""
    disk = disk_with({name_of(0): records(0, 3)})
    for name in ("topic-1", "topic-2", "state"):
        Directory(f"{ABOVE}/{name}", disk, create=True)
    return changed(disk, name_of(0, "index"), lambda _: b"", f"{ABOVE}/topic-1")


def being_emptied() -> SimulatedDisk:
    """Return a log whose files are gone, and whose ``.segstore`` is there."""
    disk = closed(*SEGMENTS)
    directory = Directory(PATH, disk)
    for name in directory.names():
        if name != LOG_STATE:
            directory.unlink(name)
    directory.sync(Barrier.LEFTOVERS_GONE)
    return disk


# ---- refusals ------------------------------------------------------------------------------------


def refusal(path: str, **settings: object) -> Callable[[SimulatedDisk], object]:
    """Return the question for the error of an open whose words tell what is there instead."""

    def ask(disk: SimulatedDisk) -> object:
        try:
            open_log(disk, path, **settings).close()
        except (LogNotFoundError, NotALogError) as error:
            return Refusal(str(error), error.os_error)
        return None

    return ask


def is_refusal(answer: object) -> bool:
    """It may be told with fewer words: what was to be named could not be read."""
    return isinstance(answer, Refusal)


PATH_SCENARIOS: dict[str, Callable[[], Trial]] = {
    **{f"forecast of {name}": functools.partial(foretell, make) for name, make in FORETOLD.items()},
    "transaction indexes that are right": lambda: asking_of_path(
        closed(*TRANSACTIONS), wrong_transaction_indexes
    ),
    "transaction indexes with a lost entry": lambda: asking_of_path(
        with_a_lost_entry(), wrong_transaction_indexes
    ),
    "partitions that hold a log": lambda: asking_of_path(of_three_partitions(), partitions),
    "read what is not there": lambda: asking_of_path(
        of_three_partitions(), refusal(f"{ABOVE}/other-0", read_only=True), is_refusal
    ),
    "read a directory of logs as one": lambda: asking_of_path(
        of_three_partitions(), refusal(ABOVE, read_only=True), is_refusal
    ),
    "read a log that is being emptied": lambda: asking_of_path(
        being_emptied(), refusal(PATH, read_only=True), is_refusal
    ),
    "write a directory of logs as one": lambda: asking_of_path(
        of_three_partitions(),
        refusal(ABOVE, recovery="kafka", state_dir=f"{ABOVE}/state"),
        is_refusal,
    ),
}
