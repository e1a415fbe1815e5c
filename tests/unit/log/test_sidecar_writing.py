"""`write_checksum_sidecars`: for segments that were sealed without one [DUR-60]."""

from __future__ import annotations

import os
import threading

import pytest

from segstore.errors import (
    IllegalArgumentError,
)
from tests.kits.damaged_logs import batches_of, flip_bit
from tests.kits.sidecar_kit import EPOCH_AT, VALUE, filled, log, path_of, read_only, sidecars

__all__ = ["log"]


def test_sealed_segments_without_one_get_it(new_log):
    log, steps = filled(new_log), []
    report = log.write_checksum_sidecars(lambda *step: steps.append(step))
    assert report == (3, 0, [])
    total = sum(segment.size_bytes for segment in log.segments()[:-1])
    assert steps[-1] == ("sidecars", total, total)
    assert sidecars(log) == [0, 8, 16]
    assert log.write_checksum_sidecars() == (0, 3, [])
    assert log.scrub().sidecars == 3
    log.truncate_to(10)
    assert sidecars(log) == [0]


def test_nothing_is_called_right_that_is_not(new_log, tmp_path):
    """A segment with a bad batch gets none; what a sidecar tells of is not written over."""
    log = filled(new_log)
    file = path_of(tmp_path, log, 1)
    flip_bit(file, batches_of(file)[3].position + 100)
    report = log.write_checksum_sidecars()
    assert report[:2] == (2, 0)
    (problem,) = report.problems
    assert f"{8:020d}.log" in problem
    assert "gets no checksum sidecar" in problem
    assert sidecars(log) == [0, 16]

    file = path_of(tmp_path, log, 0)
    flip_bit(file, batches_of(file)[3].position + EPOCH_AT, 7)
    before = path_of(tmp_path, log, 0, "segsum").read_bytes()
    report = log.write_checksum_sidecars()
    assert report[:2] == (0, 1)
    assert "its sidecar is kept" in report.problems[0]
    assert path_of(tmp_path, log, 0, "segsum").read_bytes() == before


def test_epochs_that_go_back_are_not_called_right(new_log, tmp_path):
    """[DUR-50, DUR-64] Where this library has written the log."""
    log = filled(new_log)
    file = path_of(tmp_path, log, 1)
    flip_bit(file, batches_of(file)[3].position + EPOCH_AT)
    assert len(log.write_checksum_sidecars().problems) == 1


def test_a_damaged_sidecar_is_written_anew(log, tmp_path):
    flip_bit(path_of(tmp_path, log, 1, "segsum"), 50)
    assert log.write_checksum_sidecars() == (1, 2, [])
    assert log.scrub().sidecars == 3


def test_a_log_of_kafkas_profile_makes_none(new_log):
    log = new_log(recovery="kafka")
    with pytest.raises(IllegalArgumentError, match="no files but Kafka's"):
        log.write_checksum_sidecars()


def test_readers_beside_a_writer_that_cuts_and_fills_tell_no_damage(log, new_log):
    """[DUR-77] The sidecar is gone before the bytes change."""
    reader, stop = read_only(new_log), threading.Event()
    told: list[str] = []

    def look():
        while not stop.is_set():
            try:
                reader.refresh()
                told.extend(one for one in reader.scrub().problems if "sealed" in one)
            except Exception as error:  # noqa: BLE001 - a cut that a reader is told of
                if "sealed" in str(error):
                    told.append(str(error))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        for round_ in range(12):
            log.truncate_to(3 + round_)
            while log.log_end_offset < 26:
                log.append([(None, os.urandom(VALUE))])
            log._background.wait_until_idle()
    finally:
        stop.set()
        thread.join()
    assert told == []
    assert log.scrub().sidecars == 3
