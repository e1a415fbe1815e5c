"""``segstore metadata``: the image of a broker's metadata log, as text and as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from segstore import cli
from segstore.log.files.metadata_image_reader import read_metadata_image
from tests.kits.metadata_kit import (
    TIMESTAMP,
    metadata_batch,
    metadata_record,
    snapshot_bytes,
    topic_records,
    write_metadata_log,
    write_snapshot,
)

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "never to be seen"
ALL_THREE = ("first", "second", "third")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A log with a broker, two topics, and a secret among the settings."""
    records = [
        metadata_record("FeatureLevelRecord", name="metadata.version", featureLevel=30),
        metadata_record(
            "RegisterBrokerRecord",
            brokerId=1,
            endPoints=[{"name": "SSL", "host": "h", "port": 9093, "securityProtocol": 1}],
            logDirs=[UUID(int=9)],
        ),
        *topic_records("orders", retention="1"),
        *topic_records("secrets", UUID(int=8)),
        *(
            metadata_record("ConfigRecord", resourceType=4, resourceName="1", name=key, value=value)
            for key, value in (("log.cleaner.threads", "2"), ("ssl.key.password", SECRET))
        ),
        metadata_record("ClientQuotaRecord", entity=[{"entityType": "user", "entityName": None}]),
        metadata_record("UserScramCredentialRecord", name="u", mechanism=1, storedKey=b"xyz"),
    ]
    return write_metadata_log(tmp_path, {0: metadata_batch(0, records)})


def test_the_text_has_brokers_topics_and_settings(
    directory: Path, capsys: pytest.CaptureFixture[str]
):
    """Secrets are hidden by the names of their settings."""
    assert cli.main(["metadata", str(directory.parent)]) == 0
    printed = capsys.readouterr()

    lines = [line.split() for line in printed.out.splitlines()]
    assert lines[0] == [str(directory)]
    assert printed.err == ""
    assert "features: metadata.version 30" in printed.out
    broker = next(line for line in lines if line[:1] == ["1"])
    assert broker[1:4] == ["active", "SSL://h:9093", "AAAAAAAAAAAAAAAAAAAACQ"]
    assert broker[4:] == ["log.cleaner.threads=2,", "ssl.key.password=(hidden)"]
    assert ["orders", "AAAAAAAAAAcAAAAAAAAAAA", "1", "retention=1"] in lines
    assert ["secrets", "AAAAAAAAAAAAAAAAAAAACA", "1", "-"] in lines


def test_the_partitions_of_a_topic(directory: Path, capsys: pytest.CaptureFixture[str]):
    assert cli.main(["metadata", str(directory), "-t", "orders"]) == 0
    printed = capsys.readouterr().out.splitlines()

    assert printed[0].split() == ["PARTITION", "LEADER", "EPOCH", "REPLICAS", "ISR", "DIRECTORIES"]
    assert printed[1].split() == ["0", "0", "0", "1", "1", "AAAAAAAAAAAAAAAAAAAACQ"]
    assert cli.main(["metadata", str(directory), "-t", "none"]) == 2
    assert "there is no topic 'none'; the topics are: orders, secrets" in capsys.readouterr().err


def test_json_has_everything(directory: Path, capsys: pytest.CaptureFixture[str]):
    """Ids as Kafka writes them; no secret."""
    assert cli.main(["metadata", str(directory), "--json"]) == 0
    text = capsys.readouterr().out
    image = json.loads(text)

    assert SECRET not in text
    assert (image["end_offset"], image["last_timestamp"]) == (11, TIMESTAMP)
    orders = image["topics"]["orders"]
    assert (orders["topic_id"], orders["config"]) == ("AAAAAAAAAAcAAAAAAAAAAA", {"retention": "1"})
    assert orders["partitions"]["0"]["replicas"] == [1]
    assert image["brokers"]["1"]["directories"] == ["AAAAAAAAAAAAAAAAAAAACQ"]
    assert image["configs"][0]["config"]["ssl.key.password"] == "(hidden)"
    assert image["client_quotas"] == [{"entity": {"user": None}, "quotas": {"": 0.0}}]
    assert image["scram_iterations"] == [{"user": "u", "mechanism": 1, "iterations": 0}]
    assert cli.main(["metadata", str(directory), "--json", "-t", "orders"]) == 0
    assert json.loads(capsys.readouterr().out)["name"] == "orders"


def test_what_is_left_out_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """On stderr; it is no error."""
    values = [b"\x01\x63\x00\x00", metadata_record("BeginTransactionRecord"), *topic_records()]
    directory = write_metadata_log(tmp_path, {0: metadata_batch(0, values) + b"half"})
    write_snapshot(directory, 4, b"")

    assert cli.main(["metadata", str(tmp_path)]) == 0

    said = capsys.readouterr().err
    assert "4 bytes after the last whole batch are left out" in said
    assert "the records from offset 1 on are left out" in said
    assert "records of unknown types are left out, by type: 99 (1)" in said
    assert f"{4:020}-{5:010}.checkpoint is incomplete" in said


def test_damage_and_wrong_paths_have_their_exit_codes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """1 for damage, 2 for a path without a metadata log."""
    assert cli.main(["metadata", str(tmp_path)]) == 2
    write_metadata_log(tmp_path, {0: b"x" * 100})

    assert cli.main(["metadata", str(tmp_path)]) == 1

    assert "the metadata log is damaged" in capsys.readouterr().err


def test_what_was_known_at_an_offset(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """[RAFT-20, RAFT-47] From the newest snapshot that ends there or below, and the log."""
    first = topic_records("first", UUID(int=21 << 64))
    second = topic_records("second", UUID(int=22 << 64))
    third = topic_records("third", UUID(int=23 << 64))
    directory = write_metadata_log(
        tmp_path, {2: metadata_batch(2, second), 4: metadata_batch(4, third)}
    )
    write_snapshot(directory, 2, snapshot_bytes([first]))
    write_snapshot(directory, 6, snapshot_bytes([first, second, third]))
    expected = {2: ["first"], 3: ["first", "second"], 4: ["first", "second"], 6: [*ALL_THREE]}

    for offset, topics in expected.items():
        assert cli.main(["metadata", str(tmp_path), "--at", str(offset), "--json"]) == 0
        image = json.loads(capsys.readouterr().out)
        assert [*image["topics"]] == topics
        assert image["end_offset"] == offset
    assert [len(image["topics"]["third"]["partitions"])] == [1]
    assert cli.main(["metadata", str(tmp_path), "--at", "1"]) == 2
    assert "what the metadata was at offset 1 is gone" in capsys.readouterr().err
    assert cli.main(["metadata", str(tmp_path), "--at", "7"]) == 2
    assert "the metadata log ends before offset 7" in capsys.readouterr().err
    assert cli.main(["metadata", str(tmp_path), "--at", "-1"]) == 2


def test_what_was_known_inside_a_batch(tmp_path: Path):
    """A later snapshot that is damaged does not matter."""
    directory = write_metadata_log(tmp_path, {0: metadata_batch(0, topic_records(retention="1"))})
    write_snapshot(directory, 3, b"x" * 100)

    assert read_metadata_image(directory, at=0).topics == {}
    assert read_metadata_image(directory, at=2).topic_config("orders") == {}
    assert read_metadata_image(directory, at=2).end_offset == 2
