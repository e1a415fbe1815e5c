"""Producers of a log that is opened again: with their snapshots, without, and with damaged ones."""

from __future__ import annotations

import pytest

import segstore
from segstore.errors import CorruptLogError, OutOfOrderSequenceError
from tests.kits.transactions_kit import ABORT, Producer, write

END = 11
SETTINGS = {"internal_segment_bytes": 400, "segment_ms": None, "replicated": False}


@pytest.fixture
def folder(tmp_path):
    """A log with an open transaction, an aborted one, and an idempotent producer."""
    folder = tmp_path / "orders-0"
    with segstore.open(folder, **SETTINGS) as log:
        Producer(log, 1).write(2)
        aborting = Producer(log, 2)
        aborting.write()
        aborting.end(ABORT)
        write(log, 3)
        Producer(log, 3, transactional=False).write(4)
    return folder


def open_log(folder):
    return segstore.open(folder, **SETTINGS)


def snapshots(folder):
    return sorted(folder.glob("*.snapshot"))


def check_producers(log):
    """The transaction is open, and producers go on where they were."""
    assert log.last_stable_offset == 0
    assert set(log._producers.active_producers) == {1, 2, 3}
    Producer(log, 3, transactional=False).write(4)
    assert log.log_end_offset == END, "a duplicate was appended"
    ahead = Producer(log, 3, transactional=False)
    ahead.skip(9)
    with pytest.raises(OutOfOrderSequenceError):
        ahead.write()


@pytest.mark.parametrize("lost", ["none", "newest", "all"])
def test_what_lost_snapshots_would_tell_is_read_from_the_log(folder, lost):
    """[DUR-8, DUR-22] Else an open transaction would count as none after a clean stop [PSM-71]."""
    there = snapshots(folder)
    assert len(there) > 1
    for snapshot in {"none": [], "newest": there[-1:], "all": there}[lost]:
        snapshot.unlink()

    with open_log(folder) as log:
        assert log.report.clean
        check_producers(log)


def test_a_damaged_snapshot_is_reported(folder):
    """[DUR-22, PSM-56] And is no gate for opening."""
    newest = snapshots(folder)[-1]
    data = bytearray(newest.read_bytes())
    data[-1] ^= 1
    newest.write_bytes(data)

    with open_log(folder) as log:
        assert any(newest.name in warning for warning in log.report.warnings)
        check_producers(log)


def test_damage_that_a_snapshot_would_have_spared_refuses_the_log(folder):
    """[DUR-51] Nothing is dropped, and a reader opens it."""
    for snapshot in snapshots(folder):
        snapshot.unlink()
    first = min(folder.glob("*.log"))
    data = bytearray(first.read_bytes())
    data[8:12] = bytes(4)
    first.write_bytes(data)

    with pytest.raises(CorruptLogError):
        open_log(folder)

    with segstore.open(folder, read_only=True) as log:
        assert log.log_end_offset == END


@pytest.mark.parametrize("kind", ["txnindex", "snapshot"])
def test_an_unclean_stop_makes_both_anew(folder, kind):
    """[DUR-52, SEG-42] From the recovery point on; here from the start."""
    before = {path.name: path.read_bytes() for path in folder.glob("*.txnindex")}
    assert before
    for path in folder.glob(f"*.{kind}"):
        path.unlink()
    for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
        (folder / name).unlink()

    with open_log(folder) as log:
        assert not log.report.clean
        check_producers(log)

    assert {path.name: path.read_bytes() for path in folder.glob("*.txnindex")} == before


def test_recovered_segments_have_snapshots_as_rolls_leave_them(folder):
    """[TIER-37] [ROL-1] Of each segment that is recovered; a copy in remote storage needs it."""
    with open_log(folder) as log:
        for _ in range(4):
            log.roll()
            write(log, 2)
    for path in (*snapshots(folder), folder / "recovery-point-offset-checkpoint"):
        path.unlink(missing_ok=True)
    (folder / ".kafka_cleanshutdown").unlink()

    with open_log(folder) as log:
        assert not log.report.clean
        bases = [segment.base_offset for segment in log.segments()]
        assert len(bases) > 3
        there = {int(path.stem) for path in snapshots(folder)}
        assert there >= set(bases[1:]), there
