"""Jobs that delete and compact: as the manager of the directory does, partition by partition."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from types import SimpleNamespace

import pytest

pytest.importorskip("pyspark")

import segstore
from segstore._core import Directory
from segstore.errors import IllegalArgumentError, LogNotFoundError
from segstore.log.files.log_directory_checkpoints import MERGE_LOCK
from segstore.spark import __main__ as command
from segstore.spark import job_runner, jobs, maintenance_jobs
from segstore.spark.__main__ import build_parser
from segstore.spark.job_runner import ItemResult, JobItem, JobReport, packed_items
from segstore.spark.maintenance_jobs import (
    COMPACT,
    MAINTAIN,
    MAINTENANCE_COLUMNS,
    RETAIN,
    MaintenanceTask,
    maintain_partition,
)
from segstore.types import TopicPartition
from tests.kits.log_kit import TIME

SMALL = {"internal.segment.bytes": "1000", "segment.ms": str(2**62)}
COMPACTED = {"cleanup.policy": "compact", **SMALL}
NOW = TIME + 3_600_000
MIB = 1 << 20


def fill(logs, topic, partitions, config, numbers=range(60)):
    """Append to each partition: 7 keys, one of them deleted now and then."""
    if numbers.start == 0:
        logs.create_topic(topic, partitions, config={**SMALL, **config})
    for number in numbers:
        value = None if number % 11 == 0 else b"%d" % number * 20
        for partition in range(partitions):
            logs.append(topic, [(TIME + number, b"%d" % (number % 7), value)], partition=partition)


def filled(path):
    """A directory with a topic for each policy."""
    with segstore.open_dir(path, durability="none") as logs:
        fill(logs, "users", 3, COMPACTED)
        fill(logs, "clicks", 2, {"retention.bytes": "2500"})
        fill(logs, "days", 1, {"retention.ms": str(NOW - TIME - 30)})
        fill(logs, "both", 1, {"cleanup.policy": "compact,delete", "retention.ms": "1"}, range(40))
        fill(logs, "kept", 1, {})
    return path


def files_of(path):
    """The bytes of all segments, by the names of partition and file."""
    return {
        (file.parent.name, file.name): file.read_bytes() for file in sorted(path.glob("*-*/*.log"))
    }


def task_of(path, name, job, **changes):
    topic, _, number = name.rpartition("-")
    task = MaintenanceTask(job, str(path), topic, int(number), f"{path}/{name}", NOW)
    return task._replace(**changes)


# ---- one partition -------------------------------------------------------------------------------


def test_a_task_does_what_the_manager_does_and_both_know_it(tmp_path):
    """[RTN-1, CLN-39, DUR-126] The oracle is `maintain` of a copy."""
    data = filled(tmp_path / "data")
    before = files_of(data)
    copy = shutil.copytree(data, tmp_path / "copy")
    with segstore.open_dir(copy) as logs:
        expected = logs.maintain(NOW)
    names = sorted(one.name for one in data.glob("*-[0-9]"))
    found = {name: maintain_partition(task_of(data, name, MAINTAIN)) for name in names}

    assert files_of(data) == files_of(copy) != before
    assert all([*one] == [*MAINTENANCE_COLUMNS] and one["ok"] for one in found.values())
    deleted = Counter(str(one.topic_partition) for one in expected.deleted)
    assert {name: one["segments_deleted"] for name, one in found.items()} == {
        name: deleted[name] for name in names
    }
    users = {"users-0", "users-1", "users-2"}
    assert {name for name, one in found.items() if one["passes"]} == users
    cleaned = {str(one.topic_partition): one.stats for one in expected.cleaned}
    assert users <= {*cleaned} <= {*users, "both-0"}  # which may be compacted before its retention
    cleaned.pop("both-0", None)
    for name, stats in cleaned.items():
        for field in ("end_offset", "messages_read", "messages_written", "bytes_written"):
            assert found[name][field] == getattr(stats, field)
    assert {one["limit"] for one in found["days-0"]["deleted"]} == {"retention.ms"}
    assert {one["limit"] for one in found["clicks-1"]["deleted"]} == {"retention.bytes"}

    again = [maintain_partition(task_of(data, name, MAINTAIN)) for name in names]
    assert all(one["passes"] == one["segments_deleted"] == 0 for one in again)
    with segstore.open_dir(data) as logs:
        later = logs.maintain(NOW)
        fill(logs, "users", 3, COMPACTED, range(60, 90))
    assert later.cleaned == later.deleted == ()
    with segstore.open_dir(copy) as logs:
        fill(logs, "users", 3, COMPACTED, range(60, 90))
    taken = maintain_partition(task_of(copy, "users-1", COMPACT))
    assert taken["messages_read"] < 60  # it begins where the pass of the manager ended
    name = "users-1"
    ended = [
        maintain_partition(task_of(data, name, RETAIN)),
        maintain_partition(task_of(data, name, COMPACT, min_dirty_ratio=0.99)),
        maintain_partition(task_of(data, name, COMPACT, min_dirty_ratio=0.1)),
    ]
    assert [one["passes"] for one in ended] == [0, 0, 1]
    first_file = name, f"{0:020d}.log"
    assert files_of(data)[first_file] == files_of(copy)[first_file]


def test_what_another_writer_has_is_a_result_and_damage_a_finding(tmp_path):
    """[DUR-125, DUR-131] A broken batch keeps compaction from a log, and retention goes on."""
    data = filled(tmp_path / "data")
    with segstore.open(data / "users-0"):
        locked = maintain_partition(task_of(data, "users-0", MAINTAIN))
        waited = maintain_partition(task_of(data, "users-0", MAINTAIN, lock_timeout=0.01))
        with segstore.open_dir(data, read_only=True):
            assert maintain_partition(task_of(data, "users-1", MAINTAIN))["passes"] == 1
    with segstore.open_dir(data):
        owned = maintain_partition(task_of(data, "users-2", MAINTAIN))
    file = data / "both-0" / f"{0:020d}.log"
    broken = bytearray(file.read_bytes())
    broken[100] ^= 1
    file.write_bytes(broken)
    found = maintain_partition(task_of(data, "both-0", COMPACT))

    assert (locked["ok"], locked["is_locked"], locked["passes"]) == (True, True, None)
    assert (owned["ok"], owned["is_locked"]) == (True, True)
    assert (waited["ok"], waited["is_locked"]) == (False, True)
    assert waited["problems"][0].startswith("LogLockedError: ")
    assert (found["ok"], found["passes"]) == (False, 0)
    assert found["problems"][0].startswith("Corrupt")
    assert file.read_bytes() == bytes(broken)


def test_small_partitions_share_a_task_and_large_ones_come_first():
    """As Spark packs files: each counts its open cost too, and no task grows over the target."""
    sizes = [10 * MIB, 500 * MIB, 0, 200 * MIB, *[1000] * 40]
    items = [(number, JobItem(str(number), None, None, size)) for number, size in enumerate(sizes)]
    tasks = packed_items(items, cores=2, most_bytes=128 * MIB, open_cost_bytes=4 * MIB)

    assert [number for one in tasks[:2] for number, _ in one] == [1, 3]
    assert sorted(number for one in tasks for number, _ in one) == [*range(len(sizes))]
    assert 3 < len(tasks) < 8
    assert all(sum(item.size_bytes + 4 * MIB for _, item in one) <= 132 * MIB for one in tasks[2:])
    alone = packed_items(items[4:], cores=2, most_bytes=128 * MIB, open_cost_bytes=4 * MIB)
    assert {len(one) for one in alone} == {5}  # four tasks a core
    unknown = [(number, JobItem(str(number), None)) for number in range(3)]
    assert len(packed_items(unknown, cores=1, most_bytes=MIB, open_cost_bytes=MIB)) == 3


def test_another_attempt_waits_for_the_first_one(tmp_path, monkeypatch):
    """[DUR-67] Spark takes the first result: that of a copy must not be "locked"."""
    data = filled(tmp_path / "data")
    attempt = SimpleNamespace(attemptNumber=lambda: 1)
    monkeypatch.setattr("pyspark.TaskContext.get", lambda: attempt)
    task = task_of(data, "users-0", MAINTAIN)
    waited = []
    with segstore.open(data / "users-0") as first:

        def sleep(seconds):
            waited.append(seconds)
            first.close()

        monkeypatch.setattr("time.sleep", sleep)
        again = maintain_partition(task)
        assert waited == []
        copy = maintain_partition(task._replace(is_speculative=True))

    assert again["is_locked"]
    assert len(waited) == 1
    assert (copy["is_locked"], copy["passes"]) == (False, 1)


def test_a_copy_that_has_waited_in_vain_fails(tmp_path, monkeypatch):
    """[DUR-67] Spark would take any result, also an error of the row, and kill the first one."""
    data = filled(tmp_path / "data")
    attempt = SimpleNamespace(attemptNumber=lambda: 1)
    monkeypatch.setattr("pyspark.TaskContext.get", lambda: attempt)
    monkeypatch.setattr(maintenance_jobs, "_SECONDS_OF_ANOTHER_ATTEMPT", 0.0)
    task = task_of(data, "users-0", MAINTAIN, is_speculative=True)
    with segstore.open(data / "users-0"), pytest.raises(RuntimeError, match="earlier attempt"):
        job_runner._row_of((0, JobItem("users-0", task)), maintain_partition, None)


def test_a_task_waits_its_turn_to_merge_checkpoints(tmp_path, monkeypatch):
    """[DUR-65] Many tasks close logs at once: on a slow disk a turn comes after many seconds."""
    data = filled(tmp_path / "data")
    directory = Directory(str(data))
    lock = directory.lock(MERGE_LOCK, exclusive=True)
    waited = []

    def sleep(seconds):
        waited.append(seconds)
        if sum(waited) > 30:
            lock.release()

    monkeypatch.setattr("time.sleep", sleep)
    found = maintain_partition(task_of(data, "clicks-0", MAINTAIN))
    directory.close()

    assert sum(waited) > 30
    assert found["segments_deleted"] > 0
    starts = read_lines(data / "log-start-offset-checkpoint")
    assert starts[TopicPartition("clicks", 0)] == found["log_start_offset"] > 0


# ---- on Spark ------------------------------------------------------------------------------------


def test_jobs_over_several_directories(spark, tmp_path):
    """[RTN-1, CLN-39, DUR-65] Results as the manager's, as a table too; checkpoints have all."""
    data, other = filled(tmp_path / "data"), tmp_path / "other"
    with segstore.open_dir(other, durability="none") as logs:
        fill(logs, "users", 1, COMPACTED, range(20))
    copy = shutil.copytree(data, tmp_path / "copy")
    with segstore.open_dir(copy) as logs:
        logs.maintain(NOW)
    told = []

    def progress(*what):
        told.append(what)

    with segstore.open(data / "users-0"):
        first = jobs.compact(spark, data, now=NOW, subscribe="users", progress=progress)
    retained = jobs.retain(spark, [data], now=NOW, subscribePattern="clicks|days|kept")
    report = jobs.maintain(spark, [data, other], now=NOW, lock_timeout=1)
    rows = {
        row["directory"] + "/" + row["key"].rpartition("/")[2]: row
        for row in report.to_dataframe(spark).collect()
    }
    again = jobs.maintain(spark, [data, other], now=NOW)

    assert files_of(data) == files_of(copy)
    assert first.ok
    assert [one["is_locked"] for one in first.results.values()] == [True, False, False]
    assert told[-1] == ("compact", 3, 3)
    assert [*retained.results] == ["clicks-0", "clicks-1", "days-0"]
    assert "deleted" in str(retained)
    assert "retention.bytes" in str(retained)
    as_json = JobReport("verify", report.items).to_dataframe(spark).first()
    assert json.loads(as_json["result"]) == report.items[0].result
    assert len(rows) == len(report.items) == len(again.items) == 8
    assert rows[f"{data}/users-0"]["passes"] == 1
    assert (
        rows[f"{other}/users-0"]["messages_read"]
        == report.results[f"{other}/users-0"]["messages_read"]
        > 0
    )
    assert sum(one["passes"] + one["segments_deleted"] for one in again.results.values()) == 0
    ends = read_lines(data / "recovery-point-offset-checkpoint")
    assert {one: ends[one] for one in ends if one[0] != "kept"} == {
        TopicPartition(one["topic"], one["partition"]): one["log_end_offset"]
        for one in report.results.values()
        if one["directory"] == str(data)
    }


