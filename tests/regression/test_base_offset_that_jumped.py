"""One flipped bit in a base offset made recovery cut good, synced batches behind it."""

from __future__ import annotations

import pytest

import segstore
from segstore.errors import CorruptLogError
from segstore.log.files.checkpoints import CLEAN_SHUTDOWN_MARKER


def test_synced_batches_behind_a_jump_are_not_cut(tmp_path):
    """[DUR-50, DUR-51] The batch that jumped ahead is the bad one: the CRC does not cover it."""
    folder = tmp_path / "orders-0"
    with segstore.open(folder) as log:
        log.append([(b"k", b"0")])
        log.append([(b"k", b"1")])
        log.append([(b"k", b"2")])
    (folder / CLEAN_SHUTDOWN_MARKER).unlink()
    (folder / ".segstore").unlink()  # as in a directory of a broker
    file = next(folder.glob("*.log"))
    data = bytearray(file.read_bytes())
    second = len(data) // 3
    data[second + 6] ^= 1  # 1 becomes 257
    file.write_bytes(data)

    with pytest.raises(CorruptLogError, match="had been synced"):
        segstore.open(folder)

    assert file.read_bytes() == data
