"""Fetches sent to a socket: a slice against the bare sendfile, and against a read and a sendall.

Another process throws everything away at the other end.
"""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys

import segstore

from .common import PROFILE, SEED, ScratchDirectory, TimedAlone, speed_ratio
from .datasets import batches

BATCH_BYTES = 16_384
THROW_AWAY = "import os\nwhile os.read(0, 1 << 20): pass"


class SendSlice(TimedAlone, ScratchDirectory):
    """``log.slice(offset, n).write_to(socket)`` at random offsets, 1 KB records in 16 KB batches.

    The bare side has looked nothing up: it sends the same bytes from known positions.
    """

    params = ([65_536, 1_048_576],)
    param_names = ("fetch_bytes",)
    unit = "ratio"

    def setup(self, fetch_bytes: int) -> None:
        self.make_scratch()
        self.fetch_bytes = fetch_bytes
        self.log = segstore.open(self.path / "bench-0", durability="none", segment_ms=None)
        for batch in batches(1000, BATCH_BYTES):
            self.log.append_as_leader(batch)
        chooser = random.Random(SEED)
        last = self.log.log_end_offset
        count = max(4, 256 * PROFILE.rounds * 65_536 // fetch_bytes)
        self.offsets = [chooser.randrange(last) for _ in range(count)]
        found = [self.log.slice(offset, fetch_bytes) for offset in self.offsets]
        self.places = [(each.position, each.size_bytes) for each in found]
        assert len(self.log.segments()) == 1
        self.descriptor = os.open(self.path / "bench-0" / f"{0:020}.log", os.O_RDONLY)
        self.near, far = socket.socketpair()
        with far:
            self.reader = subprocess.Popen([sys.executable, "-c", THROW_AWAY], stdin=far)
        for offset, (position, size) in zip(self.offsets[:20], self.places, strict=False):
            expected = os.pread(self.descriptor, size, position)  # never time a wrong answer
            assert self.log.read(offset, fetch_bytes).records == expected

    def time_slices(self, *_: object) -> None:
        self._slices()

    def track_speed_against_sendfile(self, fetch_bytes: int) -> float:
        return speed_ratio(self._slices, self._sendfile)

    def track_speed_against_read_and_sendall(self, fetch_bytes: int) -> float:
        return speed_ratio(self._slices, self._copies)

    def _slices(self) -> float:
        find, size = self.log.slice, self.fetch_bytes
        return sum(find(offset, size).write_to(self.near) for offset in self.offsets)

    def _sendfile(self) -> float:
        destination = self.near.fileno()
        sent = 0
        for position, size in self.places:
            left = size
            while left > 0:
                left -= os.sendfile(destination, self.descriptor, position + size - left, left)
            sent += size
        return sent

    def _copies(self) -> float:
        sent = 0
        for offset in self.offsets:
            records = self.log.read(offset, self.fetch_bytes).records
            self.near.sendall(records)
            sent += records.nbytes
        return sent

    def teardown(self, *parameters: object) -> None:
        self.near.close()
        self.reader.wait()
        os.close(self.descriptor)
        self.log.close()
        super().teardown(*parameters)
