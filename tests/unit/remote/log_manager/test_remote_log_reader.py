"""Reads from remote storage: which bytes, of which history, at what cost, and what damage says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from segstore._core import Directory, scan_headers
from segstore.errors import (
    CorruptIndexError,
    CorruptLogError,
    CorruptRecordError,
    OffsetOutOfRangeError,
    RemoteResourceNotFoundError,
)
from segstore.log.local.transaction_index import AbortedTransaction
from segstore.log.remote_tier import RemoteLogReader, RemoteRead
from segstore.records.memory_records import MemoryRecords
from segstore.remote.log_manager.remote_index_cache import RemoteIndexCache
from segstore.remote.log_manager.remote_log_reader import RemoteStorageReader
from segstore.remote.log_manager.sequential_reads import Piece, ReadAhead
from segstore.remote.metadata.segment_metadata import (
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
)
from segstore.remote.storage.remote_storage_manager import IndexType
from segstore.types import Codec, EpochEntry, FileTimestampAndOffset, LogOffsetMetadata
from tests.kits.remote_storage import (
    LOG,
    PARTITION,
    MemoryRemoteMetadata,
    MemoryRemoteStorage,
    put_segment,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from segstore.remote.metadata.segment_metadata import RemoteLogSegmentMetadata

EPOCHS = ((0, 0),)


def batch(first: int, last: int, *, epoch: int = 0, size: int = 100, **options: Any) -> bytes:
    """One batch with a record for each offset; the timestamp of a record is 1000 + its offset."""
    rows = [(1000 + offset, None, bytes(size)) for offset in range(first, last + 1)]
    built = MemoryRecords.with_records(
        rows, base_offset=first, partition_leader_epoch=epoch, **options
    )
    return bytes(built.data)


def batches(first: int, end: int, *, step: int = 5, **options: Any) -> list[bytes]:
    return [batch(base, base + step - 1, **options) for base in range(first, end, step)]


class Tier:
    """A storage, its metadata, and what reads them."""

    def __init__(self, folder: Path) -> None:
        self.directory = Directory(str(folder))
        self.storage, self.metadata = MemoryRemoteStorage(), MemoryRemoteMetadata()
        self.restart()

    def restart(self, **options: Any) -> None:
        if hasattr(self, "cache"):
            self.cache.close()
        self.cache = RemoteIndexCache(self.directory, self.storage, clock_ms=lambda: 0, **options)
        self.reader = RemoteStorageReader(
            self.storage, self.metadata, self.cache, lambda _: PARTITION.topic_id
        )

    def put(self, content: list[bytes], **fields: Any) -> RemoteLogSegmentMetadata:
        metadata = put_segment(self.storage, content, **fields)
        self.metadata.add(metadata)
        return metadata

    def read(
        self,
        offset: int,
        max_bytes: int = 1024 * 1024,
        *,
        epochs: tuple[tuple[int, int], ...] = EPOCHS,
        min_one_message: bool = True,
        local: Iterable[AbortedTransaction] | None = None,
    ) -> RemoteRead:
        return self.reader.read(
            PARTITION.topic_partition,
            offset,
            max_bytes,
            min_one_message=min_one_message,
            leader_epochs=[EpochEntry(*one) for one in epochs],
            is_committed=local is not None,
            local_aborted_transactions=lambda *_: local or (),
        )

    def find(
        self, timestamp: int, offset: int = 0, epochs: tuple[tuple[int, int], ...] = EPOCHS
    ) -> FileTimestampAndOffset | None:
        return self.reader.find_offset_by_timestamp(
            PARTITION.topic_partition, timestamp, offset, [EpochEntry(*one) for one in epochs]
        )

    def change(self, metadata: RemoteLogSegmentMetadata, position: int, data: bytes) -> None:
        objects = self.storage.objects[metadata.segment_id.id]
        objects[LOG] = objects[LOG][:position] + data + objects[LOG][position + len(data) :]


@pytest.fixture
def tier(tmp_path: Path) -> Iterator[Tier]:
    made = Tier(tmp_path)
    yield made
    made.cache.close()
    made.directory.close()


def offsets(read: RemoteRead) -> list[tuple[int, int]]:
    table, _ = scan_headers(read.records)
    return [(table[row].base_offset, table[row].last_offset) for row in range(len(table))]


def test_it_is_what_a_log_takes(tier):
    assert isinstance(tier.reader, RemoteLogReader)


# ---- which bytes ---------------------------------------------------------------------------------


def test_a_read_begins_with_the_batch_of_the_offset(tier):
    """[TIER-65] [TIER-66] [TIER-68] Base offset and position are those of that batch."""
    content = batches(10, 50)
    tier.put(content, epochs=((0, 10),))

    found = tier.read(23)

    assert bytes(found.records) == b"".join(content[2:])
    place = sum(map(len, content[:2]))
    assert found.offset_metadata == LogOffsetMetadata(20, 10, place)
    assert found.aborted_transactions is None


def test_a_read_fills_its_limit_and_cuts_the_last_batch(tier):
    """[TIER-67] As a broker does."""
    content = batches(0, 50)
    tier.put(content)

    found = tier.read(5, 2 * len(content[0]) + 7)

    assert bytes(found.records) == b"".join(content)[len(content[0]) :][: 2 * len(content[0]) + 7]


def test_a_first_batch_above_the_limit_comes_alone_or_not_at_all(tier):
    """[TIER-67] Nothing is an empty result at the asked offset, without aborted transactions."""
    content = batches(0, 20)
    tier.put(content)

    assert bytes(tier.read(7, 10).records) == content[1]
    empty = tier.read(7, 10, min_one_message=False, local=())
    assert (bytes(empty.records), empty.offset_metadata) == (b"", LogOffsetMetadata(7))
    assert empty.aborted_transactions is None


def test_an_offset_without_a_segment_is_out_of_range(tier):
    """[TIER-65] Also where the segment is of another epoch, or its copy is not finished."""
    tier.put(batches(0, 20))
    tier.put(batches(20, 40), state=RemoteLogSegmentState.COPY_SEGMENT_STARTED)

    for offset, epochs in ((20, EPOCHS), (5, ((1, 0),)), (5, ((0, 6),)), (5, ())):
        with pytest.raises(OffsetOutOfRangeError, match=f"offset {offset}"):
            tier.read(offset, epochs=epochs)


def test_a_segment_without_the_batch_leads_to_the_next_one(tier):
    """[TIER-66] It was compacted before it was copied; the next is of another epoch."""
    tier.put(batches(0, 10), end_offset=19)
    following = batches(20, 30, epoch=3)
    tier.put(following, epochs=((3, 20),))

    found = tier.read(15, epochs=((0, 0), (3, 20)))

    assert bytes(found.records) == b"".join(following)
    assert found.offset_metadata == LogOffsetMetadata(20, 20, 0)


def test_nothing_behind_the_last_batch_is_an_empty_result(tier):
    """[TIER-66] With an empty list where one is asked for."""
    tier.put(batches(0, 10), end_offset=19)

    found = tier.read(15, local=[AbortedTransaction(1, 0, 5, 6)])

    assert (bytes(found.records), found.offset_metadata) == (b"", LogOffsetMetadata(15))
    assert found.aborted_transactions == []


# ---- one history ---------------------------------------------------------------------------------


def test_a_lost_branch_ends_a_read(tier):
    """[DUR-141] Epoch 1 was elected uncleanly away: from 20 on the log has epoch 2."""
    kept, lost = batches(0, 20), batches(20, 40, epoch=1)
    tier.put([*kept, *lost], epochs=((0, 0), (1, 20)))
    own = batches(20, 30, epoch=2)
    tier.put(own, epochs=((2, 20),))
    epochs = ((0, 0), (2, 20))

    assert bytes(tier.read(12, epochs=epochs).records) == b"".join(kept[2:])
    assert bytes(tier.read(20, epochs=epochs).records) == b"".join(own)


def test_a_batch_that_reaches_beyond_its_epoch_is_of_a_lost_branch(tier):
    """[DUR-141] The log went on at 24 in another epoch, so that its batch ended there."""
    tier.put(batches(0, 30))

    assert offsets(tier.read(10, epochs=((0, 0), (1, 24)))) == [(10, 14), (15, 19)]


def test_a_lost_branch_behind_a_gap_is_passed_over(tier):
    """[DUR-141] [TIER-66] What comes first behind the gap is in the segment of the own epoch."""
    tier.put([*batches(0, 10), *batches(20, 40, epoch=1)], epochs=((0, 0), (1, 20)))
    own = batches(20, 30, epoch=2)
    tier.put(own, epochs=((2, 20),))

    assert bytes(tier.read(12, epochs=((0, 0), (2, 20))).records) == b"".join(own)


def test_a_batch_that_contradicts_its_metadata_is_damage(tier):
    """[DUR-141] [DUR-144] The object is another's."""
    metadata = tier.put(batches(0, 20, epoch=7))

    with pytest.raises(CorruptLogError, match="not of the log's history") as caught:
        tier.read(6)

    assert str(metadata.start_offset) in caught.value.file
    assert caught.value.position == len(batch(0, 4))
    assert caught.value.found.startswith("leader epoch 7, offsets 5 to 9")


