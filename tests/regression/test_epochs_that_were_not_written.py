"""A bit of ``leader-epoch-checkpoint`` flipped, and a segment that was lost too was no finding.

Its format has no checksum, and the log counted as one that a broker has written to since; but the
batches contradict it. Found by a new user: 8 of its 64 bits.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore.cli import main
from segstore.errors import SegstoreError
from segstore.log.files.checkpoints import LEADER_EPOCH_CHECKPOINT
from tests.kits.damaged_logs import flip_bit
from tests.kits.log_kit import batch

if TYPE_CHECKING:
    from pathlib import Path

RECORDS = 16
CLOSES = pytest.mark.parametrize("is_closed", [True, False], ids=["closed", "killed"])


@pytest.fixture
def path(tmp_path, is_closed, epochs) -> Path:
    """Four segments of four records each, the last of them of the last epoch."""
    path = tmp_path / "o-0"
    log = segstore.open(path)
    for offset in range(RECORDS):
        if offset and offset % 4 == 0:
            log.roll()
        epoch = 0 if offset < RECORDS - 4 else epochs - 1
        log.append_as_leader(batch([(None, b"value")]), epoch)
    log.flush()
    (log.close if is_closed else log.close_quietly)()
    return path


def is_reported(path: Path) -> bool:
    """Whether a reader, and a verification, say that records are missing."""
    try:
        with segstore.open(path, read_only=True) as log:
            told = log.report.maybe_missing or log.report.damage
    except SegstoreError:
        told = "refused"
    return bool(told) and main(["verify", str(path)]) == 1


@CLOSES
@pytest.mark.parametrize("epochs", [1, 2])
@pytest.mark.parametrize("lost", [0, 4, 8])
def test_a_lost_segment_is_missed_whichever_bit_has_flipped(path: Path, lost: int):
    """[DUR-7, DUR-21] Whatever the latest epoch reads like, its batches are there.

    Where the first of two begins is where a broker has deleted up to: that is believed.
    """
    (path / f"{lost:020d}.log").unlink()
    written = (path / LEADER_EPOCH_CHECKPOINT).read_bytes()
    latest = written[:-1].rindex(b"\n")
    bits = [*range(32), *range(8 * latest, 8 * len(written))]
    silent = []
    for bit in bits:
        if lost == 0 and bit == 8 * (len(written) - 2) + 2 and len(written) == 8:
            continue  # "0 4": as the first epoch of what a broker has deleted up to there
        copy = path.parent / "c-0"
        shutil.copytree(path, copy)
        flip_bit(copy / LEADER_EPOCH_CHECKPOINT, *divmod(bit, 8))
        if not is_reported(copy):
            silent.append(bit)
        shutil.rmtree(copy)

    assert silent == []


@CLOSES
@pytest.mark.parametrize("epochs", [1])
def test_the_flip_alone_is_no_loss(path: Path, capsys: pytest.CaptureFixture[str]):
    """[DUR-7, DUR-21, DUR-64] No record is missing; the epochs are those of the batches again."""
    (path / LEADER_EPOCH_CHECKPOINT).write_text("0\n1\n1 0\n")
    said = f"by {LEADER_EPOCH_CHECKPOINT} offset 15 is of epoch 1, and the batch at 15 has epoch 0"
    assert main(["verify", str(path)]) == 0
    assert f"note: {said}" in " ".join(capsys.readouterr().out.split())
    for read_only in (True, False):
        with segstore.open(path, read_only=read_only) as log:
            assert log.report.maybe_missing is None
            assert [text for text in log.report.warnings if text.startswith(said)]
            found = log.verify()
            assert found.ok
            assert found.notes == [log.report.doubtful_epochs]
            assert len(list(log)) == RECORDS
    with segstore.open(path) as log:
        assert log.report.doubtful_epochs is None
        assert log.append_as_leader(batch([(None, b"value")]), 0).base_offset == RECORDS


@CLOSES
@pytest.mark.parametrize("epochs", [1])
def test_verify_of_a_handle_behind_a_cut(path: Path):
    """[DUR-7] Records that are missing still are, unless they would have been cut, or deleted."""
    (path / LEADER_EPOCH_CHECKPOINT).write_text("0\n1\n1 0\n")
    (path / f"{4:020d}.log").unlink()
    with segstore.open(path) as log:
        for truncated in (15, 12, 8):
            log.truncate_to(truncated)
            (found,) = log.verify().findings
            assert found.found == log.report.maybe_missing
        log.truncate_to(4)
        assert log.verify().ok
        log.append([(None, b"value")] * 8)
        assert log.verify().ok


@CLOSES
@pytest.mark.parametrize("epochs", [1])
def test_what_is_told(path: Path, capsys: pytest.CaptureFixture[str]):
    """[DUR-7] What contradicts what; the log goes on, for a broker's looks the same."""
    (path / LEADER_EPOCH_CHECKPOINT).write_text("0\n1\n1 0\n")
    (path / f"{4:020d}.log").unlink()
    said = f"by {LEADER_EPOCH_CHECKPOINT} offset 15 is of epoch 1, and the batch at 15 has epoch 0"
    with segstore.open(path, read_only=True) as log:
        assert log.report.maybe_missing == (
            "records 4 to 7 are missing, unless deleted, or compacted away by a broker"
        )
        assert [text for text in log.report.warnings if text.startswith(said)]
        assert [text for text in log.report.warnings if log.report.maybe_missing in text]
    assert main(["verify", str(path)]) == 1
    found = " ".join(capsys.readouterr().out.split())
    assert "[RECORDS_MAYBE_MISSING]" in found
    assert "records 4 to 7 are missing" in found
    assert main(["salvage", str(path), str(path.parent / "s-0")]) == 0
    assert said in " ".join(capsys.readouterr().out.split())
    with segstore.open(path) as log:
        assert len(list(log)) == RECORDS - 4


