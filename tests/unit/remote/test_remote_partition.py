"""Parts of logs at URLs: the rows, the bounds and the errors of the whole log on a local disk."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import segstore
from segstore import cli
from segstore.errors import CorruptLogError
from segstore.log.files.checkpoints import MISSING_RECORDS
from segstore.remote.remote_logs import RemoteLogs, RemoteSettings
from segstore.types import Isolation, TopicPartition
from tests.kits.broker_partition import cut_segment, leave_as_a_broker, write_segments
from tests.kits.remote_directories import (
    differences,
    forget,
    remote_logs,
    remote_rows,
    upload,
)
from tests.unit.log.test_committed_view import PLAIN, data, marker

ORDERS = TopicPartition("orders", 0)
COMMITTED = Isolation.READ_COMMITTED
ANY = Isolation.READ_UNCOMMITTED


def put_steps(log, steps) -> None:
    """Append what *steps* say: (producer, kind); ``roll`` begins a segment."""
    for producer, kind in steps:
        offset = log.log_end_offset
        if kind == "roll":
            log.roll()
        elif kind == "data":
            log.append_as_follower(data(producer, offset, 3), 0)
        elif producer != PLAIN:
            log.append_as_follower(marker(producer, offset, kind), 0)


STEPS = st.lists(
    st.tuples(
        st.sampled_from([PLAIN, 11, 12, 13]),
        st.sampled_from(["data", "data", "roll", "commit", "abort"]),
    ),
    min_size=5,
    max_size=40,
)


@settings(max_examples=25, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(STEPS, st.booleans(), st.booleans())
def test_transactions_in_any_segments_read_alike(steps, is_closed, is_synced):
    """Aborted and open ones that begin and end in other segments; clean, and while one writes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "data").mkdir()
        with segstore.open(folder / "data" / "orders-0", durability="none") as log:
            put_steps(log, steps)
            if is_synced:
                log.flush()
            if not is_closed:
                left_out = shutil.ignore_patterns("*.tmp")  # which come and go in the background
                shutil.copytree(folder / "data", folder / "live", ignore=left_out)
        directory = folder / ("data" if is_closed else "live")
        url = upload(directory)
        assert differences(directory, remote_logs(url, folder / "spool"), ORDERS, cuts=4) == []
        forget(url)


def test_records_that_are_noted_as_missing_are_missing_here_too(tmp_path):
    """[DUR-7] A part of the log was read over the gap, as over one that compaction left."""
    path = tmp_path / "data" / "orders-0"
    path.parent.mkdir()
    write_segments(path)
    leave_as_a_broker(path)
    cut_segment(path)
    assert cli.main(["recover", "-q", str(path)]) == 1
    assert (path / MISSING_RECORDS).exists()

    url = upload(path.parent)
    assert differences(path.parent, remote_logs(url, tmp_path / "spool"), ORDERS, cuts=20) == []
    logs = remote_logs(url, tmp_path / "spool")
    assert remote_rows(logs, ORDERS, 25, 35, ANY) == ([], CorruptLogError)
    forget(url)


def test_a_spool_smaller_than_the_log_is_enough_to_read_all_of_it(directory, tmp_path):
    """A part at a time is in use; what was read goes for what is to come."""
    logs = RemoteLogs(upload(directory), RemoteSettings({}, str(tmp_path / "spool"), 20_000))
    size = sum(file.stat().st_size for file in (directory / "orders-0").iterdir())
    assert size > 3 * 20_000

    rows, error = remote_rows(logs, ORDERS, 0, 2000, COMMITTED)
    assert error is None
    assert [row["offset"] for row in rows] == list(range(2000))


def test_what_is_no_part_of_the_log_is_not_fetched(s3, directory, tmp_path):
    """Somebody's notes, and a segment that a broker is deleting."""
    log = directory / "orders-0"
    shutil.copy(log / f"{0:020d}.log", log / f"{5000:020d}.log.deleted")
    (log / "notes.txt").write_bytes(b"of somebody")
    s3.put(directory)
    logs = remote_logs("s3://bucket/logs", tmp_path / "spool", **s3.settings)
    with logs.open_whole(ORDERS) as whole:
        assert whole.log_end_offset == 2000

    fetched = {key.rpartition(".")[2] for key in s3.gets}
    assert {"log", "timeindex"} <= fetched
    assert not {"deleted", "txt"} & fetched
    assert differences(directory, logs, ORDERS, cuts=1) == []


def test_a_partition_that_is_gone_is_forgotten(directory, tmp_path):
    shutil.copytree(directory / "orders-0", directory / "orders-1")
    url = upload(directory)
    logs = remote_logs(url, tmp_path / "spool")
    for partition in logs.partitions():
        logs.bounds(partition, ANY)
    shutil.rmtree(directory / "orders-1")
    upload(directory, url)

    assert logs.partitions() == [ORDERS]
    assert list(logs._partitions) == [ORDERS]
    assert list(logs._bounds) == [(ORDERS, ANY)]


def test_a_long_transaction_is_read_from_its_begin_and_to_its_end(tmp_path):
    """Open over many segments: what is read of it depends on a marker far behind the range."""
    (tmp_path / "data").mkdir()
    with segstore.open(tmp_path / "data" / "orders-0", durability="none") as log:
        steps = [(11, "data"), *[(PLAIN, "roll"), (PLAIN, "data"), (12, "data")] * 5]
        put_steps(log, [*steps, (PLAIN, "roll"), (11, "abort"), (PLAIN, "roll"), (12, "commit")])
    logs = remote_logs(upload(tmp_path / "data"), tmp_path / "spool")

    assert differences(tmp_path / "data", logs, ORDERS, cuts=100) == []
    offsets = [row["offset"] for row in remote_rows(logs, ORDERS, 0, 9, COMMITTED)[0]]
    assert offsets == [3, 4, 5, 6, 7, 8]


def test_a_growing_log_is_read_up_to_what_was_planned(directory, tmp_path):
    """Each look shows what was uploaded before it; what was planned stays readable."""
    url = upload(directory)
    logs = remote_logs(url, tmp_path / "spool")
    assert logs.bounds(ORDERS, ANY).end_offset == 2000
    with segstore.open(directory / "orders-0", durability="sync") as log:
        for step in range(3):
            log.append([(b"k", b"more")] * 50)
            if step == 1:
                log.roll()
            upload(directory, url)
            planned = logs.bounds(ORDERS, ANY).end_offset
            log.append([(b"k", b"later")] * 7)
            upload(directory, url)
            rows, error = remote_rows(logs, ORDERS, 1990, planned, ANY)
            assert error is None
            assert [row["offset"] for row in rows] == list(range(1990, planned))

    assert planned == 2000 + 2 * 57 + 50
    assert logs.bounds(ORDERS, ANY).end_offset == 2000 + 3 * 57


def test_a_replaced_log_is_not_read_from_the_spool(directory, tmp_path):
    """Same names and sizes, other bytes."""
    url = upload(directory)
    logs = remote_logs(url, tmp_path / "spool")
    assert remote_rows(logs, ORDERS, 0, 1, ANY)[0][0]["value"] == b"000" * 10
    shutil.rmtree(directory / "orders-0")
    with segstore.open(directory / "orders-0", durability="none") as log:
        for number in range(20):
            if number:
                log.roll()
            log.append([(b"key", b"%03d" % (index + 1) * 10) for index in range(100)])
    upload(directory, url)

    assert remote_rows(logs, ORDERS, 0, 1, ANY)[0][0]["value"] == b"001" * 10
    assert differences(directory, logs, ORDERS, cuts=4) == []
