"""Reads of remote segments that are files, by one call of the core: as the layers read them [D11].

The layers are the oracle: `LogReader.fetch`, which does not ask the lane.
"""

from __future__ import annotations

import random
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import segstore
from segstore._core import ChangeCounter, Directory, OffsetIndex, PublishedEnd, RemoteReadLane
from segstore.errors import (
    ClosedError,
    IllegalArgumentError,
    LogTruncatedError,
    OffsetOutOfRangeError,
    SegstoreError,
)
from segstore.records.compression import codec_table
from segstore.records.fetch_data_info import FetchDataInfo
from segstore.records.memory_records import MemoryRecords
from segstore.remote.metadata.segment_metadata import RemoteLogSegmentState
from segstore.remote.storage import writable_folder
from segstore.types import Isolation, LogOffsetMetadata
from tests.kits.moto_server import moto_store
from tests.kits.transactions_kit import ABORT, COMMIT, Producer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from segstore.log.unified_log import UnifiedLog
    from segstore.manager.log_manager import LogManager

TIERED = {"remote.storage.enable": "true", "local.retention.bytes": "0"}
SIZES = (0, 1, 60, 100, 1000, 5000, 100_000)


class Tiered(NamedTuple):
    """A log directory with a topic whose segments are all in a folder."""

    logs: LogManager
    log: UnifiedLog
    folder: Path

    @property
    def counters(self) -> Any:
        return self.logs._tiered._built().manager.counters


def batch(dice: random.Random, offset: int, epoch: int) -> bytes:
    count = dice.choice([1, 1, 2, 7])
    size = dice.choice([1, 30, 30, 300, 3000])
    records = [(b"%d" % (offset + i), dice.randbytes(size)) for i in range(count)]
    data = MemoryRecords.with_records(records, partition_leader_epoch=epoch, base_offset=offset)
    return bytes(data.data)


def fill(log: UnifiedLog, dice: random.Random, segments: int, epoch: int = 0) -> int:
    """Append batches of ascending epochs, with gaps; return the last epoch."""
    for _ in range(segments):
        for _ in range(dice.randint(1, 12)):
            offset = log.log_end_offset
            if offset and dice.random() < 0.1:
                offset += dice.randint(1, 3)
            if dice.random() < 0.1:
                epoch += dice.randint(1, 2)
            log.append_as_follower(batch(dice, offset, epoch), epoch)
        log.roll()
    return epoch


def open_tiered(path: Path, **config: str) -> LogManager:
    return segstore.open_dir(path / "data", remote=str(path / "tier"), **config)


@pytest.fixture
def tiered(tmp_path: Path) -> Iterator[Tiered]:
    with open_tiered(tmp_path) as logs:
        logs.create_topic("orders", 1, config={**TIERED, "index.interval.bytes": "1000"})
        log = logs.log("orders", 0)
        fill(log, random.Random(1), 8)
        assert logs.maintain().failed == ()
        (folder,) = (tmp_path / "tier" / "kafka-tiered-storage").iterdir()
        yield Tiered(logs, log, folder)


def by_the_layers(
    log: UnifiedLog,
    offset: int,
    max_bytes: int,
    isolation: Isolation = Isolation.LOG_END,
    *,
    min_one_message: bool,
) -> Any:
    return log._reader.fetch(offset, max_bytes, isolation, min_one_message=min_one_message)


def by_the_lane(
    log: UnifiedLog,
    offset: int,
    max_bytes: int,
    isolation: Isolation = Isolation.LOG_END,
    *,
    min_one_message: bool,
) -> Any:
    return log._reader.read_by_remote_lane(offset, max_bytes, min_one_message, isolation)


def described(found: Any) -> tuple[object, ...]:
    return (
        bytes(found.records),
        found.size_bytes,
        found.fetch_offset_metadata,
        found.start_offset,
        found.end_offset,
        found.file,
        found.first_entry_incomplete,
        found.aborted_transactions,
        [(one.offset, one.value, one.leader_epoch) for one in found],
        [one.base_offset for one in found.batches()],
    )


def outcome(read: Any, *arguments: Any, **options: Any) -> object:
    try:
        return described(read(*arguments, **options))
    except SegstoreError as error:
        return type(error), str(error)


def in_a_minute() -> int:
    return time.time_ns() // 1_000_000 + 60_000


def teach(log: UnifiedLog) -> None:
    """Read each segment once by the layers, while its index is cached."""
    topics: Any = log._reader._remote.tier._reader
    parts = topics._built()
    partition = topics._partition_of(log.topic_partition)
    for one in parts.metadata.list_remote_log_segments(partition):
        if one.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED:
            parts.index_cache.index_entry(one)
    offset = log.log_start_offset
    while offset < log.local_log_start_offset:
        found = by_the_layers(log, offset, 100_000, min_one_message=True)
        offset = max([offset, *(one.offset for one in found)]) + 1


