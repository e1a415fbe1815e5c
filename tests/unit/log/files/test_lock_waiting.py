"""Waiting for the lock of another writer: ``lock_timeout=`` and ``--wait`` [DUR-65, DUR-67]."""

from __future__ import annotations

import math
import signal
import threading
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore.cli import main
from segstore.errors import ArgumentTypeError, IllegalArgumentError, LogLockedError
from segstore.log.files.lock_waiting import waiting_for_lock
from tests.kits.lock_kit import writer_elsewhere

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SHORT = 0.05
LONG = 60.0


@pytest.fixture
def free_later() -> Callable[[Callable[[], object]], None]:
    """Call something a little later, in another thread."""
    timers: list[threading.Timer] = []

    def later(call: Callable[[], object]) -> None:
        timers.append(threading.Timer(SHORT, call))
        timers[-1].start()

    yield later
    for timer in timers:
        timer.join()


def test_a_lock_that_stays_is_waited_for_so_long(monkeypatch):
    """[DUR-65] The pauses grow to 100 ms, the last try ends the time, and the text says it."""
    now, pauses, tries = 0.0, [], []

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds
        pauses.append(round(1000 * seconds))

    def refused() -> None:
        tries.append(round(1000 * now))
        raise LogLockedError("another process has the log open")

    clock = SimpleNamespace(monotonic_ns=lambda: round(now * 1e9))
    monkeypatch.setattr("segstore.log.files.lock_waiting._core", clock)
    monkeypatch.setattr("segstore.log.files.lock_waiting.time", SimpleNamespace(sleep=sleep))
    with pytest.raises(LogLockedError, match=r"open; it was not free within 0\.4 seconds"):
        waiting_for_lock(0.4, refused)
    assert pauses == [1, 2, 4, 8, 16, 32, 64, 100, 100, 73]
    assert tries[-1] == 400


@pytest.mark.parametrize("timeout", [None, 0])
def test_without_a_time_there_is_one_try(tmp_path: Path, timeout: float | None):
    """[DUR-65] As before."""
    with segstore.open(tmp_path / "orders-0"):
        began = time.monotonic()
        with pytest.raises(LogLockedError) as caught:
            segstore.open(tmp_path / "orders-0", lock_timeout=timeout)
        assert "seconds" not in str(caught.value)
        assert time.monotonic() - began < 5


def test_times_that_are_none(tmp_path: Path):
    """Nothing is opened, or made."""
    for wrong in (-1, math.nan):
        with pytest.raises(IllegalArgumentError, match="lock_timeout must be 0 or more"):
            segstore.open(tmp_path / "orders-0", lock_timeout=wrong)
    with pytest.raises(ArgumentTypeError, match="lock_timeout must be a number of seconds"):
        segstore.open_dir(tmp_path / "data", lock_timeout="1")
    assert not [*tmp_path.iterdir()]


def test_a_log_of_another_process(tmp_path: Path, free_later):
    """[DUR-65] The open comes back when the other one has ended; the wait holds nothing."""
    with writer_elsewhere(tmp_path / "orders-0") as other:
        with pytest.raises(LogLockedError, match=r"within 0\.05 seconds"):
            segstore.open(tmp_path / "orders-0", lock_timeout=SHORT)
        free_later(other.kill)
        segstore.open(tmp_path / "orders-0", lock_timeout=LONG).close()


def test_a_log_of_another_thread(tmp_path: Path, free_later):
    """[DUR-67] The register of this process is waited for too."""
    log = segstore.open(tmp_path / "orders-0")
    free_later(log.close)
    with segstore.open(tmp_path / "orders-0", lock_timeout=LONG) as again:
        again.append([(None, b"v")])


def test_two_that_wait_both_get_it(tmp_path: Path):
    """[DUR-65] A try that fails keeps nothing: neither of them keeps the other out."""
    log = segstore.open(tmp_path / "orders-0")

    def write() -> None:
        with segstore.open(tmp_path / "orders-0", lock_timeout=LONG) as mine:
            mine.append([(None, b"v")])

    threads = [threading.Thread(target=write) for _ in range(3)]
    for thread in threads:
        thread.start()
    time.sleep(SHORT)
    log.close()
    for thread in threads:
        thread.join(LONG)
    with segstore.open(tmp_path / "orders-0", read_only=True) as read:
        assert read.log_end_offset == 3


def test_directories_of_another_manager(tmp_path: Path, free_later):
    """[DUR-65] Of several, those that were free are given back while one is waited for."""
    paths = [tmp_path / "a", tmp_path / "b"]
    other = segstore.open_dir(paths[1])
    with pytest.raises(LogLockedError, match=r"b/\.lock.*within 0\.05 seconds"):
        segstore.open_dir(paths, lock_timeout=SHORT)
    segstore.open_dir(paths[0]).close()
    free_later(other.close)
    with segstore.open_dir(paths, lock_timeout=LONG) as logs:
        assert not logs.offline_directories()


def test_a_directory_deleted_by_the_one_that_had_it(tmp_path: Path, free_later):
    """[DUR-65] What is opened is the path as it is then, not the directory of the first look."""
    logs = segstore.open_dir(tmp_path)
    logs.create_topic("orders")
    logs.append("orders", [(None, b"old")])

    def leave() -> None:
        logs.delete_topic("orders")
        logs.close()

    free_later(leave)
    with segstore.open(tmp_path / "orders-0", lock_timeout=LONG) as log:
        assert log.log_end_offset == 0
        assert (tmp_path / "orders-0").exists()


def test_a_signal_interrupts_the_wait(tmp_path: Path):
    """What its handler raises comes out; no lock is left."""

    def stop(*_: object) -> None:
        raise InterruptedError("enough")

    log = segstore.open(tmp_path / "orders-0")
    before = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, SHORT)
        with pytest.raises(InterruptedError, match="enough"):
            segstore.open(tmp_path / "orders-0", lock_timeout=LONG)
    finally:
        signal.signal(signal.SIGALRM, before)
    log.close()
    segstore.open(tmp_path / "orders-0").close()


COMMANDS = [
    ["append", "-q", "{log}"],
    ["append", "-q", "{dir}", "-t", "orders"],
    ["recover", "-q", "{log}"],
    ["recover", "-q", "{dir}"],
    ["retain", "{dir}"],
    ["compact", "-q", "{log}"],
    ["maintain", "--once", "{dir}"],
    ["topics", "create", "-q", "{dir}", "more"],
    ["topics", "alter", "-q", "{dir}", "orders", "--partitions", "2"],
    ["topics", "delete", "{dir}", "orders"],
    ["move", "-q", "{log}", "{dir}/../other"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda one: "-".join(one[:2]))
def test_commands_that_write(command: list[str], tmp_path: Path, capsys, monkeypatch, free_later):
    """``--wait`` of each command that opens for writing; the error says how long it waited."""
    directory = tmp_path / "data"
    logs = segstore.open_dir(directory)
    logs.create_topic("orders")
    words = [word.format(dir=directory, log=directory / "orders-0") for word in command]
    with (tmp_path / "nothing").open("w+") as nothing:
        monkeypatch.setattr("sys.stdin", nothing)
        main([*words, "--wait", str(SHORT)])
        assert f"within {SHORT:g} seconds" in capsys.readouterr().err
        free_later(logs.close)
        assert main([*words, "--wait", str(LONG)]) == 0, capsys.readouterr().err


def test_the_command_that_aborts_transactions(capsys):
    """``--wait`` of ``abort-transaction``."""
    assert main(["abort-transaction", "--help"]) == 0
    assert "--wait SECONDS" in capsys.readouterr().out
