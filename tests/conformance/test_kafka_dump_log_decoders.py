"""Kafka's DumpLogSegmentsTest: records of the internal topics that brokers keep for themselves."""

from __future__ import annotations

import base64
import struct
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore import cli

if TYPE_CHECKING:
    from pathlib import Path

TOPIC_ID = bytes(range(16))
SEGMENT_ID = bytes(range(16, 32))
FRAME = b"\x01"


def text_of(uuid: bytes) -> str:
    return base64.urlsafe_b64encode(uuid).decode().rstrip("=")


def string(text: str) -> bytes:
    data = text.encode()
    return bytes([len(data) + 1]) + data


TOPIC_PARTITION = string("foo") + TOPIC_ID + struct.pack(">i", 0) + b"\0"
DELETE_MARKED = FRAME + b"\2\0" + TOPIC_PARTITION + struct.pack(">iqb", 0, 0, 0) + b"\0"
DELETE_TEXT = (
    f"RemotePartitionDeleteMetadata{{topicPartition={text_of(TOPIC_ID)}:foo-0, "
    "state=DELETE_PARTITION_MARKED, eventTimestampMs=0, brokerId=0}"
)
UPDATE = (
    FRAME
    + b"\1\0"
    + (TOPIC_PARTITION + SEGMENT_ID + b"\0")
    + struct.pack(">iq", 0, 0)
    + (b"\5" + bytes(4))
    + b"\1\0"
)
UPDATE_TEXT = (
    "RemoteLogSegmentMetadataUpdate{remoteLogSegmentId=RemoteLogSegmentId{"
    f"topicIdPartition={text_of(TOPIC_ID)}:foo-0, id={text_of(SEGMENT_ID)}}}, "
    "customMetadata=Optional[CustomMetadata{4 bytes}], state=COPY_SEGMENT_FINISHED, "
    "eventTimestampMs=0, brokerId=0}"
)


@pytest.fixture
def dump(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary):
    """Append values batch by batch, dump the segment with the options; lines of stdout."""

    def run(batches: list[list[bytes]], *options: str, segment: int = 0, **settings) -> list[str]:
        with segstore.open(tmp_path / "t-0", durability="none", **settings) as log:
            for values in batches:
                log.append([(None, value) for value in values])
        monkeypatch.chdir(tmp_path / "t-0")
        cli.main(["dump", "--files", f"{segment:020}.log", *options])
        return capfdbinary.readouterr()[0].decode().splitlines()

    return run


def counted(lines: list[str]) -> tuple[int, int]:
    """Lines of batches and of payloads."""
    return (
        sum(line.startswith("baseOffset: ") for line in lines),
        sum("payload: " in line for line in lines),
    )


def test_one_record_of_remote_log_metadata(dump):
    """[18.2] DumpLogSegmentsTest.testDumpRemoteLogMetadataOneRecordOneBatch."""
    lines = dump([[DELETE_MARKED]], "--remote-log-metadata-decoder")

    assert counted(lines) == (1, 1)
    assert lines[-1].endswith(f" payload: {DELETE_TEXT}")


def test_records_of_remote_log_metadata_in_one_batch(dump):
    """[18.2] DumpLogSegmentsTest.testDumpRemoteLogMetadataMultipleRecordsOneBatch."""
    lines = dump([[UPDATE, DELETE_MARKED]], "--remote-log-metadata-decoder")

    assert counted(lines) == (1, 2)
    assert lines[-2].endswith(f" payload: {UPDATE_TEXT}")
    assert lines[-1].endswith(f" payload: {DELETE_TEXT}")


def test_remote_log_metadata_of_a_later_segment(dump):
    """[18.2] DumpLogSegmentsTest.testDumpRemoteLogMetadataNonZeroStartingOffset."""
    lines = dump(
        [[DELETE_MARKED], [DELETE_MARKED]],
        "--remote-log-metadata-decoder",
        segment=1,
        internal_segment_bytes=150,
    )

    assert "Log starting offset: 1" in lines
    assert counted(lines) == (1, 1)


def register_broker(broker: int) -> bytes:
    """A RegisterBrokerRecord of version 0 without endpoints and features."""
    fields = struct.pack(">i16sq", broker, TOPIC_ID, 10)
    return FRAME + b"\0\0" + fields + b"\1\1" + b"\0" + b"\1" + b"\0"


TOPIC = FRAME + b"\2\0" + string("bar") + TOPIC_ID + b"\0"
PARTITION_CHANGE = FRAME + b"\5\0" + struct.pack(">i", 0) + TOPIC_ID + b"\1\1\4" + b"\0\0\0\1"
UNKNOWN_FRAME = b"\x90\x4e\x90\x4e"


@pytest.mark.parametrize("options", [[], ["--skip-record-metadata"]])
def test_records_of_the_metadata_log(dump, options: list[str]):
    """[6.4, 18.2] DumpLogSegmentsTest.testDumpMetadataRecords: what is not known is skipped."""
    known = [register_broker(0), register_broker(1), TOPIC, PARTITION_CHANGE]
    lines = dump([[*known, UNKNOWN_FRAME, TOPIC]], "--cluster-metadata-decoder", *options)

    text = "\n".join(lines)
    assert text.count('"type":"REGISTER_BROKER_RECORD"') == 2
    assert text.count('{"type":"TOPIC_RECORD","version":0,"data":{"name":"bar"') == 2
    assert '{"type":"PARTITION_CHANGE_RECORD","version":0,' in text
    assert '"leader":1' in text
    assert text.count("skipping") == 1
    assert "unknown frame version 10000" in text
    assert ("CreateTime: " in lines[3]) == (not options)
