"""``.segstore`` was lost, or one of its bytes flipped, and no tool said a word.

From then on a lost segment counted as deleted or compacted away: verify said "clean", salvage that
nothing was lost, a reader went on behind the hole, and the next open took the last traces away.
"""

from __future__ import annotations

import os

import pytest

import segstore
from segstore.cli import main
from segstore.log.directory.checkpoints import LEADER_EPOCH_CHECKPOINT, LOG_STATE
from tests.log_kit import batch

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
def path(tmp_path, is_closed):
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
def test_the_loss_itself_is_told(path, lose, told, capsys):
    """[DUR-7, DUR-64] By readers, verify, the open and salvage; nothing else is wrong."""
    lose(path / LOG_STATE)
    with segstore.open(path, read_only=True) as log:
        assert log.report.lost_state == told
        assert any(text.startswith(told) for text in log.report.warnings)
        assert (log.report.maybe_missing, log.report.damage) == (None, None)
    assert main(["verify", str(path)]) == 1
    found = printed(capsys)
    assert "1 finding;" in found
    assert f"{told.replace(' ', ': ', 1)} means:" in found
    assert main(["salvage", str(path), str(path.parent / "s-0")]) == 0
    found = printed(capsys)
    assert "nothing was lost" in found
    assert told in found
    assert main(["recover", str(path)]) == 0
    assert told in printed(capsys)

    with segstore.open(path) as log:
        assert (log.report.lost_state, len(list(log))) == (None, RECORDS)
    assert main(["verify", str(path)]) == 0


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
def test_lost_segments_are_missed(path, numbers, missing, has_epochs, capsys):
    """[DUR-7, DUR-8] Nobody can tell whether they were deleted: the log is read and written."""
    (garble if has_epochs else os.remove)(path / LOG_STATE)
    if not has_epochs:
        (path / LEADER_EPOCH_CHECKPOINT).unlink()
    for number in numbers:
        (path / f"{4 * number:020d}.log").unlink()
    kept = [offset for offset in range(RECORDS) if offset // 4 not in numbers]
    with segstore.open(path, read_only=True) as log:
        assert missing in str(log.report.maybe_missing)
        assert [record.offset for record in log] == kept
    assert main(["verify", str(path)]) == 1
    assert missing in printed(capsys)
    assert main(["salvage", str(path), str(path.parent / "s-0")]) == 0
    salvaged = printed(capsys)
    assert "nothing was lost" not in salvaged
    first, _, last = missing.split(",")[0].removeprefix("records ").split(" ")[:3]
    assert f"no file holds the offsets {first} to {last}" in salvaged
    assert main(["recover", str(path)]) == 1
    assert missing in printed(capsys)
    with segstore.open(path) as log:
        assert [record.offset for record in log] == kept


@CLOSES
@LOSSES
def test_deleted_records_are_not_missed(path, lose, told):
    """[DUR-19] The log start tells that they were."""
    with segstore.open(path, file_delete_delay_ms=0) as log:
        assert log.delete_records(9) == 9
    lose(path / LOG_STATE)
    for read_only in (True, False):
        with segstore.open(path, read_only=read_only) as log:
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
