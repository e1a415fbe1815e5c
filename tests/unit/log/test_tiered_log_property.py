"""A tiered log against a model of it, through any sequence of what moves its two beginnings."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

import segstore
from segstore.errors import OffsetOutOfRangeError
from tests.kits.log_kit import TIME, singleton
from tests.kits.remote_kit import TIERED, RemoteRecords

if TYPE_CHECKING:
    from collections.abc import Callable

SIZE = len(singleton(b"%08d" % 0))
PARTS = st.integers(0, 100)
"""Of a range, in percent."""


class TieredLogMachine(RuleBasedStateMachine):
    """One log of small segments, what was uploaded of it, and what it must still have."""

    @initialize(replicated=st.booleans(), local_segments=st.integers(0, 2))
    def open_new_log(self, replicated: bool, local_segments: int):  # noqa: FBT001 - drawn
        self.folder = Path(tempfile.mkdtemp(prefix="segstore-property-"))
        self.replicated = replicated
        self.local_bytes = local_segments * 3 * SIZE
        self.config = segstore.LogConfig(
            internal_segment_bytes=3 * SIZE,
            segment_ms=None,
            retention_ms=None,
            local_retention_bytes=self.local_bytes,
            file_delete_delay_ms=0,
            **TIERED,
        )
        self.values: dict[int, bytes] = {}
        self.log_start = self.local_start = self.end = self.count = 0
        self.uploaded = -1
        self.open()

    def open(self):
        self.log = segstore.open(
            self.folder / "topic-0",
            config=self.config,
            durability="none",
            replicated=self.replicated,
            remote_log_reader=RemoteRecords(),
        )

    def teardown(self):
        if hasattr(self, "log"):
            self.log.close()
            shutil.rmtree(self.folder)

    def at(self, part: int, low: int, high: int) -> int:
        return low + (max(high, low) - low) * part // 100

    # ---- what happens ----------------------------------------------------------------------------

    @rule(count=st.integers(1, 20))
    def append(self, count: int):
        for _ in range(count):
            value = b"%08d" % self.count
            self.log.append_as_leader(singleton(value, timestamp=TIME + self.count))
            self.values[self.end] = value
            self.end += 1
            self.count += 1
        if self.replicated:
            self.log.update_high_watermark(self.log.log_end_offset)

    @rule()
    def roll(self):
        self.log.roll()

    @rule(part=PARTS)
    def upload(self, part: int):
        """Up to the last stable offset, as Kafka's copier does it."""
        self.uploaded = max(self.uploaded, self.at(part, -1, self.log.last_stable_offset - 1))
        self.log.update_highest_offset_in_remote_storage(self.uploaded)

    @rule()
    def delete_old_segments(self):
        """What goes was uploaded, or lies below the log start, which moves where nothing is."""
        before = self.log.segments()[0].base_offset
        self.log.delete_old_segments()
        first = self.log.segments()[0].base_offset
        if first == before:
            return
        if self.config.remote_log_copy_disable:
            self.raise_log_start(first)
        else:
            assert first <= max(self.uploaded + 1, self.log_start)
            self.local_start = max(self.local_start, first)

    @rule(part=PARTS)
    def delete_records(self, part: int):
        offset = self.at(part, self.log_start, self.log.high_watermark)
        self.log.delete_records(offset)
        self.raise_log_start(offset)

    @rule(part=PARTS)
    def expire_remote_records(self, part: int):
        offset = self.at(part, 0, self.log.high_watermark)
        assert self.log.update_log_start_offset_from_remote_tier(offset) == (
            offset > self.log_start
        )
        self.raise_log_start(offset)

    @rule(part=PARTS)
    def give_up_local_records(self, part: int):
        offset = self.at(part, 0, self.log.high_watermark)
        self.log.maybe_increment_local_log_start_offset(offset)
        self.local_start = max(self.local_start, offset)

    @rule(part=PARTS)
    def truncate(self, part: int):
        """Also to what is in remote storage alone, which stays the log's."""
        offset = self.at(part, self.log_start, self.end)
        if offset >= self.end:
            return
        self.log.truncate_to(offset)
        self.cut(offset)

    @rule(part=PARTS, gap=st.integers(0, 5))
    def truncate_fully(self, part: int, gap: int):
        """As a follower does it whose leader has the rest in remote storage."""
        offset = self.end + gap
        log_start = self.at(part, 0, offset)
        self.log.truncate_fully_and_start_at(offset, log_start)
        self.cut(0)
        self.log_start, self.local_start, self.end = log_start, offset, offset

    @rule(copies=st.booleans())
    def copy_or_not(self, copies: bool):  # noqa: FBT001 - drawn
        limit = self.local_bytes if copies else -2
        self.config = self.config.with_changes(
            remote_log_copy_disable=not copies, local_retention_bytes=limit
        )
        self.log.update_config(self.config)

    @rule()
    def leave_and_come_back(self):
        """What is remote is deleted then, and nothing counts as uploaded."""
        changes = {"remote_storage_enable": False, "remote_log_delete_on_disable": True}
        self.log.update_config(self.config.with_changes(**changes))
        assert not self.log.remote_log_enabled
        self.raise_log_start(min(self.local_start, self.log.high_watermark))
        self.log.update_config(self.config)
        self.uploaded = -1
        self.begin_again()

    @rule(is_clean=st.booleans(), forgets_remote=st.booleans())
    def open_again(self, is_clean: bool, forgets_remote: bool):  # noqa: FBT001 - drawn
        """Also once as an ordinary log in between, which gives nothing up [DUR-26]."""
        self.log.close() if is_clean else self.log.close_quietly()
        if forgets_remote:
            with segstore.open(
                self.folder / "topic-0",
                durability="none",
                replicated=self.replicated,
                retention_ms=None,
            ) as log:
                assert log.log_start_offset == self.log_start
                assert len(log.delete_old_segments()) == 0
        self.open()
        self.uploaded = -1
        self.end = max(self.end, self.log.log_end_offset)
        self.begin_again()
        if self.replicated:
            assert self.log.high_watermark == self.local_start
            self.log.update_high_watermark(self.end)

    # ---- what must be so then --------------------------------------------------------------------

    def raise_log_start(self, offset: int):
        self.log_start = max(self.log_start, offset)
        self.local_start = max(self.local_start, offset)

    def cut(self, offset: int):
        self.values = {at: value for at, value in self.values.items() if at < offset}
        self.end = offset
        self.local_start = min(self.local_start, offset)
        self.uploaded = min(self.uploaded, self.log.highest_offset_in_remote_storage)

    def begin_again(self):
        first = self.log.segments()[0].base_offset
        self.local_start = max(self.log_start, first)

    @invariant()
    def beginnings_and_ends_are_in_order(self):
        """[LST-5, UNI-2]"""
        log = self.log
        assert log.log_start_offset == self.log_start
        assert log.local_log_start_offset == self.local_start
        assert log.log_start_offset <= log.local_log_start_offset
        assert log.segments()[0].base_offset <= log.local_log_start_offset
        assert log.last_stable_offset <= log.high_watermark <= log.log_end_offset == self.end
        assert log.log_start_offset <= log.high_watermark
        assert log.recovery_point <= log.log_end_offset
        assert log.highest_offset_in_remote_storage == self.uploaded

    @invariant()
    def what_is_here_can_be_read(self):
        """[RD-1, RD-2, LST-7] every record from the first segment on, and none below it."""
        log = self.log
        first = max(self.log_start, log.segments()[0].base_offset)
        expected = {at: value for at, value in self.values.items() if at >= first}
        assert {record.offset: record.value for record in log.scan(first)} == expected
        if first > self.log_start:
            with pytest.raises(OffsetOutOfRangeError):
                log.read(first - 1, 100)
        only_local = [one for one in log.segments() if one.base_offset > self.uploaded]
        assert log.only_local_log_segments_count == len(only_local)
        assert log.only_local_log_segments_size == sum(one.size_bytes for one in only_local)
        for special, offset in ((-2, self.log_start), (-4, self.local_start), (-5, self.uploaded)):
            assert log.fetch_offset_by_timestamp(special).offset == offset


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_any_sequence(few_or_many: Callable[[int, int], int]):
    """[LST-1..LST-7, RET-2..RET-8, TRU-3, TRU-4, LDR-9]"""
    run_state_machine_as_test(
        TieredLogMachine,
        settings=settings(max_examples=few_or_many(40, 200), stateful_step_count=25),
    )
