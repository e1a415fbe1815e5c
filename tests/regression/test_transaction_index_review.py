"""Notes of transaction indexes that hung the first change, got lost, or kept a log from opening.

The first change of a log behind an unclean stop writes the recovery point under the append lock,
and waited for that lock when a reader had used an index that nobody had noted. A full disk at the
wrong moment was enough for notes that were never written. And an index that was lost and could not
be made anew, for want of space or for a marker that no reader understands, stopped the open.
"""

from __future__ import annotations

import errno
import struct
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore._core import Directory, crc32c
from segstore.errors import CorruptLogError, DiskFullError
from segstore.log.directory.checkpoints import DAMAGED_TRANSACTION_INDEX, LogState
from segstore.log.directory.log_state_file import LogStateFile
from tests.conformance.transactions_kit import ABORT, Producer, write
from tests.crash.crash_check import Crash
from tests.crash.crash_model import Operation
from tests.crash.crash_script import PATH, Settings, run_script

if TYPE_CHECKING:
    from pathlib import Path

    from segstore import UnifiedLog

SETTINGS = {"segment_ms": None, "durability": "none"}
INDEX = f"{0:020d}.txnindex"


def committed(log: UnifiedLog) -> list[int]:
    return [record.offset for record in log.scan(isolation="read_committed")]


def abort_one(log: UnifiedLog, producer_id: int = 1) -> None:
    """Append two records of a transaction and its marker."""
    aborting = Producer(log, producer_id)
    aborting.write(2)
    aborting.end(ABORT)


# ---- the first change behind an unclean stop -----------------------------------------------------

CHANGES = {
    "append": "log.append([(None, b'x')])",
    "flush": "log.flush()",
    "roll": "log.roll()",
    "close": "log.close()",
}
FIRST_CHANGE = """
import sys, segstore
log = segstore.open(sys.argv[1], segment_ms=None, durability="none")
assert log.durable_offset < log.log_end_offset  # a tail that the first change writes again
assert [record.offset for record in log.read(0, 10_000, "read_committed")] == []
exec(sys.argv[2])
print("changed")
log.close()
"""


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("index_is", ["damaged", "unnoted"])
def test_the_first_change_waits_for_nobody(tmp_path: Path, index_is: str, change: str):
    """[DUR-8, DUR-36] What a reader found out is noted by who holds the append lock."""
    path = tmp_path / "orders-0"
    log = segstore.open(path, **SETTINGS)
    abort_one(log)
    log.roll()
    write(log, 2)
    log.roll()
    write(log, 1)
    log.flush()
    write(log, 3)
    log.close_quietly()
    index = path / INDEX
    whole = index.read_bytes()
    if index_is == "damaged":
        index.write_bytes(whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:])
    else:
        (path / ".segstore").unlink()

    command = [sys.executable, "-c", FIRST_CHANGE, str(path), CHANGES[change]]
    ended = subprocess.run(command, timeout=30, capture_output=True, text=True, check=False)
    assert (ended.stdout, ended.returncode) == ("changed\n", 0), ended.stderr
    with segstore.open(path, **SETTINGS) as log:
        assert (INDEX in log.report.rebuilt) == (index_is == "damaged")
        assert committed(log)[:6] == [3, 4, 5, 6, 7, 8]
    assert index.read_bytes() == whole


# ---- notes and a full disk -----------------------------------------------------------------------


def test_notes_that_found_no_room_are_written_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """[DUR-8, DUR-31] They were taken for written: a lost index had no aborted transactions."""
    real, failures = LogStateFile._write, []

    def write_state(self: LogStateFile, state: LogState) -> None:
        if state.transaction_indexes and not failures:
            failures.append(state)
            raise DiskFullError("no space left")
        real(self, state)

    monkeypatch.setattr(LogStateFile, "_write", write_state)
    path = tmp_path / "orders-0"
    with segstore.open(path, **SETTINGS) as log:
        abort_one(log)
        log.roll()
        write(log, 2)
        log._background.wait_until_idle()
        assert len(failures) == 1
    state = LogState.parse((path / ".segstore").read_bytes())
    assert state is not None
    assert set(state.transaction_indexes) == {0}
    (path / INDEX).unlink()
    with segstore.open(path, **SETTINGS) as log:
        assert INDEX in log.report.rebuilt
        assert committed(log) == [3, 4]


