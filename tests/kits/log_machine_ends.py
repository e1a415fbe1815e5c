"""The state machine of a log, its third part: what moves its ends, and what its files are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from segstore.log.producer_expiration import (
    PRODUCER_ID_EXPIRATION_CHECK_INTERVAL_MS as EXPIRY_CHECK_MS,
)
from tests.kits.log_machine import RECORDS, SETTINGS, TIMES
from tests.kits.log_machine_producers import ProducingMachine

if TYPE_CHECKING:
    from tests.kits.log_machine import Data

MANY = 5
"""Batches that are there before everything is taken away."""
LARGEST_CLOCK_STEP_MS = 3_600_000
AGES = st.sampled_from([0, 60_000, 400_000])
SHARE = st.integers(0, 20).map(lambda share: share / 20)


class MovingMachine(ProducingMachine):
    """Truncation, deletion, retention, high watermarks, rolls."""

    # ---- both ends -------------------------------------------------------------------------------

    @rule(share=st.integers(0, 22).map(lambda share: share / 20))
    def truncate(self, share: float):
        self._settle_high_watermark()
        offset = self._offset_at(share)
        note(f"truncate to {offset}")
        first_segment = self.log.segments()[0].base_offset
        cut = [b for b in self.oracle.batches if b.base_offset < offset <= b.last_offset]
        self.cut_offsets.update(*(range(b.base_offset, offset) for b in cut))
        self.reach("truncate", "inside a batch" if cut else "between batches")
        expected = self.oracle.truncate_to(offset, first_segment, self.time.now_ms)
        assert self.log.truncate_to(offset) == expected

    @precondition(lambda self: len(self.oracle.batches) > MANY)
    @rule(offset=st.integers(0, 3000))
    def truncate_fully(self, offset: int):
        self.reach("truncate fully")
        self.log.truncate_fully_and_start_at(offset)
        self.oracle.truncate_fully_and_start_at(offset)

    @rule(share=SHARE)
    def delete_records(self, share: float):
        self._settle_high_watermark()
        offset = min(self._offset_at(share), self.oracle.high_watermark)
        note(f"delete records below {offset}")
        self.reach("delete records")
        self.oracle.increment_log_start(offset)
        assert self.log.delete_records(offset) == self.oracle.log_start

    @rule(share=SHARE)
    def move_log_start(self, share: float):
        """No file goes with it: retention deletes them [LST-2]."""
        self._settle_high_watermark()
        offset = min(self._offset_at(share), self.oracle.high_watermark)
        note(f"move the log start to {offset}")
        self.reach("move the log start")
        segments = len(self.log.segments())
        assert self.log.maybe_increment_log_start_offset(offset) == (offset > self.oracle.log_start)
        assert len(self.log.segments()) == segments
        self.oracle.increment_log_start(offset)

    def _settle_high_watermark(self):
        """Let the oracle know where the high watermark is, where there is more than one answer."""
        possible = self.oracle.high_watermarks()
        assert self.log.high_watermark in possible, (self.log.high_watermark, possible)
        self.oracle.moved_high_watermark = self.log.high_watermark

    @rule(later_ms=AGES)
    def delete_old_segments(self, later_ms: int):
        self.let_time_pass(later_ms)
        self._settle_high_watermark()
        expected = self._retained_from()
        note(f"retention keeps what is from {expected} on")
        self.log.delete_old_segments()
        self.oracle.increment_log_start(expected)
        assert self.log.segments()[0].base_offset <= self.oracle.log_start

    def _retained_from(self) -> int:
        """Return where the log begins by retention of size and time [RET-5..RET-7]."""
        found = self.log.segments()
        ends = [one.base_offset for one in found[1:]] + [self.oracle.log_end]
        waiting = [
            (one.base_offset, end, one.size_bytes) for one, end in zip(found, ends, strict=True)
        ]
        start, config = self.oracle.log_start, self.log.config
        self.reach("retention")
        while len(waiting) > 1 and waiting[0][1] <= start:
            self.reach("retention", "by log start")
            waiting.pop(0)
        surplus = sum(size for _, _, size in waiting) - config.retention_bytes
        while config.retention_bytes >= 0 and waiting and surplus >= waiting[0][2]:
            if not self._may_go(waiting):
                break
            self.reach("retention", "by size")
            surplus -= waiting[0][2]
            start = max(start, waiting.pop(0)[1])
        believes_clock = config.retention_ms is not None and self._believes_clock()
        while believes_clock and waiting and self._may_go(waiting):
            newest = self.oracle.largest_timestamp(*waiting[0][:2])
            if newest is None or self.time.now_ms - newest <= config.retention_ms:
                break
            self.reach("retention", "by time")
            start = max(start, waiting.pop(0)[1])
        return start

    def _believes_clock(self) -> bool:
        """Whether time may be looked at: to the log a clock that went an hour was set [DUR-28]."""
        last_ms, self.looked_at_time_ms = self.looked_at_time_ms, self.time.now_ms
        return last_ms is None or self.time.now_ms - last_ms <= LARGEST_CLOCK_STEP_MS

    def _may_go(self, waiting: list[tuple[int, int, int]]) -> bool:
        return self.oracle.high_watermark >= waiting[0][1] and (
            len(waiting) > 1 or waiting[0][2] > 0
        )

    @rule(
        records=RECORDS,
        many=st.lists(st.tuples(TIMES, AGES), min_size=2, max_size=4),
        share=st.none() | SHARE,
        later_ms=AGES,
    )
    def fill_and_let_go(
        self,
        *,
        records: list[Data],
        many: list[tuple[int, int]],
        share: float | None,
        later_ms: int,
    ):
        """Several segments, of which the log may keep few or none."""
        for times, age_ms in many:
            self.append_much(records, times)
            self.let_time_pass(age_ms)
        if self.oracle.is_replicated:
            self.move_high_watermark(1.0)
        if share is not None:
            self.move_log_start(share)
        self.delete_old_segments(later_ms)

    @rule(milliseconds=st.sampled_from([1, 1000, 70_000, 400_000]))
    def let_time_pass(self, milliseconds: int):
        began = self.time.now_ms - self.opened_ms
        self.time.sleep(milliseconds)
        if began // EXPIRY_CHECK_MS < (began + milliseconds) // EXPIRY_CHECK_MS:
            gone = self.oracle.expire_producers(self.time.now_ms)
            self.reach("look for expired producers", *(["found"] if gone else []))

    @precondition(lambda self: self.oracle.is_replicated)
    @rule(share=SHARE | st.just(1.0))
    def move_high_watermark(self, share: float):
        offset = self._offset_at(share)
        self.reach("move the high watermark")
        assert self.log.update_high_watermark(offset) == offset
        self.oracle.move_high_watermark(offset)

    # ---- files -----------------------------------------------------------------------------------

    @rule()
    def roll(self):
        self.reach("roll")
        self.log.roll()

    @rule()
    def flush(self):
        self.reach("flush")
        self.log.flush()

    @rule(chosen=SETTINGS)
    def update_config(self, chosen: dict[str, object]):
        self.reach("update the settings")
        chosen = self._possible(chosen)
        self.settings = {**chosen, "durability": self.settings["durability"]}
        changes = {key: value for key, value in chosen.items() if key != "durability"}
        self.log.update_config(self.log.config.with_changes(**changes))
