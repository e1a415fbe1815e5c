"""The job `compact` on two cores, against one log after the other in one process."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import segstore

from .clean import fill
from .common import PROFILE, cost_of, touch_memory
from .spark_process import IS_SMOKE, _SparkComparison, spark_process

if TYPE_CHECKING:
    from pathlib import Path

    from .common import Cost

PARTITIONS = 2 if IS_SMOKE else 64
BYTES_OF_A_PARTITION = PROFILE.log_bytes // 2
CONFIG = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": str(BYTES_OF_A_PARTITION // 4),
    "segment.ms": str(2**62),
}


class SparkCompact(_SparkComparison):
    """``jobs.compact`` over 64 partitions with ``local[2]``, against ``log.compact()`` of each.

    Half of the records stay. Session and Python workers are there before a round. A round works on
    a copy that was synced; both sides open and close each log. With values of 1 KB the disk is what
    both wait for: two processes without Spark are 1.3 to 1.6 times as fast as one there.
    """

    params = ([100, 1000],)
    param_names = ("value_bytes",)

    def setup(self, value_bytes: int) -> None:
        self.make_scratch()
        self.spark = spark_process()
        self.made = self.path / "made"
        with segstore.open_dir(self.made, durability="none") as logs:
            logs.create_topic("accounts", PARTITIONS, config=CONFIG)
            for number in range(PARTITIONS):
                fill(logs.log("accounts", number), value_bytes, 50, BYTES_OF_A_PARTITION)

    def ours(self) -> Cost:
        return self.spark.cost(PARTITIONS, "compact", path=str(self._copy("ours")))

    def theirs(self) -> Cost:
        path = self._copy("theirs")

        def compact() -> float:
            for number in range(PARTITIONS):
                with segstore.open(path / f"accounts-{number}") as log:
                    assert log.compact()
            return PARTITIONS

        return cost_of(compact)

    def _copy(self, name: str) -> Path:
        directory = self.path / name
        shutil.rmtree(directory, ignore_errors=True)
        shutil.copytree(self.made, directory)
        os.sync()
        touch_memory(PARTITIONS * BYTES_OF_A_PARTITION)
        return directory
