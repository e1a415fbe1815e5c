"""The fetch quota: reads from remote storage wait for it, are charged, and are counted."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from segstore.errors import ClosedError, OffsetOutOfRangeError, RemoteStorageError
from segstore.log.remote_tier import RemoteLogReader, RemoteRead
from segstore.remote.log_manager.charged_reader import ChargedReader
from segstore.remote.log_manager.remote_log_manager import RemoteLogManager
from segstore.remote.log_manager.remote_log_manager_config import RemoteLogManagerConfig
from segstore.remote.log_manager.remote_log_stats import RemoteLogCounters
from segstore.remote.log_manager.remote_quota import RemoteQuota
from segstore.types import LogOffsetMetadata, TopicPartition
from tests.kits.remote_kit import RemoteRecords
from tests.kits.remote_log_kit import MemoryRemoteLogMetadata, MemoryRemoteStorage

if TYPE_CHECKING:
    from collections.abc import Callable

PARTITION = TopicPartition("t", 0)
LIMIT = 100


class Reads(RemoteRecords):
    """Gives 600 bytes, or raises."""

    def __init__(self) -> None:
        super().__init__()
        self.error: Exception | None = None

    def read(self, *_: Any, **__: Any) -> RemoteRead:
        if self.error is not None:
            raise self.error
        return RemoteRead(memoryview(bytes(600)), LogOffsetMetadata(0), "an object")


class Closed(threading.Event):
    """A wait is over at once, and takes as long as it should by the clock."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0
        self.during_wait: Callable[[], object] = bool

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.now_ms += round(timeout * 1000)
        self.during_wait()
        return self.is_set()


class Parts:
    def __init__(self) -> None:
        self.reads, self.closed, self.counters = Reads(), Closed(), RemoteLogCounters()
        quota = RemoteQuota(LIMIT, 11, 1, lambda: self.closed.now_ms)
        self.reader = ChargedReader(self.reads, quota, self.counters, self.closed)

    def read(self) -> int:
        found = self.reader.read(
            PARTITION,
            0,
            1000,
            min_one_message=True,
            leader_epochs=[],
            is_committed=False,
            local_aborted_transactions=lambda *_: (),
        )
        return len(found.records)


@pytest.fixture
def parts() -> Parts:
    return Parts()


def test_it_is_what_a_log_takes(parts: Parts):
    assert isinstance(parts.reader, RemoteLogReader)


def test_reads_wait_for_the_quota(parts: Parts):
    """[TIER-70] 100 bytes a second, over ten seconds; a read is charged after it."""
    for _ in range(2):
        assert parts.read() == 600
    assert parts.closed.now_ms == 0
    assert parts.read() == 600
    assert parts.closed.now_ms > 0
    for _ in range(20):
        parts.read()
    charged = parts.counters.fetch_bytes
    assert charged == 23 * 600
    assert 0.8 * LIMIT < charged / (parts.closed.now_ms / 1000) < 1.25 * LIMIT


def test_errors_are_charged_with_nothing(parts: Parts):
    """[TIER-70] An offset that is not there is counted as a request, and as no failure."""
    parts.reads.error = RemoteStorageError("no answer", found="nothing", expected="bytes")
    for _ in range(5):
        with pytest.raises(RemoteStorageError):
            parts.read()
    parts.reads.error = OffsetOutOfRangeError("not there", found="0", expected="1")
    with pytest.raises(OffsetOutOfRangeError):
        parts.read()
    assert parts.counters == RemoteLogCounters(fetch_requests=6, failed_fetches=5)
    parts.reads.error = None
    parts.read()
    assert parts.counters == RemoteLogCounters(fetch_requests=7, fetch_bytes=600, failed_fetches=5)
    assert parts.closed.now_ms == 0


def test_a_close_ends_a_wait(parts: Parts):
    """[TIER-92] and nothing is read then."""
    parts.closed.during_wait = parts.closed.set
    parts.read()
    parts.read()
    with pytest.raises(ClosedError):
        parts.read()
    assert parts.counters.fetch_requests == 2


def test_the_manager_gives_readers_its_quota(parts: Parts):
    """[TIER-70, TIER-92] The setting is that of all readers together; close ends them."""
    manager = RemoteLogManager(
        MemoryRemoteStorage(),
        MemoryRemoteLogMetadata(),
        None,
        broker_id=1,
        clock_ms=lambda: 0,
        config=RemoteLogManagerConfig(fetch_max_bytes_per_second=50),
    )
    parts.reader = manager.charged(parts.reads)
    parts.read()
    assert manager.fetch_quota.throttle_ms() > 0
    assert manager.counters == RemoteLogCounters(fetch_requests=1, fetch_bytes=600)
    manager.close()
    with pytest.raises(ClosedError):
        parts.read()
