"""The first segment was lost, and the leader epochs with it: every tool said that all was well.

Epochs that were made anew of the batches behind it began there, did not fit ``.segstore`` any more,
and so nothing told that the log had begun before.
"""

from __future__ import annotations

import os

import pytest

import segstore
from segstore.cli import main
from segstore.errors import CorruptLogError
from segstore.log.directory.checkpoints import LEADER_EPOCH_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT

RECORDS = 14


def write(path, *, is_closed: bool) -> str:
    """Return the name of the first of some segments."""
    log = segstore.open(path, internal_segment_bytes=450)
    for number in range(RECORDS):
        log.append([(None, b"record-%d" % number * 5)])
    (log.close if is_closed else log.close_quietly)()
    first, second = sorted(path.glob("*.log"))[:2]
    assert (int(first.stem), int(second.stem)) == (0, 4)
    return first.name


@pytest.mark.parametrize("is_closed", [False, True])
@pytest.mark.parametrize("how", [os.remove, lambda file: os.truncate(file, 0)], ids=["rm", "empty"])
def test_the_records_are_missed(tmp_path, how, is_closed, capsys):
    """[DUR-7, DUR-21, DUR-58] By the next open, by verify, and in what is salvaged."""
    path = tmp_path / "o-0"
    how(path / write(path, is_closed=is_closed))
    (path / LEADER_EPOCH_CHECKPOINT).unlink()

    assert main(["verify", str(path)]) == 1
    assert "records 0 to 3 are missing" in " ".join(capsys.readouterr().out.split())
    for _ in range(2):
        with pytest.raises(CorruptLogError):
            segstore.open(path)
    with segstore.open(path, read_only=True) as log:
        assert "0 to 3" in str(log.report.damage)
    assert main(["salvage", str(path), str(tmp_path / "saved" / "o-0")]) == 1
    assert "offsets 0 to 3" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    "lost", [[LEADER_EPOCH_CHECKPOINT], [LEADER_EPOCH_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT]]
)
@pytest.mark.parametrize("is_closed", [False, True])
def test_deleted_records_are_not_missed(tmp_path, lost, is_closed):
    """[DUR-8, DUR-19] Whichever checkpoint is lost: .segstore knows where the epoch begins."""
    path = tmp_path / "o-0"
    first = write(path, is_closed=True)
    log = segstore.open(path, internal_segment_bytes=450)
    log.delete_records(4)
    assert not (path / first).exists()
    (log.close if is_closed else log.close_quietly)()
    for name in lost:
        (path / name).unlink(missing_ok=True)
    with segstore.open(path) as log:
        assert log.log_end_offset == RECORDS
        assert [record.offset for record in log][-10:] == [*range(4, RECORDS)]
