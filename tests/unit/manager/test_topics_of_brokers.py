"""A broker's metadata log gives the settings and the ids of its topics, and nothing is changed.

docs/decisions/metadata-image.md. The logs are written without Kafka; real brokers' directories are
in tests/interop/test_golden_metadata.py.
"""

from __future__ import annotations

import json
import logging
import time
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

import segstore
from segstore.errors import (
    AlreadyExistsError,
    IllegalStateError,
    InconsistentTopicIdError,
    LogDirectoryOfflineError,
    LogNotFoundError,
)
from segstore.log.files.partition_metadata_file import topic_id_text
from segstore.log.files.topic_names import METADATA_LOG
from segstore.manager.topic_description import SettingSource
from segstore.types import TopicPartition
from tests.kits.metadata_kit import (
    TOPIC_ID,
    metadata_batch,
    metadata_record,
    topic_records,
    write_metadata_log,
)

if TYPE_CHECKING:
    from pathlib import Path

DAY = 24 * 3600 * 1000
WEEK = 7 * DAY
OTHER_ID = UUID(int=8 << 64)
META_PROPERTIES = "version=1\ncluster.id=c\nnode.id=1\ndirectory.id=AAAAAAAAAAAAAAAAAAAACQ\n"


def settings_of_brokers(name: str, **config: str) -> list[bytes]:
    """Return what a broker, or with an empty name all brokers, were given."""
    return [
        metadata_record(
            "ConfigRecord",
            resourceType=4,
            resourceName=name,
            name=key.replace("_", "."),
            value=text,
        )
        for key, text in config.items()
    ]


def topic(name: str = "orders", topic_id: UUID = TOPIC_ID, **config: str) -> list[bytes]:
    return topic_records(name, topic_id, **{key.replace("_", "."): v for key, v in config.items()})


def broker(path: Path, *records: list[bytes], topic_id: UUID | None = TOPIC_ID) -> Path:
    """Make a broker's log directory with a log of ``orders-0`` that has two old segments."""
    values = [value for one in records for value in one]
    write_metadata_log(path, {0: metadata_batch(0, values)})
    (path / "meta.properties").write_text(META_PROPERTIES)
    old = time.time_ns() // 1_000_000 - 3 * DAY
    with segstore.open(path / "orders-0", topic_id=topic_id, recovery="kafka") as log:
        for _ in range(3):
            log.append([(old, None, b"v")])
            log.roll()
    return path


def run(capsys, *arguments: object) -> tuple[str, str]:
    from segstore.cli import main

    main([*map(str, arguments)])
    return capsys.readouterr()


def setting(logs, name: str, topic_name: str = "orders"):
    found = {one.name: one for one in logs.describe_topic(topic_name).settings}
    return found[name].value, found[name].source


def test_settings_come_from_the_metadata_log(tmp_path: Path):
    """[CFG-52] The topic's own, its broker's, those of all brokers, the caller's, Kafka's."""
    broker(
        tmp_path,
        topic(max_message_bytes="5000"),
        settings_of_brokers("", log_retention_ms="1000", log_roll_hours="3", message_max_bytes="7"),
        settings_of_brokers("1", log_retention_hours="48"),
        settings_of_brokers("2", log_flush_interval_messages="2"),
    )
    with segstore.open_dir(tmp_path, segment_ms=7, index_interval_bytes=99) as logs:
        log = logs.log("orders", 0)
        assert setting(logs, "max.message.bytes") == (5000, SettingSource.METADATA_LOG)
        assert setting(logs, "retention.ms") == (1000, SettingSource.BROKER)
        assert setting(logs, "segment.ms") == (3 * 3600 * 1000, SettingSource.BROKER)
        assert setting(logs, "index.interval.bytes") == (99, SettingSource.DIRECTORY)
        assert setting(logs, "cleanup.policy") == (("delete",), SettingSource.DEFAULT)
        assert setting(logs, "flush.messages")[1] is SettingSource.DEFAULT
        assert logs.describe_topic("orders").topic_id == TOPIC_ID
        of_manager = log.config
    assert of_manager.retention_ms == 1000
    assert (of_manager.segment_ms, of_manager.max_message_bytes) == (3 * 3600 * 1000, 5000)
    with segstore.open(tmp_path / "orders-0", index_interval_bytes=99) as log:
        assert log.config == of_manager
    with segstore.open(tmp_path / "orders-0", read_only=True, retention_ms=5) as log:
        assert log.config.retention_ms == 5


