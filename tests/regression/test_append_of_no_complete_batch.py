"""A cut batch given to `append_as_leader` was dropped, and the append looked like a success.

Bytes behind the last whole batch are left out, as Kafka does; bytes without any whole batch hold
nothing that could be appended [APP-31].
"""

from __future__ import annotations

import pytest

import segstore
from tests.kits.log_kit import at, offsets, singleton


@pytest.mark.parametrize("data", [singleton()[:-3], b"junk", b"\0", bytes(5)])
def test_no_complete_batch_is_an_error(new_log, data):
    """[APP-31, DUR-85]"""
    log = new_log()
    for append in (log.append_as_leader, lambda given: log.append_as_follower(given, 0)):
        with pytest.raises(segstore.CorruptRecordError, match="no complete batch") as caught:
            append(data)
        assert (caught.value.position, caught.value.found) == (0, f"{len(data)} bytes")
    assert log.log_end_offset == 0


def test_what_follows_a_complete_batch_is_left_out(new_log):
    """[APP-31] Kafka's clients may be given a cut batch behind whole ones."""
    log = new_log()
    assert log.append_as_leader(singleton() + singleton()[:-3]).records_count == 1
    assert log.append_as_follower(at(1) + at(2)[:-1], 0).records_count == 1
    assert log.append_as_leader(b"").records_count == 0
    assert offsets(log) == [0, 1]
