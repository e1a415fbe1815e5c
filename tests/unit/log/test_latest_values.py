"""The last committed value of each key of a topic: `LogManager.latest` [CLN-84, DUR-126].

The oracle is a list of what was appended, and a dictionary of its committed part.
"""

from __future__ import annotations

import random
import shutil
import signal
import struct
import threading
import time
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa
import pytest

import segstore
from segstore import _core
from segstore.errors import (
    ClosedError,
    CorruptRecordError,
    IllegalArgumentError,
    IllegalStateError,
    LogCleaningAbortedError,
    LogDirectoryOfflineError,
    LogTruncatedError,
    OffsetOutOfRangeError,
    UnknownTopicOrPartitionError,
)
from segstore.log.chunk_reader import ChunkReader
from segstore.log.cleaning.cleaner import Cleaner
from segstore.log.files.log_state_file import uncut_generation
from segstore.log.scan import LogScan
from segstore.records.columns import KAFKA_COLUMNS
from segstore.types import AppendOrigin
from tests.kits.log_kit import singleton
from tests.kits.records_kit import build
from tests.kits.remote_kit import TIERED, RemoteSegments
from tests.kits.transactions_kit import ABORT, COMMIT, NOW

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from segstore import LogManager, UnifiedLog
    from segstore.log.chunk_reader import Chunk

COMPACT = {"cleanup.policy": "compact"}
SETTINGS = {"durability": "none", "internal_segment_bytes": 1500, "segment_ms": None}
Row = tuple[bytes | None, bytes | None, int, int]
"""Key, value, offset, timestamp."""


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[LogManager]:
    """A directory with the compacted topic ``users`` of one partition, in small segments."""
    with segstore.open_dir(tmp_path, **SETTINGS) as manager:
        manager.create_topic("users", config=COMPACT)
        yield manager


def append(logs: LogManager, *pairs: tuple[bytes | None, bytes | None], partition: int = 0) -> None:
    """Append records one by one, each a batch."""
    for pair in pairs:
        logs.append("users", [pair], partition=partition)


def fill(logs: LogManager, count: int = 60, keys: int = 5) -> None:
    append(logs, *((b"k%d" % (n % keys), b"value %d" % n) for n in range(count)))


def rows(latest: segstore.LatestValues) -> list[tuple[bytes, bytes]]:
    """Key and value of each row."""
    table = latest.to_arrow()
    table.validate(full=True)
    return list(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True))


# ---- what is read --------------------------------------------------------------------------------


