"""Opening and closing a log directory of many partitions, beside one of 500, and beside Kafka.

A partition of many costs what one of 500 does: the ratios are near 1 as long as nothing is
quadratic.
"""

from __future__ import annotations

import shutil

import segstore

from .common import PROFILE, Cost, _Comparison, cost_of
from .kafka_peer import kafka_log

IS_SMOKE = PROFILE.rounds == 1
FEW = 10 if IS_SMOKE else 500
MANY = 30 if IS_SMOKE else 5_000
TOPIC = "bench"


class _ManyPartitions(_Comparison):
    """Speed for a partition of `MANY` over that of `FEW`."""

    timeout = 3600

    def setup(self) -> None:
        self.make_scratch()
        for count in (FEW, MANY):
            with segstore.open_dir(self.path / str(count), durability="none") as manager:
                manager.create_topic(TOPIC, count)
                for number in range(count):
                    manager.log(TOPIC, number).append([(None, b"v")])

    def ours(self) -> Cost:
        return self._cost(MANY)

    def theirs(self) -> Cost:
        return self._cost(FEW)

    def _cost(self, count: int) -> Cost:
        raise NotImplementedError

    def _open(self, count: int, *, read_only: bool = False) -> segstore.LogManager:
        manager = segstore.open_dir(self.path / str(count), durability="none", read_only=read_only)
        for number in range(count):
            assert manager.log(TOPIC, number).log_end_offset > 0
        return manager


class OpenManyPartitions(_ManyPartitions):
    """``open_dir``, and each log of it once."""

    def _cost(self, count: int) -> Cost:
        opened: list[segstore.LogManager] = []

        def open_all() -> float:
            opened.append(self._open(count))
            return count

        def close_all() -> None:
            opened[0].close()

        return cost_of(open_all, after=close_all)


class ReadManyPartitions(_ManyPartitions):
    """The same of a manager that is read only."""

    def _cost(self, count: int) -> Cost:
        def open_all() -> float:
            self._open(count, read_only=True).close()
            return count

        return cost_of(open_all)


class CloseManyPartitions(_ManyPartitions):
    """``close`` behind an append to each partition."""

    def _cost(self, count: int) -> Cost:
        manager = self._open(count)
        for number in range(count):
            manager.log(TOPIC, number).append([(None, b"v")])

        def close() -> float:
            manager.close()
            return count

        return cost_of(close)


class AppendBesideManyPartitions(_ManyPartitions):
    """``LogManager.append`` to one topic: it lists no directory that did not change."""

    def _cost(self, count: int) -> Cost:
        appends = 10 if IS_SMOKE else 2_000
        with segstore.open_dir(self.path / str(count), durability="none") as manager:
            manager.append(TOPIC, [(b"k", b"v")])

            def append() -> float:
                for _ in range(appends):
                    manager.append(TOPIC, [(b"k", b"v")])
                return appends

            return cost_of(append)


class _BesideLogManager(_Comparison):
    """Against ``LogManager.startup`` with two threads, over a copy of a directory of `MANY`.

    Each partition has one segment; the last stop of both was clean.
    """

    timeout = 3600

    def setup(self) -> None:
        self.make_scratch()
        with segstore.open_dir(self.path / "ours", durability="none") as manager:
            manager.create_topic(TOPIC, MANY)
            for number in range(MANY):
                manager.log(TOPIC, number).append([(None, b"v")])
        shutil.copytree(self.path / "ours", self.path / "theirs")

    def theirs(self) -> Cost:
        return kafka_log().cost("start", self.path / "theirs", 2)

    def _open(self) -> segstore.LogManager:
        return segstore.open_dir(self.path / "ours", durability="none")


class StartManyPartitions(_BesideLogManager):
    """``open_dir``, until each partition has answered where it ends, by ``log_end_offsets``.

    Kafka opens each log for that; we open none. `OpenEachOfManyPartitions` has the opens.
    """

    def ours(self) -> Cost:
        opened: list[segstore.LogManager] = []

        def start() -> float:
            manager = self._open()
            opened.append(manager)
            assert manager.log_end_offsets(TOPIC) == dict.fromkeys(range(MANY), 1)
            return MANY

        cost = cost_of(start)
        (manager,) = opened
        assert f'topic="{TOPIC}"' not in manager.stats().prometheus_text()  # no log is open
        manager.close()
        return cost


class OpenEachOfManyPartitions(_BesideLogManager):
    """``open_dir``, and a handle to append to for each partition: what Kafka's start gives."""

    def ours(self) -> Cost:
        opened: list[segstore.LogManager] = []

        def start() -> float:
            manager = self._open()
            opened.append(manager)
            for number in range(MANY):
                assert manager.log(TOPIC, number).log_end_offset == 1
            return MANY

        cost = cost_of(start)
        (manager,) = opened
        assert all(manager.log(TOPIC, number).report.clean for number in range(MANY))
        manager.close()
        return cost


class RegisterManyPartitions(_BesideLogManager):
    """``open_dir``, until all partitions are known by name; each log is opened at its first use."""

    def ours(self) -> Cost:
        opened: list[segstore.LogManager] = []

        def register() -> float:
            manager = self._open()
            opened.append(manager)
            return len(manager.partitions())

        cost = cost_of(register)
        opened[0].close()
        return cost
