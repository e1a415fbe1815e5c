"""Kafka's DumpLogSegmentsTest: what the dump tool must print."""

from __future__ import annotations

import os
import uuid
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore import cli
from segstore.records.control_batch import build_kraft_batch
from segstore.records.kraft_record import (
    Endpoint,
    KRaftVersion,
    KRaftVoter,
    KRaftVoters,
    SnapshotFooter,
    SnapshotHeader,
)
from tests.kits.records_kit import build

if TYPE_CHECKING:
    from pathlib import Path

LOG = f"{0:020d}.log"
INDEX = f"{0:020d}.index"
TIME_INDEX = f"{0:020d}.timeindex"
START = 1700000000000
COUNTS = (10, 20, 20, 10)
TOPIC_RECORD = b"\1\2\0" + b"\4bar" + bytes(range(16)) + b"\0"
"""Frame 1, type 2, version 0: name, topic id, no tagged fields."""


def message(offset: int) -> tuple[bytes | None, bytes | None]:
    """Key and value: both, key only, value only, neither, batch by batch."""
    batch = 0 if offset < 10 else 1 if offset < 30 else 2 if offset < 50 else 3
    key = b"message key %d" % offset if batch in {0, 1} else None
    value = b"message value %d" % offset if batch in {0, 2} else None
    return key, value