def test_the_batch_that_holds_the_log_start_may_begin_before_it(tier):
    """[DUR-141] Deleting records raises the start of the first epoch."""
    tier.put(batches(0, 20))

    assert offsets(tier.read(7, epochs=((0, 7),)))[0] == (5, 9)
    assert tier.find(1008, 7, ((0, 7),)) == (1008, 8, 0)


# ---- requests ------------------------------------------------------------------------------------


def test_a_read_is_one_request(tier):
    """[TIER-66] As long as the limit and what lies before the batch."""
    content = batches(0, 4000)
    tier.put(content)

    tier.read(1003, 100_000)

    (begin, end), *others = tier.storage.ranges
    assert not others
    place = sum(map(len, content[:200]))
    assert begin <= place
    assert place + 100_000 <= end <= place + 100_000 + 16 * 1024


def test_a_batch_larger_than_what_was_asked_for_is_one_request_more(tier):
    """[TIER-67] Of its size."""
    large = batch(5, 9, size=100_000)
    tier.put([batch(0, 4), large, batch(10, 14)])

    assert bytes(tier.read(7, 1000).records) == large
    assert len(tier.storage.ranges) == 2


@pytest.mark.parametrize("size", [10, 3000])
def test_an_index_without_entries_costs_requests_and_no_record(tier, size):
    """[TIER-66] [TIER-82] An empty index passes its check."""
    content = batches(0, 1000, size=size)
    tier.put(content, indexed=False)

    found = tier.read(801, 5000)

    assert (
        bytes(found.records)
        == b"".join(content[160:])[: max(5000, len(content[0]))][: len(found.records)]
    )
    assert found.offset_metadata.message_offset == 800


