"""A look-up beside a truncation remembers nothing of what was cut [SEG-3, SEG-14, DUR-53].

The largest timestamp of a record that was cut went into the time index and into retention, and
entries that were cut were taken for damage: the next roll read the whole segment again, under the
append lock. Looked for besides: each field that a look-up writes, in tests/c/test_segment_cuts.c,
where hooks make the interleaving; remembered headers (a version of their own); what Python keeps
of a log (`CommittedEnd`, the bounds of reads), which asks its own counter of cuts.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import segstore

if TYPE_CHECKING:
    from pathlib import Path

RECORDS = 400
KEPT = 50
ROUNDS = 12


def test_a_truncation_beside_reads_is_no_damage_of_the_index(tmp_path: Path):
    """[DUR-53] Without the counter of cuts the mark stood after the first round."""
    log = segstore.open(tmp_path / "t-0", durability="none", index_interval_bytes=0)
    has_ended = threading.Event()

    def read() -> None:
        offset = 0
        while not has_ended.is_set():
            offset = (offset + 7919) % RECORDS
            try:
                log.read(offset, 100)
                log.offset_for_timestamp(1000 + offset)
            except segstore.SegstoreError:
                continue  # it was cut

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    try:
        for _ in range(ROUNDS):
            for offset in range(log.log_end_offset, RECORDS):
                log.append([(1000 + offset, None, b"x")])
            log.truncate_to(KEPT)
            assert not log.segments()[-1].index_damaged
    finally:
        has_ended.set()
        for reader in readers:
            reader.join()
    log.close()


def test_a_largest_timestamp_that_was_cut_is_not_remembered(tmp_path: Path):
    """[SEG-3] The segment is opened each time, so that nobody has asked for it before."""
    path = tmp_path / "t-0"
    settings = {"durability": "none", "index_interval_bytes": 2**30}
    for delay in range(8):
        with segstore.open(path, **settings) as log:
            for offset in range(log.log_end_offset, RECORDS):
                log.append([(1000 + offset, None, b"x")])
            log.append([(9000, None, b"the latest")])
        with segstore.open(path, **settings) as log:
            reader = threading.Thread(target=log.segments()[-1].max_timestamp)
            reader.start()
            time.sleep(delay * 0.00005)
            log.truncate_to(RECORDS)
            reader.join()

            assert log.segments()[-1].max_timestamp() == (999 + RECORDS, RECORDS - 1, False)
