"""A reader of a log that was cut into the batch that its log start lies in, then killed.

Its end is the log start then, above that of the last batch. A check that found something wrong took
that for a cut by a writer, of whom there was none.
"""

from __future__ import annotations

import pytest

from tests.kits.log_kit import at, offsets


@pytest.mark.parametrize("is_clean", [True, False])
def test_what_is_wrong_is_told(new_log, tmp_path, is_clean):
    """[DUR-50, DUR-77, TRU-4]"""
    log = new_log(index_interval_bytes=0)
    log.append_as_follower(at(0, 3) + at(3, 3), 0)
    log.delete_records(5)
    log.truncate_to(5)
    assert (log.log_start_offset, log.log_end_offset) == (5, 5)
    if is_clean:
        log.close()
    else:
        log.close_quietly()
    index = tmp_path / "topic-0" / f"{0:020d}.index"
    index.write_bytes(index.read_bytes().rstrip(b"\0") + (4).to_bytes(4) + (999).to_bytes(4))

    reader = new_log(read_only=True)
    assert (reader.log_start_offset, reader.log_end_offset) == (5, 5)
    report = reader.verify()
    assert index.name in [finding.file for finding in report.findings], report
    assert offsets(reader) == []
