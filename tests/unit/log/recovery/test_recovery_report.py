"""What an open tells: for a person in plain lines, for a program as values [DUR-58]."""

from __future__ import annotations

import json

import pytest

import segstore
from segstore.log.files.checkpoints import SYNC_FAILED_MARK
from segstore.log.recovery.recovery_report import RecoveryReport
from tests.kits.damaged_logs import append_bytes, build


def test_a_report_goes_to_json_with_every_field():
    report = RecoveryReport(truncated_bytes=7, warnings=["careful"])

    fields = json.loads(json.dumps(report.to_dict()))

    assert RecoveryReport(**fields) == report
    assert set(fields) == set(RecoveryReport.__slots__)


def test_a_person_reads_what_was_found_and_done(tmp_path):
    """[DUR-58, DUR-105] Names and numbers, no payload."""
    directory = build(tmp_path / "orders-0")
    append_bytes(directory.last, b"secret payload")
    (directory.path / "00000000000000000003.log.deleted").write_bytes(b"")
    (directory.path / "log-start-offset-checkpoint").write_bytes(b"?")

    with directory.open() as log:
        lines = str(log.report).splitlines()

    assert lines[0].startswith("not closed cleanly; offsets 0 to 60 in 4 segments; opened in ")
    assert "cut 14 bytes from offset 60 on" in lines
    assert "kept in quarantine: 00000000000000000047.quarantine-1" in lines
    assert "removed: 00000000000000000003.log.deleted" in lines
    for beginning in ("checked ", "synced ", "reason: ", "rebuilt: ", "warning: "):
        assert sum(line.startswith(beginning) for line in lines) == 1, beginning
    assert "secret" not in "".join(lines)


def test_little_is_said_of_what_is_in_order(tmp_path):
    with segstore.open(tmp_path / "orders-0") as log:
        assert str(log.report).startswith("new log; offsets 0 to 0 in 1 segment;")
        assert len(str(log.report).splitlines()) == 1
    with segstore.open(tmp_path / "orders-0") as log:
        assert str(log.report).startswith("closed cleanly; ")
        assert len(str(log.report).splitlines()) == 1


def test_what_is_written_again_is_said_once(tmp_path):
    """[DUR-36] By this open, when a sync had failed; before the first change else."""
    directory = build(tmp_path / "orders-0")
    for mark, said in ((False, "synced "), (True, "wrote ")):
        directory.set_recovery_point(50)
        if mark:
            (directory.path / SYNC_FAILED_MARK).touch()
        with directory.open() as log:
            lines = str(log.report).splitlines()
            assert log.report.rewritten is mark
            log.close_quietly()
        assert sum(line.startswith(said) for line in lines) == 1
        assert sum("to be written again" in line for line in lines) == (not mark)
        assert sum("at once" in line for line in lines) == mark


def test_that_there_was_no_recovery_point_is_said(tmp_path):
    """[DUR-63] Then everything from the log start on is checked."""
    directory = build(tmp_path / "orders-0")
    directory.set_recovery_point(None)
    with directory.open() as log:
        assert not log.report.had_recovery_point
        assert "from the log start 0: there was no recovery point" in str(log.report)
        size = sum(len(data) for data in directory.logs().values())
        assert log.report.scanned_bytes == size
    with directory.open() as log:
        assert log.report.had_recovery_point


@pytest.mark.parametrize("is_closed", [True, False])
@pytest.mark.parametrize("has_point", [True, False])
def test_whether_there_was_a_recovery_point(tmp_path, is_closed, has_point):
    """[DUR-58, DUR-63] Behind a clean stop the end is one, with a checkpoint or without."""
    path = tmp_path / "a-0"
    log = segstore.open(path)
    log.append([(None, b"v")])
    log.flush()
    (log.close if is_closed else log.close_quietly)()
    if not has_point:
        (path / "recovery-point-offset-checkpoint").unlink()
    for read_only in (True, False):
        with segstore.open(path, read_only=read_only) as log:
            assert log.report.had_recovery_point == (is_closed or has_point)
            assert log.report.recovery_point == int(is_closed or has_point)
            assert ("there was no recovery point" in str(log.report)) == (
                not is_closed and not has_point
            )
