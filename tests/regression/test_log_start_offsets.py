"""Log starts: lost, wrong, above the end, in two places; and what retention deletes."""

from __future__ import annotations

import contextlib
import errno
import json
import shutil
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore import LogConfig, cli
from segstore._core import Barrier, DataFile, Directory, FileBarrier
from segstore.errors import CorruptLogError, ReadIOError, SegstoreError
from segstore.log.check.partition_check import check_partition
from segstore.log.files.checkpoint_store import CheckpointStore
from segstore.log.files.checkpoints import (
    CLEAN_SHUTDOWN_MARKER,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    SYNC_FAILED_MARK,
    format_offset_checkpoint,
)
from segstore.log.files.clean_shutdown_file_handler import CleanShutdownFileHandler
from segstore.log.files.partition_directory import file_name
from segstore.log.findings.finding import Action, FindingCode, Records
from segstore.log.findings.finding_text import advice
from segstore.log.log_environment import LogEnvironment
from segstore.log.log_opener import open_partition
from segstore.log.open_options import open_options
from segstore.log.recovery import repair
from segstore.types import TopicPartition
from tests.crash.barrier_scene import new_disk
from tests.crash.crash_check import Crash, look
from tests.crash.crash_script import Settings
from tests.crash.failing_scenarios_of_damage import LOG_START, MARKER, OPENED, changed
from tests.crash.failing_scenarios_of_opens import SEGMENTS, closed, without
from tests.kits.broker_partition import leave_as_a_broker, write_segments
from tests.kits.log_kit import at, note_being_emptied, offsets
from tests.kits.records_kit import build

if TYPE_CHECKING:
    from pathlib import Path


# ---- checks of a log start above the end ---------------------------------------------------------
# A log start above the end of a log that was not closed: what the tools say of it.
#
# ``verify`` and ``recover --dry-run`` failed with an AttributeError of their own. Of the files that
# the open then made they said that there was "no batch in them that the log does not have", and the
# guide's way to have the records back brought none.


RECORDS_BELOW_THE_START = 12
HIGH_START = 1000
CHECKPOINT = "log-start-offset-checkpoint"
WAY_BACK = (
    "to put them back, copy these files as <base offset>.log into an empty directory elsewhere"
    " with the partition's name, and run `segstore salvage` on it; join files with the same base"
    " offset into one .log, in the order of the offsets that `segstore verify` lists"
)


@pytest.fixture
def contradicted(new_log, tmp_path) -> Path:
    """Three segments of twelve records, not closed, and a log start of another log."""
    log = new_log()
    for number in range(RECORDS_BELOW_THE_START):
        if number and number % 4 == 0:
            log.roll()
        log.append([(None, b"value %d" % number)])
    log.flush()
    log.close_quietly()
    (tmp_path / "topic-0" / CHECKPOINT).write_text(f"0\n1\ntopic 0 {HIGH_START}\n")
    return tmp_path / "topic-0"


def files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_what_an_open_does_is_foretold(contradicted, capsys):
    """[DUR-54, DUR-65] All segments are set aside; the forecast of that changes nothing."""
    before = files(contradicted)
    names = sorted(path.name for path in contradicted.glob("*.log"))
    expected = [name.replace(".log", ".quarantine-1") for name in names]

    report = check_partition(str(contradicted)).forecast.report

    assert sorted(report.set_aside) == expected
    assert cli.main(["recover", "--dry-run", "-q", str(contradicted)]) == 1
    out = capsys.readouterr().out
    assert all(name in out for name in expected)
    assert files(contradicted) == before


def test_it_is_a_finding(contradicted, capsys):
    """[DUR-65] ``verify`` said "clean", and the next open took every record out of the log."""
    assert cli.main(["verify", "-q", str(contradicted)]) == 1
    out = capsys.readouterr().out

    assert f"{CHECKPOINT}, offset {RECORDS_BELOW_THE_START}: " in out
    assert f"found the log start {HIGH_START}" in out
    assert "[LOG_START_ABOVE_END]" in out
    assert "[SEGMENT_AFTER_DAMAGE]" in out  # the next open for writing sets all of it aside
    assert f"offsets {HIGH_START} to {RECORDS_BELOW_THE_START}" in out


def test_what_was_being_emptied_is_none(new_log, tmp_path, monkeypatch):
    """[DUR-18, TRU-4] The log says itself that its records were to go."""
    log = new_log()
    log.append([(None, b"x")] * RECORDS_BELOW_THE_START)
    log.flush()
    saved = tmp_path / "saved" / "topic-0"
    write = CheckpointStore.write_log_start

    def copy_behind(self: CheckpointStore, *arguments: object) -> None:
        write(self, *arguments)
        if not saved.exists():
            shutil.copytree(tmp_path / "topic-0", saved)

    monkeypatch.setattr(CheckpointStore, "write_log_start", copy_behind)
    log.truncate_fully_and_start_at(HIGH_START)

    check = check_partition(str(saved))

    assert check.batches == 1
    assert check.findings == []


