"""Making a topic of many partitions, beside the same directories and files made plainly."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import segstore

from .common import PROFILE, Cost, _Comparison, cost_of

if TYPE_CHECKING:
    from pathlib import Path

IS_SMOKE = PROFILE.rounds == 1
PARTITIONS = 10 if IS_SMOKE else 1_000
TOPIC = "bench"
BASE = "0" * 20
EMPTY = (f"{BASE}.log", f"{BASE}.index", f"{BASE}.timeindex", ".lock")
SMALL = {"partition.metadata": 43, ".segstore": 65}
"""Bytes in each."""


class MakeTopic(_Comparison):
    """Speed of ``create_topic`` over that of the same writes and syncs, in the same order."""

    timeout = 3600

    def setup(self) -> None:
        self.make_scratch()

    def ours(self) -> Cost:
        path = self.path / "ours"
        with segstore.open_dir(path) as logs:

            def make() -> float:
                logs.create_topic(TOPIC, PARTITIONS)
                return PARTITIONS

            cost = cost_of(make)
            assert len(logs.topics()[TOPIC]) == PARTITIONS
        shutil.rmtree(path)
        return cost

    def theirs(self) -> Cost:
        path = self.path / "theirs"
        path.mkdir()

        def make() -> float:
            _make_plainly(path)
            return PARTITIONS

        cost = cost_of(make)
        assert len([*path.iterdir()]) == PARTITIONS
        shutil.rmtree(path)
        return cost


def _make_plainly(path: Path) -> None:
    directories = [path / f"{TOPIC}-{number}" for number in range(PARTITIONS)]
    for directory in directories:
        directory.mkdir()
        for name in EMPTY:
            (directory / name).touch()
        for name, size in SMALL.items():
            (directory / f"{name}.tmp").write_bytes(bytes(size))
    for directory in directories:
        for name in SMALL:
            _sync(directory / f"{name}.tmp")
    for directory in directories:
        for name in SMALL:
            (directory / f"{name}.tmp").rename(directory / name)
    for directory in (*directories, path):
        _sync(directory)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
