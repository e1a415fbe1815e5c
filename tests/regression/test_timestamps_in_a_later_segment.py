"""A look-up by timestamp ended in the first segment that may have such a record, and found none.

A broker does so [TS-2], and `fetch_offset_by_timestamp` answers as a broker.
"""

from __future__ import annotations

from tests.kits.log_kit import TIME


def test_behind_an_empty_segment(new_log):
    """An empty segment counts with the time of its file [SEG-4]."""
    log = new_log()
    log.append([(TIME, b"k", b"v")] * 2)
    log.truncate_to(1)
    log.roll()
    log.append([(TIME, b"k", b"w")])

    assert log.offset_for_timestamp(TIME) == 1
    assert log.fetch_offset_by_timestamp(TIME).offset == -1


def test_behind_deleted_records(new_log):
    log = new_log()
    log.append([(TIME + 50, b"k", b"v")])
    log.append([(TIME, b"k", b"v")])
    log.roll()
    log.append([(TIME + 40, b"k", b"w")])
    log.delete_records(1)

    assert log.offset_for_timestamp(TIME + 40) == 2
    assert log.fetch_offset_by_timestamp(TIME + 40).offset == -1
