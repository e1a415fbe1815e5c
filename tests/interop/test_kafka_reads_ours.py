"""Directories that segstore wrote, read by Kafka's own classes.

By FileRecords, the indexes and DumpLogSegments [D1].
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest

import segstore
from tests.interop.kafka_classes import dump_with_kafka, read_with_kafka
from tests.kits.warm_commands import run_warm

if TYPE_CHECKING:
    from pathlib import Path

CODECS = ["uncompressed", "gzip", "snappy", "lz4", "zstd"]
FIRST_TIMESTAMP = 1_700_000_000_000


def base64_text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def as_kafka_prints(record: segstore.Record) -> dict[str, Any]:
    return {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "timestampType": "CreateTime",
        "leaderEpoch": record.leader_epoch,
        "key": base64_text(record.key),
        "value": base64_text(record.value),
        "headers": [
            [base64_text(name.encode()), base64_text(value)] for name, value in record.headers
        ],
    }


def shapes(first: int, count: int) -> list[segstore.Record]:
    """Null and empty keys and values, headers with null values, sizes around the varint borders.

    Times that fall.
    """
    return [
        segstore.Record(
            key=None if i % 5 == 0 else f"k{i}".encode(),
            value=None if i % 7 == 0 else bytes([i % 251]) * ((i * 37) % 300),
            headers=[("h", None), ("é", b""), ("n", str(i).encode())][: i % 4],
            timestamp=FIRST_TIMESTAMP + (i * 7919) % 100_000,
        )
        for i in range(first, first + count)
    ]


@pytest.fixture(params=CODECS)
def written_by_us(
    request: pytest.FixtureRequest, tmp_path: Path
) -> tuple[Path, list[segstore.Record]]:
    """A log of several segments, rolled, truncated and reopened."""
    directory = tmp_path / "ours-0"
    settings: dict[str, Any] = {
        "internal_segment_bytes": 20_000,
        "index_interval_bytes": 500,
        "compression_type": request.param,
        "durability": "none",
    }
    with segstore.open(directory, **settings) as log:
        for start in range(0, 1000, 25):
            log.append(shapes(start, 25))
        log.truncate_to(700)
    with segstore.open(directory, **settings) as log:
        log.append(shapes(700, 50))
        records = list(log)
    return directory, records


def test_kafka_reads_what_we_wrote(written_by_us: tuple[Path, list[segstore.Record]]):
    """[D1] FileRecords.

    Batches valid, records equal; OffsetIndex and TimeIndex pass their sanity checks.
    """
    directory, records = written_by_us

    lines = [json.loads(line) for line in read_with_kafka(directory)]

    assert [line for line in lines if "offset" in line] == [
        as_kafka_prints(record) for record in records
    ]
    assert [line["index"] for line in lines if "index" in line] == sorted(
        int(file.stem) for file in directory.glob("*.log")
    )


def test_kafkas_dump_of_our_files_is_our_dump(written_by_us: tuple[Path, list[segstore.Record]]):
    """[format.md 18] DumpLogSegments and ``segstore dump`` print the same.

    Indexes checked against the log.
    """
    directory, _ = written_by_us
    files = ",".join(
        sorted(
            file.name
            for file in directory.iterdir()
            if file.suffix in {".log", ".index", ".timeindex"}
        )
    )
    arguments = ("--files", files, "--deep-iteration", "--print-data-log")

    ours = run_warm("dump", *arguments, cwd=directory)

    kafkas = dump_with_kafka(directory, *arguments)
    assert ours.stdout == kafkas
    assert b"isvalid: false" not in kafkas
