"""An open that set a whole log aside and was not done left a mark, which the next one only obeyed.

It told nobody of what had been set aside; and where somebody had put the wrong log start right in
between, as a warning advised, it made a new log in the place of synced records, without a word.
Where what it had set aside was taken away, the next open said "new log", and ``verify`` "clean";
of a log without a record ``verify`` said that records are missing.
"""

from __future__ import annotations

import pytest

import segstore
from segstore.cli import main
from segstore.errors import CorruptLogError
from segstore.log.files.checkpoints import (
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    RESTART_MARKER,
)
from tests.kits.log_kit import in_a_child, offsets
from tests.kits.set_aside_kit import (
    END,
    ENDS,
    NAMES,
    SET_ASIDE,
    before_the_mark_goes,
    before_the_new_segment,
    begin_and_end,
    follow,
    make_log,
    put_log_start,
    refusal,
    verified,
    with_the_new_segment,
)


@pytest.fixture
def path(tmp_path):
    return make_log(tmp_path)


@pytest.mark.parametrize("end", ENDS)
def test_the_next_open_tells_of_all_that_is_set_aside(path, end, monkeypatch):
    """[DUR-7, DUR-58]"""
    begin_and_end(path, end, monkeypatch)

    with segstore.open(path) as log:
        assert (log.log_start_offset, log.log_end_offset) == (1000, 1000)
        assert not log.report.created
        assert not log.report.clean
        (warning,) = [text for text in log.report.warnings if "is set aside as" in text]
        assert sorted(log.report.set_aside) == [*NAMES]
    assert f"is set aside as {NAMES[0]}, {NAMES[1]} and {NAMES[2]};" in warning
    assert not (path / RESTART_MARKER).exists()
    with segstore.open(path) as log:
        assert log.report.clean
        assert not log.report.warnings


@pytest.mark.parametrize("has_point", [True, False])
@pytest.mark.parametrize("end", ENDS)
def test_another_log_start_does_not_count_what_was_set_aside_as_gone(
    path, end, has_point, monkeypatch
):
    """[DUR-1, DUR-54] The open is refused, and what the refusal advises brings all of it back."""
    begin_and_end(path, end, monkeypatch)
    put_log_start(path, 0)
    if not has_point:
        (path / RECOVERY_POINT_CHECKPOINT).unlink()
    before = {file.name: file.read_bytes() for file in path.iterdir() if file.is_file()}

    for _ in range(2):
        with pytest.raises(CorruptLogError, match="aside for the log start 1000") as refused:
            segstore.open(path)
    after = {file.name: file.read_bytes() for file in path.iterdir() if file.is_file()}
    assert before == after

    renamed = follow(path, refused.value.message)
    assert renamed == [*SET_ASIDE.get(end, NAMES)]
    with segstore.open(path) as log:
        assert offsets(log) == [*range(END)]


def test_deleting_more_behind_a_broker_keeps_the_leave(path, monkeypatch):
    """[DUR-54] What was set aside lies below any later log start too."""
    begin_and_end(path, before_the_new_segment, monkeypatch)
    put_log_start(path, 1005)

    with segstore.open(path) as log:
        assert log.log_end_offset == 1005


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("log_start", [0, 1000])
def test_verify_tells_of_the_mark(path, end, log_start, monkeypatch, capsys):
    """[DUR-7, DUR-58] And does not send for a copy: nothing is lost."""
    begin_and_end(path, end, monkeypatch)
    put_log_start(path, log_start)

    out = verified(path, capsys)
    assert f"remove {RESTART_MARKER}" in out
    assert "restore the directory" not in out


