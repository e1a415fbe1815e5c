"""Control-C in an append that waited for its sync left records in the file that the log denied.

The next append came behind them: a record that was sent again was there twice, and a truncation to
the log end, which said that there was nothing, brought them back.
"""

from __future__ import annotations

import shutil
import signal
import threading

import pytest

import segstore
from segstore._core import BatchOptions, encode_records
from segstore.errors import LogReadOnlyError, WriteError
from segstore.log.log_dir_failure_channel import LogDirFailureChannel
from segstore.records.compression import codec_table
from tests.kits.memory_folder import memory_folder

ROUNDS = 150
PATIENCE_SECONDS = 20
NOW_MS = 1_700_000_000_000


class InterruptedAppend(Exception):  # noqa: N818 - no error
    """Raised by the handler, as KeyboardInterrupt is."""


@pytest.fixture
def memory_path():
    path = memory_folder("interrupted-")
    yield path
    shutil.rmtree(path)


@pytest.fixture
def alarms():
    """Raise in the main thread after a while: ``alarms(seconds)``; 0 = not any more."""

    def interrupt(*_):
        raise InterruptedAppend

    before = signal.signal(signal.SIGALRM, interrupt)
    yield lambda seconds: signal.setitimer(signal.ITIMER_REAL, seconds)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("beside", [0, 2], ids=["alone", "beside other threads"])
def test_what_an_interrupted_append_wrote_is_in_the_log(memory_path, alarms, beside):
    """[CON-4, DUR-5] The log end says whether it was written, and the next append begins there."""
    log = segstore.open(memory_path / "t-0", durability="sync")
    log.append([(b"k", b"first")])
    is_over = threading.Event()

    def write():
        while not is_over.is_set():
            log.append([(b"other", b"v")])

    threads = [threading.Thread(target=write) for _ in range(beside)]
    for thread in threads:
        thread.start()
    interrupts = 0
    try:
        for number in range(ROUNDS):
            try:
                alarms(20e-6 + (number % 40) * 4e-6)
                for _ in range(50):
                    log.append([(b"k", b"v%d" % number)])
                alarms(0)
            except InterruptedAppend:
                alarms(0)
                interrupts += 1
                assert log._lane_switch.lane is not None
                if not beside:
                    seen = log.log_end_offset
                    assert not log.truncate_to(seen)
                    assert log.append([(b"k", b"again")]).base_offset == seen
    finally:
        alarms(0)
        is_over.set()
        for thread in threads:
            thread.join()
    assert interrupts > 0
    assert log.flush() == log.log_end_offset
    assert [record.offset for record in log] == list(range(log.log_end_offset))
    assert log.verify().ok
    log.close()


def test_a_handler_that_uses_the_log_in_its_own_round_is_told(memory_path, monkeypatch):
    """[DUR-70] It would wait for itself. Nothing was changed: the log goes on, and closes."""
    log = segstore.open(memory_path / "t-0", durability="sync")
    log.append([(None, b"x")])
    real, told = log._flusher._sync_segment, []
    uses = [log.flush, lambda: log.append([(None, b"inside")]), log.roll, log.close, log.delete]

    def sync_segment(segment, *, indexes):
        for use in uses:
            try:
                use()
            except RuntimeError as error:
                told.append(error)
        real(segment, indexes=indexes)

    with monkeypatch.context() as patched:
        patched.setattr(log._flusher, "_sync_segment", sync_segment)
        thread = threading.Thread(target=log.append, args=([(None, b"y")],), daemon=True)
        thread.start()
        thread.join(PATIENCE_SECONDS)  # one that waits for itself stays
        assert not thread.is_alive()
    assert len(told) == len(uses)
    assert log.append([(None, b"z")]).base_offset == 2
    log.close()
    with segstore.open(memory_path / "t-0") as again:
        assert again.report.clean
        assert [record.value for record in again] == [b"x", b"y", b"z"]


