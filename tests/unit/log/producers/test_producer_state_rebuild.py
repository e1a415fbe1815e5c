"""The producer state of a log that is read again: from snapshots, without them, in parts."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segstore._core import (
    Directory,
    SegmentContext,
    encode_empty_batch,
    encode_end_transaction_marker,
    iterate_raw_records,
    scan_batches,
)
from segstore.errors import CorruptRecordError, DiskFullError
from segstore.log.local.segment import Segment
from segstore.log.local.segments import Segments
from segstore.log.local.transaction_index import AbortedTransaction, TransactionIndex
from segstore.log.producers.producer_batch import producer_batches
from segstore.log.producers.producer_state_manager import ProducerStateManager
from segstore.log.producers.producer_state_rebuild import (
    rebuild_producer_state,
    recover_producer_state,
)
from segstore.log.producers.producer_updates import ProducerUpdates
from segstore.records.compression import codec_table
from segstore.types import AppendOrigin
from tests.kits.log_kit import TIME, batch

if TYPE_CHECKING:
    from collections.abc import Iterator

REPLICATION = AppendOrigin.REPLICATION


class Log:
    """Segments of one partition, filled by hand, beside a state that sees each append."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.directory = Directory(str(path))
        self.context = SegmentContext(self.directory, codec_table(), writable=True)
        self.end = 0
        self.sequences: dict[int, int] = {}
        self.segments = Segments([Segment(self.context, 0, create=True)])
        self.live = self.new_state()
        self.index = TransactionIndex(self.directory, 0)

    def new_state(self) -> ProducerStateManager:
        return ProducerStateManager("topic-0", self.directory)

    def append(self, data: bytes) -> None:
        headers, _ = scan_batches(data)
        self.segments.active_segment.append(data, headers)
        updates = ProducerUpdates(self.live, REPLICATION)
        for row in producer_batches(headers):
            updates.append(row, records=iterate_raw_records(data, codec_table()))
        updates.commit(self.index.append)
        self.end = int(headers["last_offset"][-1]) + 1
        self.live.update_map_end_offset(self.end)

    def data(self, pid: int, count: int = 1, *, transactional: bool = False) -> None:
        sequence = self.sequences.get(pid, 0)
        self.sequences[pid] = sequence + count
        producer = {"producer_id": pid, "producer_epoch": 0, "base_sequence": sequence}
        fields = producer | {"transactional": transactional} if pid >= 0 else {}
        records = [(TIME + self.end + i, b"k", b"v") for i in range(count)]
        self.append(batch(records, base_offset=self.end, epoch=0, **fields))

    def end_transaction(self, pid: int, *, abort: bool = False) -> None:
        self.append(self.marker(pid, abort=abort))

    def marker(self, pid: int, *, abort: bool = False) -> bytes:
        producer_epoch = leader_epoch = 0
        return encode_end_transaction_marker(
            self.end,
            TIME + self.end,
            leader_epoch,
            pid,
            producer_epoch,
            commit=not abort,
            coordinator_epoch=3,
        )

    def roll(self, *, snapshot: bool = True) -> None:
        if self.segments.active_segment.base_offset == self.end:
            return
        self.segments = self.segments.with_segment(Segment(self.context, self.end, create=True))
        if snapshot:
            self.live.take_snapshot(sync=False)

    def rebuilt(self, *, start: int = 0, end: int | None = None, clean: bool = False):
        state = self.new_state()
        rebuild_producer_state(
            state,
            self.segments,
            codec_table(),
            log_start_offset=start,
            last_offset=self.end if end is None else end,
            now_ms=TIME,
            from_clean_shutdown=clean,
        )
        return state

    def drop_snapshots(self) -> None:
        for path in self.path.glob("*.snapshot"):
            path.unlink()

    def snapshots(self) -> list[int]:
        return [int(path.stem) for path in sorted(self.path.glob("*.snapshot"))]

    def close(self) -> None:
        for segment in self.segments:
            segment.close()
        self.directory.close()


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    made = Log(tmp_path)
    yield made
    made.close()


def known(state: ProducerStateManager) -> tuple[object, ...]:
    """What a snapshot keeps of a state."""
    return (
        state.map_end_offset,
        state.first_undecided_offset,
        {
            pid: (
                entry.producer_epoch,
                entry.coordinator_epoch,
                entry.last_timestamp,
                entry.current_txn_first_offset,
                (entry.last_seq, entry.last_data_offset, entry.last_offset_delta),
            )
            for pid, entry in state.active_producers.items()
        },
    )


def test_a_log_without_snapshots_is_read_from_its_start(log):
    """[PSM-70, PSM-72, PSM-74] And snapshots are left for the next time, of bases and end."""
    log.data(7, 3)
    log.data(-1, 2)
    log.roll(snapshot=False)
    log.data(8, 2, transactional=True)
    log.roll(snapshot=False)
    log.data(7, 1)
    log.end_transaction(8)
    log.roll(snapshot=False)
    log.data(7, 1)

    state = log.rebuilt()

    assert known(state) == known(log.live)
    assert state.last_entry(7).batch_metadata == log.live.last_entry(7).batch_metadata
    assert log.snapshots() == [7, 9, 10]
    assert not list(log.path.glob("*.txnindex"))  # [PSM-73]


def test_a_clean_log_without_snapshots_is_not_read(log):
    """[PSM-71] It had no producers, says whoever closed it; snapshots of nothing are left."""
    log.data(7, 3)
    log.roll(snapshot=False)
    log.data(7)

    state = log.rebuilt(clean=True)

    assert (state.is_empty, state.map_end_offset) == (True, 4)
    assert log.snapshots() == [3, 4]  # never one of offset 0 [PSM-52]