class Oracle:
    """What was appended to one log: records, and which transaction each is of."""

    def __init__(self, log: UnifiedLog, chance: random.Random) -> None:
        self._log, self._chance = log, chance
        self._rows: list[tuple[Row, int | None]] = []
        self._is_committed: dict[int, bool] = {}
        self._open: dict[int, list[int]] = {}
        """By producer: its transaction, the next sequence number, and the first offset."""
        self._sequences: dict[int, int] = {}

    def step(self) -> None:
        match self._chance.choice(["plain"] * 4 + ["transaction"] * 4 + ["end"] * 3 + ["roll"]):
            case "plain":
                records = self._records()
                info = self._log.append([(NOW + n, key, value) for n, (key, value) in records])
                self._note(info.base_offset, records, None)
            case "transaction":
                self._write(self._chance.randrange(3))
            case "end" if self._open:
                self._end(self._chance.choice([*self._open]), self._chance.choice([COMMIT, ABORT]))
            case "roll":
                self._log.roll()

    def _records(self) -> list[tuple[int, tuple[bytes | None, bytes | None]]]:
        chance = self._chance
        return [
            (
                chance.randrange(1000),
                (
                    chance.choice([None, b"", *(b"k%d" % n for n in range(12))]),
                    chance.choice([None, b"", b"value %d" % n, bytes(50)]),
                ),
            )
            for n in range(chance.randrange(1, 9))
        ]

    def _note(self, first: int, records: list, transaction: int | None) -> None:
        for offset, (n, (key, value)) in enumerate(records, first):
            self._rows.append(((key, value, offset, NOW + n), transaction))

    def _options(self, producer_id: int) -> dict[str, int | bool]:
        return {"producer_id": producer_id, "producer_epoch": 0, "transactional": True}

    def _write(self, producer_id: int) -> None:
        records = self._records()
        sequence = self._sequences.get(producer_id, 0)
        self._sequences[producer_id] = sequence + len(records)
        data = build(
            [(i, NOW + n, *pair) for i, (n, pair) in enumerate(records)],
            codec=self._chance.choice([*segstore.Codec]),
            base_sequence=sequence,
            **self._options(producer_id),
        )
        info = self._log.append_as_leader(data, 0)
        if producer_id not in self._open:
            self._open[producer_id] = [len(self._is_committed), info.base_offset]
            self._is_committed[len(self._is_committed)] = False
        self._note(info.base_offset, records, self._open[producer_id][0])

    def _end(self, producer_id: int, kind: int) -> None:
        transaction, _ = self._open.pop(producer_id)
        self._is_committed[transaction] = kind == COMMIT
        marker = (0, NOW, struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 0))
        data = build([marker], control=True, **self._options(producer_id))
        self._log.append_as_leader(data, 0, origin=AppendOrigin.COORDINATOR, transaction_version=0)

    def latest(self) -> list[Row]:
        """The rows that are expected now."""
        end = min((first for _, first in self._open.values()), default=2**62)
        last = {
            row[0]: row
            for row, transaction in self._rows
            if row[0] is not None
            and row[2] < end
            and (transaction is None or self._is_committed[transaction])
        }
        return sorted((row for row in last.values() if row[1] is not None), key=lambda row: row[2])


@pytest.mark.parametrize("seed", range(10))
def test_each_partition_gives_what_a_dictionary_gives_before_and_after_compaction(tmp_path, seed):
    """[CLN-84, DUR-126] aborted and open transactions, tombstones, no keys, all codecs."""
    chance = random.Random(seed)
    codec = chance.choice(["uncompressed", "gzip", "snappy", "lz4", "zstd"])
    config = {"compression.type": codec, "delete.retention.ms": 0}
    with segstore.open_dir(tmp_path, **SETTINGS) as manager:
        manager.create_topic("users", 3, config=config)
        parts = [manager.log("users", number) for number in range(3)]
        oracles = [Oracle(log, chance) for log in parts]

        def check(logs: LogManager) -> None:
            latest = logs.latest("users")
            table = latest.to_arrow()
            if chance.random() < 0.2:
                assert latest.to_arrow() == table  # it can be read again
            found = table.select(["key", "value", "offset", "timestamp"])
            times = found["timestamp"].cast(pa.int64())
            found = found.set_column(3, "timestamp", times).to_pydict()
            numbers = table["partition"].to_pylist()
            assert [*zip(numbers, *found.values(), strict=True)] == [
                (number, *row) for number, one in enumerate(oracles) for row in one.latest()
            ]

        check(manager)
        for _ in range(3):
            for _ in range(40):
                chance.choice(oracles).step()
            check(manager)
            manager.alter_topic("users", COMPACT)  # then it takes no records without a key
            for log in parts:
                log.compact()
            check(manager)
            manager.alter_topic("users", {"cleanup.policy": None})
            with segstore.open_dir(tmp_path, read_only=True) as reader:
                check(reader)


def test_an_empty_topic_has_columns_and_no_rows(logs):
    latest = logs.latest("users")

    assert latest.to_arrow().num_rows == 0
    assert latest.to_arrow().schema.names == list(KAFKA_COLUMNS) == list(latest.columns)
    assert list(latest.arrow_batches()) == []
    assert repr(latest) == "LatestValues('users', 1 partitions)"


