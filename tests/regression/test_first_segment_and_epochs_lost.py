"""A segment was lost, and the leader epochs with it: every tool said that all was well.

Epochs that were made anew of the batches that were left said that the log began there, or did not
fit ``.segstore`` any more, and then nothing of that counted: a hole that a crash had made was part
of the log. A broker that deletes or compacts, and appends nothing, leaves the same files: such a
log is told of, and can be read and written.
"""

from __future__ import annotations

import os
from contextlib import closing

import pytest

import segstore
from segstore import MemoryRecords
from segstore._core import Directory
from segstore.cli import main
from segstore.errors import CorruptLogError, ReadIOError
from segstore.log.files.checkpoints import (
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    LOG_STATE,
    LogState,
)
from segstore.log.local.segment import Segment
from segstore.types import EpochEntry
from tests.crash.barrier_scene import new_disk, open_log
from tests.crash.crash_script import PATH, START_MS, batches_in
from tests.crash.manual_scheduler import ManualScheduler
from tests.kits.directory_kit import RECOVERY_POINT, disk_with, name_of, records, recovery_point
from tests.kits.log_kit import at, message_of_magic_1

RECORDS = 14


def write(path, *, is_closed: bool, epoch: int = 0) -> list[str]:
    """Return the names of its segments."""
    log = segstore.open(path, internal_segment_bytes=450)
    for number in range(RECORDS):
        records = MemoryRecords.with_records([(None, b"record-%d" % number * 5)])
        log.append_as_leader(records, leader_epoch=epoch if number >= 9 else 0)
    assert log._background.wait_until_idle()  # the recovery point is where the last segment begins
    (log.close if is_closed else log.close_quietly)()
    names = sorted(file.name for file in path.glob("*.log"))
    assert [int(name[:20]) for name in names] == [0, 4, 8, 12]
    return names


def printed(capsys) -> str:
    return " ".join(capsys.readouterr().out.split())


LOSSES = [
    ((0,), 0, "records 0 to 3 are missing"),
    ((0,), 3, "records 0 to 3 are missing"),
    ((2,), 3, "records 8 to 11 are missing"),
    ((0, 2), 0, "records 0 to 3, 8 to 11 are missing"),
    ((0, 2), 3, "records 0 to 3, 8 to 11 are missing"),
]


@pytest.mark.parametrize("is_closed", [False, True])
@pytest.mark.parametrize("how", [os.remove, lambda file: os.truncate(file, 0)], ids=["rm", "empty"])
@pytest.mark.parametrize(("numbers", "epoch", "missing"), LOSSES)
def test_the_records_are_missed(tmp_path, numbers, epoch, missing, how, is_closed, capsys):  # noqa: PLR0913
    """[DUR-7, DUR-21, DUR-58] By verify, by readers, by what is salvaged, by the next open."""
    path = tmp_path / "o-0"
    names = write(path, is_closed=is_closed, epoch=epoch)
    for number in numbers:
        how(path / names[number])
    (path / LEADER_EPOCH_CHECKPOINT).unlink()
    lost = {offset for number in numbers for offset in range(number * 4, number * 4 + 4)}
    kept = [offset for offset in range(RECORDS) if offset not in lost]

    assert main(["verify", str(path)]) == 1
    verified = printed(capsys)
    assert all(f"{number * 4} to {number * 4 + 3}" in verified for number in numbers)
    if how is not os.remove and (numbers, epoch) == ((0,), 3):  # which no broker does
        with pytest.raises(CorruptLogError, match=missing):
            segstore.open(path)
        return
    assert main(["recover", "--dry-run", str(path)]) == 1
    assert missing in printed(capsys)
    with segstore.open(path, read_only=True) as log:
        assert missing in str(log.report.maybe_missing)
        assert missing in " ".join(log.report.warnings)
        assert log.report.rebuilt == [LEADER_EPOCH_CHECKPOINT]
        check_read(log, kept, is_proven=how is not os.remove)
    assert main(["salvage", str(path), str(tmp_path / "saved" / "o-0")]) == 1
    salvaged = printed(capsys)
    assert all(f"offsets {number * 4} to {number * 4 + 3}" in salvaged for number in numbers)
    assert main(["recover", str(path)]) == 1
    assert missing in printed(capsys)
    with segstore.open(path) as log:
        check_read(log, kept, is_proven=how is not os.remove)


def check_read(log, kept, *, is_proven):
    """An index names records that its empty ``.log`` has lost: a read does not pass them over."""
    if is_proven:
        with pytest.raises(CorruptLogError, match="missing"):
            list(log)
    else:
        assert [record.offset for record in log] == kept


