"""Which batch of a producer may come next, beyond what Kafka's own tests ask [PSM-10..PSM-20]."""

from __future__ import annotations

import logging

import pytest

from segstore._core import RawRecord
from segstore.errors import (
    IllegalArgumentError,
    InvalidProducerEpochError,
    InvalidRecordError,
    OutOfOrderSequenceError,
    TransactionCoordinatorFencedError,
)
from segstore.log.producers.producer_append_info import ProducerAppendInfo
from segstore.log.producers.producer_state_entry import (
    BatchMetadata,
    ProducerStateEntry,
    remembered,
)
from segstore.log.producers.txn_metadata import CompletedTxn
from segstore.log.producers.verification_state_entry import VerificationStateEntry
from segstore.types import CONTROL_FLAG, TRANSACTIONAL_FLAG, AppendOrigin, LogOffsetMetadata
from tests.kits.producer_state_kit import ABORT, COMMIT, NOW, PRODUCER, data, marker

CLIENT, COORDINATOR, REPLICATION = (
    AppendOrigin.CLIENT,
    AppendOrigin.COORDINATOR,
    AppendOrigin.REPLICATION,
)
MAX_SEQUENCE = 2**31 - 1
MAX_EPOCH = 2**15 - 1


def stored(epoch: int = 5, last_seq: int | None = 9, **fields: object) -> ProducerStateEntry:
    batches = [] if last_seq is None else [BatchMetadata(last_seq, 99, 0, NOW)]
    return ProducerStateEntry(PRODUCER, epoch, batch_metadata=remembered(batches), **fields)


def info(
    entry: ProducerStateEntry | None = None,
    origin: AppendOrigin = CLIENT,
    verification: VerificationStateEntry | None = None,
) -> ProducerAppendInfo:
    entry = entry or ProducerStateEntry(PRODUCER)
    return ProducerAppendInfo("topic-0", PRODUCER, entry, origin, verification)


def end(
    appended: ProducerAppendInfo,
    epoch: int,
    *,
    version: int = 0,
    coordinator_epoch: int = 0,
    record: RawRecord | None = None,
) -> CompletedTxn | None:
    """A COMMIT at offset 100."""
    batch = data(-1, 100, epoch=epoch)._replace(attributes=TRANSACTIONAL_FLAG | CONTROL_FLAG)
    first = record or marker(COMMIT, coordinator_epoch, 100, NOW + 1)
    return appended.append(batch, None, version, [first])


@pytest.mark.parametrize(
    ("entry", "epoch", "seq", "accepted"),
    [
        (None, 0, 0, True),
        (None, 3, 77, True),
        (stored(), 5, 10, True),
        (stored(), 5, 9, False),
        (stored(), 5, 11, False),
        (stored(), 5, 0, False),
        (stored(), 6, 0, True),
        (stored(), 6, 10, False),
        (stored(last_seq=MAX_SEQUENCE), 5, 0, True),
        (stored(last_seq=MAX_SEQUENCE), 5, 1, False),
        (stored(last_seq=None), 5, 0, True),
        (stored(last_seq=None), 5, 1, False),
    ],
)
def test_sequences_of_a_client(entry, epoch: int, seq: int, accepted):
    """[PSM-13, PSM-14]"""
    appended = info(entry)
    batch = data(seq, 100, epoch=epoch)
    if accepted:
        appended.append(batch)
        assert (appended.to_entry().producer_epoch, appended.to_entry().last_seq) == (epoch, seq)
        return
    with pytest.raises(OutOfOrderSequenceError) as refused:
        appended.append(batch)
    assert refused.value.found == str(seq)


@pytest.mark.parametrize("origin", [COORDINATOR, REPLICATION, AppendOrigin.RAFT_LEADER])
def test_others_skip_sequences(origin: AppendOrigin):
    """[PSM-15]"""
    appended = info(stored(), origin)
    appended.append(data(500, 100, epoch=5))
    assert appended.to_entry().last_seq == 500


def test_the_sequences_of_one_append_follow_each_other():
    """[PSM-13] Case 3: the copy has batches; they count, not the stored ones."""
    appended = info(stored())
    appended.append(data(10, 100, count=5, epoch=5))
    with pytest.raises(OutOfOrderSequenceError):
        appended.append(data(10, 105, epoch=5))
    appended.append(data(15, 105, epoch=5))


