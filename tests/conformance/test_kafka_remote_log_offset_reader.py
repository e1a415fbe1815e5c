"""Kafka's RemoteLogOffsetReaderTest: a look-up by time asks remote storage first.

Kafka's pool of threads is not here: who asks, waits. So nothing is queued, rejected or cancelled
(testTaskQueueFullAndCancelTask).
"""

from __future__ import annotations

import pytest

from segstore.errors import RemoteStorageError
from tests.kits.log_kit import TIME, batch
from tests.kits.remote_kit import TIERED, RemoteRecords


@pytest.fixture
def remote() -> RemoteRecords:
    return RemoteRecords([(TIME, 0, 3)])


@pytest.fixture(params=["safe", "kafka"])
def log(request, new_log, remote):
    """Offset 1 is here; offset 0 is in remote storage alone."""
    log = new_log(recovery=request.param, replicated=False, remote_log_reader=remote, **TIERED)
    for number in range(2):
        log.append_as_leader(batch([(TIME + number, None, b"value")]), 3)
        log.roll()
    log.update_highest_offset_in_remote_storage(0)
    log.maybe_increment_local_log_start_offset(1)
    log.delete_old_segments()
    assert log.segments()[0].base_offset == 1
    return log


def test_read_remote_log(log, remote):
    """RemoteLogOffsetReaderTest.testReadRemoteLog [TIER-72]."""
    assert log.fetch_offset_by_timestamp(TIME) == (TIME, 0, 3)
    assert log.fetch_offset_by_timestamp(TIME + 1) == (TIME + 1, 1, 3)
    assert [asked[1:3] for asked in remote.asked] == [(TIME, 0), (TIME + 1, 0)]


def test_throw_error_on_find_offset_by_timestamp(log, remote, monkeypatch):
    """RemoteLogOffsetReaderTest.testThrowErrorOnFindOffsetByTimestamp [TIER-70, DUR-144].

    The error is that of this call.
    """

    def fail(*_: object) -> None:
        raise RemoteStorageError("the store does not answer", file="remote/0.log")

    monkeypatch.setattr(remote, "find_offset_by_timestamp", fail)
    with pytest.raises(RemoteStorageError, match=r"remote/0\.log"):
        log.fetch_offset_by_timestamp(TIME)
    assert [record.offset for record in log.scan(1)] == [1]
