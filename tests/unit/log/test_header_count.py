"""Counting by headers: what a scan of the records says, without reading them."""

from __future__ import annotations

import itertools
import json
import random

import pytest

import segstore
from segstore.errors import CorruptLogError, CorruptRecordError
from tests.interop.golden_case import whole_partitions
from tests.kits.log_kit import TIME, at


def logs_of(golden):
    """Golden logs as a broker left them; each path once.

    A header does not tell that a record is left out because it does not follow the one before.
    A log in which Kafka's own consumer met an error has no count of records.
    """
    out_of_order = {one.directory for one in whole_partitions(golden) if one.hidden_offsets}
    for path in sorted(golden.glob("*/data/*-[0-9]*")):
        case = json.loads((path.parents[1] / "case.json").read_text())
        is_readable = path.name not in case.get("consumer_errors", {})
        if is_readable and path not in out_of_order and any(path.glob("*.log")):
            yield path


@pytest.mark.parametrize("isolation", ["log_end", "read_committed"])
def test_golden_logs_count_as_their_records_do(golden, check_compared, isolation):
    """Gaps, markers, aborted transactions, compaction, all codecs and magics, ends inside batches.

    The oracle is the scan of every record.
    """
    chance = random.Random(7)
    wrong, ranges_count = [], 0
    for path in logs_of(golden):
        with segstore.open(path, read_only=True) as log:
            start, end = log.log_start_offset, log.log_end_offset
            bounds = [sorted(chance.choices(range(start, end + 1), k=2)) for _ in range(3)]
            for first, behind in [(start, end), *bounds]:
                scan = log.scan(first, behind, isolation=isolation)
                ranges_count += 1
                if scan.count(by_headers=True) != scan.count():
                    wrong.append((path, first, behind))

    assert wrong == []
    check_compared(ranges_count, at_least=101)


def test_every_range_of_a_log_with_gaps(new_log):
    """Batches with gaps inside and between them are opened only where a range cuts them."""
    log = new_log(replicated=True)
    for base, count in ((0, 3), (7, 1), (8, 5), (40, 2)):
        log.append_as_follower(at(base, count), 0)
    kept = [0, 1, 2, 7, 8, 9, 10, 11, 12, 40, 41]

    for first, behind in itertools.combinations(range(43), 2):
        expected = sum(first <= offset < behind for offset in kept)
        assert log.scan(first, behind).count(by_headers=True) == expected


def test_no_record_is_read(new_log, tmp_path):
    """A changed byte of a record is not noticed, one of a header's length is."""
    log = new_log()
    for number in range(4):
        log.append([(TIME, b"k", bytes(1000))] * (number + 1))
    size = log.segments()[0].size_bytes
    log.close()
    file = tmp_path / "topic-0" / f"{0:020d}.log"
    data = bytearray(file.read_bytes())
    data[500] ^= 1
    file.write_bytes(data)
    again = new_log(read_only=True)

    assert again.scan().count(by_headers=True) == 10
    with pytest.raises(CorruptRecordError):
        again.scan().count()
    tables = list(again.scan().headers())
    assert [len(headers) for _, headers in tables] == [4]
    assert tables[0][1]["records_count"].tolist() == [1, 2, 3, 4]
    assert int(tables[0][1]["size_bytes"].sum()) == size

    data[8:12] = (10**6).to_bytes(4)
    file.write_bytes(data)
    with pytest.raises((CorruptLogError, CorruptRecordError)) as damage:
        again.scan().count(by_headers=True)
    assert damage.value.file == str(file)


def test_a_header_that_cannot_be_true_is_not_believed(new_log, tmp_path):
    """[DUR-85] A count of more records than the batch has offsets: it is opened."""
    log = new_log()
    log.append([(TIME, b"k", b"v")] * 3)
    log.close()
    file = tmp_path / "topic-0" / f"{0:020d}.log"
    data = bytearray(file.read_bytes())
    data[57:61] = (4000).to_bytes(4)
    file.write_bytes(data)

    with pytest.raises(CorruptRecordError):
        new_log(read_only=True).scan().count(by_headers=True)


def test_a_range_of_timestamps_is_counted_by_its_records(new_log):
    log = new_log()
    log.append([(TIME + n, b"k", b"v") for n in range(10)])

    scan = log.scan(start_timestamp=TIME + 3, end_timestamp=TIME + 5)
    assert scan.count(by_headers=True) == scan.count() == 2
