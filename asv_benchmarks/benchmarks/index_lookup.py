"""Offset look-ups in an index file, against numpy.searchsorted on the same offsets."""

from __future__ import annotations

import random
import struct

import numpy as np

from segstore import _core

from .common import PROFILE, SEED, ScratchDirectory, TimedAlone, speed_ratio


class OffsetIndexLookup(TimedAlone, ScratchDirectory):
    """Single look-ups from Python.

    ``tail`` stays in the 8 KiB warm section; ``uniform`` does not.
    """

    params = ([1_000, 262_144, 1_310_720], ["tail", "uniform"])
    param_names = ("entries", "access")
    unit = "ratio"

    def setup(self, entries: int, access: str) -> None:
        self.make_scratch()
        name = f"{0:020}.index"
        (self.path / name).write_bytes(
            b"".join(struct.pack(">ii", 10 * i, i * 1024 % 2**31) for i in range(entries))
        )
        self.directory = _core.Directory(str(self.path))
        self.index = _core.OffsetIndex(self.directory, name, 0)
        self.offsets = np.arange(0, 10 * entries, 10, dtype=np.int64)
        first = max(0, entries - 1_000) if access == "tail" else 0
        chooser = random.Random(SEED)
        self.targets = [10 * chooser.randrange(first, entries) + 5 for _ in range(PROFILE.lookups)]
        for target in self.targets[:100]:  # never time a wrong answer
            assert self.index.lookup(target).offset == target - 5

    def time_look_up(self, *_: object) -> None:
        self._look_up()

    def track_speed_against_searchsorted(self, entries: int, access: str) -> float:
        return speed_ratio(self._look_up, self._search_sorted)

    def _look_up(self) -> float:
        lookup = self.index.lookup
        for target in self.targets:
            lookup(target)
        return len(self.targets)

    def _search_sorted(self) -> float:
        search, offsets = np.searchsorted, self.offsets
        for target in self.targets:
            search(offsets, target, "right")
        return len(self.targets)

    def teardown(self, *parameters: object) -> None:
        self.index.close()
        self.directory.close()
        super().teardown(*parameters)
