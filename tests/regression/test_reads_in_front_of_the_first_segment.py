"""A range that began below the first segment was read as an empty one, and nothing was said.

So it was of a log that was emptied to go on above its log start, and of a scan whose first records
were deleted between the making of the scan and its reading.
"""

from __future__ import annotations

import pytest

import segstore
from segstore.errors import LogTruncatedError, OffsetOutOfRangeError

PROFILES = ("safe", "kafka")

WAYS = {
    "rows": lambda scan: len(list(scan)),
    "tuples": lambda scan: len(scan.tuples()),
    "count": lambda scan: scan.count(),
    "by headers": lambda scan: scan.count(by_headers=True),
    "headers": lambda scan: sum(len(headers) for _, headers in scan.headers()),
    "arrow": lambda scan: scan.to_arrow().num_rows,
}


def emptied(path, profile):
    """Return a log of the offsets 200 and 201 whose readers were told to begin at 150."""
    log = segstore.open(path, recovery=profile)
    log.append([(None, b"x")] * 3)
    log.truncate_fully_and_start_at(200, 150)
    log.append([(None, b"a"), (None, b"b")])
    if profile == "kafka":
        log.update_high_watermark(202)
    return log


@pytest.mark.parametrize("profile", PROFILES)
def test_what_is_behind_the_log_start_is_read(tmp_path, profile):
    """[TRU-4, UNI-2] from the log start, and by default."""
    with emptied(tmp_path / "a-0", profile) as log:
        start = log.log_start_offset

        for scan in (log.scan(), log.scan(start), log.scan(start + 1 if start < 200 else start)):
            assert [record.value for record in scan] == [b"a", b"b"]
            found = {name: read(scan) for name, read in WAYS.items()}
            assert found == dict.fromkeys(WAYS, 2) | {"headers": 1}
            assert scan.cuts(1) == []
        assert [record.offset for record in log] == [200, 201]
        assert [record.offset for record in log.tail(start, timeout=0)] == [200, 201]
        assert [record.offset for record in log.scan(isolation="read_committed")] == [200, 201]
        assert log.scan(start, 201).count() == 1


def test_the_log_start_is_where_the_next_open_finds_it(tmp_path):
    """[TRU-4, UNI-2, LDR-9] No offset below the first segment can be read: none is promised.

    With nothing in remote storage the log starts at its first segment. Kafka's handle says what it
    was given until it is opened again, and has no answer for a fetch from there [LOC-6].
    """
    with emptied(tmp_path / "a-0", "safe") as log:
        assert log.log_start_offset == 200
        assert [record.offset for record in log.read(200, 1000)] == [200, 201]
        with pytest.raises(OffsetOutOfRangeError):
            log.read(199, 1000)
        with segstore.open(tmp_path / "a-0", read_only=True) as reader:
            assert reader.log_start_offset == 200
    with segstore.open(tmp_path / "a-0") as again:
        assert (again.report.clean, again.log_start_offset) == (True, 200)
    with emptied(tmp_path / "b-0", "kafka") as log:
        assert log.log_start_offset == 150
        with pytest.raises(OffsetOutOfRangeError, match="has 200 to 202"):
            log.read(150, 1000)
    with segstore.open(tmp_path / "b-0", recovery="kafka") as again:
        assert again.log_start_offset == 200


@pytest.mark.parametrize("way", WAYS)
def test_a_scan_whose_records_were_deleted(tmp_path, way):
    """[DUR-78] What is gone is out of range; it is not a range without records."""
    with segstore.open(tmp_path / "a-0") as log:
        for _ in range(5):
            log.append([(None, b"x")] * 10)
            log.roll()
        gone, there = log.scan(5), log.scan(25)
        log.delete_records(20)

        with pytest.raises(OffsetOutOfRangeError) as caught:
            WAYS[way](gone)
        assert (caught.value.file, caught.value.found) == (log.path, "5")
        assert caught.value.expected == "20 to 50"
        assert WAYS[way](there) == {"headers": 3}.get(way, 25)
        with pytest.raises(OffsetOutOfRangeError):
            gone.cuts(100)
        log.truncate_fully_and_start_at(100)
        with pytest.raises(LogTruncatedError):
            WAYS[way](there)
