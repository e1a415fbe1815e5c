"""A broker opens what was restored from buckets, and a consumer gets the records of the cluster."""

from __future__ import annotations

import base64
import json
import shutil
import time
from typing import TYPE_CHECKING, Any

import pytest

import segstore
from segstore.errors import LogLockedError
from segstore.log.files.partition_metadata_file import format_partition_metadata
from segstore.log.findings.finding import FindingCode
from tests.interop.kafka_broker import KafkaBroker
from tests.kits.golden import bucket_root, tiered_root
from tests.kits.golden_bucket import bucket_cases
from tests.kits.golden_tiered import tiered_cases

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.kits.golden_bucket import BucketCase
    from tests.kits.golden_tiered import TieredCase

pytest.importorskip("Crypto")


def partitions_of(case: BucketCase) -> dict[str, list[int]]:
    """Return the partitions of each topic that the case speaks of."""
    topics: dict[str, list[int]] = {}
    for name in case.said["partitions"]:
        topic, _, number = name.rpartition("-")
        topics.setdefault(topic, []).append(int(number))
    return topics


def groups(cases: list[BucketCase]) -> list[list[BucketCase]]:
    """Return cases that one broker can hold: no two have a topic of the same name."""
    found: list[list[BucketCase]] = []
    for case in cases:
        own = partitions_of(case).keys()
        room = (one for one in found if not any(own & partitions_of(other).keys() for other in one))
        group = next(room, None)
        if group is None:
            found.append(group := [])
        group.append(case)
    return found


def restore_into(logs: Path, case: BucketCase, topic_ids: dict[str, Any]) -> None:
    """Restore a case as a user does."""
    folder, _, prefix = case.said["key_prefix"].rpartition("/")
    keys = case.directory / "keys"
    segstore.restore_bucket(
        case.directory / "bucket" / folder,
        logs,
        keys=keys if keys.is_dir() else {},
        key_prefix=prefix,
        topic_ids=topic_ids,
    )


def restore(case: BucketCase, broker: KafkaBroker, *, keeps_epochs: bool = False) -> None:
    """Restore a case into the log directory of a broker that is down and has its topics.

    With *keeps_epochs* as if the cluster were the one that the topics were copied from.
    """
    logs, topic_ids = broker.log_directory, {}
    made = [logs / f"{topic}-{one}" for topic, all_ in partitions_of(case).items() for one in all_]
    for path in made:
        with segstore.open(path, read_only=True) as log:
            assert log.log_end_offset == 0
            topic_ids[log.topic_partition.topic] = log.topic_id
        shutil.rmtree(path)
    restore_into(logs, case, {} if keeps_epochs else topic_ids)
    for path in made if keeps_epochs else ():
        topic_id = topic_ids[path.name.rpartition("-")[0]]
        (path / "partition.metadata").write_bytes(format_partition_metadata(topic_id))


def expected(path: Path, *, keeps_epochs: bool = False) -> list[dict[str, Any]]:
    """Return the records of a file as the consumer prints them, without their partition.

    In another cluster their leader epoch is 0.
    """
    if not path.exists():
        return []
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for one in records:
        if not keeps_epochs:
            one["leaderEpoch"] = 0
        one["headers"] = [
            [base64.b64encode(name.encode()).decode(), value] for name, value in one["headers"]
        ]
    return records


def check_case(case: BucketCase, broker: KafkaBroker, *, keeps_epochs: bool = False) -> int:
    """Compare what a consumer gets, all and committed; returns the number of records."""

    def rows(name: str) -> list[dict[str, Any]]:
        path = case.directory / "records" / f"{name}.jsonl"
        return expected(path, keeps_epochs=keeps_epochs)

    count = 0
    for topic in partitions_of(case):
        everything = broker.consume(topic, "read_uncommitted")
        committed = broker.consume(topic, "read_committed")
        for name, told in case.said["partitions"].items():
            if name.rpartition("-")[0] != topic:
                continue
            number = int(name.rpartition("-")[2])
            before = rows(f"{name}.before_log_start")
            after = rows(name)
            view = rows(f"{name}.read_committed")
            start = max(told["log_start_in_newest_segment"], told["bucket_start_offset"])
            found = everything.get(number, [])
            stable = committed.get(number, [])

            assert found == [one for one in before + after if one["offset"] >= start]
            assert [one for one in stable if one["offset"] >= told["log_start_offset"]] == (
                view or after
            )
            count += len(found)
    return count


