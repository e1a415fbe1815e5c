"""``segstore compact``: the gain before, the statistics after, and what it leaves alone."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore import cli
from segstore.errors import IllegalArgumentError
from tests.kits.transactions_kit import Producer

if TYPE_CHECKING:
    from pathlib import Path


HOUR_MS = 3_600_000


@pytest.fixture
def data(tmp_path: Path) -> Path:
    with segstore.open_dir(tmp_path) as logs:
        logs.create_topic("users", partitions=2, config={"cleanup.policy": "compact"})
        logs.create_topic("events", partitions=1)
        for name, number in (("users", 0), ("users", 1), ("events", 0)):
            log = logs.log(name, number)
            log.append([(b"k%d" % (one % 5), b"value %d" % one) for one in range(20)])
            for one in range(20):
                log.append([(b"k%d" % (one % 5), b"value %d" % one)])
            log.roll()
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> list[str]:
    assert cli.main(["compact", *map(str, arguments)]) == 0
    return capsys.readouterr().out.splitlines()


def counts(data: Path, topic: str, number: int) -> int:
    with segstore.open(data / f"{topic}-{number}", read_only=True) as log:
        return log.scan().count()


def test_a_dry_run_shows_the_gain_and_changes_nothing(data, capsys):
    """[CLN-55] Bytes and records are those of the map's pass."""
    before = {file: file.read_bytes() for file in data.glob("users-*/*.log")}
    rows = [json.loads(line) for line in run(capsys, data, "--dry-run", "--json")]

    assert [row["path"] for row in rows] == [f"{data}/users-0", f"{data}/users-1"]
    for row in rows:
        assert (row["records_before"], row["records_after"], row["end_offset"]) == (40, 5, 40)
        assert row["bytes_after"] == row["bytes_before"] * 5 // 40
    assert before == {file: file.read_bytes() for file in data.glob("users-*/*.log")}
    shown = "would go: 35 of 40 records; the last one of each key stays; 100.0 % dirty, from"
    assert run(capsys, data, "--dry-run")[0].endswith(f"{shown} offset 0 on")
    run(capsys, data)
    assert " would go: 0 of 5 records; " in run(capsys, data, "--dry-run")[0]


def test_a_policy_that_is_not_set_is_not_called_delete(data):
    """[DUR-128, RTN-2] No user has set it; one that is set is named."""
    with segstore.open_dir(data) as logs:
        with pytest.raises(IllegalArgumentError) as caught:
            logs.log("events", 0).compact()
        assert caught.value.found == "a cleanup_policy that is not set, or 'delete' without a limit"
        logs.alter_topic("events", {"retention.ms": HOUR_MS})
        with pytest.raises(IllegalArgumentError) as caught:
            logs.log("events", 0).compact()
        assert caught.value.found == "cleanup_policy 'delete'"


def test_a_dry_run_shows_what_is_dirty_and_what_waits(data, capsys):
    """[CLN-32, CLN-36, CLN-38] The numbers by which a manager chooses; a reader has the same."""
    run(capsys, data, "-t", "users", "-p", "0")
    (row,) = (json.loads(line) for line in run(capsys, data / "users-0", "--dry-run", "--json"))
    assert (row["first_dirty_offset"], row["dirty_ratio"]) == (40, 0.0)
    assert row["held_back_from"] is row["held_back_until"] is row["overdue_since"] is None
    old, young = 1_600_000_000_000, time.time_ns() // 1_000_000
    lags = {"min.compaction.lag.ms": HOUR_MS, "max.compaction.lag.ms": 2 * HOUR_MS}
    with segstore.open_dir(data) as logs:
        logs.alter_topic("users", lags)
        log = logs.log("users", 0)
        for timestamp in (old, young):
            log.append([(timestamp, b"k", b"v")])
            log.roll()
        size = [one.size_bytes for one in log.segments()]
        plan = log.plan_compaction()
        limit, clean, dirty = log._compaction().calculate_cleanable_bytes(40, 41)
        assert plan.end_offset == limit == 41
        assert plan.dirty_ratio == dirty / (clean + dirty) == size[-3] / sum(size[:-2]) < 1

    (row,) = (json.loads(line) for line in run(capsys, data / "users-0", "--dry-run", "--json"))
    assert row["dirty_ratio"] == plan.dirty_ratio
    assert row["first_dirty_offset"] == 40
    assert (row["held_back_from"], row["held_back_until"]) == (41, young + HOUR_MS)
    assert row["overdue_since"] == old + 2 * HOUR_MS
    (line,) = run(capsys, data / "users-0", "--dry-run")
    assert "; min.compaction.lag.ms holds back what begins at offset 41, until 20" in line
    assert line.endswith("; due by max.compaction.lag.ms since 2020-09-13 14:26:40.000Z")


