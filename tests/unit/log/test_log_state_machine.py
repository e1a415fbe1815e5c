"""A log against its oracle (log_oracle.py) through any sequence of what a broker does to one.

Appends of every kind, transactions, truncations, rolls, stops, retention, high watermarks. 200
sequences in CI, 40 at home; the long profile is ``pytest --sequences 10000`` on this file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import note, settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule, run_state_machine_as_test

from tests.oracle import OracleRecord
from tests.unit.log.log_machine import SETTINGS
from tests.unit.log.log_machine_producers import ProducingMachine

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore import UnifiedLog

STEPS = 30
SHARE = st.floats(0, 1)


class LogMachine(ProducingMachine):
    """What moves the ends of the log, what changes its files, and what must always hold."""

    # ---- both ends -------------------------------------------------------------------------------

    @rule(share=st.floats(0, 1.1))
    def truncate(self, share: float):
        offset = self._offset_at(share)
        note(f"truncate to {offset}")
        first_segment = self.log.segments()[0].base_offset
        assert self.log.truncate_to(offset) == self.oracle.truncate_to(offset, first_segment)

    @precondition(lambda self: self.oracle.log_end > 0)
    @rule(offset=st.integers(0, 3000))
    def truncate_fully(self, offset: int):
        self.log.truncate_fully_and_start_at(offset)
        self.oracle.truncate_fully_and_start_at(offset)

    @rule(share=SHARE)
    def delete_records(self, share: float):
        offset = min(self._offset_at(share), self.oracle.high_watermark)
        note(f"delete records below {offset}")
        self.oracle.increment_log_start(offset)
        assert self.log.delete_records(offset) == self.oracle.log_start

    @rule()
    def delete_old_segments(self):
        expected = self._retained_from()
        note(f"retention keeps what is from {expected} on")
        self.log.delete_old_segments()
        self.oracle.increment_log_start(expected)

    def _retained_from(self) -> int:
        """Return where the log begins by retention of size and time [RET-5..RET-7]."""
        found = self.log.segments()
        ends = [one.base_offset for one in found[1:]] + [self.oracle.log_end]
        waiting = [
            (one.base_offset, end, one.size_bytes) for one, end in zip(found, ends, strict=True)
        ]
        start, config = self.oracle.log_start, self.log.config
        while len(waiting) > 1 and waiting[0][1] <= start:
            waiting.pop(0)
        surplus = sum(size for _, _, size in waiting) - config.retention_bytes
        while config.retention_bytes >= 0 and waiting and surplus >= waiting[0][2]:
            if not self._may_go(waiting):
                break
            surplus -= waiting[0][2]
            start = max(start, waiting.pop(0)[1])
        while config.retention_ms is not None and waiting and self._may_go(waiting):
            newest = self.oracle.largest_timestamp(*waiting[0][:2])
            if newest is None or self.time.now_ms - newest <= config.retention_ms:
                break
            start = max(start, waiting.pop(0)[1])
        return start

    def _may_go(self, waiting: list[tuple[int, int, int]]) -> bool:
        return self.oracle.high_watermark >= waiting[0][1] and (
            len(waiting) > 1 or waiting[0][2] > 0
        )

    @rule(milliseconds=st.sampled_from([1, 1000, 70_000, 400_000]))
    def let_time_pass(self, milliseconds: int):
        self.time.sleep(milliseconds)

    @precondition(lambda self: self.oracle.is_replicated)
    @rule(share=SHARE)
    def move_high_watermark(self, share: float):
        offset = self._offset_at(share)
        assert self.log.update_high_watermark(offset) == offset
        self.oracle.moved_high_watermark = offset

    # ---- files -----------------------------------------------------------------------------------

    @rule()
    def roll(self):
        self.log.roll()

    @rule()
    def flush(self):
        self.log.flush()

    @rule(chosen=SETTINGS)
    def update_config(self, chosen: dict[str, object]):
        self.settings = {**chosen, "durability": self.settings["durability"]}
        changes = {key: value for key, value in chosen.items() if key != "durability"}
        self.log.update_config(self.log.config.with_changes(**changes))

    @rule()
    def reopen(self):
        self._reopen(self.log.close)

    @rule()
    def reopen_after_a_kill(self):
        self._reopen(self.log.close_quietly)

    def _reopen(self, close: Callable[[], None]):
        close()
        self.log = self._open()
        self.oracle.reopen(self.log.log_end_offset)

    # ---- what must always hold -------------------------------------------------------------------

    @invariant()
    def offsets_agree(self):
        log, oracle = self.log, self.oracle
        assert log.log_start_offset == oracle.log_start
        assert log.log_end_offset == oracle.log_end
        assert log.high_watermark == oracle.high_watermark
        assert log.last_stable_offset in oracle.last_stable_offsets(oracle.high_watermark)
        assert log.recovery_point <= log.durable_offset <= log.log_end_offset

    @invariant()
    def records_agree(self):
        assert found_in(self.log.scan()) == self.oracle.records()
        self._check_committed(self.log)

    def _check_committed(self, log: UnifiedLog):
        bound = log.last_stable_offset
        committed = found_in(log.scan(isolation="read_committed"))
        assert committed == self.oracle.committed(bound)

    @invariant()
    def epochs_agree(self):
        assert self.log.latest_epoch == self.oracle.latest_epoch
        for epoch in range((self.oracle.latest_epoch or 0) + 2):
            found = self.log.end_offset_for_epoch(epoch)
            assert found == self.oracle.end_offset_for_epoch(epoch)

    @invariant()
    def producers_agree(self):
        found = {one.producer_id: one for one in self.log.active_producers()}
        for id_, known in self.oracle.producers.items():
            if not known.is_certain:
                continue
            one = found[id_]
            assert one.producer_epoch == known.epoch
            assert one.last_sequence == (known.batches[-1].last_sequence if known.batches else -1)
            start = known.transaction_start
            assert one.current_txn_start_offset == (-1 if start is None else start)

    @invariant()
    def another_handle_sees_the_same(self):
        with self._open(read_only=True) as reader:
            assert reader.log_start_offset == self.oracle.log_start
            end = reader.log_end_offset
            assert self.oracle.data_end <= end <= self.oracle.log_end
            assert found_in(reader) == self.oracle.records()
            assert reader.last_stable_offset in self.oracle.last_stable_offsets(end)
            self._check_committed(reader)

    @rule(share=SHARE, max_bytes=st.integers(0, 2000))
    def fetch(self, share: float, max_bytes: int):
        offset = self._offset_at(share)
        found = found_in(self.log.read(offset, max_bytes))
        assert found == self.oracle.records(offset)[: len(found)]
        if max_bytes == 0:
            return
        bound = self.log.last_stable_offset
        found = found_in(self.log.read(offset, max_bytes, "read_committed"))
        assert found == self.oracle.committed(bound, offset)[: len(found)]

    @rule(one=SHARE, other=SHARE)
    def scan_a_range(self, one: float, other: float):
        start, end = sorted([self._offset_at(one), self._offset_at(other)])
        assert found_in(self.log.scan(start, end)) == self.oracle.records(start, end)

    @rule(ago=st.integers(-1, 600))
    def look_up_a_timestamp(self, ago: int):
        timestamp = self.time.now_ms - ago
        found = self.log.offset_for_timestamp(timestamp)
        assert found == self.oracle.offset_for_timestamp(timestamp)

    @rule()
    def verify(self):
        report = self.log.verify()
        assert report.ok, str(report)


def found_in(records: object) -> list[OracleRecord]:
    return [OracleRecord(one.offset, one.timestamp, one.key, one.value) for one in records]


@pytest.fixture
def sequences(pytestconfig: pytest.Config, few_or_many: Callable[[int, int], int]) -> int:
    return pytestconfig.getoption("--sequences") or few_or_many(40, 200)


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_any_sequence_in_the_safe_profile(sequences: int):
    """[UNI-1..UNI-8, PSM-11..PSM-20, LSO-1..LSO-3, TRU-1..TRU-5, RET-5..RET-7]."""
    run_state_machine_as_test(
        LogMachine, settings=settings(max_examples=sequences, stateful_step_count=STEPS)
    )
