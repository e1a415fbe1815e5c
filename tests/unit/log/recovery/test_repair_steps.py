"""What `LogRecovery` decides before it acts, and what it does then [DUR-50..DUR-59]."""

from __future__ import annotations

import struct
from dataclasses import replace
from types import SimpleNamespace

import pytest

from segstore._core import wall_clock_ms
from segstore.errors import CorruptLogError
from segstore.log.files.checkpoints import LogState
from segstore.log.files.partition_directory import file_name
from segstore.log.local.segment import Segment
from tests.kits.damaged_logs import (
    RECORDS_COUNT,
    LogDirectory,
    append_bytes,
    batches_of,
    build,
    cut,
    expected_values,
    open_twice,
    refused,
    values_of,
)
from tests.kits.log_kit import batch, offsets, remove_segment, singleton

EPOCH_POSITION = 12


def put(path, position, content):
    with path.open("r+b") as file:
        file.seek(position)
        file.write(content)


def last_batch(directory, base_offset=0):
    return batches_of(directory.file(base_offset))[-1]


# ---- where it begins -----------------------------------------------------------------------------


def test_without_a_recovery_point_all_is_written_again(log_directory):
    """[DUR-36, DUR-63] From the first byte on."""
    log_directory.set_recovery_point(None)

    with log_directory.open() as log:
        assert log.report.rewritten_bytes == sum(map(len, log_directory.logs().values()))


@pytest.mark.parametrize("sealed", [0, 1, 2])
def test_every_segment_below_the_recovery_point_is_looked_at(log_directory, sealed):
    """[DUR-51, DUR-54] The last one before its segment too: where it ends the next begins."""
    base, point = log_directory.bases[sealed], log_directory.bases[3]
    log_directory.set_recovery_point(point)
    cut(log_directory.file(base), last_batch(log_directory, base).end - 1)

    refused(log_directory, "ends in bytes that are no batch")


@pytest.mark.parametrize("is_whole", [False, True], ids=["torn", "whole batches missing"])
def test_what_is_missing_in_the_segment_of_the_recovery_point_above_it_is_a_tail(
    log_directory, is_whole
):
    """[DUR-51, DUR-54, DUR-58] Nothing there had been synced, in later segments neither."""
    base, later = log_directory.bases[2], log_directory.bases[3:]
    last = last_batch(log_directory, base)
    log_directory.set_recovery_point(base + 1)
    cut(log_directory.file(base), last.position if is_whole else last.end - 1)

    report = open_twice(log_directory, last.base_offset)

    assert sorted(report.set_aside) == [file_name(other, "quarantine-1") for other in later]
    if not is_whole:
        place = f"{file_name(base, 'log')}: an incomplete batch at {last.position}"
        assert place in report.reason


# ---- what a log of our own may count on ----------------------------------------------------------


def one_segment(tmp_path):
    directory = build(tmp_path / "orders-0", 5)
    assert directory.bases == [0]
    return directory


def test_in_the_first_segment_too_no_offset_is_missing(tmp_path):
    """[DUR-50, DUR-64] The base offset has no checksum; it jumped ahead in the last batch."""
    directory = one_segment(tmp_path)
    last = last_batch(directory)
    put(directory.last, last.position, (last.base_offset + 256).to_bytes(8))

    assert open_twice(directory, 4).truncated_bytes == last.size


@pytest.mark.parametrize("is_known", [True, False])
def test_in_the_first_segment_too_epochs_do_not_fall(tmp_path, is_known):
    """[DUR-50, DUR-64] Nor has the leader epoch; of somebody else's log nobody knows."""
    path = tmp_path / "orders-0"
    with LogDirectory(path).open(durability="none") as log:
        for _ in range(3):
            log.append_as_leader(singleton(), leader_epoch=4)
        log.close_quietly()
    directory = LogDirectory(path)
    directory.set_recovery_point(0)
    last = last_batch(directory)
    put(directory.last, last.position + EPOCH_POSITION, struct.pack(">i", 3))
    if not is_known:
        (path / ".segstore").unlink()

    with directory.open() as log:
        assert offsets(log) == ([0, 1] if is_known else [0, 1, 2])
        assert log.report.truncated_bytes == (last.size if is_known else 0)


