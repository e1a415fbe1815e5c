"""The metadata log that is written for a log directory without a broker."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore import cli
from segstore._core import first_batch_size, wall_clock_ms
from segstore.cli import metadata
from segstore.errors import (
    AlreadyExistsError,
    DiskFullError,
    IllegalArgumentError,
    IllegalStateError,
)
from segstore.log.files.metadata_image_reader import read_metadata_image
from segstore.manager import metadata_writing
from segstore.manager.metadata_writing import METADATA_VERSION, write_metadata_log
from segstore.records.messages.message_schema import parse_schemas
from segstore.records.messages.message_writer import framed_message
from segstore.records.messages.metadata_messages import METADATA_MESSAGES
from tests.kits.metadata_kit import metadata_record
from tests.kits.records_kit import build, simple

if TYPE_CHECKING:
    from pathlib import Path

NODE = 7


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A log directory with two topics, one of them in a later leader epoch."""
    with segstore.open_dir(tmp_path) as manager:
        manager.create_topic("orders", 2, config={"cleanup.policy": "compact,delete"})
        manager.create_topic("events", config={"retention.ms": "1000"})
        manager.log("orders", 1).append([(b"k", b"v")])
        manager.log("orders", 1).assign_epoch_start_offset(4, 1)
        manager.log("orders", 1).append([(b"k", b"w")])
    return tmp_path


def test_the_image_has_topics_ids_and_settings(directory: Path):
    written = write_metadata_log(directory, node_id=NODE)
    image = read_metadata_image(directory)

    assert written.topics == ("events", "orders")
    assert image.end_offset == written.records_count
    assert image.open_transaction_offset is None
    assert image.metadata_version == METADATA_VERSION
    assert image.topic_config("orders") == {
        "cleanup.policy": "compact,delete",
        "retention.ms": "-1",
    }
    assert image.topic_config("events") == {"retention.ms": "1000"}
    first, second = image.topics["orders"].partitions.values()
    assert (first.replicas, first.isr, first.leader) == ((NODE,), (NODE,), -1)
    assert first.directories == (written.directory_id,)
    assert (first.leader_epoch, second.leader_epoch) == (0, 4)
    with segstore.open_dir(directory) as manager:
        described = manager.describe_topic("orders")
        assert described.topic_id == image.topics["orders"].topic_id
        assert manager.stray_partitions() == {}
        assert len(manager.log("orders", 1)) == 2


def test_the_topic_that_says_what_is_remote_is_handed_over_too(tmp_path: Path):
    """[TIER-21] Else a broker makes an empty one, and forgets all remote segments."""
    data = tmp_path / "data"
    with segstore.open_dir(data, remote=tmp_path / "tier") as logs:
        logs.create_topic("orders", config={"remote.storage.enable": "true"})
        logs.append("orders", [(None, b"v")], partition=0)
        logs.log("orders", 0).roll()
        assert len(logs.maintain().copied) == 1
        described = logs.describe_topic("__remote_log_metadata")
    assert write_metadata_log(data).topics == ("__remote_log_metadata", "orders")
    image = read_metadata_image(data)
    assert image.topics["__remote_log_metadata"].topic_id == described.topic_id
    assert image.topic_config("__remote_log_metadata") == {
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "retention.bytes": "-1",
    }


def test_what_exists_is_kept(directory: Path):
    """Nothing is changed where there is a metadata log, or the directory is another node's."""
    written = write_metadata_log(directory, node_id=NODE)
    before = (directory / "meta.properties").read_bytes()
    with pytest.raises(AlreadyExistsError):
        write_metadata_log(directory, node_id=NODE)
    log = directory / "__cluster_metadata-0"
    for file in log.iterdir():
        file.unlink()
    log.rmdir()
    with pytest.raises(IllegalArgumentError, match="another node"):
        write_metadata_log(directory, node_id=NODE + 1)
    with pytest.raises(IllegalArgumentError, match="another node"):
        write_metadata_log(directory, node_id=NODE, cluster_id="other")
    assert not log.exists()

    again = write_metadata_log(directory, node_id=NODE)
    assert (again.cluster_id, again.directory_id) == (written.cluster_id, written.directory_id)
    assert (directory / "meta.properties").read_bytes() == before


