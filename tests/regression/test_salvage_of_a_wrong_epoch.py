"""Salvage left a good batch out whose leader epoch had flipped: "which do not fit those around it".

No CRC covers the epoch, but ``.segstore`` and the checkpoint tell which it was. The first mend went
by the batches around it alone: it gave the first batch of an epoch that of the one before, and
batches that a truncation had taken away came back as part of a copy that was called complete.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import segstore
from segstore.cli import main
from tests.log_kit import batch
from tests.unit.log.damaged_logs import flip_bit

if TYPE_CHECKING:
    from pathlib import Path

RECORDS, EACH, EPOCH_AT = 28, 4, 12
SIZE = len(batch([(None, b"value")] * EACH))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Seven batches of four records each; the last four of epoch 3."""
    path = tmp_path / "o-0"
    with segstore.open(path) as log:
        for number in range(RECORDS // EACH):
            data = batch([(None, b"value")] * EACH)
            log.append_as_leader(data, 3 if number >= 3 else 0)
    return path


def with_epoch(path: Path, number: int, epoch: int) -> bytes:
    """Change the epoch of a batch; returns what was written."""
    file = path / f"{0:020d}.log"
    written = file.read_bytes()
    at = number * SIZE + EPOCH_AT
    file.write_bytes(written[:at] + epoch.to_bytes(4, "big", signed=epoch < 0) + written[at + 4 :])
    return written


def epochs_of(path: Path) -> list[int]:
    data = (path / f"{0:020d}.log").read_bytes()
    return [int.from_bytes(data[at : at + 4], "big") for at in range(EPOCH_AT, len(data), SIZE)]


WRITTEN = [0, 0, 0, 3, 3, 3, 3]
ABOVE = range(2, 32)  # what these bits make of 0 or 3 is above 3, which was the latest, or below 0


@pytest.mark.parametrize("bit", ABOVE)
@pytest.mark.parametrize("number", range(6))
def test_an_epoch_that_never_was_is_mended(path: Path, number: int, bit: int):
    """[DUR-62, DUR-64] All records are copied, with the epoch that they had, and it is told."""
    wrong = WRITTEN[number] ^ (1 << bit if bit < 31 else -(1 << 31))
    written = with_epoch(path, number, wrong)
    target = path.parent / "s-0"

    report = segstore.salvage(path, target)

    assert report.complete
    assert (target / f"{0:020d}.log").read_bytes() == written
    (told,) = report.warnings
    assert f"position {number * SIZE}: the batch of the offsets {number * EACH} to" in told
    assert told.endswith(f"has the leader epoch {wrong}, which no CRC covers and is not what was"
                         " written, or the batch is an older one: the copy has"
                         f" {WRITTEN[number]}, by leader-epoch-checkpoint or"
                         " .segstore")  # fmt: skip


@pytest.mark.parametrize("bit", range(32))
@pytest.mark.parametrize("number", range(7))
def test_no_bit_of_an_epoch_is_copied_in_silence(path: Path, number: int, bit: int):
    """[DUR-7, DUR-62] The epochs of the copy are those that were written, or it is told."""
    flip_bit(path / f"{0:020d}.log", number * SIZE + EPOCH_AT + 3 - bit // 8, bit % 8)

    report = segstore.salvage(path, path.parent / "s-0")

    assert report.warnings or not report.complete
    copied = epochs_of(path.parent / "s-0")
    if report.complete and number < 6:
        assert copied == WRITTEN or 1 << bit < 4
    elif not report.complete:
        assert 1 << bit < 4  # it may be that of an older batch
        assert WRITTEN[number] == 3
        assert copied == WRITTEN[:number] + WRITTEN[number + 1 :]


def test_a_batch_that_has_none_where_others_have_one(path: Path):
    """[DUR-7] It is copied, as a follower may have got it, and told."""
    with_epoch(path, 4, -1)
    report = segstore.salvage(path, path.parent / "s-0")
    assert report.complete
    assert "is copied with its leader epoch -1, which no CRC covers: by" in report.warnings[0]


def test_below_the_first_epoch_nothing_is_told(tmp_path: Path):
    """[EPC-6] A deletion of records moves the first epoch, and leaves the batches of others."""
    path = tmp_path / "o-0"
    with segstore.open(path) as log:
        for epoch in (3, 3, 5, 5, 7, 7):
            log.append_as_leader(batch([(None, b"value")] * EACH), epoch)
        log.delete_records(14)
    report = segstore.salvage(path, tmp_path / "s-0")
    assert (report.complete, report.warnings) == (True, [])
    assert epochs_of(tmp_path / "s-0") == [3, 3, 5, 5, 7, 7]


@pytest.mark.parametrize("content", [None, b"", b"0\n0\n", b"-1 0"])
def test_epochs_that_are_lost_and_one_that_never_was(path: Path, content: bytes | None):
    """[DUR-7, DUR-64] The batches say that somebody wrote here since: that is told."""
    if content is None:
        (path / "leader-epoch-checkpoint").unlink()
    else:
        (path / "leader-epoch-checkpoint").write_bytes(content)
    with_epoch(path, 4, 1 << 20)
    report = segstore.salvage(path, path.parent / "s-0")
    assert report.warnings


@pytest.mark.parametrize("number", [1, 2, 3])
def test_without_the_checkpoint(path: Path, number: int):
    """[DUR-62, DUR-64] Where the latest epoch begins ``.segstore`` tells; below it, the order."""
    (path / "leader-epoch-checkpoint").unlink()
    with_epoch(path, number, 2)

    report = segstore.salvage(path, path.parent / "s-0")

    fits = number == 2  # between 0 and 3
    assert report.complete is fits
    rest = [2] * fits + WRITTEN[number + 1 :]
    assert epochs_of(path.parent / "s-0") == WRITTEN[:number] + rest


def test_what_the_checkpoint_says_is_not_believed_against_the_batches(path: Path):
    """[DUR-64] It has no checksum: what does not fit the batches around is told, no more."""
    (path / "leader-epoch-checkpoint").write_text("0\n2\n2 0\n3 12\n")
    with_epoch(path, 1, 1 << 20)

    report = segstore.salvage(path, path.parent / "s-0")

    assert report.complete
    assert epochs_of(path.parent / "s-0") == WRITTEN
    assert any(text.endswith("the copy has 0, for want of a better one")
               for text in report.warnings)  # fmt: skip
    assert sum("is copied with its leader epoch 0, which no CRC covers: by" in text
               for text in report.warnings) == 1  # fmt: skip


def test_what_a_truncation_took_away_does_not_come_back(tmp_path: Path):
    """[DUR-5, DUR-62] A disk that lost the shrink has old batches behind those of a newer epoch."""
    path = tmp_path / "o-0"
    file = path / f"{0:020d}.log"
    with segstore.open(path) as log:
        for _ in range(7):
            log.append_as_leader(batch([(None, b"old__")] * EACH), 3)
    old = file.read_bytes()
    with segstore.open(path) as log:
        log.truncate_to(4)
        for _ in range(2):
            log.append_as_leader(batch([(None, b"value")] * EACH), 5)
    new = file.read_bytes()
    file.write_bytes(new + old[len(new) :])

    report = segstore.salvage(path, tmp_path / "s-0")

    assert not report.complete
    assert (tmp_path / "s-0" / file.name).read_bytes() == new


def test_an_epoch_below_the_one_before_may_be_an_old_batch(path: Path, capsys):
    """[DUR-62, DUR-64] It is told, and left out."""
    with_epoch(path, 5, 2)
    assert main(["salvage", str(path), str(path.parent / "s-0")]) == 1
    assert "the leader epoch 2: one of the two does not fit" in " ".join(
        capsys.readouterr().out.split()
    )
    with segstore.open(path.parent / "s-0", read_only=True) as log:
        assert [record.offset for record in log] == [*range(20), *range(24, RECORDS)]


def test_verify_names_it_once(tmp_path: Path, capsys):
    """[DUR-64] Files behind it, which are good, were findings too, each to be restored."""
    path = tmp_path / "o-0"
    with segstore.open(path) as log:
        for _ in range(3):
            for _ in range(3):
                log.append_as_leader(batch([(None, b"value")] * EACH), 0)
            log.roll()
    with_epoch(path, 1, 1 << 18)

    assert main(["verify", str(path)]) == 1
    found = " ".join(capsys.readouterr().out.split())
    assert "1 finding;" in found
    assert f"byte {2 * SIZE}, offset 8: expected a leader epoch not below the one before" in found
    assert "a leader epoch, which no CRC covers, is not what was written" in found


def test_verify_names_one_behind_other_damage(tmp_path: Path, capsys):
    """[DUR-7, DUR-64] What stopped the look at the file before was no epoch: that still counts."""
    path = tmp_path / "o-0"
    with segstore.open(path) as log:
        for epoch in (1, 2):
            for _ in range(3):
                log.append_as_leader(batch([(None, b"value")] * EACH), epoch)
            log.roll()
    flip_bit(path / f"{0:020d}.log", 3 * SIZE - 1)
    flip_bit(path / f"{12:020d}.log", EPOCH_AT + 3, bit=1)  # 2 is 0

    assert main(["verify", str(path)]) == 1
    found = " ".join(capsys.readouterr().out.split())
    assert "2 findings;" in found
    assert "expected a leader epoch not below the one before, found 0 behind 1" in found