def test_records_without_a_key_have_no_rows(logs):
    """[CLN-58] the cleaner removes them."""
    logs.alter_topic("users", {"cleanup.policy": None})  # a compacted topic takes none
    append(logs, (None, b"1"), (b"k", b"2"), (None, b"3"), (b"", b"4"))

    assert rows(logs.latest("users")) == [(b"k", b"2"), (b"", b"4")]


def test_a_key_whose_last_record_is_a_tombstone_has_no_row(logs):
    append(logs, (b"a", b"1"), (b"b", b"2"), (b"a", None), (b"c", None), (b"c", b""))

    assert rows(logs.latest("users")) == [(b"b", b"2"), (b"c", b"")]


def test_a_key_in_two_partitions_has_a_row_of_each(logs):
    logs.alter_topic("users", partitions=2)
    append(logs, (b"a", b"old"), (b"b", b"1"))
    append(logs, (b"a", b"new"), partition=1)

    table = logs.latest("users", columns=["partition", "key", "value"]).to_arrow()

    assert table.to_pydict() == {
        "partition": [0, 0, 1],
        "key": [b"a", b"b", b"a"],
        "value": [b"old", b"1", b"new"],
    }


def test_rows_are_those_of_the_call(logs):
    """What comes later is not in it, although it is read later."""
    fill(logs)
    latest = logs.latest("users")
    append(logs, (b"k0", b"later"), (b"new", b"later"))

    assert rows(latest) == [(b"k%d" % n, b"value %d" % (55 + n)) for n in range(5)]
    assert dict(rows(logs.latest("users")))[b"k0"] == b"later"


def test_each_library_takes_it(logs):
    headers = [("h", b"1"), ("i", None)]
    logs.append("users", [segstore.Record(timestamp=NOW, key=b"a", value=b"1", headers=headers)])
    latest = logs.latest("users")

    assert list(latest.to_pandas(columns=["key"])) == ["key"]
    for table in (pa.table(latest), pl.DataFrame(latest).to_arrow(), latest.to_arrow()):
        found = table.to_pylist()[0]
        assert (found["key"], found["value"], found["offset"]) == (b"a", b"1", 0)
        assert found["headers"] == [{"key": "h", "value": b"1"}, {"key": "i", "value": None}]
    us = pa.record_batch(next(latest.arrow_batches(timestamp_unit="us")))
    assert us.schema.field("timestamp").type == pa.timestamp("us", "UTC")


def test_batches_are_of_the_size_that_was_asked_for(logs):
    append(logs, *((b"%d" % n, b"v") for n in range(10)))

    assert [one.rows_count for one in logs.latest("users").arrow_batches(rows=3)] == [3, 3, 3, 1]
    for how in ({"rows": 0}, {"max_bytes": 0}, {"timestamp_unit": "s"}):
        with pytest.raises(IllegalArgumentError):
            logs.latest("users").arrow_batches(**how)


def test_it_can_be_appended_to_another_topic_with_headers(logs):
    headers = [("h", b"1")]
    logs.append("users", [segstore.Record(timestamp=5, key=b"a", value=b"1", headers=headers)])
    logs.create_topic("copy")

    logs.append("copy", logs.latest("users"))

    (copy,) = logs.log("copy", 0)
    assert (copy.timestamp, copy.key, copy.value, list(copy.headers)) == (5, b"a", b"1", headers)
    with pytest.raises(IllegalArgumentError):  # the headers would be lost
        logs.append("copy", logs.latest("users", columns=["key", "value"]))


def test_what_does_not_exist_is_refused_by_the_call(logs):
    with pytest.raises(UnknownTopicOrPartitionError):
        logs.latest("nobody")
    with pytest.raises(IllegalArgumentError):
        logs.latest("users", columns=["key", "colour"])


