"""Good records before a batch whose offsets are wrong were not handed out, and byte 0 was named.

The length of a batch in offsets, or its base offset, had one flipped bit: what it reaches over
shows that. The whole piece that had been read was refused.
"""

from __future__ import annotations

from itertools import islice

import pytest

from segstore.errors import CorruptLogError
from tests.kits.log_kit import at, offsets

SIZE = len(at(0, 3))
BASE_OFFSET, LAST_OFFSET_DELTA = 6, 25


@pytest.fixture(params=[BASE_OFFSET, LAST_OFFSET_DELTA], ids=["base offset", "last offset delta"])
def log(request, new_log, tmp_path):
    """Batches of three records; the third of a sealed segment seems to be 256 offsets on."""
    log = new_log()
    for base in range(0, 15, 3):
        log.append_as_follower(at(base, 3), 0)
    log.roll()
    log.append_as_follower(at(15, 3), 0)
    log.close()
    file = tmp_path / "topic-0" / f"{0:020d}.log"
    content = bytearray(file.read_bytes())
    content[2 * SIZE + request.param] ^= 1
    file.write_bytes(content)
    return new_log(read_only=True)


def test_what_comes_before_is_handed_out(log):
    """[DUR-50, DUR-79] And the error names the batch."""
    seen = []
    with pytest.raises(CorruptLogError) as told:
        seen.extend(record.offset for record in log.scan())

    assert seen == [0, 1, 2, 3, 4, 5]
    assert told.value.position == 2 * SIZE


def test_a_range_that_ends_before_it(log):
    """[DUR-79]"""
    assert offsets(log.scan(0, 6)) == [*range(6)]
    assert offsets(log.scan(3, 5)) == [3, 4]
    assert offsets(log.scan(15, 18)) == [15, 16, 17]


@pytest.mark.parametrize("start", [0, 4])
def test_a_read_from_before_it(log, start):
    """[DUR-79]"""
    assert offsets(islice(log.read(start), 2)) == [start, start + 1]