def test_an_open_that_ends_early_tells_it(tmp_path):
    """[DUR-7] No later one does: what it may leave are epochs that fit."""
    path = tmp_path / "o-0"
    (path / write(path, is_closed=False)[0]).unlink()
    (path / LEADER_EPOCH_CHECKPOINT).unlink()

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as raised:
        segstore.open(path, progress=interrupted)
    assert "records 0 to 3 are missing" in " ".join(raised.value.__notes__)


@pytest.mark.parametrize("point", [None, 2], ids=["nothing synced", "synced to 2"])
def test_a_hole_of_a_crash_ends_the_log(point):
    """[DUR-2, DUR-8] Above the recovery point it is none of a broker's, with the epochs or not."""
    files = {
        LOG_STATE: LogState(0, 0, EpochEntry(3, 3), (EpochEntry(0, 0),)).format(),
        name_of(0): records(0, 2),
        name_of(2): b"",
        name_of(5): at(5, epoch=3) + at(6, epoch=3),
    }
    if point is not None:
        files[RECOVERY_POINT] = recovery_point(point)
    for epochs in ({LEADER_EPOCH_CHECKPOINT: b"0\n2\n0 0\n3 3\n"}, {}):
        with closing(open_log(disk_with(files | epochs))) as log:
            assert [record.offset for record in log] == [0, 1]
            assert log.log_end_offset == 2
            assert log.report.set_aside == [f"{5:020d}.quarantine-1"]
            assert log.report.maybe_missing is None


@pytest.mark.parametrize("point", [None, 2], ids=["no recovery point", "of 2"])
@pytest.mark.parametrize("is_in_one", [True, False], ids=["one segment", "two segments"])
@pytest.mark.parametrize(
    ("start", "truncated_to", "before"), [(2, 3, (EpochEntry(2, 4),)), (4, 6, ())]
)
def test_what_a_following_broker_fetched_stays(start, truncated_to, before, is_in_one, point):
    """[DUR-8, DUR-64] Of a compacted leader, instead of the latest epoch: it may have gaps."""
    kept = b"".join(at(offset, epoch=2 * (offset >= start)) for offset in range(truncated_to))
    gap_end = truncated_to + 2
    fetched = at(gap_end, epoch=2) + at(gap_end + 1, epoch=2)
    files = {LOG_STATE: LogState(0, 0, EpochEntry(3, 6), before).format()}
    files |= {name_of(0): kept + fetched} if is_in_one else {}
    files |= {} if is_in_one else {name_of(0): kept, name_of(gap_end): fetched}
    files |= {} if point is None else {RECOVERY_POINT: recovery_point(point)}
    for epochs in ({LEADER_EPOCH_CHECKPOINT: f"0\n2\n0 0\n2 {start}\n".encode()}, {}):
        with closing(open_log(disk_with(files | epochs))) as log:
            offsets = [record.offset for record in log]
            assert offsets == [*range(truncated_to), gap_end, gap_end + 1]
            assert log.report.set_aside == []


def written_by_two() -> dict[str, bytes]:
    """The files of a log of epochs 0 and 5 that was killed, and a broker followed epoch 3 in."""
    disk, scheduler = new_disk(), ManualScheduler()
    log = open_log(disk, scheduler=scheduler, checksum_sidecar=True)
    for offset in range(12):
        if offset == 6:
            log.roll()
            scheduler.run(3600)
        records = MemoryRecords.with_records([(START_MS, None, b"v" * 50)])
        log.append_as_leader(records, 5 * (offset >= 10))
    log.close_quietly()
    directory = Directory(PATH, disk)
    names = [name for name in directory.names() if name.endswith((".log", ".segsum", LOG_STATE))]
    files = {name: directory.read_file(name) for name in (*names, RECOVERY_POINT)}
    assert files[RECOVERY_POINT] == recovery_point(6)
    assert (LogState.parse(files[LOG_STATE]) or LogState(0, 0, None)).latest_epoch == (5, 10)
    return files


