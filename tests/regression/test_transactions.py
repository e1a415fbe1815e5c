"""Transactions: what readers of committed records see, and which are open."""

from __future__ import annotations

import errno
import itertools
import json
import os
import random
import shutil
import struct
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore import AppendOrigin, IllegalArgumentError, MemoryRecords, OpenTransaction, _core, cli
from segstore._core import DataFile, Directory, crc32c
from segstore.errors import (
    CorruptLogError,
    CorruptRecordError,
    DiskFullError,
    InvalidRecordError,
    LogNotFoundError,
    OffsetOutOfRangeError,
    ReadIOError,
    UnsupportedFormatError,
)
from segstore.log.local import transaction_index
from segstore.log.local.segment import Segment
from segstore.log.local.transaction_index import AbortedTransaction, TransactionIndex
from segstore.log.producers.producer_state_manager_config import ProducerStateManagerConfig
from tests.kits.log_kit import batch
from tests.kits.small_disk import small_disk
from tests.kits.transactions_kit import ABORT, COMMIT, Producer, write
from tests.unit.log.test_committed_view import PLAIN, data, forget_producers, marker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from segstore import UnifiedLog
    from tests.kits.log_kit import Clock

__all__ = ["small_disk"]


# ---- abort on a full disk ------------------------------------------------------------------------
# The first ABORT marker after a clean open made the log read-only when the disk was full.
#
# `.segstore` was written between the marker, which was in the log already, and its index entry. Now
# nothing is written but the two, and room for the entry is taken first.


def committed_offsets(log):
    return [record.offset for record in log.scan(isolation="read_committed")]


@pytest.mark.parametrize("has_index", [True, False])
def test_the_log_goes_on(new_log, small_disk, has_index):
    """[APP-16, DUR-30] What fits is taken; what does not is not there, and taken with space again.

    In the blocks that they have begun both the log and its index have room.
    """
    path = small_disk.path / "topic-0"
    log = new_log(path, file_delete_delay_ms=0)
    first = Producer(log, 1)
    first.write(2)
    first.end(ABORT)
    write(log)
    if not has_index:
        log.roll()
        write(log)
    log.close()
    log = new_log(path, file_delete_delay_ms=0)
    second = Producer(log, 2)
    second.write(2)
    write(log)
    end, stable = log.log_end_offset, log.last_stable_offset
    small_disk.fill()

    if not has_index:
        for _ in range(2):
            with pytest.raises(DiskFullError):
                second.end(ABORT)
            assert (log.log_end_offset, log.last_stable_offset) == (end, stable)
        write(log)
        end += 1
        small_disk.free()
    second.end(ABORT)
    write(log)
    small_disk.free()

    assert log.last_stable_offset == log.log_end_offset == end + 2
    shown = committed_offsets(log)
    log.close()
    again = new_log(path)
    assert again.report.clean
    assert committed_offsets(again) == shown
    assert again.verify().ok
    again.close()


# ---- aborted list of a fetch ---------------------------------------------------------------------
# A fetch named another first offset of an aborted transaction than a broker does, or left it out.
#
# The batches of the fetched segments decide what a reader leaves out. A broker's list comes from
# its index, and also tells of records before those segments, and of records that were compacted
# away. Looked for besides: a transaction that goes across several segments, seen from each of them;
# one whose batches are in front of the range; one that ends behind others which are left out
# already; an entry that would reach across an earlier marker of its producer.


SETTINGS = {"segment_ms": None, "durability": "none"}
ENTRY = struct.Struct(">hqqqq")


def entries(partition: Path) -> list[tuple[int, ...]]:
    """Producer id, first offset, marker and last stable offset, of all indexes in order."""
    return [
        entry[1:]
        for index in sorted(partition.glob("*.txnindex"))
        for entry in ENTRY.iter_unpack(index.read_bytes())
    ]


def of_a_broker(partition: Path, offset: int, upper_bound: int) -> list[tuple[int, int]]:
    """What Kafka's collectAbortedTransactions finds in these files, from a segment on [TXX-4]."""
    found = []
    for producer_id, first, last, stable in entries(partition):
        if last >= offset and first < upper_bound:
            found.append((producer_id, first))
        if last >= offset and stable >= upper_bound:
            break
    return found


def write_by_chance(path: Path, seed: int) -> None:
    """Transactions of a few producers that overlap, in many segments."""
    chance = random.Random(seed)
    with segstore.open(path, **SETTINGS) as log:
        producers = [Producer(log, number) for number in range(1, 5)]
        is_open = dict.fromkeys(range(4), False)
        for _ in range(120):
            number = chance.randrange(4)
            what = chance.random()
            if what < 0.55:
                producers[number].write(chance.randint(1, 3))
                is_open[number] = True
            elif what < 0.8 and is_open[number]:
                producers[number].end(ABORT if chance.random() < 0.7 else COMMIT)
                is_open[number] = False
            elif what < 0.9:
                write(log)
            else:
                log.roll()
        for number, producer in enumerate(producers):
            if is_open[number]:
                producer.end(ABORT)