@pytest.mark.parametrize("place", [".", ".."])
def test_one_that_is_not_believed(new_log, tmp_path, place):
    """[DUR-21] Closed cleanly: it was said that no record can be read, all of them can."""
    log = new_log()
    log.append([(None, b"x")] * RECORDS_BELOW_THE_START)
    log.close()
    path = tmp_path / "topic-0"
    (path / place / CHECKPOINT).write_text(f"0\n1\ntopic 0 {HIGH_START}\n")

    check = check_partition(str(path))

    (finding,) = check.findings
    assert (finding.code, finding.records) == (FindingCode.LOG_START_ABOVE_END, Records.NONE)
    assert finding.repaired
    assert check.log_start_offset == 0
    with segstore.open(path) as log:
        assert log.log_start_offset == 0
    assert check_partition(str(path)).findings == []


def test_what_was_set_aside_is_told(contradicted, capsys, tmp_path):
    """[DUR-59] Each file with its offsets: no finding, but what could be had back is said."""
    with segstore.open(contradicted) as log:
        assert f"if this log start is wrong, {WAY_BACK}" in str(log.report)
        checked = str(log.verify())
    code = cli.main(["verify", "-q", str(contradicted)])
    outputs = [checked, capsys.readouterr().out]
    assert code == 0
    assert cli.main(["inspect", "-q", str(contradicted)]) == 0
    outputs.append(capsys.readouterr().out)
    outputs.append(str(segstore.salvage(contradicted, tmp_path / "saved-0")))

    for text in outputs:
        assert "they hold no whole batch" not in text
        for first in range(0, RECORDS_BELOW_THE_START, 4):
            assert (
                f"4 batches with offsets {first} to {first + 3}, below the log start {HIGH_START}:"
                " deleted, or quarantined for a wrong log start"
            ) in text


def brought_back(path: Path, tmp_path: Path) -> list[bytes]:
    """Do what is said: the files alone, as ``<base offset>.log``, are salvaged."""
    rescue = tmp_path / "rescue" / "topic-0"
    rescue.mkdir(parents=True)
    for file in path.glob("*.quarantine-1"):
        shutil.copy(file, rescue / f"{file.stem}.log")
    segstore.salvage(rescue, tmp_path / "saved" / "topic-0")
    with segstore.open(tmp_path / "saved" / "topic-0") as log:
        return [record.value for record in log]


@pytest.mark.parametrize("appended", [0, 1])
def test_whole_segments_come_back(contradicted, tmp_path, capsys, appended):
    """[DUR-59] What was set aside, whatever was written behind the wrong log start since."""
    with segstore.open(contradicted) as log:
        for _ in range(appended):
            log.append([(None, b"behind")])

    assert cli.main(["verify", "-q", str(contradicted)]) == 0
    assert capsys.readouterr().out.count(WAY_BACK) == RECORDS_BELOW_THE_START // 4
    assert brought_back(contradicted, tmp_path) == [
        b"value %d" % n for n in range(RECORDS_BELOW_THE_START)
    ]


