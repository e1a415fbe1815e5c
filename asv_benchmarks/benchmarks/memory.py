"""Peak memory of what must not grow with the log; the setup holds one pool of batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import segstore

from .common import CLEAN_SHUTDOWN_MARKER, PROFILE, RECOVERY_POINT_CHECKPOINT, ScratchDirectory

if TYPE_CHECKING:
    from collections.abc import Iterator

VALUE = bytes(1000)
RECORDS_IN_A_BATCH = 1000
BATCHES = max(1, PROFILE.log_bytes // (RECORDS_IN_A_BATCH * len(VALUE)))


class PeakMemory(ScratchDirectory):
    """Bytes of the process at most: ``peakmem_open`` is what the others begin with."""

    def setup(self) -> None:
        self.make_scratch()
        self.directory = self.path / "bench-0"
        pool = [(None, VALUE)] * RECORDS_IN_A_BATCH
        with segstore.open(self.directory, durability="none") as log:
            for _ in range(BATCHES):
                log.append(pool)
            self.end = log.log_end_offset

    def peakmem_open(self) -> None:
        with segstore.open(self.directory, read_only=True) as log:
            assert log.log_end_offset == self.end

    def peakmem_recovery(self) -> None:
        for name in (CLEAN_SHUTDOWN_MARKER, RECOVERY_POINT_CHECKPOINT):
            (self.directory / name).unlink(missing_ok=True)
        with segstore.open(self.directory, durability="none") as log:
            assert log.log_end_offset == self.end

    def peakmem_records(self) -> None:
        with segstore.open(self.directory, read_only=True) as log:
            assert sum(1 for _ in log) == self.end

    def peakmem_arrow_batches(self) -> None:
        with segstore.open(self.directory, read_only=True) as log:
            assert sum(batch.rows_count for batch in log.scan().arrow_batches()) == self.end

    def peakmem_append_of_an_iterator(self) -> None:
        with segstore.open(self.path / "copy-0", durability="none") as log:
            log.append(self._records())
            assert log.log_end_offset == self.end

    def _records(self) -> Iterator[tuple[None, bytes]]:
        for _ in range(self.end):
            yield None, VALUE