def test_the_newest_snapshot_is_where_reading_begins(log):
    """[PSM-72] What it says is believed, even where the log below says more."""
    log.data(7, 3)
    log.roll()
    log.data(8, 2)
    (log.path / f"{0:020}.log").write_bytes(b"")

    state = log.rebuilt()

    assert known(state) == known(log.live)
    assert log.snapshots() == [3, 5]


def test_a_state_beyond_the_log_goes_back(log):
    """[PSM-60, PSM-72] A truncation: up to the offset, and not the batch at it."""
    log.data(7, 3)
    log.roll()
    log.data(7, 2, transactional=True)
    log.data(7, 2, transactional=True)
    log.live.take_snapshot()

    state = log.rebuilt(end=5)

    entry = state.last_entry(7)
    assert (entry.last_seq, entry.last_data_offset) == (4, 4)
    assert (state.map_end_offset, state.first_undecided_offset) == (5, 3)
    assert log.snapshots() == [3, 5]


def test_a_later_log_start_hides_producers(log):
    """[PSM-72] Reading begins with the batch that the log start lies in."""
    log.data(7, 2)
    log.data(8, 3)
    log.data(9, 1)

    state = log.rebuilt(start=3)

    assert set(state.active_producers) == {8, 9}


def test_a_log_that_never_saw_a_producer_is_not_read_when_it_is_cut(log):
    """[PSM-73] wasEmpty."""
    log.data(-1, 5)
    state = log.new_state()
    state.update_map_end_offset(9)
    (log.path / f"{0:020}.log").write_bytes(b"\xff" * 200)

    rebuild_producer_state(
        state,
        log.segments,
        codec_table(),
        log_start_offset=0,
        last_offset=5,
        now_ms=TIME,
        from_clean_shutdown=False,
    )

    assert (state.is_empty, state.map_end_offset) == (True, 5)


def test_damage_on_the_way_is_an_error(log):
    """Half a state would take duplicates for news."""
    for _ in range(3):
        log.data(7, 1)
    path = log.path / f"{0:020}.log"
    data = bytearray(path.read_bytes())
    second = len(data) // 3
    data[second + 8 : second + 12] = b"\xff\xff\xff\xff"
    path.write_bytes(bytes(data))

    with pytest.raises(CorruptRecordError) as refused:
        log.rebuilt()
    assert refused.value.file == str(path)


def test_a_full_disk_is_no_gate(small_disk, caplog):
    """[DUR-22, DUR-30] The state is there without its snapshots; they come when there is room."""
    log = Log(small_disk.path)
    log.data(7, 3)
    small_disk.fill()

    state = log.rebuilt()

    assert known(state) == known(log.live)
    assert "no producer snapshot at offset 3" in caplog.text
    for sync in (False, True):
        with pytest.raises(DiskFullError):
            state.take_snapshot(sync=sync)
    assert not list(small_disk.path.glob("*.snapshot*"))
    small_disk.free()
    assert state.take_snapshot().offset == 3
    log.close()


def test_a_marker_whose_record_was_cleaned_away_says_nothing(log):
    """[PSM-16] Compaction has left the header of its batch."""
    log.data(7, 1, transactional=True)
    headers, _ = scan_batches(log.marker(7))
    log.append(encode_empty_batch(headers[0]))
    log.data(8, 1)

    for state in (log.live, log.rebuilt()):
        entry = state.last_entry(7)
        assert (entry.current_txn_first_offset, entry.coordinator_epoch) == (0, -1)
        assert (state.first_undecided_offset, state.map_end_offset) == (0, 3)


def test_recovery_writes_the_transaction_index(log):
    """[SEG-42] Batch by batch: state and index as the appends left them."""
    log.data(7, 2, transactional=True)
    log.data(8, 1, transactional=True)
    log.end_transaction(7, abort=True)
    log.data(9, 1)
    log.end_transaction(8)
    log.data(-1, 3)
    expected = list(log.index)
    log.index.reset()
    segment = log.segments.active_segment
    state = log.new_state()

    for headers, _ in segment.scan_windows():
        recover_producer_state(state, segment, headers, codec_table(), log.index.append)

    assert list(log.index) == expected == [AbortedTransaction(7, 0, 3, 2)]
    assert known(state) == known(log.live)
    assert state.map_end_offset == 9


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["data", "txn", "txn", "commit", "abort", "roll", "plain", "close"]),
        st.integers(1, 3),
        st.integers(1, 4),
    ),
    max_size=25,
)


@settings(max_examples=50)
@given(STEPS, st.booleans())
def test_reading_again_gives_the_state_that_appends_gave(steps, keeps_snapshots):
    """[PSM-72, PSM-74] With the snapshots of rolls and closes, and without any."""
    with tempfile.TemporaryDirectory() as folder:
        log = Log(Path(folder))
        is_open: set[int] = set()
        for kind, pid, count in steps:
            if kind in {"data", "txn"}:
                transactional = kind == "txn" or pid in is_open
                log.data(pid, count, transactional=transactional)
                is_open |= {pid} if transactional else set()
            elif kind == "plain":
                log.data(-1, count)
            elif kind == "roll":
                log.roll()
            elif kind == "close":
                log.live.take_snapshot()
            else:
                log.end_transaction(pid, abort=kind == "abort")
                is_open.discard(pid)
        if not keeps_snapshots:
            log.drop_snapshots()

        state = log.rebuilt()

        assert known(state) == known(log.live)
        assert known(log.rebuilt(clean=True)) == known(log.live)
        log.close()
