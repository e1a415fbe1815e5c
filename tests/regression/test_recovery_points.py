"""Recovery points: of two places, lost, above a truncation; checkpoints that cannot be read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import segstore
from segstore import cli
from segstore._core import Directory
from segstore.errors import CorruptLogError, ResourceError
from segstore.log.check.partition_check import check_partition
from segstore.log.files import log_directory_checkpoints
from segstore.log.files.checkpoints import RECOVERY_POINT_CHECKPOINT, read_offset
from segstore.log.files.log_directory_checkpoints import LogDirectoryCheckpoints
from segstore.log.files.partition_directory import file_name
from segstore.log.findings.finding import FindingCode
from segstore.log.local.local_log import LocalLog
from segstore.types import TopicPartition
from tests.kits.damaged_logs import (
    LogDirectory,
    batches_of,
    build,
    expected_values,
    flip_bit,
    values_of,
)
from tests.kits.log_validator_kit import NOW, message, wrapper

# ---- recovery point in a state directory ---------------------------------------------------------
# A truncation left the old recovery point in ``state_dir``: the next recovery began above the cut.
#
# Kafka's profile writes no recovery point but at a close. What was appended behind a truncation had
# then never been synced, and lay below the point of the last clean stop: an open after a crash did
# not look at it, and damage that the crash had done stayed in the log.


ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def places(tmp_path):
    """A log that was closed cleanly with 12 records, and its state directory."""
    path, state = tmp_path / "orders-0", tmp_path / "state"
    with open_log(path, state) as log:
        append(log, 12)
    return path, state


def open_log(path, state):
    return segstore.open(path, recovery="kafka", state_dir=state, segment_ms=None)


def append(log, count):
    for _ in range(count):
        log.append([(b"key", b"value-%d" % log.log_end_offset)])


CUTS_WITH_A_STATE_DIRECTORY = {
    "in a segment": lambda log: log.truncate_to(4),
    "fully": lambda log: log.truncate_fully_and_start_at(4),
}


@pytest.mark.parametrize("way", CUTS_WITH_A_STATE_DIRECTORY)
def test_what_was_appended_behind_a_truncation_is_recovered(places, way):
    """[LOC-4, DUR-62] The oracle is the damage: there the log ends after a recovery."""
    path, state = places
    log = open_log(path, state)
    assert log.report.clean
    CUTS_WITH_A_STATE_DIRECTORY[way](log)
    append(log, 3)
    hurt = path / file_name(log.segments()[-1].base_offset, "log")
    log.roll()  # at 7: the old recovery point lies in the segment behind this one
    append(log, 10)
    log.close_quietly()  # as a kill leaves it
    flip_bit(hurt, hurt.stat().st_size - 1)

    with open_log(path, state) as log:
        assert not log.report.clean
        assert log.log_end_offset == 6
        assert [record.offset for record in log.scan(4)] == [4, 5]


def test_the_recovery_point_is_lowered_and_never_raised(places):
    """[LOC-4, DUR-16] Before the truncation; one above it changes nothing."""
    path, state = places
    home = Directory(str(state))
    log = open_log(path, state)
    for offset, point in ((12, 12), (9, 9), (11, 9), (5, 5)):
        append(log, 12 - log.log_end_offset)
        log.truncate_to(offset)
        assert read_offset(home, RECOVERY_POINT_CHECKPOINT, ORDERS) == point
    log.close_quietly()
    home.close()


# ---- recovery point of two places ----------------------------------------------------------------
# A truncation left the log directory's recovery point above the end, and the own one was lost.
#
# The log was whole, and refused for ever: the line of the last clean stop said that records were
# missing. Where the log had grown past it again, it said that unsynced records had been synced.


@pytest.fixture
def closed_partition(tmp_path):
    """Return a partition of sixty records, closed, whose log directory has a line of it."""
    (tmp_path / "meta.properties").write_text("version=1\n")
    (tmp_path / RECOVERY_POINT_CHECKPOINT).write_text("0\n1\nother 0 7\n")
    with segstore.open(tmp_path / "orders-0") as log:
        for _ in range(2):
            log.append([(None, b"x")] * 30)
            log.roll()
    assert above(log) == {"other": 7, "orders": 60}
    return log.path


def above(log) -> dict[str, int]:
    """Return what the log directory says of each topic."""
    lines = Path(log.path).with_name(RECOVERY_POINT_CHECKPOINT).read_text().splitlines()
    return {topic: int(offset) for topic, _, offset in map(str.split, lines[2:])}


def lose_own_point(log) -> None:
    log.close_quietly()
    Path(log.path, RECOVERY_POINT_CHECKPOINT).unlink()


CUTS_AND_ENDS = {
    "to": (lambda log: log.truncate_to(30), 30),
    "within a batch": (lambda log: log.truncate_to(40), 30),
    "fully": (lambda log: log.truncate_fully_and_start_at(20), 0),
    "below the start": (lambda log: (log.delete_records(35), log.truncate_to(20)), 20),
}


@pytest.mark.parametrize("cut", CUTS_AND_ENDS)
def test_the_own_recovery_point_is_lost_behind_a_truncation(closed_partition, cut):
    """[DUR-16, DUR-65] no record is missing."""
    change, point = CUTS_AND_ENDS[cut]
    log = segstore.open(closed_partition)
    change(log)
    assert above(log) == {"other": 7, "orders": point}
    log.append([(None, b"new")] * 5)
    log.flush()
    end = log.log_end_offset
    assert end < 60
    lose_own_point(log)

    with segstore.open(closed_partition) as log:
        assert log.log_end_offset == end
    assert above(log) == {"other": 7, "orders": end}


def test_the_log_grows_past_the_old_line(closed_partition):
    """[DUR-4, DUR-16] what was not synced is not called durable."""
    log = segstore.open(closed_partition, durability="none")
    log.truncate_to(30)
    for _ in range(40):
        log.append([(None, b"new")])
    lose_own_point(log)

    with segstore.open(closed_partition, read_only=True) as log:
        assert log.log_end_offset == 70
        assert log.recovery_point == 30


def test_the_line_comes_down_before_anything_is_cut(closed_partition, monkeypatch):
    """[DUR-16] a crash in between leaves a log that is whole."""
    seen, real = [], LocalLog.begin_truncation

    def looked_at(self, offset):
        seen.append((above(log), log.log_end_offset))
        return real(self, offset)

    monkeypatch.setattr(LocalLog, "begin_truncation", looked_at)
    with segstore.open(closed_partition) as log:
        log.truncate_to(30)
    assert seen == [({"other": 7, "orders": 30}, 60)]


def test_a_line_that_is_low_enough_is_left(closed_partition, monkeypatch):
    """[DUR-65] nothing is merged that says no more than the truncation."""
    merged = []
    with segstore.open(closed_partition) as log:
        log.append([(None, b"x")] * 5)
        log.append([(None, b"x")] * 5)
        monkeypatch.setattr(LogDirectoryCheckpoints, "lower", lambda *what: merged.append(what))
        log.truncate_to(65)
        assert merged == []
        monkeypatch.undo()


# ---- recovery point that was lost ----------------------------------------------------------------
# The last ``.log`` was shorter than its newest snapshot, and the recovery point was lost.
#
# A broker had closed the log cleanly, so every check said that it was whole (operator case 04). A
# snapshot is named by the offset at which it was made, and an epoch begins at the log end at most.


@pytest.fixture
def partition_of_a_broker(tmp_path: Path) -> Path:
    """A broker's partition with 20 records, closed cleanly; its recovery point is lost."""
    path = tmp_path / "orders-0"
    with segstore.open(path, durability="none") as log:
        for number in range(20):
            log.append([(None, b"value %d" % number)])
    for name in (".segstore", ".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
        (path / name).unlink()
    (tmp_path / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":1}')
    return path


def cut(path: Path) -> None:
    log = path / f"{0:020d}.log"
    os.truncate(log, batches_of(log)[15].position)


def doors(path: Path) -> dict[str, int]:
    """Exit codes."""
    commands = (
        ["verify", "-q"],
        ["ls"],
        ["inspect", "-q"],
        ["cat", "-q"],
        ["scrub", "-q"],
        ["recover", "-q", "--dry-run"],
        ["recover", "-q"],
    )
    return {" ".join(command): cli.main([*command, str(path)]) for command in commands}


def test_a_whole_log_has_no_finding(partition_of_a_broker: Path):
    """[DUR-63]"""
    assert set(doors(partition_of_a_broker).values()) == {0}


@pytest.mark.parametrize("kept", ["snapshot", "leader-epoch-checkpoint"])
def test_what_is_left_shows_where_the_log_had_ended(partition_of_a_broker: Path, kept: str):
    """[DUR-51] As a recovery point does: the open is refused, and nothing is changed."""
    cut(partition_of_a_broker)
    if kept != "snapshot":
        for snapshot in partition_of_a_broker.glob("*.snapshot"):
            snapshot.unlink()
        (partition_of_a_broker / kept).write_text("0\n2\n0 0\n1 20\n")

    for _ in range(2):
        assert set(doors(partition_of_a_broker).values()) == {1}
    with pytest.raises(CorruptLogError):
        segstore.open(partition_of_a_broker)
    report = segstore.salvage(
        partition_of_a_broker,
        partition_of_a_broker.parent / "salvaged" / partition_of_a_broker.name,
    )
    assert [(one.first_offset, one.next_offset) for one in report.lost] == [(15, 20)]


def test_a_salvage_asks_the_snapshots_also_without_a_marker(partition_of_a_broker: Path):
    """[DUR-7] A copy of the partition's directory alone: offsets below a snapshot had been used.

    Their records may have been lost by a crash before a sync: no marker says that it was a close.
    """
    cut(partition_of_a_broker)
    (partition_of_a_broker.parent / ".kafka_cleanshutdown").unlink()
    report = segstore.salvage(
        partition_of_a_broker,
        partition_of_a_broker.parent / "salvaged" / partition_of_a_broker.name,
    )

    assert (report.maybe_lost, report.log_end_offset) == ([(15, 20)], 20)


# ---- unreadable checkpoints of a log directory ---------------------------------------------------
# A checkpoint of a log directory that was too large stopped `create_topic`, and each close failed.
#
# [DUR-8, DUR-21, DUR-65] What cannot be read as a checkpoint counts as missing, with a warning, and
# is left as it is: the others' lines are not ours to lose. Looked for: both files, larger than any
# checkpoint, a directory in its place, and damaged text; all that reads or writes them: a manager's
# open, `create_topic`, truncation, close; a partition that is opened alone. An error of the disk
# (no permission, no descriptors) says nothing of the file: it is raised as it is.


START, POINT = "log-start-offset-checkpoint", "recovery-point-offset-checkpoint"


def make_too_large(path: Path) -> None:
    os.truncate(path, 1 << 27)  # sparse


def put_a_directory_there(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "mine").write_text("mine")


def damage(path: Path) -> None:
    path.write_bytes(b"0\nmany\n")


DAMAGES = [make_too_large, put_a_directory_there, damage]


@pytest.fixture(params=[START, POINT])
def name(request):
    return request.param


@pytest.fixture
def logs(tmp_path):
    """Two partitions; the log start of one is 2."""
    with segstore.open_dir(tmp_path) as manager:
        manager.create_topic("t", 2)
        for number in range(2):
            manager.log("t", number).append([(b"k", b"v")] * 5)
        manager.log("t", 0).delete_records(2)
    return tmp_path


def append_three(log) -> None:
    for _ in range(3):
        log.append([(b"k", b"v")])


def look_of(path: Path) -> object:
    return sorted(path.iterdir()) if path.is_dir() else path.stat().st_size


@pytest.mark.parametrize("spoil", DAMAGES)
def test_a_manager_goes_on(logs, name, spoil, caplog):
    spoil(logs / name)
    before = look_of(logs / name)
    with segstore.open_dir(logs) as manager:
        manager.create_topic("u", 1)
        for number in range(2):
            log = manager.log("t", number)
            append_three(log)
            log.truncate_to(6)
        manager.append("u", [(b"k", b"v")])
        assert f"{name} cannot be read" in manager.log("t", 0).report.warnings[0]

    assert f"{name} is left as it is" in caplog.text
    assert look_of(logs / name) == before
    assert (logs / ".kafka_cleanshutdown").exists()
    assert (logs / "t-0" / ".kafka_cleanshutdown").exists()
    with segstore.open_dir(logs) as manager:
        assert manager.topics() == {"t": [0, 1], "u": [0]}
        found = [(log.log_start_offset, log.log_end_offset) for log in logs_of(manager)]
        assert found == [(2, 6), (0, 6), (0, 1)]


def logs_of(manager):
    return [manager.log(*one) for one in manager.partitions()]


@pytest.mark.parametrize("spoil", DAMAGES)
def test_a_partition_that_is_opened_alone_goes_on(logs, name, spoil):
    spoil(logs / name)
    before = look_of(logs / name)
    with segstore.open(logs / "t-0") as log:
        append_three(log)
        log.truncate_to(6)

    assert look_of(logs / name) == before
    assert (logs / "t-0" / ".kafka_cleanshutdown").exists()
    with segstore.open(logs / "t-0", read_only=True) as log:
        assert (log.log_start_offset, log.log_end_offset) == (2, 6)


def test_an_error_of_the_disk_is_not_taken_for_a_damaged_file(logs, monkeypatch):
    """[DUR-6, DUR-31] Nothing was made, and the next call reads the file."""
    error = ResourceError("no descriptors")

    def fail(*_):
        raise error

    with segstore.open_dir(logs) as manager:
        monkeypatch.setattr(log_directory_checkpoints, "read_offset_checkpoint", fail)
        with pytest.raises(ResourceError) as caught:
            manager.create_topic("u", 1)
        assert caught.value is error
        assert manager.topics() == {"t": [0, 1]}
        monkeypatch.undo()
        manager.create_topic("u", 1)


# ---- an offset that jumped above the recovery point ----------------------------------------------
# An open for writing believed a flipped bit in the base offset of a batch, in a broker's log.
#
# The log ended at the false offset, and all whole batches after that one went into quarantine.


@pytest.fixture
def unclean(tmp_path: Path) -> LogDirectory:
    """A log that a broker did not close; nothing of it is known to be synced."""
    directory = build(tmp_path / "t-0")
    (directory.path / ".segstore").unlink()
    return directory


@pytest.mark.parametrize("distance", [1, 4, 1 << 20])
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("segment", [1, -1])
def test_a_log_is_cut_before_an_offset_that_jumped(unclean, tmp_path, segment, batch, distance):
    """[DUR-50] Of two batches the one that jumped is the bad one; what follows is kept."""
    file = unclean.file(unclean.bases[segment])
    moved = batches_of(file)[batch]
    with file.open("r+b") as log:
        log.seek(moved.position)
        log.write((moved.base_offset + distance).to_bytes(8))

    with segstore.open(unclean.path) as log:
        assert log.log_end_offset == moved.base_offset
        assert log.report.truncated_from_offset == moved.base_offset
        assert log.report.quarantined == [f"{unclean.bases[segment]:020d}.quarantine-1"]
        assert values_of(log) == expected_values(0, moved.base_offset)

    assert file.stat().st_size == moved.position
    saved = segstore.salvage(unclean.path, tmp_path / "saved" / "t-0")
    assert saved.lost[0].file == f"{unclean.bases[segment]:020d}.quarantine-1"


def test_an_offset_that_jumped_below_the_recovery_point_is_damage(unclean):
    """[DUR-51] From where it should be on, the records had been synced."""
    moved = batches_of(unclean.last)[1]
    with unclean.last.open("r+b") as log:
        log.seek(moved.position)
        log.write((moved.base_offset + 4).to_bytes(8))
    unclean.set_recovery_point(moved.base_offset + 1)

    with pytest.raises(CorruptLogError, match=f"records from {moved.base_offset} to"):
        segstore.open(unclean.path)


def test_a_batch_that_stands_there_twice_is_cut(unclean):
    """[DUR-50, DUR-63] It says nothing of the one before it."""
    data = unclean.last.read_bytes()
    last = batches_of(unclean.last)[-1]
    unclean.last.write_bytes(data + data[last.position :])

    with segstore.open(unclean.path) as log:
        assert log.log_end_offset == last.base_offset + 1
        assert log.report.truncated_bytes == len(data) - last.position


@pytest.mark.parametrize("recovery_point", [0, None])
def test_an_offset_that_jumped_into_the_next_segment(unclean, recovery_point):
    """[DUR-50, DUR-63] The next file shows that the last batch of the one before is bad."""
    file = unclean.file(unclean.bases[1])
    moved = batches_of(file)[-1]
    with file.open("r+b") as log:
        log.seek(moved.position)
        log.write((moved.base_offset + 1).to_bytes(8))
    unclean.set_recovery_point(recovery_point)

    with segstore.open(unclean.path, read_only=True) as log:
        assert log.log_end_offset == moved.base_offset
    if recovery_point is None:
        with pytest.raises(CorruptLogError):
            segstore.open(unclean.path)
    else:
        with segstore.open(unclean.path) as log:
            assert log.log_end_offset == moved.base_offset


@pytest.mark.parametrize("beyond", [1, 3])
def test_a_file_that_reaches_beyond_the_next_after_a_gap_has_no_wrong_offset(unclean, beyond):
    """[DUR-50, DUR-54] As the file of another replica: its batches are in the next one too."""
    file, following = (unclean.file(base) for base in unclean.bases[1:3])
    own, others = batches_of(file), batches_of(following)
    data = file.read_bytes()[: own[-1].position]
    file.write_bytes(data + following.read_bytes()[: others[beyond].position])
    unclean.set_recovery_point(0)

    end = others[beyond].base_offset
    with segstore.open(unclean.path, read_only=True) as log:
        assert log.log_end_offset == end
    with segstore.open(unclean.path) as log:
        assert log.log_end_offset == end


@pytest.mark.parametrize("magic", [0, 1])
def test_an_old_set_whose_offset_jumped_ends_a_read(tmp_path, magic):
    """[DUR-50] The messages within a set of magic 0 have their offsets still."""
    path = tmp_path / "t-0"
    path.mkdir()
    sets = [
        wrapper([message(magic, first if magic == 0 else 0, NOW, None, b"x")], magic, last)
        for first, last in ((n, n + 64 if n == 3 else n) for n in range(6))
    ]
    (path / f"{0:020d}.log").write_bytes(b"".join(sets))

    with segstore.open(path, read_only=True) as log:
        assert log.log_end_offset == 3
        assert [record.offset for record in log.scan()] == [0, 1, 2]
        assert [record.offset for record in log.scan(on_damage="skip")] == [0, 1, 2, 4, 5]


def test_an_old_set_that_stands_there_twice_did_not_jump(tmp_path):
    """[DUR-50] Its header has the offset of its last message."""
    path = tmp_path / "t-0"
    path.mkdir()
    sets = [
        wrapper([message(1, n, NOW, None, b"x") for n in range(2)], 1, last) for last in (1, 3, 5)
    ]
    (path / f"{0:020d}.log").write_bytes(sets[0] + sets[1] + sets[1] + sets[2])

    with segstore.open(path, read_only=True) as log:
        assert [record.offset for record in log.scan(0, 4)] == [0, 1, 2, 3]


def test_a_sealed_batch_whose_offset_jumped_far_is_no_overflow(unclean):
    """[DUR-50, LDR-31] The next segment begins before it; `recover` would have split the file."""
    file = unclean.file(unclean.bases[1])
    moved = batches_of(file)[-1]
    with file.open("r+b") as log:
        log.seek(moved.position)
        log.write((moved.base_offset + (1 << 39)).to_bytes(8))
    file.with_suffix(".index").unlink()

    codes = {one.code for one in check_partition(str(unclean.path)).findings}
    assert FindingCode.BATCH_OUT_OF_ORDER in codes or FindingCode.BATCH_CORRUPT in codes
    assert FindingCode.SEGMENT_OVERFLOWS not in codes


def test_records_that_can_be_salvaged_are_not_missing(tmp_path):
    """[DUR-51, DUR-58] Below the recovery point, after damage, also where the last batch is bad."""
    directory = build(tmp_path / "a-0", clean=False)
    batches = batches_of(directory.last)
    flip_bit(directory.last, batches[2].position + 11)  # its length
    flip_bit(directory.last, batches[-1].position + 65)
    directory.set_recovery_point(batches[-1].base_offset + 1)

    codes = {one.code for one in check_partition(str(directory.path)).findings}
    assert FindingCode.BATCH_CORRUPT in codes
    assert FindingCode.RECOVERY_POINT_ABOVE_END not in codes
