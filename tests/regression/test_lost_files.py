"""Files that were lost, removed or cut short, and how each tool says so."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore import cli
from segstore._core import Directory
from segstore.cli import main
from segstore.errors import CorruptLogError, LogNotFoundError, LogReadOnlyError, WriteError
from segstore.log.check.partition_check import check_partition
from segstore.log.files.checkpoints import (
    LEADER_EPOCH_CHECKPOINT,
    LOG_STATE,
    RECOVERY_POINT_CHECKPOINT,
    LogState,
)
from segstore.log.files.missing_records_file import read_ranges
from segstore.log.files.partition_directory import file_name
from segstore.log.findings.finding import FindingCode
from segstore.log.findings.finding_text import advice
from segstore.log.recovery.forecast import forecast_open
from segstore.types import EpochEntry
from tests.crash.barrier_scene import new_disk, open_log
from tests.crash.crash_check import Crash, check_crash
from tests.crash.crash_model import Operation
from tests.crash.crash_script import PATH, Settings, run_script
from tests.kits.broker_partition import cut_segment, leave_as_a_broker, segment_file, write_segments
from tests.kits.damaged_logs import batches_of
from tests.kits.directory_kit import disk_with, name_of
from tests.kits.log_kit import at, batch, remove_own_notes, remove_segment

if TYPE_CHECKING:
    from pathlib import Path


# ---- lost first segment --------------------------------------------------------------------------
# A lost first segment counted as "nothing lost": a warning of the open, and no more.
#
# A log may begin above its log start [DUR-54]; but this library notes the log start before it takes
# a file away [DUR-19], so that a log of its own begins there only when files were lost.


MISSING = "records 0 to 2 are missing before it"


def _write(path) -> segstore.UnifiedLog:
    """Open a log with records 0 to 9 in segments 0, 3, 6, 9."""
    log = segstore.open(path)
    for number in range(10):
        log.append([(b"k", b"%d" % number)])
        if number % 3 == 2:
            log.roll()
    return log


def _copy(path, copy) -> None:
    """Copy the files of an open log, as a killed process would leave them."""
    while True:  # files that go while they are copied are none of the log's
        try:
            shutil.copytree(path, copy)
        except shutil.Error:
            shutil.rmtree(copy)
        else:
            return


def _lose(path, base_offset=0) -> None:
    (path / f"{base_offset:020d}.log").unlink()


@pytest.fixture(params=["closed", "killed", "killed before a sync"])
def without_first_segment(request, tmp_path):
    """A log without its first segment."""
    original, path = tmp_path / "one" / "a-0", tmp_path / "two" / "a-0"
    with _write(original) as log:
        if request.param == "killed":
            log.flush()
        _copy(original, path)
    if request.param == "closed":
        shutil.rmtree(path)
        _copy(original, path)
    if request.param == "killed before a sync":
        (path / "recovery-point-offset-checkpoint").unlink(missing_ok=True)
    _lose(path)
    return path


def test_a_writer_refuses_a_lost_first_segment_and_keeps_the_evidence(without_first_segment):
    """[DUR-54]"""
    for _ in range(2):
        with pytest.raises(segstore.CorruptLogError, match=MISSING) as caught:
            segstore.open(without_first_segment)
        assert caught.value.file.endswith(f"{3:020d}.log")
        assert (without_first_segment / f"{0:020d}.index").exists()
        assert (without_first_segment / f"{0:020d}.timeindex").exists()


def test_a_reader_is_told_of_a_lost_first_segment(without_first_segment):
    """[DUR-54, DUR-58] and has what is left."""
    with segstore.open(without_first_segment, read_only=True) as log:
        assert [text for text in log.report.warnings if MISSING in text]
        assert [record.offset for record in log] == list(range(3, 10))
        assert ((0, 2),) in [finding.lost for finding in log.verify().findings]


def test_verify_has_a_finding(without_first_segment, capsys):
    """[DUR-54, DUR-60]"""
    (found, *_) = check_partition(str(without_first_segment)).findings
    assert (found.code, found.lost) == (FindingCode.RECORDS_MISSING, ((0, 2),))
    assert main(["verify", str(without_first_segment)]) == 1
    assert "missing: records 0 to 2" in capsys.readouterr().out


def test_a_salvage_names_the_loss(without_first_segment, tmp_path):
    """[DUR-62]"""
    report = segstore.salvage(without_first_segment, tmp_path / "out" / "a-0")
    assert not report.complete
    assert [(lost.first_offset, lost.next_offset) for lost in report.lost] == [(0, 3)]
    with segstore.open(tmp_path / "out" / "a-0") as log:
        assert [record.offset for record in log] == list(range(3, 10))


def test_a_log_without_our_notes_may_begin_anywhere(without_first_segment, tmp_path):
    """[DUR-54, DUR-64] As a broker's, which takes all files of a segment, and notes that later."""
    remove_own_notes(without_first_segment)
    remove_segment(without_first_segment, 0)
    assert segstore.salvage(without_first_segment, tmp_path / "out" / "a-0").complete
    with segstore.open(without_first_segment) as log:
        assert [record.offset for record in log] == list(range(3, 10))
        assert log.verify().ok


def test_what_a_broker_deleted_is_not_lost(without_first_segment):
    """[EPC-6, DUR-19] It moves the first epoch with the log start, whose checkpoint comes later."""
    (without_first_segment / "leader-epoch-checkpoint").write_text("0\n1\n0 3\n")
    (without_first_segment / ".segstore").write_text(
        "version 0\ncontiguous_from 0\nepochs_ordered_from 0\nlatest_epoch 0 3\n"
    )
    for _ in range(2):
        with segstore.open(without_first_segment) as log:
            assert log.report.warnings == [
                text for text in log.report.warnings if "recovery point" in text
            ]
            assert log.log_start_offset == 3
    assert "contiguous_from 3\n" in (without_first_segment / ".segstore").read_text()


@pytest.mark.parametrize("is_closed", [False, True])
@pytest.mark.parametrize("offset", [3, 5, 10])
def test_deleted_records_are_not_lost(tmp_path, offset, is_closed):
    """[DUR-19] Neither where the files are gone nor where a crash came before that."""
    path, copy = tmp_path / "one" / "a-0", tmp_path / "two" / "a-0"
    with _write(path) as log:
        log.delete_records(offset)
        _copy(path, copy)
    path = path if is_closed else copy
    for lost in (0, 3, 6):  # those below the log start may be there, or not
        if lost + 3 <= offset:
            with contextlib.suppress(FileNotFoundError):
                _lose(path, lost)
    assert not check_partition(str(path)).findings
    with segstore.open(path, read_only=True) as log:
        assert log.verify().ok
        assert not [text for text in log.report.warnings if "missing" in text]
    with segstore.open(path) as log:
        assert [record.offset for record in log] == list(range(offset, 10))


def test_a_lost_log_start_is_no_lost_segment(tmp_path):
    """[DUR-21, DUR-24] The clean marker has it too, and the first leader epoch moved with it."""
    path = tmp_path / "a-0"
    with _write(path) as log:
        log.delete_records(3)
    (path / "log-start-offset-checkpoint").unlink()
    copy = tmp_path / "two" / "a-0"
    shutil.copytree(path, copy)
    (copy / ".kafka_cleanshutdown").unlink()
    for one in (path, copy):
        with segstore.open(one) as log:
            assert [record.offset for record in log] == list(range(3, 10))