def test_topics_that_no_cluster_can_have_are_refused(directory: Path):
    """Before anything is written."""
    with segstore.open_dir(directory) as manager:
        manager.delete_partition("orders", 0)
    with pytest.raises(IllegalStateError, match="lacks partitions"):
        write_metadata_log(directory)
    assert not (directory / "meta.properties").exists()
    assert not (directory / "__cluster_metadata-0").exists()


def test_producer_ids_that_records_have_are_not_given_out_again(tmp_path: Path):
    """A controller gives out the next one; the topic has a producer with id 41."""
    batch = build(
        simple(timestamps=(wall_clock_ms(),)), producer_id=41, producer_epoch=0, base_sequence=0
    )
    with segstore.open_dir(tmp_path) as manager:
        manager.create_topic("orders")
        manager.log("orders", 0).append_as_leader(batch)
    write_metadata_log(tmp_path)

    assert read_metadata_image(tmp_path).next_producer_id == 42


def test_a_write_that_fails_leaves_nothing(directory: Path, monkeypatch: pytest.MonkeyPatch):
    """Not even ``meta.properties``: a broker would begin a new cluster there."""

    def fail(*_: object) -> bytes:
        raise DiskFullError("no space", found="0 bytes", expected="more")

    with monkeypatch.context() as patched:
        patched.setattr(metadata_writing, "_batch", fail)
        with pytest.raises(DiskFullError):
            write_metadata_log(directory)

    assert not [*directory.glob("__cluster_metadata*"), *directory.glob("meta.properties")]
    assert write_metadata_log(directory).topics == ("events", "orders")


def test_a_part_of_a_metadata_log_has_no_topics(directory: Path, monkeypatch: pytest.MonkeyPatch):
    """Its transaction has no end: segstore and a broker leave out what is there."""
    monkeypatch.setattr(metadata_writing, "BATCH_RECORDS", 5)
    write_metadata_log(directory)
    (segment,) = (directory / "__cluster_metadata-0").glob("*.log")
    data = segment.read_bytes()
    segment.write_bytes(data[: first_batch_size(data)])

    image = read_metadata_image(directory)
    assert image.open_transaction_offset == 0
    assert not image.topics
    with segstore.open_dir(directory) as manager:
        assert [*manager.topics()] == ["__cluster_metadata", "events", "orders"]
        assert manager.describe_topic("events").settings


def test_the_command(directory: Path, capsys: pytest.CaptureFixture[str]):
    assert metadata.METADATA_VERSION == METADATA_VERSION
    words = ["metadata", "write", str(directory), "--node-id", "3", "--cluster-id", "abc"]
    assert cli.main(words) == 0
    assert capsys.readouterr().out.endswith("2 topics, cluster.id=abc, node.id=3\n")
    assert cli.main(["metadata", str(directory), "-t", "orders"]) == 0
    assert cli.main(words) == 1
    assert "has a metadata log" in capsys.readouterr().err
    assert cli.main(["metadata", "a", "b"]) == 2


def test_messages_are_written_as_they_are_read():
    """By the writer that the tests have of their own."""
    schemas = parse_schemas(METADATA_MESSAGES)
    for name, version, fields in (
        ("TopicRecord", 0, {"name": "orders", "topicId": uuid.UUID(int=7)}),
        ("BeginTransactionRecord", 0, {"name": "words"}),
        ("EndTransactionRecord", 0, {}),
        ("PartitionRecord", 2, {"replicas": [1, 2], "eligibleLeaderReplicas": [3]}),
        ("RegisterBrokerRecord", 4, {"rack": "r", "logDirs": [uuid.UUID(int=9)]}),
    ):
        assert framed_message(schemas[name], version, fields) == metadata_record(
            name, version, **fields
        )