def test_a_cut_tail_comes_back(new_log, tmp_path, capsys):
    """[DUR-59] It begins with the bytes that were no batch, and has no name of its own."""
    log = new_log()
    for number in range(RECORDS_BELOW_THE_START):
        log.append([(None, b"value %d" % number)])
    log.flush()
    log.close_quietly()
    path = tmp_path / "topic-0"
    (path / "recovery-point-offset-checkpoint").unlink(missing_ok=True)
    file = path / "00000000000000000000.log"
    data = bytearray(file.read_bytes())
    data[4 * len(data) // RECORDS_BELOW_THE_START + 70] ^= 1
    file.write_bytes(data)
    with segstore.open(path) as log:
        (cut,) = log.report.quarantined
        log.truncate_fully_and_start_at(HIGH_START)

    assert cli.main(["verify", "-q", str(path)]) == 0
    assert f"{cut}, " in (out := capsys.readouterr().out)
    assert WAY_BACK in out
    there = brought_back(path, tmp_path)
    assert there[-7:] == [b"value %d" % n for n in range(5, RECORDS_BELOW_THE_START)]


@pytest.mark.parametrize("appended", [0, 1])
def test_what_salvage_does_not_copy(contradicted, tmp_path, capsys, appended):
    """[DUR-59] With the log start put right they are lost to a salvage; the way back is said."""
    with segstore.open(contradicted) as log:
        for _ in range(appended):
            log.append([(None, b"behind")])
    (contradicted / ".kafka_cleanshutdown").unlink()
    (contradicted / CHECKPOINT).write_text("0\n1\ntopic 0 0\n")

    assert cli.main(["salvage", "-q", str(contradicted), str(tmp_path / "target-0")]) == 1
    captured = capsys.readouterr()
    assert (captured.out + captured.err).count(WAY_BACK) == 1


@pytest.mark.parametrize("command", [["verify"], ["recover", "--dry-run"]])
def test_a_directory_without_a_segment(contradicted, capsys, command):
    """[DUR-59] They failed with a ValueError: all that the files hold is not in the log."""
    segstore.open(contradicted).close()
    for file in contradicted.glob("*.log"):
        file.unlink()
    (contradicted / ".kafka_cleanshutdown").unlink()
    (contradicted / CHECKPOINT).unlink()

    cli.main([*command, "-q", str(contradicted)])

    out = capsys.readouterr().out
    for first in range(0, RECORDS_BELOW_THE_START, 4):
        assert f"4 batches with offsets {first} to {first + 3}, which the log does not have" in out


@pytest.mark.parametrize("command", ["ls", "cat", "tail"])
def test_a_reader_is_told_that_nothing_is_shown(contradicted, command, capsys):
    """[DUR-7] It had shown no record, and said no word of the twelve that lie there."""
    with segstore.open(contradicted, read_only=True) as log:
        told = [text for text in log.report.warnings if "lies above the log end 12: reads" in text]
        assert (len(told), list(log)) == (1, [])
    assert cli.main([command, str(contradicted)]) == 0

    printed = capsys.readouterr()
    assert told[0] in printed.err
    assert "value" not in printed.out


def test_a_reader_of_a_log_that_was_deleted_is_told_nothing(tmp_path):
    """[DUR-19, TRU-4] All of it was deleted, and is gone; or a crash came before it was gone."""
    path = tmp_path / "topic-0"
    with segstore.open(path) as log:
        log.append([(None, b"value")] * 4)
        shutil.copytree(path, tmp_path / "before" / "topic-0")
        log.truncate_fully_and_start_at(HIGH_START)
        with segstore.open(path, read_only=True) as reader:
            assert (reader.log_start_offset, reader.report.warnings) == (HIGH_START, [])
    killed = tmp_path / "before" / "topic-0"
    (killed / CHECKPOINT).write_text(f"0\n1\ntopic 0 {HIGH_START}\n")
    note_being_emptied(killed)
    with segstore.open(killed, read_only=True) as reader:
        assert (reader.log_end_offset, list(reader)) == (HIGH_START, [])
        assert not any("lies above the end" in text for text in reader.report.warnings)


# ---- log start above a lost tail -----------------------------------------------------------------
# A log start above the end of a broker's clean log whose recovery point lies above it, too.
#
# The open was refused, "no record was changed", and had written a log start of 0 already: what had
# been deleted came back with the file that was missing.


LOG_START_CHECKPOINT = "log-start-offset-checkpoint"


def broker_directory(folder, recovery_point):
    """Return a partition whose file ends at 10, in a log directory that a broker closed."""
    partition = folder / "orders-0"
    partition.mkdir()
    (partition / f"{0:020d}.log").write_bytes(at(0, 10))
    (partition / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    (folder / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":3}')
    (folder / "meta.properties").write_text("")
    (folder / LOG_START_CHECKPOINT).write_text("0\n1\norders 0 12\n")
    (folder / "recovery-point-offset-checkpoint").write_text(f"0\n1\norders 0 {recovery_point}\n")
    return partition


def test_what_was_deleted_stays_deleted_when_the_file_comes_back(tmp_path):
    """[DUR-5, DUR-51, DUR-57] A refused open leaves both checkpoints as they were."""
    partition = broker_directory(tmp_path, 20)
    before = (tmp_path / LOG_START_CHECKPOINT).read_bytes()
    for _ in range(2):
        with pytest.raises(CorruptLogError, match="No record was changed"):
            segstore.open(partition)
        assert (tmp_path / LOG_START_CHECKPOINT).read_bytes() == before
        assert not (partition / LOG_START_CHECKPOINT).exists()

    (partition / f"{10:020d}.log").write_bytes(b"".join(at(offset) for offset in range(10, 20)))
    with segstore.open(partition) as log:
        assert log.log_start_offset == 12
        assert offsets(log) == list(range(12, 20))


def test_a_broker_that_truncated_into_a_batch(tmp_path):
    """[LDR-25, DUR-21] Log start and recovery point are the same, and the file ends below them."""
    partition = broker_directory(tmp_path, 12)
    with segstore.open(partition) as log:
        assert (log.log_start_offset, log.log_end_offset) == (12, 12)
        assert offsets(log) == []
        assert log.append([(None, b"x")]).base_offset == 12


def test_segments_below_it_stay_when_the_open_is_refused(tmp_path):
    """[DUR-51, DUR-57] A partition of a backup below checkpoints that went on."""
    partition = broker_directory(tmp_path, 2000)
    (tmp_path / LOG_START_CHECKPOINT).write_text("0\n1\norders 0 1000\n")
    for base in (10, 20):
        (partition / f"{base:020d}.log").write_bytes(at(base, 10))
    for _ in range(2):
        with pytest.raises(CorruptLogError, match="No record was changed"):
            segstore.open(partition)
        assert len(list(partition.glob("*.log"))) == 3


def test_the_own_log_start_stays_where_the_one_above_is_not_believed(tmp_path):
    """[DUR-5, DUR-21] What was deleted does not come back with the warning."""
    partition = tmp_path / "orders-0"
    with segstore.open(partition) as log:
        log.append([(None, b"x")] * 6)
        log.delete_records(3)
    (tmp_path / LOG_START_CHECKPOINT).write_text("0\n1\norders 0 1000\n")
    for _ in range(2):
        with segstore.open(partition) as log:
            assert (log.log_start_offset, offsets(log)) == (3, [3, 4, 5])


def test_a_marker_of_an_older_version_confirms_its_log_start(tmp_path):
    """[DUR-5, TRU-4] It has no checksum: a log start above the end is believed all the same."""
    partition = tmp_path / "orders-0"
    with segstore.open(partition) as log:
        log.append_as_follower(at(0, 10) + at(10, 10), 0)
        log.delete_records(15)
        log.truncate_to(17)
    marker = partition / ".kafka_cleanshutdown"
    fields = json.loads(marker.read_bytes())
    del fields["crc"]
    marker.write_text(json.dumps(fields))
    with segstore.open(partition) as log:
        assert (log.log_start_offset, offsets(log)) == (15, [])


# ---- log start above the last batch --------------------------------------------------------------
# A reader of a log that was cut into the batch that its log start lies in, then killed.
#
# Its end is the log start then, above that of the last batch. A check that found something wrong
# took that for a cut by a writer, of whom there was none.


@pytest.mark.parametrize("is_clean", [True, False])
def test_what_is_wrong_is_told(new_log, tmp_path, is_clean):
    """[DUR-50, DUR-77, TRU-4]"""
    log = new_log(index_interval_bytes=0)
    log.append_as_follower(at(0, 3) + at(3, 3), 0)
    log.delete_records(5)
    log.truncate_to(5)
    assert (log.log_start_offset, log.log_end_offset) == (5, 5)
    if is_clean:
        log.close()
    else:
        log.close_quietly()
    index = tmp_path / "topic-0" / f"{0:020d}.index"
    index.write_bytes(index.read_bytes().rstrip(b"\0") + (4).to_bytes(4) + (999).to_bytes(4))

    reader = new_log(read_only=True)
    assert (reader.log_start_offset, reader.log_end_offset) == (5, 5)
    report = reader.verify()
    assert index.name in [finding.file for finding in report.findings], report
    assert offsets(reader) == []


# ---- log start in an overlap ---------------------------------------------------------------------
# Segments below the log start were removed by their names, also one that reached above it.


def batches(*offsets):
    return b"".join(build([(offset, 1, b"k", b"%d" % offset)]) for offset in offsets)


@pytest.mark.parametrize("marker", [True, False])
@pytest.mark.parametrize("behind", [(), (6,)])
def test_a_segment_that_reaches_above_the_log_start_stays(tmp_path, marker, behind):
    """[DUR-18, DUR-54] A broker's directory in which a stray segment lies within another."""
    folder = tmp_path / "orders-0"
    folder.mkdir()
    for base, data in {
        0: batches(0, 1),
        2: batches(2, 3, 4, 5, 6, 7),
        4: batches(*behind),
        8: batches(8, 9),
    }.items():
        (folder / file_name(base, "log")).write_bytes(data)
    for name, offset in ((LOG_START_OFFSET_CHECKPOINT, 5), (RECOVERY_POINT_CHECKPOINT, 8)):
        line = format_offset_checkpoint({TopicPartition("orders", 0): offset})
        (tmp_path / name).write_bytes(line)
    if marker:
        (tmp_path / CLEAN_SHUTDOWN_MARKER).touch()

    refusal = pytest.raises(CorruptLogError, match="into the next segment")
    with contextlib.nullcontext() if marker else refusal:
        segstore.open(folder).close()

    assert (folder / file_name(2, "log")).read_bytes() == batches(2, 3, 4, 5, 6, 7)
    assert (folder / file_name(0, "log")).exists() is not marker  # nothing goes before a refusal


# ---- log start of two places ---------------------------------------------------------------------
# A truncation below the log start was undone by the log directory's checkpoint.
#
# Of two log starts the greater counts [DUR-65]. The partition's own was lowered, the one above was
# not: after a crash the log began anew at the old one, and acked records were set aside.


@pytest.mark.parametrize("fully", [False, True])
def test_a_lowered_log_start_counts(tmp_path, fully):
    (tmp_path / "meta.properties").write_text("version=1\n")
    (tmp_path / CHECKPOINT).write_text("0\n2\nother 0 7\norders 0 10\n")
    (tmp_path / "orders-0").mkdir()
    log = segstore.open(tmp_path / "orders-0", durability="none")
    assert log.log_start_offset == 10

    if fully:
        log.truncate_fully_and_start_at(5)
    else:
        log.append([(None, b"gone")] * 3)
        log.truncate_to(5)
    log.append([(None, b"acked")] * 3)
    log.close_quietly()

    with segstore.open(tmp_path / "orders-0") as log:
        assert log.log_start_offset == 5
        rows = [(offset, value) for offset, _, _, value in log.scan().tuples()]
        assert rows == [(5, b"acked"), (6, b"acked"), (7, b"acked")]
    assert "other 0 7" in (tmp_path / CHECKPOINT).read_text()


# ---- log start that cannot be --------------------------------------------------------------------
# A log start above the end of a log that was closed cleanly: not believed, and so for good.
#
# Only the clean marker tells. It was taken away first, so a call that failed during the open, or a
# crash, left a log start that the next open believed: it set every record aside. And a read that
# failed while the end was looked for counted as "not clean after all".


NEVER_SYNCED = Settings("none")
OFFSETS_OF_THE_LOG = [0, 1, 2, 3, 4, 5]


@pytest.fixture
def disk():
    return OPENED["with an impossible log start"]().crash_image(fate="lost")


def test_a_crash_at_any_point_of_the_open(disk):
    """[DUR-21, DUR-56]"""
    begun = disk.effects
    with closing(NEVER_SYNCED.open(disk)) as log:
        assert offsets(log) == OFFSETS_OF_THE_LOG
        opened = disk.effects
    assert opened > begun + 2

    for effects in range(begun, opened + 1):
        for seed in range(4):
            found = look(Crash(effects, "seed", seed).image(disk), NEVER_SYNCED).found
            assert (found.log_start, found.log_end) == (0, 6), (effects, seed)


@pytest.mark.parametrize("number", range(1, 12))
def test_a_read_that_fails(disk, number):
    """[DUR-6, DUR-31] Whichever read of the open it is."""
    disk.fail("read_at", number, errno.EIO)
    try:
        NEVER_SYNCED.open(disk).close_quietly()
    except ReadIOError:
        assert look(disk.crash_image(fate="killed"), NEVER_SYNCED).found.log_end == 6

    disk.fail("read_at", 0, 0)
    with closing(NEVER_SYNCED.open(disk)) as log:
        assert offsets(log) == OFFSETS_OF_THE_LOG


def test_a_lost_index_is_still_missed():
    """[DUR-53] The look for the end made it, empty, before anybody asked whether it was there."""
    names = [f"{4:020d}.{kind}" for kind in ("index", "timeindex")]
    disk = without(OPENED["with an impossible log start"](), *names)
    with closing(NEVER_SYNCED.open(disk)) as log:
        assert set(names) <= set(log.report.rebuilt)
        assert log.verify().ok


# ---- log start that was not written --------------------------------------------------------------
# One wrong number in a log-start checkpoint took intact segments away, and then the open refused.
#
# What lay below the log start was unlinked before anybody had looked whether the log is whole, and
# only the newest segment was set aside where all of it lay there.


BASES = (0, 10, 20)
IMPOSSIBLE = "0\n1\ntopic 0 1000\n"


def state_of(path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.glob("*.log")}


@pytest.fixture
def path(tmp_path):
    """Records 0 to 29 of a broker that stopped cleanly, in three segments."""
    path = tmp_path / "topic-0"
    path.mkdir()
    for base in BASES:
        (path / f"{base:020d}.log").write_bytes(b"".join(at(base + i) for i in range(10)))
    (path / LEADER_EPOCH_CHECKPOINT).write_text("0\n1\n0 0\n")
    (tmp_path / CLEAN_SHUTDOWN_MARKER).write_text('{"version":0,"brokerEpoch":3}')
    (tmp_path / "meta.properties").write_text("")
    (tmp_path / LOG_START_OFFSET_CHECKPOINT).write_text(IMPOSSIBLE)
    return path


@pytest.fixture
def own_path(tmp_path):
    """Records 0 to 29 that this library wrote; the number is wrong in the log directory alone."""
    path = tmp_path / "topic-0"
    (tmp_path / "meta.properties").write_text("")
    for name in (LOG_START_OFFSET_CHECKPOINT, RECOVERY_POINT_CHECKPOINT):
        (tmp_path / name).write_text("0\n0\n")
    with segstore.open(path) as log:
        for base in BASES:
            log.append([(None, b"v")] * 10)
            if base < BASES[-1]:
                log.roll()
    (tmp_path / LOG_START_OFFSET_CHECKPOINT).write_text(IMPOSSIBLE)
    return path


def require_refused_as_it_was(path) -> None:
    before = state_of(path)
    for _ in range(2):
        with pytest.raises(CorruptLogError, match="No record was changed"):
            segstore.open(path)
        assert state_of(path) == before
    with segstore.open(path, read_only=True) as log:
        assert log.report.damage is not None


@pytest.mark.parametrize("point", [30, None])
def test_and_the_last_batch_is_torn(path, point):
    """[DUR-6, DUR-51]"""
    if point is not None:
        (path.parent / RECOVERY_POINT_CHECKPOINT).write_text(f"0\n1\ntopic 0 {point}\n")
    newest = path / f"{BASES[-1]:020d}.log"
    newest.write_bytes(newest.read_bytes()[:-5])

    require_refused_as_it_was(path)


def test_and_the_recovery_point_lies_between(path):
    """[DUR-51] Records had been synced that are not there."""
    (path.parent / RECOVERY_POINT_CHECKPOINT).write_text("0\n1\ntopic 0 35\n")

    require_refused_as_it_was(path)


@pytest.mark.parametrize("is_cut", [False, True])
def test_and_a_log_of_ours_has_lost_its_end(own_path, is_cut):
    """[DUR-24, DUR-51] Its marker says where it ended."""
    newest = own_path / f"{BASES[-1]:020d}.log"
    if is_cut:
        newest.write_bytes(newest.read_bytes()[:-5])
    else:
        newest.unlink()

    require_refused_as_it_was(own_path)


@pytest.mark.parametrize("which", ["path", "own_path"])
def test_and_a_sync_had_failed(which, request):
    """[DUR-21, DUR-36] That says nothing of the log start, which the clean stop disproves."""
    path = request.getfixturevalue(which)
    (path / SYNC_FAILED_MARK).touch()

    with segstore.open(path) as log:
        assert offsets(log) == [*range(30)]


def test_and_nothing_disproves_it(path):
    """[DUR-5, LDR-25] No clean stop: the log begins anew, and nothing is gone."""
    (path.parent / CLEAN_SHUTDOWN_MARKER).unlink()
    before = state_of(path)
    with segstore.open(path) as log:
        assert (log.log_start_offset, log.log_end_offset) == (1000, 1000)
        assert any("are in quarantine" in warning for warning in log.report.warnings)

    kept = {file.read_bytes() for file in path.glob("*.quarantine-*")}
    assert kept == {*before.values()}


@pytest.mark.parametrize("number", [1, 2])
def test_an_open_ends_while_all_is_set_aside(path, monkeypatch, number):
    """[DUR-54, DUR-56] What is left then is set aside by the next one, and not taken away."""
    (path.parent / CLEAN_SHUTDOWN_MARKER).unlink()
    before = {*state_of(path).values()}
    real, done = repair.set_aside, []

    def end_at(*arguments) -> None:
        done.append(real(*arguments))
        if len(done) == number:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(repair, "set_aside", end_at)
        with pytest.raises(KeyboardInterrupt):
            segstore.open(path)
    assert state_of(path)
    segstore.open(path).close()

    assert {file.read_bytes() for file in path.glob("*.quarantine-*")} == before


def test_a_copy_that_broke_off_is_refused_each_time(own_path):
    """[DUR-24, DUR-63] The clean marker says that records are missing: a refusal leaves it."""
    (own_path.parent / LOG_START_OFFSET_CHECKPOINT).write_text("0\n0\n")
    (own_path.parent / RECOVERY_POINT_CHECKPOINT).write_text("0\n0\n")
    for name in (RECOVERY_POINT_CHECKPOINT, LEADER_EPOCH_CHECKPOINT):
        (own_path / name).unlink()
    (own_path / f"{BASES[-1]:020d}.log").unlink()

    for _ in range(2):
        with pytest.raises(CorruptLogError, match="had been synced"):
            segstore.open(own_path)


@pytest.mark.parametrize("call", ["rename", "open_file", "file_info_at", "sync_directory"])
@pytest.mark.parametrize("number", range(1, 10))
def test_a_call_fails_while_all_is_set_aside(call, number):
    """[DUR-6, DUR-54] The next open took the lowest segment for deleted, behind one failed call."""
    disk = new_disk()
    directory = Directory("/topic-0", disk, create=True)
    for base in BASES:
        with DataFile(directory, file_name(base, "log"), create=True) as file:
            file.write(0, b"".join(at(base + i) for i in range(10)))
            file.sync(Barrier.RECOVERY_RECORDS)
    content = format_offset_checkpoint({TopicPartition("topic", 0): 1000})
    directory.write_file_atomically(LOG_START_OFFSET_CHECKPOINT, content, FileBarrier.LOG_START)
    disk.fail(call, number, errno.EIO)
    with contextlib.suppress(SegstoreError):
        open_on(disk).close_quietly()
    disk.fail(call, 0, 0)
    open_on(disk).close_quietly()

    kept = [name for name in directory.names() if "quarantine" in name]
    assert len(kept) == len(BASES)


def open_on(disk):
    return open_partition("/topic-0", open_options(), LogEnvironment(environment=disk))


def test_the_open_is_killed_between_the_clean_markers(tmp_path, monkeypatch):
    """[DUR-5, DUR-24] The log directory's alone does not say that the log start is true."""
    with segstore.open_dir(tmp_path) as manager:
        manager.create_topic("topic", 1)
        log = manager.log("topic", 0)
        log.append_as_follower(at(0, 10) + at(10, 10), 0)
        log.delete_records(15)
        log.truncate_to(17)
    real = CleanShutdownFileHandler.delete

    def end_behind(self) -> None:
        real(self)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(CleanShutdownFileHandler, "delete", end_behind)
        with pytest.raises(KeyboardInterrupt):
            segstore.open(tmp_path / "topic-0")

    with segstore.open(tmp_path / "topic-0") as log:
        assert (log.log_start_offset, log.log_end_offset) == (15, 15)
        assert not log.report.set_aside  # the clean marker says that they were deleted


# ---- lost log start ------------------------------------------------------------------------------
# A log-start checkpoint that is lost, beside a clean marker that has the log start too.
#
# The log began at its first segment then: records that were deleted came back, which nobody wanted
# to see again. The marker was looked at for lost files alone.


DELETED = 3
LEFT = [3, 4, 5]


def lost(how):
    disk = closed(*SEGMENTS, ("delete_records", DELETED))
    if how == "gone":
        return without(disk, LOG_START)
    return changed(disk, LOG_START, lambda _: how)


@pytest.mark.parametrize("how", ["gone", b"", b"0\n1\ntopic 0", b"\0" * 40])
@pytest.mark.parametrize("read_only", [True, False])
def test_the_clean_marker_tells_where_the_log_starts(how, read_only):
    """[DUR-19, DUR-21] What was deleted stays deleted, and a warning says what was lost."""
    with closing(NEVER_SYNCED.open(lost(how), read_only=read_only)) as log:
        assert log.log_start_offset == DELETED
        assert offsets(log) == LEFT
        assert log.report.clean
        (warning,) = (text for text in log.report.warnings if "clean shutdown marker" in text)
        assert LOG_START in warning
        assert str(DELETED) in warning


def test_it_is_written_down_before_the_marker_goes():
    """[DUR-21, DUR-56] A crash at any point of the open, and of the one behind it."""
    disk = OPENED["with a lost log start"]()
    begun = disk.effects
    with closing(NEVER_SYNCED.open(disk)) as log:
        assert offsets(log) == LEFT
        opened = disk.effects
    assert opened > begun + 2

    for effects in range(begun, opened + 1):
        for seed in range(4):
            found = look(Crash(effects, "seed", seed).image(disk), NEVER_SYNCED).found
            assert (found.log_start, found.log_end) == (DELETED, 6), (effects, seed)


def test_a_checkpoint_that_says_more_is_believed():
    """[DUR-65] Also that of the log directory: the greater of all that is known."""
    settings = NEVER_SYNCED._replace(in_log_directory=True)
    disk = without(closed(*SEGMENTS, ("delete_records", DELETED), settings=settings), LOG_START)
    with closing(settings.open(disk)) as log:
        assert log.log_start_offset == DELETED
        assert not any("clean shutdown marker" in text for text in log.report.warnings)


def test_without_a_marker_the_log_starts_at_its_first_segment():
    """[DUR-21] Nobody knows better, and the report says what cannot be read."""
    disk = without(lost(b"0\n1\n"), MARKER)
    with closing(NEVER_SYNCED.open(disk)) as log:
        assert log.log_start_offset == 2
        assert any(LOG_START in text for text in log.report.warnings)


def test_a_checkpoint_that_says_something_else_is_not_believed():
    """[DUR-21] A flipped bit in it took segments away; the marker was written behind it."""
    for wrong in (0, 2, 4, 99, 2**63 - 1):
        with closing(NEVER_SYNCED.open(lost(f"0\n1\ntopic 0 {wrong}\n".encode()))) as log:
            assert (log.log_start_offset, offsets(log)) == (DELETED, LEFT)
            assert any(f"log start {wrong};" in text for text in log.report.warnings)
            assert log.report.removed == log.report.set_aside == []


def test_no_flipped_bit_of_a_marker_hides_a_record(one_in):
    """[DUR-8, DUR-51] It has a checksum: one that does not fit is no marker."""
    disk = closed(*SEGMENTS, ("delete_records", 1))
    with closing(Directory("/data/topic-0", disk)) as directory:
        size = len(directory.read_file(MARKER))
    for bit in range(0, 8 * size, one_in(7)):
        with closing(Directory("/data/topic-0", image := disk.crash_image(fate="lost"))):
            changed(image, MARKER, partial(flipped, bit=bit))
        for read_only in (True, False):
            with closing(NEVER_SYNCED.open(image, read_only=read_only)) as log:
                assert (log.log_start_offset, offsets(log)) == (1, [1, 2, 3, 4, 5]), bit


def flipped(content, bit):
    return bytes(byte ^ (number == bit // 8) << bit % 8 for number, byte in enumerate(content))


# ---- unreadable log start is told ----------------------------------------------------------------
# A log start that cannot be read: "everything is checked again", "the next open builds it anew".
#
# It is nowhere else unless the log was closed cleanly: records that were deleted show again.


LOG_START_THAT_IS_LOST = 6


@pytest.fixture(params=["close", "close_quietly"])
def stopped(request, new_log, tmp_path) -> tuple[Path, bool]:
    """Two segments of four records, of which six were deleted; and whether it was closed."""
    log = new_log()
    for number in range(8):
        if number == 4:
            log.roll()
        log.append([(None, b"value %d" % number)])
    log.flush()
    log.delete_records(LOG_START_THAT_IS_LOST)
    getattr(log, request.param)()
    path = tmp_path / "topic-0"
    data = bytearray((path / CHECKPOINT).read_bytes())
    data[0] ^= 0x40
    (path / CHECKPOINT).write_bytes(data)
    return path, request.param == "close"


def test_what_it_means_and_what_to_do(stopped, capsys):
    """[DUR-21, DUR-65] What verify says is what the open then does."""
    path, was_closed = stopped
    (finding,) = check_partition(str(path)).findings
    code = cli.main(["recover", "--dry-run", "-q", str(path)])
    out = capsys.readouterr().out

    assert finding.file == CHECKPOINT
    assert f"[{finding.code}]" in out
    assert (finding.repaired, code) == (True, 0)  # the file can be read then
    if was_closed:
        assert (finding.code, finding.action) == (FindingCode.CHECKPOINT_CORRUPT, Action.RECOVER)
        assert (
            finding.expected
            == f"the log start {LOG_START_THAT_IS_LOST}, as in .kafka_cleanshutdown"
        )
    else:
        assert finding.code == FindingCode.LOG_START_UNKNOWN
        assert (finding.action, finding.expected) == (
            Action.RESTORE_FIRST,
            "an integer up to 2147483647",
        )
    with segstore.open(path) as log:
        assert log.log_start_offset == (LOG_START_THAT_IS_LOST if was_closed else 4)


def test_that_of_the_log_directory(new_log, tmp_path):
    """[DUR-21] The partition has its own: that one stays true."""
    log = new_log()
    log.append([(None, b"x")] * 8)
    log.flush()
    log.delete_records(LOG_START_THAT_IS_LOST)
    log.close_quietly()
    (tmp_path / CHECKPOINT).write_text("what is this\n")

    (finding,) = check_partition(str(tmp_path / "topic-0")).findings

    assert finding.file == f"../{CHECKPOINT}"
    assert finding.expected == f"the log start {LOG_START_THAT_IS_LOST}, as in {CHECKPOINT}"


@pytest.mark.parametrize("above", [4, LOG_START_THAT_IS_LOST, 7])
def test_that_of_the_log_directory_for_the_own(stopped, above):
    """[DUR-21, DUR-65] Of the marker and the checkpoint above the greater one counts."""
    path, was_closed = stopped
    (path.parent / CHECKPOINT).write_text(f"0\n1\ntopic 0 {above}\n")
    start = max(above, LOG_START_THAT_IS_LOST) if was_closed else above
    where = (
        ".kafka_cleanshutdown"
        if was_closed and above <= LOG_START_THAT_IS_LOST
        else f"../{CHECKPOINT}"
    )

    check = check_partition(str(path))

    (finding,) = check.findings
    assert finding.expected == f"the log start {start}, as in {where}"
    may_be_older = not was_closed
    assert (finding.code == FindingCode.LOG_START_UNKNOWN) is may_be_older
    assert (finding.action == Action.RESTORE_FIRST) is may_be_older
    assert check.log_start_offset == start
    with segstore.open(path) as log:
        assert log.log_start_offset == start


def test_a_copy_of_that_of_the_log_directory_helps_after_a_recovery(tmp_path):
    """[DUR-21, DUR-65] After `recover` of the partition "restore it first" was forgotten."""
    path = tmp_path / "data" / "orders-0"
    path.parent.mkdir()
    write_segments(path)
    leave_as_a_broker(path)
    (path.parent / MARKER).unlink()
    above = path.parent / CHECKPOINT
    above.write_text("what is this\n")
    assert cli.main(["recover", "-q", str(path)]) == 1

    (finding,) = check_partition(str(path)).findings
    assert advice(finding, str(path)).startswith(f"restore ../{CHECKPOINT} from a copy, if ")
    above.write_text("0\n1\norders 0 33\n")
    check = check_partition(str(path))
    assert (check.ok, check.log_start_offset) == (True, 33)
    with segstore.open(path) as log:
        assert log.log_start_offset == 33


# ---- moved directory -----------------------------------------------------------------------------
# `mv orders-0 other-0`, or a copy restored under another name, brought deleted records back.


@pytest.fixture
def moved(tmp_path):
    """Nine records, of which five were deleted, in a directory that a shell has renamed."""
    with segstore.open(tmp_path / "orders-0") as log:
        for number in range(9):
            log.append([(None, b"%d" % number)])
        log.delete_records(5)
    (tmp_path / "orders-0").rename(tmp_path / "other-0")
    return tmp_path / "other-0"


@pytest.mark.parametrize("read_only", [True, False])
def test_what_was_deleted_stays_deleted(moved, read_only):
    """[DUR-5, DUR-19] The lines beside the segments are about these very segments."""
    with segstore.open(moved, read_only=read_only) as log:
        assert log.log_start_offset == 5
        assert [record.value for record in log] == [b"5", b"6", b"7", b"8"]
        assert "has lines of orders-0: the directory was renamed" in "\n".join(log.report.warnings)
    with segstore.open(moved) as log:
        log.append([(None, b"9")])
    with segstore.open(moved) as again:
        assert again.log_start_offset == 5
        assert again.report.warnings == []


def test_what_the_recovery_point_says_holds_too(moved):
    """[DUR-51] Below it nothing may be lost: damage there is no torn tail."""
    (moved / ".kafka_cleanshutdown").unlink()
    file = moved / f"{0:020d}.log"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)

    with pytest.raises(segstore.CorruptLogError):
        segstore.open(moved)


# ---- retention without a limit -------------------------------------------------------------------
# ``retention_ms=-1``, Kafka's way to say "for ever", deleted the whole log [RET-7].
#
# Only a properties file turned it into None.


FOR_EVER = [None, -1]
SMALL_SEGMENTS = {"internal_segment_bytes": 2000, "file_delete_delay_ms": 0}


def write(log) -> None:
    for row in range(100):
        log.append([(1000 + row, None, b"%d" % row + b"." * 40)])


@pytest.mark.parametrize("recovery", ["safe", "kafka"])
@pytest.mark.parametrize("limit", FOR_EVER)
def test_no_limit_deletes_nothing(tmp_path, limit, recovery):
    how = {"recovery": recovery, "replicated": False}
    with segstore.open(tmp_path / "a-0", retention_ms=limit, **how, **SMALL_SEGMENTS) as log:
        write(log)
        assert (len(log.delete_old_segments()), log.log_start_offset) == (0, 0)


@pytest.mark.parametrize("limit", FOR_EVER)
def test_nor_does_one_that_is_set_later(tmp_path, limit):
    with segstore.open(tmp_path / "a-0", **SMALL_SEGMENTS) as log:
        write(log)
        log.update_config(LogConfig(retention_ms=limit, **SMALL_SEGMENTS))
        assert (len(log.delete_old_segments()), log.log_start_offset) == (0, 0)
        log.update_config(LogConfig(retention_ms=1000, **SMALL_SEGMENTS))
        assert len(log.delete_old_segments()) > 0