def test_a_directory_that_is_offline_may_have_partitions(tmp_path):
    """[MGR-10] values must not be missing without a word."""
    with segstore.open_dir([tmp_path / "a", tmp_path / "b"], durability="none") as logs:
        logs.create_topic("users", 2)
    (tmp_path / "b").rename(tmp_path / "elsewhere")
    (tmp_path / "b").write_text("no directory")
    with segstore.open_dir([tmp_path / "a", tmp_path / "b"], durability="none") as logs:
        assert [*logs.offline_directories()] == [str(tmp_path / "b")]
        with pytest.raises(LogDirectoryOfflineError, match="last values"):
            logs.latest("users")


@pytest.mark.parametrize("profile", ["safe", "kafka"])
def test_a_log_whose_begin_is_in_remote_storage_alone(new_log, profile):
    """[RD-2, TIER-2] Four of eight records are there: the last value of a key may be one of them.

    They are read there, and without a reader the log is refused.
    """
    remote, size = RemoteSegments(), len(singleton(key=b"0"))
    log = new_log(
        recovery=profile,
        replicated=False,
        retention_ms=None,
        retention_bytes=4 * size,
        internal_segment_bytes=size,
        remote_log_reader=remote,
        **TIERED,
    )
    for number in range(8):
        log.append([(NOW, b"%d" % (number % 6), b"value")])
    remote.copy(log.path)
    log.update_highest_offset_in_remote_storage(5)
    assert len(log.delete_old_segments()) == 4
    found = pa.table(segstore.LatestValues("topic", [log._latest(["offset"])]))
    assert sorted(found.column("offset").to_pylist()) == [2, 3, 4, 5, 6, 7]

    log.close()
    if profile == "safe":  # a broker without remote storage begins where its files do
        with pytest.raises(OffsetOutOfRangeError, match="in remote storage alone"):
            new_log(log.path, retention_ms=None)._latest(["offset"])


def test_a_closed_directory_is_refused(tmp_path):
    with segstore.open_dir(tmp_path, **SETTINGS) as logs:
        logs.create_topic("users")
        logs.append("users", [(b"ann", b"1")])
        latest = logs.latest("users")
    with pytest.raises(ClosedError):
        logs.latest("users")
    with pytest.raises(ClosedError, match=f"^{tmp_path}/users-0: the log is closed$"):
        latest.to_arrow()


# ---- what happens meanwhile ----------------------------------------------------------------------