@pytest.mark.parametrize("is_in_one", [True, False], ids=["one segment", "two segments"])
@pytest.mark.parametrize("read_only", [True, False])
def test_what_a_broker_fetched_below_the_latest_epoch_stays(is_in_one, read_only):
    """[DUR-8, DUR-64] It ends at or below where the latest epoch began, as after a crash."""
    files = written_by_two()
    (_, kept), *_ = batches_in(files[name_of(6)])
    first = kept + at(7, epoch=3)
    files |= {name_of(6): first + at(9, epoch=3)} if is_in_one else {}
    files |= {} if is_in_one else {name_of(6): first, name_of(9): at(9, epoch=3)}
    for epochs in ({LEADER_EPOCH_CHECKPOINT: b"0\n2\n0 0\n3 7\n"}, {}):
        with closing(open_log(disk_with(files | epochs), read_only=read_only)) as log:
            assert [record.offset for record in log] == [*range(8), 9]
            assert (log.report.set_aside, log.report.quarantined) == ([], [])
            assert (log.report.damage, log.report.maybe_missing) == (None, None)


def test_a_gap_within_a_file_is_no_crash():
    """[DUR-8] Also where nothing tells which epoch came before the latest."""
    files = {
        LOG_STATE: LogState(0, 0, EpochEntry(3, 10)).format(),
        name_of(0): at(0) + at(1) + at(4) + at(5),
        RECOVERY_POINT: recovery_point(1),
    }
    for read_only in (True, False):
        with closing(open_log(disk_with(files), read_only=read_only)) as log:
            assert [record.offset for record in log] == [0, 1, 4, 5]
            assert (log.report.quarantined, log.report.damage) == ([], None)
            assert str(log.report.maybe_missing).startswith("records 2 to 3 are missing, unless")


