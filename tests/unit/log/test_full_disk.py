"""A full disk: what was acked stays, nothing dies, space makes it work again [DUR-30, DUR-57].

In processes of their own where a store into a mapped file without a block would be a SIGBUS.
"""

from __future__ import annotations

import contextlib
import errno
import json
import subprocess
import sys

import pytest

from segstore.errors import DiskFullError
from tests.kits.log_kit import TIME, bases, offsets, singleton, values
from tests.kits.peer_kit import Peer

ONE = [(TIME, b"key", b"x" * 900)]
AT_ONCE = {"file_delete_delay_ms": 0, "retention_ms": None}
DURABILITIES = ["none", "messages=3", "seconds=0.05", "sync"]


def append_many(log) -> None:
    for number in range(5000):
        log.append([(TIME + number, b"%d" % number, b"x" * 900)])


def append_until_full(log) -> int:
    """Append one record after the other; returns how many were acked."""
    with pytest.raises(DiskFullError) as caught:
        append_many(log)
    assert caught.value.os_error == errno.ENOSPC
    assert caught.value.file.startswith(log.path)
    return log.log_end_offset


def keys(log) -> list[int]:
    return [int(record.key) for record in log]


@pytest.mark.parametrize("durability", DURABILITIES)
@pytest.mark.parametrize("segment_bytes", [10**9, 20_000])
def test_the_append_fails_and_the_log_goes_on(new_log, small_disk, durability, segment_bytes):
    """[DUR-30, DUR-32] rejected, nothing half-written; reads go on; space makes it work again."""
    small_disk.fill(leave=150_000)
    path = small_disk.path / "topic-0"
    log = new_log(path, durability=durability, internal_segment_bytes=segment_bytes)
    acked = append_until_full(log)
    assert acked > 20
    for _ in range(3):
        with pytest.raises(DiskFullError):
            log.append(ONE * 100)
    assert log.log_end_offset == acked
    assert keys(log) == list(range(acked))
    assert log.verify().ok, str(log.verify())
    assert log.stats()["read_only"] is False

    small_disk.free()
    assert log.append([(TIME, b"%d" % acked, b"again")]).base_offset == acked
    log.flush()
    log.close()
    again = new_log(path)
    assert again.report.clean
    assert keys(again) == list(range(acked + 1))


@pytest.mark.parametrize("durability", DURABILITIES)
def test_a_close_without_space(new_log, small_disk, durability):
    """[DUR-24] it may fail, but lets go; with space again everything acked is there."""
    path = small_disk.path / "topic-0"
    small_disk.fill(leave=100_000)
    log = new_log(path, durability=durability, internal_segment_bytes=20_000)
    acked = append_until_full(log)
    small_disk.fill()
    with contextlib.suppress(DiskFullError):
        log.close()
    assert log.closed

    reader = new_log(path, read_only=True)  # [DUR-57, DUR-71] reading needs no space
    assert keys(reader) == list(range(acked))
    reader.close()
    small_disk.free()
    again = new_log(path)
    assert keys(again) == list(range(acked))
    assert again.append([(TIME, b"%d" % acked, b"")]).base_offset == acked


def test_an_open_without_space_keeps_everything(new_log, small_disk):
    """[DUR-57] it may be refused, again and again; nothing is cut, and with space it works."""
    path = small_disk.path / "topic-0"
    log = new_log(path, internal_segment_bytes=20_000)
    for number in range(100):
        log.append([(TIME, b"%d" % number, b"x" * 900)])
    log.close_quietly()
    logs = {file.name: file.read_bytes() for file in path.glob("*.log")}
    small_disk.fill()
    for _ in range(3):
        with contextlib.suppress(DiskFullError):
            new_log(path).close_quietly()
        now = {file.name: file.read_bytes() for file in path.glob("*.log")}
        assert all(now[name] == content for name, content in logs.items())
        reader = new_log(path, read_only=True)
        assert keys(reader) == list(range(100))
        reader.close()
    small_disk.free()
    again = new_log(path)
    assert keys(again) == list(range(100))
    assert again.verify().ok


def test_making_a_log_without_space(new_log, small_disk):
    """[DUR-30] refused; later it works."""
    small_disk.fill()
    path = small_disk.path / "topic-0"
    with pytest.raises(DiskFullError) as caught:
        new_log(path)
    assert str(small_disk.path) in caught.value.file
    small_disk.free()
    assert new_log(path).append(ONE).base_offset == 0


