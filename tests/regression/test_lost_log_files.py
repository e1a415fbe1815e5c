"""Acknowledged records, a crash, and the only ``.log`` is gone: the open said "new log", clean.

It also unlinked the ``.log.deleted`` that could have brought the records back.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

import segstore
from segstore.log.files.checkpoints import LogState
from segstore.log.recovery.forecast import forecast_open
from tests.crash.crash_check import Crash, check_crash
from tests.crash.crash_model import Operation
from tests.crash.crash_script import Settings, run_script

LOG = f"{0:020d}.log"
CHECKPOINT = "leader-epoch-checkpoint"


@pytest.fixture
def path(tmp_path):
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


def test_a_log_that_vanished_is_a_loss(path):
    """[DUR-51, DUR-54]"""
    (path / LOG).unlink()
    _check_refused(path, r"no \.log file, but \.segstore shows that there were records")


def test_a_log_renamed_to_deleted_is_kept_and_named(path):
    """[DUR-54, DUR-55] Renamed back it is opened again."""
    (path / LOG).rename(path / f"{LOG}.deleted")
    _check_refused(path, rf"{LOG}\.deleted holds records.*Renamed to {LOG} it is opened again")
    (path / f"{LOG}.deleted").rename(path / LOG)
    with segstore.open(path) as log:
        assert [record.offset for record in log] == list(range(10))


def test_a_leader_epoch_checkpoint_alone_shows_it(path):
    """[DUR-54]"""
    (path / LOG).unlink()
    (path / ".segstore").write_text("version 0\ncontiguous_from 0\nepochs_ordered_from 0\n")
    _check_refused(path, f"{CHECKPOINT} shows")


def test_index_entries_alone_show_it(path):
    """[DUR-54, LDR-11]"""
    (path / LOG).unlink()
    (path / CHECKPOINT).write_text("0\n0\n")
    (path / ".segstore").write_text("version 0\ncontiguous_from 0\nepochs_ordered_from 0\n")
    _check_refused(path, r"0\.index shows")


def test_a_log_that_never_had_a_record_is_new(tmp_path):
    """[DUR-11] Nothing shows of any."""
    path = tmp_path / "a-0"
    segstore.open(path).close_quietly()
    (path / LOG).unlink()
    with segstore.open(path) as log:
        assert log.report.created
        assert log.append([(b"k", b"v")]).base_offset == 0


def test_a_directory_that_is_not_ours_is_new(path):
    """[DUR-64] A broker takes away every ``.log`` before it makes the next one."""
    (path / LOG).unlink()
    (path / ".segstore").unlink()
    (path / "recovery-point-offset-checkpoint").unlink(missing_ok=True)
    with segstore.open(path) as log:
        assert log.report.created


def test_a_full_truncation_notes_what_it_is_about_to_do(path):
    """[DUR-18] And takes the note back; an open does so too."""
    with segstore.open(path) as log:
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
    (path / ".segstore").write_bytes(noted)
    with segstore.open(path) as log:
        assert [record.offset for record in log] == [7]
    assert "being_emptied" not in (path / ".segstore").read_text()


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


def test_epochs_that_are_no_file_hide_no_loss(path):
    """[DUR-54] What else shows that there were records is told first."""
    (path / LOG).unlink()
    (path / CHECKPOINT).unlink()
    (path / CHECKPOINT).mkdir()

    with pytest.raises(segstore.CorruptLogError, match="shows that there were records"):
        segstore.open(path)
