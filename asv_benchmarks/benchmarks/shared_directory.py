"""Opening a directory that other processes may write too, beside one that is opened alone."""

from __future__ import annotations

import shutil

import segstore

from .common import PROFILE, Cost, _Comparison, cost_of

IS_SMOKE = PROFILE.rounds == 1
PARTITIONS = 8 if IS_SMOKE else 200
TOPIC = "bench"


class SharedOpen(_Comparison):
    """Speed of an open, an append to each partition and a close, shared over not shared."""

    timeout = 3600

    def setup(self) -> None:
        self.make_scratch()
        with segstore.open_dir(self.path / "logs") as logs:
            logs.create_topic(TOPIC, PARTITIONS)

    def ours(self) -> Cost:
        return self._appends(shared=True)

    def theirs(self) -> Cost:
        return self._appends(shared=False)

    def _appends(self, *, shared: bool) -> Cost:
        path = self.path / ("shared" if shared else "alone")
        shutil.copytree(self.path / "logs", path)

        def append() -> float:
            with segstore.open_dir(path, shared=shared) as logs:
                for number in range(PARTITIONS):
                    logs.append(TOPIC, [(b"k", b"v")], partition=number)
            return PARTITIONS

        cost = cost_of(append)
        with segstore.open_dir(path, read_only=True) as logs:
            assert sum(logs.log_end_offsets(TOPIC).values()) == PARTITIONS
        shutil.rmtree(path)
        return cost
