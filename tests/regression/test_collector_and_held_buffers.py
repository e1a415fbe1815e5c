"""A read that failed half-way leaves its iterator in a cycle; collecting that crashed."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

import segstore

BATCHES = 5
READERS = {
    "iterate": "for record in log: print(record.offset)",
    "tuples": "log.scan().tuples()",
    "arrow": "list(log.scan().arrow_batches())",
    "batches": "[list(batch) for batch in log.scan().batches()]",
    "time": "log.offset_for_timestamp(1)",
    "fetch": "list(log.read(0, 10**6))",
}


@pytest.fixture
def damaged_log(tmp_path):
    path = tmp_path / "topic-0"
    with segstore.open(path) as log:
        for i in range(BATCHES):
            log.append([(b"k%d" % i, b"v" * 50)], timestamp=1000 * i)
        position = log.segments()[0].translate_offset(2).position
    file = path / "00000000000000000000.log"
    data = bytearray(file.read_bytes())
    data[position + 16] = 127  # the magic of the third batch
    file.write_bytes(data)
    return path


@pytest.mark.parametrize("reader", READERS)
def test_the_process_survives_a_collection_after_a_failed_read(damaged_log, reader):
    program = f"""
import gc, sys
import segstore
log = segstore.open(sys.argv[1], read_only=True)
for _ in range(2):
    try:
        {READERS[reader]}
    except segstore.SegstoreError as error:
        print(error)
    gc.collect()
"""
    result = subprocess.run(
        [sys.executable, "-c", program, str(damaged_log)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert (result.returncode, result.stderr) == (0, "")


def test_the_process_survives_an_iterator_over_a_view_in_a_cycle():
    """The records of one batch, as the engine reads those of control batches."""
    program = """
import gc
from segstore import _core
from segstore.records.compression import codec_table
data = _core.encode_records([(b"k", b"v")] * 3, _core.BatchOptions(), codec_table(), 1, 1000)
for _ in range(3):
    view = memoryview(bytes(data))
    records = _core.iterate_raw_records(view, codec_table())
    next(records)
    cycle = [view, records]
    cycle.append(cycle)
    del view, records, cycle
    gc.collect()
"""
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60
    )

    assert (result.returncode, result.stderr) == (0, "")


def test_what_a_dropped_iterator_read_from_is_given_back():
    """Held until the iterator goes, and no longer."""
    from segstore import _core
    from segstore.records.compression import codec_table

    data = bytearray(
        _core.encode_records([(b"k", b"v")], _core.BatchOptions(), codec_table(), 1, 1000)
    )
    iterator = _core.iterate_records(data, codec_table())
    with pytest.raises(BufferError):
        data.append(0)
    del iterator
    gc.collect()
    data.append(0)