HISTORIES = {
    "a leader of another cluster, whose epoch is lower": (
        [5] * 4, {0: [(0, 5), (1, 5), (2, 5), (3, 5), (4, 3), (5, 3)]}, [(3, 4)]
    ),
    "a follower that truncated into our epoch": (
        [4] * 4 + [5] * 4,
        {0: [*((o, 4) for o in range(6)), (6, 5), (7, 5), (8, 5)], 12: [(12, 5), (13, 5)]},
        [(4, 0), (5, 6)],
    ),
    "a follower in our epoch, whose first segment was deleted": (
        [0] * 8, {8: [(8, 0), (9, 0)], 14: [(14, 0)]}, [(0, 8)]
    ),
    "records deleted by a call, and a gap inside a file": (
        [0] * 8, {0: [*((o, 0) for o in range(9)), (12, 0), (13, 0)]}, [(0, 3)]
    ),
    "records deleted by a call, and a gap between files": (
        [0] * 8, {0: [(o, 0) for o in range(9)], 12: [(12, 0), (13, 0)]}, [(0, 3)]
    ),
    "a leader without a batch, that followed then": (
        [5] * 4, {0: [(0, 5), (1, 5), (2, 5), (3, 5), (4, 5), (9, 5), (10, 5)]}, [(5, 0), (6, 4)]
    ),
}  # fmt: skip


@CLOSES
@pytest.mark.parametrize("point", [None, "end"], ids=["no point", "synced"])
@pytest.mark.parametrize("history", HISTORIES.values(), ids=HISTORIES)
def test_nothing_of_a_broker_is_cut(tmp_path, is_closed, point, history):
    """[DUR-2, DUR-64] It wrote behind us, and what contradicts its epochs is what it may write."""
    ours, files, epochs = history
    path = tmp_path / "o-0"
    log = segstore.open(path)
    for epoch in ours:
        log.append_as_leader(batch([(None, b"ours")]), epoch)
    log.flush()
    (log.close if is_closed else log.close_quietly)()
    for file in path.glob("*.*"):
        if file.name[:20].isdigit():
            file.unlink()
    for base_offset, batches in files.items():
        data = b"".join(batch([(None, b"v")], base_offset=o, epoch=e) for o, e in batches)
        (path / f"{base_offset:020d}.log").write_bytes(data)
    offsets = [offset for batches in files.values() for offset, _ in batches]
    lines = "".join(f"{epoch} {start}\n" for epoch, start in epochs)
    (path / LEADER_EPOCH_CHECKPOINT).write_text(f"0\n{len(epochs)}\n{lines}")
    if point is not None:
        (tmp_path / "meta.properties").write_text("version=1\n")
        line = f"0\n1\no 0 {offsets[-1] + 1}\n"
        (tmp_path / "recovery-point-offset-checkpoint").write_text(line)
        (path / "recovery-point-offset-checkpoint").unlink(missing_ok=True)

    with segstore.open(path, read_only=True) as log:
        assert log.report.damage is None
        kept = [record.offset for record in log]
    assert kept == [offset for offset in offsets if offset >= log.log_start_offset]
    assert main(["salvage", str(path), str(tmp_path / "s-0")]) == 0
    with segstore.open(tmp_path / "s-0", read_only=True) as log:
        assert [record.offset for record in log] == kept
    with segstore.open(path) as log:
        assert (log.report.truncated_bytes, log.report.set_aside) == (0, [])
        assert [record.offset for record in log] == kept
