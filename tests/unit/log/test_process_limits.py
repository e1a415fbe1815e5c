"""Limits of the process: the size of a file, the number of descriptors [DUR-6, DUR-30, DUR-31].

What was acked stays, whatever is refused; when the limit is gone, all goes on. A process that goes
beyond RLIMIT_FSIZE gets SIGXFSZ, which Python ignores: writes fail with EFBIG instead.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import resource
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from segstore.errors import DiskFullError, ResourceError
from tests.kits.log_kit import TIME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from segstore import UnifiedLog

SETTINGS = {"internal_segment_bytes": 2000, "index_interval_bytes": 100, "file_delete_delay_ms": 0}
RECORDS = 60


@contextlib.contextmanager
def limited(kind: int, limit: int) -> Iterator[None]:
    """Set the soft limit for the length of a block."""
    soft, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(kind, (soft, hard))


@contextlib.contextmanager
def descriptors_left(count: int) -> Iterator[None]:
    """Let the process open so many files at most."""
    lowest = os.dup(0)
    os.close(lowest)
    taken = {int(file.name) for file in Path("/proc/self/fd").iterdir()}
    taken.discard(lowest)  # of this look; others may be above numbers that are free
    free = (number for number in itertools.count() if number not in taken)
    with limited(resource.RLIMIT_NOFILE, next(itertools.islice(free, count, None))):
        yield


def append(log: UnifiedLog, number: int) -> None:
    log.append([(TIME + number, b"%d" % number, b"x" * (number * 13 % 90))])


def filled(log: UnifiedLog) -> UnifiedLog:
    for number in range(RECORDS):
        append(log, number)
    assert len(log.segments()) > 2
    return log


def numbers(log: UnifiedLog) -> list[int]:
    return [int(key) for _, _, key, _ in log.scan().tuples()]


def check_goes_on(log: UnifiedLog, expected: list[int], open_again: Callable[[], UnifiedLog]):
    """All of it is there, more can be appended, and a clean stop is one."""
    assert numbers(log) == expected
    assert log.verify().ok, str(log.verify())
    append(log, expected[-1] + 1)
    log.close()
    again = open_again()
    assert again.report.clean
    assert numbers(again) == [*expected, expected[-1] + 1]
    assert again.verify().ok, str(again.verify())


# ---- the size of a file --------------------------------------------------------------------------


@pytest.mark.parametrize("durability", ["none", "messages=3", "sync"])
@pytest.mark.parametrize("limit", [1, 70, 300, 1500, 4000, 30_000])
@pytest.mark.parametrize("preallocate", [False, True])
def test_files_that_may_not_grow(
    new_log: Callable[..., UnifiedLog], durability: str, limit: int, *, preallocate: bool
):
    """[DUR-25, DUR-30, DUR-32] Appends and rolls are refused, or done; reads go on."""
    settings = {**SETTINGS, "durability": durability, "preallocate": preallocate}
    log = filled(new_log(**settings))
    acked = list(range(RECORDS))
    refused: list[DiskFullError] = []
    with limited(resource.RLIMIT_FSIZE, limit):
        for number in range(RECORDS, 2 * RECORDS):
            end = log.log_end_offset
            try:
                append(log, number)
                acked.append(number)
                if number % 20 == 0:
                    log.roll()
            except DiskFullError as error:
                refused.append(error)
                assert log.log_end_offset - end == (acked[-1] == number)
        assert numbers(log) == acked
        assert log.verify().ok, str(log.verify())
        assert log.offset_for_timestamp(TIME + 30) == 30
    assert all(error.os_error == errno.EFBIG for error in refused)
    assert all(error.file.startswith(log.path) for error in refused)
    assert bool(refused) == (limit < 2000)

    append(log, acked[-1] + 1)
    check_goes_on(log, [*acked, acked[-1] + 1], lambda: new_log(**settings))


@pytest.mark.parametrize("limit", [1, 50, 300, 1500])
@pytest.mark.parametrize("ends", ["close", "close_quietly"])
def test_an_open_where_files_may_not_grow(
    new_log: Callable[..., UnifiedLog], limit: int, ends: str
):
    """[DUR-6, DUR-57] Refused or not: nothing is cut, and later the log is as it was."""
    log = filled(new_log(**SETTINGS))
    getattr(log, ends)()
    for _ in range(2):
        with limited(resource.RLIMIT_FSIZE, limit):
            with contextlib.suppress(DiskFullError):
                new_log(**SETTINGS).close_quietly()
            reader = new_log(read_only=True)
            assert numbers(reader) == list(range(RECORDS))
            reader.close()
    check_goes_on(new_log(**SETTINGS), list(range(RECORDS)), lambda: new_log(**SETTINGS))


CUTS: dict[str, tuple[Callable[[UnifiedLog], object], range]] = {
    "truncate_to": (lambda log: log.truncate_to(35), range(35)),
    "delete_records": (lambda log: log.delete_records(35), range(35, RECORDS)),
    "close": (lambda log: log.close(), range(RECORDS)),
    "flush": (lambda log: log.flush(force_active_segment=True), range(RECORDS)),
}


@pytest.mark.parametrize("limit", [1, 20, 300])
@pytest.mark.parametrize("name", CUTS)
def test_what_writes_small_files_where_they_may_not_grow(
    new_log: Callable[..., UnifiedLog], name: str, limit: int
):
    """[DUR-5, DUR-16, DUR-19, DUR-24, DUR-30] Done as a whole, or refused as a whole."""
    log = filled(new_log(**SETTINGS))
    act, kept = CUTS[name]
    with limited(resource.RLIMIT_FSIZE, limit):
        try:
            act(log)
        except DiskFullError:
            kept = range(RECORDS)
    if not log.closed:
        assert numbers(log) == list(kept)
        log.close_quietly()
    check_goes_on(new_log(**SETTINGS), list(kept), lambda: new_log(**SETTINGS))


# ---- descriptors ---------------------------------------------------------------------------------


@contextlib.contextmanager
def noted(refused: list[ResourceError]) -> Iterator[None]:
    """Let a block be refused for want of a descriptor."""
    try:
        yield
    except ResourceError as error:
        refused.append(error)


@pytest.mark.parametrize("left", range(4))
def test_no_descriptor_for_a_roll_or_a_read(new_log: Callable[..., UnifiedLog], left: int):
    """[DUR-31] Done with those that idle files give back, or refused without a change."""
    filled(new_log(**SETTINGS)).close()
    log = new_log(**SETTINGS)
    acked = list(range(RECORDS))
    appends: list[ResourceError] = []
    others: list[ResourceError] = []
    with descriptors_left(left):
        for number in range(RECORDS, RECORDS + 40):
            with noted(appends):
                append(log, number)
                acked.append(number)
            assert log.log_end_offset == len(acked)
        for act in (log.roll, lambda: numbers(log), lambda: log.offset_for_timestamp(TIME + 20)):
            with noted(others):
                act()
    assert len(acked) > RECORDS
    assert {error.os_error for error in appends + others} <= {errno.EMFILE}
    check_goes_on(log, acked, lambda: new_log(**SETTINGS))


@pytest.mark.parametrize("ends", ["close", "close_quietly"])
def test_no_descriptor_for_an_open(new_log: Callable[..., UnifiedLog], tmp_path: Path, ends: str):
    """[DUR-6, DUR-31, DUR-57] Whichever is missing, at any step of a recovery: nothing is lost."""
    getattr(filled(new_log(**SETTINGS)), ends)()
    logs = {file.name: file.read_bytes() for file in (tmp_path / "topic-0").glob("*.log")}
    refused: list[ResourceError] = []
    left = opened = 0
    while opened < 2:  # a writer and a reader
        opened = 0
        for settings in (SETTINGS, {"read_only": True}):
            log = None
            with descriptors_left(left), noted(refused):
                log = new_log(**settings)
            if log is not None:
                opened += 1
                assert numbers(log) == list(range(RECORDS))
                log.close_quietly()
        now = {file.name: file.read_bytes() for file in (tmp_path / "topic-0").glob("*.log")}
        assert {name: now[name] for name in logs} == logs
        left += 1
        assert left < 100, "it takes more than that"
    assert {error.os_error for error in refused} == {errno.EMFILE}
    check_goes_on(new_log(**SETTINGS), list(range(RECORDS)), lambda: new_log(**SETTINGS))