def test_records_are_a_view_of_what_the_storage_gave(tier):
    """No copy is made."""
    metadata = tier.put(batches(0, 100))

    found = tier.read(50)

    assert found.records.obj is tier.storage.objects[metadata.segment_id.id][LOG]


# ---- reading on ----------------------------------------------------------------------------------


def onward(tier: Tier, end: int, max_bytes: int) -> list[bytes]:
    """What a consumer gets: the whole batches of reads that follow each other."""
    got, offset = [], 0
    while offset < end:
        records = tier.read(offset, max_bytes).records
        table, result = scan_headers(records)
        got.append(bytes(records[: result.valid_bytes]))
        offset = table.last_offset + 1
    return got


def test_who_reads_on_gets_several_reads_of_one_request(tier):
    """[TIER-66] Each batch once, and none of them fetched twice but where one was cut."""
    content = batches(0, 4000)
    tier.put(content)

    got = onward(tier, 4000, 16_000)

    assert b"".join(got) == b"".join(content)
    assert len(got) > 30
    assert len(tier.storage.ranges) <= 2 + len(got) // 7
    fetched = sum(end - begin for begin, end in tier.storage.ranges)
    assert fetched < 1.2 * sum(map(len, content))


def test_who_reads_on_in_the_next_segment_gets_several_reads_there_too(tier):
    """[TIER-66] From its first batch on; for the first one of all, only what it asks for."""
    for start in (0, 2000):
        tier.put(batches(start, start + 2000))
    epochs = (EpochEntry(0, 0),)

    def read(offset: int) -> RemoteRead:
        return tier.reader.read(
            PARTITION.topic_partition,
            offset,
            2000,
            min_one_message=True,
            leader_epochs=epochs,
            is_committed=False,
            local_aborted_transactions=lambda *_: (),
        )

    offset = 0
    while offset < 4000:
        table, _ = scan_headers(read(offset).records)
        assert table.base_offset == offset
        offset = table.last_offset + 1

    assert [one for one in tier.storage.ranges if one[0] == 0] == [(0, 16_384), (0, 32_000)]


