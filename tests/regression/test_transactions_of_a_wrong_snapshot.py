"""A part of a log at a URL believed a snapshot in which an open transaction was missing."""

from __future__ import annotations

import pytest

pytest.importorskip("fsspec")
pytest.importorskip("pyarrow")

import segstore
from segstore.log.producers.producer_snapshot import format_snapshot
from segstore.types import Isolation, TopicPartition
from tests.kits.remote_directories import remote_logs, remote_rows, upload
from tests.unit.log.test_committed_view import PLAIN, data, marker


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