@pytest.mark.parametrize("seed", range(12))
def test_the_lane_reads_what_the_layers_read(tmp_path: Path, seed: int):
    """[TIER-65..TIER-68, DUR-141] At each offset; most of the reads are taken."""
    dice = random.Random(seed)
    taken = asked = 0
    with open_tiered(tmp_path) as logs:
        interval = dice.choice(["0", "500", "4096"])
        logs.create_topic("orders", 1, config={**TIERED, "index.interval.bytes": interval})
        log = logs.log("orders", 0)
        epoch = 0
        for _ in range(3):
            epoch = fill(log, dice, dice.randint(1, 4), epoch)
            if dice.random() < 0.3 and log.log_end_offset > 3:
                log.truncate_to(log.log_end_offset - dice.randint(1, 3))
                epoch = log.leader_epochs[-1].epoch
                log.append_as_follower(batch(dice, log.log_end_offset, epoch), epoch)
                log.roll()
            assert logs.maintain().failed == ()
            teach(log)
            for _ in range(200):
                offset = dice.randrange(log.log_end_offset)
                arguments, one = (offset, dice.choice(SIZES)), dice.random() < 0.8
                expected = by_the_layers(log, *arguments, min_one_message=one)
                found = by_the_lane(log, *arguments, min_one_message=one)
                asked += 1
                if found is not None:
                    taken += 1
                    assert described(found) == described(expected)
                both = described(log.read(*arguments, min_one_message=one))
                assert both == described(expected)
    assert taken > asked / 4


def test_most_reads_of_one_epoch_are_taken(tmp_path: Path):
    """Or a fault that lets the layers do it all would be seen by a benchmark alone."""
    with open_tiered(tmp_path) as logs:
        logs.create_topic("orders", 1, config=TIERED)
        log = logs.log("orders", 0)
        for _ in range(5):
            log.append([(None, b"v" * 100)] * 10)
            log.append([(None, b"v" * 100)] * 10)
            log.roll()
        assert logs.maintain().failed == ()
        teach(log)
        for offset in range(log.log_end_offset):
            assert by_the_lane(log, offset, 5000, min_one_message=True) is not None
        log.read(0, 5000, "read_committed")
        for isolation in Isolation:
            assert by_the_lane(log, 0, 5000, isolation, min_one_message=True) is not None


def write_transactions(log: UnifiedLog, dice: random.Random, producers: list[Producer]) -> None:
    """A segment in which transactions begin and end; few are aborted."""
    for _ in range(dice.randint(4, 12)):
        one = dice.choice(producers)
        if not one.is_inside or dice.random() < 0.7:
            one.write(dice.randint(1, 3))
            one.is_inside = True
        else:
            one.end(ABORT if dice.random() < 0.2 else COMMIT)
            one.is_inside = False
    log.roll()


class Transactional(Producer):
    is_inside = False


@pytest.mark.parametrize("seed", range(6))
def test_the_lane_takes_committed_reads_of_what_was_not_aborted(tmp_path: Path, seed: int):
    """[TIER-69] As the layers read it; where a transaction was aborted, it takes none."""
    dice, taken, left = random.Random(seed), 0, 0
    with open_tiered(tmp_path) as logs:
        logs.create_topic("orders", 1, config={**TIERED, "index.interval.bytes": "100"})
        log = logs.log("orders", 0)
        producers = [Transactional(log, number) for number in (1, 2)]
        for n in range(5):
            for _ in range(3):
                write_transactions(log, dice, producers)
            assert logs.maintain(in_a_minute() + n * 600_000).failed == ()
            for _ in range(150):
                isolation = dice.choice(list(Isolation))
                offset, size = dice.randrange(log.log_end_offset), dice.choice(SIZES)
                expected = by_the_layers(log, offset, size, isolation, min_one_message=True)
                found = by_the_lane(log, offset, size, isolation, min_one_message=True)
                assert found is None or described(found) == described(expected)
                if isolation is Isolation.READ_COMMITTED and offset < log.local_log_start_offset:
                    taken += found is not None
                    left += found is None
                both = log.read(offset, size, isolation)
                assert described(both) == described(expected)
    assert left
    assert taken + left > 10


def test_one_aborted_transaction_leaves_its_segments_to_the_layers(tmp_path: Path):
    """[TIER-69] Also that between its records and its marker; a segment is searched once."""
    with open_tiered(tmp_path) as logs:
        logs.create_topic("orders", 1, config=TIERED)
        log = logs.log("orders", 0)
        plain, aborted = Producer(log, 1), Producer(log, 2)
        starts = []
        for n in range(6):
            starts.append(log.log_end_offset)
            plain.write(2)
            if n == 2:
                aborted.write(1)
            plain.end(COMMIT)
            if n == 4:
                aborted.end(ABORT)
            log.roll()
        assert logs.maintain().failed == ()
        reader = logs._tiered._built().reader._reader
        searches = []
        collect = reader._collect

        def counted(*arguments: Any) -> Any:
            searches.append(arguments)
            return collect(*arguments)

        reader._collect = counted
        for _ in range(2):
            searches.clear()
            for offset in range(log.log_end_offset):
                log.read(offset, 10, "read_committed")
        assert len(searches) == starts[5] - starts[2], "one for each read by the layers"
        taken = [
            by_the_lane(log, offset, 10, Isolation.READ_COMMITTED, min_one_message=True) is not None
            for offset in starts
        ]
        assert taken == [True, True, False, False, False, True]


