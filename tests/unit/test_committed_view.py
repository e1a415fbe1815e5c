"""Readers of committed data against a walk over Python lists: any transactions, in any order."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import segstore
from segstore._core import AbortedTransactions, encode_end_transaction_marker
from segstore.errors import IllegalArgumentError
from tests.unit.cli_process import run_segstore
from tests.unit.core_inputs import TIME, batch

PLAIN = 0
PRODUCERS = [PLAIN, 11, 12, 13]
STEPS = st.lists(
    st.tuples(st.sampled_from(PRODUCERS), st.sampled_from(["data", "data", "commit", "abort"])),
    max_size=40,
)


class Oracle:
    """The log as a list of rows; what is committed is found by looking ahead."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, int, str]] = []
        self.next_offset = 0

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
    oracle = Oracle()
    batches: list[tuple[int, bytes]] = []
    for producer, kind in steps:
        if kind == "data":
            offset = oracle.append(producer, kind, count)
            batches.append((offset, data(producer, offset, count)))
        elif producer != PLAIN:
            offset = oracle.append(producer, kind, 1)
            batches.append((offset, marker(producer, offset, kind)))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t-0"
        path.mkdir()
        for first in range(0, max(len(batches), 1), batches_per_segment):
            segment = batches[first : first + batches_per_segment]
            base = segment[0][0] if segment else 0
            (path / f"{base:020}.log").write_bytes(b"".join(data for _, data in segment))

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


def _end(fetched: segstore.FetchDataInfo) -> int:
    headers = fetched.headers
    return int(headers["last_offset"][-1]) + 1 if len(headers) else 0


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
