"""What the safe profile and Kafka's do is the same, but for the rules that say why not [DUR-62].

Two logs, one of each profile, get the same random calls of a leader, a follower and their owner;
after each call everything that can be seen of them is compared. Left out is where the rules differ:
offsets inside a batch [HW-6, LSO-1], epochs that go back [DUR-64], and producers whose records lie
below the log start, which Kafka forgets when it recovers [PSM-58].
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from segstore._core import Environment, encode_end_transaction_marker
from segstore.errors import SegstoreError
from segstore.log.log_environment import LogEnvironment
from segstore.log.log_opener import open_partition
from segstore.log.open_options import open_options
from segstore.types import AppendOrigin
from tests.kits.log_kit import TIME, Scheduler, at, batch
from tests.kits.unified_log_kit import sequenced

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from segstore import UnifiedLog

    Call = Callable[[UnifiedLog], object]

STEPS = 60
OPERATIONS = {
    "plain": 6,
    "idempotent": 4,
    "duplicate": 2,
    "transactional": 8,
    "end": 6,
    "follower": 3,
    "high_watermark": 8,
    "truncate": 2,
    "log_start": 2,
    "retention": 2,
    "roll": 2,
    "flush": 2,
    "epoch": 1,
    "reopen": 1,
}


class Twin:
    """One of the two logs; its clock stands still, and what it does later is done at once."""

    def __init__(self, profile: str, folder: Path) -> None:
        self.profile = profile
        self.folder = folder
        self.log = self.open()

    def open(self) -> UnifiedLog:
        self.scheduler = Scheduler()
        settings = {"state_dir": self.folder / "state"} if self.profile == "kafka" else {}
        options = open_options(
            recovery=self.profile,
            durability="none",
            replicated=True,
            internal_segment_bytes=700,
            index_interval_bytes=200,
            segment_ms=None,
            **settings,
        )
        log_environment = LogEnvironment(
            environment=Environment.with_wall_clock(TIME + 5000),
            background=lambda *_: self.scheduler,
        )
        self.folder.mkdir(exist_ok=True)
        return open_partition(self.folder / "topic-0", options, log_environment)

    def reopen(self) -> None:
        """Stop cleanly, start again, and let everybody have everything."""
        self.log.flush(force_active_segment=self.profile == "kafka")
        self.log.close()
        self.log = self.open()
        self.log.update_high_watermark(self.log.log_end_offset)
        self.log.delete_old_segments()  # which the safe open has done

    def answer(self, call: Call) -> object:
        """What *call* gives, as far as it is the same for both."""
        try:
            found = call(self.log)
        except SegstoreError as error:
            return type(error)
        self.scheduler.sleep(10)
        return found[:2] if isinstance(found, tuple) else found

    def view(self) -> dict[str, object]:
        """All that can be seen without reading."""
        log = self.log
        return {
            "offsets": (log.log_start_offset, log.log_end_offset, log.high_watermark),
            "stable": (log.last_stable_offset, log.first_unstable_offset),
            "segments": [(one.base_offset, one.size_bytes) for one in log.segments()],
            "producers": sorted(log.active_producers()),
            "epochs": [log.end_offset_for_epoch(epoch) for epoch in range(9)],
            "aborted": log.collect_aborted_transactions(log.log_start_offset, log.log_end_offset),
        }

    def reads(self, first: int, last: int) -> list[object]:
        """Fetches around the log end, for each isolation."""
        found: list[object] = []
        for isolation in ("log_end", "high_watermark", "read_committed"):
            for offset in range(max(first, 0), last):
                try:
                    one = self.log.read(offset, 300, isolation)
                except SegstoreError as error:
                    found.append(type(error))
                    continue
                found.append((bytes(one.records), one.aborted_transactions))
        return found


class Script:
    """Chooses the next call by what one of the logs looks like."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.next_sequence: dict[int, int] = {}

    def next_call(self, log: UnifiedLog) -> tuple[str, Call | None]:
        """Return a name, and what to do; None = to open it again."""
        chance = self.chance
        (name,) = chance.choices(list(OPERATIONS), list(OPERATIONS.values()))
        end, epoch = log.log_end_offset, log.latest_epoch or 0
        pid, count = chance.randrange(1, 4), chance.randrange(1, 4)
        sequence = self.next_sequence.get(pid, 0)
        begins = [one.base_offset for one in log.scan().batches()]
        visible = [one for one in begins if one <= log.high_watermark]
        plain = batch([(None, bytes(chance.randrange(60)))] * count)
        marker = encode_end_transaction_marker(
            0, TIME, 0, pid, 0, commit=chance.random() < 1 / 2, coordinator_epoch=0
        )
        bound = chance.choice([*begins, end])
        cut = chance.choice([*begins[-4:], end])
        start = chance.choice([*visible, log.high_watermark])

        def lead(data: bytes) -> Call:
            return lambda log: log.append_as_leader(data, epoch)

        def truncate(log: UnifiedLog) -> bool:
            is_shorter = log.truncate_to(cut)
            log.update_high_watermark(log.high_watermark)  # Kafka tells of it with that [TRU-6]
            return is_shorter

        calls: dict[str, Call] = {
            "plain": lead(plain),
            "idempotent": lead(sequenced(pid, 0, sequence, count)),
            "duplicate": lead(sequenced(pid, 0, max(sequence - count, 0), count)),
            "transactional": lead(sequenced(pid, 0, sequence, count, transactional=True)),
            "end": lambda log: log.append_as_leader(
                marker, epoch, origin=AppendOrigin.COORDINATOR, transaction_version=0
            ),
            "follower": lambda log: log.append_as_follower(at(end, count, epoch=epoch), epoch),
            "high_watermark": lambda log: log.update_high_watermark(bound),
            "truncate": truncate,
            "log_start": lambda log: log.maybe_increment_log_start_offset(start),
            "retention": lambda log: [  # Kafka reads no times for it [RTN-12]
                one._replace(largest_timestamp=None, has_timestamp=False)
                for one in log.delete_old_segments()
            ],
            "roll": lambda log: log.roll().base_offset,
            "flush": lambda log: log.flush() >= 0,
            "epoch": lambda log: log.assign_epoch_start_offset(epoch + 1, end),
        }
        return name, calls.get(name)

    def note(self, log: UnifiedLog) -> None:
        """Go on with the sequences that the log expects."""
        self.next_sequence = {
            one.producer_id: one.last_sequence + 1 for one in log.active_producers()
        }


@pytest.mark.parametrize("seed", range(12))
def test_two_profiles_one_behaviour(tmp_path, seed):
    """[APP-*, HW-*, LSO-*, LST-*, TRU-*, RET-*, RD-1, LOC-9, DUR-62]"""
    twins = [Twin(profile, tmp_path / profile) for profile in ("safe", "kafka")]
    safe, kafka = twins
    script = Script(seed)
    names = []
    try:
        for _ in range(STEPS):
            end = safe.log.log_end_offset
            name, call = script.next_call(safe.log)
            names.append(name)
            if call is None:
                for twin in twins:
                    twin.reopen()
            else:
                assert safe.answer(call) == kafka.answer(call), names
            script.note(safe.log)
            assert safe.view() == kafka.view(), names
            assert safe.reads(end - 6, end + 4) == kafka.reads(end - 6, end + 4), names
    finally:
        for twin in twins:
            twin.log.close_quietly()