def test_a_log_that_was_emptied_to_go_on_above_its_start(tmp_path):
    """[TRU-4, DUR-18] Nothing between log start and first segment was ever there.

    The log start is the first segment's now; an earlier version noted the one that it was given.
    """
    path, copy = tmp_path / "one" / "a-0", tmp_path / "two" / "a-0"
    with _write(path) as log:
        assert log._background.wait_until_idle()  # else it writes a recovery point above that
        log.truncate_fully_and_start_at(100, 5)
        _copy(path, copy)
        log.append([(b"k", b"v")])
    with segstore.open(path) as log:
        assert [record.offset for record in log] == [100]
    assert "contiguous_from 0\n" in (copy / ".segstore").read_text()
    log_start = (copy / "log-start-offset-checkpoint").read_text()
    assert log_start.endswith("a 0 100\n")
    (copy / "log-start-offset-checkpoint").write_text(log_start.replace("0 100\n", "0 5\n"))
    (copy / "recovery-point-offset-checkpoint").write_text("0\n1\na 0 0\n")
    with segstore.open(copy) as log:
        assert log.append([(b"k", b"v")]).base_offset == 100


# ---- lost segments of a log directory ------------------------------------------------------------
# A segment lost beside the clean marker of the log directory counted as deleted by a broker.
#
# The next open forgot what ``.segstore`` says, removed all checksum sidecars, and each command said
# that the log was clean. Of a lost first segment no command said a word.


@pytest.fixture
def managed(tmp_path):
    """A partition with records 0 to 9 in segments 0, 3, 6, 9, which a manager has closed."""
    with segstore.open_dir(tmp_path / "data", checksum_sidecar=True) as manager:
        manager.create_topic("a")
        log = manager.log("a", 0)
        for number in range(10):
            log.append([(b"k", b"%d" % number)])
            if number % 3 == 2:
                log.roll()
        log.write_checksum_sidecars()
    return tmp_path / "data" / "a-0"


def _answers(path, capsys) -> list[tuple[str, list[list[int]]]]:
    assert main(["verify", "-q", "--json", str(path)]) == 1
    findings = json.loads(capsys.readouterr().out)["findings"]
    return [(one["code"], one["lost"]) for one in findings]


@pytest.mark.parametrize("whole_directory", [False, True])
@pytest.mark.parametrize("base_offset", [0, 3, 6])
def test_a_lost_segment_of_a_log_directory_stays_a_finding(
    managed, capsys, base_offset, whole_directory
):
    """[DUR-54] `recover` says it, and each check after that."""
    remove_segment(managed, base_offset)
    before = _answers(managed, capsys)
    assert before == [("RECORDS_MISSING", [[base_offset, base_offset + 2]])]

    for _ in range(2):
        assert main(["recover", "-q", str(managed.parent if whole_directory else managed)]) == 1
        capsys.readouterr()
        assert _answers(managed, capsys) == before


def test_a_sidecar_that_shows_a_loss_stays(managed, capsys):
    """[DUR-60] Nothing else is left that shows it: an open removed all sidecars."""
    file = managed / f"{3:020d}.log"
    os.truncate(file, batches_of(file)[-1].position)
    for kind in ("index", "timeindex"):
        file.with_suffix(f".{kind}").unlink()
    sidecar = file.with_suffix(".segsum")

    def shown() -> list[str]:
        return [code for code, _ in _answers(managed, capsys) if code == "SIDECAR_DIFFERS"]

    assert shown() == ["SIDECAR_DIFFERS"]
    assert main(["recover", "-q", str(managed)]) == 1
    capsys.readouterr()
    assert shown() == ["SIDECAR_DIFFERS"]
    assert sidecar.exists()


