"""A real broker's directories, read by us.

Records, look-ups by timestamp, index files, dump text [D1, D2].
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

import segstore
from segstore import cli
from segstore.types import FileTimestampAndOffset, SpecialTimestamp
from tests.interop.partition_files import Rebuilt, broker_indexes, rebuild_segment, segment_bases

if TYPE_CHECKING:
    from pathlib import Path

    from tests.interop.conftest import GoldenSummary
    from tests.interop.golden_case import GoldenPartition

NAMED_TARGETS = {
    "earliest": SpecialTimestamp.EARLIEST,
    "latest": SpecialTimestamp.LATEST,
    "max_timestamp": SpecialTimestamp.MAX,
    "earliest_local": SpecialTimestamp.EARLIEST_LOCAL,
    "latest_tiered": SpecialTimestamp.LATEST_TIERED,
}
NOTHING_FOUND = FileTimestampAndOffset(-1, -1, None)


def run_cli(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[bytes]:
    environment = os.environ | {"PYTHONIOENCODING": "utf-8"}
    return subprocess.run(
        [sys.executable, "-m", "segstore", *arguments],
        cwd=cwd,
        capture_output=True,
        check=False,
        env=environment,
    )


def test_every_record_is_what_a_consumer_of_the_broker_saw(
    golden_partition: GoldenPartition, golden_summary: GoldenSummary
):
    """[D1] ``segstore cat --format jsonl`` prints records/<topic>-<n>.jsonl.

    Fields and order included [DUR-65].
    """
    if not golden_partition.records_file.exists():
        pytest.skip("the broker's consumer did not read this topic")
    expected = golden_partition.records_file.read_bytes().splitlines()

    printed = run_cli(
        "cat", str(golden_partition.directory), "--format", "jsonl", cwd=golden_partition.data
    )

    assert printed.stderr == b""
    assert printed.returncode == 0
    lines = printed.stdout.splitlines()
    golden_summary.add(
        "records", sum(a == b for a, b in zip(lines, expected, strict=False)), len(expected)
    )
    assert lines == expected


def test_columns_hold_the_same_records(golden_partition: GoldenPartition):
    """[D7] The Arrow columns against records/<topic>-<n>.jsonl."""
    if not golden_partition.records_file.exists():
        pytest.skip("the broker's consumer did not read this topic")
    expected = [
        json.loads(line) for line in golden_partition.records_file.read_bytes().splitlines()
    ]

    with segstore.open(golden_partition.directory, read_only=True) as log:
        table = log.to_arrow(
            columns=["offset", "timestamp", "key", "value", "headers", "leaderEpoch"]
        )

    assert table["offset"].to_pylist() == [record["offset"] for record in expected]
    assert table["timestamp"].cast("int64").to_pylist() == [
        record["timestamp"] for record in expected
    ]
    assert table["leaderEpoch"].to_pylist() == [record["leaderEpoch"] for record in expected]
    assert [len(headers or ()) for headers in table["headers"].to_pylist()] == [
        len(record["headers"]) for record in expected
    ]
    assert [key is None for key in table["key"].to_pylist()] == [
        record["key"] is None for record in expected
    ]


def test_every_look_up_by_timestamp_is_answered_as_the_broker_did(
    golden_partition: GoldenPartition, golden_summary: GoldenSummary
):
    """[TS-1, TS-2, TS-3] records/offsets_for_times.json."""
    answers = golden_partition.timestamp_answers
    with segstore.open(golden_partition.directory, read_only=True) as log:
        ours = [(answer, look_up(log, answer["target"])) for answer in answers]

    later_epoch = golden_partition.epoch_begun_after_the_answers
    wrong = []
    for answer, found in ours:
        expected = expected_answer(answer)
        if isinstance(answer["target"], str) and found.leader_epoch == later_epoch is not None:
            expected = expected._replace(leader_epoch=later_epoch)
            golden_summary.name(
                f"{golden_partition} {answer['target']}: epoch {later_epoch} began after the"
                " broker was asked, without a record"
            )
        if found != expected:
            wrong.append((answer, found))
    golden_summary.add("look-ups by timestamp", len(ours) - len(wrong), len(ours))
    assert wrong == []


def look_up(log: segstore.UnifiedLog, target: str | int) -> FileTimestampAndOffset:
    found = log.fetch_offset_by_timestamp(
        NAMED_TARGETS[target] if isinstance(target, str) else target
    )
    return NOTHING_FOUND if found is None or found.offset < 0 else found


def expected_answer(answer: dict[str, Any]) -> FileTimestampAndOffset:
    if answer["offset"] < 0:
        return NOTHING_FOUND
    return FileTimestampAndOffset(answer["timestamp"], answer["offset"], answer["leaderEpoch"])


def test_log_start_and_end_are_the_brokers(golden_partition: GoldenPartition):
    """[DUR-65] Log start from the parent's checkpoint, log end from the files."""
    broker = golden_partition.description["broker"].get(golden_partition.name)
    expected = golden_partition.description["expected_data"]["partitions"][golden_partition.name]

    with segstore.open(golden_partition.directory, read_only=True) as log:
        assert log.log_end_offset == expected["log_end_offset"]
        if broker is not None:
            assert log.log_start_offset == broker["log_start_offset"]
            assert log.high_watermark == broker["high_watermark"]


