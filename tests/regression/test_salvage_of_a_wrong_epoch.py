"""Salvage left a good batch out whose leader epoch had flipped: "which do not fit those around it".

No CRC covers the epoch. Of one that goes back nothing tells whether the batch is an old one, which
the disk kept in the place of another; but none of an older log can be above those behind it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import segstore
from segstore.cli import main
from tests.log_kit import batch

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
    file.write_bytes(written[:at] + epoch.to_bytes(4, "big") + written[at + 4 :])
    return written


@pytest.mark.parametrize("bit", range(31))
@pytest.mark.parametrize("number", [0, 1, 2])
def test_an_epoch_above_those_behind_it_is_mended(path: Path, number: int, bit: int):
    """[DUR-62, DUR-64] All records are copied; the epoch is that of the batch before."""
    written = with_epoch(path, number, 1 << bit)
    target = path.parent / "s-0"

    report = segstore.salvage(path, target)

    assert report.complete
    with segstore.open(target, read_only=True) as log:
        assert [record.offset for record in log] == list(range(RECORDS))
    is_seen = number < 2 or 1 << bit > 3
    assert ((target / f"{0:020d}.log").read_bytes() == written) is is_seen
    told = [text for text in report.warnings if "leader epoch" in text]
    assert len(told) == is_seen
    if is_seen:
        assert f"position {number * SIZE}: the batch of the offsets {number * EACH} to" in told[0]
        assert told[0].endswith(f"has the leader epoch {1 << bit}, above that of the batches behind"
                                " it, which no CRC covers: the copy has 0")  # fmt: skip


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