def test_what_the_lane_gives_stays_when_the_next_read_comes(tiered: Tiered):
    """Memory is used again only without a view of it."""
    log = tiered.log
    teach(log)
    kept = [log.read(offset, 1000) for offset in range(log.log_end_offset)]
    views = [(one.records, bytes(one.records)) for one in kept]
    del kept
    for offset in range(log.log_end_offset):
        log.read(offset, 3000)
    assert all(bytes(view) == was for view, was in views)


def test_a_segment_that_expired_is_read_no_more(tiered: Tiered):
    """[TIER-50, DUR-141] By the log start, and by what is known of segments."""
    log = tiered.log
    teach(log)
    lane = log._reader._remote.tier.lane
    assert lane.knows(log.leader_epochs, 1)
    first = log.read(0, 100_000).records
    log.maybe_increment_log_start_offset(log.local_log_start_offset - 1)
    with pytest.raises(SegstoreError, match="offset 0"):
        log.read(0, 100)
    assert bytes(first)
    assert tiered.logs.maintain(in_a_minute()).expired
    assert not lane.knows(log.leader_epochs, log.log_start_offset), "something has changed"
    expected = by_the_layers(log, log.log_start_offset, 100, min_one_message=True)
    assert described(log.read(log.log_start_offset, 100)) == described(expected)


def test_a_log_that_has_other_epochs_asks_again(tiered: Tiered):
    """[DUR-141] What was cut below is a lost branch."""
    log = tiered.log
    teach(log)
    lane = log._reader._remote.tier.lane
    end = [one.last_offset + 1 for one in log.read(0, 100_000).batches()][2]
    log.truncate_to(end)
    assert not lane.knows(log.leader_epochs, 0)
    log.append([(None, b"new")] * 3)
    log.roll()
    assert tiered.logs.maintain().failed == ()
    teach(log)
    for offset in range(log.log_end_offset):
        expected = outcome(by_the_layers, log, offset, 5000, min_one_message=True)
        assert outcome(log.read, offset, 5000) == expected
    assert [one.value for one in log.scan(end)] == [b"new"] * 3