def test_what_cannot_be_cleaned_is_not_due(data, capsys):
    """[CLN-39] A record is older than the lag, and an open transaction holds all that is dirty."""
    run(capsys, data)
    with segstore.open_dir(data) as logs:
        logs.alter_topic("users", {"max.compaction.lag.ms": 1})
        log = logs.log("users", 0)
        Producer(log, 1).write()
        log.roll()
        plan = log.plan_compaction()

    assert (plan.end_offset, plan.dirty_ratio, plan.overdue_since) == (40, 0.0, None)


@pytest.mark.parametrize("arguments", [(), ("-t", "users"), ("-t", "users", "-p", "0")])
def test_each_key_keeps_its_last_record(data, capsys, arguments):
    """[CLN-122] The statistics are Kafka's; a topic without the policy stays as it is."""
    rows = [json.loads(line) for line in run(capsys, data, *arguments, "--json")]

    assert len(rows) == (1 if "-p" in arguments else 2)
    assert all(row["passes"][0]["messages_written"] == 5 for row in rows)
    assert counts(data, "users", 0) == 5
    assert counts(data, "users", 1) == (40 if "-p" in arguments else 5)
    assert counts(data, "events", 0) == 40


def test_one_partition_goes_by_the_settings_of_its_topic(data, capsys):
    """[CLN-122] Records without the policy are not taken away because a path was typed."""
    (line,) = run(capsys, data / "users-1")
    assert "40 records read, 5 kept" in line
    assert counts(data, "users", 0) == 40


def test_a_topic_without_the_policy_is_named_and_what_sets_it(data, capsys):
    """[CLN-122] Not set, as `describe_topic` says, is not the same as delete."""
    assert cli.main(["compact", str(data / "events-0")]) == 0
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "events-0: cleanup.policy is not set: `segstore topics alter` gives" in shown.err
    with segstore.open_dir(data) as logs:
        logs.alter_topic("events", {"cleanup.policy": "delete"})
        with pytest.raises(IllegalArgumentError, match="set it with alter_topic"):
            logs.log("events", 0).compact()
    assert cli.main(["compact", str(data / "events-0")]) == 0
    assert "cleanup.policy is delete: " in capsys.readouterr().err
    assert counts(data, "events", 0) == 40


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(["-p", "0"], 2), (["-t", "nothing"], 2)],
)
def test_what_is_not_there_is_wrong_usage(data, arguments, code):
    assert cli.main(["compact", str(data), *arguments]) == code


def test_damage_is_named_and_the_other_partitions_are_done(data, capsys):
    """[DUR-125]"""
    file = min(data.glob("users-0/*.log"))
    content = bytearray(file.read_bytes())
    content[100] ^= 1
    file.write_bytes(content)

    assert cli.main(["compact", str(data)]) == 1
    shown = capsys.readouterr()
    assert "users-0: Corrupt" in shown.err
    assert counts(data, "users", 1) == 5


def test_a_directory_without_such_a_topic_says_so(tmp_path, capsys):
    with segstore.open_dir(tmp_path) as logs:
        logs.create_topic("events", partitions=1)

    assert run(capsys, tmp_path) == ["nothing to compact: no cleanup.policy here has compact"]
    assert run(capsys, tmp_path, "--json") == []