@pytest.mark.parametrize("max_bytes", [0, 1])
def test_who_asks_for_no_byte_reads_on_by_one_batch(tier, max_bytes):
    """[TIER-67] From the first batch of a segment on, and behind what is kept of it."""
    content = batches(0, 300)
    tier.put(content)

    assert onward(tier, 300, max_bytes) == content
    assert not tier.read(0, max_bytes, min_one_message=False).records


def test_what_is_known_of_a_log_is_that_of_its_leader_epochs(tier):
    """[DUR-141] Another tuple may be that of a topic that was made again."""
    asked = []
    tier.put(batches(0, 50))

    def topic_id_of(partition: object) -> UUID:
        asked.append(partition)
        return PARTITION.topic_id

    reader = RemoteStorageReader(tier.storage, tier.metadata, tier.cache, topic_id_of)

    def read(epochs: tuple[EpochEntry, ...]) -> RemoteRead:
        return reader.read(
            PARTITION.topic_partition,
            5,
            100,
            min_one_message=True,
            leader_epochs=epochs,
            is_committed=False,
            local_aborted_transactions=lambda *_: (),
        )

    one, other = (EpochEntry(0, 0),), (EpochEntry(0, 0), EpochEntry(1, 5))
    assert read(one) == read(one)
    assert len(asked) == 1
    with pytest.raises(OffsetOutOfRangeError):
        read(other)
    assert len(asked) == 2


def test_it_says_where_the_records_end_at_most(tier):
    """A log need not look for those behind the end that a reader sees."""
    tier.put(batches(0, 50))
    assert tier.read(5, 300).end_offset == 50


def test_who_reads_here_and_there_gets_nothing_ahead(tier):
    """[TIER-66] What is not read on is not asked for."""
    tier.put(batches(0, 4000))

    for offset in (3000, 10, 2000, 1000, 3500):
        tier.read(offset, 16_000)

    assert len(tier.storage.ranges) == 5
    assert max(end - begin for begin, end in tier.storage.ranges) <= 2 * 16 * 1024


def test_what_was_fetched_ahead_is_of_the_history_that_each_read_names(tier):
    """[DUR-141] The leader epochs change between two reads."""
    tier.put(batches(0, 4000))
    tier.read(0, 2000)
    assert offsets(tier.read(10, 2000))[-1] != (25, 29)
    asked = len(tier.storage.ranges)

    read = tier.read(15, 16_000, epochs=((0, 0), (1, 30)))

    assert offsets(read) == [(15, 19), (20, 24), (25, 29)]
    assert len(tier.storage.ranges) <= asked + 1
    with pytest.raises(OffsetOutOfRangeError):
        tier.read(30, 2000, epochs=((0, 0), (1, 30)))


