"""Zeros behind a segment below the recovery point, and a damaged batch in the middle of it.

The look that told padding from damage left the checksums out; the cut behind it did not, and went
to the damaged batch: synced records were gone without a word.
"""

from __future__ import annotations

import pytest

from segstore.errors import CorruptLogError
from tests.kits.log_kit import at, two_segments

SIZE = len(at(0))
PADDING = bytes(4096)


@pytest.fixture
def file(new_log, tmp_path):
    """The first of two segments, sealed and synced, of a log that was not closed."""
    log = two_segments(new_log)
    log.flush()
    log.close_quietly()
    return tmp_path / "topic-0" / f"{0:020d}.log"


@pytest.mark.parametrize("number", range(6))
@pytest.mark.parametrize("padding", [PADDING, b""])
def test_nothing_is_cut_and_the_log_is_refused(new_log, file, number, padding):
    """[DUR-51, DUR-59] As often as it is opened; also to make an index anew."""
    content = bytearray(file.read_bytes() + padding)
    content[number * SIZE + SIZE - 2] ^= 1
    file.write_bytes(content)
    if not padding:
        file.with_suffix(".timeindex").write_bytes(b"\1" * 12)
    for _ in range(2):
        with pytest.raises(CorruptLogError, match="No record was changed"):
            new_log()
        assert file.read_bytes() == content


def test_padding_alone_is_trimmed(new_log, file):
    """[DUR-17, DUR-53] A crash undid the trim of the roll: no record is behind it."""
    content = file.read_bytes()
    file.write_bytes(content + PADDING)
    assert [record.offset for record in new_log()] == list(range(8))
    assert file.read_bytes() == content


def test_a_second_reading_that_differs_cuts_nothing(new_log, file, monkeypatch):
    """[DUR-51, DUR-57] What a disk gives out wrong once is no reason to cut there."""
    file.write_bytes(file.read_bytes() + PADDING)
    from segstore.log.local.segment import Segment

    recover, content = Segment.recover, bytearray(file.read_bytes())

    def recover_damaged(segment, **how):
        content[3 * SIZE - 2] ^= 1
        file.write_bytes(content)
        return recover(segment, **how)

    monkeypatch.setattr(Segment, "recover", recover_damaged)
    with pytest.raises(CorruptLogError, match="read twice, with two results"):
        new_log()
    assert file.read_bytes() == content
