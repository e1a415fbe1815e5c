"""A log directory and a remote folder that only we have written: a broker serves both, and adds."""

from __future__ import annotations

import base64
import time
from typing import TYPE_CHECKING, NamedTuple

import segstore
from segstore import MemoryRecords
from segstore.manager.metadata_writing import write_metadata_log
from tests.interop.kafka_broker import CLUSTER_ID, KafkaBroker

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TIERED = {"remote.storage.enable": "true", "local.retention.bytes": "0"}
START_MS = 1_700_000_000_000
METADATA_PARTITIONS = 3
SEGMENTS = 6
RECORDS = 20
"""Of a segment of partition 0."""
SECONDS = 60
MINUTE_MS = 60_000


def broker_over(folder: Path) -> KafkaBroker:
    """A broker with the properties of docs/operations.md; its tasks come soon and often."""
    return KafkaBroker(
        folder,
        remote_log_storage_system_enable="true",
        remote_log_storage_manager_class_name=(
            "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"
        ),
        rsm_config_dir=folder / "tier",
        remote_log_metadata_manager_listener_name="PLAINTEXT",
        rlmm_config_remote_log_metadata_topic_num_partitions=METADATA_PARTITIONS,
        rlmm_config_remote_log_metadata_topic_replication_factor=1,
        remote_log_manager_task_interval_ms=300,
        log_initial_task_delay_ms=300,
        log_retention_check_interval_ms=300,
    )


class Row(NamedTuple):
    """What of a record is compared."""

    offset: int
    timestamp: int
    value: bytes


def fill(log, expected: list[Row]) -> None:
    """Append plain records, a segment after the other; the last one is empty."""
    for _ in range(SEGMENTS):
        first = log.log_end_offset
        rows = [Row(n, START_MS + 1000 * n, b"plain %d" % n) for n in range(first, first + RECORDS)]
        log.append([(timestamp, b"k%d" % n, value) for n, timestamp, value in rows])
        expected += rows
        log.roll()


def fill_with_transactions(log, expected: list[Row]) -> None:
    """Append transactions, each over three segments; every second one is aborted."""
    for number in range(SEGMENTS):
        commit = number % 2 == 0
        for sequence in range(2):
            offset = log.log_end_offset
            timestamp, value = START_MS + 1000 * offset, b"%d %d" % (commit, offset)
            batch = MemoryRecords.with_records(
                [(timestamp, None, value)],
                producer_id=7,
                producer_epoch=0,
                base_sequence=2 * number + sequence,
                transactional=True,
            )
            log.append_as_leader(batch.data)
            if commit:
                expected.append(Row(offset, timestamp, value))
            log.roll()
        marker = MemoryRecords.with_end_transaction_marker(
            7, 0, commit=commit, timestamp=START_MS + 1000 * log.log_end_offset
        )
        coordinator = segstore.AppendOrigin.COORDINATOR
        log.append_as_leader(marker.data, origin=coordinator, transaction_version=1)
        log.roll()


def consumed(
    broker: KafkaBroker, isolation: str = "read_committed", timestamp: int | None = None
) -> dict[int, list[Row]]:
    """What a consumer gets, by partition."""
    return {
        number: [
            Row(row["offset"], row["timestamp"], base64.b64decode(row["value"])) for row in rows
        ]
        for number, rows in broker.consume("orders", isolation, timestamp).items()
    }


def read_by_us(broker: KafkaBroker, tier: Path) -> dict[int, list[Row]]:
    """The same, as we read it."""
    with segstore.open_dir(broker.log_directory, read_only=True, remote=tier) as logs:
        scans = [logs.log("orders", n).scan(isolation="read_committed") for n in range(2)]
        return {
            number: [Row(one.offset, one.timestamp, one.value) for one in scan]
            for number, scan in enumerate(scans)
        }


def log_files(tier: Path) -> list[Path]:
    """The segments in the remote folder."""
    return [*(tier / "kafka-tiered-storage").rglob("*.log")]


def wait_until(broker: KafkaBroker, is_so: Callable[[], bool]) -> None:
    """Look again until the broker's tasks have done it."""
    until = time.monotonic() + SECONDS
    while not is_so():
        assert time.monotonic() < until, broker.output.read_text()[-3000:]
        time.sleep(0.1)


def test_a_broker_serves_what_we_tiered_and_goes_on(tmp_path: Path):
    """[TIER-2, TIER-21, TIER-31, TIER-65, TIER-70, TIER-95] All, also by time; both ways.

    It copies what we have not copied yet. Then we go on, then it.
    """
    broker, tier = broker_over(tmp_path), tmp_path / "tier"
    expected: dict[int, list[Row]] = {0: [], 1: []}
    with segstore.open_dir(broker.log_directory, remote=tier) as logs:
        logs.create_topic("__remote_log_metadata", METADATA_PARTITIONS)
        logs.create_topic("orders", 2, config=TIERED)
        fill(logs.log("orders", 0), expected[0])
        fill_with_transactions(logs.log("orders", 1), expected[1])
        assert logs.maintain().failed == ()
        for log in (logs.log("orders", number) for number in expected):
            assert log.local_log_start_offset == log.log_end_offset, "all is remote alone"
        fill(logs.log("orders", 0), expected[0])
    written = write_metadata_log(broker.log_directory, node_id=1, cluster_id=CLUSTER_ID)
    assert written.topics == ("__remote_log_metadata", "orders")

    with broker:
        assert broker.offsets("orders", "earliest") == {0: 0, 1: 0}
        assert consumed(broker) == expected
        uncommitted = consumed(broker, "read_uncommitted")
        assert uncommitted[0] == expected[0]
        assert [row.offset for row in uncommitted[1]] == [
            n for n in range(3 * SEGMENTS) if n % 3 != 2
        ]
        for offset in (
            7,
            SEGMENTS * RECORDS + 7,
        ):  # the second one was in no remote segment of ours
            since = {
                n: [row for row in rows if row.offset >= offset] for n, rows in expected.items()
            }
            assert consumed(broker, timestamp=START_MS + 1000 * offset) == {
                number: rows for number, rows in since.items() if rows
            }

        broker.produce("orders", 0, "from a producer")
        end = expected[0][-1].offset + 1
        wait_until(broker, lambda: broker.offsets("orders", "earliest_local")[0] == end)
        assert len(log_files(tier)) == 5 * SEGMENTS
        broker.delete_records("orders", 0, RECORDS + 5)
        expected[0] = consumed(broker)[0]
        assert expected[0][0].offset == RECORDS + 5
        assert expected[0][-1][::2] == (end, b"from a producer")

    assert read_by_us(broker, tier) == expected
    with segstore.open_dir(broker.log_directory, remote=tier) as logs:
        assert logs.maintain().failed == ()
        fill(logs.log("orders", 0), expected[0])
        report = logs.maintain(time.time_ns() // 1_000_000 + MINUTE_MS)
        assert (report.failed, len(report.copied)) == ((), 1)
        assert report.copied[0].end_offset == expected[0][-1].offset + 1
    assert read_by_us(broker, tier) == expected
    with broker:
        assert consumed(broker) == expected
