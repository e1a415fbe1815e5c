"""A maintenance pass over a directory of many partitions in which nothing is due.

Beside an empty loop of Python over as many numbers: a pass that asked each log would take at least
that.
"""

from __future__ import annotations

import time

import segstore

from .common import PROFILE, Cost, _Comparison, cost_of

IS_SMOKE = PROFILE.rounds == 1
PARTITIONS = 50 if IS_SMOKE else 10_000
PASSES = 10
CHECK_MS = 300_000
DAY_MS = 86_400_000
TOPIC = "bench"


class _NothingDue(_Comparison):
    """Speed of a pass over that of an empty loop: at least 0.5."""

    timeout = 3600

    def setup(self) -> None:
        self.make_scratch()
        config = {"retention.ms": 7 * DAY_MS, "retention.bytes": 10**9}
        with segstore.open_dir(self.path, durability="none") as logs:
            logs.create_topic(TOPIC, PARTITIONS, config=config)
            for number in range(PARTITIONS):
                logs.log(TOPIC, number).append([(None, b"v")])

    def theirs(self) -> Cost:
        numbers = range(PARTITIONS)

        def loop() -> float:
            for _ in range(PASSES):
                for _ in numbers:
                    pass
            return PASSES

        return cost_of(loop)

    def _maintain(self, interval_ms: int) -> Cost:
        with segstore.open_dir(self.path, durability="none") as logs:
            now = time.time_ns() // 1_000_000
            for _ in range(2):  # each log is looked at when it was opened
                now += 2 * CHECK_MS
                assert logs.maintain(now).failed == ()
            base = [now]

            def maintain() -> float:
                for _ in range(PASSES):
                    base[0] += interval_ms
                    assert not logs.maintain(base[0]).deleted
                return PASSES

            return cost_of(maintain)


class MaintainTooEarly(_NothingDue):
    """``maintain`` in between: no task is due."""

    def ours(self) -> Cost:
        return self._maintain(1)


class MaintainNothingDue(_NothingDue):
    """``maintain`` when retention and checkpoints are due, and no log is."""

    def ours(self) -> Cost:
        return self._maintain(2 * CHECK_MS)