def test_a_broker_that_appended_in_the_same_epoch_may_have_left_gaps(managed):
    """[DUR-64] As a follower: `verify` believes ``.segstore`` where an open believes it."""
    with segstore.open(managed) as log:
        size = (managed / f"{9:020d}.log").stat().st_size
        log.append([(b"k", b"of the broker")])
    remove_segment(managed, 3)
    (managed / f"{3:020d}.segsum").unlink()
    marker = managed / ".kafka_cleanshutdown"
    text = json.loads(marker.read_bytes())
    text.pop("crc")
    marker.write_text(json.dumps({**text, "logEndOffset": 10, "activeSizeInBytes": size}))
    (managed.parent / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":7}')

    assert check_partition(str(managed)).findings == []
    segstore.open(managed).close()
    assert check_partition(str(managed)).findings == []


# ---- lost log files ------------------------------------------------------------------------------
# Acknowledged records, a crash, and the only ``.log`` is gone: the open said "new log", clean.
#
# It also unlinked the ``.log.deleted`` that could have brought the records back.


LOG = f"{0:020d}.log"
CHECKPOINT = "leader-epoch-checkpoint"


@pytest.fixture
def one_durable_segment(tmp_path):
    """A log of ten durable records in one segment, whose process was killed."""
    path = tmp_path / "a-0"
    log = segstore.open(path, index_interval_bytes=1)
    for _ in range(10):
        log.append([(b"k", b"v")])
    assert log.durable_offset == 10
    log.close_quietly()
    return path


def _files(path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.iterdir()}


def _check_refused(path, match: str) -> None:
    before = _files(path)
    for _ in range(2):
        with pytest.raises(segstore.CorruptLogError, match=match) as caught:
            segstore.open(path)
        assert caught.value.file == str(path)
        assert "estore the directory from a copy" in str(caught.value)
        assert isinstance(forecast_open(path).error, segstore.CorruptLogError)
    assert _files(path) == before


def test_a_log_that_vanished_is_a_loss(one_durable_segment):
    """[DUR-51, DUR-54]"""
    (one_durable_segment / LOG).unlink()
    _check_refused(
        one_durable_segment, r"no \.log file, but \.segstore shows that there were records"
    )


def test_a_log_renamed_to_deleted_is_kept_and_named(one_durable_segment):
    """[DUR-54, DUR-55] Renamed back it is opened again."""
    (one_durable_segment / LOG).rename(one_durable_segment / f"{LOG}.deleted")
    _check_refused(
        one_durable_segment, rf"{LOG}\.deleted holds records.*Rename it to {LOG} and open the log"
    )
    (one_durable_segment / f"{LOG}.deleted").rename(one_durable_segment / LOG)
    with segstore.open(one_durable_segment) as log:
        assert [record.offset for record in log] == list(range(10))


def test_a_leader_epoch_checkpoint_alone_shows_it(one_durable_segment):
    """[DUR-54]"""
    (one_durable_segment / LOG).unlink()
    (one_durable_segment / ".segstore").write_text(
        "version 0\ncontiguous_from 0\nepochs_ordered_from 0\n"
    )
    _check_refused(one_durable_segment, f"{CHECKPOINT} shows")


def test_index_entries_alone_show_it(one_durable_segment):
    """[DUR-54, LDR-11]"""
    (one_durable_segment / LOG).unlink()
    (one_durable_segment / CHECKPOINT).write_text("0\n0\n")
    (one_durable_segment / ".segstore").write_text(
        "version 0\ncontiguous_from 0\nepochs_ordered_from 0\n"
    )
    _check_refused(one_durable_segment, r"0\.index shows")


def test_a_log_that_never_had_a_record_is_new(tmp_path):
    """[DUR-11] Nothing shows of any."""
    path = tmp_path / "a-0"
    segstore.open(path).close_quietly()
    (path / LOG).unlink()
    with segstore.open(path) as log:
        assert log.report.created
        assert log.append([(b"k", b"v")]).base_offset == 0


def test_a_directory_that_is_not_ours_is_new(one_durable_segment):
    """[DUR-64] A broker renames every ``.log`` before it makes the next one."""
    (one_durable_segment / LOG).rename(one_durable_segment / f"{LOG}.deleted")
    (one_durable_segment / ".segstore").unlink()
    (one_durable_segment / "recovery-point-offset-checkpoint").unlink(missing_ok=True)
    with segstore.open(one_durable_segment) as log:
        assert log.report.created


def test_a_full_truncation_notes_what_it_is_about_to_do(one_durable_segment):
    """[DUR-18] And takes the note back; an open does so too."""
    with segstore.open(one_durable_segment) as log:
        log.truncate_fully_and_start_at(7)
        state = LogState.read(log._directory)
        assert state is not None
        assert not state.is_being_emptied
        noted = replace(state, is_being_emptied=True).format()
        assert b"\nbeing_emptied\n" in noted
        parsed = LogState.parse(noted)
        assert parsed is not None
        assert parsed.is_being_emptied
        assert parsed.format() == noted
        log.append([(b"k", b"v")])
    (one_durable_segment / ".segstore").write_bytes(noted)
    with segstore.open(one_durable_segment) as log:
        assert [record.offset for record in log] == [7]
    assert "being_emptied" not in (one_durable_segment / ".segstore").read_text()


def test_a_crash_in_a_full_truncation_with_epochs():
    """[DUR-18, TRU-4] Whatever it left is opened: the old log or the new one."""
    operations = [
        Operation("new_epoch"),
        Operation("append", 3),
        Operation("flush"),
        Operation("truncate_fully_and_start_at", 5),
        Operation("append", 2),
    ]
    run = run_script(operations, Settings(segment_bytes=100_000))
    step = run.steps[3]
    for effects in range(step.begin, step.end + 1):
        for seed in range(5):
            check_crash(run, Crash(effects, "seed", seed))
        check_crash(run, Crash(effects, "lost"))
        check_crash(run, Crash(effects, "kept"))


def test_transactions_of_a_lost_log(tmp_path):
    """[DUR-54] Their index shows it as well."""
    path = tmp_path / "t-0"
    log = segstore.open(path)
    log.close_quietly()
    (path / LOG).unlink()
    (path / f"{0:020d}.txnindex").write_bytes(bytes(33) + b"\1")
    _check_refused(path, "shows")


def test_epochs_that_are_no_file_are_no_sign_of_a_new_log(tmp_path):
    """[DUR-6, DUR-54] A read that said so of the file began a new log, in which none could write.

    Found by failing every call at this place, with ELOOP among others [DUR-111].
    """
    path = tmp_path / "t-0"
    segstore.open(path).close_quietly()
    (path / LOG).unlink()
    (path / CHECKPOINT).unlink(missing_ok=True)
    (path / CHECKPOINT).mkdir()

    with pytest.raises(segstore.NotALogError):
        segstore.open(path)
    assert not (path / LOG).exists()


def test_epochs_that_are_no_file_hide_no_loss(one_durable_segment):
    """[DUR-54] What else shows that there were records is told first."""
    (one_durable_segment / LOG).unlink()
    (one_durable_segment / CHECKPOINT).unlink()
    (one_durable_segment / CHECKPOINT).mkdir()

    with pytest.raises(segstore.CorruptLogError, match="shows that there were records"):
        segstore.open(one_durable_segment)


# ---- lost segment in the middle ------------------------------------------------------------------
# A lost middle segment went unnoticed, and the open removed what was left of it.
#
# A clean open looked at the active segment only, reads stepped from one segment to the next without
# a look at the offsets, and index files without their ``.log`` were removed first of all [DUR-54,
# DUR-79, LDR-11].


LOST = f"{3:020d}"


@pytest.fixture
def without_middle_segment(tmp_path):
    """Records 0 to 9 in segments 0, 3, 6, 9, closed cleanly; the segment of 3 to 5 is gone."""
    path = tmp_path / "mid" / "a-0"
    with segstore.open(path) as log:
        for number in range(10):
            log.append([(b"k", b"%d" % number)])
            if number % 3 == 2:
                log.roll()
    (path / f"{LOST}.log").unlink()
    return path


def test_a_writer_refuses_a_lost_middle_segment_and_keeps_the_evidence(without_middle_segment):
    """[DUR-54]"""
    for _ in range(2):
        with pytest.raises(segstore.CorruptLogError, match="records 3 to 5 are missing"):
            segstore.open(without_middle_segment)
        found = sorted(file.suffix for file in without_middle_segment.glob(f"{LOST}.*"))
        assert found == [".index", ".snapshot", ".timeindex"]


@pytest.mark.parametrize("first_by_a_writer", [False, True])
def test_a_reader_is_told_of_a_lost_middle_segment(without_middle_segment, first_by_a_writer):
    """[DUR-54, DUR-79] With the clean marker, and after a writer that failed took it."""
    if first_by_a_writer:
        with pytest.raises(segstore.CorruptLogError):
            segstore.open(without_middle_segment)
    with segstore.open(without_middle_segment, read_only=True) as log:
        assert [text for text in log.report.warnings if "records 3 to 5 are missing" in text]
        report = log.verify()
        assert ((3, 5),) in [finding.lost for finding in report.findings]
        seen = []
        with pytest.raises(segstore.CorruptLogError, match="records 3 to 5") as caught:
            seen.extend(record.offset for record in log)
        assert seen == [0, 1, 2]
        assert caught.value.file.endswith(f"{6:020d}.log")
        for reading in (log.scan().tuples, log.scan().count, lambda: log.read(3, 1000)):
            with pytest.raises(segstore.CorruptLogError, match="records 3 to 5"):
                reading()
        assert [record.offset for record in log.scan(6)] == [6, 7, 8, 9]
        assert [record.offset for record in log.scan(0, 3)] == [0, 1, 2]
        assert log.read(6, 1000).fetch_offset_metadata.message_offset == 6


def test_lost_while_the_log_was_open(without_middle_segment):
    """[DUR-54] Without a clean marker as well."""
    (without_middle_segment / ".kafka_cleanshutdown").unlink()
    with pytest.raises(segstore.CorruptLogError, match="records 3 to 5 are missing"):
        segstore.open(without_middle_segment)


def test_a_lost_segment_of_a_log_directory(tmp_path):
    """[DUR-54] A log directory that this library closed is known to be without a gap."""
    with segstore.open_dir(tmp_path) as manager:
        manager.create_topic("a")
        log = manager.log("a", 0)
        for number in range(10):
            log.append([(b"k", b"%d" % number)])
            if number % 3 == 2:
                log.roll()
    with segstore.open_dir(tmp_path) as manager:
        assert manager.log("a", 0).report.clean
        assert "contiguous_from 0\n" in (tmp_path / "a-0" / ".segstore").read_text()


def test_gaps_of_a_broker_are_legal(without_middle_segment):
    """[DUR-64] Where nothing says that the log is contiguous, compaction may have been there."""
    remove_own_notes(without_middle_segment)
    remove_segment(without_middle_segment, 3)
    with segstore.open(without_middle_segment, read_only=True) as log:
        assert [record.offset for record in log] == [0, 1, 2, 6, 7, 8, 9]
        assert log.verify().ok
    with segstore.open(without_middle_segment) as log:
        assert [record.offset for record in log] == [0, 1, 2, 6, 7, 8, 9]


@pytest.mark.parametrize("is_clean", [True, False])
def test_an_index_without_its_log_shows_what_is_missing(without_middle_segment, tmp_path, is_clean):
    """[DUR-7, DUR-54] Of a broker's log it proved nothing, and the next open removed it."""
    remove_own_notes(without_middle_segment)
    if is_clean:
        marker = without_middle_segment.parent / ".kafka_cleanshutdown"
        marker.write_text('{"version":0,"brokerEpoch":1}')

    def told() -> list[tuple[int, int]]:
        """Return what a reader and `verify` say, and a salvage."""
        with segstore.open(without_middle_segment, read_only=True) as log:
            (found,) = log.missing_records()
            with pytest.raises(CorruptLogError):
                list(log)
            assert [one.lost for one in log.verify().findings if one.lost] == [((3, 5),)]
        target = tmp_path / "saved" / "a-0"
        (lost,) = segstore.salvage(without_middle_segment, target).lost
        shutil.rmtree(target.parent)
        return [(found.first_offset, found.next_offset), (lost.first_offset, lost.next_offset)]

    assert told() == [(3, 6), (3, 6)]
    with segstore.open(without_middle_segment) as log:
        log.append([(None, b"next")])
        assert log.log_end_offset == 11
    assert not list(without_middle_segment.glob(f"{LOST}.*"))
    assert told() == [(3, 6), (3, 6)]
    assert main(["recover", "-q", str(without_middle_segment)]) == 1
    assert told() == [(3, 6), (3, 6)]


@pytest.mark.parametrize("gone", [False, True])
def test_an_index_of_a_segment_that_was_being_deleted_shows_nothing(without_middle_segment, gone):
    """[LDR-11, DUR-55] A broker was killed between the renames: the ``.log`` is `.deleted`."""
    remove_own_notes(without_middle_segment)
    deleted = without_middle_segment / f"{LOST}.log.deleted"
    deleted.write_bytes(b"")
    if gone:
        (without_middle_segment / f"{LOST}.timeindex").unlink()
    going = forecast_open(without_middle_segment).report.removed
    assert going.index(deleted.name) == len(list(without_middle_segment.glob(f"{LOST}.*index")))
    for door in ("verify", "ls", "recover"):
        assert main([door, *(["-q"] if door != "ls" else []), str(without_middle_segment)]) == 0
    assert not list(without_middle_segment.glob(f"{LOST}.*"))
    with segstore.open(without_middle_segment) as log:
        assert log.missing_records() == []


def test_a_gap_that_a_follower_made_is_legal(tmp_path):
    """[DUR-64] Kept offsets may jump; what is behind is contiguous."""
    with segstore.open(tmp_path / "a-0") as leader, segstore.open(tmp_path / "b-0") as follower:
        leader.append([(None, b"0")])
        follower.append_as_follower(bytes(leader.read(0, 1000).records), 0)
        leader.append([(None, b"1")])
        leader.append([(None, b"2")])
        follower.roll()
        follower.append_as_follower(bytes(leader.read(2, 1000).records), 0)
        assert [record.offset for record in follower] == [0, 2]
        assert follower.verify().ok
    with segstore.open(tmp_path / "b-0") as follower:
        assert [record.offset for record in follower] == [0, 2]


@pytest.mark.parametrize("first_by_a_reader", [False, True])
def test_a_lost_recovery_point_takes_no_segment_along(without_middle_segment, first_by_a_reader):
    """[DUR-24, DUR-54, DUR-63] The clean marker knew that all of it was safe.

    The later segments were set aside, as if a crash had left them behind a hole.
    """
    (without_middle_segment / "recovery-point-offset-checkpoint").unlink()
    if first_by_a_reader:
        with segstore.open(without_middle_segment, read_only=True) as log:
            assert [text for text in log.report.warnings if "records 3 to 5 are missing" in text]
            assert [record.offset for record in log.scan(6)] == [6, 7, 8, 9]
    for _ in range(2):
        with pytest.raises(segstore.CorruptLogError, match="records 3 to 5 are missing"):
            segstore.open(without_middle_segment)
    assert not list(without_middle_segment.glob("*quarantine*"))


def test_a_lost_recovery_point_and_a_short_tail(without_middle_segment):
    """[DUR-51, DUR-63] Records that were there at a clean close are missing, not torn."""
    (without_middle_segment / "recovery-point-offset-checkpoint").unlink()
    (without_middle_segment / f"{9:020d}.log").write_bytes(b"")
    for segment in (3, 6):
        for file in without_middle_segment.glob(f"{segment:020d}.*"):
            file.unlink()

    with pytest.raises(segstore.CorruptLogError, match="are missing"):
        segstore.open(without_middle_segment)


# ---- lost state is told --------------------------------------------------------------------------
# ``.segstore`` was lost, or one of its bytes flipped, and no tool said a word.
#
# From then on a lost segment counted as deleted or compacted away: verify said "clean", salvage
# that nothing was lost, a reader went on behind the hole, and the next open took the last traces
# away.


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
def four_segments(tmp_path, is_closed):
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
def test_the_loss_itself_is_told(four_segments, lose, told, capsys):
    """[DUR-7, DUR-64] By readers, verify, the open and salvage; nothing else is wrong."""
    lose(four_segments / LOG_STATE)
    with segstore.open(four_segments, read_only=True) as log:
        assert log.report.lost_state == told
        assert any(text.startswith(told) for text in log.report.warnings)
        assert (log.report.maybe_missing, log.report.damage) == (None, None)
    assert main(["verify", str(four_segments)]) == 1
    found = printed(capsys)
    assert "1 finding;" in found
    assert "[STATE_MISSING]" in found
    assert told in found
    assert main(["salvage", str(four_segments), str(four_segments.parent / "s-0")]) == 0
    found = printed(capsys)
    assert "nothing was lost" in found
    assert told in found
    assert main(["recover", str(four_segments)]) == 0
    assert told in printed(capsys)

    with segstore.open(four_segments) as log:
        assert (log.report.lost_state, len(list(log))) == (None, RECORDS)
    assert main(["verify", str(four_segments)]) == 0


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
def test_lost_segments_are_missed(four_segments, numbers, missing, has_epochs, capsys):
    """[DUR-7, DUR-8] Nobody can tell whether they were deleted: the log is read and written."""
    (garble if has_epochs else os.remove)(four_segments / LOG_STATE)
    if not has_epochs:
        (four_segments / LEADER_EPOCH_CHECKPOINT).unlink()
    for number in numbers:
        remove_segment(four_segments, 4 * number)
    kept = [offset for offset in range(RECORDS) if offset // 4 not in numbers]
    with segstore.open(four_segments, read_only=True) as log:
        assert missing in str(log.report.maybe_missing)
        assert [record.offset for record in log] == kept
    assert main(["verify", str(four_segments)]) == 1
    assert missing in printed(capsys)
    assert main(["salvage", str(four_segments), str(four_segments.parent / "s-0")]) == 0
    salvaged = printed(capsys)
    assert "nothing was lost" not in salvaged
    first, _, last = missing.split(",")[0].removeprefix("records ").split(" ")[:3]
    assert f"no file holds the offsets {first} to {last}" in salvaged
    assert main(["recover", str(four_segments)]) == 1
    assert missing in printed(capsys)
    with segstore.open(four_segments) as log:
        assert [record.offset for record in log] == kept


@CLOSES
@LOSSES
def test_deleted_records_are_not_missed(four_segments, lose, told):
    """[DUR-19] The log start tells that they were."""
    with segstore.open(four_segments, file_delete_delay_ms=0) as log:
        assert log.delete_records(9) == 9
    lose(four_segments / LOG_STATE)
    for read_only in (True, False):
        with segstore.open(four_segments, read_only=read_only) as log:
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
def test_what_another_profile_takes_away_is_not_lost(place, few_or_many):
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
        for seed in range(few_or_many(2, 8)):
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
def test_verify_of_a_handle_tells_it_too(four_segments, lose, told, first):
    """[DUR-7] As `segstore verify` does: it said "all good", and of a lost segment too."""
    lose(four_segments / LOG_STATE)
    with segstore.open(four_segments, read_only=True) as log:
        found = log.verify()
        assert [(one.code, one.found) for one in found.findings] == [
            (FindingCode.STATE_MISSING, told)
        ]
    remove_segment(four_segments, first)
    for read_only in (True, False):  # the handle that goes on without them knows of them
        with segstore.open(four_segments, read_only=read_only) as log:
            (found,) = log.verify().findings
            assert found.code == FindingCode.RECORDS_MAYBE_MISSING
            assert found.found == log.report.maybe_missing
    with segstore.open(four_segments) as log:
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
def test_verify_of_a_handle_speaks_of_the_log_that_there_is(four_segments, change, is_ok):
    """[DUR-7] What was deleted, or cut, since is not missed any more."""
    garble(four_segments / LOG_STATE)
    (four_segments / f"{4:020d}.log").unlink()
    with segstore.open(four_segments) as log:
        assert not log.verify().ok
        change(log)
        assert log.verify().ok is is_ok


# ---- records that an index names -----------------------------------------------------------------
# A sealed ``.log`` was shorter than its index: the index was called damaged, and built again.
#
# Such a file is what a copy of a live partition has, where the ``.log`` was copied before its
# index. The index was the only proof that records are missing: after `recover` every command said
# that the log was clean, and a salvage said that nothing was lost (operator case 04).


@pytest.fixture(params=["clean", "unclean", "alone"])
def partition_of_a_broker(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A broker's partition: with its marker, without it, and without its log directory's files."""
    path = tmp_path / "data" / "orders-0"
    path.parent.mkdir()
    write_segments(path)
    leave_as_a_broker(path)
    if request.param != "clean":
        (path.parent / ".kafka_cleanshutdown").unlink()
    if request.param == "alone":
        (path.parent / "recovery-point-offset-checkpoint").unlink()
    return path


def lost(path: Path) -> list[tuple[int, int | None]]:
    """What a salvage says is lost; it leaves nothing open."""
    target = path.parent.parent / "salvaged" / path.name
    shutil.rmtree(target, ignore_errors=True)
    report = segstore.salvage(path, target)
    assert report.maybe_lost == []
    return [(one.first_offset, one.next_offset) for one in report.lost]


def open_and_close(path: Path) -> None:
    """As `segstore recover` does first."""
    segstore.open(path).close()


@pytest.mark.parametrize("first", [20, 30])
def test_a_salvage_says_the_same_after_a_recovery(partition_of_a_broker: Path, first: int):
    """[DUR-7, DUR-54] A recovery without a clean marker rebuilds indexes."""
    cut_segment(partition_of_a_broker, batches=first - 20)

    assert lost(partition_of_a_broker) == [(first, 40)]
    for _ in range(2):
        open_and_close(partition_of_a_broker)
        assert lost(partition_of_a_broker) == [(first, 40)]


@pytest.mark.parametrize("kind", ["index", "timeindex"])
def test_one_of_the_two_indexes_is_proof_enough(partition_of_a_broker: Path, kind: str):
    """[DUR-8] The other one is lost, and is rebuilt by the next open for writing."""
    cut_segment(partition_of_a_broker)
    segment_file(partition_of_a_broker, 20, kind).unlink()

    assert lost(partition_of_a_broker) == [(30, 40)]
    open_and_close(partition_of_a_broker)
    assert segment_file(partition_of_a_broker, 20, kind).exists()
    assert lost(partition_of_a_broker) == [(30, 40)]


def test_padding_hides_no_proof(partition_of_a_broker: Path):
    """[DUR-80] Zeros behind the entries of both, as operator case 01 has them."""
    cut_segment(partition_of_a_broker)
    for kind in ("index", "timeindex"):
        with segment_file(partition_of_a_broker, 20, kind).open("ab") as index:
            index.write(bytes(240))

    assert lost(partition_of_a_broker) == [(30, 40)]


def test_commands_that_look_at_the_log_name_them(
    partition_of_a_broker: Path, capsys: pytest.CaptureFixture[str]
):
    """[DUR-7] With exit code 1, before and after a recovery; a log that is whole has 0."""
    commands = (
        ["ls"],
        ["inspect", "-q"],
        ["cat", "-q"],
        ["verify", "-q"],
        ["scrub", "-q", "--json"],
        ["recover", "-q", "--dry-run"],
        ["recover", "-q"],
    )
    assert [cli.main([*command, str(partition_of_a_broker)]) for command in commands[:-2]] == [
        0
    ] * 5
    capsys.readouterr()
    cut_segment(partition_of_a_broker)
    for _ in range(2):
        for command in commands:
            assert cli.main([*command, str(partition_of_a_broker)]) == 1
            captured = capsys.readouterr()
            assert "30 to 39" in captured.out + captured.err, command


@pytest.mark.parametrize("gone", [0, 20])
def test_a_lost_segment_after_a_gap_and_the_first_one(
    partition_of_a_broker: Path, capsys: pytest.CaptureFixture[str], gone: int
):
    """[DUR-7, DUR-54] Only an index with the offset after the segment before it was asked.

    Compaction leaves such a gap, and before the first segment there is none. verify called the log
    clean, and an open for writing removed the index.
    """
    first = gone
    if gone:
        first = 17
        cut_segment(partition_of_a_broker, 0, batches=first)
        for kind in ("index", "timeindex"):
            segment_file(partition_of_a_broker, 0, kind).unlink()
        assert main(["recover", "-q", str(partition_of_a_broker)]) == 0
    segment_file(partition_of_a_broker, gone, "log").unlink()

    for _ in range(2):
        found = [
            lost
            for one in check_partition(str(partition_of_a_broker)).findings
            for lost in one.lost
        ]
        assert found == [(first, gone + 19)]
        assert lost(partition_of_a_broker) == [(first, gone + 20)]
        for command in ("ls", "cat", "recover"):
            assert main([command, str(partition_of_a_broker)]) == 1
        assert f"{first} to {gone + 19}" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["index", "timeindex"])
def test_an_index_shows_that_all_log_files_are_lost(
    partition_of_a_broker: Path, capsys: pytest.CaptureFixture[str], kind: str
):
    """[DUR-7, DUR-54] verify called the log clean, and an open for writing began a new one."""
    lost_kinds = {"log", "index", "timeindex"} - {kind}
    for name in lost_kinds:
        for file in partition_of_a_broker.glob(f"*.{name}"):
            file.unlink()
    before = _files(partition_of_a_broker)
    path = str(partition_of_a_broker)

    for command in (["verify"], ["scrub"], ["recover", "--dry-run"], ["recover"], ["verify"]):
        assert main([*command, "-q", "--json", path]) == 1
        said = json.loads(capsys.readouterr().out)
        (found,) = said["not_repaired" if command == ["recover"] else "findings"]
        assert found["records"] == "MISSING"
        assert found["lost"][0][0] == 0
        assert found["code"] in {"RECORDS_MISSING", "RECOVERY_POINT_ABOVE_END"}
    with pytest.raises(CorruptLogError, match=r"there is no \.log file, but"):
        segstore.open(path)
    assert {**before, ".lock": b""} == {**_files(partition_of_a_broker), ".lock": b""}


def last_log_lost(path: Path) -> Path:
    """Remove the last ``.log``, and all that says where the log ended; return its index."""
    for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
        (path.parent / name).unlink(missing_ok=True)
    last = max(path.glob("*.log"))
    last.unlink()
    return last.with_suffix(".index")


def test_an_index_after_the_end_shows_that_records_may_be_lost(partition_of_a_broker: Path):
    """[DUR-7, DUR-54] verify called the log clean, and an open for writing removed the index."""
    path = partition_of_a_broker
    index = last_log_lost(path)
    base, content = int(index.stem), index.read_bytes()
    kept = f"{index.name}.quarantine-1"
    assert kept in forecast_open(path).report.quarantined

    for _ in range(2):
        (found,) = check_partition(str(path)).findings
        assert (found.code, found.file) == ("RECORDS_MAYBE_MISSING", f"{index.stem}.log")
        assert found.lost == ((base, None),)
        assert main(["verify", "-q", str(path)]) == 1
        assert main(["recover", "-q", str(path)]) == 1
    assert (path / kept).read_bytes() == content
    with segstore.open(path) as log:
        assert log.append([(None, b"goes on")]).base_offset == base
    assert check_partition(str(path)).ok


def test_a_salvage_names_what_an_index_after_the_end_names(
    partition_of_a_broker: Path, tmp_path: Path
):
    """[DUR-7, DUR-62] "Nothing was lost", where verify says that records may be missing."""
    base = int(last_log_lost(partition_of_a_broker).stem)

    report = segstore.salvage(partition_of_a_broker, tmp_path / "new" / "orders-0")

    ((first, end),) = report.maybe_lost
    assert first == base < end == report.log_end_offset


def test_an_index_without_entries_shows_no_loss(partition_of_a_broker: Path):
    """[DUR-7] A power cut just after a roll leaves one without its ``.log``."""
    index = last_log_lost(partition_of_a_broker)
    for file in (index, index.with_suffix(".timeindex")):
        file.write_bytes(bytes(240))

    assert check_partition(str(partition_of_a_broker)).ok
    with segstore.open(partition_of_a_broker) as log:
        assert log.report.quarantined == []


def test_the_index_of_a_first_segment_that_was_deleted_shows_nothing(partition_of_a_broker: Path):
    """[DUR-18] A broker renames the ``.log`` first; it was killed before it renamed the others."""
    log = segment_file(partition_of_a_broker, 0, "log")
    log.rename(log.with_name(f"{log.name}.deleted"))
    assert check_partition(str(partition_of_a_broker)).findings == []
    assert lost(partition_of_a_broker) == []


@pytest.mark.parametrize("damaged", [0, 4, 9])
def test_damage_before_the_cut_hides_no_proof(partition_of_a_broker: Path, damaged: int):
    """[DUR-7, DUR-51] verify reported the damaged batch, and not the records behind it."""
    log = segment_file(partition_of_a_broker, 20, "log")
    with log.open("r+b") as file:
        file.seek(batches_of(log)[damaged].end - 1)
        file.write(b"\xff")
    cut_segment(partition_of_a_broker)
    found = {
        lost for one in check_partition(str(partition_of_a_broker)).findings for lost in one.lost
    }
    expected = {(20 + damaged, 20 + damaged), (30, 39)}
    # where no whole batch follows in the file, both are one range
    assert found == (expected if damaged < 9 else {(29, 39)})


def test_a_handle_names_them(partition_of_a_broker: Path):
    """[DUR-54] Without reading all batches."""
    cut_segment(partition_of_a_broker)
    for read_only in (True, False):
        with segstore.open(partition_of_a_broker, read_only=read_only) as log:
            assert [one[:2] for one in log.missing_records()] == [(30, 40)]
    with segstore.open(partition_of_a_broker) as log:
        log.delete_records(35)
        assert [one[:2] for one in log.missing_records()] == [(35, 40)]
        log.delete_records(45)
        assert log.missing_records() == []


@pytest.mark.parametrize("is_recovered", [False, True])
def test_no_read_goes_on_silently(partition_of_a_broker: Path, *, is_recovered: bool):
    """[DUR-79] Up to the gap records are given, then an error; behind it they can be asked for."""
    cut_segment(partition_of_a_broker)
    if is_recovered:
        open_and_close(partition_of_a_broker)
    with segstore.open(partition_of_a_broker, read_only=True) as log:
        given = []
        with pytest.raises(CorruptLogError, match="30 to 39"):
            given.extend(record.offset for record in log.scan())
        for offset in (30, 35):
            with pytest.raises(CorruptLogError, match=r"30 to 39|35 to 39"):
                list(log.scan(offset))
            with pytest.raises(CorruptLogError, match="30 to 39"):
                log.read(offset, 1)

        assert given in ([*range(30)], [])
        assert [record.offset for record in log.scan(40)] == [*range(40, 60)]


def test_a_writer_that_met_the_damage_keeps_the_proof(partition_of_a_broker: Path):
    """[DUR-53] Its close builds indexes again that a look-up found to be wrong."""
    cut_segment(partition_of_a_broker)
    with segstore.open(partition_of_a_broker) as log:
        for offset in (29, 30, 35):
            try:
                log.read(offset, 1)
            except CorruptLogError:
                assert offset >= 30

    assert lost(partition_of_a_broker) == [(30, 40)]


def test_a_truncation_takes_the_note_away(partition_of_a_broker: Path):
    """[TRU-1] What is appended then fills the offsets again."""
    cut_segment(partition_of_a_broker)
    open_and_close(partition_of_a_broker)
    with segstore.open(partition_of_a_broker) as log:
        with pytest.raises(CorruptLogError):
            log.read(30, 1)
        log.truncate_to(25)
        for _ in range(20):
            log.append([(None, b"again")])
            log.roll()

        assert read_ranges(log._local_log.directory) == []
    assert lost(partition_of_a_broker) == []


def test_deleted_records_are_not_missing(partition_of_a_broker: Path):
    """[DUR-18] Where the log start lies behind the gap."""
    cut_segment(partition_of_a_broker)
    open_and_close(partition_of_a_broker)
    with segstore.open(partition_of_a_broker) as log:
        log.delete_records(45)

    assert lost(partition_of_a_broker) == []


def test_a_gap_of_compaction_is_no_loss(partition_of_a_broker: Path):
    """[DUR-64] A broker's cleaner makes the indexes of what it keeps."""
    cut_segment(partition_of_a_broker)
    for kind in ("index", "timeindex"):
        segment_file(partition_of_a_broker, 20, kind).unlink()
    open_and_close(partition_of_a_broker)

    with segstore.open(partition_of_a_broker, read_only=True) as log:
        assert [record.offset for record in log.scan()][29:31] == [29, 40]


def test_recover_notes_what_two_padded_indexes_show(partition_of_a_broker: Path, capsys):
    """[DUR-7, DUR-80] It compared names that never match, and removed both proofs."""
    cut_segment(partition_of_a_broker)
    for kind, entry_bytes in (("index", 8), ("timeindex", 12)):
        with (partition_of_a_broker / file_name(20, kind)).open("ab") as index:
            index.write(bytes(4 * entry_bytes))

    assert cli.main(["recover", "-q", str(partition_of_a_broker)]) == 1
    capsys.readouterr()
    assert lost(partition_of_a_broker) == [(30, 40)]


def test_a_salvage_warns_of_a_damaged_note(partition_of_a_broker: Path):
    """[DUR-7] Nothing else says which gap lost records: it said that none was lost."""
    cut_segment(partition_of_a_broker)
    open_and_close(partition_of_a_broker)
    (partition_of_a_broker / ".segstore.missing").write_bytes(b"version 0\ngarbage\n")

    report = segstore.salvage(
        partition_of_a_broker,
        partition_of_a_broker.parent.parent / "salvaged" / partition_of_a_broker.name,
    )
    assert any(".segstore.missing is damaged" in warning for warning in report.warnings)


# ---- removed directory ---------------------------------------------------------------------------
# An ``rm -r`` under an open log: appends were acknowledged as durable, into files without a name.
#
# [DUR-4, DUR-66] A flush, a close and an append told of a ``.tmp`` that cannot be opened, or
# nothing; who followed the log waited for ever.


ONE = [(None, b"x" * 40)]
REMOVED = "removed while the log was open"


@pytest.fixture
def removed_path(tmp_path):
    return tmp_path / "gone-0"


def opened(path, **settings):
    log = segstore.open(path, **settings)
    for _ in range(3):
        log.append(ONE)
    shutil.rmtree(path)
    return log


def append_often(log):
    for _ in range(1000):
        with contextlib.suppress(WriteError):  # a sync that is late
            log.append(ONE)
        time.sleep(0.001)


def check_close(log):
    """It tells, and the handle is closed all the same; nothing is made where the log was."""
    with pytest.raises((LogNotFoundError, LogReadOnlyError), match=REMOVED):
        log.close()
    assert log.closed
    log.close()


def test_an_append_that_is_to_be_durable(removed_path):
    """[DUR-4, DUR-38] It fails, and nothing is written from then on; records can be read."""
    log = opened(removed_path)

    with pytest.raises(LogNotFoundError, match=REMOVED) as caught:
        log.append(ONE)
    assert caught.value.file == str(removed_path)
    for change in (lambda: log.append(ONE), log.roll, log.flush):
        with pytest.raises(LogReadOnlyError, match=REMOVED):
            change()
    assert log.durable_offset == 3
    assert [record.offset for record in log.scan(0, 3)] == [0, 1, 2]
    check_close(log)
    assert not removed_path.exists()


@pytest.mark.parametrize("durability", ["none", "messages=100", "seconds=1000"])
def test_an_append_that_is_not_to_be_durable(removed_path, durability):
    """Nothing was promised; a flush, a roll and the close tell."""
    log = opened(removed_path, durability=durability)

    log.append(ONE)
    with pytest.raises(LogNotFoundError, match=REMOVED):
        log.roll()
    with pytest.raises(LogNotFoundError, match=REMOVED):
        log.flush()
    check_close(log)


def test_a_roll_by_size(removed_path):
    """[ROL-1] The append that begins a segment fails as a whole."""
    log = opened(removed_path, durability="none", internal_segment_bytes=400)

    with pytest.raises(LogNotFoundError, match=REMOVED):
        append_often(log)
    check_close(log)


def test_a_flush_with_nothing_to_flush(removed_path):
    """All of it is on stable storage, where nobody finds it."""
    log = opened(removed_path)

    with pytest.raises(LogNotFoundError, match=REMOVED):
        log.flush()
    check_close(log)


def test_a_close_alone(removed_path):
    check_close(opened(removed_path))


def test_a_timed_sync(removed_path):
    """[DUR-14, DUR-39] Nobody waits for it: the next append is refused."""
    log = opened(removed_path, durability="seconds=0.2")

    with pytest.raises(LogReadOnlyError, match=REMOVED):
        append_often(log)
    check_close(log)


def test_kafkas_profile(removed_path):
    """[DUR-62] A broker notices at its next roll; its close writes nothing that could tell."""
    log = opened(removed_path, recovery="kafka")

    log.append(ONE)
    with pytest.raises(LogNotFoundError, match=REMOVED):
        log.roll()
    log.close_quietly()


def test_a_directory_that_is_not_empty_yet(removed_path):
    """Somebody removed the files; ours are gone, whatever else is there."""
    log = segstore.open(removed_path)
    for file in removed_path.iterdir():
        file.unlink()
    (removed_path / "notes.txt").touch()

    with pytest.raises(LogNotFoundError, match=REMOVED):
        log.append(ONE)
    check_close(log)
    left = {file.name for file in removed_path.iterdir()}
    assert "notes.txt" in left
    assert not {".kafka_cleanshutdown", f"{0:020d}.log"} & left


def test_a_reader_that_follows(removed_path):
    """[DUR-78] It waited for ever; what it has open can be read yet."""
    with segstore.open(removed_path) as log:
        log.append(ONE)
    reader = segstore.open(removed_path, read_only=True)
    records = reader.tail(0)
    assert next(records).offset == 0
    shutil.rmtree(removed_path)

    with pytest.raises(LogNotFoundError, match=REMOVED):
        next(records)
    with pytest.raises(LogNotFoundError, match=REMOVED):
        reader.refresh()
    assert [record.offset for record in reader] == [0]
    reader.close()


def test_a_log_directory(tmp_path):
    """Each log tells; the manager is closed."""
    logs = segstore.open_dir(tmp_path / "logs")
    logs.create_topic("gone")
    logs.append("gone", ONE)
    shutil.rmtree(tmp_path / "logs")

    with pytest.raises(LogNotFoundError, match=REMOVED):
        logs.append("gone", ONE, partition=0)
    with pytest.raises(LogReadOnlyError, match=REMOVED):
        logs.close()
    assert logs.closed


def test_a_lock_file_that_was_removed_alone(removed_path):
    """[DUR-66] Nobody would be kept out: writing ends, and nothing is lost or said to be."""
    log = segstore.open(removed_path)
    log.append(ONE)
    (removed_path / ".lock").unlink()

    with pytest.raises(LogNotFoundError, match="lock file of the log was removed") as caught:
        log.append(ONE)
    assert caught.value.file == str(removed_path / ".lock")
    with pytest.raises((LogNotFoundError, LogReadOnlyError), match="lock file"):
        log.close()
    with segstore.open(removed_path) as again:
        assert [record.offset for record in again] == [0, 1]


# ---- segments that are gone ----------------------------------------------------------------------
# A cleaner of /tmp removes files of an open log: they count as deleted [DUR-42, DUR-132]. Case 23.
#
# The others of the pass are deleted, and the handle knows what there is.


DAY_MS = 86_400_000
KINDS = ("log", "index", "timeindex", "snapshot")
BASES = list(range(0, 30, 4))


def aged_log(path: Path, **settings: object) -> segstore.UnifiedLog:
    """Segments of four records that are thirty days old, and an active one."""
    log = segstore.open(
        path,
        **{
            "durability": "none",
            "internal_segment_bytes": 500,
            "segment_ms": None,
            "file_delete_delay_ms": 0,
            "checksum_sidecar": True,
            **settings,
        },
    )
    old = int(time.time() * 1000) - 30 * DAY_MS
    for number in range(log.log_end_offset, 30):
        log.append([(old + number, b"k", b"v" * 40)])
    log.flush(force_active_segment=True)
    return log


@pytest.fixture
def aged_path(tmp_path: Path) -> Path:
    aged_log(tmp_path / "t-0").close()
    return tmp_path / "t-0"


def bases_of(log: segstore.UnifiedLog) -> list[int]:
    return [segment.base_offset for segment in log.segments()]


def remove(path: Path, bases: list[int], kinds: tuple[str, ...] = KINDS) -> None:
    for base in bases:
        for kind in kinds:
            (path / file_name(base, kind)).unlink(missing_ok=True)


def logs_in(path: Path) -> list[int]:
    return sorted(int(file.stem) for file in path.glob("*.log"))


@pytest.mark.parametrize("kinds", [("log",), ("index", "timeindex"), ("snapshot",), KINDS], ids=str)
@pytest.mark.parametrize("gone", [[4], [0], [0, 4, 8], [12, 16], BASES[:-1]], ids=str)
@pytest.mark.parametrize("was_read", [True, False])
def test_retention_deletes_the_others(
    aged_path: Path, gone: list[int], kinds: tuple[str, ...], *, was_read: bool
):
    with aged_log(aged_path, retention_ms=DAY_MS) as log:
        assert bases_of(log) == BASES
        if was_read:
            assert len(list(log.scan())) == 30
        remove(aged_path, gone, kinds)

        assert len(log.delete_old_segments()) == len(BASES)

        assert (log.log_start_offset, bases_of(log)) == (30, [30])
        assert len(log.delete_old_segments()) == 0
        log.append([(None, b"new")])
        assert [record.value for record in log.scan()] == [b"new"]
    assert logs_in(aged_path) == [30]
    with segstore.open(aged_path) as log:
        assert (log.report.clean, log.log_start_offset, log.log_end_offset) == (True, 30, 31)


def test_what_is_gone_counts_for_no_size(aged_path: Path):
    """[DUR-132, RET-6] Deleting goes on until only that much is there, not before."""
    with aged_log(aged_path, retention_ms=None, retention_bytes=3 * 440) as log:
        sizes = {segment.base_offset: segment.size_bytes for segment in log.segments()}
        remove(aged_path, [8, 12])

        log.delete_old_segments()

        there = sum(sizes[base] for base in logs_in(aged_path))
        assert there >= 3 * 440 > there - sizes[logs_in(aged_path)[0]]
        assert [base for base in bases_of(log) if base not in {8, 12}] == logs_in(aged_path)


def test_without_a_limit_what_is_gone_is_no_deletion(aged_path: Path):
    """[DUR-128] The file may be restored from a copy; its records are not deleted by defaults."""
    with aged_log(aged_path, retention_ms=None) as log:
        remove(aged_path, [0, 4])

        assert (len(log.delete_old_segments()), log.log_start_offset) == (0, 0)


def test_records_that_a_user_deletes(aged_path: Path):
    """[DUR-132, LST-4]"""
    with aged_log(aged_path) as log:
        remove(aged_path, [4, 8])

        assert log.delete_records(14) == 14

        assert bases_of(log) == BASES[3:]
        assert [record.offset for record in log.scan()] == list(range(14, 30))
    assert logs_in(aged_path) == BASES[3:]


@pytest.mark.parametrize("gone", [[20], [20, 24, 28], [28]], ids=str)
def test_a_truncation_takes_the_others_away(aged_path: Path, gone: list[int]):
    """[DUR-132, DUR-16]"""
    with aged_log(aged_path) as log:
        remove(aged_path, gone)

        assert log.truncate_to(10)

        assert log.append([(None, b"new")]).base_offset == 10
        assert [record.offset for record in log.scan()] == list(range(11))
    assert logs_in(aged_path) == [0, 4, 8]
    with segstore.open(aged_path) as log:
        assert (log.report.clean, log.log_end_offset) == (True, 11)


def test_a_truncation_of_all_takes_the_others_away(aged_path: Path):
    """[DUR-132, DUR-18]"""
    with aged_log(aged_path) as log:
        remove(aged_path, [0, 12])

        log.truncate_fully_and_start_at(50)

        assert log.append([(None, b"new")]).base_offset == 50
    assert logs_in(aged_path) == [50]


def test_a_close_beside_what_is_gone(aged_path: Path):
    """[DUR-8, DUR-7] Sidecars, snapshots and indexes may go; a lost record is told by the open."""
    log = aged_log(aged_path)
    log.append([(None, b"new")])
    remove(aged_path, [8], ("index", "timeindex", "segsum"))
    remove(aged_path, [12])

    log.close()

    (aged_path / file_name(8, "index")).unlink(missing_ok=True)
    with pytest.raises(segstore.errors.CorruptLogError):
        segstore.open(aged_path)


def test_one_that_cannot_be_renamed_keeps_no_other(aged_path: Path):
    """[DUR-42, DUR-132] A directory has the name: the error is raised behind the others."""
    with aged_log(aged_path, retention_ms=DAY_MS) as log:
        (aged_path / f"{file_name(4, 'log')}.deleted").mkdir()

        with pytest.raises(segstore.SegstoreError):
            log.delete_old_segments()

        assert (log.log_start_offset, bases_of(log)) == (30, [30])
        assert len(log.delete_old_segments()) == 0
    assert logs_in(aged_path) == [4, 30]


# ---- what is advised about lost segments ---------------------------------------------------------
# The advice named a file that was sound: the segment beside the gap, or the recovery point.
#
# An operator restored that file, and found the same again.


@pytest.fixture
def with_ten_segments(tmp_path: Path) -> Path:
    """Records 0 to 19, two in a segment; each segment has its producers' snapshot beside it."""
    path = tmp_path / "ten" / "a-0"
    with segstore.open(path, segment_ms=None) as log:
        for number in range(20):
            log.append([(b"k", b"%d" % number)])
            if number % 2:
                log.roll()
    return path


@pytest.mark.parametrize("base_offset", [0, 8, 18])
@pytest.mark.parametrize("has_recovery_point", [True, False])
def test_the_advice_names_the_offsets_that_are_lost(
    with_ten_segments: Path, base_offset: int, *, has_recovery_point: bool
):
    """[DUR-51, DUR-54] With the segment from a copy the log is clean; without one salvage works."""
    path = with_ten_segments
    copy = shutil.copytree(path, path.parent / "copy")
    remove_segment(path, base_offset)
    remove_segment(path, 20)  # it is empty
    if not has_recovery_point:
        (path / RECOVERY_POINT_CHECKPOINT).unlink()

    findings = check_partition(str(path)).findings

    expected = f"restore the segment files that hold offsets {base_offset} to {base_offset + 1} "
    assert findings
    assert all(advice(one, "a-0").startswith(expected) for one in findings)
    assert {first for first, _ in lost(path)} == {base_offset}
    for file in copy.iterdir():
        if file.name.startswith((f"{base_offset:020d}.", f"{20:020d}.")):
            shutil.copy(file, path)
    assert check_partition(str(path)).ok
    open_and_close(path)


def test_the_advice_about_a_broker_s_last_segment(partition_of_a_broker: Path):
    """[DUR-51] An open for writing does not go on without the recovery point."""
    path = partition_of_a_broker
    has_point = (path.parent / RECOVERY_POINT_CHECKPOINT).exists()
    bases = sorted(int(file.stem) for file in path.glob("*.log"))
    remove_segment(path, bases[-1])

    findings = check_partition(str(path)).findings

    for one in findings:
        assert one.file != RECOVERY_POINT_CHECKPOINT or has_point
        assert f"the segment files that hold offsets {bases[-1]} to " in advice(one, "a-0")
    assert findings or not has_point
    if findings:
        with pytest.raises(CorruptLogError):
            segstore.open(path)


def test_a_noted_loss_names_no_sound_file(partition_of_a_broker: Path):
    """[DUR-7] The note has the offsets; which file held them nothing shows."""
    (partition_of_a_broker / f"{20:020d}.log").unlink()
    open_and_close(partition_of_a_broker)

    findings = check_partition(str(partition_of_a_broker)).findings

    assert [advice(one, "a-0").partition(" from ")[0] for one in findings] == [
        "restore the segment files that hold offsets 20 to 39"
    ]
