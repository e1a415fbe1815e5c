"""A new log could not be opened after a crash that tore a batch inside its base offset.

The CRC does not cover that field: the batch looked whole and out of order, which is damage where
there is no recovery point yet [DUR-63]. Found by tests/crash: its random script 10953.
"""

from __future__ import annotations

import pytest

import segstore
from tests.kits.log_kit import batch

SECTOR_BYTES = 512
FIRST_VALUE_BYTES = 200


def torn_log(new_log, tmp_path, *, position: int, zeros: int, offset: int = 300):
    """Make a log of two batches, the second at *position*; its first bytes become zero.

    Nothing says up to where it was safe.
    """
    path = tmp_path / "topic-0"
    log = new_log()
    log.truncate_fully_and_start_at(offset)
    empty = len(batch([(None, bytes(FIRST_VALUE_BYTES))]))
    log.append_as_leader(batch([(None, bytes(FIRST_VALUE_BYTES + position - empty))]))
    log.append_as_leader(batch([(None, b"second")]))
    log.close_quietly()
    (file,) = path.glob("*.log")
    content = bytearray(file.read_bytes())
    assert int.from_bytes(content[position : position + 8]) == offset + 1
    content[position : position + zeros] = bytes(zeros)
    file.write_bytes(content)
    (path / "recovery-point-offset-checkpoint").unlink(missing_ok=True)
    return path


@pytest.mark.parametrize(("position", "zeros"), [(504, 8), (505, 7)])
def test_a_batch_torn_inside_its_base_offset_is_the_tail(new_log, tmp_path, position, zeros):
    path = torn_log(new_log, tmp_path, position=position, zeros=zeros)

    log = new_log(path)

    assert log.log_end_offset == 301
    assert log.report.quarantined


@pytest.mark.parametrize(("position", "zeros"), [(503, 8), (512, 8), (400, 8)])
def test_zeros_that_no_sector_explains_are_damage(new_log, tmp_path, position, zeros):
    """[DUR-63] A whole batch in the wrong place is nothing that a crash leaves."""
    path = torn_log(new_log, tmp_path, position=position, zeros=zeros)

    with pytest.raises(segstore.CorruptLogError, match="no recovery point"):
        new_log(path)
