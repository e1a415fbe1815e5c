"""Transaction indexes that hung the first change, or kept a log from opening.

The first change of a log behind an unclean stop writes the recovery point under the append lock,
and waited for that lock when a reader had used a damaged index. And an index that was lost and
could not be made anew, for want of space or for a marker that no reader understands, stopped the
open. Now it is made anew when that is asked for, and nothing waits for it.
"""

from __future__ import annotations

import struct
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore._core import crc32c
from segstore.errors import (
    CorruptLogError,
    DiskFullError,
    FsyncFailedError,
    ResourceError,
    SegstoreError,
    WriteError,
)
from segstore.log.local import transaction_index_check
from tests.kits.transactions_kit import ABORT, Producer, write

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
@pytest.mark.parametrize("index_is", ["damaged", "of an unknown log"])
def test_the_first_change_waits_for_nobody(tmp_path: Path, index_is: str, change: str):
    """[DUR-8, DUR-36] What a reader found out keeps nobody waiting."""
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
        assert committed(log)[:6] == [3, 4, 5, 6, 7, 8]
        log.rebuild_transaction_indexes()
    assert index.read_bytes() == whole


# ---- an index that cannot be made anew -----------------------------------------------------------


@pytest.mark.parametrize("error", [DiskFullError, ResourceError, WriteError])
def test_a_lost_index_and_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[SegstoreError]
):
    """[DUR-7, DUR-22, DUR-31] The log stays in use, is closed cleanly, and can be asked again."""
    path = tmp_path / "orders-0"
    with segstore.open(path, **SETTINGS) as log:
        abort_one(log)
        log.roll()
        write(log, 2)
    index = path / INDEX
    whole = index.read_bytes()
    index.unlink()

    def refuse(*_arguments: object) -> None:
        raise error("no space left")

    with segstore.open(path, **SETTINGS) as log:
        with monkeypatch.context() as patched:
            patched.setattr(transaction_index_check, "write_index", refuse)
            with pytest.raises(error):
                log.rebuild_transaction_indexes()
        assert not index.exists()
        write(log)
        assert committed(log) == [3, 4, 5]
    with segstore.open(path, **SETTINGS) as log:
        assert log.report.clean
        assert log.rebuild_transaction_indexes() == [INDEX]
    assert index.read_bytes() == whole


def test_a_sync_of_a_new_index_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """[DUR-35] It ends writing, as any other; the records are those of the clean stop."""
    path = tmp_path / "orders-0"
    with segstore.open(path, **SETTINGS) as log:
        abort_one(log)
        log.roll()
    (path / INDEX).unlink()

    def fail(*_arguments: object) -> None:
        raise FsyncFailedError("cannot sync")

    log = segstore.open(path, **SETTINGS)
    with monkeypatch.context() as patched:
        patched.setattr(transaction_index_check, "write_index", fail)
        with pytest.raises(FsyncFailedError):
            log.rebuild_transaction_indexes()
    with pytest.raises(segstore.LogReadOnlyError):
        write(log)
    log.close_quietly()
    with segstore.open(path, **SETTINGS) as log:
        assert log.report.clean
        assert log.rebuild_transaction_indexes() == [INDEX]


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
        with pytest.raises(CorruptLogError):
            committed(log)
        assert log.rebuild_transaction_indexes() == []
        write(log)
    assert not (path / INDEX).exists()
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
