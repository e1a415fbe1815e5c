"""Buckets that brokers wrote, by every door but Python's: each record as the cluster had it."""

from __future__ import annotations

import json

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

        assert (code, err) == (0, "")
        assert found == [row for row in before + after if row[0] >= start]
        assert [row for row in stable if row[0] >= said["log_start_offset"]] == (
            rows_of(of_committed) if of_committed.exists() else after
        )
        assert ("its end is not in the bucket" in committed[2]) == is_open
        assert "abort-transaction" not in committed[2]
    partitions = len(bucket_case.said["partitions"])
    golden_summary.add("logs of tiered buckets by segstore cat", partitions, partitions)


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
    assert sum(len(one["notes"]) for one in reports) == len(said) - len(complete)
    assert sum(one["size_bytes"] for one in reports) == sum(one["plain_size"] for one in complete)
    assert {one["topic_id"] for one in reports} == ids
