"""Readers of committed data against a walk over Python lists: any transactions, in any order."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import segstore
from segstore._core import AbortedTransactions, encode_end_transaction_marker, scan_batches
from segstore.errors import (
    CorruptLogError,
    CorruptRecordError,
    IllegalArgumentError,
    InvalidRecordError,
    LogTruncatedError,
)
from tests.kits.cli_process import run_segstore
from tests.kits.core_inputs import TIME, batch

PLAIN = 0
PRODUCERS = [PLAIN, 11, 12, 13]
KINDS = ["data", "data", "commit", "abort"]
CORRUPT = (CorruptRecordError, InvalidRecordError)
STEPS = st.lists(
    st.tuples(st.sampled_from(PRODUCERS), st.sampled_from(KINDS)),
    max_size=40,
)


class Oracle:
    """The log as a list of rows; what is committed is found by looking ahead."""

    def __init__(self, rows: list[tuple[int, int, str]] | None = None) -> None:
        self.rows = [] if rows is None else rows
        self.next_offset = 0 if rows is None else rows[-1][0] + 1 if rows else 0

    def below(self, offset: int) -> Oracle:
        return Oracle([row for row in self.rows if row[0] < offset])

    def append(self, producer: int, kind: str, count: int) -> int:
        offset = self.next_offset
        self.rows += [(offset + i, producer, kind) for i in range(count)]
        self.next_offset += count
        return offset

    def end_of(self, offset: int, producer: int) -> str | None:
        ends = [kind for o, p, kind in self.rows if p == producer and o > offset and kind != "data"]
        return ends[0] if ends else None

    @property
    def last_stable_offset(self) -> int:
        unstable = [
            offset
            for offset, producer, kind in self.rows
            if kind == "data" and producer != PLAIN and self.end_of(offset, producer) is None
        ]
        return min(unstable, default=self.next_offset)

    @property
    def committed(self) -> list[int]:
        return [
            offset
            for offset, producer, kind in self.rows
            if kind == "data"
            and offset < self.last_stable_offset
            and (producer == PLAIN or self.end_of(offset, producer) == "commit")
        ]


def data(producer: int, offset: int, count: int) -> bytes:
    options = {"partition_leader_epoch": 0}
    if producer != PLAIN:
        options |= {"producer_id": producer, "transactional": 1, "producer_epoch": 0}
        options |= {"base_sequence": offset}
    return batch([(None, b"%d" % i) for i in range(count)], base_offset=offset, **options)


def marker(producer: int, offset: int, kind: str) -> bytes:
    return encode_end_transaction_marker(
        offset, TIME, 0, producer, 0, commit=kind == "commit", coordinator_epoch=1
    )


@given(STEPS, st.integers(1, 3), st.integers(1, 9))
def test_readers_see_committed_records_only(
    steps: list[tuple[int, str]], count: int, batches_per_segment: int
):
    """[TXX-*] Rows, tuples, Arrow, count and fetches leave out the same; the end is stable."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t-0"
        oracle = build(path, steps, count, batches_per_segment)

        with segstore.open(path, read_only=True) as log:
            check(log, oracle)


def check(log: segstore.UnifiedLog, oracle: Oracle) -> None:
    assert log.last_stable_offset == oracle.last_stable_offset
    scan = log.scan(isolation="read_committed")
    assert [row[0] for row in scan.tuples()] == oracle.committed
    assert [record.offset for record in scan] == oracle.committed
    assert scan.count() == len(oracle.committed)
    assert scan.to_arrow()["offset"].to_pylist() == oracle.committed
    fetched = log.read(0, 2**31 - 1, "read_committed")
    assert [record.offset for record in fetched] == [
        offset for offset in oracle.committed if offset < _end(fetched)
    ]
    found = log.slice(0, 2**31 - 1, "read_committed").read()
    assert found.records == fetched.records
    assert found.aborted_transactions == fetched.aborted_transactions


def build(path: Path, steps: list[tuple[int, str]], count: int, batches_per_segment: int) -> Oracle:
    """Write the files of a log."""
    oracle = Oracle()
    batches: list[tuple[int, bytes]] = []
    for producer, kind in steps:
        if kind == "data":
            offset = oracle.append(producer, kind, count)
            batches.append((offset, data(producer, offset, count)))
        elif producer != PLAIN:
            offset = oracle.append(producer, kind, 1)
            batches.append((offset, marker(producer, offset, kind)))
    path.mkdir()
    for first in range(0, max(len(batches), 1), batches_per_segment):
        segment = batches[first : first + batches_per_segment]
        base = segment[0][0] if segment else 0
        (path / f"{base:020}.log").write_bytes(b"".join(data for _, data in segment))
    return oracle


def _end(fetched: segstore.FetchDataInfo) -> int:
    headers = fetched.headers
    return int(headers["last_offset"][-1]) + 1 if len(headers) else 0


