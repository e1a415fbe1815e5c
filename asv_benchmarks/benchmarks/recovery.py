"""Recovery of a page-cached segment.

Every CRC checked, both indexes rebuilt, against reading the same bytes.
"""

from __future__ import annotations

import os

import segstore.log.local.segment as segments
from segstore import LogConfig, _core
from segstore.records.compression import codec_table

from .common import ScratchDirectory, TimedAlone, speed_ratio
from .datasets import batches

READ_BYTES = 2 * 1024 * 1024


class RecoveryScan(TimedAlone, ScratchDirectory):
    """``Segment.recover`` (checks, indexes), without the header table, as an open does.

    Fraction of the speed of pread in 2 MiB pieces.
    """

    params = ([100, 1000], [16_384, 1_000_000])
    param_names = ("value_bytes", "batch_bytes")
    unit = "ratio"

    def setup(self, value_bytes: int, batch_bytes: int) -> None:
        self.make_scratch()
        directory = _core.Directory(str(self.path))
        config = LogConfig()
        self.context = _core.SegmentContext(
            directory,
            codec_table(),
            writable=True,
            index_interval_bytes=config.index_interval_bytes,
        )
        self.segment = segments.Segment(self.context, 0, create=True)
        next_offset = 0
        for batch in batches(value_bytes, batch_bytes):
            data = bytearray(batch)
            headers, _ = _core.scan_batches(data)
            next_offset = _core.validate_and_assign_offsets(
                data,
                headers,
                codec_table(),
                next_offset=next_offset,
                now_ms=0,
                leader_epoch=0,
                log_append_time=False,
                keys_required=False,
                records_are_trusted=False,
                timestamp_before_max_ms=2**63 - 1,
                timestamp_after_max_ms=2**63 - 1,
            ).next_offset
            self.segment.append(data, headers)
        self.size = self.segment.size_bytes
        self.descriptor = os.open(self.path / f"{0:020}.log", os.O_RDONLY)

    def time_recover(self, *_: object) -> None:
        self._recover()

    def track_speed_against_raw_pread(self, value_bytes: int, batch_bytes: int) -> float:
        return speed_ratio(self._recover, self._pread)

    def _recover(self) -> float:
        _, recovery = self.segment.recover(table=False)
        assert recovery.scan.valid_bytes == self.size
        return self.size

    def _pread(self) -> float:
        buffer = bytearray(READ_BYTES)
        position = 0
        while (got := os.preadv(self.descriptor, [buffer], position)) > 0:
            position += got
        return position

    def teardown(self, *parameters: object) -> None:
        self.segment.close()
        os.close(self.descriptor)
        super().teardown(*parameters)
