"""What a checkpoint or a marker says was used before it was looked at."""

from __future__ import annotations

import time
import tracemalloc

import pytest

from segstore.errors import CorruptCheckpointError
from segstore.log.files.checkpoints import parse_checkpoint
from segstore.log.files.clean_shutdown_marker import CleanShutdownMarker
from tests.kits.damaged_logs import RECORDS_COUNT, build, expected_values, values_of


@pytest.mark.parametrize("number", ["Infinity", "-1", "1.5", "true", "9223372036854775808", '"7"'])
def test_a_marker_with_a_strange_number_is_none(number):
    """[DUR-51, DUR-97] `Infinity` was an OverflowError of ``open``."""
    data = (
        f'{{"version": 0, "logEndOffset": {number}, "activeBaseOffset": 0,'
        ' "activeSizeInBytes": 1, "latestEpoch": null}'
    )
    assert CleanShutdownMarker.parse(data.encode()) is None


def test_a_checkpoint_of_line_ends_is_refused_at_once():
    """[DUR-97] 64 MiB of them were 640 MiB and many seconds; the count is looked at first."""
    data = b"0\n1\n" + b"\n" * (16 * 1024 * 1024)
    tracemalloc.start()
    begin = time.monotonic()
    with pytest.raises(CorruptCheckpointError, match="line 3"):
        parse_checkpoint(data, 3, "x")
    seconds = time.monotonic() - begin
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert seconds < 2
    assert peak < 2 * len(data)


def test_more_entries_than_the_count_are_refused_at_the_first():
    """[DUR-97]"""
    with pytest.raises(CorruptCheckpointError, match="line 4"):
        parse_checkpoint(b"0\n1\n" + b"a 0 7\n" * 1000, 3, "x")


def test_the_longest_name_kafka_allows_is_read():
    """[DUR-97, DUR-98] A topic of 249 characters, the largest partition and offset."""
    line = f"{'t' * 249} {2**31 - 1} {2**63 - 1}"
    assert len(parse_checkpoint(f"0\n1\n{line}\n".encode(), 3, "x")) == 1
    with pytest.raises(CorruptCheckpointError):
        parse_checkpoint(f"0\n1\n{'t' * 270} {2**31 - 1} 0\n".encode(), 3, "x")


@pytest.mark.parametrize("read_only", [True, False])
def test_a_log_start_above_the_end_of_a_clean_log_is_not_believed(tmp_path, read_only):
    """[DUR-18, DUR-21] It dropped every record, and the report said `clean` and no more."""
    directory = build(tmp_path / "orders-0", clean=True)
    bases = directory.bases
    checkpoint = directory.path / "log-start-offset-checkpoint"
    checkpoint.write_text(f"0\n1\norders 0 {2**63 - 1}\n")

    with directory.open(read_only=read_only) as log:
        assert any(f"log start {2**63 - 1}" in text for text in log.report.warnings)
        assert log.report.set_aside == log.report.removed == []
        assert values_of(log) == expected_values(0, RECORDS_COUNT)
        assert directory.bases == bases
        log.close_quietly()  # a crash
    with directory.open() as log:
        assert values_of(log) == expected_values(0, RECORDS_COUNT)
