"""Buckets that brokers wrote, by every door but Python's: each record as the cluster had it."""

from __future__ import annotations

import json
import pickle
from datetime import UTC

import pytest

from segstore import cli

pytest.importorskip("Crypto")


@pytest.fixture(autouse=True)
def spool(tmp_path, monkeypatch):
    """A spool of this test alone."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def place_of(case):
    """Return the bucket's folder and the options that a user types for it."""
    folder, _, prefix = case.said["key_prefix"].rpartition("/")
    keys = case.directory / "keys"
    options = ["--key-prefix", prefix]
    options += ["--keys", str(keys)] if keys.is_dir() else []
    return case.directory / "bucket" / folder, options


def run(capfdbinary, *arguments):
    code = cli.main([str(one) for one in arguments])
    captured = capfdbinary.readouterr()
    return code, captured.out.decode(), captured.err.decode()


def rows_of(path):
    """Return offset and timestamp of the records of a file, none without it."""
    if not path.exists():
        return []
    rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return [(row["offset"], row["timestamp"]) for row in rows]


def test_ls_shows_where_the_bucket_begins_and_ends(bucket_case, capfdbinary):
    """[SEL-9] [SEL-10] [SEL-11]."""
    folder, options = place_of(bucket_case)
    code, out, _ = run(capfdbinary, "ls", folder, *options, "--json")
    rows = {f"{row['topic']}-{row['partition']}": row for row in map(json.loads, out.splitlines())}

    assert code == 0
    assert set(rows) == set(bucket_case.said["partitions"])
    for name, said in bucket_case.said["partitions"].items():
        start = max(said["log_start_in_newest_segment"], said["bucket_start_offset"])
        assert rows[name]["log_start_offset"] == start
        assert rows[name]["log_end_offset"] == said["bucket_end_offset"]
        assert rows[name]["last_stable_offset"] == said["bucket_stable_offset"]


def has_other_topic_ids(bucket_case, name) -> bool:
    topic = name.rpartition("-")[0]
    return (
        len({one["topic_id"] for one in bucket_case.said["segments"] if one["topic"] == topic}) > 1
    )


def assert_nothing_else_is_told(err, bucket_case, name):
    """[SEL-12] Of a topic that was created again, its ids; of others nothing."""
    lines = err.splitlines()
    assert len(lines) == has_other_topic_ids(bucket_case, name)
    assert all(
        f"the topic id {bucket_case.said['partitions'][name]['topic_id']} is read" in line
        for line in lines
    )


def test_cat_prints_the_records_of_the_broker(bucket_case, capfdbinary, golden_summary):
    """[SEL-4] [SEL-7] [SEL-11] All of them, and those that a committed read has."""
    folder, options = place_of(bucket_case)
    records = bucket_case.directory / "records"
    for name, said in bucket_case.said["partitions"].items():
        read = ("cat", folder / name, *options, "-f", "%o %T\n")
        code, out, err = run(capfdbinary, *read)
        committed = run(capfdbinary, *read, "--isolation", "read_committed")
        found, stable = (
            [tuple(map(int, line.split())) for line in text.splitlines()]
            for text in (out, committed[1])
        )
        start = max(said["log_start_in_newest_segment"], said["bucket_start_offset"])
        before, after = (
            rows_of(records / f"{name}{one}.jsonl") for one in (".before_log_start", "")
        )
        is_open = said["bucket_stable_offset"] < said["bucket_end_offset"]
        of_committed = records / f"{name}.read_committed.jsonl"

        assert code == 0
        assert_nothing_else_is_told(err, bucket_case, name)
        assert found == [row for row in before + after if row[0] >= start]
        assert [row for row in stable if row[0] >= said["log_start_offset"]] == (
            rows_of(of_committed) if of_committed.exists() else after
        )
        assert ("its end is not in the bucket" in committed[2]) == is_open
        assert "abort-transaction" not in committed[2]
    partitions = len(bucket_case.said["partitions"])
    golden_summary.add("logs of tiered buckets by segstore cat", partitions, partitions)


def test_cat_prints_deleted_records_that_segments_still_hold(bucket_case, capfdbinary):
    """[SEL-4] [SEL-9] From the lowest offset on."""
    folder, options = place_of(bucket_case)
    records = bucket_case.directory / "records"
    for name in bucket_case.said["partitions"]:
        read = ("cat", folder / name, *options, "-f", "%o %T\n", "--below-log-start")
        code, out, err = run(capfdbinary, *read)

        assert code == 0
        assert_nothing_else_is_told(err, bucket_case, name)
        assert [tuple(map(int, line.split())) for line in out.splitlines()] == (
            rows_of(records / f"{name}.before_log_start.jsonl") + rows_of(records / f"{name}.jsonl")
        )


def test_commands_read_finished_copies_alone(bucket_case, capfdbinary):
    """[SEL-13] [RLM-4] The bounds that the finished ones have, and only these are checked."""
    folder, options = place_of(bucket_case)
    options += ["--remote-log-metadata", str(bucket_case.directory / "remote_log_metadata")]
    said = bucket_case.said["partitions"]
    ids = {one["topic_id"] for one in said.values()}
    finished = [
        one
        for one in bucket_case.said["segments"]
        if one["topic_id"] in ids
        and one["complete"]
        and one["remote_state"] == "COPY_SEGMENT_FINISHED"
    ]
    code, out, _ = run(capfdbinary, "ls", folder, *options, "--json")
    rows = [json.loads(line) for line in out.splitlines()]
    verified = run(capfdbinary, "verify", folder, *options, "--json")
    reports = [json.loads(line) for line in verified[1].splitlines()]

    assert (code, verified[0]) == (0, 0)
    assert {f"{one['topic']}-{one['partition']}": one["log_end_offset"] for one in rows} == {
        name: told["bucket_end_offset"] for name, told in said.items()
    }
    assert sum(one["segments"] for one in reports) == len(finished)


