"""Every golden directory at a URL: rows and bounds are those of the local read."""

from __future__ import annotations

import pytest

from segstore.errors import SegstoreError
from segstore.manager.partition_directories import partitions_with_logs
from tests.kits.remote_directories import differences, forget, remote_logs, upload


@pytest.mark.parametrize("quarter", range(4))
def test_golden_directories_read_alike_at_a_url(golden, check_compared, tmp_path, quarter, one_in):
    """All three isolation levels; whole logs, and a range that begins inside each."""
    directories = sorted({log.parent.parent for log in golden.rglob("*.log")})[quarter::4]
    directories = directories[:: one_in(7)]
    compared, found, unreadable = 0, [], []
    for directory in directories:
        partitions = partitions_with_logs(str(directory))
        url = upload(directory)
        logs = remote_logs(url, tmp_path)
        assert logs.partitions() == partitions
        for partition in partitions:
            try:
                found += [
                    f"{directory}: {one}" for one in differences(directory, logs, partition, cuts=1)
                ]
                compared += 1
            except SegstoreError as error:
                unreadable.append((directory, partition, type(error)))
        forget(url)

    assert found == []
    assert unreadable == []
    check_compared(compared, at_least=20 // one_in(7))


@pytest.mark.golden_kinds("transactions")
def test_a_topic_with_aborted_transactions_reads_alike_in_parts(golden_data, tmp_path):
    """Segments of transactions one by one: what was aborted behind a range is left out of it."""
    logs = remote_logs(upload(golden_data), tmp_path)
    partitions = [one for one in logs.partitions() if not one.topic.startswith("__")]

    found = [line for one in partitions for line in differences(golden_data, logs, one, cuts=100)]
    assert partitions
    assert found == []
