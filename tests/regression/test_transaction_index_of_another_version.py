"""A ``.txnindex`` that cannot be believed: a replicated handle refused to read, the other did."""

from __future__ import annotations

import pytest

import segstore
from segstore import _core
from segstore.errors import UnsupportedFormatError
from segstore.types import AppendOrigin
from tests.kits.log_kit import batch, offsets


def log_with_an_aborted_transaction(path):
    """Offsets 0 and 2 are committed, 1 is aborted, 3 is the marker."""
    with segstore.open(path, durability="none") as log:
        log.append([(None, b"before")])
        log.append_as_leader(
            batch(
                [(None, b"aborted")],
                producer_id=7,
                producer_epoch=0,
                base_sequence=0,
                transactional=True,
                timestamp=_core.wall_clock_ms(),
            )
        )
        log.append([(None, b"between")])
        marker = _core.encode_end_transaction_marker(
            0, _core.wall_clock_ms(), 0, 7, 0, commit=False, coordinator_epoch=0
        )
        log.append_as_leader(marker, origin=AppendOrigin.COORDINATOR, transaction_version=1)


@pytest.mark.parametrize("replicated", [False, True])
@pytest.mark.parametrize("position", [1, 18])
def test_a_safe_handle_reads_the_batches_instead(tmp_path, replicated, position):
    """[DUR-8, DUR-97, TXX-8] another version, or a marker that cannot be there."""
    path = tmp_path / "t-0"
    log_with_an_aborted_transaction(path)
    (index,) = path.glob("*.txnindex")
    content = bytearray(index.read_bytes())
    content[position] = 0x80 | (position == 1)
    index.write_bytes(content)
    with segstore.open(path, replicated=replicated) as log:
        if replicated:
            log.update_high_watermark(log.log_end_offset)
        assert offsets(log.scan(isolation="read_committed")) == [0, 2]
        found = log.read(0, 2**20, "read_committed")
        assert offsets(found) == [0, 2]


def test_kafkas_profile_refuses(tmp_path):
    """[TXX-3, DUR-62] as the broker does."""
    path = tmp_path / "t-0"
    log_with_an_aborted_transaction(path)
    with segstore.open(path, recovery="kafka", replicated=True) as log:
        log.update_high_watermark(log.log_end_offset)
        (index,) = path.glob("*.txnindex")
        content = bytearray(index.read_bytes())
        content[1] = 1
        index.write_bytes(content)
        with pytest.raises(UnsupportedFormatError):
            log.read(0, 2**20, "read_committed")
