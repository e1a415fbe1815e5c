"""A salvage of a log whose ABORT marker was damaged showed aborted records as committed.

The source's transaction index knew better, and where there was none the report said nothing when
the same producer had ended another transaction later.
"""

from __future__ import annotations

import pytest

import segstore
from segstore.log.files.partition_directory import file_name
from segstore.log.local.transaction_index import AbortedTransaction
from tests.conformance.transactions_kit import ABORT, COMMIT, Producer, write
from tests.unit.log.damaged_logs import batches_of, flip_bit

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


def abort_at_the_end(log):
    producer = Producer(log, 5)
    write(log)
    producer.write(1)
    producer.end(ABORT)


def abort_at_the_begin_of_a_segment(log):
    producer = Producer(log, 5)
    producer.write(1)
    log.roll()
    producer.end(ABORT)
    write(log)
    producer.write(1)
    producer.end(COMMIT)


WAYS = {
    abort_then_commit: (1, 0),
    abort_then_commit_in_another_segment: (1, 0),
    abort_at_the_end: (2, 0),
    abort_at_the_begin_of_a_segment: (1, 1),
}


@pytest.mark.parametrize("act", WAYS)
def test_an_index_that_is_whole_tells_of_a_lost_abort(write_log, tmp_path, act):
    """[DUR-7, DUR-62] What was aborted stays so; the marker is made anew, and that is told."""
    marker, base = WAYS[act]
    path, shown = write_log(act)
    lose(path, marker, base)

    report = segstore.salvage(path, tmp_path / "b-0")

    assert [lost.first_offset for lost in report.lost] == [marker]
    (warning,) = report.warnings
    assert f"the ABORT marker at offset {marker}" in warning
    assert file_name(base, "txnindex") in warning
    assert committed(tmp_path / "b-0") == shown
    with segstore.open(tmp_path / "b-0") as log:
        assert log.last_stable_offset == log.log_end_offset == report.log_end_offset
        assert len(log.collect_aborted_transactions(0, log.log_end_offset)) == 1
        write(log)
    assert committed(tmp_path / "b-0") == [*shown, report.log_end_offset]


@pytest.mark.parametrize("loss", ["removed", "emptied", "another producer's"])
def test_without_an_index_the_report_says_that_nobody_knows(write_log, tmp_path, loss):
    """[DUR-7] The next end of the producer is not that of the lost transaction, perhaps."""
    path, _ = write_log(abort_then_commit)
    lose(path, 1)
    index = path / file_name(0, "txnindex")
    if loss == "removed":
        index.unlink()
    elif loss == "emptied":
        index.write_bytes(b"")
    else:
        data = bytearray(index.read_bytes())
        data[9] ^= 1
        index.write_bytes(data)

    report = segstore.salvage(path, tmp_path / "b-0")

    assert committed(tmp_path / "b-0") == [0, 2, 3]
    (warning,) = report.warnings
    assert "producer 5" in warning
    assert "from offset 0 on" in warning
    assert "the marker at offset 4" in warning


@pytest.mark.parametrize("damage", ["another log's", "torn", "out of order"])
def test_an_index_that_lacks_a_marker_that_is_left_tells_nothing(write_log, tmp_path, damage):
    """[DUR-7, TXX-1] What it says of other markers may be lost too."""

    def act(log):
        producer = Producer(log, 5)
        write(log)  # 0
        for kind in (ABORT, COMMIT, ABORT):  # 1 and 2, 3 and 4, 5 and 6
            producer.write(1)
            producer.end(kind)

    path, shown = write_log(act)
    assert shown == [0, 3]
    lose(path, 2)
    index = path / file_name(0, "txnindex")
    data = index.read_bytes()
    first, last = data[:34], data[34:]
    other = AbortedTransaction(9, 3, 3, 4).format()
    index.write_bytes(
        {"another log's": other, "torn": last[:9], "out of order": last + first}[damage]
    )

    report = segstore.salvage(path, tmp_path / "b-0")

    assert committed(tmp_path / "b-0") == [0, 1, 3]
    assert any("the marker at offset 4" in warning for warning in report.warnings)


def test_an_entry_that_goes_across_a_marker_that_is_left_makes_none(write_log, tmp_path):
    """[DUR-7, TXX-1] One changed bit moves it to a COMMIT that is lost: what it ended was none."""

    def act(log):
        producer = Producer(log, 5)
        for kind in (ABORT, COMMIT, COMMIT):  # 0 and 1, 2 and 3, 4 and 5
            producer.write(1)
            producer.end(kind)

    path, shown = write_log(act)
    assert shown == [2, 4]
    lose(path, 3)
    (path / file_name(0, "txnindex")).write_bytes(AbortedTransaction(5, 0, 3, 4).format())

    report = segstore.salvage(path, tmp_path / "b-0")

    assert committed(tmp_path / "b-0") == [2, 4]
    (warning,) = report.warnings
    assert "from offset 2 on" in warning
    assert "the marker at offset 5" in warning


def test_a_lost_commit_before_an_abort(write_log, tmp_path):
    """[DUR-7] The index says where the aborted transaction began: not where the first one did."""

    def act(log):
        producer = Producer(log, 5)
        for kind in (COMMIT, ABORT):
            producer.write(1)
            producer.end(kind)

    path, shown = write_log(act)
    lose(path, 1)

    report = segstore.salvage(path, tmp_path / "b-0")

    assert (shown, committed(tmp_path / "b-0")) == ([0], [])
    (warning,) = report.warnings
    assert "from offset 0 on" in warning
    assert "the marker at offset 3" in warning


def test_where_an_index_tells_all_nothing_is_doubted(write_log, tmp_path):
    """A transaction that goes on behind the loss, or whose COMMIT was lost, is a committed one."""

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

    assert report.warnings == []
    assert committed(tmp_path / "b-0") == [one for one in shown if one != 3] == [0, 4]


def test_a_lost_batch_that_is_no_marker_is_no_abort(write_log, tmp_path):
    """All of an aborted transaction is gone: there is nothing to end."""

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