def test_a_deleted_segment_is_not_read_from_memory(tier):
    """[TIER-65] What is fetched ahead counts for nothing once the segment is to go."""
    metadata = tier.put(batches(0, 100))
    tier.read(0)
    assert len(tier.storage.ranges) == 1
    tier.read(50)
    assert len(tier.storage.ranges) == 1

    tier.metadata.cache.update_remote_log_segment_metadata(
        RemoteLogSegmentMetadataUpdate(
            segment_id=metadata.segment_id,
            event_timestamp_ms=0,
            custom_metadata=None,
            state=RemoteLogSegmentState.DELETE_SEGMENT_STARTED,
            broker_id=1,
        )
    )

    with pytest.raises(OffsetOutOfRangeError):
        tier.read(50)


def test_damage_behind_what_is_read_is_found_when_it_is_read(tier):
    """[DUR-144] Also where it was fetched ahead: at its position."""
    content = batches(0, 400)
    metadata = tier.put(content)
    place = sum(map(len, content[:40]))
    tier.change(metadata, place + 16, b"\x09")

    with pytest.raises(CorruptRecordError) as caught:
        onward(tier, 400, 3000)

    assert caught.value.position == place


def test_what_is_kept_has_a_bound():
    """A few pieces, none of them large; the one used longest ago goes."""
    ahead, ids = ReadAhead(), [UUID(int=n) for n in range(20)]

    def piece(size: int) -> Piece:
        data = memoryview(batch(0, 4, size=size))
        return Piece("orders-0/x.log", data, 0, *scan_headers(data), 10_000_000)

    for one in ids:
        ahead.keep(one, piece(100))
    assert [one for one in ids if ahead.get(one) is not None] == ids[-8:]
    ahead.keep(ids[-1], piece(1024 * 1024))
    assert ahead.get(ids[-1]) is None, "neither that one nor what it replaces"


# ---- damage --------------------------------------------------------------------------------------


def test_a_damaged_header_names_object_and_position(tier):
    """[DUR-144] What lies before is read."""
    content = batches(0, 50)
    metadata = tier.put(content)
    place = sum(map(len, content[:4]))
    tier.change(metadata, place + 16, b"\x09")

    assert offsets(tier.read(3)) == [(0, 4), (5, 9), (10, 14), (15, 19)]
    with pytest.raises(CorruptRecordError) as caught:
        tier.read(20)
    assert caught.value.position == place
    assert "orders-0/00000000000000000000-" in caught.value.file
    with pytest.raises(CorruptRecordError):
        tier.find(1022)


def test_an_object_that_ends_early_is_damage(tier):
    """[DUR-144] [TIER-12] The storage returns what there is of a range."""
    content = batches(0, 50)
    metadata = tier.put(content)
    objects = tier.storage.objects[metadata.segment_id.id]
    whole = sum(map(len, content[:4]))
    for cut in (whole, whole + 10, whole + 70):
        objects[LOG] = b"".join(content)[:cut]
        assert offsets(tier.read(15)) == [(15, 19)]
        with pytest.raises(CorruptLogError, match="ends in the midst") as caught:
            tier.read(20)
        assert (caught.value.position, caught.value.found) == (whole, f"{cut - whole} bytes")


def test_a_length_beyond_the_segment_asks_for_no_more_than_that(tier):
    """[DUR-144] A damaged length is not a reason to fetch a gigabyte."""
    metadata = tier.put(batches(0, 50))
    tier.change(metadata, 8, b"\x40\x00\x00\x00")

    with pytest.raises(CorruptLogError):
        tier.read(0)

    assert len(tier.storage.ranges) == 1


def test_an_object_that_is_gone_is_an_error_of_that_read(tier):
    """[DUR-144] The next one works when it is back."""
    metadata = tier.put(batches(0, 50))
    objects = tier.storage.objects[metadata.segment_id.id]
    log = objects.pop(LOG)
    with pytest.raises(RemoteResourceNotFoundError):
        tier.read(0)
    objects[LOG] = log
    assert tier.read(0).records


# ---- aborted transactions ------------------------------------------------------------------------