@pytest.fixture
def between_passes(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Let something happen, once, after the first pass."""

    def set_up(act: Callable[[], object]) -> None:
        read = LogScan._arrow_batches
        waiting = [act]

        def read_and_act(self: LogScan, *how: object, **options: object) -> Iterator[object]:
            yield from read(self, *how, **options)
            if waiting:
                waiting.pop()()

        monkeypatch.setattr(LogScan, "_arrow_batches", read_and_act)

    return set_up


@pytest.fixture(params=["the writer", "another handle"])
def reader(
    request: pytest.FixtureRequest, logs: LogManager, tmp_path: Path
) -> Iterator[LogManager]:
    """Who reads: the manager that writes, or a read-only one, as another process has."""
    if request.param == "the writer":
        yield logs
    else:
        with segstore.open_dir(tmp_path, read_only=True) as other:
            yield other


def roll_and_compact(log: UnifiedLog) -> None:
    log.roll()
    log.compact()


def test_compaction_below_the_end_takes_nothing_away(logs, reader, between_passes):
    """[CLN-84, DUR-126] the last record of each key stays at its offset."""
    fill(logs)
    log = logs.log("users", 0)
    expected = rows(reader.latest("users"))
    size = sum(one.size_bytes for one in log.segments())
    between_passes(log.compact)

    assert rows(reader.latest("users")) == expected
    assert sum(one.size_bytes for one in log.segments()) < size / 2


@pytest.mark.parametrize("when", ["before it is read", "between the passes"])
def test_compaction_beyond_the_end_is_told(logs, reader, between_passes, when):
    """[DUR-126] A later record has taken away what the rows are made of: no key is missing."""
    fill(logs)
    log = logs.log("users", 0)

    def replace_all() -> None:
        fill(logs)
        roll_and_compact(log)

    if when == "between the passes":
        between_passes(replace_all)
        latest = reader.latest("users")
    else:
        latest = reader.latest("users")
        replace_all()

    with pytest.raises(IllegalStateError, match=r"call latest\(\) again"):
        latest.to_arrow()
    assert len(rows(reader.latest("users"))) == 5


def test_compaction_below_an_open_transaction_takes_nothing_away(logs, reader, between_passes):
    """[LSO-2, CLN-32] It holds the end of the read and that of the compaction, segments before."""
    fill(logs)
    log = logs.log("users", 0)
    log.roll()
    data = build([(0, NOW, b"k0", b"open")], producer_id=7, producer_epoch=0, transactional=True,
                 base_sequence=0)  # fmt: skip
    log.append_as_leader(data, 0)
    log.roll()
    fill(logs)
    expected = rows(reader.latest("users"))
    before = log._local_log.replacements_count
    between_passes(log.compact)

    assert rows(reader.latest("users")) == expected
    assert len(expected) == 5
    assert log._local_log.replacements_count > before


def test_a_roll_alone_takes_nothing_away(logs, reader, between_passes):
    fill(logs)
    expected = rows(reader.latest("users"))
    between_passes(lambda: (fill(logs), logs.log("users", 0).roll()))

    assert rows(reader.latest("users")) == expected


def test_compaction_in_the_second_pass_is_told_at_its_end(logs):
    """Rows that were given out before it are right; which are missing is not known."""
    fill(logs, 200, 200)
    batches = logs.latest("users").arrow_batches(rows=1)
    first = next(batches)

    assert first.rows_count == 1
    fill(logs, 200, 200)
    roll_and_compact(logs.log("users", 0))
    with pytest.raises(IllegalStateError):
        list(batches)


LARGE = {**SETTINGS, "internal_segment_bytes": 4000}
"""Segments of 25 records of 100 bytes: no two of them fit into one."""


def write_large_segments(logs: LogManager, first: bytes, *, count: int = 8) -> UnifiedLog:
    """Write so many segments; the key *first* is in the first one, and a tombstone in the second.

    A segment is compacted to nearly what it was.
    """
    log = logs.log("users", 0)
    for number in range(count):
        if number < 2:
            append(logs, (first, (bytes(50), None)[number]))
        append(logs, *((b"%d %d" % (number, n), bytes(50)) for n in range(25)))
        log.roll()
    append(logs, (b"last", b"1"))
    return log


def close_descriptors() -> None:
    """Close the files that nothing uses now, as a process with many logs does."""
    _core.limit_descriptors(1)
    _core.limit_descriptors(0)


def test_a_reader_that_opens_files_anew_is_told_of_an_unfinished_pass(tmp_path):
    """[DUR-126] One segment alone was replaced, and the reader has none of the old files open."""
    with segstore.open_dir(tmp_path, **LARGE) as logs:
        logs.create_topic("users", config=COMPACT)
        log = write_large_segments(logs, b"first")
        with segstore.open_dir(tmp_path, read_only=True) as reader:
            latest = reader.latest("users")
            close_descriptors()
            append(logs, (b"0 7", b"later"))
            log.roll()

            def stop_after_a_segment() -> None:
                if log._local_log.replacements_count:
                    raise LogCleaningAbortedError("it is to end")

            with pytest.raises(LogCleaningAbortedError):
                log.clean(Cleaner(offset_map_bytes=48_000, check_done=stop_after_a_segment), 0)
            assert sum(one.is_cleaned for one in log.segments()) == 1

            with pytest.raises(IllegalStateError):
                latest.to_arrow()


def test_a_deleted_key_does_not_come_back_where_a_tombstone_goes_meanwhile(tmp_path, monkeypatch):
    """[DUR-126] A reader has the old file of the value open, and meets the new one behind it."""
    with segstore.open_dir(tmp_path, **LARGE) as logs:
        logs.create_topic("users", config={**COMPACT, "delete.retention.ms": 0})
        log = write_large_segments(logs, b"gone")
        expected = rows(logs.latest("users"))
        passes = []

        def compact_behind_the_first_segment(self: ChunkReader) -> Iterator[Chunk]:
            passes.append(self)
            for chunk in self._unless_truncated(self._chunks_of):
                yield chunk
                if len(passes) == 1 and chunk.segment.base_offset == 0:
                    log.compact()
                    log.compact()
                    assert b"gone" not in {record.key for record in log.scan()}

        with segstore.open_dir(tmp_path, read_only=True) as reader:
            latest = reader.latest("users")
            close_descriptors()
            monkeypatch.setattr(ChunkReader, "__iter__", compact_behind_the_first_segment)
            assert rows(latest) == expected
            assert len(passes) > 2


def test_a_truncation_is_told(logs, reader, between_passes):
    """[DUR-77]"""
    fill(logs)
    between_passes(lambda: logs.log("users", 0).truncate_to(50))

    with pytest.raises(LogTruncatedError):
        reader.latest("users").to_arrow()


def test_a_truncation_above_the_end_hides_no_compaction(logs, reader):
    """[DUR-77, DUR-126] Behind it the segments look as if no compaction went beyond the end."""
    fill(logs, 6, keys=6)
    log = logs.log("users", 0)
    latest = reader.latest("users")
    end = log.log_end_offset
    fill(logs, 22, keys=2)
    roll_and_compact(log)
    with pytest.raises(IllegalStateError):
        latest.to_arrow()
    log.truncate_to(end)

    with pytest.raises(LogTruncatedError):
        latest.to_arrow()


def test_a_truncation_counts_without_a_generation_in_a_file(tmp_path):
    """[DUR-77, DUR-126] Kafka's profile writes none: the handle that truncates knows."""
    with segstore.open_dir(tmp_path, recovery="kafka", **SETTINGS) as logs:
        logs.create_topic("users", config=COMPACT)
        fill(logs, 6, keys=6)
        log = logs.log("users", 0)
        assert uncut_generation(log._directory) is None
        latest = logs.latest("users")
        end = log.log_end_offset
        fill(logs, 22, keys=2)
        roll_and_compact(log)
        log.truncate_to(end)

        with pytest.raises(LogTruncatedError, match=r"call latest\(\) again"):
            latest.to_arrow()


@pytest.mark.parametrize("gone", [[1], [3], [1, 3]], ids=str)
@pytest.mark.parametrize("read_only", [False, True])
def test_partitions_that_are_missing_are_told(tmp_path, gone, read_only):
    """[DUR-121] Not only a gap: topics.json says how many there are."""
    with segstore.open_dir(tmp_path, durability="none") as logs:
        logs.create_topic("users", 4)
        logs.append("users", [(b"%d" % n, b"value") for n in range(40)])
    for number in gone:
        shutil.rmtree(tmp_path / f"users-{number}")

    with (
        segstore.open_dir(tmp_path, read_only=read_only, durability="none") as logs,
        pytest.raises(IllegalStateError, match="some are missing") as caught,
    ):
        logs.latest("users")
    assert (caught.value.found, caught.value.expected) == (
        f"no partition {gone[0]}",
        "4 partitions",
    )


def test_a_reader_goes_by_topics_json_as_it_is_now(logs, tmp_path):
    """[DUR-121] Another one made the topic again since, or added partitions; one is lost."""
    logs.alter_topic("users", partitions=4)
    with segstore.open_dir(tmp_path, read_only=True) as reader:
        assert rows(reader.latest("users")) == []
        logs.delete_topic("users")
        logs.create_topic("users", 2)
        append(logs, (b"k", b"value"))
        assert rows(reader.latest("users")) == [(b"k", b"value")]
        logs.alter_topic("users", partitions=3)
        assert rows(reader.latest("users")) == [(b"k", b"value")]
        logs.log("users", 2).close()
        shutil.rmtree(tmp_path / "users-2")
        with pytest.raises(IllegalStateError, match="some are missing"):
            reader.latest("users")


@pytest.mark.parametrize("damage", [b"x", b'{"format": 99}'])
def test_a_damaged_topics_json_stops_no_read(tmp_path, damage):
    """[DUR-128] The partitions that are there count as all."""
    with segstore.open_dir(tmp_path, durability="none") as logs:
        logs.create_topic("users", 2)
        append(logs, (b"k", b"value"))
    (tmp_path / "topics.json").write_bytes(damage)
    with segstore.open_dir(tmp_path, read_only=True) as logs:
        assert rows(logs.latest("users")) == [(b"k", b"value")]


def test_a_number_that_nobody_has_made_is_a_gap(tmp_path):
    """[DUR-98] Whatever number the name of a directory has, it is not counted to."""
    with segstore.open(tmp_path / "users-2000000000") as log:
        log.append([(b"k", b"value")])
    with (
        segstore.open_dir(tmp_path, read_only=True) as logs,
        pytest.raises(IllegalStateError, match="no partition 0"),
    ):
        logs.latest("users")


def test_deleted_segments_are_told(logs, reader, between_passes):
    """[DUR-78] a key whose last value was deleted would be missing."""
    fill(logs, 200)
    logs.alter_topic("users", {"cleanup.policy": "compact,delete"})
    log = logs.log("users", 0)

    def delete() -> None:
        log.delete_records(150)
        assert log.segments()[0].base_offset > 100

    between_passes(delete)

    with pytest.raises(OffsetOutOfRangeError):
        reader.latest("users").to_arrow()
    assert len(rows(reader.latest("users"))) == 5


# ---- damage, interruption, threads ---------------------------------------------------------------


def test_damage_is_told_with_file_and_position(tmp_path):
    """[DUR-79] before any row of the partition."""
    with segstore.open_dir(tmp_path, **SETTINGS) as logs:
        logs.create_topic("users", 2)
        append(logs, (b"a", b"1"))
        for n in range(40):
            append(logs, (b"k%d" % n, b"value"), partition=1)
    file = tmp_path / "users-1" / f"{0:020d}.log"
    data = bytearray(file.read_bytes())
    data[500] ^= 1
    file.write_bytes(data)

    with segstore.open_dir(tmp_path, read_only=True) as logs:
        batches = logs.latest("users").arrow_batches()
        assert next(batches).rows_count == 1
        with pytest.raises(CorruptRecordError) as caught:
            next(batches)
        assert caught.value.file == str(file)
        assert 400 < caught.value.position <= 500


def test_control_c_ends_the_first_pass(logs):
    """A handler runs between two chunks, also where an Arrow library reads the stream."""
    fill(logs, 300)
    threading.Timer(0.2, signal.raise_signal, [signal.SIGINT]).start()
    endless = logs.latest("users")
    scan = endless._logs[0].scan
    chunks = scan._chunks

    class Endless:
        def __iter__(self):
            deadline = time.monotonic() + 20
            while time.monotonic() < deadline:
                yield from chunks

    scan._chunks = Endless()
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        endless.to_arrow()
    assert time.monotonic() - started < 10


def test_threads_read_the_same_beside_an_appender(logs):
    """Each read has a map of its own."""
    fill(logs, 200)
    latest = logs.latest("users")
    expected = rows(latest)
    is_over = threading.Event()
    found: list[list[tuple[bytes, bytes]]] = []

    def append_on() -> None:
        while not is_over.is_set():
            append(logs, (b"k1", b"later"))

    appender = threading.Thread(target=append_on)
    readers = [threading.Thread(target=lambda: found.append(rows(latest))) for _ in range(4)]
    appender.start()
    for thread in readers:
        thread.start()
    for thread in readers:
        thread.join()
    is_over.set()
    appender.join()

    assert found == [expected] * 4
