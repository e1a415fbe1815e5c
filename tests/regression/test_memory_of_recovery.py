"""Opening a log kept 80 bytes a batch in memory, twice the file when batches are small [DUR-61]."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

import segstore
from tests.kits.log_kit import singleton

if TYPE_CHECKING:
    from pathlib import Path

BATCHES_COUNT = 1_500_000
ROW_BYTES = 80
LIMIT_BYTES = 64 * 1024 * 1024
MARKER, EPOCHS = ".kafka_cleanshutdown", "leader-epoch-checkpoint"
OPEN = """
import sys
import segstore

def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))

before = peak()
with segstore.open(sys.argv[1], durability="none", read_only=sys.argv[2] == "True") as log:
    assert log.report.clean == (sys.argv[3] == "True"), log.report
    print(peak() - before, log.log_end_offset)
"""


class ManyBatches:
    """One segment of the smallest batches there are, closed cleanly."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.open()
        one = np.frombuffer(singleton(b""), dtype=np.uint8)
        batches = np.tile(one, (BATCHES_COUNT, 1))
        base_offsets = np.arange(BATCHES_COUNT, dtype=">i8")  # the checksum leaves them out
        batches[:, :8] = base_offsets.view(np.uint8).reshape(-1, 8)
        (path / MARKER).unlink()
        (path / f"{0:020d}.log").write_bytes(batches)
        self.open()
        self.small = {f: f.read_bytes() for f in path.iterdir() if f.suffix != ".log"}

    def open(self) -> None:
        segstore.open(self.path, durability="none").close()


@pytest.fixture(scope="module")
def many_batches(tmp_path_factory: pytest.TempPathFactory) -> ManyBatches:
    return ManyBatches(tmp_path_factory.mktemp("many") / "topic-0")


@pytest.mark.parametrize("read_only", [True, False], ids=["read_only", "writable"])
@pytest.mark.parametrize("lost", [MARKER, EPOCHS])
def test_opening_keeps_no_row_of_every_batch(
    many_batches: ManyBatches, lost: str, *, read_only: bool
):
    """[DUR-61, DUR-21] An unclean open and one that makes the leader epochs anew are bounded."""
    assert BATCHES_COUNT * ROW_BYTES > 1.5 * LIMIT_BYTES
    for file, content in many_batches.small.items():
        file.write_bytes(content)
    (many_batches.path / lost).unlink()

    arguments = (str(many_batches.path), str(read_only), str(lost == EPOCHS))
    command = (sys.executable, "-c", OPEN, *arguments)
    done = subprocess.run(command, check=True, capture_output=True, text=True)

    grown, log_end_offset = map(int, done.stdout.split())
    assert log_end_offset == BATCHES_COUNT
    assert grown < LIMIT_BYTES
