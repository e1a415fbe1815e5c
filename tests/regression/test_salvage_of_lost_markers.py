"""A salvage of a log whose ABORT marker was damaged showed aborted records as committed.

Salvage makes no marker again. The report names each transaction whose end may be among what was
lost, and what the source's transaction index says of it.
"""

from __future__ import annotations

import shlex

import pytest

import segstore
from segstore.cli import main
from segstore.log.files.partition_directory import file_name
from segstore.log.recovery.salvage_report import UncertainTransaction
from tests.kits.damaged_logs import batches_of, flip_bit
from tests.kits.transactions_kit import ABORT, COMMIT, Producer, write

STATE = (".segstore", ".kafka_cleanshutdown")
RECOVERY_POINT = "recovery-point-offset-checkpoint"


def committed(path):
    with segstore.open(path, read_only=True) as log:
        assert log.verify().ok
        return [record.offset for record in log.scan(isolation="read_committed")]


def lose(path, offset, base_offset=0):
    """Flip a bit of the batch at *offset*."""
    file = path / file_name(base_offset, "log")
    (batch,) = [one for one in batches_of(file) if one.base_offset == offset]
    flip_bit(file, batch.position + batch.size - 1)


@pytest.fixture(params=["closed", "killed", "a broker's"])
def write_log(request, tmp_path):
    """Return a function that calls one with a new log, and leaves the log in one of three ways."""

    def write_it(act):
        path = tmp_path / "source" / "a-0"
        log = segstore.open(path)
        act(log)
        shown = [record.offset for record in log.scan(isolation="read_committed")]
        if request.param == "killed":
            log.flush()
            log.close_quietly()
        else:
            log.close()
        if request.param == "a broker's":  # it keeps that for all of its logs
            (path / RECOVERY_POINT).rename(path.parent / RECOVERY_POINT)
        for name in STATE if request.param == "a broker's" else ():
            (path / name).unlink()
        return path, shown

    return write_it


def abort_then_commit(log):
    """Offsets 0 (aborted), 1 the ABORT, 2 plain, 3 (committed), 4 the COMMIT."""
    producer = Producer(log, 5)
    producer.write(1)
    producer.end(ABORT)
    write(log)
    producer.write(1)
    producer.end(COMMIT)


def abort_then_commit_in_another_segment(log):
    producer = Producer(log, 5)
    producer.write(1)
    producer.end(ABORT)
    write(log)
    log.roll()
    producer.write(1)
    producer.end(COMMIT)


def abort_at_the_begin_of_a_segment(log):
    producer = Producer(log, 5)
    producer.write(1)
    log.roll()
    producer.end(ABORT)
    write(log)
    producer.write(1)
    producer.end(COMMIT)


WAYS = {
    abort_then_commit: 0,
    abort_then_commit_in_another_segment: 0,
    abort_at_the_begin_of_a_segment: 1,
}


@pytest.mark.parametrize("act", WAYS)
def test_a_lost_abort_is_told_with_what_the_index_says(write_log, tmp_path, act):
    """[DUR-7, DUR-62] Another marker decides about the records; the index names the lost one."""
    path, shown = write_log(act)
    lose(path, 1, WAYS[act])
    end = shown[-1] + 1

    report = segstore.salvage(path, tmp_path / "b-0")

    assert [lost.first_offset for lost in report.lost] == [1]
    assert report.uncertain_transactions == [UncertainTransaction(5, 0, 1, end, aborted_at=1)]
    assert any("aborted, at offset 1" in warning for warning in report.warnings)
    assert committed(tmp_path / "b-0") == [0, *shown]
    values = report.to_dict()["uncertain_transactions"]
    assert [one["marker_offset"] for one in values] == [end]


def test_a_lost_abort_at_the_end_leaves_the_transaction_open(write_log, tmp_path):
    """[DUR-7] No record of it is shown; the report says where committed data ends."""

    def act(log):
        producer = Producer(log, 5)
        write(log)
        producer.write(1)
        producer.end(ABORT)

    path, shown = write_log(act)
    lose(path, 2)

    report = segstore.salvage(path, tmp_path / "b-0")

    assert report.uncertain_transactions == []
    assert committed(tmp_path / "b-0") == shown == [0]
    (warning,) = report.warnings
    command = shlex.split(warning.split("`")[1])
    assert main(command[1:]) == 0
    with segstore.open(tmp_path / "b-0") as log:
        assert log.last_stable_offset == log.log_end_offset
    assert committed(tmp_path / "b-0") == [0]


@pytest.mark.parametrize("loss", ["removed", "emptied", "another producer's", "torn"])
def test_without_an_index_the_report_says_that_it_may_be(write_log, tmp_path, loss):
    """[DUR-7] The next end of the producer is not that of the lost transaction, perhaps."""
    path, _ = write_log(abort_then_commit)
    lose(path, 1)
    index = path / file_name(0, "txnindex")
    data = bytearray(index.read_bytes())
    data[9] ^= 1
    if loss == "removed":
        index.unlink()
    else:
        index.write_bytes({"emptied": b"", "another producer's": data, "torn": data[:9]}[loss])

    report = segstore.salvage(path, tmp_path / "b-0")

    assert committed(tmp_path / "b-0") == [0, 2, 3]
    assert report.uncertain_transactions == [UncertainTransaction(5, 0, 1, 4)]


def test_a_lost_commit_before_an_abort(write_log, tmp_path):
    """[DUR-7] Committed records may count as aborted just as well."""

    def act(log):
        producer = Producer(log, 5)
        for kind in (COMMIT, ABORT):
            producer.write(1)
            producer.end(kind)

    path, shown = write_log(act)
    lose(path, 1)

    report = segstore.salvage(path, tmp_path / "b-0")

    assert (shown, committed(tmp_path / "b-0")) == ([0], [])
    assert report.uncertain_transactions == [UncertainTransaction(5, 0, 1, 3)]


def test_only_what_was_open_at_a_loss_is_uncertain(write_log, tmp_path):
    """[DUR-7] Of two producers the one whose transaction had ended before is not."""

    def act(log):
        first, second = Producer(log, 5), Producer(log, 6)
        first.write(1)
        second.write(1)
        second.end(ABORT)
        write(log)  # offset 3
        first.write(1)
        first.end(COMMIT)

    path, shown = write_log(act)
    lose(path, 3)

    report = segstore.salvage(path, tmp_path / "b-0")

    assert report.uncertain_transactions == [UncertainTransaction(5, 0, 3, 5)]
    assert committed(tmp_path / "b-0") == [one for one in shown if one != 3] == [0, 4]


def test_a_transaction_that_is_lost_as_a_whole_is_not_uncertain(write_log, tmp_path):
    """All of an aborted transaction is gone: nothing of it can be shown."""

    def act(log):
        write(log)
        producer = Producer(log, 5)
        producer.write(1)
        producer.end(ABORT)
        write(log)

    path, shown = write_log(act)
    lose(path, 2)
    lose(path, 1)

    report = segstore.salvage(path, tmp_path / "b-0")

    assert report.warnings == []
    assert committed(tmp_path / "b-0") == shown == [0, 3]