@pytest.fixture
def partition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Log of four uncompressed batches, index interval 128, as working directory."""
    path = tmp_path / "kafka-0"
    with segstore.open(path, durability="none", index_interval_bytes=128) as log:
        offset = 0
        for count in COUNTS:
            batch = range(offset, offset + count)
            log.append([(START + n, *message(n)) for n in batch])
            offset += count
    monkeypatch.chdir(path)
    return path


@pytest.fixture
def dump(capfdbinary: pytest.CaptureFixture[bytes]):
    """Run the command; return its exit code and the lines of stdout and stderr."""

    def run(*arguments: str) -> tuple[int, list[str], list[str]]:
        code = cli.main(["dump", *arguments])
        out, err = capfdbinary.readouterr()
        return code, out.decode().splitlines(), err.decode().splitlines()

    return run


@pytest.mark.parametrize(
    "options",
    [
        ["--print-data-log"],
        ["--print-data-log", "--deep-iteration"],
        ["--value-decoder-class", "org.apache.kafka.tools.api.StringDecoder"],
        ["--key-decoder-class", "org.apache.kafka.tools.api.StringDecoder"],
    ],
    ids=" ".join,
)
@pytest.mark.usefixtures("partition")
def test_contents_are_printed(dump, options: list[str]):
    """[format.md 18.2] Kafka: DumpLogSegmentsTest.testPrintDataLog."""
    _, lines, _ = dump("--files", LOG, *options)

    expected = []
    offset = 0
    for count in COUNTS:
        expected.append((f"baseOffset: {offset} lastOffset: {offset + count - 1} ", ""))
        for number in range(offset, offset + count):
            key, value = message(number)
            tail = "headerKeys: []"
            tail += "" if key is None else f" key: {key.decode()}"
            tail += "" if value is None else f" payload: {value.decode()}"
            expected.append((f"| offset: {number} ", tail))
        offset += count
    assert lines[:2] == [f"Dumping {LOG}", "Log starting offset: 0"]
    assert len(lines[2:]) == len(expected)
    for line, (begin, end) in zip(lines[2:], expected, strict=True):
        assert line.startswith(begin)
        assert line.endswith(end)


@pytest.mark.usefixtures("partition")
def test_deep_iteration_alone_prints_no_contents(dump):
    """[format.md 18.2] Kafka: DumpLogSegmentsTest.testPrintDataLog, its last two cases."""
    _, deep, _ = dump("--files", LOG, "--deep-iteration")
    _, flat, _ = dump("--files", LOG)

    assert sum(line.endswith("headerKeys: []") for line in deep) == sum(COUNTS)
    assert not any("message" in line for line in deep)
    assert not any(line.startswith("|") for line in flat)
    assert len(flat) == 2 + len(COUNTS)


def test_a_time_index_that_was_not_closed_has_no_errors(partition: Path, dump):
    """[format.md 18.4] Kafka: DumpLogSegmentsTest.testDumpTimeIndexErrors."""
    for name in (INDEX, TIME_INDEX):
        with (partition / name).open("ab") as file:
            file.write(bytes(1200))  # the preallocated tail of a file that is in use

    assert dump("--files", f"{INDEX},{TIME_INDEX}", "--verify-index-only") == (
        0,
        [f"Dumping {INDEX}", f"Dumping {TIME_INDEX}"],
        [],
    )


def test_an_empty_index_says_so(partition: Path, dump):
    """[format.md 18.3] Kafka: DumpLogSegmentsTest.testDumpEmptyIndex."""
    (partition / INDEX).write_bytes(b"")

    assert dump("--files", INDEX)[1] == [f"Dumping {INDEX}", f"{INDEX} is empty."]


def test_an_empty_log_has_only_its_start(tmp_path: Path, dump):
    """[format.md 18.2] Kafka: DumpLogSegmentsTest.testDumpRemoteLogMetadataEmpty."""
    (tmp_path / LOG).write_bytes(b"")

    code, lines, _ = dump("--files", str(tmp_path / LOG), "--print-data-log")

    assert code == 0
    assert lines[1:] == ["Log starting offset: 0"]


def test_a_missing_file_is_an_error(tmp_path: Path, dump):
    """Kafka: DumpLogSegmentsTest.testDumpRemoteLogMetadataNoSuchFileException."""
    code, _, complaint = dump("--files", str(tmp_path / LOG))

    assert code == 2
    assert "no such file" in complaint[0]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_an_error(partition: Path, dump):
    """Kafka: DumpLogSegmentsTest.testDumpRemoteLogMetadataIoException."""
    (partition / LOG).chmod(0o200)

    code, _, complaint = dump("--files", LOG)

    assert code == 1
    assert "Permission" in complaint[0]


HEADER = bytes.fromhex(
    "0000000000000000000000470000000102c7ac78040020000000000000018bcfe568000000018bcfe56800"
    "ffffffffffffffffffffffffffff000000012a00000008000000031600000000018bcfe568000000"
)
VERSION = bytes.fromhex(
    "0000000000000000000000410000000102a89c55860020000000000000018bcfe568000000018bcfe56800"
    "ffffffffffffffffffffffffffff000000011e00000008000000050a000000010000"
)
FOOTER = bytes.fromhex(
    "00000000000000000000003f00000001028f6608e60020000000000000018bcfe568000000018bcfe56800"
    "ffffffffffffffffffffffffffff000000011a00000008000000040600000000"
)


def test_control_records_of_a_snapshot(tmp_path: Path, dump):
    """[format.md 6.3, 19.7] The control batches of the worked examples, without the decoder."""
    snapshot = tmp_path / f"{0:020d}-{0:010d}.checkpoint"
    snapshot.write_bytes(HEADER + VERSION + FOOTER)

    _, lines, _ = dump("--files", str(snapshot), "--print-data-log")
    _, without, _ = dump("--files", str(snapshot), "--print-data-log", "--skip-record-metadata")

    text = "\n".join(lines)
    assert lines[1] == "Snapshot end offset: 0, epoch: 0"
    for expected in (
        'SnapshotHeader {"version":0,"lastContainedLogTimestamp":1700000000000}',
        'KRaftVersion {"version":0,"kRaftVersion":1}',
        'SnapshotFooter {"version":0}',
    ):
        assert expected in text
    assert "Snapshot end offset: 0, epoch: 0" in without
    assert not any("SnapshotHeader" in line or "KRaftVersion" in line for line in without)


def test_a_snapshot_of_the_metadata_log(tmp_path: Path, dump):
    """[6.3, 18.2] Kafka: DumpLogSegmentsTest.testDumpMetadataSnapshot.

    Control records go with their metadata; data records stay, without theirs.
    """
    voters = [
        KRaftVoter(n, uuid.UUID(int=n), [Endpoint("CONTROLLER", "localhost", 9990 + n)], 0, 1)
        for n in (1, 2, 3)
    ]
    control = [
        build_kraft_batch(offset, 10000, 0, value)
        for offset, value in enumerate(
            [SnapshotHeader(10000), KRaftVersion(1), KRaftVoters(voters)]
        )
    ]
    data = build([(3, 10000, None, TOPIC_RECORD)], partition_leader_epoch=0)
    footer = build_kraft_batch(4, 10000, 0, SnapshotFooter())
    snapshot = tmp_path / f"{0:020d}-{0:010d}.checkpoint"
    snapshot.write_bytes(b"".join(control) + data + footer)
    options = ("--files", str(snapshot), "--cluster-metadata-decoder")

    _, lines, _ = dump(*options)
    _, without, _ = dump(*options, "--skip-record-metadata")

    text, short = "\n".join(lines), "\n".join(without)
    for expected in (
        'SnapshotHeader {"version":0,"lastContainedLogTimestamp":10000}',
        'KRaftVersion {"version":0,"kRaftVersion":1}',
        'KRaftVoters {"version":0,"voters":[{"voterId":1,',
        'SnapshotFooter {"version":0}',
    ):
        assert expected in text
        assert expected not in short
    assert lines[1] == without[1] == "Snapshot end offset: 0, epoch: 0"
    assert "lastContainedLogTimestamp" not in short
    assert text.count("TOPIC_RECORD") == short.count("TOPIC_RECORD") == 1