def read_lines(path):
    """The lines of a checkpoint of a log directory."""
    words = [line.split() for line in path.read_text().splitlines()[2:]]
    return {TopicPartition(topic, int(number)): int(offset) for topic, number, offset in words}


def test_commands_take_directories_and_refuse_what_is_no_option(spark, tmp_path):
    parse = build_parser().parse_args
    given = parse(["compact", "a", "b", "--min-dirty-ratio", "0.2", "--wait", "3"])

    assert (given.path, given.min_dirty_ratio, given.lock_timeout) == (["a", "b"], 0.2, 3.0)
    with pytest.raises(LogNotFoundError):
        jobs.retain(spark, tmp_path / "nothing")
    with pytest.raises(IllegalArgumentError, match="at least one"):
        jobs.retain(spark, [])
    with pytest.raises(IllegalArgumentError, match="0 to 1"):
        jobs.compact(spark, tmp_path, min_dirty_ratio=50)


def test_the_command_says_how_many_partitions_were_left_alone(monkeypatch, capsys):
    results = [{"ok": True, "is_locked": is_locked} for is_locked in (True, False, True)]
    items = [ItemResult(f"a-{n}", one, None, was_done=False) for n, one in enumerate(results)]
    monkeypatch.setattr(command, "_report_of", lambda *_: JobReport("compact", (*items,)))
    assert command.main(["compact", "data"]) == 0
    assert "2 of 3 partitions were left alone" in capsys.readouterr().err
