"""A lost middle segment went unnoticed, and the open removed what was left of it.

A clean open looked at the active segment only, reads stepped from one segment to the next without a
look at the offsets, and index files without their ``.log`` were removed first of all
[DUR-54, DUR-79, LDR-11].
"""

from __future__ import annotations

import pytest

import segstore
from tests.kits.log_kit import remove_own_notes

LOST = f"{3:020d}"


@pytest.fixture
def path(tmp_path):
    """Records 0 to 9 in segments 0, 3, 6, 9, closed cleanly; the segment of 3 to 5 is gone."""
    path = tmp_path / "mid" / "a-0"
    with segstore.open(path) as log:
        for number in range(10):
            log.append([(b"k", b"%d" % number)])
            if number % 3 == 2:
                log.roll()
    (path / f"{LOST}.log").unlink()
    return path


def test_a_writer_refuses_and_keeps_the_evidence(path):
    """[DUR-54]"""
    for _ in range(2):
        with pytest.raises(segstore.CorruptLogError, match="records 3 to 5 are missing"):
            segstore.open(path)
        found = sorted(file.suffix for file in path.glob(f"{LOST}.*"))
        assert found == [".index", ".snapshot", ".timeindex"]


@pytest.mark.parametrize("first_by_a_writer", [False, True])
def test_a_reader_is_told(path, first_by_a_writer):
    """[DUR-54, DUR-79] With the clean marker, and after a writer that failed took it."""
    if first_by_a_writer:
        with pytest.raises(segstore.CorruptLogError):
            segstore.open(path)
    with segstore.open(path, read_only=True) as log:
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


def test_lost_while_the_log_was_open(path):
    """[DUR-54] Without a clean marker as well."""
    (path / ".kafka_cleanshutdown").unlink()
    with pytest.raises(segstore.CorruptLogError, match="records 3 to 5 are missing"):
        segstore.open(path)


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


def test_gaps_of_a_broker_are_legal(path):
    """[DUR-64] Where nothing says that the log is contiguous, compaction may have been there."""
    remove_own_notes(path)
    with segstore.open(path, read_only=True) as log:
        assert [record.offset for record in log] == [0, 1, 2, 6, 7, 8, 9]
        assert log.verify().ok
    with segstore.open(path) as log:
        assert [record.offset for record in log] == [0, 1, 2, 6, 7, 8, 9]
        assert not list(path.glob(f"{LOST}.*"))


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
def test_a_lost_recovery_point_takes_no_segment_along(path, first_by_a_reader):
    """[DUR-24, DUR-54, DUR-63] The clean marker knew that all of it was safe.

    The later segments were set aside, as if a crash had left them behind a hole.
    """
    (path / "recovery-point-offset-checkpoint").unlink()
    if first_by_a_reader:
        with segstore.open(path, read_only=True) as log:
            assert [text for text in log.report.warnings if "records 3 to 5 are missing" in text]
            assert [record.offset for record in log.scan(6)] == [6, 7, 8, 9]
    for _ in range(2):
        with pytest.raises(segstore.CorruptLogError, match="records 3 to 5 are missing"):
            segstore.open(path)
    assert not list(path.glob("*quarantine*"))


def test_a_lost_recovery_point_and_a_short_tail(path):
    """[DUR-51, DUR-63] Records that were there at a clean close are missing, not torn."""
    (path / "recovery-point-offset-checkpoint").unlink()
    (path / f"{9:020d}.log").write_bytes(b"")
    for segment in (3, 6):
        for file in path.glob(f"{segment:020d}.*"):
            file.unlink()

    with pytest.raises(segstore.CorruptLogError, match="are missing"):
        segstore.open(path)
