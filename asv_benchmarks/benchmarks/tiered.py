"""Tiered buckets: scans of a folder, reads over HTTP, and the bytes that a range costs.

Run it on a machine that does nothing else::

    asv run --python=same --quick --bench 'Tiered'

Goals: `TieredFolderScan` and `TieredHttp` 0.7 at least, `TieredRange` 3 % at most.
"""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from typing import TYPE_CHECKING

import segstore
from segstore._core import scan_headers

from .common import PROFILE, Cost, ScratchDirectory, _Comparison, cost_of
from .range_server import RangeServer, range_server
from .tiered_bucket import TOPIC, TieredCopy, write_log

if TYPE_CHECKING:
    from segstore import Log

CHUNK_BYTES = 4 * 1024 * 1024 if PROFILE.rounds > 1 else 64 * 1024
"""The plug-in's usual size."""
COPIES = 4 if PROFILE.rounds > 1 else 1
"""Of the profile's log, so that an open weighs little: 256 MB in the regular profile."""
HTTP_COPIES = 16 if PROFILE.rounds > 1 else 1
"""An open of a bucket at a URL costs more: 1 GB."""
COLUMNS = ("offset", "timestamp", "key", "value")
FETCH_BYTES = 1024 * 1024
TRANSFORMS = ["none", "zstd", "aes", "zstd+aes"]


def scan(log: Log) -> int:
    """Read all records as Arrow."""
    return sum(batch.rows_count for batch in log.scan(columns=COLUMNS).arrow_batches())


class _Tiered(_Comparison):
    """A log in a local directory, and the bucket that holds the same segments."""

    def make(self, transform: str, copies: int = COPIES) -> None:
        self.make_scratch()
        self.size = write_log(self.path, segments=4, copies=copies)
        self.copy = TieredCopy(
            self.path / f"{TOPIC}-0", self.path / "bucket", CHUNK_BYTES, transform
        )
        self.spool = self.path / "spool"
        with segstore.open(self.path / f"{TOPIC}-0", read_only=True) as log:
            self.records = scan(log)

    def forget(self) -> None:
        """Empty the spool: what is measured fetches everything."""
        shutil.rmtree(self.spool, ignore_errors=True)

    def scan_of(self, url: str, **settings: str) -> float:
        bucket = segstore.open_bucket(
            url, keys=self.copy.keys, spool_directory=str(self.spool), **settings
        )
        with bucket.open(TOPIC, 0) as log:
            assert scan(log) == self.records
        return self.records

    def local_scan(self) -> float:
        with segstore.open(self.path / f"{TOPIC}-0", read_only=True) as log:
            assert scan(log) == self.records
        return self.records


class TieredFolderScan(_Tiered):
    """Records a second of a cold scan, open included, against that of the local directory.

    What decryption and decompression of the same chunks take alone is subtracted.
    """

    params = (TRANSFORMS,)
    param_names = ("transform",)

    def setup(self, transform: str) -> None:
        self.make(transform)

    def ours(self) -> Cost:
        whole = cost_of(
            lambda: self.scan_of(str(self.copy.bucket)), before=self.forget, after=self.forget
        )
        if self.copy.cipher.keys is None and not self.copy.is_compressed:
            return whole
        alone = cost_of(lambda: self.records * (self.copy.undo_alone() > 0))
        return Cost(max(whole.cpu - alone.cpu, 1e-12), max(whole.wall - alone.wall, 1e-12))

    def theirs(self) -> Cost:
        return cost_of(self.local_scan)


class TieredHttp(_Tiered):
    """Over HTTP, against a plain client that fetches the same ranges.

    ``read`` gives the stored bytes, as a fetch of a consumer does. For ``scan`` the peer also reads
    the records, from the local directory. The server is a process of its own: its CPU time is not
    counted. ``obstore`` is the library that segstore uses where its own way cannot be taken.
    """

    params = (["read", "scan"], ["http.client", "obstore"])
    param_names = ("what", "peer")

    def setup(self, what: str, peer: str) -> None:
        self.make("none", HTTP_COPIES)
        self.what, self.peer = what, peer
        self.stack = ExitStack()
        self.server: RangeServer = self.stack.enter_context(range_server(self.copy.bucket))
        self.ranges = []
        self.ours()

    def ours(self) -> Cost:
        found = cost_of(self._ours, before=self.forget, after=self.forget)
        self.ranges = self.server.asked()
        return found

    def theirs(self) -> Cost:
        found = cost_of(self._theirs)
        self.server.asked()
        return found

    def _ours(self) -> float:
        if self.what == "scan":
            return self.scan_of(self.server.url, **self.server.settings)
        bucket = segstore.open_bucket(
            self.server.url, keys={}, spool_directory=str(self.spool), **self.server.settings
        )
        with bucket.open(TOPIC, 0) as log:
            offset, got = log.log_start_offset, 0
            while offset < log.log_end_offset:
                table, scanned = scan_headers(log.read(offset, FETCH_BYTES).records)
                got += scanned.valid_bytes  # the last batch may be cut
                offset = int(table[len(table) - 1].last_offset) + 1
        assert got == self.size
        return self.records

    def _theirs(self) -> float:
        fetch = self.server.fetch if self.peer == "http.client" else self.server.fetch_with_obstore
        assert fetch(self.ranges) >= self.size
        return self.local_scan() if self.what == "scan" else self.records

    def teardown(self, *parameters: object) -> None:
        """Stop the server (called by asv)."""
        self.stack.close()
        super().teardown(*parameters)


class TieredRange(ScratchDirectory):
    """A range of 1 % of the offsets of a large partition, its open included."""

    unit = "%"
    params = (["scan", "read_committed"],)
    param_names = ("what",)
    timeout = 1200
    number, repeat, rounds, warmup_time = 1, (3, 7, 30.0), 1, 0.0

    def setup(self, what: str) -> None:
        self.make_scratch()
        copies = 16 if PROFILE.rounds > 1 else 2
        self.size = write_log(self.path, segments=8, copies=copies)
        self.copy = TieredCopy(self.path / f"{TOPIC}-0", self.path / "bucket", CHUNK_BYTES, "none")
        self.stack = ExitStack()
        self.server = self.stack.enter_context(range_server(self.copy.bucket))
        self.isolation = "read_committed" if what == "read_committed" else "read_uncommitted"

    def _read(self) -> None:
        spool = self.path / "spool"
        bucket = segstore.open_bucket(
            self.server.url, keys={}, spool_directory=str(spool), **self.server.settings
        )
        with bucket.open(TOPIC, 0) as log:
            count = log.log_end_offset // 100
            first = log.log_end_offset // 2
            found = log.scan(first, first + count, columns=COLUMNS, isolation=self.isolation)
            assert sum(batch.rows_count for batch in found.arrow_batches()) == count
        shutil.rmtree(spool)

    def time_range(self, what: str) -> None:
        self._read()

    def track_fetched_bytes(self, what: str) -> float:
        """Bytes of objects that were fetched, as a share of the partition."""
        self.server.asked()
        self._read()
        return 100 * sum(one.end - one.start for one in self.server.asked()) / self.size

    def teardown(self, *parameters: object) -> None:
        """Stop the server (called by asv)."""
        self.stack.close()
        super().teardown(*parameters)
