"""A salvage said that nothing was lost where a segment and the epoch checkpoint were lost.

An open makes the epochs anew before it asks whether ``.segstore`` is of who wrote last; the salvage
took the log for one that compaction may have been in.
"""

from __future__ import annotations

import pytest

import segstore
from segstore.cli import main

EPOCHS = "leader-epoch-checkpoint"


def one(number):
    return segstore.MemoryRecords.with_records([(None, b"%d" % number)])


@pytest.fixture(params=["closed", "unclean"])
def path(request, tmp_path):
    """Records 0 to 9 in segments 0, 3, 6, 9, in two leader epochs."""
    path = tmp_path / "a-0"
    with segstore.open(path) as log:
        for number in range(10):
            log.append_as_leader(one(number), leader_epoch=number // 5)
            if number % 3 == 2:
                log.roll()
    if request.param == "unclean":
        (path / ".kafka_cleanshutdown").unlink()
    return path


def salvaged(path):
    target = path.parent / "out" / "a-0"
    report = segstore.salvage(path, target)
    return report, [(lost.first_offset, lost.next_offset) for lost in report.lost]


@pytest.mark.parametrize("content", [None, b"", b"0\n2\n0 0\n", b"\xff"], ids=repr)
@pytest.mark.parametrize("base", [3, 6, 9])
def test_a_lost_segment_is_told_without_the_epoch_checkpoint(path, content, base):
    """[DUR-62, DUR-64]"""
    (path / f"{base:020d}.log").unlink()
    if content is None:
        (path / EPOCHS).unlink()
    else:
        (path / EPOCHS).write_bytes(content)
    report, lost = salvaged(path)
    assert lost == [(base, min(base + 3, 10))]
    assert [text for text in report.warnings if EPOCHS in text] == report.warnings
    assert bool(report.warnings) == bool(content)


def test_the_command_says_so(path, capsys):
    """[DUR-62] By its exit code too."""
    (path / f"{3:020d}.log").unlink()
    (path / EPOCHS).write_bytes(b"\xff")
    assert main(["salvage", "-q", str(path), str(path.parent / "out" / "a-0")]) == 1
    assert "nothing was lost" not in capsys.readouterr().out


def test_a_lost_beginning(path):
    """[DUR-62] The epochs that are left begin later; that is no sign of deleted records."""
    (path / f"{0:020d}.log").unlink()
    (path / EPOCHS).unlink()
    assert salvaged(path)[1] == [(0, 3)]


def test_deleted_records_are_not_lost(path):
    """[DUR-19, DUR-62]"""
    with segstore.open(path) as log:
        log.delete_records(4)
    (path / EPOCHS).unlink()
    report, lost = salvaged(path)
    assert lost == []
    assert report.log_start_offset == 4


def test_whose_batches_are_of_a_later_epoch_may_have_gaps(path):
    """[DUR-64] A broker has written behind the file, and may have compacted: only a hint."""
    state = path / ".segstore"
    before = state.read_bytes()
    with segstore.open(path) as log:
        log.append_as_leader(one(10), leader_epoch=7)
    state.write_bytes(before)
    (path / EPOCHS).unlink()
    (path / f"{3:020d}.log").unlink()
    report, lost = salvaged(path)
    assert lost == []
    assert [text for text in report.warnings if "no file holds the offsets 3 to 5:" in text]


def test_a_gap_that_nobody_can_judge_is_a_hint(path):
    """[DUR-64] Without ``.segstore``; several of them are one warning."""
    (path / ".segstore").unlink()
    for base in (3, 9):
        (path / f"{base:020d}.log").unlink()
    (path / f"{9:020d}.log").write_bytes(b"")
    report, lost = salvaged(path)
    assert lost == ([(9, 10)] if report.log_end_offset == 10 else [])
    hints = [text for text in report.warnings if "no file holds" in text]
    assert len(hints) == 1
    assert "the offsets 3 to 5:" in hints[0]