# ---- an index that cannot be made anew -----------------------------------------------------------


def test_a_lost_index_and_a_full_disk():
    """[DUR-7, DUR-31, DUR-52] The log opens as it would with its index; the batches are asked."""
    settings = Settings("none", segment_bytes=100_000)
    script = [Operation("transactional", 1), Operation("abort", 1), Operation("roll")]
    script += [Operation("append", 2), Operation("close")]
    written = run_script(script, settings).disk
    disk = Crash(written.effects, "kept").image(written)
    directory = Directory(PATH, disk)
    (index,) = [name for name in directory.names() if name.endswith(".txnindex")]
    directory.unlink(index)

    disk.fail("write_at", 1, errno.ENOSPC, for_ever=True)
    log = settings.open(disk)
    assert any(index in warning for warning in log.report.warnings)
    there = committed(log)
    log.close_quietly()
    disk.fail("write_at", 0, 0)  # there is room again
    log = settings.open(disk)
    assert index in directory.names()
    assert committed(log) == there
    assert there
    log.close()


def test_a_lost_index_and_a_marker_that_nobody_can_read(tmp_path: Path):
    """[DUR-7, DUR-51, DUR-52] Its checksum is right, the version of its key is not."""
    path = tmp_path / "orders-0"
    with segstore.open(path, **SETTINGS) as log:
        abort_one(log, 1)
        abort_one(log, 2)
        log.roll()
        write(log, 2)
    spoil_last_marker(path / f"{0:020d}.log")
    (path / INDEX).unlink()

    with segstore.open(path, **SETTINGS) as log:
        assert any(INDEX in warning for warning in log.report.warnings)
        with pytest.raises(CorruptLogError):
            committed(log)
        write(log)
    state = LogState.parse((path / ".segstore").read_bytes())
    assert state is not None
    assert state.transaction_indexes[0] == DAMAGED_TRANSACTION_INDEX
    with segstore.open(path, **SETTINGS) as log:
        assert log.log_end_offset == 9


def spoil_last_marker(file: Path) -> None:
    """Give the key of the last control record the version -1."""
    data, markers, position = bytearray(file.read_bytes()), [], 0
    while position < len(data):
        (length,) = struct.unpack_from(">i", data, position + 8)
        (attributes,) = struct.unpack_from(">h", data, position + 21)
        if attributes & 0x20:
            markers.append((position, position + 12 + length))
        position += 12 + length
    start, end = markers[-1]
    data[start + 66 : start + 68] = b"\xff\xff"
    struct.pack_into(">I", data, start + 17, crc32c(bytes(data[start + 21 : end])))
    file.write_bytes(data)


# ---- a save that runs while a change begins ------------------------------------------------------


def test_a_save_that_runs_puts_no_stale_note_back(tmp_path: Path, monkeypatch):
    """[DUR-8, DUR-71] the change waits: its decision and what the save writes are one order."""
    log = segstore.open(tmp_path / "topic-0", **SETTINGS)
    abort_one(log)
    monkeypatch.setattr(log._background, "submit", lambda *_: None)
    log.roll()
    log.append([(None, b"v")])
    has_copied, may_write = threading.Event(), threading.Event()
    real = LogStateFile.change

    def change(state_file, **changes):
        if 0 in changes.get("transaction_indexes", ()):
            has_copied.set()
            assert may_write.wait(20)
        real(state_file, **changes)

    monkeypatch.setattr(LogStateFile, "change", change)
    saving = threading.Thread(
        target=lambda: log._local_log.note_transaction_indexes(log._append_lock, active_too=False)
    )
    saving.start()
    assert has_copied.wait(20)
    cutting = threading.Thread(target=lambda: log.truncate_to(2))
    cutting.start()
    cutting.join(0.3)
    may_write.set()
    for thread in (saving, cutting):
        thread.join()
    assert log.log_end_offset == 2
    assert 0 not in log._state_file.state.transaction_indexes
    log.close()