@pytest.mark.parametrize(("first", "accepted"), [(MAX_SEQUENCE - 1, True), (MAX_SEQUENCE, False)])
def test_a_batch_may_wrap_around(first: int, accepted):
    """[PSM-2, PSM-20] Its first and last sequence numbers are those of the header."""
    entry = stored(last_seq=MAX_SEQUENCE - 2)
    batch = data(first, 100, count=3, epoch=5)
    appended = info(entry)
    if not accepted:
        with pytest.raises(OutOfOrderSequenceError):
            appended.append(batch)
        return
    appended.append(batch)
    entry.update(appended.to_entry())
    assert (entry.batch_metadata[-1].first_seq, entry.last_seq) == (MAX_SEQUENCE - 1, 0)
    assert entry.find_duplicate_batch(batch) == BatchMetadata(0, 102, 2, NOW)


def test_a_verification_bounds_the_first_sequence():
    """[PSM-13] Step 1 comes before the epochs are compared, also for plain batches."""
    verification = VerificationStateEntry(NOW, 3, 5)
    for seq in (4, 10):
        with pytest.raises(OutOfOrderSequenceError, match="out of order") as refused:
            info(stored(), verification=verification).append(data(seq, 100, epoch=5))
        assert refused.value.expected.startswith("3")
    info(stored(last_seq=2), verification=verification).append(data(3, 100, epoch=5))


def test_a_verification_of_version_2_asks_only_producers_without_batches_for_0():
    """[PSM-13] Step 0."""
    verification = VerificationStateEntry(NOW, 20, 5, supports_epoch_bump=True)
    info(stored(), verification=verification).append(data(10, 100, epoch=5))
    with pytest.raises(OutOfOrderSequenceError):
        info(stored(last_seq=None), verification=verification).append(data(10, 100, epoch=6))


def test_nothing_is_asked_of_a_producer_that_was_not_known():
    """[PSM-13] Case 3: not even that the batches of its first append follow each other."""
    appended = info()
    appended.append(data(3, 100))
    appended.append(data(77, 101))
    assert appended.to_entry().last_seq == 77


@pytest.mark.parametrize("origin", [CLIENT, COORDINATOR])
def test_a_fenced_producer_is_refused(origin: AppendOrigin):
    """[PSM-12]"""
    with pytest.raises(InvalidProducerEpochError) as refused:
        info(stored(), origin).append(data(0, 100, epoch=4))
    assert (refused.value.found, refused.value.expected) == ("4", "5 or newer")


def test_a_follower_takes_a_lower_epoch(caplog: pytest.LogCaptureFixture):
    """[PSM-12] With a warning; the lower one replaces the higher."""
    entry = stored()
    appended = info(entry, REPLICATION)
    with caplog.at_level(logging.WARNING):
        appended.append(data(0, 100, epoch=4))
    entry.update(appended.to_entry())

    assert (entry.producer_epoch, entry.last_seq, len(entry.batch_metadata)) == (4, 0, 1)
    assert "epoch 4 of producer 1" in caplog.text


def test_a_transaction_begins_where_its_first_batch_lies():
    """[PSM-11] Offset-only where nobody knows the place."""
    appended = info()
    place = LogOffsetMetadata(100, 0, 990)
    appended.append(data(0, 100, transactional=True), place)
    appended.append(data(1, 101, transactional=True), LogOffsetMetadata(101, 0, 1100))
    elsewhere = info()
    elsewhere.append(data(0, 100, transactional=True))

    assert [begun.first_offset for begun in appended.started_transactions] == [place]
    (begun,) = elsewhere.started_transactions
    assert begun.first_offset.message_offset_only
    assert (begun.producer_id, begun.last_offset) == (PRODUCER, None)


@pytest.mark.parametrize(
    ("key", "value", "refusal"),
    [
        (b"\0\0\0\2", b"\0" * 6, IllegalArgumentError),
        (b"\0\0\0\1", b"\0" * 5, InvalidRecordError),
        (b"\0\0\0", b"\0" * 6, InvalidRecordError),
        (None, b"\0" * 6, InvalidRecordError),
    ],
)
def test_control_records_that_are_no_marker(key, value, refusal: type[Exception]):
    """[PSM-16]"""
    with pytest.raises(refusal):
        end(info(stored(), COORDINATOR), 5, record=RawRecord(100, NOW, -1, key, value, (), 0))