def test_verify_finds_every_segment_and_nothing_wrong(bucket_case, capfdbinary):
    """[SEL-1] [ENC-3] [RDB-4] [DUR-144] Those that no read needs too; unfinished ones are notes."""
    folder, options = place_of(bucket_case)
    code, out, err = run(capfdbinary, "verify", folder, *options, "--json")
    reports = [json.loads(line) for line in out.splitlines()]
    ids = {one["topic_id"] for one in bucket_case.said["partitions"].values()}
    said = [one for one in bucket_case.said["segments"] if one["topic_id"] in ids]
    complete = [one for one in said if one["complete"]]

    assert (code, err) == (0, "")
    assert [one["problems"] for one in reports] == [[]] * len(bucket_case.said["partitions"])
    assert sum(one["segments"] for one in reports) == len(complete)
    with_other_ids = sum(
        has_other_topic_ids(bucket_case, name) for name in bucket_case.said["partitions"]
    )
    notes = len(said) - len(complete) + with_other_ids
    assert sum(len(one["notes"]) for one in reports) == notes
    assert sum(one["size_bytes"] for one in reports) == sum(one["plain_size"] for one in complete)
    assert {one["topic_id"] for one in reports} == ids


def spark_rows(folder, options, **more):
    """Plan, pickle as Spark does, and read; offset and timestamp by partition."""
    from segstore.spark.datasource import SegstoreDataSource

    named = {"keyPrefix": options[1], **({"keys": options[3]} if len(options) > 2 else {})}
    given = {"path": str(folder), "layout": "tiered", "subscribePattern": ".*", **named, **more}
    source = SegstoreDataSource(given)
    reader = source.reader(source.schema())
    reader, partitions = pickle.loads(pickle.dumps((reader, reader.partitions())))
    found = {}
    for one in partitions:
        for batch in reader.read(one):
            for row in batch.to_pylist():
                time = row["timestamp"]
                ms = round(time.replace(tzinfo=UTC).timestamp() * 1000)
                name = f"{row['topic']}-{row['partition']}"
                found.setdefault(name, []).append((row["offset"], ms))
    return {name: sorted(rows) for name, rows in found.items()}


def test_spark_reads_the_records_of_the_broker(bucket_case, golden_summary):
    """[SEL-4] [SEL-7] [SEL-11] Whole, committed, between offsets, and from a time on."""
    pytest.importorskip("pyspark")
    folder, options = place_of(bucket_case)
    records = bucket_case.directory / "records"
    partitions = bucket_case.said["partitions"]
    every, committed = {}, {}
    for name, said in partitions.items():
        start = max(said["log_start_in_newest_segment"], said["bucket_start_offset"])
        before, after = (
            rows_of(records / f"{name}{one}.jsonl") for one in (".before_log_start", "")
        )
        every[name] = [row for row in before + after if row[0] >= start]
        path = records / f"{name}.read_committed.jsonl"
        committed[name] = rows_of(path) if path.exists() else after
    found = spark_rows(folder, options, **{"kafka.isolation.level": "read_committed"})
    starts = {name: said["log_start_offset"] for name, said in partitions.items()}

    assert spark_rows(folder, options) == every
    assert {
        name: [row for row in rows if row[0] >= starts[name]] for name, rows in found.items()
    } == committed
    low, high = (
        {name: rows[len(rows) * part // 3][0] for name, rows in every.items()} for part in (1, 2)
    )
    between = spark_rows(
        folder,
        options,
        startingOffsets=as_json(low),
        endingOffsets=as_json(high),
        minPartitions="9",
    )
    assert between == {
        name: [row for row in rows if low[name] <= row[0] < high[name]]
        for name, rows in every.items()
    }
    has_markers = any(records.glob("*.read_committed.jsonl"))  # a look-up by time may find one
    for rows in () if has_markers else every.values():
        time = rows[len(rows) // 2][1]
        later = {name: after_time(rows, time) for name, rows in every.items()}
        assert spark_rows(
            folder,
            options,
            startingTimestamp=str(time),
            startingOffsetsByTimestampStrategy="latest",
        ) == {name: rows for name, rows in later.items() if rows}
    with_deleted = {
        name: rows_of(records / f"{name}.before_log_start.jsonl")
        + rows_of(records / f"{name}.jsonl")
        for name in partitions
    }
    assert spark_rows(folder, options, belowLogStart="true", allowGaps="true") == with_deleted
    golden_summary.add("logs of tiered buckets by Spark", len(partitions), len(partitions))


def after_time(rows, time):
    """Return the records from the first one at or after a time on."""
    first = next((number for number, row in enumerate(rows) if row[1] >= time), len(rows))
    return rows[first:]


def as_json(offsets):
    """Return offsets by topic and partition, as Spark's options have them."""
    by_topic = {}
    for name, offset in offsets.items():
        topic, _, number = name.rpartition("-")
        by_topic.setdefault(topic, {})[number] = offset
    return json.dumps(by_topic)
