"""Kafka's LogCleanerTest, where producers and transactions play a part, with Kafka's profile."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from tests.conformance.test_kafka_log_cleaner import COMPACT, NEVER, clean, keys, offsets, put
from tests.kits.log_kit import batch
from tests.kits.transactions_kit import ABORT, COMMIT, NOW, Producer

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore import UnifiedLog
    from segstore.types import LogAppendInfo

    NewLog = Callable[..., UnifiedLog]


DAY = 24 * 3600 * 1000


class Writer:
    """One producer of batches with chosen keys."""

    def __init__(self, log: UnifiedLog, producer_id: int, *, transactional: bool = True) -> None:
        self.log = log
        self.options = {
            "producer_id": producer_id,
            "producer_epoch": 0,
            "transactional": transactional,
        }
        self.sequence = 0

    def write(self, *record_keys: int, sequence: int | None = None) -> LogAppendInfo:
        """Append a batch."""
        if sequence is None:
            sequence, self.sequence = self.sequence, self.sequence + len(record_keys)
        rows = [(b"%d" % key, b"v%d" % key) for key in record_keys]
        data = batch(rows, base_sequence=sequence, timestamp=NOW, **self.options)
        return self.log.append_as_leader(data, 0)

    def end(self, kind: int) -> None:
        """Append a marker."""
        ended = Producer(self.log, self.options["producer_id"])
        ended.end(kind)


def last_offsets(log: UnifiedLog) -> list[int]:
    """Of all batches, empty ones too."""
    return [data.last_offset for data in log.scan().batches()]


def two_pass(log: UnifiedLog, now: int = NOW) -> None:
    """As Kafka's ``runTwoPassClean``: the second after the horizons of the first."""
    clean(log, now=now)
    clean(log, now=now + DAY + 1)


def test_duplicate_check_after_cleaning(new_log: NewLog):
    """[CLN-83, CLN-91] LogCleanerTest.testDuplicateCheckAfterCleaning."""
    log = new_log(**COMPACT | {"internal_segment_bytes": 2048})
    sent = {
        number: (1, 2, 3) if number == 1 else (3, 1, 4) if number == 2 else (1, 4)
        for number in (1, 2, 3)
    }
    for number, record_keys in sent.items():
        Writer(log, number, transactional=False).write(*record_keys)
    log.roll()
    clean(log)
    assert last_offsets(log) == [2, 5, 7]
    assert keys(log) == [2, 3, 1, 4]
    assert offsets(log) == [1, 3, 6, 7]
    sequences = [
        data.base_sequence + data.last_offset - data.base_offset for data in log.scan().batches()
    ]
    assert sequences == [2, 2, 1]

    def check_duplicates(log: UnifiedLog) -> None:
        for number, (first, last) in {1: (0, 2), 3: (6, 7), 2: (3, 5)}.items():
            again = Writer(log, number, transactional=False).write(*sent[number], sequence=0)
            assert again.is_duplicate
            assert (again.base_offset, again.last_offset) == (first, last)

    log.close()
    log = new_log(**COMPACT | {"internal_segment_bytes": 2048})
    check_duplicates(log)
    Writer(log, 4, transactional=False).write(2)
    log.roll()
    clean(log)
    assert last_offsets(log) == [2, 5, 7, 8]
    assert keys(log) == [3, 1, 4, 2]
    assert offsets(log) == [3, 6, 7, 8]
    log.close()
    log = new_log(**COMPACT | {"internal_segment_bytes": 2048})
    check_duplicates(log)


def test_log_cleaner_retains_producer_last_sequence(new_log: NewLog):
    """[CLN-83] LogCleanerTest.testLogCleanerRetainsProducerLastSequence."""
    log = new_log(**COMPACT)
    put(log, 0, 0)
    first, second, third = (Writer(log, number, transactional=False) for number in (1, 2, 3))
    for each in (first, second, third):
        each.write(0)
    second.write(1)
    log.roll()
    clean(log)

    assert last_offsets(log) == [1, 3, 4]
    assert [data.base_sequence for data in log.scan().batches()] == [0, 0, 1]
    assert keys(log) == [0, 1]
    assert offsets(log) == [3, 4]


def test_deleted_batches_with_no_messages_read(new_log: NewLog):
    """[CLN-57, CLN-100] LogCleanerTest.testDeletedBatchesWithNoMessagesRead.

    A piece of which all is discarded.
    """
    log = new_log(**COMPACT | {"internal_segment_bytes": 1000, "max_message_bytes": 100})
    producer = Writer(log, 1)
    producer.write(1)
    producer.end(ABORT)
    producer.write(2)
    producer.write(2)
    producer.end(COMMIT)
    log.roll()
    clean(log, now=NOW, io_buffer_bytes=100)
    assert keys(log) == [2]
    assert offsets(log) == [1, 3, 4]
    two_pass(log)
    assert offsets(log) == [3, 4]