def damages(path: Path) -> dict[str, Any]:
    data = path.read_bytes()
    header = bytearray(data)
    header[12:16] = (9).to_bytes(4, "big")  # the leader epoch, which no checksum covers
    length = bytearray(data)
    length[8:12] = (2**31 - 1).to_bytes(4, "big")
    magic = bytearray(data)
    magic[16] = 7
    return {
        "missing": path.unlink,
        "empty": lambda: path.write_bytes(b""),
        "cut": lambda: path.write_bytes(data[: len(data) // 2]),
        "another epoch": lambda: path.write_bytes(header),
        "a length": lambda: path.write_bytes(length),
        "a magic": lambda: path.write_bytes(magic),
        "zeros": lambda: path.write_bytes(bytes(len(data))),
    }


@pytest.mark.parametrize(
    "damage", ["missing", "empty", "cut", "another epoch", "a length", "a magic", "zeros"]
)
def test_damage_is_told_by_the_layers(tiered: Tiered, damage: str):
    """[DUR-141, DUR-144] The same error, or the same records, at each offset."""
    log = tiered.log
    teach(log)
    victim = sorted(tiered.folder.glob("*.log"))[2]
    damages(victim)[damage]()
    offsets = list(range(log.log_end_offset))
    found = [outcome(log.read, offset, 700) for offset in offsets]
    log._reader._remote.tier.lane = None
    tiered.logs._tiered._built().reader._reader._read_ahead._pieces.clear()
    expected = [
        outcome(by_the_layers, log, offset, 700, min_one_message=True) for offset in offsets
    ]
    assert found == expected
    assert any(isinstance(one[0], type) for one in expected)


def test_reads_are_counted_and_wait_for_the_quota(tiered: Tiered):
    """[TIER-70] A read by the lane as one by the layers."""
    log = tiered.log
    teach(log)
    before = tiered.counters
    size = log.read(0, 1000).size_bytes
    after = tiered.counters
    assert after.fetch_requests == before.fetch_requests + 1
    assert after.fetch_bytes == before.fetch_bytes + size
    manager = tiered.logs._tiered._built().manager
    manager.fetch_quota.update(10**12)
    assert by_the_lane(log, 0, 1000, min_one_message=True) is None, "the layers wait before"
    before = bytes_read()
    assert by_the_lane(log, 0, 1000, min_one_message=True) is None
    assert bytes_read() - before < 1000, "and the lane has ended"
    assert tiered.counters.fetch_requests == after.fetch_requests
    log.read(0, 1000)
    assert tiered.counters.fetch_requests == after.fetch_requests + 1
    manager.fetch_quota.update(2**63 - 1)
    manager._closed.set()
    with pytest.raises(ClosedError, match="is closed"):
        log.read(0, 1000)
    manager._closed.clear()


def test_wrong_arguments_get_the_error_of_the_layers(tiered: Tiered):
    """As without a lane."""
    log: Any = tiered.log
    teach(log)
    for arguments in ((-1, 10), (10**30, 10), ("0", 10), (0, -1), (0, 1.5), (True, 10), (0, None)):
        if arguments[1] is None:
            continue
        with pytest.raises(SegstoreError):
            log.read(*arguments)
    with pytest.raises(IllegalArgumentError):
        log.read(0, 10, min_one_message=1)


def test_a_closed_log_answers_no_more(tiered: Tiered):
    teach(tiered.log)
    tiered.logs.close()
    with pytest.raises(ClosedError):
        tiered.log.read(0, 1000)


def opened_in(path: Path) -> list[str]:
    files = [one for one in Path("/proc/self/fd").iterdir() if one.is_symlink()]
    return [str(one.readlink()) for one in files if str(one.readlink()).startswith(str(path))]


def test_a_file_that_is_deleted_is_not_kept_open(tiered: Tiered):
    """[TIER-54] Or its room on the disk would be taken until the log is read again."""
    log = tiered.log
    teach(log)
    log.read(0, 100)
    file = min(tiered.folder.glob("*.log"))
    assert str(file) in opened_in(tiered.folder)
    log.maybe_increment_log_start_offset(log.local_log_start_offset - 1)
    assert tiered.logs.maintain(in_a_minute()).expired
    assert not file.exists()
    assert not [one for one in opened_in(tiered.folder) if ".log" in one]


def bytes_read() -> int:
    """By the system calls of this process, these ones too."""
    return int(Path("/proc/self/io").read_text().split()[1])


def test_a_large_read_makes_no_small_one_large(tmp_path: Path):
    """A lane without an index takes only what goes on: it reads nothing to find a batch."""
    with open_tiered(tmp_path) as logs:
        logs.create_topic("orders", 1, config=TIERED)
        log = logs.log("orders", 0)
        for _ in range(100):
            log.append([(None, bytes(50_000))])
        log.roll()
        assert logs.maintain().failed == ()
        assert log.read(0, 2**31 - 1).size_bytes > 5_000_000
        for offset in (50, 99, 1, 50, 49, 2):
            before = bytes_read()
            found = log.read(offset, 1000)
            assert [one.offset for one in found] == [offset]
            assert bytes_read() - before < 400_000


def test_a_reader_that_goes_on_reads_nothing_twice(tmp_path: Path):
    """Into the next segments, too: what the layers fetch ahead, the lane would read again."""
    with open_tiered(tmp_path) as logs:
        logs.create_topic("orders", 1, config=TIERED)
        log = logs.log("orders", 0)
        for n in range(320):
            log.append([(None, bytes(16_000))])
            if n % 40 == 39:
                log.roll()
        assert logs.maintain().failed == ()
        offset, before = 0, bytes_read()
        while offset < 320:
            offset = [one.offset for one in log.read(offset, 50_000)][-1] + 1
        assert bytes_read() - before < 1.4 * 320 * 16_000  # each read cuts a batch at its end


def test_the_files_that_were_read_last_stay_open(tmp_path: Path):
    """A lane keeps 16: reads here and there open no file again, and one of each segment is open."""
    with open_tiered(tmp_path) as logs:
        logs.create_topic("orders", 1, config=TIERED)
        log = logs.log("orders", 0)
        for n in range(20):
            log.append([(None, b"%d" % n)])
            log.roll()
        assert logs.maintain().failed == ()
        (folder,) = (tmp_path / "tier" / "kafka-tiered-storage").iterdir()
        files = [str(one) for one in sorted(folder.glob("*.log"))]
        teach(log)
        order = [*range(20), 5, 7, 0, 19, 5]
        for n in order:
            found = by_the_lane(log, n, 100, min_one_message=True)
            assert [one.value for one in found] == [b"%d" % n]
        last = list(dict.fromkeys(reversed(order)))[:16]
        opened = [one for one in opened_in(folder) if one.endswith(".log")]
        assert sorted(opened) == sorted(files[n] for n in last)
        log._reader._remote.tier.lane.end()
        assert not [one for one in opened_in(folder) if one.endswith(".log")]


def test_a_segment_that_is_taught_again_has_one_file(tmp_path: Path):
    """What is forgotten is closed, also where a lane knows too many segments."""
    with (
        segstore.open(tmp_path / "orders-0", durability="none") as log,
        closing(Directory(str(tmp_path / "orders-0"))) as folder,
    ):
        log.append([(None, b"v")] * 9)
        published = PublishedEnd()
        published.log_end = LogOffsetMetadata(100, 50, 0)
        before = len(opened_in(tmp_path))
        lane = lane_of(log, folder)
        for _ in range(3):
            assert lane.read(0, 10, True, 0, 50, published, log.leader_epochs) is not None
            assert len(opened_in(tmp_path)) == before + 1
            assert lane.has_come_to(9)
            assert not lane.has_come_to(8)
            learn(lane, folder)
            assert len(opened_in(tmp_path)) == before
        assert lane.read(0, 10, True, 0, 50, published, log.leader_epochs) is not None
        for n in range(20, 300):
            learn(lane, folder, first_offset=n, last_offset=n)
        assert len(opened_in(tmp_path)) == before
        lane.end()


def test_a_close_leaves_no_descriptor(tmp_path: Path):
    """The storage keeps folders open for the lane, and the lane a file."""
    with open_tiered(tmp_path) as logs:
        logs.create_topic("orders", 1, config=TIERED)
        fill(logs.log("orders", 0), random.Random(3), 3)
        logs.maintain()
        log = logs.log("orders", 0)
        teach(log)
        log.read(0, 100)
        assert [one for one in opened_in(tmp_path / "tier") if one.endswith(".log")]
    assert not opened_in(tmp_path)
    assert log._reader._remote.tier.lane is not None


def test_a_folder_that_went_away_and_came_again_is_read(tiered: Tiered):
    """The store closes the one that it has removed; another process may do so, too."""
    log = tiered.log
    teach(log)
    copy = tiered.folder.with_name("aside")
    shutil.copytree(tiered.folder, copy)
    expected = described(log.read(0, 1000))
    shutil.rmtree(tiered.folder)
    copy.rename(tiered.folder)
    assert described(log.read(0, 1000)) == expected


def test_an_index_that_the_cache_has_let_go_is_fetched_again(tiered: Tiered):
    """[TIER-84] The lane takes no read by an index whose file is deleted."""
    log, cache = tiered.log, tiered.logs._tiered._built().index_cache
    teach(log)
    expected = described(log.read(2, 1000))  # within a batch: no read before it ended there
    cache.remove_all(cache.segment_ids)
    assert described(log.read(2, 1000)) == expected
    assert cache.delete_due(2**62) > 0
    assert by_the_lane(log, 2, 1000, min_one_message=True) is None
    teach(log)
    assert by_the_lane(log, 2, 1000, min_one_message=True) is not None
    assert described(log.read(2, 1000)) == expected


def test_what_another_process_changes_is_seen_by_a_read_only_handle(tiered: Tiered, tmp_path: Path):
    """[TIER-65] It looks for news before each read, and has no lane."""
    log = tiered.log
    with segstore.open_dir(
        tmp_path / "data", remote=str(tmp_path / "tier"), read_only=True
    ) as reader:
        other = reader.log("orders", 0)
        assert described(other.read(0, 1000))[0] == described(log.read(0, 1000))[0]
        assert other._reader._remote.tier.lane is None
        log.maybe_increment_log_start_offset(log.local_log_start_offset - 1)
        assert tiered.logs.maintain(in_a_minute()).expired
        with pytest.raises(SegstoreError, match="offset 0"):
            other.read(0, 1000)


def test_objects_of_a_store_have_no_lane(tmp_path: Path):
    with moto_store() as store:
        (tmp_path / "nothing").mkdir()
        url = store.put_once(tmp_path / "nothing", "tier")
        with segstore.open_dir(
            tmp_path / "data", remote=f"{url}/logs", remote_settings=store.settings
        ) as logs:
            logs.create_topic("orders", 1, config=TIERED)
            log = logs.log("orders", 0)
            fill(log, random.Random(3), 2)
            assert logs.maintain().failed == ()
            teach(log)
            assert log._reader._remote.tier.lane is None
            assert log.read(0, 1000).size_bytes


def test_more_segments_than_a_lane_knows(tmp_path: Path):
    """The lane forgets those that it knew; all are read."""
    with open_tiered(tmp_path) as logs:
        logs.create_topic("orders", 1, config=TIERED)
        log = logs.log("orders", 0)
        for n in range(300):
            log.append([(None, b"v%d" % n)])
            log.roll()
        assert logs.maintain().failed == ()
        teach(log)
        for n in (0, 299, 100, 298, 1, 45, 44):
            assert [one.value for one in log.read(n, 10)][:1] == [b"v%d" % n]


def test_a_lane_fills_its_own_class_alone(tmp_path: Path):
    directory, none = Directory(str(tmp_path)), codec_table()
    with pytest.raises(IllegalArgumentError, match="own class"):
        RemoteReadLane(
            (), ChangeCounter(), 0, directory, none, fetch_class=dict, topic_partition=("t", 0)
        )
    directory.close()


def test_a_counter_counts():
    counter = ChangeCounter()
    counter.add()
    counter.add()
    assert counter.count == 2


# ---- several threads -----------------------------------------------------------------------------


@pytest.fixture
def switching_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("switching_often")
def test_threads_that_read_other_segments_by_one_lane(tmp_path: Path, few_or_many):
    """Each gets the records of its own offset, while the file that is open is another's."""
    with open_tiered(tmp_path) as logs:
        logs.create_topic("orders", 1, config=TIERED)
        log = logs.log("orders", 0)
        for n in range(120):
            log.append([(None, b"%d" % n)])
            if n % 12 == 11:
                log.roll()
        assert logs.maintain().failed == ()
        teach(log)
        cache = logs._tiered._built().index_cache
        ended, wrong = Event(), []

        def read(seed: int) -> int:
            dice, count = random.Random(seed), 0
            while not ended.is_set() and not wrong:
                offset = dice.randrange(120)
                first = next(iter(log.read(offset, dice.choice([10, 100, 1000]))))
                if (first.offset, first.value) != (offset, b"%d" % offset):
                    wrong.append((offset, first))
                count += 1
            return count

        with ThreadPoolExecutor(4) as pool:
            reads = [pool.submit(read, seed) for seed in range(4)]
            for _ in range(few_or_many(20, 400)):
                time.sleep(0.05)
                log._reader._remote.tier.lane.end()
                cache.remove_all(cache.segment_ids[:2])
                cache.delete_due(2**62)
            ended.set()
        files = [one for one in opened_in(tmp_path / "tier") if one.endswith(".log")]
        assert len(files) == len(set(files)), "no other lane of the threads has one open"
        assert not wrong
        assert all(one.result() for one in reads)
    assert not opened_in(tmp_path)


class Generations:
    """Which values each offset may have: the count of its writes, which a truncation raises."""

    def __init__(self, most: int) -> None:
        self.least = [0] * most
        self.most = [0] * most

    def write(self, log: UnifiedLog, count: int) -> None:
        """Append; a batch is of two records."""
        for offset in range(log.log_end_offset, log.log_end_offset + count, 2):
            values = [b"%d/%d" % (n, self.most[n]) for n in (offset, offset + 1)]
            log.append([(None, value) for value in values])
            self.least[offset : offset + 2] = self.most[offset : offset + 2]

    def cut(self, log: UnifiedLog, offset: int) -> None:
        """Truncate, and write other values there."""
        end = log.log_end_offset
        for n in range(offset, end):
            self.most[n] += 1
        log.truncate_to(offset)
        self.write(log, end - offset)


def check_reads(log: UnifiedLog, known: Generations, dice: random.Random) -> int:
    """Read once and look at each record; return how many there were."""
    start, end = log.log_start_offset, log.log_end_offset
    if start >= end:
        return 0
    offset, isolation = dice.randrange(start, end), dice.choice(list(Isolation))
    least = known.least[:]
    try:
        records = list(log.read(offset, dice.choice([1, 100, 1000, 20_000]), isolation))
    except (OffsetOutOfRangeError, LogTruncatedError):
        return 0
    assert not records or records[0].offset == offset
    for one in records:
        said, _, generation = one.value.partition(b"/")
        assert int(said) == one.offset
        assert least[one.offset] <= int(generation) <= known.most[one.offset]
    return len(records)


class Changes:
    """What happens to a tiered topic while threads read it."""

    def __init__(self, logs: LogManager, log: UnifiedLog, known: Generations, seed: int) -> None:
        self.logs, self.log, self.known = logs, log, known
        self.parts = logs._tiered._built()
        self.dice = random.Random(seed)

    def copy(self) -> None:
        for _ in range(4):
            self.known.write(self.log, 40)
            self.log.roll()
        assert self.logs.maintain().failed == ()

    def expire(self) -> None:
        start, end = self.log.log_start_offset, self.log.local_log_start_offset
        middle = max(start, (start + end) // 2)
        self.log.maybe_increment_log_start_offset(self.dice.randint(start, middle))
        assert self.logs.maintain(in_a_minute()).failed == ()

    def cut(self) -> None:
        end = self.log.log_end_offset
        first = max(self.log.log_start_offset, end - 100)
        self.known.cut(self.log, self.dice.randrange(first, end + 1) & ~1)

    def forget_indexes(self) -> None:
        cache = self.parts.index_cache
        cache.remove_all(cache.segment_ids[::2])
        cache.delete_due(2**62)

    def end_lane(self) -> None:
        lane = self.log._reader._remote.tier.lane
        if lane is not None:
            lane.end()

    def close_folder(self) -> None:
        for folder in list(self.parts.reader._reader._storage._store._kept.values()):
            folder.close()

    def one(self) -> None:
        changes = [self.copy, self.expire, self.cut]
        changes += [self.forget_indexes, self.end_lane, self.close_folder]
        self.dice.choice(changes)()


def read_until(ended: Event, log: UnifiedLog, known: Generations, seed: int) -> int:
    """Return how many records were read; what fails ends the other threads."""
    dice, count = random.Random(seed), 0
    try:
        while not ended.is_set():
            count += check_reads(log, known, dice)
    except ClosedError:
        pass
    except BaseException:
        ended.set()
        raise
    return count


@pytest.mark.usefixtures("switching_often")
@pytest.mark.parametrize("seed", range(3))
def test_threads_read_while_all_changes(tmp_path: Path, seed: int, few_or_many):
    """[TIER-54, DUR-141] Segments come, expire and are cut off; indexes, lanes and folders go."""
    known, ended = Generations(20_000), Event()
    with open_tiered(tmp_path) as logs:
        logs.create_topic("orders", 1, config={**TIERED, "index.interval.bytes": "100"})
        log = logs.log("orders", 0)
        changes = Changes(logs, log, known, seed)
        changes.copy()
        with ThreadPoolExecutor(4) as pool:
            reads = [pool.submit(read_until, ended, log, known, seed) for seed in range(4)]
            try:
                for _ in range(few_or_many(25, 300)):
                    time.sleep(0.02)
                    changes.one()
                if seed % 2:
                    logs.close()
            finally:
                ended.set()
        assert all(one.result() for one in reads)
        files = [one for one in opened_in(tmp_path / "tier") if ".log" in one]
        assert len(files) == len(set(files)), "one of each"
        assert not [one for one in files if "(deleted)" in one]
    assert not opened_in(tmp_path)


def test_many_new_epochs_leave_one_lane_and_one_file(tiered: Tiered):
    """Each DeleteRecords makes another tuple of epochs: the lane before it is let go."""
    log = tiered.log
    for offset in range(1, min(60, log.local_log_start_offset - 1)):
        log.maybe_increment_log_start_offset(offset)
        log.read(offset, 100)
        log.read(offset, 100)
    assert len([one for one in opened_in(tiered.folder) if ".log" in one]) == 1


def test_more_partitions_than_folders_that_are_kept(tmp_path: Path, monkeypatch):
    """All are read, round after round, and no descriptor is left behind."""
    monkeypatch.setattr(writable_folder, "_MOST_KEPT_FOLDERS", 2)
    with open_tiered(tmp_path) as logs:
        logs.create_topic("orders", 6, config=TIERED)
        for partition in range(6):
            log = logs.log("orders", partition)
            log.append([(None, b"%d" % partition)] * 3)
            log.roll()
        assert logs.maintain().failed == ()
        counts = []
        for _ in range(5):
            for partition in range(6):
                log = logs.log("orders", partition)
                for offset in range(3):
                    assert next(iter(log.read(offset, 10))).value == b"%d" % partition
            counts.append(len(opened_in(tmp_path / "tier")))
        assert counts[1:] == counts[1:2] * 4
        assert counts[-1] <= 6 * 2, "a file for each log, and what the pool keeps of its folder"


# ---- what cannot be taught, or holds no more -----------------------------------------------------


@pytest.mark.parametrize("damage", ["missing", "bad"])
def test_a_reader_that_goes_on_needs_no_index(tmp_path: Path, damage: str):
    """Into the next segment, too: a lane that cannot be taught by it fails no read."""
    with open_tiered(tmp_path) as logs:
        logs.create_topic("orders", 1, config=TIERED)
        log = logs.log("orders", 0)
        for n in range(60):
            log.append([(None, b"%d" % n)])
            if n % 12 == 11:
                log.roll()
        assert logs.maintain().failed == ()
        for index in sorted((tmp_path / "tier").rglob("*.index"))[1:]:
            if damage == "missing":
                index.unlink()
            else:
                index.write_bytes(bytes(13))
        offset, taken = 0, 0
        while offset < 60:
            found = by_the_lane(log, offset, 300, min_one_message=True)
            taken += found is not None
            found = found or log.read(offset, 300)
            values = [one.value for one in found]
            assert values == [b"%d" % n for n in range(offset, offset + len(values))]
            offset += len(values)
        assert taken > 5
        assert [one.value for one in log.scan()] == [b"%d" % n for n in range(60)]
        for first in range(0, 48, 12):  # another reader that goes on: a segment begins its file
            assert by_the_lane(log, first, 300, min_one_message=True) is not None


def test_a_repaired_file_is_read_at_once(tiered: Tiered):
    """By its name, as the layers read it, while the damaged one is open."""
    log = tiered.log
    teach(log)
    expected = described(log.read(0, 1000))
    file = min(tiered.folder.glob("*.log"))
    whole = file.read_bytes()
    aside = file.with_suffix(".aside")
    aside.write_bytes(whole)
    damaged = bytearray(whole)
    damaged[70] ^= 1
    file.write_bytes(damaged)
    with pytest.raises(SegstoreError, match=file.name):
        list(log.read(0, 1000))
    aside.rename(file)
    tiered.logs._tiered._built().reader._reader._read_ahead._pieces.clear()
    assert described(log.read(0, 1000)) == expected
    file.unlink()
    assert by_the_lane(log, 0, 1000, min_one_message=True) is None


def test_a_lane_on_a_counter_that_ended_takes_nothing(tiered: Tiered):
    """A lane made by what was known before the partition was forgotten does not hold."""
    log = tiered.log
    teach(log)
    metadata = tiered.logs._tiered._built().metadata
    partition = metadata._partitions[0]._store._caches
    (key,) = [one for one in partition if one.topic_partition == log.topic_partition]
    known = partition[key].segment_range(0, 0)
    metadata.on_stop_partitions([key])
    assert not log._reader._remote.tier.lane.knows(log.leader_epochs, 0)
    folder = Directory(str(tiered.folder))
    lane = RemoteReadLane(
        log.leader_epochs,
        known.changes,
        known.changes.count,
        folder,
        codec_table(),
        fetch_class=FetchDataInfo,
        topic_partition=log.topic_partition,
    )
    assert not lane.holds(log.leader_epochs, known.changes.count)
    folder.close()
    assert log.read(0, 100).size_bytes


def lane_of(log: UnifiedLog, folder: Directory, **how: Any) -> RemoteReadLane[FetchDataInfo]:
    """A lane of the first segment that is taught what the test says."""
    lane = RemoteReadLane(
        log.leader_epochs,
        ChangeCounter(),
        0,
        folder,
        codec_table(),
        fetch_class=FetchDataInfo,
        topic_partition=log.topic_partition,
    )
    learn(lane, folder, **how)
    return lane


def learn(lane: RemoteReadLane[FetchDataInfo], folder: Directory, **how: Any) -> None:
    (file,) = Path(folder.path).glob("*.log")
    said = {
        "first_offset": 0,
        "last_offset": 8,
        "epoch": 0,
        "epoch_start_offset": -1,
        "epoch_end_offset": 2**62,
        "base_offset": 0,
        "end_offset": 8,
        "size_bytes": file.stat().st_size,
        "file_name": file.name,
        "object_name": "first",
        "index": None,
        "next_offset": 0,
        "next_position": 0,
    }
    said |= how
    first, last = said.pop("first_offset"), said.pop("last_offset")
    lane.learn(first, last, **said)


BORDERS: list[tuple[dict[str, int], dict[str, int], bool]] = [
    ({}, {"visible_end": 8}, False),
    ({}, {"visible_end": 9}, True),
    ({}, {}, True),
    ({}, {"log_start_offset": 1}, False),
    ({}, {"local_start_offset": 0}, False),
    ({}, {"log_end": 8}, False),
    ({}, {"log_end": 9}, True),
    ({"epoch": 1}, {}, False),
    ({"epoch_end_offset": 3}, {"max_bytes": 1}, True),
    ({"epoch_end_offset": 3}, {}, False),
    ({"epoch_end_offset": 2}, {"max_bytes": 1}, False),
    ({"end_offset": 2}, {"max_bytes": 1}, True),
    ({"end_offset": 1}, {"max_bytes": 1}, False),
    ({"epoch_start_offset": 1}, {"max_bytes": 1}, False),
    ({"base_offset": 1}, {"max_bytes": 1}, False),
    ({"size_bytes": 2**31}, {"max_bytes": 10**6}, False),
    ({"first_offset": 1}, {}, False),
    ({"next_offset": 1}, {}, True),
    ({"file_name": "nothing.log"}, {}, False),
]


@pytest.mark.parametrize(("taught", "asked", "is_taken"), BORDERS)
def test_what_a_lane_takes(tmp_path: Path, taught: dict, asked: dict, *, is_taken: bool):
    """[TIER-65, DUR-141] Batches 0 to 2, 3 to 5, 6 to 8 of epoch 0."""
    with segstore.open(tmp_path / "orders-0", durability="none") as log:
        for _ in range(3):
            log.append([(None, b"v")] * 3)
        published = PublishedEnd()
        published.log_end = LogOffsetMetadata(asked.get("log_end", 100), 50, 0)
        with closing(Directory(str(tmp_path / "orders-0"))) as folder:
            lane = lane_of(log, folder, **taught)
            found = lane.read(
                0,
                asked.get("max_bytes", 1000),
                True,
                asked.get("log_start_offset", 0),
                asked.get("local_start_offset", 50),
                published,
                log.leader_epochs,
                asked.get("visible_end"),
            )
            assert (found is not None) is is_taken
            lane.end()
            lane.end()
            assert not lane.holds(log.leader_epochs, 0)


def test_what_is_taught_takes_the_place_of_what_was_known(tmp_path: Path):
    """Segments that overlap: a later copy covers an earlier one."""
    with (
        segstore.open(tmp_path / "orders-0", durability="none") as log,
        closing(Directory(str(tmp_path / "orders-0"))) as folder,
    ):
        log.append([(None, b"v")] * 9)
        (index,) = [OffsetIndex(folder, one, 0) for one in folder.names() if one.endswith(".index")]
        lane = lane_of(log, folder, index=index, last_offset=20)
        said = {
            "epoch": 0,
            "epoch_start_offset": 0,
            "epoch_end_offset": 100,
            "base_offset": 0,
            "end_offset": 100,
            "size_bytes": 1,
            "file_name": "a",
            "object_name": "a",
            "next_offset": 0,
            "next_position": 0,
        }
        lane.learn(10, 15, index=None, **said)
        known = [lane.knows(log.leader_epochs, offset) for offset in (0, 9, 10, 15, 16)]
        assert known == [False] * 5, "what overlaps goes whole"
        lane.learn(0, 9, index=index, **said)
        assert [lane.knows(log.leader_epochs, n) for n in (0, 9, 10)] == [True, True, False]
        for n in range(20, 300):
            lane.learn(n, n, index=index, **said)
        assert not lane.knows(log.leader_epochs, 0), "the lane knows 256 segments at most"
        assert lane.knows(log.leader_epochs, 299)
        lane.end()
