"""UnifiedLog against the log as Python lists (tests/kits/oracle.py).

Any operations, in any order, clean and unclean stops.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import segstore
from segstore.log.files.checkpoints import CLEAN_SHUTDOWN_MARKER
from tests.kits.oracle import OracleLog, OracleRecord

FIRST_TIMESTAMP = 1_700_000_000_000
TIMESTAMPS = st.integers(-1, 500).map(lambda delta: -1 if delta < 0 else FIRST_TIMESTAMP + delta)
KEYS = st.none() | st.binary(max_size=8)
VALUES = st.none() | st.binary(max_size=120)
RECORDS = st.lists(st.tuples(TIMESTAMPS, KEYS, VALUES), min_size=1, max_size=12)

SETTINGS = st.fixed_dictionaries(
    {
        "durability": st.sampled_from(["none", "messages=7", "seconds=30", "sync"]),
        "compression_type": st.sampled_from(["producer", "gzip", "snappy", "lz4", "zstd"]),
        "internal_segment_bytes": st.sampled_from([300, 700, 3000]),
        "index_interval_bytes": st.sampled_from([0, 100, 4096]),
        "segment_index_bytes": st.sampled_from([48, 4096]),
        "max_message_bytes": st.sampled_from([250, 100_000]),
        "file_delete_delay_ms": st.sampled_from([0, 60_000]),
        "preallocate": st.booleans(),
    }
)


class UnifiedLogMachine(RuleBasedStateMachine):
    """One log, its oracle, and the folder that both live in."""

    @initialize(chosen=SETTINGS)
    def open_new_log(self, chosen: dict[str, object]):
        self.folder = Path(tempfile.mkdtemp(prefix="segstore-property-"))
        self.copies = 0
        self.settings = chosen
        self.path = self.folder / "0" / "topic-0"
        self.log = segstore.open(self.path, segment_ms=None, **chosen)
        self.oracle = OracleLog()

    def teardown(self):
        if hasattr(self, "log"):
            self.log.close()
            shutil.rmtree(self.folder)

    # ---- changes ---------------------------------------------------------------------------------

    @rule(records=RECORDS)
    def append(self, records: list[tuple[int, bytes | None, bytes | None]]):
        self._append(records)

    @rule(records=RECORDS, times=st.integers(2, 40))
    def append_much(self, records: list[tuple[int, bytes | None, bytes | None]], times: int):
        """More than a segment holds, in one call."""
        self._append(records * times)

    def _append(self, records: list[tuple[int, bytes | None, bytes | None]]):
        first = self.oracle.log_end_offset
        info = self.log.append(records)
        assert (info.base_offset, info.last_offset) == (first, first + len(records) - 1)
        assert info.records_count == len(records)
        assert info.max_timestamp == max(record[0] for record in records)
        batches = [
            [(record.timestamp, record.key, record.value) for record in batch]
            for batch in self.log.scan(first).batches()
        ]
        assert [record for batch in batches for record in batch] == records
        self.oracle.append(batches)

    @rule()
    def roll(self):
        self.log.roll()

    @rule()
    def flush(self):
        assert self.log.flush() == self.oracle.log_end_offset
        assert self.log.durable_offset == self.oracle.log_end_offset

    @rule(fraction=st.floats(0, 1.1))
    def truncate(self, fraction: float):
        offset = self._offset_at(fraction)
        note(f"truncate to {offset}")
        first_base = self.log.segments()[0].base_offset
        if offset < first_base:
            self.oracle.truncate_fully_and_start_at(offset)
            assert self.log.truncate_to(offset)
        else:
            assert self.log.truncate_to(offset) == self.oracle.truncate_to(offset)

    @precondition(lambda self: self.oracle.log_end_offset > 0)
    @rule(offset=st.integers(0, 3000))
    def truncate_fully(self, offset: int):
        self.log.truncate_fully_and_start_at(offset)
        self.oracle.truncate_fully_and_start_at(offset)

    @rule(fraction=st.floats(0, 1))
    def delete_records(self, fraction: float):
        offset = self._offset_at(fraction)
        note(f"delete records below {offset}")
        assert self.log.delete_records(offset) == self.oracle.delete_records(offset)

    # ---- stops -----------------------------------------------------------------------------------

    @rule()
    def reopen(self):
        self.log.close()
        self._open(self.path)
        assert self.log.report.clean, str(self.log.report)

    @rule()
    def reopen_after_a_kill(self):
        """The bytes as a killed process leaves them: a copy taken while the log is open."""
        self.log._background.wait_until_idle()  # a copy is no snapshot: no file may go meanwhile
        self.copies += 1
        copy = self.folder / str(self.copies) / "topic-0"
        shutil.copytree(self.path, copy)
        self.log.close_quietly()
        was_changed = not (copy / CLEAN_SHUTDOWN_MARKER).exists()
        self._open(copy)
        assert self.log.report.clean != was_changed
        if was_changed:  # the recovery point, which is never below the start, until a rewrite
            known = max(self.log.recovery_point, self.log.log_start_offset)
            assert self.log.durable_offset == known

    def _open(self, path: Path):
        self.path = path
        before = self.oracle.log_end_offset
        self.log = segstore.open(path, segment_ms=None, **self.settings)
        end = self.log.log_end_offset
        assert max(self.oracle.data_end, self.oracle.log_start_offset) <= end <= before
        self.oracle.log_end_offset = end

    # ---- what must always hold -------------------------------------------------------------------

    @rule(fraction=st.floats(0, 1), max_bytes=st.integers(0, 2000))
    def fetch(self, fraction: float, max_bytes: int):
        offset = self._offset_at(fraction)
        fetched = self.log.read(offset, max_bytes)
        found = [as_oracle(record) for record in fetched]
        expected = self.oracle.records(offset)
        assert found == expected[: len(found)]
        assert found or not expected or self._only_gap_before(offset, expected)

    def _only_gap_before(self, offset: int, expected: list[OracleRecord]) -> bool:
        """A fetch from inside a gap may serve a batch whose visible records are none."""
        return expected[0].offset > offset

    @rule(one=st.floats(0, 1), other=st.floats(0, 1))
    def scan_a_range(self, one: float, other: float):
        start, end = sorted([self._offset_at(one), self._offset_at(other)])
        scan = self.log.scan(start, end)
        expected = self.oracle.records(start, end)
        assert [as_oracle(record) for record in scan] == expected
        assert scan.tuples() == [tuple(record) for record in expected]
        assert scan.count() == len(expected)

    @rule(timestamp=TIMESTAMPS)
    def look_up_a_timestamp(self, timestamp: int):
        found = self.log.offset_for_timestamp(timestamp)
        assert found == self.oracle.offset_for_timestamp(timestamp)

    @rule()
    def read_beside_the_writer(self):
        """Another handle, read-only, sees the same log [DUR-71]."""
        with segstore.open(self.path, read_only=True) as reader:
            assert reader.log_start_offset == self.oracle.log_start_offset
            assert [as_oracle(record) for record in reader] == self.oracle.records()

    @rule()
    def verify(self):
        report = self.log.verify()
        assert report.ok, str(report)

    @invariant()
    def offsets_agree(self):
        if hasattr(self, "log"):
            assert self.log.log_start_offset == self.oracle.log_start_offset
            assert self.log.log_end_offset == self.oracle.log_end_offset
            assert self.log.durable_offset <= self.log.log_end_offset
            assert self.log.recovery_point <= self.log.durable_offset

    @rule()
    def everything_is_there(self):
        assert [as_oracle(record) for record in self.log] == self.oracle.records()

    def _offset_at(self, fraction: float) -> int:
        start, end = self.oracle.log_start_offset, self.oracle.log_end_offset
        return start + int((end - start) * fraction)


def as_oracle(record: segstore.Record) -> OracleRecord:
    return OracleRecord(record.offset, record.timestamp, record.key, record.value)


TestUnifiedLog = pytest.mark.filterwarnings("ignore::ResourceWarning")(UnifiedLogMachine.TestCase)
TestUnifiedLog.settings = settings(
    max_examples=int(__import__("os").environ.get("N", 50)), stateful_step_count=30, deadline=None
)