def test_only_the_first_record_of_a_control_batch_counts():
    """[PSM-16, PSM-17] Its timestamp is that of the entry; without one nothing happens."""
    entry = stored(current_txn_first_offset=90)
    batch = data(-1, 100, epoch=5)._replace(attributes=TRANSACTIONAL_FLAG | CONTROL_FLAG)
    appended = info(entry, COORDINATOR)
    assert appended.append(batch, None, 0, ()) is None
    assert appended.to_entry().current_txn_first_offset == 90

    records = [marker(ABORT, 4, 100, NOW + 7), marker(COMMIT, 9, 101, NOW + 8)]
    completed = appended.append(batch, None, 0, records)

    assert completed == CompletedTxn(PRODUCER, 90, 100, is_aborted=True)
    updated = appended.to_entry()
    assert (updated.coordinator_epoch, updated.last_timestamp) == (4, NOW + 7)
    assert updated.current_txn_first_offset is None


def test_an_older_coordinator():
    """[PSM-17] Refused by a leader; a follower follows."""
    entry = stored(coordinator_epoch=8)
    with pytest.raises(TransactionCoordinatorFencedError) as refused:
        end(info(entry, COORDINATOR), 5, coordinator_epoch=7)
    assert (refused.value.found, refused.value.expected) == ("7", "8 or newer")
    appended = info(entry, REPLICATION)
    end(appended, 5, version=-1, coordinator_epoch=7)
    assert appended.to_entry().coordinator_epoch == 7


@pytest.mark.parametrize("origin", [CLIENT, COORDINATOR, AppendOrigin.RAFT_LEADER])
def test_a_marker_needs_a_transaction_version(origin: AppendOrigin):
    """[PSM-18] Before anything else is checked: the epoch is too old as well."""
    with pytest.raises(IllegalArgumentError):
        end(info(stored(), origin), 4, version=-1)


@pytest.mark.parametrize(
    ("version", "stored_epoch", "is_open", "epoch", "accepted"),
    [
        (0, 5, True, 5, True),
        (1, 5, True, 4, False),
        (2, 5, True, 6, True),
        (2, 5, True, 5, False),
        (2, 5, False, 5, True),
        (2, 5, False, 4, False),
        (2, MAX_EPOCH, True, MAX_EPOCH, True),
        (2, MAX_EPOCH, True, MAX_EPOCH - 1, False),
    ],
)
def test_epochs_of_markers(version: int, stored_epoch: int, is_open, epoch: int, accepted):
    """[PSM-18] Version 2 raises the epoch with each marker; a repeated marker may come again."""
    entry = stored(stored_epoch, current_txn_first_offset=90 if is_open else None)
    if not accepted:
        with pytest.raises(InvalidProducerEpochError):
            end(info(entry, COORDINATOR), epoch, version=version)
        end(info(entry, REPLICATION), epoch, version=version)
        return
    appended = info(entry, COORDINATOR)
    completed = end(appended, epoch, version=version)
    assert (completed is not None) == is_open
    assert appended.to_entry().producer_epoch == epoch


def test_data_is_checked_by_the_rule_of_old():
    """[PSM-18] An equal epoch is right for a batch of any version."""
    appended = info(stored(current_txn_first_offset=90), COORDINATOR)
    appended.append(data(10, 100, epoch=5, transactional=True), None, 2)
    assert appended.started_transactions == ()


def test_nothing_of_the_stored_entry_changes():
    """[PSM-10, PSM-4] Before it is merged; then it has the batches of both, five at most."""
    entry = stored(current_txn_first_offset=90)
    before = entry.copy()
    appended = info(entry)
    for number in range(5):
        appended.append(data(10 + number, 100 + number, epoch=5, transactional=True))
    assert entry == before
    assert appended.to_entry().batch_metadata[0].first_seq == 10

    entry.update(appended.to_entry())

    assert [known.last_seq for known in entry.batch_metadata] == [10, 11, 12, 13, 14]
    assert (entry.first_seq, entry.first_data_offset) == (10, 100)
    assert entry.current_txn_first_offset == 90
    assert "last_seq=14" in repr(entry)
    assert "origin=CLIENT" in repr(appended)