@pytest.fixture(params=range(12))
def aborted_partition(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "orders-0"
    write_by_chance(path, request.param)
    return path


def fetches(log: segstore.UnifiedLog) -> Iterator[tuple[int, int, list[tuple[int, int]]]]:
    """Every offset: it, the upper bound, and the list of the fetch.

    No segment is so large that its offset index has an entry: a broker looks up to its end.
    """
    bases = [segment.base_offset for segment in log.segments()]
    for offset in range(log.last_stable_offset):
        end = next((base for base in bases if base > offset), log.log_end_offset)
        aborted = log.read(offset, 1_000_000, "read_committed").aborted_transactions
        assert aborted is not None
        yield offset, end, [(one[0], one[1]) for one in aborted]


def test_the_list_is_a_brokers(aborted_partition: Path):
    """[LOC-9, TXX-4] The list of each fetch is what Kafka's search finds in the indexes."""
    with segstore.open(aborted_partition, read_only=True) as log:
        asked = list(fetches(log))
    assert any(aborted for _, _, aborted in asked)
    for offset, end, aborted in asked:
        assert aborted == of_a_broker(aborted_partition, offset, end), (offset, end)


def test_a_transaction_of_many_segments(tmp_path: Path):
    """[LOC-9] From each of its segments its first offset is the same."""
    path = tmp_path / "orders-0"
    with segstore.open(path, **SETTINGS) as log:
        write(log)
        producer, other = Producer(log, 1), Producer(log, 2)
        for _ in range(3):
            producer.write()
            other.write()
            other.end(ABORT)
            log.roll()
        producer.end(ABORT)
        for offset in range(1, log.log_end_offset):
            aborted = log.read(offset, 1, "read_committed").aborted_transactions
            assert aborted is not None
            assert (1, 1) in [(one[0], one[1]) for one in aborted], offset


def test_a_wrong_entry_hides_nothing(tmp_path: Path):
    """[DUR-7] An entry that reaches across the producer's earlier COMMIT is not followed."""
    path = tmp_path / "orders-0"
    with segstore.open(path, **SETTINGS) as log:
        producer = Producer(log, 1)
        producer.write(3)
        producer.end(COMMIT)
        log.roll()
        producer.write(2)
        producer.end(ABORT)
    (index,) = path.glob("*.txnindex")
    version, producer_id, first, last, stable = ENTRY.unpack(index.read_bytes())
    assert first == 4
    index.write_bytes(ENTRY.pack(version, producer_id, 0, last, stable))
    with segstore.open(path, read_only=True) as log:
        found = log.read(0, 1_000_000, "read_committed")
        assert [record.offset for record in log.scan(isolation="read_committed")] == [0, 1, 2]
        assert [record.offset for record in found] == [0, 1, 2]


def test_no_entry_shows_or_hides_a_record(tmp_path: Path):
    """[DUR-7] One entry with every producer, first offset and marker, right and wrong ones."""
    path = tmp_path / "orders-0"
    with segstore.open(path, **SETTINGS) as log:
        one, two = Producer(log, 1), Producer(log, 2)
        one.write(2)
        one.end(COMMIT)
        one.write(2)
        two.write()
        one.end(ABORT)
        two.end(COMMIT)
        end = log.log_end_offset
    (index,) = path.glob("*.txnindex")
    with segstore.open(path, read_only=True) as log:
        for producer_id, first, last in itertools.product((1, 2, 3), range(end), range(end)):
            index.write_bytes(ENTRY.pack(0, producer_id, first, last, last + 1))
            found = [record.offset for record in log.read(0, 1_000_000, "read_committed")]
            assert found == [0, 1, 5], (producer_id, first, last)


def test_a_large_file_of_zeros_is_not_read_to_its_end(tmp_path: Path):
    """[DUR-8] 8 GiB of zeros are entries of offset 0, and took minutes: markers ascend."""
    path = tmp_path / "orders-0"
    with segstore.open(path, **SETTINGS) as log:
        producer = Producer(log, 1)
        producer.write(2)
        producer.end(ABORT)
        write(log)
    (index,) = path.glob("*.txnindex")
    index.write_bytes(b"")
    os.truncate(index, 8 << 30)
    with segstore.open(path, read_only=True) as log:
        found = log.read(0, 1_000_000, "read_committed")
        assert found.aborted_transactions is not None
        assert [tuple(one) for one in found.aborted_transactions] == [(1, 0)]
        assert [record.offset for record in found] == [3]


def test_kafkas_profile_does_not_ask_whether_markers_ascend(tmp_path: Path):
    """[TXX-4] The safe profile does; here both find the same transactions."""
    path = tmp_path / "orders-0"
    with segstore.open(path, **SETTINGS) as log:
        for number in (1, 2):
            producer = Producer(log, number)
            producer.write(2)
            producer.end(ABORT)
        write(log)
    (index,) = path.glob("*.txnindex")
    content = index.read_bytes()
    for recovery in ("kafka", "safe"):
        with segstore.open(path, recovery=recovery, **SETTINGS) as log:
            if recovery == "kafka":
                log.update_high_watermark(log.log_end_offset)
            index.write_bytes(content[ENTRY.size :] + content[: ENTRY.size])
            aborted = log.read(0, 1_000_000, "read_committed").aborted_transactions
            assert aborted is not None
            assert sorted((one[0], one[1]) for one in aborted) == [(1, 0), (2, 3)]
            index.write_bytes(content)


# ---- readers of committed data -------------------------------------------------------------------
# Readers of committed data: damage hid markers, each append cost a walk, deletions an error.


FIRST = [data(11, 0, 2), data(PLAIN, 2, 1), marker(11, 3, "commit"), data(PLAIN, 4, 1)]
SECOND = [data(11, 5, 2), marker(11, 7, "abort"), data(PLAIN, 8, 1)]
MARKER_POSITION = len(FIRST[0]) + len(FIRST[1])
MAGIC = 16
LENGTH = 11
KEY_TYPE = 69


def segment_file(path: Path, base_offset: int) -> Path:
    return path / f"{base_offset:020}.log"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A log of two segments that was closed."""
    path = tmp_path / "t-0"
    path.mkdir()
    segment_file(path, 0).write_bytes(b"".join(FIRST))
    segment_file(path, 5).write_bytes(b"".join(SECOND))
    with segstore.open(path):
        pass
    forget_producers(path)
    return path


def damage(path: Path, position: int, value: int) -> None:
    with segment_file(path, 0).open("r+b") as file:
        file.seek(position)
        file.write(bytes([value]))


@pytest.mark.parametrize("inside", [MAGIC, LENGTH, KEY_TYPE])
def test_where_a_marker_is_lost_nothing_is_guessed(path: Path, inside: int):
    """[DUR-7] The file and its position are named, by everything that reads on."""
    damage(path, MARKER_POSITION + inside, 0x77)
    with segstore.open(path, read_only=True) as log:
        assert log.last_stable_offset == 0
        for read in (
            lambda: list(log.scan(0, 3, isolation="read_committed")),
            lambda: log.scan(0, 3, isolation="read_committed").count(),
            lambda: log.to_arrow(isolation="read_committed"),
            lambda: log.read(0, 1000, "read_committed"),
            lambda: list(log.tail(0, timeout=0, isolation="read_committed")),
        ):
            with pytest.raises(CorruptLogError) as caught:
                read()
            assert caught.value.file == str(segment_file(path, 0))
            assert caught.value.position == MARKER_POSITION
        assert log.scan(0, 0, isolation="read_committed").tuples() == []
        assert [one.offset for one in log.scan(0, 3)] == [0, 1, 2]


def test_a_data_batch_whose_checksum_is_wrong_begins_no_transaction(path: Path):
    """Bits are believed behind a checksum only: this one has another producer id."""
    damage(path, 50, 0x01)
    with segstore.open(path, read_only=True) as log:
        assert log.last_stable_offset == 0
        with pytest.raises(CorruptLogError, match="is unknown"):
            log.scan(isolation="read_committed").tuples()


@pytest.mark.parametrize("kind", ["commit", "abort"])
def test_following_transactions_walks_each_batch_about_once(tmp_path: Path, monkeypatch, kind):
    """[DUR-61] Header rows of N transactions one by one: a multiple of N."""
    path = tmp_path / "t-0"
    path.mkdir()
    file = segment_file(path, 0)
    file.write_bytes(data(11, 0, 1) + marker(11, 1, kind))
    rows, scan = 0, Segment.scan

    def counted(self, **how):
        nonlocal rows
        headers, result = scan(self, **how)
        rows += max(len(headers), result.batches_count)
        return headers, result

    monkeypatch.setattr(Segment, "scan", counted)
    seen = []
    counts = []
    with segstore.open(path, read_only=True) as log:
        for number in range(1, 201):
            with file.open("ab") as writer:
                writer.write(data(11, 2 * number, 1) + marker(11, 2 * number + 1, kind))
            follow = log.tail(2 * number, timeout=0, isolation="read_committed")
            seen += [one.offset for one in follow]
            counts.append(rows)

    assert seen == ([2 * number for number in range(1, 201)] if kind == "commit" else [])
    assert counts[199] - counts[99] < 1.1 * (counts[99] - counts[19]) * 100 / 80
    assert counts[199] < 200 * 60


def test_a_view_is_computed_once_for_each_state_of_the_log(path: Path, monkeypatch):
    """Nothing is read when nothing changed."""
    with segstore.open(path, read_only=True) as log:
        assert log.last_stable_offset == 9

        def refused(*_args, **_how):
            raise AssertionError

        monkeypatch.setattr(Segment, "scan", refused)
        monkeypatch.setattr(Segment, "read", refused)
        assert log.last_stable_offset == 9


def test_a_segment_that_goes_while_its_transactions_are_looked_for(path: Path, monkeypatch):
    """[DUR-19, DUR-78] Retention beside a reader of committed data: LogNotFoundError."""
    header = struct.pack(">i", 0)
    snapshot = struct.pack(">hI", 1, crc32c(header)) + header
    scan_transactions = Segment.scan_transactions
    is_deleted = False
    with segstore.open(path, file_delete_delay_ms=0) as log:
        log.flush()
        (path / f"{8:020}.snapshot").write_bytes(snapshot)

        def beside_a_deletion(self, **how):
            nonlocal is_deleted
            if not is_deleted:
                is_deleted = True
                log.delete_records(5)
                while segment_file(path, 0).exists():
                    time.sleep(0.01)
                raise LogNotFoundError("gone")
            return scan_transactions(self, **how)

        monkeypatch.setattr(Segment, "scan_transactions", beside_a_deletion)
        assert log.last_stable_offset == 9
        with pytest.raises(OffsetOutOfRangeError):
            log.scan(0, isolation="read_committed")
        assert is_deleted
        assert [row[0] for row in log.scan(isolation="read_committed").tuples()] == [8]
        assert len(log.segments()) == 1


def test_an_index_of_several_pieces(tmp_path: Path, monkeypatch):
    """[TXX-3] One above 64 MiB was refused; part of an entry at the end is not seen."""
    directory = Directory(str(tmp_path))
    monkeypatch.setattr(transaction_index, "_PIECE_BYTES", 68)
    for count in (1, 2, 3, 4, 5):
        entries = [AbortedTransaction(1, at, at, at) for at in range(count)]
        file = tmp_path / f"{0:020}.txnindex"
        for torn in (0, 5):
            file.write_bytes(b"".join(entry.format() for entry in entries) + bytes(torn))
            assert list(TransactionIndex(directory, 0)) == entries
    directory.close()


def test_an_append_that_failed_may_be_tried_again(tmp_path: Path, monkeypatch):
    """[TXX-2, DUR-32] The last offset was noted before the write."""
    directory = Directory(str(tmp_path))
    index = TransactionIndex(directory, 0)
    entry = AbortedTransaction(1, 0, 10, 11)

    class FullDisk:
        def __init__(self, *args, **how) -> None:
            self.file = DataFile(*args, **how)
            self.size = 0

        def __enter__(self):
            return self

        def __exit__(self, *_: object) -> None:
            self.file.close()

        def write(self, *_: object) -> None:
            raise OSError

    with monkeypatch.context() as patched:
        patched.setattr(transaction_index, "DataFile", FullDisk)
        with pytest.raises(OSError):
            index.append(entry)
    index.append(entry)

    assert list(index) == [entry]
    directory.close()


def test_arrow_takes_an_isolation(path: Path):
    """What takes none shows everything."""
    with segstore.open(path, read_only=True) as log:
        committed = [0, 1, 2, 4, 8]
        assert log.to_arrow(isolation="read_committed")["offset"].to_pylist() == committed
        selected = log.select("offset", isolation="read_committed")
        assert selected.to_arrow()["offset"].to_pylist() == committed
        assert [one.offset for one in log] == [0, 1, 2, 4, 5, 6, 8]
        assert log.select("offset").to_arrow().num_rows == 7
        with pytest.raises(OffsetOutOfRangeError):
            log.to_arrow(10, isolation="read_committed")


# ---- committed view of a shortened segment -------------------------------------------------------
# A reader of committed data stumbled over a segment that its writer had cut and rolled.


def test_the_batches_that_were_walked_are_gone(tmp_path: Path):
    """[DUR-77] The range [0, 138) is not inside the segment's 69 bytes."""
    path = tmp_path / "t-0"
    with (
        segstore.open(path, durability="none") as writer,
        segstore.open(path, read_only=True) as reader,
    ):
        writer.append([(None, b"a")])
        writer.append([(None, b"b")])
        reader.refresh()
        assert reader.last_stable_offset == 2
        writer.truncate_to(1)
        writer.roll()
        writer.append([(None, b"c")])
        with suppress(segstore.LogTruncatedError):
            reader.refresh()
        assert reader.last_stable_offset == 2
        assert [one.value for one in reader.scan(isolation="read_committed")] == [b"a", b"c"]


# ---- open transactions ---------------------------------------------------------------------------
# An open transaction ended committed reads early, and no command said so (situation 26).
#
# ``ls``, ``inspect`` and ``cat`` name it, a read-only handle gives it as a value, and an operator
# can end it. Looked for besides: a transaction whose first batches were deleted, several at once,
# one that is not old enough to hang, wrong epochs, a damaged log, and logs that a broker wrote.


MINUTE_MS = 60 * 1000


@pytest.fixture
def broker_log(packed: Path, tmp_path: Path) -> Path:
    """A broker's partition with a transaction that hangs since offset 294 of 336."""
    return shutil.copytree(packed / "transactions-tv1" / "data", tmp_path / "g") / "ledger-0"


@pytest.fixture
def open_partition(tmp_path: Path) -> Path:
    """Two open transactions: of producer 2 from offset 2 on, and of producer 1 from 4 on."""
    path = tmp_path / "orders-0"
    with segstore.open(path, **SETTINGS) as log:
        first, second = Producer(log, 1), Producer(log, 2)
        first.write()  # 0
        first.end(COMMIT)  # 1
        second.write(2)  # 2, 3
        log.roll()
        first.write()  # 4
        second.write()  # 5
        write(log)  # 6
    return path


def committed_offsets_at(path: Path) -> list[int]:
    with segstore.open(path, read_only=True) as log:
        return [record.offset for record in log.scan(isolation="read_committed")]


def run(*arguments: object) -> int:
    return cli.main([*map(str, arguments)])


def files_of(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.iterdir()}


@pytest.mark.parametrize("read_only", [True, False])
def test_a_handle_gives_the_open_transactions(
    open_partition: Path,
    *,
    read_only: bool,
):
    """[LSO-1] In the order of their first offsets, the same to read and to write."""
    with segstore.open(open_partition, read_only=read_only) as log:
        found = log.open_transactions()

        assert [one[:3] for one in found] == [(2, 0, 2), (1, 0, 4)]
        first = next(iter(log.scan(2)))
        assert found[0].start_timestamp == first.timestamp
        assert log.last_stable_offset == 2


def test_of_a_transaction_whose_beginning_was_deleted(open_partition: Path):
    """[LSO-1, PSM-47] Both stay open; of the one without a batch the epoch is not known."""
    with segstore.open(open_partition, **SETTINGS) as log:
        log.delete_records(6)
        expected = {2: -1, 1: -1}
        assert {one.producer_id: one.producer_epoch for one in log.open_transactions()} == expected
        Producer(log, 1, sequence=2).write()  # 7
        expected[1] = 0
        assert {one.producer_id: one.producer_epoch for one in log.open_transactions()} == expected
        assert log.last_stable_offset == 6
    with segstore.open(open_partition, read_only=True) as log:
        assert {one.producer_id: one.producer_epoch for one in log.open_transactions()} == expected
        assert log.last_stable_offset == 6
    with segstore.open(open_partition, **SETTINGS) as log:
        log.abort_transaction(1)
        log.abort_transaction(2)
        assert log.open_transactions() == ()


def test_a_transaction_hangs_when_a_coordinator_had_ended_it():
    """[PSM-46] Kafka: transaction.max.timeout.ms, and five minutes."""
    transaction = OpenTransaction(1, 0, 10, start_timestamp=1_000_000)

    assert not transaction.is_hanging(1_000_000 + 20 * MINUTE_MS)
    assert transaction.is_hanging(1_000_000 + 20 * MINUTE_MS + 1)
    assert transaction.is_hanging(1_000_000 + 6 * MINUTE_MS + 1, max_timeout_ms=MINUTE_MS)


def test_the_commands_name_the_transaction(
    broker_log: Path, capsysbinary: pytest.CaptureFixture[bytes]
):
    """Situation 26: last stable offset, producer, epoch, first offset, since when."""
    assert run("ls", broker_log, "--json") == 0
    listed = json.loads(capsysbinary.readouterr().out)
    assert run("inspect", "-q", broker_log, "--json") == 0
    inspected = json.loads(capsysbinary.readouterr().out)

    for facts in (listed, inspected):
        assert (facts["last_stable_offset"], facts["log_end_offset"]) == (294, 336)
        (transaction,) = facts["open_transactions"]
        assert (transaction["producer_id"], transaction["producer_epoch"]) == (1, 0)
        assert (transaction["start_offset"], transaction["is_hanging"]) == (294, True)
    with segstore.open(broker_log, read_only=True) as log:
        first = next(record for record in log.scan(294))
    assert transaction["start_timestamp"] == first.timestamp

    assert run("ls", broker_log) == 0
    out, err = capsysbinary.readouterr()
    assert out.splitlines()[1].split()[-3:] == [b"294", b"1", b"keep"]
    assert b"producer 1 (epoch 0) is open from offset 294 on, since 2025-" in err
    assert run("inspect", "-q", broker_log) == 0
    assert b"last stable offset: 294" in capsysbinary.readouterr().out
    run("verify", "-q", broker_log)
    assert b"producer 1 (epoch 0) is open from offset 294 on" in capsysbinary.readouterr().out


def test_cat_says_where_committed_records_end(
    broker_log: Path, capsysbinary: pytest.CaptureFixture[bytes]
):
    """Situation 26: on stderr, unless the range ends before; the exit code stays 0."""
    committed_only = ("--isolation", "read_committed")
    assert run("cat", broker_log, *committed_only) == 0
    assert b"committed records end at offset 294, and the log at 336" in (
        capsysbinary.readouterr().err
    )
    assert run("tail", broker_log, *committed_only) == 0
    assert b"committed records end at offset 294" in capsysbinary.readouterr().err
    for quiet in ((), *((*committed_only, *more) for more in (("-q",), ("-c", "5")))):
        assert run("cat", broker_log, *quiet) == 0
        assert capsysbinary.readouterr().err == b""


def test_a_young_transaction_is_no_reason_for_advice(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
):
    """A producer at work is named where its transaction ends the output, and left alone."""
    path = tmp_path / "orders-0"
    with segstore.open(path, **SETTINGS) as log:
        producer = segstore.MemoryRecords.with_records(
            [(time.time_ns() // 1_000_000, b"k", b"v")],
            producer_id=1,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        )
        log.append_as_leader(producer)

    assert run("ls", path) == 0
    assert capsysbinary.readouterr().err == b""
    assert run("cat", path, "--isolation", "read_committed") == 0
    err = capsysbinary.readouterr().err
    assert b"committed records end at offset 0" in err
    assert b"abort-transaction" not in err


def test_an_operator_ends_a_transaction(
    broker_log: Path, capsysbinary: pytest.CaptureFixture[bytes]
):
    """Situation 26: `cat` names the command; it ends the transaction, once, and reads go on."""
    with segstore.open(broker_log, read_only=True) as log:
        everything = [one.offset for one in log.scan() if one.offset >= 294]
        of_producer = {
            record.offset
            for batch in log.scan(294).batches()
            if batch.producer_id == 1 and not batch.is_control
            for record in batch.records()
        }
    run("cat", broker_log, "--isolation", "read_committed")
    advice = capsysbinary.readouterr().err.decode().split("`")[1].split()
    assert advice[0] == "segstore"

    assert run(*advice[1:], "--producer-epoch", 0) == 0
    assert b"last stable offset was 294, now it is 337" in capsysbinary.readouterr().out
    read = [offset for offset in committed_offsets_at(broker_log) if offset >= 294]
    assert read == [offset for offset in everything if offset not in of_producer]
    assert run(*advice[1:]) == 1
    assert b"no open transaction of producer 1" in capsysbinary.readouterr().err
    assert run("verify", "-q", broker_log) == 0


def test_a_marker_has_the_epochs_of_its_transaction(open_partition: Path):
    """[PSM-17, PSM-18] Kafka's tool sends the producer's epoch, and its last coordinator's."""
    with segstore.open(open_partition, **SETTINGS) as log:
        before = {one.producer_id: one for one in log.active_producers()}
        info = log.abort_transaction(1)
        after = {one.producer_id: one for one in log.active_producers()}

        assert info.base_offset == 7
        assert after[1].producer_epoch == before[1].producer_epoch
        assert after[1].coordinator_epoch == before[1].coordinator_epoch
        assert after[1].current_txn_start_offset == -1
        assert [one.producer_id for one in log.open_transactions()] == [2]
        log.abort_transaction(2, producer_epoch=0)
        assert log.last_stable_offset == log.log_end_offset
    assert committed_offsets_at(open_partition) == [0, 6]


@pytest.mark.parametrize("which", [("--producer-id", 2), ("--start-offset", 2)])
def test_a_dry_run_writes_nothing(
    open_partition: Path, which: tuple[str, int], capsysbinary: pytest.CaptureFixture[bytes]
):
    """It names the transaction that it found by its producer or by its first offset."""
    before = files_of(open_partition)

    assert run("abort-transaction", open_partition, *which, "--dry-run") == 0
    assert b"producer 2, epoch 0, from offset 2 on would be aborted" in (
        capsysbinary.readouterr().out
    )
    assert files_of(open_partition) == before
    assert run("abort-transaction", open_partition, *which) == 0
    with segstore.open(open_partition, read_only=True) as log:
        assert [one.producer_id for one in log.open_transactions()] == [1]


@pytest.mark.parametrize(
    "which",
    [
        ("--producer-id", 3),
        ("--producer-id", 2, "--producer-epoch", 1),
        ("--start-offset", 3),
        ("--start-offset", 2, "--producer-epoch", 7),
    ],
)
def test_what_is_not_open_is_refused(open_partition: Path, which: tuple[str | int, ...]):
    """Exit code 1, and nothing is written."""
    before = files_of(open_partition)

    assert run("abort-transaction", open_partition, *which) == 1
    assert files_of(open_partition) == before


def test_a_handle_refuses_what_is_not_open(open_partition: Path):
    """[PSM-19] A marker without a transaction would do nothing; here it is an error."""
    with segstore.open(open_partition, **SETTINGS) as log:
        end = log.log_end_offset
        for arguments in ((3,), (2, 1)):
            with pytest.raises(segstore.InvalidTxnStateError):
                log.abort_transaction(*arguments)
        assert log.log_end_offset == end
    with (
        segstore.open(open_partition, read_only=True) as log,
        pytest.raises(segstore.LogReadOnlyError),
    ):
        log.abort_transaction(2)


def test_a_damaged_log_is_recovered_first(
    open_partition: Path, capsysbinary: pytest.CaptureFixture[bytes]
):
    """What lies behind the damage may have ended the transaction."""
    log_file = open_partition / f"{4:020d}.log"
    data = bytearray(log_file.read_bytes())
    data[70] ^= 1
    log_file.write_bytes(data)
    before = files_of(open_partition)

    assert run("abort-transaction", open_partition, "--producer-id", 2) == 1
    assert b"segstore recover" in capsysbinary.readouterr().err
    assert files_of(open_partition) == before


def test_all_partitions_of_a_topic_are_named_by_it(tmp_path: Path):
    """A transaction goes over several partitions; those without it stay as they are."""
    for number in range(3):
        with segstore.open(tmp_path / f"orders-{number}", **SETTINGS) as log:
            write(log)
            producer = Producer(log, 5)
            producer.write()
            if number == 1:
                producer.end(ABORT)

    assert run("abort-transaction", tmp_path, "-t", "orders", "--producer-id", 5) == 0
    for number in range(3):
        with segstore.open(tmp_path / f"orders-{number}", read_only=True) as log:
            assert log.open_transactions() == ()
            assert log.log_end_offset == 3


# ---- truncation that opens a transaction ---------------------------------------------------------
# A truncation took the end of a transaction whose producer had been forgotten: it was not seen.


EXPIRATION_MS = 1000


def test_a_transaction_is_open_again_without_its_marker(
    new_log: Callable[..., UnifiedLog], clock: Clock
):
    """[PSM-73, PSM-56, LSO-1, TRU-5] Kafka reads nothing again where it knew no producer."""
    settings = {"producer_config": ProducerStateManagerConfig(EXPIRATION_MS)}
    log = new_log(**settings)
    now_ms = clock.now
    log.append_as_leader(
        MemoryRecords.with_records(
            [(now_ms, None, b"x")],
            producer_id=7,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        ).data
    )
    marker = MemoryRecords.with_end_transaction_marker(7, 0, commit=False, timestamp=now_ms)
    log.append_as_leader(marker.data, origin=AppendOrigin.COORDINATOR, transaction_version=1)
    log.close()
    clock.sleep(EXPIRATION_MS)
    log = new_log(**settings)
    assert log.active_producers() == []

    log.truncate_to(1)

    assert log.last_stable_offset == 0
    assert [one.producer_id for one in log.active_producers()] == [7]
    assert list(log.scan(isolation="read_committed")) == []


# ---- transaction version of a marker -------------------------------------------------------------
# A transaction version that does not exist was taken for one.


@pytest.mark.parametrize("version", [-2, 3, 2**31])
def test_a_version_that_does_not_exist(tmp_path, version):
    """[PSM-18] It is -1, unknown, or 0, 1 or 2."""
    marker = MemoryRecords.with_end_transaction_marker(1, 0, commit=True)
    with segstore.open(tmp_path / "a-0") as log:
        with pytest.raises(IllegalArgumentError, match="transaction_version"):
            log.append_as_leader(
                marker, origin=AppendOrigin.COORDINATOR, transaction_version=version
            )
        assert log.log_end_offset == 0


# ---- transaction below the log start -------------------------------------------------------------
# A transaction of which nothing can be read was missed in an index that rightly lacks it.


@pytest.mark.parametrize("recovery", ["safe", "kafka"])
@pytest.mark.parametrize("kept", [5, 7])
def test_the_producers_behind_a_truncation_begin_at_the_log_start(tmp_path, recovery, kept):
    """[PSM-56, DUR-7] Behind a deletion up to 5 nobody knows of the transaction from 0 on."""
    now = _core.wall_clock_ms()

    def sent(**producer: object) -> bytes:
        return batch([(now, None, b"v")], **producer)

    def of_producer(sequence: int) -> bytes:
        return sent(producer_id=100, producer_epoch=0, base_sequence=sequence, transactional=True)

    with segstore.open(tmp_path / "t-0", durability="none", recovery=recovery) as log:
        log.append_as_leader(of_producer(0), 0)
        for _ in range(5):
            log.append_as_leader(sent(), 0)
        log.append_as_leader(of_producer(1), 0)
        log.append_as_leader(sent(), 0)
        if recovery == "kafka":
            log.update_high_watermark(8)
        log.maybe_increment_log_start_offset(5)
        log.truncate_to(kept)
        abort = _core.encode_end_transaction_marker(
            kept, now, 0, 100, 0, commit=False, coordinator_epoch=0
        )
        log.append_as_follower(abort, 0)
        report = log.verify()
        assert report.ok, report
        shown = [record.offset for record in log.scan(isolation="read_committed")]
        assert shown == ([] if kept == 5 else [5])


# ---- verify of a transaction whose begin was deleted ---------------------------------------------
# To `verify` a transaction began with its first record that is left, to the index before.
#
# Then every beginning below the first segment was right to it, and to the check of an index without
# a note, also where the producer had ended a transaction after it: committed records were hidden.


def test_an_index_that_knows_more_than_the_log_is_sound(tmp_path: Path):
    """[TXX-1, DUR-7] Found by the state machine."""
    with segstore.open(tmp_path / "t-0", durability="none") as log:
        for sequence in range(3):
            log.append_as_leader(transactional(sequence))
            log.roll()
        log.delete_records(2)
        abort(log)

        report = log.verify()

        assert report.ok, str(report)
        assert log.collect_aborted_transactions(2, 4) != []


def test_an_index_that_was_made_above_the_log_start_is_sound(tmp_path: Path):
    """[LDR-17, TXX-1, DUR-62] Kafka's recovery knows no producer from before the log start."""
    settings = {"recovery": "kafka", "durability": "none", "state_dir": tmp_path / "state"}
    log = segstore.open(tmp_path / "t-0", **settings)
    for sequence in range(4):
        log.append_as_leader(transactional(sequence))
        if sequence == 1:
            log.roll()
    log.update_high_watermark(4)
    log.maybe_increment_log_start_offset(3)
    abort(log)
    log.close_quietly()
    with segstore.open(tmp_path / "t-0", **settings) as log:
        report = log.verify()

        assert log.log_start_offset == 3
        assert [segment.base_offset for segment in log.segments()] == [0, 2]
        assert report.ok, str(report)
        assert [one.first_offset for one in log.collect_aborted_transactions(3, 5)] == [2]

    (tmp_path / "t-0" / "00000000000000000002.txnindex").write_bytes(b"")
    with segstore.open(tmp_path / "t-0", read_only=True, **settings) as log:
        assert not log.verify().ok


KINDS = {"committed": True, "aborted": False}


@pytest.mark.parametrize("is_committed", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("begins", [1, 2], ids=["deleted", "in the transaction before"])
def test_no_transaction_begins_before_the_end_of_the_one_before(tmp_path, begins, is_committed):
    """[TXX-1, DUR-7] The index is as a broker leaves it: nothing has a note of it."""
    path = tmp_path / "t-0"
    with segstore.open(path, durability="none", file_delete_delay_ms=0) as log:
        log.append([(None, b"0"), (None, b"1")])
        log.roll()
        log.append_as_leader(transactional(0))  # offset 2
        end(log, commit=is_committed)
        log.append_as_leader(transactional(1))
        end(log, commit=False)  # offset 5
        log.append([(None, b"6")])
        log.delete_records(2)
        assert log.verify().ok
    index = path / "00000000000000000002.txnindex"
    entries = bytearray(index.read_bytes())
    struct.pack_into(">q", entries, len(entries) - 34 + 10, begins)
    (path / ".segstore").unlink()

    for changed in (False, True):
        if changed:
            index.write_bytes(entries)
        with segstore.open(path, read_only=True) as log:
            assert [segment.base_offset for segment in log.segments()] == [2]
            committed = [record.offset for record in log.scan(isolation="read_committed")]
            assert committed == ([2, 6] if is_committed else [6])
            files = [finding.file for finding in log.verify().findings]
            assert files == [".segstore", index.name][: 1 + changed]


def test_a_transaction_that_was_there_before_may_have_begun_below_the_log(tmp_path):
    """[TXX-1] The first end of each producer tells no more than that."""
    path = tmp_path / "t-0"
    with segstore.open(path, durability="none", file_delete_delay_ms=0) as log:
        log.append_as_leader(transactional(0))
        log.roll()
        log.append_as_leader(transactional(1))
        end(log, commit=False)
        log.append_as_leader(transactional(2))
        end(log, commit=False)
        log.delete_records(1)
    (path / ".segstore").unlink()

    with segstore.open(path, read_only=True) as log:
        assert [finding.file for finding in log.verify().findings] == [".segstore"]
        found = log.collect_aborted_transactions(1, 5)
        assert [one.first_offset for one in found] == [0, 3]


def transactional(sequence: int) -> bytes:
    return MemoryRecords.with_records(
        [(None, b"x")],
        producer_id=7,
        producer_epoch=0,
        base_sequence=sequence,
        transactional=True,
    ).data


def abort(log: UnifiedLog):
    end(log, commit=False)


def end(log: UnifiedLog, *, commit: bool):
    marker = MemoryRecords.with_end_transaction_marker(7, 0, commit=commit)
    coordinator = AppendOrigin.COORDINATOR
    log.append_as_leader(marker.data, origin=coordinator, transaction_version=1)


# ---- a transaction that begins in damage ---------------------------------------------------------
# `recover` was refused, where the dry run and `verify` said that it would not be.
#
# The open looked for the place of the first unstable offset, and met the damaged batch.


DAMAGE = (CorruptLogError, CorruptRecordError, InvalidRecordError, UnsupportedFormatError)


@pytest.mark.parametrize(("at", "damage"), [(8, bytes(4)), (16, b"\x00"), (16, b"\x01")])
def test_a_transaction_that_begins_in_damage_stops_no_open(new_log, at, damage):
    """[LSO-1, DUR-51] Reads up to there name the damage; what is behind it can be appended to.

    A flipped bit of the magic makes an old message of a batch: the open was refused, and the error
    named no file.
    """
    log = new_log()
    write(log)
    file = Path(log.path, f"{0:020d}.log")
    position, first = file.stat().st_size, log.log_end_offset
    Producer(log, 1).write(2)
    log.roll()
    write(log)
    end = log.log_end_offset
    log.close()
    with file.open("r+b") as opened:
        opened.seek(position + at)
        opened.write(damage)

    with segstore.open(log.path) as log:
        assert log.log_end_offset == end
        for isolation in ("read_uncommitted", "read_committed"):
            with pytest.raises(DAMAGE, match=f"position {position}"):
                list(iter(log.scan(first, isolation=isolation)))  # `list` alone counts first
        write(log)
        assert log.log_end_offset > end


def test_an_append_beside_a_transaction_that_begins_in_an_unreadable_page(new_log, monkeypatch):
    """[LSO-1, DUR-33] The batch was in the log, and the append raised ReadIOError."""
    log = new_log()
    Producer(log, 1).write(2)
    log.roll()
    write(log)
    log.close()

    def read_nothing(_: Segment, *__: object, **___: object) -> None:
        raise ReadIOError("cannot read the file", os_error=errno.EIO)

    with segstore.open(log.path) as log:
        end = log.log_end_offset
        with monkeypatch.context() as patch:
            patch.setattr(Segment, "read", read_nothing)
            Producer(log, 2).write(1)
        assert log.log_end_offset == end + 1
        assert log.last_stable_offset == 0

    with monkeypatch.context() as patch:
        patch.setattr(Segment, "read", read_nothing)
        segstore.open(log.path).close()
