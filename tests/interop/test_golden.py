"""A real broker's directories, read by us.

Records, look-ups by timestamp, index files, dump text [D1, D2].
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from typing import TYPE_CHECKING, Any

import pytest

import segstore
from segstore import cli
from segstore.types import FileTimestampAndOffset, SpecialTimestamp
from tests.interop.partition_files import Rebuilt, broker_indexes, rebuild_segment, segment_bases
from tests.kits.warm_commands import run_warm

if TYPE_CHECKING:
    import subprocess
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
    return run_warm(*arguments, cwd=cwd)


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


def test_committed_records_are_what_a_consumer_of_the_broker_saw(
    golden_partition: GoldenPartition, golden_summary: GoldenSummary
):
    """[TXX-*] ``--isolation read_committed``: control batches decide, open transactions end it."""
    if not golden_partition.committed_records_file.exists():
        pytest.skip("no transaction writes to this topic")
    expected = golden_partition.committed_records_file.read_bytes().splitlines()

    printed = run_cli(
        "cat",
        str(golden_partition.directory),
        "--format",
        "jsonl",
        "--isolation",
        "read_committed",
        cwd=golden_partition.data,
    )

    with segstore.open(golden_partition.directory, read_only=True) as log:
        told = b"committed records end at offset" if log.open_transactions() else b""
    assert printed.returncode == 0
    assert told in printed.stderr
    assert len(printed.stderr.splitlines()) == bool(told)
    lines = printed.stdout.splitlines()
    golden_summary.add(
        "committed records",
        sum(a == b for a, b in zip(lines, expected, strict=False)),
        len(expected),
    )
    assert lines == expected


def test_control_batches_alone_tell_what_is_committed(
    golden_partition: GoldenPartition, tmp_path: Path
):
    """[TXX-*, PSM-*] Without transaction indexes and producer snapshots the answer is the same."""
    if not golden_partition.committed_records_file.exists():
        pytest.skip("no transaction writes to this topic")
    bare = tmp_path / golden_partition.name
    shutil.copytree(
        golden_partition.directory, bare, ignore=shutil.ignore_patterns("*.txnindex", "*.snapshot")
    )

    with (
        segstore.open(golden_partition.directory, read_only=True) as log,
        segstore.open(bare, read_only=True) as alone,
    ):
        start = log.log_start_offset
        committed = log.scan(start, isolation="read_committed").tuples()
        assert alone.last_stable_offset == log.last_stable_offset
        assert alone.scan(start, isolation="read_committed").tuples() == committed


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_columns_hold_the_same_records(golden_partition: GoldenPartition, isolation: str):
    """[D7, TXX-*] The Arrow columns, tuples and the count against records/."""
    file = golden_partition.records_file
    if isolation == "read_committed":
        file = golden_partition.committed_records_file
    if not file.exists():
        pytest.skip("the broker's consumer did not read this topic so")
    expected = [json.loads(line) for line in file.read_bytes().splitlines()]

    with segstore.open(golden_partition.directory, read_only=True) as log:
        columns = ["offset", "timestamp", "key", "value", "headers", "leaderEpoch"]
        scan = log.scan(columns=columns, isolation=isolation)
        table = scan.to_arrow()
        assert [row[0] for row in scan.tuples()] == [record["offset"] for record in expected]
        # a header counts a record, too, that the offsets of its batch hide from consumers
        assert 0 <= scan.count() - len(expected) <= len(golden_partition.hidden_offsets)

    assert table["offset"].to_pylist() == [record["offset"] for record in expected]
    assert table["timestamp"].cast("int64").to_pylist() == [
        record["timestamp"] for record in expected
    ]
    assert table["leaderEpoch"].to_pylist() == [
        -1 if record["leaderEpoch"] is None else record["leaderEpoch"] for record in expected
    ]
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
        ours = [(answer, look_up(log, answer["target"], answer["isolation"])) for answer in answers]

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
        if not golden_partition.leader_epoch_starts:
            expected = expected._replace(leader_epoch=None)  # begun by the broker that was asked
        if found != expected:
            wrong.append((answer, found))
    golden_summary.add("look-ups by timestamp", len(ours) - len(wrong), len(ours))
    assert wrong == []


def test_fetches_return_the_brokers_bytes(
    golden_partition: GoldenPartition, golden_summary: GoldenSummary
):
    """[RD-1, TXX-*, LOC-9] records/fetches.json: bytes, aborted list, bounds; read, and sent."""
    fetches = golden_partition.fetches
    wrong = []
    with (
        segstore.open(golden_partition.directory, read_only=True) as log,
        tempfile.TemporaryFile() as sink,
    ):
        for fetch in fetches:
            asked = fetch["fetch_offset"], fetch["max_bytes"], fetch["isolation"]
            found = log.read(*asked)
            sink.truncate(sink.seek(0))
            assert log.slice(*asked).write_to(sink) == found.size_bytes
            sink.seek(0)
            assert sink.read() == found.records
            aborted = found.aborted_transactions
            ours = {
                "records_sha256": hashlib.sha256(found.records).hexdigest(),
                "aborted_transactions": aborted and [list(one) for one in aborted],
                "last_stable_offset": log.last_stable_offset,
                "high_watermark": log.high_watermark,
            }
            if any(fetch[name] != value for name, value in ours.items()):
                wrong.append((fetch, ours))

    golden_summary.add("fetches", len(fetches) - len(wrong), len(fetches))
    assert wrong == []


def look_up(log: segstore.UnifiedLog, target: str | int, isolation: str) -> FileTimestampAndOffset:
    found = log.fetch_offset_by_timestamp(
        NAMED_TARGETS[target] if isinstance(target, str) else target, isolation
    )
    return NOTHING_FOUND if found is None or found.offset < 0 else found


def expected_answer(answer: dict[str, Any]) -> FileTimestampAndOffset:
    if answer["offset"] < 0:
        return NOTHING_FOUND
    return FileTimestampAndOffset(answer["timestamp"], answer["offset"], answer["leaderEpoch"])


def test_log_start_and_end_are_the_brokers(golden_partition: GoldenPartition):
    """[DUR-65] Log start from the parent's checkpoint, log end from the files."""
    broker = golden_partition.broker
    expected = golden_partition.expected

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
    if not list(golden_partition.directory.glob("*.index")):
        pytest.skip("the directory was built without index files")
    ends = [
        *bases[1:],
        golden_partition.expected["log_end_offset"],
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


DUMPED = {"log", "checkpoint", "index", "timeindex", "txnindex", "snapshot"}
DUMPED_OF_DAMAGED_CASES = {"log", "checkpoint", "txnindex", "snapshot"}
"""An index that does not fit its log ends Kafka's dump with an exception.

Ours goes on and says so.
"""
STDERR = b"--- stderr ---\n"


def test_dump_prints_kafkas_text(
    dumped_partition: GoldenPartition,
    golden_summary: GoldenSummary,
    capfdbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
):
    """[format.md 18] Every .log and .checkpoint, internal topics decoded.

    And what is beside them.
    """
    monkeypatch.chdir(dumped_partition.data)
    kinds = DUMPED if dumped_partition.is_whole else DUMPED_OF_DAMAGED_CASES
    wrong = []
    compared = 0
    for expected_file in sorted(dumped_partition.dumps.glob("*.txt")):
        if expected_file.stem.rpartition(".")[2] not in kinds:
            continue
        compared += 1
        expected = expected_file.read_bytes()
        if dump_text(dumped_partition, expected_file.stem, expected, capfdbinary) != expected:
            wrong.append(expected_file.name)

    golden_summary.add("dumps", compared - len(wrong), compared)
    assert wrong == []


def dump_text(
    partition: GoldenPartition,
    file_name: str,
    expected: bytes,
    capture: pytest.CaptureFixture[bytes],
) -> bytes:
    """What the command prints with ``data/`` as working directory.

    In the form of the case's dump files.

    Where an exception ends Kafka's dump, an error must end ours, in its own words.
    """
    exit_code = cli.main(
        ["dump", "--files", f"{partition.name}/{file_name}", *partition.dump_options]
    )
    stdout, stderr = capture.readouterr()
    kafkas_words = expected.partition(STDERR)[2]
    assert (exit_code != 0) == kafkas_words.startswith(b"exception: ")
    if exit_code != 0:
        return stdout + STDERR + kafkas_words
    if not stderr:
        return stdout
    return stdout + STDERR + stderr.replace(f"{partition.data.resolve()}/".encode(), b"")


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
