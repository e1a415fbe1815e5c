"""A reader beside `truncate_to` was told that a healthy log is corrupt [DUR-77].

A scan keeps the bound and the segments of the moment it was made.
"""

from __future__ import annotations

import pytest

import segstore
from segstore.errors import LogTruncatedError


@pytest.fixture
def log(tmp_path):
    """Records 0 to 399 of some 5 kB, four megabyte chunks in two segments."""
    with segstore.open(tmp_path / "a-0", durability="none", segment_bytes=1024 * 1024) as log:
        for number in range(400):
            log.append([(b"%d" % number, b"v" * 5000)])
        yield log


@pytest.mark.parametrize("goes_on", [0, 300])
@pytest.mark.parametrize(
    "read",
    [lambda scan: scan.tuples(), list, lambda scan: scan.count(), lambda scan: scan.to_arrow()],
)
def test_a_scan_made_before_a_truncation_says_so(log, read, goes_on):
    scan = log.scan()
    log.truncate_to(150)
    for _ in range(goes_on):
        log.append([(b"new", b"w" * 4000)])

    with pytest.raises(LogTruncatedError, match="truncated to 150"):
        read(scan)
    assert len(log.scan().tuples()) == 150 + goes_on
    assert log.verify().ok


def test_what_is_below_the_cut_can_be_read_on(log):
    below = log.scan(0, 150)
    across = iter(log.scan())
    first = next(across)
    log.truncate_to(150)

    assert below.count() == 150
    assert [record.offset for record in below] == list(range(150))
    seen = [first.offset]
    with pytest.raises(LogTruncatedError):
        seen.extend(record.offset for record in across)
    assert seen == list(range(len(seen)))


def test_a_scan_before_everything_went(log):
    scan = log.scan()
    log.truncate_fully_and_start_at(1000)
    with pytest.raises(LogTruncatedError):
        scan.tuples()


def test_a_fetch_with_an_old_bound(log, monkeypatch):
    """The truncation falls between the bound and the read, by the layers: they know the name."""
    fetch = log._local_log.fetch

    def fetch_later(*args, **options):
        log.truncate_to(200)
        return fetch(*args, **options)

    monkeypatch.setattr(log._local_log, "fetch", fetch_later)
    with pytest.raises(LogTruncatedError):
        log.read(350, 100, "log_end")


def test_a_scan_made_during_a_truncation(log, monkeypatch):
    """The old end was seen, and the truncation had begun: segments and bytes go meanwhile."""
    scans = []
    local_log = log._local_log
    take_out = local_log._take_out

    def look_first(segments, **how):
        bound = before
        scan = log.scan()
        scan._chunks._bound, scan._chunks._end_offset = bound, bound.message_offset
        scans.append(scan)
        take_out(segments, **how)

    before = local_log.log_end
    monkeypatch.setattr(local_log, "_take_out", look_first)
    log.truncate_to(150)

    with pytest.raises(LogTruncatedError):
        scans[0].tuples()
