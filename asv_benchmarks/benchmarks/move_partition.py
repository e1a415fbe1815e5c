"""Moving a partition to another log directory, beside a copy of its files that is synced too."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import segstore

from .common import PROFILE, Cost, _Comparison, cost_of

if TYPE_CHECKING:
    from pathlib import Path

IS_SMOKE = PROFILE.rounds == 1
MIB = 2**20
LOG_MIB = 8 if IS_SMOKE else 512
TOPIC = "bench"


class MovePartition(_Comparison):
    """Speed of ``move_partition`` over that of ``shutil.copytree`` and a sync of each file."""

    timeout = 3600

    def setup(self) -> None:
        self.make_scratch()
        self.settings = {"durability": "none", "segment_bytes": 64 * MIB}
        records = [(None, os.urandom(16_000)) for _ in range(MIB // 16_000)]
        with segstore.open_dir(self.path / "made", **self.settings) as logs:
            logs.create_topic(TOPIC)
            for _ in range(LOG_MIB):
                logs.log(TOPIC, 0).append(records)

    def ours(self) -> Cost:
        paths = [self.path / "from", self.path / "to"]
        shutil.copytree(self.path / "made", paths[0])
        with segstore.open_dir(paths, **self.settings) as logs:
            end = logs.log(TOPIC, 0).log_end_offset

            def move() -> float:
                logs.move_partition(TOPIC, 0, paths[1])
                return LOG_MIB

            cost = cost_of(move)
            assert logs.log(TOPIC, 0).log_end_offset == end
        for path in paths:
            shutil.rmtree(path)
        return cost

    def theirs(self) -> Cost:
        source, target = self.path / "made" / f"{TOPIC}-0", self.path / "copied"

        def copy() -> float:
            shutil.copytree(source, target)
            for path in target.iterdir():
                _sync(path)
            _sync(target)
            return LOG_MIB

        cost = cost_of(copy)
        shutil.rmtree(target)
        return cost


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