@pytest.mark.parametrize("operation", ["truncate_to", "truncate_fully_and_start_at"])
def test_making_a_log_shorter_without_space(new_log, small_disk, operation):
    """[DUR-30, DUR-5] done, or refused with the log as it was and writable later."""
    path = small_disk.path / "topic-0"
    log = new_log(path, internal_segment_bytes=20_000, file_delete_delay_ms=0)
    for number in range(100):
        log.append([(TIME, b"%d" % number, b"x" * 900)])
    log.flush()
    small_disk.fill()
    with pytest.raises(DiskFullError):
        getattr(log, operation)(50)
    assert offsets(log) == list(range(100))
    small_disk.free()
    getattr(log, operation)(50)
    kept = list(range(50)) if operation == "truncate_to" else list(range(50, 100))
    if operation == "truncate_fully_and_start_at":
        kept = []
    assert offsets(log) == kept
    log.append([(TIME, b"", b"goes on")])
    log.close()
    assert values(new_log(path))[-1] == b"goes on"


@pytest.fixture
def filled(new_log, small_disk):
    """A log of five segments, 20 records each, on a disk without a free block."""
    log = new_log(small_disk.path / "topic-0", internal_segment_bytes=20_000, **AT_ONCE)
    for number in range(100):
        log.append([(TIME + number, b"%d" % number, b"x" * 900)])
    assert log._background.wait_until_idle()  # sealed segments are synced
    assert bases(log) == [0, 20, 40, 60, 80]
    log.flush()
    small_disk.fill()
    return log


def check_goes_on(log, new_log, first: int) -> None:
    """What was deleted has made room, and stays deleted."""
    assert keys(log) == list(range(first, 100))
    assert log._background.wait_until_idle()
    assert log.append([(TIME, b"100", b"x" * 900)]).base_offset == 100
    log.close()
    again = new_log(log.path)
    assert again.report.clean
    assert again.log_start_offset == first
    assert keys(again) == list(range(first, 101))
    assert again.verify().ok, str(again.verify())


@pytest.mark.parametrize("offset", [20, 50, 99])
def test_records_are_deleted_without_space(filled, new_log, offset):
    """[DUR-19, DUR-30] the log start is durable first; what goes anyway makes room for it."""
    assert filled.delete_records(offset) == offset
    assert filled.log_start_offset == offset
    assert bases(filled)[0] == offset // 20 * 20
    check_goes_on(filled, new_log, offset)


def test_retention_without_space(filled, new_log):
    """[DUR-19, RET-6] the oldest segments go."""
    filled.update_config(filled.config.with_changes(retention_bytes=45_000))
    assert len(filled.delete_old_segments()) == 2
    assert bases(filled) == [40, 60, 80]
    check_goes_on(filled, new_log, 40)


@pytest.mark.parametrize("can_roll", [False, True])
def test_retention_of_all_without_space(filled, new_log, monkeypatch, can_roll):
    """[DUR-19, RET-4] where there is no room for another segment, the active one stays."""
    if not can_roll:
        monkeypatch.setattr(filled._local_log, "roll", full)
    filled.update_config(filled.config.with_changes(retention_ms=1))
    assert len(filled.delete_old_segments()) == (5 if can_roll else 4)
    monkeypatch.undo()
    assert bases(filled) == ([100] if can_roll else [80])
    check_goes_on(filled, new_log, 100 if can_roll else 80)


def full(*_: object, **__: object) -> None:
    raise DiskFullError("cannot write", os_error=errno.ENOSPC)


def test_deleting_less_than_a_segment_without_space(filled, small_disk):
    """[DUR-30] nothing goes that could make room: refused, the log as it was, and later done."""
    with pytest.raises(DiskFullError):
        filled.delete_records(10)
    assert keys(filled) == list(range(100))
    small_disk.free()
    assert filled.delete_records(10) == 10
    assert keys(filled) == list(range(10, 100))


