"""Maintenance passes: over many partitions in which nothing is due, and one that deletes.

The first beside an empty loop of Python over as many numbers: a pass that asked each log would take
at least that. The other beside ``os.unlink`` of the same files.
"""

from __future__ import annotations

import os
import shutil
import time

import segstore

from .common import PROFILE, Cost, _Comparison, cost_of

IS_SMOKE = PROFILE.rounds == 1
PARTITIONS = 50 if IS_SMOKE else 10_000
PASSES = 10
SEGMENTS = 50 if IS_SMOKE else 1_000
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


class DeleteSegments(_Comparison):
    """Retention that deletes `SEGMENTS` segments, until the last file is unlinked."""

    def setup(self) -> None:
        self.make_scratch()
        settings = {"durability": "none", "file_delete_delay_ms": 0, "segment_ms": None}
        with segstore.open_dir(self.path / "made", **settings) as logs:
            logs.create_topic(TOPIC, config={"retention.ms": DAY_MS})
            log = logs.log(TOPIC, 0)
            for _ in range(SEGMENTS):
                log.append([(1, None, b"v")])
                log.roll()
            log.append([(None, b"v")])
        self.settings = settings
        shutil.copytree(self.path / "made", self.path / "unlinked")

    def ours(self) -> Cost:
        directory = self.path / "deleted"
        shutil.copytree(self.path / "made", directory)
        with segstore.open_dir(directory, **self.settings) as logs:
            log = logs.log(TOPIC, 0)

            def delete() -> float:
                deleted = len(logs.maintain().deleted)
                while logs.maintain().tasks:
                    pass
                assert log._background.wait_until_idle(60)  # noqa: SLF001 - unlinking threads
                return deleted

            cost = cost_of(delete)
            assert len(log.segments()) == 1
        assert len([*directory.glob("*/*.log")]) == 1
        shutil.rmtree(directory)
        return cost

    def theirs(self) -> Cost:
        made = self.path / "made" / f"{TOPIC}-0"
        directory = self.path / "unlinked" / f"{TOPIC}-0"
        shutil.copytree(made, directory, dirs_exist_ok=True)
        segments = sorted(path.stem for path in directory.glob("*.log"))[:SEGMENTS]
        ending = {segment: [*directory.glob(f"{segment}.*")] for segment in segments}

        def unlink() -> float:
            for paths in ending.values():
                for path in paths:
                    os.unlink(path)  # noqa: PTH108 - the call itself
            return SEGMENTS

        return cost_of(unlink)
