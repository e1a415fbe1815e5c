"""The first segment was lost, and the leader epochs with it: every tool said that all was well.

Epochs that were made anew of the batches behind it began there, did not fit ``.segstore`` any more,
and so nothing told that the log had begun before. A broker that deletes or compacts, and appends
nothing, leaves the same files: that log is told of, and can be read and written.
"""

from __future__ import annotations

import os

import pytest

import segstore
from segstore import MemoryRecords
from segstore.cli import main
from segstore.log.directory.checkpoints import LEADER_EPOCH_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT

RECORDS = 14


def write(path, *, is_closed: bool, epoch: int = 0) -> list[str]:
    """Return the names of its segments."""
    log = segstore.open(path, internal_segment_bytes=450)
    for number in range(RECORDS):
        records = MemoryRecords.with_records([(None, b"record-%d" % number * 5)])
        log.append_as_leader(records, leader_epoch=epoch if number >= 9 else 0)
    (log.close if is_closed else log.close_quietly)()
    names = sorted(file.name for file in path.glob("*.log"))
    assert [int(name[:20]) for name in names] == [0, 4, 8, 12]
    return names


def printed(capsys) -> str:
    return " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("is_closed", [False, True])
@pytest.mark.parametrize("how", [os.remove, lambda file: os.truncate(file, 0)], ids=["rm", "empty"])
def test_the_records_are_missed(tmp_path, how, is_closed, capsys):
    """[DUR-7, DUR-21, DUR-58] By verify, by readers, by what is salvaged, by the next open."""
    path = tmp_path / "o-0"
    how(path / write(path, is_closed=is_closed)[0])
    (path / LEADER_EPOCH_CHECKPOINT).unlink()

    assert main(["verify", str(path)]) == 1
    assert "records 0 to 3 are missing" in printed(capsys)
    assert main(["recover", "--dry-run", str(path)]) == 1
    assert "records 0 to 3 are missing" in printed(capsys)
    with segstore.open(path, read_only=True) as log:
        assert "records 0 to 3 are missing" in str(log.report.maybe_missing)
        assert "records 0 to 3 are missing" in " ".join(log.report.warnings)
    assert main(["salvage", str(path), str(tmp_path / "saved" / "o-0")]) == 1
    assert "offsets 0 to 3" in printed(capsys)
    with segstore.open(path) as log:
        assert "records 0 to 3 are missing" in " ".join(log.report.warnings)
        assert [record.offset for record in log] == [*range(4, RECORDS)]


def test_those_of_a_later_epoch_are_missed(tmp_path):
    """[DUR-7] The segment in which the latest epoch began."""
    path = tmp_path / "o-0"
    (path / write(path, is_closed=True, epoch=3)[2]).unlink()
    (path / LEADER_EPOCH_CHECKPOINT).unlink()
    with segstore.open(path, read_only=True) as log:
        assert "records 9 to 11 are missing" in str(log.report.maybe_missing)


@pytest.mark.parametrize(
    "lost", [[LEADER_EPOCH_CHECKPOINT], [LEADER_EPOCH_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT]]
)
@pytest.mark.parametrize("is_closed", [False, True])
def test_deleted_records_are_not_missed(tmp_path, lost, is_closed):
    """[DUR-8, DUR-19] Whichever checkpoint is lost: .segstore knows where the epoch begins."""
    path = tmp_path / "o-0"
    first, *_ = write(path, is_closed=True)
    log = segstore.open(path, internal_segment_bytes=450)
    log.delete_records(4)
    assert not (path / first).exists()
    (log.close if is_closed else log.close_quietly)()
    for name in lost:
        (path / name).unlink(missing_ok=True)
    with segstore.open(path) as log:
        assert log.report.maybe_missing is None
        assert log.log_end_offset == RECORDS
        assert [record.offset for record in log][-10:] == [*range(4, RECORDS)]


def test_a_later_epoch_is_a_brokers(tmp_path):
    """[DUR-64] Then nothing of .segstore holds."""
    path = tmp_path / "o-0"
    first, *_ = write(path, is_closed=False)
    state = (path / ".segstore").read_bytes()
    with segstore.open(path) as log:
        records = MemoryRecords.with_records([(None, b"a broker's")])
        log.append_as_leader(records, leader_epoch=1)
    (path / ".segstore").write_bytes(state)
    (path / first).unlink()
    (path / LEADER_EPOCH_CHECKPOINT).unlink()
    with segstore.open(path) as log:
        assert log.report.maybe_missing is None
        assert log.log_end_offset == RECORDS + 1