def test_rebuilt_indexes_equal_the_brokers_files(
    golden_partition: GoldenPartition, golden_summary: GoldenSummary, tmp_path: Path
):
    """[SEG-40, DUR-52] Both indexes from the .log alone.

    [SEG-43] says where a live index may differ.
    """
    bases = segment_bases(golden_partition.directory)
    ends = [
        *bases[1:],
        golden_partition.description["expected_data"]["partitions"][golden_partition.name][
            "log_end_offset"
        ],
    ]
    for base, end in zip(bases, ends, strict=True):
        rebuilt = rebuild_segment(golden_partition, base, tmp_path)
        offsets, times = broker_indexes(golden_partition.directory, base)
        restarted = any(base < start <= end for start in golden_partition.leader_epoch_starts)
        if restarted:
            check_plausible(rebuilt, times)
            golden_summary.name(
                f"{golden_partition} segment {base}: a restart fell into it,"
                " entries checked one by one"
            )
            continue
        golden_summary.add(
            "index files rebuilt", (rebuilt.index == offsets) + (rebuilt.timeindex == times), 2
        )
        assert rebuilt.index == offsets
        assert rebuilt.timeindex == times


def check_plausible(rebuilt: Rebuilt, broker_timeindex: bytes) -> None:
    """Every entry names a batch's last offset and position; the last time entry is the broker's."""
    places = {(int(row["last_offset"]), int(row["position"])) for row in rebuilt.headers}
    assert places.issuperset(rebuilt.offset_entries)
    assert rebuilt.timeindex[-12:] == broker_timeindex[-12:]


def test_dump_prints_kafkas_text(
    golden_partition: GoldenPartition,
    golden_summary: GoldenSummary,
    capfdbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
):
    """[format.md 18] ``--deep-iteration --print-data-log`` of every .log, .index and .timeindex.

    What went to stderr stands behind a line of its own.
    """
    dumps = golden_partition.case_directory / "dump" / golden_partition.name
    monkeypatch.chdir(golden_partition.data)
    wrong = []
    compared = 0
    for expected_file in sorted(dumps.glob("*.txt")):
        kind = expected_file.stem.rpartition(".")[2]
        if kind not in {"log", "index", "timeindex"}:
            continue
        if kind == "log" and golden_partition.is_internal:
            golden_summary.name(
                f"not yet covered: {golden_partition} {expected_file.stem}:"
                " decoders of internal topics"
            )
            continue
        compared += 1
        if (
            dump_text(golden_partition, expected_file.stem, capfdbinary)
            != expected_file.read_bytes()
        ):
            wrong.append(expected_file.name)

    golden_summary.add("dumps", compared - len(wrong), compared)
    assert wrong == []


def dump_text(
    partition: GoldenPartition, file_name: str, capture: pytest.CaptureFixture[bytes]
) -> bytes:
    """What the command prints with ``data/`` as working directory, as the dump files have it."""
    cli.main(
        ["dump", "--files", f"{partition.name}/{file_name}", "--deep-iteration", "--print-data-log"]
    )
    stdout, stderr = capture.readouterr()
    if not stderr:
        return stdout
    return (
        stdout + b"--- stderr ---\n" + stderr.replace(f"{partition.data.resolve()}/".encode(), b"")
    )


def test_reading_changes_nothing(golden_partition: GoldenPartition, tmp_path: Path):
    """[DUR-71] A read-only handle creates nothing and changes no byte, name or time."""
    copy = tmp_path / golden_partition.name
    shutil.copytree(golden_partition.directory, copy)
    before = {file.name: (file.stat().st_mtime_ns, file.read_bytes()) for file in copy.iterdir()}

    with segstore.open(copy, read_only=True) as log:
        for _ in log:
            break
        log.offset_for_timestamp(0)

    assert {
        file.name: (file.stat().st_mtime_ns, file.read_bytes()) for file in copy.iterdir()
    } == before
