"""Logs with a part in remote storage, and logs at a URL."""

from __future__ import annotations

import pytest

pytest.importorskip("fsspec")
pytest.importorskip("pyarrow")

import segstore
from segstore.log import log_reader, remote_tier
from segstore.log.producers.producer_snapshot import format_snapshot
from segstore.types import Isolation, TopicPartition
from tests.kits.log_kit import TIME, bases, batch, singleton
from tests.kits.remote_directories import remote_logs, remote_rows, upload
from tests.kits.remote_kit import TIERED, RemoteRecords
from tests.unit.log.test_committed_view import PLAIN, data, marker

# ---- stale answers of remote storage -------------------------------------------------------------
# Answers of remote storage for what is here: they were believed, though the log knew better.
#
# What was cut here and written again may be found there as it was before.


SIZE = len(singleton())


@pytest.fixture(params=["safe", "kafka"])
def log(request, new_log):
    """Offsets 0 to 7, a segment each, of which 0 to 3 are in remote storage alone."""
    log = new_log(
        recovery=request.param,
        replicated=False,
        retention_ms=None,
        retention_bytes=4 * SIZE,
        internal_segment_bytes=SIZE,
        remote_log_reader=RemoteRecords(),
        **TIERED,
    )
    for number in range(8):
        log.append_as_leader(batch([(TIME + number, None, b"value")]), number // 2)
    log.update_highest_offset_in_remote_storage(5)
    assert len(log.delete_old_segments()) == 4
    assert bases(log) == [4, 5, 6, 7]
    return log


@pytest.mark.parametrize("stale", [4, 6, 7, 8])
def test_what_is_here_is_found_here(log, stale):
    """[TS-1] of another lineage, or cut here meanwhile: only what is not here is remote storage's.

    Kafka ``RemoteLogManager.findOffsetByTimestamp``, which asks the local segments from the first
    of them on.
    """
    remote = log._remote._reader
    remote.records += RemoteRecords([(TIME + 50, stale, 9)]).records
    assert log.fetch_offset_by_timestamp(TIME + 5) == (TIME + 5, 5, 2)
    assert log.offset_for_timestamp(TIME + 5) == 5
    assert log.fetch_offset_by_timestamp(TIME + 50) == (-1, -1, None)
    assert log.offset_for_timestamp(TIME + 50) is None
    remote.records[:0] = RemoteRecords([(TIME + 30, 3, 1)]).records
    assert log.fetch_offset_by_timestamp(TIME + 5) == (TIME + 30, 3, 1)
    assert log.offset_for_timestamp(TIME + 5) == 3


@pytest.mark.parametrize(
    ("of", "finds"),
    [(log_reader, "find_offset_by_timestamp"), (remote_tier, "fetch_offset")],
)
def test_what_goes_while_it_is_looked_for_is_remote(log, monkeypatch, of, finds):
    """[TS-1, LST-3] its remote answer holds, though it was here when that was given."""
    log._remote._reader.records += RemoteRecords([(TIME + 5, 5, 2)]).records
    real = getattr(of, finds)

    def find_beside_retention(*arguments):
        log.maybe_increment_local_log_start_offset(6)
        assert len(log.delete_old_segments()) == 2
        return real(*arguments)

    monkeypatch.setattr(of, finds, find_beside_retention)
    if of is remote_tier:
        assert log.fetch_offset_by_timestamp(TIME + 5) == (TIME + 5, 5, 2)
    else:
        assert log.offset_for_timestamp(TIME + 5) == 5
    assert bases(log) == [6, 7]


# ---- transactions of a wrong snapshot ------------------------------------------------------------
# A part of a log at a URL believed a snapshot in which an open transaction was missing.


def test_the_batches_tell_where_a_transaction_ends(tmp_path):
    """A broker that recovered left such a snapshot: what was aborted behind it was told as lost."""
    directory = tmp_path / "data"
    directory.mkdir()
    with segstore.open(directory / "orders-0", durability="none") as log:
        log.append_as_follower(data(PLAIN, 0, 3), 0)
        log.append_as_follower(data(11, 3, 3), 0)
        log.roll()
        log.append_as_follower(data(PLAIN, 6, 3), 0)
        log.roll()
        log.append_as_follower(marker(11, 9, "abort"), 0)
    for offset in (6, 9):
        (directory / "orders-0" / f"{offset:020d}.snapshot").write_bytes(format_snapshot([]))
    logs = remote_logs(upload(directory), tmp_path / "spool")
    partition = TopicPartition("orders", 0)

    rows, error = remote_rows(logs, partition, 0, 6, Isolation.READ_COMMITTED)
    assert error is None
    assert [row["offset"] for row in rows] == [0, 1, 2]
