"""Kafka's LogLoaderTest on producers and transaction indexes that a load makes anew.

With both profiles where both do the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from segstore._core import Directory
from segstore.log.files.partition_directory import file_name
from segstore.log.files.stored_state import StoredState
from segstore.log.local.transaction_index import TransactionIndex
from segstore.log.log_environment import LogEnvironment
from segstore.log.log_opener import open_partition
from segstore.log.open_options import open_options
from segstore.types import CURRENT_MAGIC, Codec
from tests.kits.records_kit import build
from tests.kits.transactions_kit import ABORT, NOW, Producer, write, write_transactions

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from segstore import UnifiedLog

BOTH = pytest.mark.parametrize("recovery", ["kafka", "safe"])
ABORTED = [(1, 0, 29, 8), (2, 8, 74, 36)]
"""Of T-14: producer, first offset, marker, last stable offset."""

OpenLog = "Callable[..., UnifiedLog]"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "orders-0"


@pytest.fixture
def open_log(folder: Path) -> Iterator[OpenLog]:
    """Open as after a stop of that kind; what is open is closed at the end."""
    logs: list[UnifiedLog] = []

    def opened(
        recovery: str,
        *,
        clean: bool = False,
        start: int = 0,
        recovery_point: int = 0,
        **settings: object,
    ) -> UnifiedLog:
        options = open_options(
            durability="none", recovery=recovery, segment_ms=None, replicated=False, **settings
        )
        found = StoredState(start, recovery_point, clean, None)
        logs.append(open_partition(folder, options, LogEnvironment(found=found)))
        return logs[-1]

    yield opened
    for log in logs:
        log.close()


def aborted(log: UnifiedLog) -> list[tuple[int, ...]]:
    """The entries of all transaction indexes."""
    directory = Directory(log.path)
    return [
        tuple(entry)
        for segment in log.segments()
        for entry in list(TransactionIndex(directory, segment.base_offset))
    ]


def producer_ids(log: UnifiedLog) -> set[int]:
    return set(log._producers.active_producers)


def remove(folder: Path, *kinds: str, base: int | None = None) -> None:
    """Remove files of a kind, of one segment or of all."""
    for kind in kinds:
        for file in folder.glob(f"*.{kind}" if base is None else file_name(base, kind)):
            file.unlink()


@BOTH
def test_full_transaction_index_recovery(folder: Path, open_log: OpenLog, recovery: str):
    """[SEG-42, DUR-52, T-14] LogLoaderTest.testFullTransactionIndexRecovery."""
    with open_log(recovery, clean=True, internal_segment_bytes=640) as log:
        write_transactions(log)
        assert aborted(log) == ABORTED
        log.flush()
    remove(folder, "index", "txnindex")

    log = open_log(recovery, internal_segment_bytes=5120)

    assert aborted(log) == ABORTED


@BOTH
def test_recover_only_last_segment(folder: Path, open_log: OpenLog, recovery: str):
    """[SEG-42, LDR-16, T-14] LogLoaderTest.testRecoverOnlyLastSegment."""
    with open_log(recovery, clean=True, internal_segment_bytes=640) as log:
        write_transactions(log)
        last = log.segments()[-1].base_offset
        log.flush()
    remove(folder, "index", "txnindex", base=last)

    log = open_log(recovery, recovery_point=last, internal_segment_bytes=5120)

    assert aborted(log) == ABORTED


@BOTH
def test_recover_last_segment_with_no_snapshots(folder: Path, open_log: OpenLog, recovery: str):
    """[PSM-74, T-14] LogLoaderTest.testRecoverLastSegmentWithNoSnapshots: the log has it all."""
    with open_log(recovery, clean=True, internal_segment_bytes=640) as log:
        write_transactions(log)
        last = log.segments()[-1].base_offset
        log.flush()
    remove(folder, "index", "txnindex", base=last)
    remove(folder, "snapshot")

    log = open_log(recovery, recovery_point=last, internal_segment_bytes=5120)

    assert aborted(log) == ABORTED


@BOTH
def test_load_producers_after_delete_records_mid_segment(open_log: OpenLog, recovery: str):
    """[PSM-72] LogLoaderTest.testLoadProducersAfterDeleteRecordsMidSegment."""
    with open_log(recovery, clean=True) as log:
        Producer(log, 1, transactional=False).write()
        Producer(log, 2, transactional=False).write()
        log.delete_records(1)
        assert producer_ids(log) == {1, 2}

    log = open_log(recovery, start=1)

    assert producer_ids(log) == {1, 2}
    assert log._producers.active_producers[2].last_seq == 0


@BOTH
def test_load_producers_after_delete_records_on_segment(open_log: OpenLog, recovery: str):
    """[PSM-60, PSM-72] LogLoaderTest.testLoadProducersAfterDeleteRecordsOnSegment."""
    with open_log(recovery, clean=True) as log:
        Producer(log, 1, transactional=False).write()
        log.roll()
        Producer(log, 2, transactional=False).write()
        log.delete_records(1)
        assert producer_ids(log) == {1, 2}

    log = open_log(recovery, start=1)

    assert producer_ids(log) == {2}
    assert log._producers.active_producers[2].last_seq == 0


@BOTH
def test_recover_after_non_monotonic_coordinator_epoch_write(open_log: OpenLog, recovery: str):
    """[PSM-17] LogLoaderTest.testRecoverAfterNonMonotonicCoordinatorEpochWrite."""
    with open_log(recovery, clean=True) as log:
        Producer(log, 1).end(ABORT, coordinator_epoch=5, timestamp=NOW)
        log._producers.remove_expired_producers(10**15)
        assert producer_ids(log) == set()
        Producer(log, 1).end(ABORT, coordinator_epoch=4, timestamp=NOW + 1)
        log.flush()

    log = open_log(recovery)

    assert log._producers.active_producers[1].last_timestamp == NOW + 1


@BOTH
def test_skip_loading_if_empty_producer_state_before_truncation(open_log: OpenLog, recovery: str):
    """[PSM-72, PSM-73] LogLoaderTest.testSkipLoadingIfEmptyProducerStateBeforeTruncation."""
    log = open_log(recovery, clean=True)
    assert log._producers.map_end_offset == 0
    for number in (1, 2):
        write(log)
        assert log._producers.map_end_offset == number

    log.truncate_to(1)

    assert log._producers.map_end_offset == 1
    assert producer_ids(log) == set()


@BOTH
def test_a_clean_start_of_an_empty_log_writes_no_snapshot(
    folder: Path, open_log: OpenLog, recovery: str
):
    """[PSM-71] LogLoaderTest.testSkipTruncateAndReloadIfNewMessageFormatAndCleanShutdown."""
    log = open_log(recovery, clean=True)

    assert log._producers.map_end_offset == 0
    assert list(folder.glob("*.snapshot")) == []


def test_rebuild_time_index_for_old_messages(folder: Path, open_log: OpenLog):
    """[LDR-15, TMX-5] LogLoaderTest.testRebuildTimeIndexForOldMessages: without a timestamp."""
    settings = {"internal_segment_bytes": 1000, "index_interval_bytes": 1}
    with open_log("kafka", clean=True, **settings) as log:
        for _ in range(40):
            log.append_as_leader(build([(0, -1, b"key", b"value of no time")]), 0)
        log.flush()
        end = log.log_end_offset
    remove(folder, "timeindex")

    log = open_log("kafka", recovery_point=end + 1, **settings)

    sealed = log.segments()[:-1]
    assert len(sealed) > 1
    for segment in sealed:
        assert segment.time_index_entries() == []
        assert (folder / file_name(segment.base_offset, "timeindex")).stat().st_size == 0


@pytest.mark.parametrize("magic", [2, 1])
@BOTH
def test_over_compacted_log_recovery_multi_record(
    folder: Path, open_log: OpenLog, recovery: str, magic: int
):
    """[T-18, APP-12] LogLoaderTest.testOverCompactedLogRecoveryMultiRecord.

    And LogLoaderTest.testOverCompactedLogRecoveryMultiRecordV1.
    """
    far = 2**31 + 1
    bases = {2: [0, far], 1: [0, 3, far + 2]}[magic]
    settings = {"internal_segment_bytes": 1000, "index_interval_bytes": 1}
    with open_log(recovery, clean=True, **settings) as log:
        options = {"partition_leader_epoch": 0} if magic == CURRENT_MAGIC else {}
        log.append_as_follower(build([(0, 1, b"k", b"v")], magic, **options), 0)
        for first in (far, far + 2, far + 4):
            rows = [(first, 1, b"k", b"v"), (first + 1, 1, b"k", b"v")]
            log.append_as_follower(build(rows, magic, Codec.GZIP, **options), 0)

        assert [segment.base_offset for segment in log.segments()] == bases
        for base in bases[1:]:
            assert (folder / file_name(base, "snapshot")).exists()

    assert sorted(int(file.stem) for file in folder.glob("*.index")) == bases
