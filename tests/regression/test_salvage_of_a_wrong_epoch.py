"""Salvage left a good batch out whose leader epoch had flipped: "which do not fit those around it".

No CRC covers the epoch. Salvage mended it by what small files say; now it copies such a batch as it
stands, and reports it. What may be an older batch, which a truncation took away, is left out.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore.cli import main
from tests.kits.damaged_logs import flip_bit
from tests.kits.log_kit import batch

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


@pytest.mark.parametrize("bit", [2, 9, 20, 30, 31])
@pytest.mark.parametrize("number", range(7))
def test_an_epoch_that_never_was_is_copied_as_it_stands(path: Path, number: int, bit: int):
    """[DUR-62, DUR-64] No byte of a batch is changed; the copy can be used, and it is told."""
    flip_bit(path / f"{0:020d}.log", number * SIZE + EPOCH_AT + 3 - bit // 8, bit % 8)
    found = (path / f"{0:020d}.log").read_bytes()
    target = path.parent / "s-0"

    report = segstore.salvage(path, target)

    assert report.complete
    assert (target / f"{0:020d}.log").read_bytes() == found
    (told,) = report.warnings
    assert f"position {number * SIZE}: the batch of offsets {number * EACH} to" in told
    with segstore.open(target) as log:
        assert log.verify().ok
        assert log.append([(None, b"goes on")]).base_offset == RECORDS


@pytest.mark.parametrize("bit", range(32))
@pytest.mark.parametrize("number", range(7))
def test_no_bit_of_an_epoch_is_copied_in_silence(path: Path, number: int, bit: int):
    """[DUR-7, DUR-62] The epochs of the copy are those that were written, or it is told."""
    flip_bit(path / f"{0:020d}.log", number * SIZE + EPOCH_AT + 3 - bit // 8, bit % 8)

    report = segstore.salvage(path, path.parent / "s-0")

    if report.complete:
        assert report.warnings
    else:  # it may be that of an older batch
        assert 1 << bit < 4
        assert WRITTEN[number] == 3
        assert epochs_of(path.parent / "s-0") == WRITTEN[:number] + WRITTEN[number + 1 :]


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


@pytest.mark.parametrize("number", [4, 5])
def test_without_the_checkpoint(path: Path, number: int):
    """[DUR-62, DUR-64] Where the latest epoch begins ``.segstore`` tells."""
    (path / "leader-epoch-checkpoint").unlink()
    with_epoch(path, number, 2)

    report = segstore.salvage(path, path.parent / "s-0")

    assert [(lost.code, lost.position) for lost in report.lost] == [
        ("BATCH_OUT_OF_ORDER", number * SIZE)
    ]
    assert epochs_of(path.parent / "s-0") == WRITTEN[:number] + WRITTEN[number + 1 :]


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

    assert main(["verify", "-q", "--json", str(path)]) == 1
    (found,) = json.loads(capsys.readouterr().out)["findings"]
    assert (found["code"], found["position"]) == ("BATCH_OUT_OF_ORDER", 2 * SIZE)
    assert (found["first_offset"], found["records"]) == (8, "NONE")


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

    assert main(["verify", "-q", "--json", str(path)]) == 1
    _, found = json.loads(capsys.readouterr().out)["findings"]
    assert (found["code"], found["first_offset"]) == ("BATCH_OUT_OF_ORDER", 12)