@pytest.mark.long
@pytest.mark.parametrize("keeps_epochs", [False, True])
def test_a_broker_serves_restored_buckets(request, tmp_path, golden_summary, keeps_epochs):
    """[SEL-3] [SEL-5] [SEL-9] [SEL-11] [MGR-26] All records and the committed view of each case.

    The topics were made in the broker before, which gives them their ids. Then it goes on.
    """
    cases = bucket_cases(bucket_root(request.config))
    for number, group in enumerate(groups(cases)):
        broker = KafkaBroker(tmp_path / str(number), log_retention_ms=-1)
        with broker:
            for case in group:
                for topic, numbers in partitions_of(case).items():
                    broker.create_topic(topic, max(numbers) + 1)
                with pytest.raises(LogLockedError, match="stop it"):
                    restore_into(broker.log_directory, case, {})
        for case in group:
            restore(case, broker, keeps_epochs=keeps_epochs)
        with broker:
            for case in group:
                assert check_case(case, broker, keeps_epochs=keeps_epochs) > 0
                golden_summary.add("restored buckets that a broker serves", 1, 1)
                for topic in partitions_of(case):
                    broker.produce(topic, 0, "after the restore")
                    last = broker.consume(topic, "read_uncommitted")[0][-1]
                    assert last["value"] == base64.b64encode(b"after the restore").decode()
        stray = [one.name for one in broker.log_directory.glob("*-stray")]
        assert not stray
        with segstore.open_dir(broker.log_directory, read_only=True) as logs:
            for case in group:
                for topic, numbers in partitions_of(case).items():
                    found = {
                        finding.code
                        for one in numbers
                        for finding in logs.log(topic, one).verify().findings
                    }
                    # a leader of a smaller epoch drops the history of greater ones
                    assert found <= ({FindingCode.EPOCHS_WRONG} if keeps_epochs else set())


@pytest.mark.long
def test_replicas_that_were_restored_go_on_together(request, tmp_path):
    """[APP-4.3] Two brokers of a new cluster: the follower takes what the leader gets then.

    With the leader epochs of the old cluster it would not: the leader does not know them.
    """
    case = next(one for one in bucket_cases(bucket_root(request.config)) if has_epochs(one))
    config = {"log_retention_ms": -1, "default_replication_factor": 2}
    first = KafkaBroker(tmp_path / "1", **config)
    second = KafkaBroker(tmp_path / "2", joins=first, **config)
    with first, second:
        for topic, numbers in partitions_of(case).items():
            first.create_topic(topic, max(numbers) + 1)
        wait_until(lambda: all(map(has_topics, (first, second), [case] * 2)))
    restore(case, first)
    restore(case, second)
    with first, second:
        assert check_case(case, first) > 0
        for topic, numbers in partitions_of(case).items():
            for number in numbers:
                first.produce(topic, number, "one", "two", "three")
        wait_until(lambda: ends_of(case, first) == ends_of(case, second))
    for broker in (first, second):
        with segstore.open_dir(broker.log_directory, read_only=True) as logs:
            for name, said in case.said["partitions"].items():
                topic, _, number = name.rpartition("-")
                log = logs.log(topic, int(number))
                assert log.log_end_offset == said["bucket_end_offset"] + 3
                assert log.verify().ok


def has_epochs(case: BucketCase) -> bool:
    """Whether the case's logs have several leader epochs."""
    return all(len(said["leader_epochs"]) > 2 for said in case.said["partitions"].values())


def has_topics(broker: KafkaBroker, case: BucketCase) -> bool:
    """Whether the broker has made the directories of all partitions, with their ids."""
    return all(
        (broker.log_directory / f"{topic}-{number}" / "partition.metadata").exists()
        for topic, numbers in partitions_of(case).items()
        for number in numbers
    )


def ends_of(case: BucketCase, broker: KafkaBroker) -> list[int]:
    """Where the logs of a running broker end."""
    found = []
    for name in case.said["partitions"]:
        with segstore.open(broker.log_directory / name, read_only=True) as log:
            found.append(log.log_end_offset)
    return found


def wait_until(is_so: Callable[[], bool]) -> None:
    """Ask again and again, for a minute."""
    end = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.2)


@pytest.mark.long
def test_a_broker_serves_restored_storages(request, tmp_path, golden_summary):
    """[TIER-95] The same of ``LocalTieredStorage``: the records that the broker served."""
    cases = [one for one in tiered_cases(tiered_root(request.config)) if one.is_last]
    broker = KafkaBroker(tmp_path / "broker", log_retention_ms=-1)
    topics: dict[str, TieredCase] = {}
    with broker:
        for case in cases:
            for topic, said in case.said["topics"].items():
                assert topic not in topics
                topics[topic] = case
                broker.create_topic(topic, said["partitions"])
    logs, topic_ids, ends = broker.log_directory, {}, {}
    for topic, case in topics.items():
        for number in range(case.said["topics"][topic]["partitions"]):
            made = logs / f"{topic}-{number}"
            with segstore.open(made, read_only=True) as log:
                topic_ids[topic] = log.topic_id
            shutil.rmtree(made)
    for case in cases:
        own = {topic: topic_ids[topic] for topic in case.said["topics"]}
        for report in segstore.restore_bucket(case.storage, logs, topic_ids=own):
            ends[report.path.rpartition("/")[2]] = report.log_end_offset, report.stable_end_offset
    with broker:
        for topic, case in topics.items():
            everything = broker.consume(topic, "read_uncommitted")
            committed = broker.consume(topic, "read_committed")
            for name, (end, stable_end) in ends.items():
                if name.rpartition("-")[0] != topic:
                    continue
                number = int(name.rpartition("-")[2])
                start = case.said["broker"][name]["log_start_offset"]
                records = case.directory / "records"
                rows = expected(records / f"{name}.jsonl")
                view = records / f"{name}.read_committed.jsonl"
                stable = expected(view) if view.exists() else rows

                assert [one for one in everything[number] if one["offset"] >= start] == [
                    one for one in rows if one["offset"] < end
                ]
                assert [one for one in committed[number] if one["offset"] >= start] == [
                    one for one in stable if one["offset"] < stable_end
                ]
                golden_summary.add("restored storages that a broker serves", 1, 1)