@pytest.mark.parametrize("point", [0, RECORDS_COUNT])
def test_below_where_it_is_contiguous_offsets_may_be_missing(log_directory, point):
    """[DUR-54, DUR-64] A hole that a truncation left, or what somebody else wrote."""
    gone, following = log_directory.bases[1:3]
    remove_segment(log_directory.path, gone)
    log_directory.set_recovery_point(point)
    state = log_directory.path / ".segstore"
    known = LogState.parse(state.read_bytes())
    state.write_bytes(replace(known, contiguous_from=following).format())

    with log_directory.open() as log:
        expected = expected_values(0, gone) + expected_values(following, RECORDS_COUNT)
        assert values_of(log) == expected


# ---- overlaps ------------------------------------------------------------------------------------


def overlapping(path, epochs):
    """A log of two segments, each with an epoch of its own, of which the first repeats a batch."""
    with LogDirectory(path).open(durability="none") as log:
        for epoch in epochs:
            log.append_as_leader(singleton(), leader_epoch=epoch)
            log.append_as_leader(singleton(), leader_epoch=epoch)
            log.roll()
        log.close_quietly()
    directory = LogDirectory(path)
    first, second = directory.file(0), directory.file(2)
    repeated = bytearray(second.read_bytes()[: batches_of(second)[0].size])
    struct.pack_into(">i", repeated, EPOCH_POSITION, epochs[0])
    append_bytes(first, bytes(repeated))
    directory.set_recovery_point(0)
    return directory


def test_an_overlap_with_a_newer_epoch_is_damage(tmp_path):
    """[DUR-54] The lower segment does not win: its batches are the stale ones."""
    refused(overlapping(tmp_path / "orders-0", [0, 1]), "in a newer leader epoch")


def test_an_overlap_of_one_epoch_is_the_lower_segments(tmp_path):
    """[DUR-54]"""
    with overlapping(tmp_path / "orders-0", [1, 1]).open() as log:
        assert offsets(log) == [0, 1, 2]
        assert "reaches beyond 2" in log.report.reason


# ---- what it does --------------------------------------------------------------------------------


def test_a_segment_that_is_read_twice_has_to_be_the_same(log_directory, monkeypatch):
    """[DUR-6, DUR-57] A disk that says something else each time is believed neither time."""
    scan = SimpleNamespace(valid_bytes=7, why=None)
    monkeypatch.setattr(
        Segment, "recover", lambda *_, **__: (None, SimpleNamespace(scan=scan)), raising=False
    )
    size = log_directory.file(0).stat().st_size
    before = log_directory.logs()

    with pytest.raises(CorruptLogError, match="was read twice, with two results") as caught:
        log_directory.open()

    error = caught.value
    assert error.file.endswith(file_name(0, "log"))
    assert (error.position, error.found) == (7, "7 good bytes")
    assert error.expected == f"{size}, as before"
    assert log_directory.logs() == before


def test_an_empty_segment_behind_the_end_is_removed_and_not_kept(log_directory):
    """[DUR-54, DUR-59] Only bytes are worth a quarantine; the report names both."""
    gone, later = log_directory.bases[1], log_directory.bases[2:]
    log_directory.file(gone).unlink()
    empty = RECORDS_COUNT + 5
    log_directory.file(empty).touch()
    bytes_set_aside = sum(log_directory.file(base).stat().st_size for base in later)

    with log_directory.open() as log:
        report = log.report
        assert values_of(log) == expected_values(0, gone)
    assert report.truncated_bytes == bytes_set_aside
    assert sorted(report.set_aside) == [file_name(base, "quarantine-1") for base in later]
    assert file_name(empty, "log") in report.removed
    assert not {file_name(empty, kind) for kind in ("log", "index", "quarantine-1")} & (
        log_directory.names()
    )


def test_a_transaction_of_the_first_producer_of_all_is_found(new_log):
    """[PSM-1, TXX-1, DUR-52] Its id is 0; the transaction is open, and stays it over a crash."""
    log = new_log()
    options = {"producer_id": 0, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    log.append_as_leader(batch([(None, b"v")], timestamp=wall_clock_ms(), **options), 0)
    log.close_quietly()

    again = new_log()
    assert [each.producer_id for each in again.active_producers()] == [0]
    assert again.last_stable_offset == 0
