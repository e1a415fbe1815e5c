"""An overflowed segment whose first batch too far begins where offsets still fit.

Kafka splits it. Here only batches counted as overflow that begin behind what fits: good batches
were cut as a torn tail, or refused as damage below a recovery point. A mutation run found it: no
test noticed where the first of them has to begin.
"""

from __future__ import annotations

import pytest

from segstore.log.files.partition_directory import file_name
from tests.kits.kafka_loading import close_quietly, load_as_kafka
from tests.kits.overflow_kit import MAX_INT, SETTINGS, bases, keys
from tests.kits.records_kit import build

ACROSS = [MAX_INT - 1, MAX_INT + 1]
END = MAX_INT + 6


def batch(*offsets: int) -> bytes:
    return build([(offset, 0, b"%d" % offset, b"") for offset in offsets])


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "topic-0"
    made.mkdir()
    content = batch(0) + batch(*ACROSS) + batch(END - 1)
    (made / file_name(0, "log")).write_bytes(content)
    return made


@pytest.mark.parametrize("point", [None, 0, END])
def test_it_is_split_before_that_batch(folder, new_log, point):
    """[LDR-31, LOC-25, DUR-6, DUR-51] With all records, wherever the recovery point is."""
    written = keys(folder)
    if point is not None:
        checkpoint = folder / "recovery-point-offset-checkpoint"
        checkpoint.write_text(f"0\n1\ntopic 0 {point}\n")

    log = new_log(folder)

    assert bases(folder) == [0, ACROSS[0]]
    assert keys(folder) == written
    assert (log.log_end_offset, log.report.truncated_bytes) == (END, 0)
    assert [record.key for record in log] == written
    assert log.verify().ok


def test_kafka_splits_it_there_too(folder):
    """[LDR-31, LOC-25, DUR-117]"""
    written = keys(folder)

    close_quietly(load_as_kafka(folder, clean=False, settings=SETTINGS))

    assert (bases(folder), keys(folder)) == ([0, ACROSS[0]], written)
