"""The state machine of a log with Kafka's profile: its own rules where safe has others [DUR-62].

Without a ``state_dir`` nothing remembers the log start, and every stop is an unclean one. With one
the log start is known, and a recovery point after each clean stop.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import initialize

from tests.kits.log_machine import PRODUCER_EXPIRATION_MS, SETTINGS
from tests.kits.log_machine_checks import LogMachine
from tests.kits.log_oracle import OracleLog

if TYPE_CHECKING:
    from tests.kits.log_oracle_producer import Transaction


@dataclass
class KafkaOracleLog(OracleLog):
    """What a broker does otherwise."""

    has_read_again: bool = False
    cut_open: set[int] = field(default_factory=set)
    """First offsets of transactions whose ends a truncation took."""
    synced: int = 0
    """What a ``state_dir`` says was synced: up to the last clean stop, or a truncation since."""

    def place_of(self, offset: int) -> int:
        """Return the base offset of the batch that is found there, for *offset* [HW-9]."""
        later = (batch.base_offset for batch in self.batches if batch.last_offset >= offset)
        return next(later, self.log_end)

    def high_watermarks(self) -> set[int]:
        """Whoever asks for its place moves it to a batch [HW-6]."""
        known = self.high_watermark
        return {known, self.place_of(known)} if self.is_replicated else {known}

    def last_stable_offsets(self, high_watermark: int) -> set[int]:
        """A transaction that begins below the log start begins where that one's batch does.

        One that was read again after a truncation is undecided until the high watermark moves,
        however low it ended [TRU-6, PSM-41].
        """
        found = super().last_stable_offsets(high_watermark)
        for one in self.transactions() if self.has_read_again else ():
            found |= {min(known, max(one.first_offset, self.log_start)) for known in found}
        start = self.place_of(self.log_start)
        return found | {start} if self.log_start in found else found

    def truncate_to(self, offset: int, first_segment: int, now_ms: int) -> bool:
        self.has_read_again = True
        self.synced = min(self.synced, offset)  # [LOC-4]
        ended = {one.first_offset for one in self.transactions() if one.end_offset is not None}
        is_cut = super().truncate_to(offset, first_segment, now_ms)
        self.cut_open |= ended & {
            one.first_offset for one in self.transactions() if one.end_offset is None
        }
        return is_cut

    def may_be_decided(self, transaction: Transaction) -> bool:
        """Nobody looks again at a truncation above the high watermark [TRU-3]."""
        return super().may_be_decided(transaction) or transaction.first_offset in self.cut_open

    def truncate_fully_and_start_at(self, offset: int) -> None:
        self.synced = min(self.synced, offset)
        super().truncate_fully_and_start_at(offset)

    def move_high_watermark(self, offset: int) -> None:
        self.has_read_again = False
        self.cut_open.clear()
        super().move_high_watermark(offset)

    def begin_at(self, log_start: int, data_end: int, recovered_from: int | None) -> None:
        """Load what a broker loads: a log that ends below its start begins anew [LDR-25].

        Recovery takes in the epochs that are newer than what is known [SEG-41].
        """
        self.log_start = log_start
        self.cut_open.clear()
        for batch in self.batches:
            if recovered_from is not None and batch.base_offset >= recovered_from:
                self.note_epoch(batch.leader_epoch, batch.base_offset)
        if data_end < log_start:
            super().truncate_fully_and_start_at(log_start)  # a load writes no checkpoint


class KafkaLogMachine(LogMachine):
    """The log as a broker's."""

    recovery = "kafka"
    reached: ClassVar[Counter[str]] = Counter()

    @initialize(chosen=SETTINGS, is_replicated=st.booleans(), has_state_dir=st.booleans())
    def open_new_log(self, *, chosen: dict[str, object], is_replicated: bool, has_state_dir: bool):
        self.has_state_dir = has_state_dir
        self.was_clean = True
        self._open_new_log(
            chosen,
            KafkaOracleLog(
                is_replicated=is_replicated, producer_expiration_ms=PRODUCER_EXPIRATION_MS
            ),
        )

    def _own_options(self) -> dict[str, object]:
        return {"state_dir": self.folder / "state" if self.has_state_dir else None}

    def _possible(self, settings: dict[str, object]) -> dict[str, object]:
        """Leave out the small index: when it is full, a broker cannot load the log any more.

        What is appended behind an open begins without an entry, which recovery makes [LDR-16].
        """
        return {**settings, "segment_index_bytes": 4096}

    def _reopen(self, bases: list[int]):
        recovered_from = None
        if not self.was_clean:
            recovered_from = max(
                base for base in bases if base <= max(self.oracle.synced, bases[0])
            )
        ends = [batch.last_offset + 1 for batch in self.oracle.batches]
        self.oracle.begin_at(
            self.oracle.log_start if self.has_state_dir else bases[0],
            max([bases[-1], *ends]),
            recovered_from,
        )
        super()._reopen(bases)
        if self.has_state_dir:
            self.oracle.cut_epochs_at_start()

    def _close(self):
        """Only a ``state_dir`` knows of a clean stop, and what was synced until then."""
        super()._close()
        self.was_clean = self.has_state_dir
        self.oracle.synced = self.oracle.log_end if self.has_state_dir else 0

    def _kill(self):
        super()._kill()
        self.was_clean = False

    def _believes_clock(self) -> bool:
        """Kafka does not look whether it was set."""
        return True

    def _points_above_the_end(self) -> bool:
        """A flush that a roll has ordered comes behind a truncation, and moves it there [FLU-5]."""
        return self.log.durable_offset == self.log.log_end_offset

    def _reader_start(self) -> int:
        """Return where a handle begins that is opened now."""
        return self.oracle.log_start if self.has_state_dir else self.log.segments()[0].base_offset