@pytest.mark.parametrize("ends", ["close", "close_quietly"])
def test_room_that_somebody_else_takes(filled, new_log, small_disk, monkeypatch, ends):
    """[DUR-8, DUR-30] indexes were given up in vain: reads go on, and they are made anew."""
    monkeypatch.setattr(filled._checkpoint_store, "write_log_start", full)
    for _ in range(2):
        with pytest.raises(DiskFullError):
            filled.delete_records(50)
    monkeypatch.undo()
    assert keys(filled) == list(range(100))
    assert [record.offset for record in filled.read(33)][:1] == [33]
    assert filled.offset_for_timestamp(TIME + 33) == 33
    small_disk.free()
    getattr(filled, ends)()
    again = new_log(filled.path)
    assert keys(again) == list(range(100))
    assert again.verify().ok, str(again.verify())
    assert again.offset_for_timestamp(TIME + 33) == 33


def test_a_new_epoch_without_space(new_log, small_disk):
    """[DUR-12] refused; the next try writes its start before the batch is acked."""
    path = small_disk.path / "topic-0"
    log = new_log(path)
    log.append_as_leader(singleton(), leader_epoch=1)
    small_disk.fill()
    for _ in range(2):
        with pytest.raises(DiskFullError):
            log.append_as_leader(singleton(), leader_epoch=2)
    small_disk.free()
    log.append_as_leader(singleton(), leader_epoch=2)
    assert (path / "leader-epoch-checkpoint").read_text() == "0\n2\n1 0\n2 1\n"
    log.close_quietly()
    again = new_log(path)
    assert again.append(ONE).base_offset == 2
    assert again.stats()["latest_leader_epoch"] == 2


SCRIPT = """
import json, os, sys
import segstore
path, settings = sys.argv[1], json.loads(sys.argv[2])
acked, refused, number = [], 0, 0
log = segstore.open(path, durability="none", segment_ms=None, **settings)
while refused < 400:
    try:
        log.append([(1_700_000_000_000 + number, b"%d" % number, b"x" * 40)])
        acked.append(number)
    except segstore.DiskFullError:
        refused += 1
    if number % 50 == 0:
        try:
            log.roll()
        except segstore.DiskFullError:
            refused += 1
    number += 1
found = [int(record.key) for record in log]
by_time = log.offset_for_timestamp(1_700_000_000_000)
print(json.dumps([acked == found, len(acked), by_time, str(log.verify())]))
os.unlink(os.path.join(os.path.dirname(path), "ballast"))
for number in range(number, number + 50):
    log.append([(None, b"%d" % number, b"")])
    acked.append(number)
log.close()
with segstore.open(path) as log:
    print(json.dumps([acked == [int(record.key) for record in log], log.report.clean]))
"""


@pytest.mark.parametrize(
    "settings",
    [
        {"index_interval_bytes": 0},
        {"index_interval_bytes": 0, "internal_segment_bytes": 3000},
        {"index_interval_bytes": 0, "preallocate": True, "internal_segment_bytes": 8192},
    ],
    ids=["indexes that grow", "rolls", "preallocated"],
)
@pytest.mark.parametrize("leave", [60_000, 200_000])
def test_no_mapped_file_kills_the_process(small_disk, settings, leave):
    """[DUR-25, DUR-30] a full disk while a segment rolls and an index grows."""
    small_disk.fill(leave=leave)
    command = [sys.executable, "-c", SCRIPT, str(small_disk.path / "topic-0"), json.dumps(settings)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert ran.returncode == 0, ran.stderr  # -7 would be SIGBUS
    (same, count, by_time, verified), (same_again, clean) = map(json.loads, ran.stdout.splitlines())
    assert (same, same_again, clean) == (True, True, True)
    assert count > 50
    assert by_time == 0
    assert "all good" in verified, verified


def test_no_store_needs_a_block_where_a_page_has_several(disk_of_small_blocks):
    """[DUR-25] Kafka's sparse index gets the blocks of whole pages: there is a SIGBUS in a hole."""
    with Peer() as writer:
        writer.do(
            "log = segstore.open({path}, recovery='kafka', durability='none', preallocate=True,"
            " segment_bytes=4 << 20, index_interval_bytes=1); record = [(1, None, b'v')]",
            path=disk_of_small_blocks.path / "topic-0",
        )
        writer.do("for _ in range(10): log.append(record)")
        disk_of_small_blocks.fill_block_by_block()
        writer.do("for _ in range(10_000): log.append(record)")
        assert writer.ask("log.log_end_offset") == 10_010
        disk_of_small_blocks.free()
        writer.do("log.close()")