@settings(max_examples=50)
@given(STEPS.filter(bool), st.integers(1, 3), st.integers(1, 9), st.data())
def test_a_damaged_batch_makes_no_committed_record_disappear(
    steps: list[tuple[int, str]], count: int, batches_per_segment: int, draw: st.DataObject
):
    """[DUR-7, DUR-79] What is known below the damage is read, in order; nothing else is."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t-0"
        oracle = build(path, steps, count, batches_per_segment)
        file = draw.draw(st.sampled_from(sorted(path.glob("*.log"))))
        content = bytearray(file.read_bytes())
        if not content:
            return
        starts = scan_batches(content)[0]
        batch = draw.draw(st.sampled_from(range(len(starts))))
        inside = draw.draw(st.integers(16, int(starts["size_bytes"][batch]) - 1))
        with segstore.open(path):  # a clean stop
            pass
        forget_producers(path)
        content[int(starts["position"][batch]) + inside] ^= 1 << draw.draw(st.integers(0, 7))
        file.write_bytes(content)
        found: list[int] = []

        with segstore.open(path, read_only=True) as log, suppress(CorruptLogError, *CORRUPT):
            for record in log.scan(isolation="read_committed"):
                found.append(record.offset)  # noqa: PERF401 - until an error
        known = oracle.below(int(starts["base_offset"][batch])).committed

        assert found == oracle.committed[: len(found)]
        assert found[: len(known)] == known


def forget_producers(path: Path) -> None:
    """Leave nothing but the batches to tell of transactions."""
    for kind in ("snapshot", "txnindex"):
        for file in path.glob(f"*.{kind}"):
            file.unlink()


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.sampled_from(PRODUCERS), st.sampled_from(KINDS)),
        st.tuples(st.sampled_from(["truncate", "delete"]), st.integers(0, 9), st.just("")),
        st.tuples(st.sampled_from(["roll", "reopen", "look", "look"]), st.just(0), st.just("")),
    ),
    max_size=25,
)


@settings(max_examples=50)
@given(ACTIONS, st.integers(1, 3))
def test_a_view_that_goes_on_is_the_one_of_a_new_handle(
    actions: list[tuple[str, int, str]], count: int
):
    """[TXX-*, LSO-1] Between appends, cuts, deletions, rolls; the writer's and a reader's."""
    oracle, starts = Oracle(), [0]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t-0"
        writer = segstore.open(path, durability="none")
        reader = segstore.open(path, read_only=True)
        for action, producer, kind in actions:
            match action:
                case "append" if kind == "data":
                    offset = oracle.append(producer, kind, count)
                    writer.append_as_follower(data(producer, offset, count), 0)
                    starts.append(oracle.next_offset)
                case "append" if producer != PLAIN:
                    offset = oracle.append(producer, kind, 1)
                    writer.append_as_follower(marker(producer, offset, kind), 0)
                    starts.append(oracle.next_offset)
                case "truncate":
                    offset = starts[max(len(starts) - 1 - producer, 0)]
                    offset = max(offset, writer.log_start_offset)
                    has_segments_less = offset <= writer.segments()[-1].base_offset
                    writer.truncate_to(offset)
                    starts = [start for start in starts if start < offset] + [offset]
                    oracle = oracle.below(offset)
                    oracle.next_offset = offset
                    if has_segments_less:
                        reader.close()
                        reader = segstore.open(path, read_only=True)
                case "delete":
                    offset = starts[len(starts) * producer // 10]
                    writer.delete_records(max(offset, writer.log_start_offset))
                case "roll":
                    writer.roll()
                case "reopen":
                    writer.close()
                    writer = segstore.open(path, durability="none")
                case "look":
                    with suppress(LogTruncatedError):
                        reader.refresh()
                    check_part(reader, oracle)
            check_part(writer, oracle)
        with segstore.open(path, read_only=True) as log:
            check_part(log, oracle)
        reader.close()
        writer.close()


def check_part(log: segstore.UnifiedLog, oracle: Oracle) -> None:
    start, first = log.log_start_offset, log.segments()[0].base_offset
    # What was deleted stays open for who knew it [LST-2]; a rebuild forgets it [PSM-72].
    for known_from in (first, start, 0):
        there = Oracle([row for row in oracle.rows if row[0] >= known_from])
        there.next_offset = oracle.next_offset
        stable = max(there.last_stable_offset, start)
        if log.last_stable_offset == stable:
            break
    committed = [offset for offset in there.committed if start <= offset < stable]
    assert log.last_stable_offset == stable
    assert [row[0] for row in log.scan(isolation="read_committed").tuples()] == committed
    middle = (start + stable) // 2
    rows = log.to_arrow(middle, columns=["offset"], isolation="read_committed")
    assert rows["offset"].to_pylist() == [offset for offset in committed if offset >= middle]


def test_a_tail_waits_for_the_end_of_a_transaction(tmp_path: Path):
    """Another process writes: first an open transaction, then its end, then the next one."""
    path = tmp_path / "t-0"
    path.mkdir()
    file = path / f"{0:020}.log"
    file.write_bytes(data(PLAIN, 0, 1) + data(11, 1, 2))
    with segstore.open(path, read_only=True) as log:
        follow = log.tail(0, timeout=0, isolation="read_committed")
        assert [record.offset for record in follow] == [0]
        assert list(log.tail(2, timeout=0, isolation="read_committed")) == []
        assert [record.offset for record in log.tail(0, timeout=0)] == [0, 1, 2]
        assert run_segstore("tail", path, "--isolation", "read_committed").stdout == b"0\n"

        with file.open("ab") as writer:
            writer.write(marker(11, 3, "commit") + data(12, 4, 1) + marker(12, 5, "abort"))

        follow = log.tail(1, timeout=0, isolation="read_committed")
        assert [record.offset for record in follow] == [1, 2]
        assert run_segstore("tail", path, "--isolation", "read_committed", "-n1").stdout == b"1\n"


def test_aborted_transactions_are_sorted_by_their_producers():
    """The table is looked up by bisection."""
    table = AbortedTransactions([(9, 5, 6), (1, 20, 30), (1, 2, 3)])

    assert len(table) == 3
    with pytest.raises(IllegalArgumentError):
        AbortedTransactions([(1, 2, 3), (1, 0, 3)])


def test_an_unknown_isolation_is_refused(tmp_path: Path):
    """Names are those of `Isolation`."""
    with segstore.open(tmp_path / "t-0") as log, pytest.raises(ValueError, match="isolation"):
        log.scan(isolation="serializable")