@pytest.mark.parametrize("is_closed", [True, False])
def test_a_base_offset_that_jumped_is_told_of(tmp_path, is_closed, capsys):
    """[DUR-7] Of the only batch of the latest epoch: it looks like a compacted leader's."""
    path = tmp_path / "o-0"
    log = segstore.open(path)
    for offset in range(6):
        log.append_as_leader(MemoryRecords.with_records([(None, b"v")]), offset // 5)
    log.flush()
    (log.close if is_closed else log.close_quietly)()
    (path / LEADER_EPOCH_CHECKPOINT).unlink()
    data = bytearray((path / name_of(0)).read_bytes())
    data[len(data) // 6 * 5 + 7] ^= 8
    (path / name_of(0)).write_bytes(data)
    with segstore.open(path, read_only=True) as log:
        assert "records 5 to 12 are missing" in f"{log.report.maybe_missing} {log.report.damage}"
    assert main(["verify", str(path)]) == 1
    assert "records 5 to 12 are missing" in printed(capsys)


def test_a_sidecar_of_other_bytes_goes():
    """[DUR-60, DUR-64] Where the epochs were lost nobody knows whether others were here."""
    files = written_by_two()
    assert name_of(0, "segsum") in files
    (_, first), *_ = batches_in(files[name_of(0)])
    files[name_of(0)] = first + b"".join(at(offset, epoch=3) for offset in range(1, 6))
    files[name_of(6)] = at(6, epoch=3) + at(7, epoch=3)
    for epochs in ({LEADER_EPOCH_CHECKPOINT: b"0\n2\n0 0\n3 1\n"}, {}):
        with closing(open_log(disk_with(files | epochs))) as log:
            assert [record.offset for record in log] == [*range(8)]
            assert log.report.removed == [name_of(0, "segsum")]
            assert log.verify().ok


def test_a_reader_that_meets_a_bad_sector_goes_on(tmp_path, monkeypatch):
    """[DUR-33, DUR-51] What is missing cannot be told; a writer would never know, and stops."""
    path = tmp_path / "o-0"
    write(path, is_closed=True)
    (path / LEADER_EPOCH_CHECKPOINT).unlink()
    read_next_offset = Segment.read_next_offset

    def read(segment):
        if segment.base_offset == 4:
            raise ReadIOError("it cannot be read", file=segment.path)
        return read_next_offset(segment)

    monkeypatch.setattr(Segment, "read_next_offset", read)
    with segstore.open(path, read_only=True) as log:
        assert (log.log_start_offset, log.log_end_offset) == (0, RECORDS)
        assert [text for text in log.report.warnings if "it cannot be read" in text]
    with pytest.raises(ReadIOError):
        segstore.open(path)


def test_epochs_of_deleted_batches_are_none(tmp_path):
    """[DUR-8, EPC-4] What was deleted had epoch 3; behind it the log goes on in epoch 0."""
    path = tmp_path / "o-0"
    with segstore.open(path) as log:
        for _ in range(2):
            log.append_as_leader(MemoryRecords.with_records([(None, b"v")]), 3)
        log.delete_records(2)
    with segstore.open(path) as log:
        assert log.latest_epoch is None
        log.append_as_leader(MemoryRecords.with_records([(None, b"v")]), 0)
        log.close_quietly()
    (path / LEADER_EPOCH_CHECKPOINT).unlink()
    with segstore.open(path) as log:
        log.append_as_leader(MemoryRecords.with_records([(None, b"v")]), 1)
        assert ([record.offset for record in log], log.latest_epoch) == ([2, 3], 1)
    assert (path / LEADER_EPOCH_CHECKPOINT).read_text() == "0\n2\n0 2\n1 3\n"


def test_a_segment_behind_two_deletions_is_missed(tmp_path):
    """[DUR-7, EPC-6] They have moved where the epoch begins, into the first segment."""
    path = tmp_path / "o-0"
    names = write(path, is_closed=True)
    with segstore.open(path, internal_segment_bytes=450) as log:
        log.delete_records(1)
        log.delete_records(2)
    (path / names[2]).unlink()
    (path / LEADER_EPOCH_CHECKPOINT).unlink()
    with segstore.open(path, read_only=True) as log:
        assert "records 8 to 11 are missing" in str(log.report.damage)
    with pytest.raises(CorruptLogError, match="records 8 to 11 are missing"):
        segstore.open(path)


@pytest.mark.parametrize("epoch", [2, 5])
def test_a_hole_behind_messages_without_an_epoch_ends_the_log(epoch):
    """[DUR-2, DUR-8] Which have ended the epochs before them: the next one begins behind them."""
    begin = at(0, epoch=5) + message_of_magic_1(1) + at(2, epoch=epoch)
    files = {
        LOG_STATE: LogState(2, 2, EpochEntry(epoch, 2)).format(),
        name_of(0): begin,
        name_of(3): b"",
        name_of(4): at(4, epoch=epoch),
    }
    for epochs in ({LEADER_EPOCH_CHECKPOINT: f"0\n1\n{epoch} 2\n".encode()}, {}):
        with closing(open_log(disk_with(files | epochs))) as log:
            assert [record.offset for record in log] == [0, 1, 2]
            assert log.report.set_aside == [f"{4:020d}.quarantine-1"]


def test_messages_without_an_epoch_are_not_missed(tmp_path):
    """[DUR-8] The first epoch begins behind them, and elections brought later ones."""
    path = tmp_path / "o-0"
    with segstore.open(path) as log:
        log.append_as_follower(message_of_magic_1(0) + message_of_magic_1(1), 0)
        log.append_as_leader(MemoryRecords.with_records([(None, b"with an epoch")]), 0)
        log.assign_epoch_start_offset(1, 3)
        log.assign_epoch_start_offset(2, 3)
    (path / LEADER_EPOCH_CHECKPOINT).unlink()
    with segstore.open(path) as log:
        assert log.report.maybe_missing is None
        assert [record.offset for record in log] == [0, 1, 2]


@pytest.mark.parametrize(
    "lost", [[LEADER_EPOCH_CHECKPOINT], [LEADER_EPOCH_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT]]
)
@pytest.mark.parametrize("is_closed", [False, True])
def test_deleted_records_are_not_missed(tmp_path, lost, is_closed):
    """[DUR-8, DUR-19] As long as one file says so: a checkpoint, or the clean marker."""
    path = tmp_path / "o-0"
    first, *_ = write(path, is_closed=True)
    log = segstore.open(path, internal_segment_bytes=450)
    log.delete_records(4)
    assert not (path / first).exists()
    (log.close if is_closed else log.close_quietly)()
    for name in lost:
        (path / name).unlink(missing_ok=True)
    with segstore.open(path) as log:
        is_noted = is_closed or lost == [LEADER_EPOCH_CHECKPOINT]
        assert (log.report.maybe_missing is None) == is_noted
        assert log.log_end_offset == RECORDS
        assert [record.offset for record in log][-10:] == [*range(4, RECORDS)]


def test_a_later_epoch_is_a_brokers(tmp_path):
    """[DUR-64] Then nothing of .segstore holds."""
    path = tmp_path / "o-0"
    first, *_ = write(path, is_closed=False)
    state = (path / ".segstore").read_bytes()
    with segstore.open(path) as log:
        records = MemoryRecords.with_records([(None, b"a broker's")])
        log.append_as_leader(records, leader_epoch=1)
    (path / ".segstore").write_bytes(state)
    (path / first).unlink()
    (path / LEADER_EPOCH_CHECKPOINT).unlink()
    with segstore.open(path) as log:
        assert log.report.maybe_missing is None
        assert log.log_end_offset == RECORDS + 1
