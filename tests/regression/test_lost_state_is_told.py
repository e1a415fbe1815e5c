"""``.segstore`` was lost, or one of its bytes flipped, and no tool said a word.

From then on a lost segment counted as deleted or compacted away: verify said "clean", salvage that
nothing was lost, a reader went on behind the hole, and the next open took the last traces away.
"""

from __future__ import annotations

import os
from contextlib import closing

import pytest

import segstore
from segstore._core import Directory
from segstore.cli import main
from segstore.log.files.checkpoints import LEADER_EPOCH_CHECKPOINT, LOG_STATE, LogState
from segstore.log.findings.finding import FindingCode
from segstore.types import EpochEntry
from tests.crash.barrier_scene import new_disk, open_log
from tests.crash.crash_check import Crash
from tests.crash.crash_script import PATH
from tests.kits.directory_kit import disk_with, name_of
from tests.kits.log_kit import at, batch

RECORDS = 16


def garble(path) -> None:
    data = bytearray(path.read_bytes())
    data[3] ^= 1
    path.write_bytes(data)


LOSSES = pytest.mark.parametrize(
    ("lose", "told"),
    [(os.remove, f"{LOG_STATE} is missing"), (garble, f"{LOG_STATE} cannot be read")],
    ids=["missing", "unreadable"],
)
CLOSES = pytest.mark.parametrize("is_closed", [True, False], ids=["closed", "killed"])


@pytest.fixture
def path(tmp_path, is_closed):
    """Four segments of four records each."""
    path = tmp_path / "o-0"
    log = segstore.open(path)
    for offset in range(RECORDS):
        if offset and offset % 4 == 0:
            log.roll()
        log.append_as_leader(batch([(None, b"value")]), 0)
    log.flush()
    (log.close if is_closed else log.close_quietly)()
    return path


def printed(capsys) -> str:
    return " ".join(capsys.readouterr().out.split())


@CLOSES
@LOSSES
def test_the_loss_itself_is_told(path, lose, told, capsys):
    """[DUR-7, DUR-64] By readers, verify, the open and salvage; nothing else is wrong."""
    lose(path / LOG_STATE)
    with segstore.open(path, read_only=True) as log:
        assert log.report.lost_state == told
        assert any(text.startswith(told) for text in log.report.warnings)
        assert (log.report.maybe_missing, log.report.damage) == (None, None)
    assert main(["verify", str(path)]) == 1
    found = printed(capsys)
    assert "1 finding;" in found
    assert "[STATE_MISSING]" in found
    assert told in found
    assert main(["salvage", str(path), str(path.parent / "s-0")]) == 0
    found = printed(capsys)
    assert "nothing was lost" in found
    assert told in found
    assert main(["recover", str(path)]) == 0
    assert told in printed(capsys)

    with segstore.open(path) as log:
        assert (log.report.lost_state, len(list(log))) == (None, RECORDS)
    assert main(["verify", str(path)]) == 0