@pytest.mark.parametrize("has_point", [True, False])
@pytest.mark.parametrize("log_start", [0, 1000])
def test_what_was_set_aside_and_taken_away_is_lost(path, log_start, has_point, monkeypatch, capsys):
    """[DUR-7, DUR-58] Nobody says that it is there, or that there was no log."""
    begin_and_end(path, before_the_new_segment, monkeypatch)
    put_log_start(path, log_start)
    for file in path.glob("*.quarantine-*"):
        file.unlink()
    if not has_point:
        (path / RECOVERY_POINT_CHECKPOINT).unlink()

    out = verified(path, capsys)
    assert out.count("records 0 to 8 are missing") == 1
    assert "restore the directory from a copy" in out
    assert main(["recover", "--dry-run", "-q", str(path)]) == 1
    assert "records 0 to 8 are missing" in " ".join(capsys.readouterr().out.split())
    if log_start == 0:
        assert "Nothing of it is here any more" in refusal(path)
        return
    with segstore.open(path) as log:
        report = log.report
    assert not report.created
    assert not report.clean
    assert report.reason
    (warning,) = [text for text in report.warnings if "not here any more" in text]
    assert all(name in warning for name in NAMES)
    assert "records 0 to 8 are missing" in warning
    assert "is set aside as" not in warning


@pytest.mark.parametrize("end", ENDS[1:])
@pytest.mark.parametrize("log_start", [0, 1000])
def test_one_of_those_is_lost(path, log_start, end, monkeypatch, capsys):
    """[DUR-7, DUR-58] What of it is missing is told, and what is here."""
    begin_and_end(path, end, monkeypatch)
    put_log_start(path, log_start)
    (path / NAMES[-1]).unlink()

    out = verified(path, capsys)
    assert out.count("records 6 to 8 are missing") == 1
    assert NAMES[1] in out
    if log_start == 0:
        advice = refusal(path)
        assert f"{NAMES[-1]} is not here any more" in advice
        assert follow(path, advice) == [*SET_ASIDE.get(end, NAMES)][:-1]
        with pytest.raises(CorruptLogError, match="9"):
            segstore.open(path)
        return
    with segstore.open(path) as log:
        (warning,) = [text for text in log.report.warnings if "is set aside as" in text]
    assert f"is set aside as {NAMES[0]} and {NAMES[1]};" in warning
    assert f"{NAMES[-1]} is not here any more" in warning
    assert "records 6 to 8 are missing" in warning


def write_empty(path) -> bool:
    log = segstore.open(path)
    log.append([(None, b"x")] * 5)
    log.flush()
    log.truncate_fully_and_start_at(500)
    return True


def write_emptied(path) -> bool:
    """Behind what retention deletes its epoch is left."""
    log = segstore.open(path)
    log.append([(None, b"x")] * 500)
    log.roll()
    log.flush()
    log.delete_records(500)
    return True


@pytest.fixture(params=[write_empty, write_emptied])
def empty_path(request, tmp_path):
    path = tmp_path / "topic-0"
    assert in_a_child(lambda: request.param(path)) == 0
    put_log_start(path, 1000)
    return path


@pytest.mark.parametrize("end", ENDS[2:])
@pytest.mark.parametrize("log_start", [0, 500, 1000])
def test_of_a_log_without_a_record_none_is_lost(empty_path, log_start, end, monkeypatch, capsys):
    """[DUR-7, DUR-58] Nothing was set aside, and nobody sends for a copy."""
    path = empty_path
    begin_and_end(path, end, monkeypatch)
    put_log_start(path, log_start)

    out = verified(path, capsys)
    assert "missing" not in out
    assert "restore the directory" not in out
    if log_start == 0:
        advice = refusal(path)
        assert "missing" not in advice
        assert f"write a log start from 500 on into {LOG_START_OFFSET_CHECKPOINT}" in advice
        put_log_start(path, log_start := 500)
    with segstore.open(path) as log:
        begin = 1000 if end in {with_the_new_segment, before_the_mark_goes} else log_start
        assert (log.log_start_offset, log.log_end_offset) == (begin, begin)
        assert not log.report.created
        assert not log.report.clean
    assert not (path / RESTART_MARKER).exists()
