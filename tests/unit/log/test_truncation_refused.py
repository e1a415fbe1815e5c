"""Truncations and deletions of a log that takes no changes: refused, and nothing is done [DUR-38].

An error ends all writing at any time: also while a call waits for the append lock.
"""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from segstore.errors import ClosedError, FsyncFailedError, LogReadOnlyError
from tests.kits.log_kit import PATIENCE_SECONDS, offsets

SHORTENERS = {
    "truncate_to": lambda log: log.truncate_to(2),
    "truncate_to behind the end": lambda log: log.truncate_to(4),
    "truncate_fully_and_start_at": lambda log: log.truncate_fully_and_start_at(2),
    "delete_records": lambda log: log.delete_records(2),
}
BAD_ARGUMENTS = {
    "truncate_to": lambda log: log.truncate_to(-1),
    "truncate_fully_and_start_at": lambda log: log.truncate_fully_and_start_at(-1),
    "delete_records": lambda log: log.delete_records("2"),
}


def named(cases):
    return pytest.mark.parametrize("call", cases.values(), ids=cases)


@pytest.fixture
def log(new_log):
    made = new_log()
    for number in range(4):
        made.append([(None, b"%d" % number)])
    return made


def files(log) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(log.path).iterdir()}


@named(SHORTENERS)
def test_an_error_while_a_call_waits_for_the_lock_ends_it_too(log, call):
    """[DUR-35, DUR-38] It began before; it changes nothing after."""
    raised: list[BaseException] = []

    def shorten():
        try:
            call(log)
        except LogReadOnlyError as error:
            raised.append(error)

    before = files(log)
    thread = threading.Thread(target=shorten)
    with log._append_lock:
        thread.start()
        thread.join(0.1)
        assert thread.is_alive()
        log._failure_mark.poison(FsyncFailedError("cannot sync the segment"))
    thread.join(PATIENCE_SECONDS)

    assert not thread.is_alive()
    assert [str(error.__cause__) for error in raised] == ["cannot sync the segment"]
    assert offsets(log) == [0, 1, 2, 3]
    assert files(log) == before


@named(SHORTENERS)
def test_who_may_not_change_the_log_waits_for_nobody(log, new_log, call):
    """[DUR-38, DUR-71] A closed log, and a reader, say so at once, whoever holds the lock."""
    log.close()
    reader = new_log(read_only=True)
    for refused, error in ((log, ClosedError), (reader, LogReadOnlyError)):
        with refused._append_lock, pytest.raises(error):
            call(refused)


@named(BAD_ARGUMENTS)
def test_that_the_log_is_closed_comes_before_what_was_asked(log, call):
    """[DUR-38] OPEN, READ-ONLY, CLOSED: the state is told first."""
    log.close()
    with pytest.raises(ClosedError):
        call(log)