@CLOSES
@pytest.mark.parametrize("has_epochs", [True, False], ids=["epochs", "no epochs"])
@pytest.mark.parametrize(
    ("numbers", "missing"),
    [
        ((0,), "records 0 to 3 are missing"),
        ((1,), "records 4 to 7 are missing"),
        ((0, 2), "records 0 to 3, 8 to 11 are missing"),
    ],
)
def test_lost_segments_are_missed(path, numbers, missing, has_epochs, capsys):
    """[DUR-7, DUR-8] Nobody can tell whether they were deleted: the log is read and written."""
    (garble if has_epochs else os.remove)(path / LOG_STATE)
    if not has_epochs:
        (path / LEADER_EPOCH_CHECKPOINT).unlink()
    for number in numbers:
        (path / f"{4 * number:020d}.log").unlink()
    kept = [offset for offset in range(RECORDS) if offset // 4 not in numbers]
    with segstore.open(path, read_only=True) as log:
        assert missing in str(log.report.maybe_missing)
        assert [record.offset for record in log] == kept
    assert main(["verify", str(path)]) == 1
    assert missing in printed(capsys)
    assert main(["salvage", str(path), str(path.parent / "s-0")]) == 0
    salvaged = printed(capsys)
    assert "nothing was lost" not in salvaged
    first, _, last = missing.split(",")[0].removeprefix("records ").split(" ")[:3]
    assert f"no file holds the offsets {first} to {last}" in salvaged
    assert main(["recover", str(path)]) == 1
    assert missing in printed(capsys)
    with segstore.open(path) as log:
        assert [record.offset for record in log] == kept


@CLOSES
@LOSSES
def test_deleted_records_are_not_missed(path, lose, told):
    """[DUR-19] The log start tells that they were."""
    with segstore.open(path, file_delete_delay_ms=0) as log:
        assert log.delete_records(9) == 9
    lose(path / LOG_STATE)
    for read_only in (True, False):
        with segstore.open(path, read_only=read_only) as log:
            assert (log.report.maybe_missing, log.report.lost_state) == (None, told)


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_brokers_log_has_lost_nothing(tmp_path, is_clean, capsys):
    """[DUR-64] It has no such file, and its gaps are those of a compaction."""
    path = tmp_path / "o-0"
    path.mkdir()
    for base in (4, 12):
        (path / f"{base:020d}.log").write_bytes(batch([(None, b"v")] * 4, base_offset=base))
    (path / LEADER_EPOCH_CHECKPOINT).write_text("0\n1\n0 0\n")
    if is_clean:
        (tmp_path / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":3}')
        (tmp_path / "meta.properties").write_text("")
    assert main(["verify", str(path)]) == 1
    assert LOG_STATE not in printed(capsys)  # but indexes are missing
    for read_only in (True, False):
        with segstore.open(path, read_only=read_only) as log:
            assert (log.report.lost_state, log.report.maybe_missing) == (None, None)


def test_a_salvaged_log_has_lost_nothing(tmp_path):
    """[DUR-62] Its recovery point is there before an open makes the file."""
    path = tmp_path / "o-0"
    with segstore.open(path) as log:
        log.append([(None, b"v")] * 4)
    with segstore.open(path, recovery="salvage", target=tmp_path / "s-0") as log:
        assert (log.report.lost_state, log.report.warnings) == (None, [])
    segstore.salvage(path, tmp_path / "t-0")
    with segstore.open(tmp_path / "t-0", read_only=True) as log:
        assert (log.report.lost_state, log.report.warnings) == (None, [])


@pytest.mark.parametrize("place", [None, "beside the segments", "elsewhere"])
def test_what_another_profile_takes_away_is_not_lost(place):
    """[DUR-62] Nor what a power cut leaves of that: what tells of it goes before, durably."""
    disk = new_disk()
    log = open_log(disk)
    for offset in range(3):
        log.append_as_follower(at(offset, epoch=0), 0)
    log.close()
    begin = disk.effects
    state_dir = {"beside the segments": PATH, "elsewhere": "/state"}.get(place)
    if place == "elsewhere":
        Directory(state_dir, disk, create=True)
    log = open_log(disk, recovery="kafka", state_dir=state_dir)
    log.append_as_follower(at(3, epoch=0), 0)
    log.close()
    for effects in range(begin, disk.effects + 1):
        for seed in range(8):
            image = Crash(effects, "seed", seed).image(disk)
            for read_only in (True, False):
                with closing(open_log(image, read_only=read_only)) as log:
                    assert log.report.lost_state is None, (effects, seed)
                    assert log.report.maybe_missing is None


def test_a_reader_ends_at_a_hole_behind_a_gap_that_may_be(tmp_path):
    """[DUR-2, DUR-71] Of a follower's log: the writer cuts there, and a reader had gone on."""
    path = tmp_path / "o-0"
    log = segstore.open(path)
    for offset in (0, 1, 2, 3, 8, 9, 12, 13):
        if offset in {8, 12}:
            log.roll()
        if offset == 12:
            log.append_as_follower(at(10) + at(11), 0)
        log.append_as_follower(at(offset), 0)
    log.close_quietly()
    (path / "recovery-point-offset-checkpoint").write_text("0\n1\no 0 3\n")
    for file in path.glob(f"{4:020d}.*"):
        file.unlink()
    for file in path.glob(f"{8:020d}.*"):
        file.unlink()
    with segstore.open(path, read_only=True) as log:
        assert ([record.offset for record in log], log.log_end_offset) == ([0, 1, 2, 3], 4)
        assert "are missing; what follows is not read" in str(log.report.damage)
    with segstore.open(path) as log:
        assert [record.offset for record in log] == [0, 1, 2, 3]


def test_of_many_gaps_the_last_are_named_and_none_that_was_deleted():
    """[DUR-7] Our log, which a broker compacted; then the leader epochs were lost."""
    files = {
        LOG_STATE: LogState(0, 0, EpochEntry(3, 40)).format(),
        name_of(0): b"".join(at(offset) for offset in (0, 1, 2, 3, 4, *range(6, 30, 2))),
        "log-start-offset-checkpoint": b"0\n1\ntopic 0 10\n",
    }
    with closing(open_log(disk_with(files), read_only=True)) as log:
        missing = "records 19, 21, 23, 25, 27 are missing"
        others = "unless deleted, or compacted away by a broker"
        more = "; and up to 4 more gaps before these"
        assert log.report.maybe_missing == f"{missing}, {others}{more}"
    files[name_of(0)] = b"".join(at(offset) for offset in (0, 1, 2, 3, 4, *range(6, 30)))
    with closing(open_log(disk_with(files), read_only=True)) as log:
        assert log.report.maybe_missing is None


@CLOSES
@LOSSES
@pytest.mark.parametrize("first", [0, 4])
def test_verify_of_a_handle_tells_it_too(path, lose, told, first):
    """[DUR-7] As `segstore verify` does: it said "all good", and of a lost segment too."""
    lose(path / LOG_STATE)
    with segstore.open(path, read_only=True) as log:
        found = log.verify()
        assert [(one.code, one.found) for one in found.findings] == [
            (FindingCode.STATE_MISSING, told)
        ]
    (path / f"{first:020d}.log").unlink()
    for read_only in (True, False):  # the handle that goes on without them knows of them
        with segstore.open(path, read_only=read_only) as log:
            (found,) = log.verify().findings
            assert found.code == FindingCode.RECORDS_MAYBE_MISSING
            assert found.found == log.report.maybe_missing
    with segstore.open(path) as log:
        assert log.verify().ok


@pytest.mark.parametrize("is_closed", [False])
@pytest.mark.parametrize(
    ("change", "is_ok"),
    [
        (lambda log: log.append([(None, b"x")]), False),
        (lambda log: log.delete_records(1), False),
        (lambda log: log.delete_records(9), True),
        (lambda log: log.truncate_to(2), True),
        (lambda log: log.truncate_fully_and_start_at(0), True),
    ],
    ids=["append", "delete less", "delete it", "truncate", "empty"],
)
def test_verify_of_a_handle_speaks_of_the_log_that_there_is(path, change, is_ok):
    """[DUR-7] What was deleted, or cut, since is not missed any more."""
    garble(path / LOG_STATE)
    (path / f"{4:020d}.log").unlink()
    with segstore.open(path) as log:
        assert not log.verify().ok
        change(log)
        assert log.verify().ok is is_ok