def test_commit_marker_removal(new_log: NewLog):
    """[CLN-81, CLN-87] LogCleanerTest.testEmptyBatchRemovalWithSequenceReuse.

    Both transactions of the producer begin with sequence 0.
    """
    log = new_log(**COMPACT)
    for key in (1, 2):
        producer = Writer(log, 1)
        log.append_as_leader(
            batch(
                [(b"%d" % key, b"v")],
                base_sequence=0,
                timestamp=NOW,
                **producer.options | {"producer_epoch": key},
            ),
            0,
        )
        Producer(log, 1, epoch=key).end(COMMIT)
    put(log, 1, 1)
    put(log, 2, 2)
    log.roll()
    clean(log, now=NOW)
    assert offsets(log) == [1, 3, 4, 5]
    assert last_offsets(log) == [1, 2, 3, 4, 5]
    two_pass(log)
    assert offsets(log) == [3, 4, 5]
    assert last_offsets(log) == [2, 3, 4, 5]


def test_commit_marker_retention_with_empty_batch(new_log: NewLog):
    """[CLN-81, CLN-83, CLN-87] LogCleanerTest.testCommitMarkerRetentionWithEmptyBatch."""
    log = new_log(**COMPACT)
    first, second = Writer(log, 1), Writer(log, 2)
    first.write(2, 3)
    second.write(2, 3)
    second.end(COMMIT)
    put(log, 2, 2)
    put(log, 3, 3)
    first.end(COMMIT)
    log.roll()
    for _ in range(2):
        clean(log, now=NOW)
        assert keys(log) == [2, 3]
        assert offsets(log) == [4, 5, 6, 7]
        assert last_offsets(log) == [1, 3, 4, 5, 6, 7]
    second.write(1)
    second.end(COMMIT)
    log.roll()
    clean(log, now=NOW)
    assert keys(log) == [2, 3, 1]
    assert offsets(log) == [4, 5, 6, 7, 8, 9]
    assert last_offsets(log) == [1, 4, 5, 6, 7, 8, 9]
    two_pass(log)
    assert offsets(log) == [5, 6, 7, 8, 9]
    assert last_offsets(log) == [1, 5, 6, 7, 8, 9]


def test_clean_empty_control_batch(new_log: NewLog):
    """[CLN-81, CLN-83] LogCleanerTest.testCleanEmptyControlBatch."""
    log = new_log(**COMPACT)
    Writer(log, 1).end(COMMIT)
    put(log, 2, 2)
    put(log, 3, 3)
    log.roll()
    two_pass(log)
    for now in (None, NEVER):
        if now is not None:
            clean(log, now=now)
        assert keys(log) == [2, 3]
        assert offsets(log) == [1, 2]
        assert last_offsets(log) == [0, 1, 2]


def test_aborted_transaction_spanning_segments(new_log: NewLog):
    """[CLN-72, CLN-83, CLN-98] LogCleanerTest.testAbortedTransactionSpanningSegments."""
    log = new_log(**COMPACT)
    producer = Writer(log, 1)
    producer.write(1)
    log.roll()
    producer.end(ABORT)
    log.roll()
    for now in (NOW, NEVER):
        clean(log, now=now)
        assert keys(log) == []
        assert offsets(log) == [1]
        assert last_offsets(log) == [0, 1]


def test_abort_marker_removal(new_log: NewLog):
    """[CLN-81, CLN-87] LogCleanerTest.testAbortMarkerRemoval."""
    log = new_log(**COMPACT)
    producer = Writer(log, 1)
    producer.write(1)
    producer.write(2, 3)
    producer.end(ABORT)
    producer.write(3)
    producer.end(COMMIT)
    log.roll()
    clean(log, now=NOW)
    assert keys(log) == [3]
    assert offsets(log) == [3, 4, 5]
    two_pass(log)
    assert keys(log) == [3]
    assert offsets(log) == [4, 5]


def aborted(log: UnifiedLog) -> list[tuple[int, int]]:
    """First and last offset of the aborted transactions in the indexes."""
    found = log._local_log.collect_aborted_transactions(0, 0, log.log_end_offset)
    return [(one.first_offset, one.last_offset) for one in found]


def test_abort_marker_retention_with_empty_batch(new_log: NewLog):
    """[CLN-81, CLN-83, CLN-97] LogCleanerTest.testAbortMarkerRetentionWithEmptyBatch."""
    log = new_log(**COMPACT)
    producer = Writer(log, 1)
    producer.write(2, 3)
    producer.end(ABORT)
    log.roll()
    clean(log, now=NOW)
    for _ in range(2):
        assert keys(log) == []
        assert offsets(log) == [2]
        assert last_offsets(log) == [1, 2]
        assert aborted(log) == [(0, 2)]
        two_pass(log)
    producer.options["transactional"] = False
    producer.write(1)
    log.roll()
    clean(log, now=NOW)
    assert keys(log) == [1]
    assert offsets(log) == [2, 3]
    assert last_offsets(log) == [2, 3]
    assert aborted(log) == [(0, 2)]
    two_pass(log)
    assert offsets(log) == [3]
    assert last_offsets(log) == [3]
    assert aborted(log) == []


def test_cleaning_with_keys_conflicting_with_txn_marker_keys(new_log: NewLog):
    """[CLN-57] LogCleanerTest.testCleaningWithKeysConflictingWithTxnMarkerKeys."""
    log = new_log(**COMPACT)
    first, second = Writer(log, 1), Writer(log, 2)
    first.write(1)
    first.end(COMMIT)
    marker_key = struct.pack(">hh", 0, COMMIT)
    data = batch([(marker_key, b"v")], base_sequence=0, timestamp=NOW, **second.options)
    log.append_as_leader(data, 0)
    second.end(COMMIT)
    log.roll()
    clean(log)

    assert offsets(log) == [0, 1, 2, 3]