LOCKS = {
    "recovery point": lambda log: log._flusher._directory_sync.lock,
    "state": lambda log: log._metadata.state_file.lock,
    "checksum sidecar": lambda log: log._local_log.checksum_sidecars.lock,
    "producer snapshot": lambda log: log._producers.snapshots.sync_lock,
}
NEW_EPOCH = 5
CHANGES = {
    "append": lambda log: log.append([(None, b"inside")]),
    "append of a new epoch": lambda log: log.append_as_leader(one_batch(), NEW_EPOCH),
    "roll": lambda log: log.roll(),
    "flush": lambda log: log.flush(),
    "truncation": lambda log: log.truncate_to(4),
    "full truncation": lambda log: log.truncate_fully_and_start_at(20),
    "deletion": lambda log: log.delete_records(3),
    "sidecars": lambda log: log.write_checksum_sidecars(),
    "close": lambda log: log.close(),
    "delete": lambda log: log.delete(),
}


def one_batch():
    encoded = encode_records([(None, b"new")], BatchOptions(), codec_table(), NOW_MS, 10_000)
    return bytes(memoryview(encoded))


def bytes_of(path):
    return {file.name: file.read_bytes() for file in sorted(path.iterdir())}


@pytest.mark.parametrize("durability", ["none", "messages=1", "sync"])
@pytest.mark.parametrize("file", LOCKS)
def test_a_handler_that_changes_the_log_while_a_file_is_written_is_told(
    memory_path, file, durability
):
    """[DUR-70] Before anything changes, and so the log goes on.

    A flush wrote `.segstore` when a handler truncated: it waited for itself, under the append lock.
    """
    path = memory_path / "t-0"
    log = segstore.open(path, durability=durability)
    log.append([(None, b"x")] * 3)
    log.roll()
    log.append([(None, b"y")] * 3)
    log.flush()
    log._background.wait_until_idle()
    before, told = bytes_of(path), {}

    def handle():
        with LOCKS[file](log):
            for name, change in CHANGES.items():
                if durability == "none" and name == "append":
                    continue  # nobody waits behind it
                try:
                    change(log)
                except RuntimeError as error:
                    told[name] = (str(error), log.log_end_offset, bytes_of(path) == before)

    thread = threading.Thread(target=handle, daemon=True)
    thread.start()
    thread.join(PATIENCE_SECONDS)  # one that waits for itself stays
    assert not thread.is_alive()
    expected = (
        "this thread is writing a file of the log already: it would wait for itself for ever",
        6,
        True,
    )
    assert told == dict.fromkeys(
        [name for name in CHANGES if durability != "none" or name != "append"], expected
    )
    assert log.append_as_leader(one_batch(), NEW_EPOCH).base_offset == 6
    assert log.truncate_to(6)
    assert log.delete_records(3) == 3
    assert log.write_checksum_sidecars().problems == []
    log.close()
    with segstore.open(path) as again:
        assert again.report.clean
        assert [record.offset for record in again] == [3, 4, 5]


def test_a_handler_that_reports_a_failure_within_another_does_not_wait():
    """[DUR-70, LOC-27] And the directory is marked, once."""
    failures, first = LogDirFailureChannel(), WriteError("first")

    def handle():
        with failures._lock:
            failures.maybe_add_offline_log_dir("d", first)

    thread = threading.Thread(target=handle, daemon=True)
    thread.start()
    thread.join(PATIENCE_SECONDS)
    assert not thread.is_alive()
    assert failures.has_offline_log_dir("d")
    failures.maybe_add_offline_log_dir("d", WriteError("second"))
    with pytest.raises(LogReadOnlyError) as caught:
        failures.check("d")
    assert caught.value.__cause__ is first


def test_an_append_in_its_own_round_is_told_before_it_is_written(memory_path, monkeypatch):
    """[DUR-70] With a sync behind each so many records it was written, and called failed."""
    log = segstore.open(memory_path / "t-0", durability="messages=2")
    log.append([(None, b"x")])
    real, told = log._flusher._sync_segment, []

    def sync_segment(segment, *, indexes):
        with pytest.raises(RuntimeError):
            log.append([(None, b"inside")] * 3)
        told.append(log.log_end_offset)
        real(segment, indexes=indexes)

    with monkeypatch.context() as patched:
        patched.setattr(log._flusher, "_sync_segment", sync_segment)
        thread = threading.Thread(target=log.append, args=([(None, b"y")],), daemon=True)
        thread.start()
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()
    assert told == [2]
    assert [record.value for record in log] == [b"x", b"y"]
    assert log.append([(None, b"z")] * 3).base_offset == 2
    log.close()