def test_aborted_transactions_are_those_up_to_the_next_entry_of_the_index(tier):
    """[TIER-69] A range reaches up to the entry behind it, or to the end of the segment."""
    content = batches(0, 50)
    aborted = [AbortedTransaction(7, 12, 18, 19), AbortedTransaction(8, 41, 44, 45)]
    tier.put(content, aborted=aborted)

    assert tier.read(5, len(content[0]), local=()).aborted_transactions == aborted[:1]
    assert tier.read(0, local=()).aborted_transactions == aborted
    assert tier.read(30, local=()).aborted_transactions == aborted[1:]


def test_a_search_goes_on_behind_the_segment_until_it_is_complete(tier):
    """[TIER-69] [TIER-22] Segments said to have none cost no request; local ones come last."""
    first = AbortedTransaction(7, 4, 33, 34)
    tier.put(batches(0, 10))
    tier.put(batches(10, 20))
    tier.put(batches(20, 30, epoch=2), epochs=((2, 20),))
    tier.put(batches(30, 40, epoch=2), epochs=((2, 30),), aborted=[first])
    local = AbortedTransaction(9, 8, 60, 61)
    epochs = ((0, 0), (2, 20))

    assert tier.read(0, epochs=epochs, local=[local]).aborted_transactions == [first]
    assert tier.storage.asked[IndexType.TRANSACTION] == 1
    assert tier.read(31, epochs=epochs, local=[local, first]).aborted_transactions == [
        first,
        local,
    ]


def test_an_abort_of_a_lost_branch_is_not_listed(tier):
    """[DUR-141] The transaction may have been committed in the history of the log."""
    lost = AbortedTransaction(7, 12, 25, 90)
    kept = AbortedTransaction(8, 3, 14, 15)
    tier.put(
        [*batches(0, 20), *batches(20, 40, epoch=1)],
        epochs=((0, 0), (1, 20)),
        aborted=[kept, lost],
    )
    epochs = ((0, 0), (2, 20))
    local = AbortedTransaction(9, 19, 30, 31)

    assert tier.read(10, epochs=epochs, local=[local]).aborted_transactions == [kept, local]


def test_a_range_may_be_asked_for_by_itself(tier):
    """[TIER-69] What ends in it or begins below its end; each once."""
    aborted = [AbortedTransaction(7, 12, 18, 19), AbortedTransaction(8, 25, 28, 29)]
    tier.put(batches(0, 20), aborted=aborted[:1])
    tier.put(batches(20, 40), aborted=aborted[1:])

    def asked(start: int, end: int) -> list[AbortedTransaction]:
        epochs = [EpochEntry(0, 0)]
        return tier.reader.aborted_transactions(PARTITION.topic_partition, start, end, epochs)

    assert asked(0, 40) == aborted
    assert asked(0, 15) == aborted[:1]
    assert asked(19, 26) == aborted[1:]
    assert asked(40, 50) == []


def test_an_index_that_was_deleted_meanwhile_is_fetched_again(tier, monkeypatch):
    """[TIER-84] Its file is read when it is asked, ten seconds after it was let go or later."""
    aborted = [AbortedTransaction(7, 12, 18, 19)]
    metadata = tier.put(batches(0, 20), aborted=aborted)
    index = tier.cache.index_entry(metadata).transaction_index
    search, tries = index.collect_aborted_transactions, []

    def delete_first(*arguments: Any, **options: Any) -> object:
        tries.append(arguments)
        tier.cache.remove(metadata.segment_id.id)
        Path(index.path).unlink()
        return search(*arguments, **options)

    monkeypatch.setattr(index, "collect_aborted_transactions", delete_first)
    assert tier.read(10, local=()).aborted_transactions == aborted
    assert len(tries) == 1