def test_a_topic_of_a_broker_has_kafkas_retention(tmp_path: Path):
    """[RTN-1, DUR-120] Others in the directory are kept, and what has another id, or none."""
    broker(tmp_path, topic(), topic("clicks", OTHER_ID))
    old = time.time_ns() // 1_000_000 - 8 * DAY
    for name, topic_id in (
        ("clicks-0", UUID(int=5 << 64)),
        ("own-0", None),
        ("orders-1", None),
        ("orders-2", TOPIC_ID),
    ):
        with segstore.open(tmp_path / name, topic_id=topic_id, durability="none") as log:
            log.append([(old, None, b"v")])
            log.roll()
            log.append([(old, None, b"v")])
    with segstore.open_dir(tmp_path) as logs:
        assert setting(logs, "retention.ms") == (WEEK, SettingSource.DEFAULT)
        assert setting(logs, "retention.ms", "clicks") == (None, SettingSource.NOT_SET)
        report = logs.maintain()
        assert {one.topic_partition for one in report.deleted} == {TopicPartition("orders", 2)}
        later = logs.maintain(time.time_ns() // 1_000_000 + WEEK)
        assert {one.topic_partition for one in later.deleted} == {TopicPartition("orders", 0)}
    with segstore.open_dir(tmp_path, retention_ms=None) as logs:  # as server.properties says
        assert setting(logs, "retention.ms") == (-1, SettingSource.DIRECTORY)


def test_the_metadata_log_may_lie_elsewhere(tmp_path: Path):
    """It is that of metadata.log.dir, or of the first directory."""
    data = broker(tmp_path / "data", topic(retention_ms="1000"))
    (data / METADATA_LOG).rename(tmp_path / METADATA_LOG)
    with segstore.open_dir(data) as logs:
        assert setting(logs, "retention.ms") == (None, SettingSource.NOT_SET)
    for place in (tmp_path, tmp_path / METADATA_LOG):
        with segstore.open_dir(data, metadata_log=place) as logs:
            assert setting(logs, "retention.ms") == (1000, SettingSource.METADATA_LOG)
            assert logs.log("orders", 0).config.retention_ms == 1000
    with pytest.raises(LogNotFoundError, match="orders-7"):
        segstore.open_dir(data, metadata_log=data / "orders-7")
    segstore.open_dir(data).close()


def test_the_metadata_log_in_another_log_directory(tmp_path: Path):
    """[CFG-52, DUR-128] It counts for all of them; where it may be offline, nothing is deleted."""
    other, data = tmp_path / "other", broker(tmp_path / "data", topic(retention_ms="1000"))
    other.mkdir()
    (data / METADATA_LOG).rename(other / METADATA_LOG)
    with segstore.open_dir([data, other]) as logs:
        assert setting(logs, "retention.ms") == (1000, SettingSource.METADATA_LOG)
        assert logs.log("orders", 0).config.retention_ms == 1000
        assert logs.stray_partitions() == {}
        with pytest.raises(IllegalStateError, match="Kafka's tools"):
            logs.delete_topic("orders")
    other.rename(tmp_path / "away")
    other.touch()  # cannot be opened
    with segstore.open_dir([data, other], recovery="kafka", retention_ms=1) as logs:
        assert logs.log("orders", 0).config.retention_ms is None
        report = logs.maintain()
        assert (report.deleted, report.failed[0].task) == ((), "retention")
        with pytest.raises(LogDirectoryOfflineError, match="metadata_log") as caught:
            logs.describe_topic("orders")
        assert caught.value.file == str(other)
    away = tmp_path / "away"
    with segstore.open_dir([data, other], recovery="kafka", metadata_log=away) as logs:
        assert setting(logs, "retention.ms") == (1000, SettingSource.METADATA_LOG)


def test_topics_of_a_broker_are_changed_by_it_alone(tmp_path: Path):
    """[MGR-95] Others can be made and changed; the error says where the settings are."""
    broker(tmp_path, topic(), topic("elsewhere", OTHER_ID))
    with segstore.open_dir(tmp_path) as logs:
        for change in (
            lambda: logs.alter_topic("orders", {"retention.ms": 5}),
            lambda: logs.alter_topic("orders", partitions=2),
            lambda: logs.delete_topic("orders"),
            lambda: logs.delete_partition("orders", 0),
        ):
            with pytest.raises(IllegalStateError, match="Kafka's tools") as caught:
                change()
            assert caught.value.file == str(tmp_path / METADATA_LOG)
        with pytest.raises(AlreadyExistsError, match="the cluster has a topic"):
            logs.create_topic("elsewhere")
        logs.create_topic("own", config={"retention.ms": 9})
        assert setting(logs, "retention.ms", "own") == (9, SettingSource.TOPIC)
        logs.delete_topic("own")
        assert logs.topics() == {"__cluster_metadata": [0], "orders": [0]}
    (tmp_path / METADATA_LOG).rename(tmp_path / "moved")
    with segstore.open_dir(tmp_path) as logs:
        logs.delete_topic("orders")


@pytest.mark.parametrize("damage", ["a byte", "meta.properties", "a value"])
def test_settings_that_cannot_be_read_delete_nothing(tmp_path: Path, damage: str, caplog):
    """[DUR-128] It is reported; appends and reads go on."""
    value = "words" if damage == "a value" else "1000"
    broker(tmp_path, topic(retention_ms="1000"), settings_of_brokers("", log_retention_ms=value))
    file = tmp_path / METADATA_LOG / f"{0:020}.log"
    data = bytearray(file.read_bytes())
    if damage == "a byte":
        data[-1] ^= 1
    file.write_bytes(data)
    if damage == "meta.properties":
        (tmp_path / "meta.properties").write_text("version=7\n")
    with caplog.at_level(logging.WARNING), segstore.open_dir(tmp_path, retention_ms=1) as logs:
        assert logs.maintain().deleted == ()
        assert sum("settings of topics are unknown" in text for text in caplog.messages) == 1
        assert logs.log("orders", 0).delete_old_segments() == []
        logs.append("orders", [(None, b"k")], partition=0)
        for change in (
            lambda: logs.describe_topic("orders"),
            lambda: logs.create_topic("own"),
            lambda: logs.delete_topic("orders"),
            logs.stray_partitions,
        ):
            with pytest.raises(segstore.SegstoreError, match="retention deletes nothing"):
                change()
    with segstore.open(tmp_path / "orders-0") as log:
        assert log.delete_old_segments() == []
        assert "nothing is deleted by a default" in " ".join(log.report.warnings)


def test_a_value_that_kafka_refuses_is_no_limit(tmp_path: Path):
    """[DUR-128, MGR-96] Of that topic; the others have theirs."""
    broker(tmp_path, topic(retention_ms="words"), topic("clicks", OTHER_ID, retention_ms="5"))
    segstore.open(tmp_path / "clicks-0", topic_id=OTHER_ID).close()
    with segstore.open_dir(tmp_path) as logs:
        assert logs.log("orders", 0).config.retention_ms is None
        assert logs.log("clicks", 0).config.retention_ms == 5
    with segstore.open(tmp_path / "orders-0", read_only=True) as log:
        assert log.config.retention_ms in {None, -1}


def test_the_metadata_log_itself_has_no_retention(tmp_path: Path):
    """[RAFT-41] In no profile: its records go with snapshots."""
    broker(tmp_path, topic())
    with segstore.open_dir(tmp_path, recovery="kafka", retention_ms=1) as logs:
        assert logs.log("__cluster_metadata", 0).config.retention_ms is None


def test_a_lost_id_comes_from_the_metadata_log(tmp_path: Path, capsys):
    """[UNI-5] Issue 28; where the others contradict it, nothing is written."""
    broker(tmp_path, topic())
    file = tmp_path / "orders-0" / "partition.metadata"
    before = file.read_bytes()
    file.unlink()
    with segstore.open_dir(tmp_path) as logs:
        assert logs.describe_topic("orders").topic_id == TOPIC_ID
        assert setting(logs, "retention.ms") == (None, SettingSource.NOT_SET)
    out, _ = run(capsys, "recover", tmp_path / "orders-0", "--dry-run")
    assert topic_id_text(TOPIC_ID) in out
    run(capsys, "recover", tmp_path / "orders-0")
    assert file.read_bytes() == before
    file.unlink()
    segstore.open(tmp_path / "orders-1", topic_id=OTHER_ID).close()
    with (
        segstore.open(tmp_path / "orders-0") as log,
        pytest.raises(InconsistentTopicIdError, match=METADATA_LOG),
    ):
        log.restore_topic_id()
    (tmp_path / "orders-1" / "partition.metadata").unlink()
    with segstore.open(tmp_path / "orders-1") as log:  # the cluster has one partition of it
        assert not log.restore_topic_id()


def test_stray_partitions_are_shown(tmp_path: Path):
    """[MGR-26] By what a broker asks at its start; nothing is done about them.

    LogManagerTest.testIsStrayKraftMissingTopicId.
    """
    moved = metadata_record(
        "PartitionRecord", partitionId=3, topicId=TOPIC_ID, replicas=[2, 4], isr=[2],
        directories=[UUID(int=9), UUID(int=9)],
    )  # fmt: skip
    broker(tmp_path, topic(), [moved])
    for name, topic_id in (
        ("orders-3", TOPIC_ID), ("orders-4", TOPIC_ID), ("gone-0", OTHER_ID), ("orders-1", None),
    ):  # fmt: skip
        segstore.open(tmp_path / name, topic_id=topic_id).close()
    with segstore.open_dir(tmp_path, read_only=True) as logs:
        found = logs.stray_partitions()
    assert {str(one): reason for one, reason in found.items()} == {
        "gone-0": "the cluster has no topic with its id",
        "orders-1": "it has no topic id",
        "orders-3": "its replicas are on the brokers 2, 4",
        "orders-4": "the topic has no such partition",
    }
    (tmp_path / METADATA_LOG).rename(tmp_path.parent / "away")
    with segstore.open_dir(tmp_path, read_only=True) as logs:
        assert logs.stray_partitions() == {}


def test_all_partitions_are_stray_where_the_cluster_has_none(tmp_path: Path):
    """[MGR-26] LogManagerTest.testIsStrayKraftReplicaWithEmptyImage."""
    broker(tmp_path, topic("elsewhere", OTHER_ID))
    for number in range(1, 5):
        segstore.open(tmp_path / f"orders-{number}", topic_id=TOPIC_ID).close()
    with segstore.open_dir(tmp_path, read_only=True) as logs:
        found = {str(one): reason for one, reason in logs.stray_partitions().items()}
    reason = "the cluster has no topic with its id"
    assert found == {f"orders-{number}": reason for number in range(5)}


def test_a_change_of_the_metadata_log_is_seen_by_the_next_open(tmp_path: Path):
    """The image is kept while no file changes, and a damaged one too."""
    broker(tmp_path, topic(retention_ms="5"))
    for limit in ("6", "7"):
        write_metadata_log(tmp_path, {0: metadata_batch(0, topic(retention_ms=limit))})
        with segstore.open(tmp_path / "orders-0", read_only=True) as log:
            assert log.config.retention_ms == int(limit)
    time.sleep(0.15)
    for _ in range(2):
        with segstore.open(tmp_path / "orders-0", read_only=True) as log:
            assert log.config.retention_ms == 7
    file = tmp_path / METADATA_LOG / f"{0:020}.log"
    file.write_bytes(file.read_bytes()[:-1] + b"!")
    time.sleep(0.15)
    for _ in range(2):
        with segstore.open(tmp_path / "orders-0", read_only=True) as log:
            assert "metadata log cannot be used" in " ".join(log.report.warnings)
    with segstore.open(tmp_path / METADATA_LOG, read_only=True) as log:
        assert "metadata log" not in " ".join(log.report.warnings)


# ---- commands ------------------------------------------------------------------------------------


def test_commands_go_by_it(tmp_path: Path, capsys):
    """``topics``, ``ls``, ``retain`` and ``maintain``, each with ``--metadata-log``."""
    data = broker(tmp_path / "data", topic(retention_bytes="100"))
    segstore.open(data / "own-0").close()
    (data / METADATA_LOG).rename(tmp_path / METADATA_LOG)
    named = ("--metadata-log", tmp_path)
    out, err = run(capsys, "topics", "list", data, *named)
    assert [line.split() for line in out.splitlines()[1:]] == [
        ["orders", "1", "delete", "7d", "100", "B"],
        ["own", "1", "keep"],
    ]
    assert "own-0 is stray: it has no topic id" in err
    out, err = run(capsys, "topics", "list", data, *named, "--json")
    assert [json.loads(line)["stray"] for line in out.splitlines()] == [
        {},
        {"0": "it has no topic id"},
    ]
    out, _ = run(capsys, "topics", "describe", data, "orders", *named)
    assert "retention.bytes" in out
    assert "metadata log" in out
    out, err = run(capsys, "ls", data, *named)
    assert "delete 7d 100 B" in out
    assert "own-0 is stray" in err
    out, _ = run(capsys, "ls", data)
    assert "delete" not in out
    out, _ = run(capsys, "retain", data, "--dry-run", *named)
    assert "by retention.bytes" in out
    out, err = run(capsys, "maintain", data, "--once", *named)
    assert "by retention.bytes" in out
    assert "Kafka's default of 7 days deletes: orders." in err
    _, err = run(capsys, "maintain", data, "--once", *named, "--config", "retention.ms=-1")
    assert "default" not in err


def test_a_metadata_log_that_ends_within_a_batch_deletes_nothing(tmp_path: Path):
    """[DUR-128] The setting that keeps the topic may be what is torn."""
    broker(tmp_path, topic(retention_ms="1"))
    log = next((tmp_path / "__cluster_metadata-0").glob("*.log"))
    log.write_bytes(log.read_bytes() + log.read_bytes()[:70])
    with segstore.open_dir(tmp_path) as logs:
        assert logs.log("orders", 0).config.retention_ms is None
        report = logs.maintain()
        assert report.deleted == ()
        assert [one.task for one in report.failed] == ["retention", "cleaning"]


@pytest.mark.parametrize("others", [0, 1], ids=["alone", "one of two"])
def test_an_empty_directory_is_no_metadata_log(tmp_path: Path, others: int):
    """[MGR-19] It says nothing of any topic: those of ``topics.json`` keep their settings."""
    paths = [tmp_path / "a", tmp_path / "b"][: 1 + others]
    with segstore.open_dir(paths) as logs:
        logs.create_topic("orders", config={"retention.ms": DAY})
    (tmp_path / "a" / METADATA_LOG).mkdir()
    with segstore.open_dir(paths) as logs:
        assert logs.log("orders", 0).config.retention_ms == DAY
        logs.alter_topic("orders", {"retention.ms": WEEK})
