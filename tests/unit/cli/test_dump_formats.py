"""``segstore dump --format``: the same facts as the text, as rows for programs."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import segstore
from tests.kits.warm_commands import run_warm

if TYPE_CHECKING:
    from pathlib import Path

LOG = f"{0:020}.log"
TIME = 1_700_000_000_000
RECORDS = [
    segstore.Record(
        key=b"k%d" % i if i % 3 else None,
        value=b'\xff\x00,"\n%d' % i if i % 5 else None,
        headers=[("h", b"\x80"), ("n", None)][: i % 3],
        timestamp=TIME + i,
    )
    for i in range(20_000)
]


@pytest.fixture(scope="module")
def partition(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """More rows than one chunk."""
    path = tmp_path_factory.mktemp("dump") / "t-0"
    with segstore.open(path, durability="none") as log:
        for start in range(0, len(RECORDS), 4000):
            log.append(RECORDS[start : start + 4000])
    return path


def dump(partition: Path, form: str, *options: str) -> bytes:
    result = run_warm("dump", "--files", LOG, "--format", form, *options, cwd=partition)
    assert result.stderr == b""
    assert result.returncode == 0
    return result.stdout


@pytest.mark.parametrize("form", ["arrow", "parquet"])
def test_arrow_and_parquet_hold_every_byte(partition: Path, form: str):
    """Keys and payloads are binary, a null is a null."""
    data = dump(partition, form, "--print-data-log")

    table = (
        pa.ipc.open_stream(data).read_all() if form == "arrow" else pq.read_table(io.BytesIO(data))
    )
    assert table["offset"].to_pylist() == list(range(len(RECORDS)))
    assert table["timestamp"].to_pylist() == [record.timestamp for record in RECORDS]
    assert table["key"].to_pylist() == [record.key for record in RECORDS]
    assert table["payload"].to_pylist() == [record.value for record in RECORDS]
    assert table["headers"].to_pylist() == [
        [{"key": key, "value": value} for key, value in record.headers] for record in RECORDS
    ]


def test_a_row_a_batch_without_deep_iteration(partition: Path):
    """[format.md 18.2] The words of the batch line, in its order."""
    rows = [json.loads(line) for line in dump(partition, "json").splitlines()]

    assert sum(row["count"] for row in rows) == len(RECORDS)
    assert [row["position"] for row in rows[1:]] == [
        row["position"] + row["size"] for row in rows[:-1]
    ]
    assert all(row["isvalid"] and row["crc"] > 0 for row in rows)
    assert list(rows[0])[:4] == ["file", "position", "baseOffset", "lastOffset"]


def test_json_and_csv_show_bytes_as_the_text_does(partition: Path):
    """U+FFFD where bytes are no UTF-8; null is null in JSON and nothing in CSV."""
    rows = [json.loads(line) for line in dump(partition, "json", "--print-data-log").splitlines()]
    cells = list(csv.DictReader(io.StringIO(dump(partition, "csv", "--print-data-log").decode())))

    assert len(rows) == len(cells) == len(RECORDS)
    assert rows[0]["key"] is None
    assert rows[0]["payload"] is None
    assert rows[1]["payload"] == '\ufffd\x00,"\n1'
    assert [row["payload"] or "" for row in rows] == [cell["payload"] for cell in cells]
    assert cells[1]["headers"] == '[{"key":"h","value":"\ufffd"}]'


def test_a_log_without_batches_has_a_schema_all_the_same(tmp_path: Path):
    """An empty stream is a stream."""
    (tmp_path / LOG).write_bytes(b"")

    assert pa.ipc.open_stream(dump(tmp_path, "arrow")).read_all().num_rows == 0
    assert pq.read_table(io.BytesIO(dump(tmp_path, "parquet"))).num_rows == 0
    assert dump(tmp_path, "csv").count(b"\n") == 1
    assert dump(tmp_path, "json") == b""


def test_what_comes_before_damage_is_a_whole_stream(partition: Path, tmp_path: Path):
    """Exit code 1, and the rows before the error can be read."""
    data = (partition / LOG).read_bytes()
    (tmp_path / LOG).write_bytes(data + data[:8] + b"\x00\x00\x00\x01" + data[12:90])

    result = run_warm("dump", "--files", LOG, "--format", "arrow", cwd=tmp_path)

    assert result.returncode == 1
    assert b"Found record size 1 smaller than minimum record overhead" in result.stderr
    assert sum(pa.ipc.open_stream(result.stdout).read_all()["count"].to_pylist()) == len(RECORDS)


def test_other_files_have_text_only(partition: Path):
    """A clear sentence, exit code 2."""
    result = run_warm("dump", "--files", f"{0:020}.index", "--format", "parquet", cwd=partition)

    assert result.returncode == 2
    assert b"is no .log and no .checkpoint file" in result.stderr