@pytest.mark.parametrize("lost", [None, b""])
def test_a_lost_transaction_index_fails_committed_reads_alone(tier, lost):
    """[TIER-69] [TIER-82] Its object is named, nothing stays cached, and it may come back."""
    aborted = [AbortedTransaction(7, 12, 18, 19)]
    metadata = tier.put(batches(0, 20), aborted=aborted)
    objects = tier.storage.objects[metadata.segment_id.id]
    whole = objects.pop(IndexType.TRANSACTION)
    if lost is not None:
        objects[IndexType.TRANSACTION] = lost

    assert tier.read(10).records
    with pytest.raises((RemoteResourceNotFoundError, CorruptIndexError)) as caught:
        tier.read(10, local=())
    assert str(metadata.segment_id.id) in str(caught.value) or "txnindex" in str(caught.value)
    assert tier.cache.segment_ids == []
    assert tier.read(10).records
    objects[IndexType.TRANSACTION] = whole
    assert tier.read(10, local=()).aborted_transactions == aborted
    assert tier.cache.segment_ids == [metadata.segment_id.id]


def test_an_empty_cached_transaction_index_is_fetched_again(tier):
    """[TIER-82] Where the metadata do not say that there are no aborted transactions."""
    aborted = [AbortedTransaction(7, 12, 18, 19)]
    metadata = tier.put(batches(0, 20), aborted=aborted)
    Path(tier.cache.index_entry(metadata).transaction_index.path).write_bytes(b"")
    tier.restart()

    assert tier.cache.segment_ids == [metadata.segment_id.id]
    assert tier.read(10, local=()).aborted_transactions == aborted


def test_kafka_believes_that_a_lost_transaction_index_had_no_entry(tier):
    """[TIER-82]"""
    metadata = tier.put(batches(0, 20), aborted=[AbortedTransaction(7, 12, 18, 19)])
    del tier.storage.objects[metadata.segment_id.id][IndexType.TRANSACTION]
    tier.restart(kafka_profile=True)

    assert tier.read(10, local=()).aborted_transactions == []


# ---- times ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_the_first_record_of_a_time_is_found_within_its_batch(tier, codec):
    """[TIER-71] [TIER-88] From an offset on, over all segments."""
    tier.put(batches(0, 50, codec=codec))
    tier.put(batches(50, 100, epoch=4, codec=codec), epochs=((4, 50),))
    epochs = ((0, 0), (4, 50))

    assert tier.find(0, 0, epochs) == (1000, 0, 0)
    assert tier.find(1023, 0, epochs) == (1023, 23, 0)
    assert tier.find(1023, 38, epochs) == (1038, 38, 0)
    assert tier.find(1077, 3, epochs) == (1077, 77, 4)
    assert tier.find(1100, 0, epochs) is None


def test_a_segment_whose_late_times_lie_below_the_start_is_passed_over(tier):
    """[TIER-71] Kafka would find nothing, and go on in its local segments."""
    late = MemoryRecords.with_records(
        [(9000, None, b"x"), (10, None, b"y")], base_offset=0, partition_leader_epoch=0
    )
    tier.put([bytes(late.data)])
    tier.put(batches(2, 12))

    assert tier.find(1005, 1) == (1005, 5, 0)


def test_records_of_a_lost_branch_are_not_found(tier):
    """[TIER-71] [DUR-141] Those of the own epoch are."""
    tier.put([*batches(0, 20), *batches(20, 40, epoch=1)], epochs=((0, 0), (1, 20)))
    tier.put(batches(20, 30, epoch=2), epochs=((2, 20),))

    assert tier.find(1022, 0, ((0, 0), (2, 20))) == (1022, 22, 2)
    assert tier.find(1035, 0, ((0, 0), (2, 20))) is None


def test_only_finished_segments_are_searched(tier):
    """[TIER-71] [TIER-23]."""
    tier.put(batches(0, 20), state=RemoteLogSegmentState.DELETE_SEGMENT_STARTED)

    assert tier.find(0) is None
    assert not tier.storage.asked


def test_a_search_in_a_large_segment_asks_for_growing_ranges(tier):
    """[TIER-71] Where the index has no entry near the time."""
    tier.put(batches(0, 6000, size=500), indexed=False)

    assert tier.find(6995) == (6995, 5995, 0)
    sizes = [end - begin for begin, end in tier.storage.ranges]
    assert sizes[0] == 256 * 1024
    assert len(sizes) <= 5
