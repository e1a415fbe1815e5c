"""A lost first segment counted as "nothing lost": a warning of the open, and no more.

A log may begin above its log start [DUR-54]; but this library notes the log start before it takes
a file away [DUR-19], so that a log of its own begins there only when files were lost.
"""

from __future__ import annotations

import contextlib
import shutil

import pytest

import segstore
from segstore.cli import main
from segstore.log.check.partition_check import check_partition
from segstore.log.findings.finding import FindingCode
from tests.kits.log_kit import remove_own_notes

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
def path(request, tmp_path):
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


def test_a_writer_refuses_and_keeps_the_evidence(path):
    """[DUR-54]"""
    for _ in range(2):
        with pytest.raises(segstore.CorruptLogError, match=MISSING) as caught:
            segstore.open(path)
        assert caught.value.file.endswith(f"{3:020d}.log")
        assert (path / f"{0:020d}.index").exists()
        assert (path / f"{0:020d}.timeindex").exists()


def test_a_reader_is_told(path):
    """[DUR-54, DUR-58] and has what is left."""
    with segstore.open(path, read_only=True) as log:
        assert [text for text in log.report.warnings if MISSING in text]
        assert [record.offset for record in log] == list(range(3, 10))
        assert ((0, 2),) in [finding.lost for finding in log.verify().findings]


def test_verify_has_a_finding(path, capsys):
    """[DUR-54, DUR-60]"""
    (found, *_) = check_partition(str(path)).findings
    assert (found.code, found.lost) == (FindingCode.RECORDS_MISSING, ((0, 2),))
    assert main(["verify", str(path)]) == 1
    assert "missing: records 0 to 2" in capsys.readouterr().out


def test_a_salvage_names_the_loss(path, tmp_path):
    """[DUR-62]"""
    report = segstore.salvage(path, tmp_path / "out" / "a-0")
    assert not report.complete
    assert [(lost.first_offset, lost.next_offset) for lost in report.lost] == [(0, 3)]
    with segstore.open(tmp_path / "out" / "a-0") as log:
        assert [record.offset for record in log] == list(range(3, 10))


def test_a_log_without_our_notes_may_begin_anywhere(path, tmp_path):
    """[DUR-54, DUR-64] As a broker's, which notes the log start once a minute."""
    remove_own_notes(path)
    assert segstore.salvage(path, tmp_path / "out" / "a-0").complete
    with segstore.open(path) as log:
        assert [record.offset for record in log] == list(range(3, 10))
        assert log.verify().ok


def test_what_a_broker_deleted_is_not_lost(path):
    """[EPC-6, DUR-19] It moves the first epoch with the log start, whose checkpoint comes later."""
    (path / "leader-epoch-checkpoint").write_text("0\n1\n0 3\n")
    (path / ".segstore").write_text(
        "version 0\ncontiguous_from 0\nepochs_ordered_from 0\nlatest_epoch 0 3\n"
    )
    for _ in range(2):
        with segstore.open(path) as log:
            assert log.report.warnings == [
                text for text in log.report.warnings if "recovery point" in text
            ]
            assert log.log_start_offset == 3
    assert "contiguous_from 3\n" in (path / ".segstore").read_text()


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
