"""Jobs over many partitions: what they say, what they change, what they do a second time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

import segstore
from segstore.errors import (
    AlreadyExistsError,
    CorruptLogError,
    IllegalArgumentError,
    IllegalStateError,
)
from segstore.spark import jobs, parquet_export
from segstore.spark.compaction_plan import plan_compaction_of
from segstore.spark.job_runner import JobItem, packed_items, run_job
from segstore.spark.mapped_ranges import options_of_call, ranges_of
from segstore.spark.open_logs import OPEN_LOGS
from segstore.spark.parquet_export import ExportTask
from segstore.spark.partition_jobs import recover_partition, stats_of_partition, verify_partition
from segstore.tables.offset_ranges import OffsetRange
from segstore.tables.parquet_files import exported_files, file_name_of, what_is_missing
from segstore.tables.partition_import import PartitionImport, import_partition
from segstore.types import Codec
from tests.kits.log_kit import TIME
from tests.kits.same_logs import check_same_logs

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def no_log_stays_open():
    yield
    OPEN_LOGS.close()


def partitions(data):
    return [path for path in sorted(data.glob("*-[0-9]*")) if any(path.glob("*.log"))]


def damage(path, byte):
    file = min(path.glob("*.log"))
    data = bytearray(file.read_bytes())
    data[byte] ^= 1
    file.write_bytes(data)


# ---- one partition -------------------------------------------------------------------------------


def test_verify_tells_of_damage_and_changes_nothing(packed, copy_of):
    data = copy_of(packed / "plain-many-segments" / "data")
    path = next(one for one in partitions(data) if one.name == "orders-0")
    assert verify_partition(str(path))["ok"]

    damage(path, 200)
    before = {file.name: file.read_bytes() for file in path.iterdir()}
    found = verify_partition(str(path))
    assert not found["ok"]
    assert len(found["problems"]) > 0
    assert {file.name: file.read_bytes() for file in path.iterdir()} == before


def test_recover_is_clean_the_second_time(tmp_path):
    path = tmp_path / "t-0"
    log = segstore.open(path)
    log.append([(b"k", b"v")])
    log.close_quietly()
    with (path / f"{0:020d}.log").open("ab") as file:
        file.write(b"half a batch")

    first, second = recover_partition(str(path)), recover_partition(str(path))
    assert (first["ok"], first["truncated_bytes"]) == (False, 12)
    assert (second["ok"], second["clean"]) == (True, True)


@pytest.mark.golden_kinds("transactions", "zstd", "message sets", "compacted")
def test_stats_are_those_of_the_records(golden_data):
    for path in partitions(golden_data):
        found = stats_of_partition(str(path))
        with segstore.open(path, read_only=True) as log:
            assert found["records"] == log.scan().count()
            assert found["batches"] == sum(1 for _ in log.scan().batches())
            assert found["control_batches"] == sum(one.is_control for one in log.scan().batches())
            assert sum(found["batches_by_codec"].values()) == found["batches"]
        assert json.loads(json.dumps(found)) == found


def test_the_plan_of_a_compaction_counts_what_would_stay(tmp_path):
    """The oracle is a dict of the newest record of each key, below the active segment."""
    log = segstore.open(tmp_path / "topic-0", internal_segment_bytes=2_000, durability="none")
    newest, records, without_key = {}, 0, 0
    for number in range(200):
        key = None if number % 50 == 7 else b"key %d" % (number * number % 23)
        value = None if number % 9 == 0 else bytes(number % 30)
        log.append([(TIME, key, value)])
    log.close()
    with segstore.open(tmp_path / "topic-0", read_only=True) as again:
        end = again.segments()[-1].base_offset
        for record in again.scan(0, end):
            records += 1
            without_key += record.key is None
            if record.key is not None:
                newest[record.key] = record.value
    found = plan_compaction_of(str(tmp_path / "topic-0"))

    assert (found["start_offset"], found["end_offset"]) == (0, end)
    assert (found["records"], found["records_without_key"]) == (records, without_key)
    assert found["records_kept"] == len(newest) > 5
    assert found["tombstones_kept"] == sum(value is None for value in newest.values())
    assert found["data_bytes_kept"] == sum(len(k) + len(v or b"") for k, v in newest.items())


def test_a_plan_ends_where_a_transaction_is_open(golden_of):
    for partition in golden_of("an open transaction"):
        path = partition.directory
        with segstore.open(path, read_only=True) as log:
            assert log.last_stable_offset < log.log_end_offset
            assert plan_compaction_of(str(path))["end_offset"] <= log.last_stable_offset


# ---- export and import ---------------------------------------------------------------------------


def records_of(path):
    with segstore.open(path, read_only=True) as log:
        return [
            (
                r.offset,
                r.timestamp,
                int(r.timestamp_type),
                r.leader_epoch,
                r.key,
                r.value,
                r.headers,
            )
            for r in log.scan()
        ]


def exported(data, target, **given):
    options = options_of_call(str(data), given)
    target.mkdir(exist_ok=True)
    task = ExportTask(options, str(target), "zstd")
    return [task(offsets) for offsets in ranges_of(options) if offsets.size]


def imported(target, root, codec=Codec.NONE):
    files = exported_files(str(target))
    results = {}
    for partition in sorted({file.partition for file in files}):
        own = tuple(file for file in files if file.partition == partition)
        work = PartitionImport(own, str(root / str(partition)), codec)
        results[str(partition)] = import_partition(work)
    return results


@pytest.mark.golden_kinds(
    "plain",
    "nulls",
    "no timestamps",
    "compacted",
    "transactions",
    "times of the broker",
    "several epochs",
    "a log start that moved",
)
def test_records_come_back_as_they_were(golden_data, tmp_path):
    """Offsets with gaps, timestamps and their types, epochs, nulls, headers."""
    data = golden_data
    written = exported(data, tmp_path / "files", maxBytesPerPartition="20k")
    found = imported(tmp_path / "files", tmp_path / "back", Codec.ZSTD)

    assert len(written) >= len(found) > 0
    for name in found:
        assert records_of(tmp_path / "back" / name) == records_of(data / name)
        assert verify_partition(str(tmp_path / "back" / name))["ok"]
    again = imported(tmp_path / "files", tmp_path / "back")
    assert {one["records"] for one in again.values()} == {0}


@pytest.mark.golden_kinds("message sets")
def test_old_formats_come_back_without_their_magic(golden_data, tmp_path):
    """A record of magic 1 has no leader epoch: it gets the newest one, or 0."""
    data = golden_data
    exported(data, tmp_path / "files")
    for name in imported(tmp_path / "files", tmp_path / "back"):
        expected = [(*r[:3], max(r[3], 0), *r[4:]) for r in records_of(data / name)]
        found = [(*r[:3], max(r[3], 0), *r[4:]) for r in records_of(tmp_path / "back" / name)]
        assert found == expected


def test_an_import_goes_on_where_it_was_killed(packed, tmp_path):
    data = packed / "plain-many-segments" / "data"
    exported(data, tmp_path / "files", maxBytesPerPartition="10k", subscribe="orders")
    files = exported_files(str(tmp_path / "files"))
    own = tuple(file for file in files if file.partition.partition == 0)
    assert len(own) > 3
    place = str(tmp_path / "back" / "orders-0")
    import_partition(PartitionImport(own[:2], place, Codec.NONE))
    with segstore.open(place) as log:  # and in the middle of a file
        log.truncate_to(own[1].offsets.from_offset + 3)
    found = import_partition(PartitionImport(own, place, Codec.NONE))

    assert records_of(place) == records_of(data / "orders-0")
    assert found["log_end_offset"] == len(records_of(place))
    with segstore.open(place) as log:
        log.truncate_to(40)
        log.append([(b"k", b"another")])
    with pytest.raises(AlreadyExistsError, match="another record at offset"):
        import_partition(PartitionImport(own, place, Codec.NONE))


def test_an_export_knows_what_is_there():
    wanted = OffsetRange("t", 0, 10, 100)
    there = [OffsetRange("t", 0, *bounds) for bounds in ((0, 20), (30, 40), (40, 50), (90, 120))]

    assert what_is_missing(wanted, there) == [
        OffsetRange("t", 0, 20, 30),
        OffsetRange("t", 0, 50, 90),
    ]
    assert what_is_missing(wanted, []) == [wanted]
    assert what_is_missing(wanted, [OffsetRange("t", 0, 0, 100)]) == []


def test_the_files_are_those_of_the_export_without_spark(packed, tmp_path):
    """Either imports what the other has exported: batches, markers and producers too."""
    data = packed / "transactions-tv2" / "data"
    exported(data, tmp_path / "by-spark", assign='{"payments":[0]}')
    segstore.import_parquet(tmp_path / "by-spark", tmp_path / "a", verify=True)
    with segstore.open_dir(data, read_only=True) as logs:
        logs.export_parquet("payments", tmp_path / "without", partitions=[0])
    imported(tmp_path / "without", tmp_path / "b")

    with segstore.open(data / "payments-0", read_only=True) as log:
        for root in ("a", "b"):
            with segstore.open(tmp_path / root / "payments-0", read_only=True) as back:
                check_same_logs(log, back)


def test_files_that_do_not_fit_together_are_refused(packed, tmp_path):
    data = packed / "plain-many-segments" / "data"
    exported(data, tmp_path / "files", assign='{"orders":[0]}')
    (file,) = exported_files(str(tmp_path / "files"))
    other = file.offsets.__class__("orders", 0, 5, 700)
    renamed = Path(file.path).with_name(file_name_of(other))
    renamed.write_bytes(Path(file.path).read_bytes())

    with pytest.raises(CorruptLogError, match="are in"):
        exported_files(str(tmp_path / "files"))
    Path(file.path).unlink()
    with pytest.raises(CorruptLogError, match="another name"):
        imported(tmp_path / "files", tmp_path / "back")
    renamed.write_bytes(b"PAR1")
    with pytest.raises(CorruptLogError, match="is no Parquet file"):
        imported(tmp_path / "files", tmp_path / "back")


# ---- on Spark ------------------------------------------------------------------------------------


def size_or_error(path):
    """A task of the tests: the entries of a folder."""
    return {"entries": len([*Path(path).iterdir()])}


def longer(path):
    """A task of the tests: a file of the log gets longer under its hands."""
    with (Path(path) / f"{0:020d}.log").open("ab") as file:
        return {"written": file.write(b"x")}


def test_jobs_run_on_spark_and_are_not_done_twice(spark, packed, copy_of, tmp_path):
    """Errors stay with their partition, progress comes to its end, results are kept."""
    data = copy_of(packed / "plain-many-segments" / "data")
    state, told = tmp_path / "state", []

    def progress(*what):
        told.append(what)

    first = jobs.verify(spark, data, state=state, progress=progress)
    again = jobs.verify(spark, data, state=state)
    damage(data / "orders-1", 200)
    (data / "orders-0" / "0.txt").write_text("no part of the log")
    third = jobs.verify(spark, data, state=state)

    assert first.ok
    assert [one.key for one in first.items] == ["orders-0", "orders-1"]
    assert told[-1] == ("verify", 2, 2)
    assert [one.was_done for one in first.items + again.items] == [False, False, True, True]
    assert again.results == first.results
    assert [one.was_done for one in third.items] == [True, False]
    assert not third.ok
    assert "problems" in third.to_dict()["items"][1]["result"]
    assert "orders-1: " in str(third)

    growing = [JobItem("g", str(data / "orders-0"), str(data / "orders-0"))]
    for _ in range(2):  # what somebody writes meanwhile is not kept
        assert not run_job(spark, "grow", growing, longer, state=state).items[0].was_done
    items = [JobItem("a", str(data)), JobItem("b", str(data / "nothing"))]
    report = run_job(spark, "list", items, size_or_error)
    assert report.results == {"a": {"entries": len([*data.iterdir()])}}
    assert not report.ok
    assert report.items[1].error.startswith("FileNotFoundError")


def test_an_export_goes_on_and_an_import_brings_it_back(spark, tmp_path):
    data, files = tmp_path / "data", tmp_path / "files"
    with segstore.open_dir(data, durability="none") as logs:
        logs.create_topic("t", partitions=2)
        logs.create_topic("empty", partitions=3)
        logs.append("t", [(b"%d" % n, b"v") for n in range(100)])
    first = jobs.export_parquet(spark, data, files)
    with segstore.open_dir(data, durability="none") as logs:
        logs.append("t", [(b"%d" % n, b"w") for n in range(10)])
    second = jobs.export_parquet(spark, data, files)
    third = jobs.export_parquet(spark, data, files)
    back = jobs.import_parquet(spark, files, tmp_path / "back", compression="lz4")

    assert sum(one["records"] for one in first.results.values()) == 100
    assert sum(one["records"] for one in second.results.values()) == 10
    assert third.items == ()
    assert back.ok
    assert {f"empty-{number}" for number in range(3)} <= {*back.results}
    for name in ("t-0", "t-1"):
        assert records_of(tmp_path / "back" / name) == records_of(data / name)
    assert spark.read.parquet(str(files)).count() == 110
    with pytest.raises(IllegalArgumentError, match="isolation"):
        jobs.export_parquet(spark, data, files, **{"isolation.level": "read_committed"})
    with pytest.raises(IllegalArgumentError, match="no compression 'rar'"):
        jobs.import_parquet(spark, files, tmp_path / "back", compression="rar")
    for lost in files.glob("t-1-*"):
        lost.unlink()
    with pytest.raises(CorruptLogError, match=r"not whole.*no file of t-1,"):
        jobs.import_parquet(spark, files, tmp_path / "some")
    assert jobs.import_parquet(spark, files, tmp_path / "some", allow_gaps=True).ok


def test_an_import_that_fails_in_one_partition_closes_its_topic(spark, tmp_path):
    """Else keys went to the partitions that there are; other topics are whole."""
    data, files, back = tmp_path / "data", tmp_path / "files", tmp_path / "back"
    with segstore.open_dir(data, durability="none") as logs:
        for topic in ("t", "other"):
            logs.create_topic(topic, partitions=2)
            logs.append(topic, [(b"%d" % n, b"v") for n in range(100)])
    jobs.export_parquet(spark, data, files)
    (file,) = files.glob("t-1-*")
    content = file.read_bytes()
    file.write_bytes(content[:40] + bytes(64) + content[104:])
    report = jobs.import_parquet(spark, files, back)

    assert [one.key for one in report.items if one.error is not None] == ["t-1"]
    with segstore.open_dir(back, read_only=True) as logs:
        assert logs.count("other") == 100
        with pytest.raises(IllegalStateError, match="the import of this log is not finished"):
            logs.count("t")
    file.write_bytes(content)
    assert jobs.import_parquet(spark, files, back).ok
    with segstore.open_dir(back, read_only=True) as logs:
        assert logs.count("t") == 100


def test_small_partitions_are_exported_in_few_tasks(monkeypatch, tmp_path):
    """Twenty thousand of them were as many tasks; an item without a size has one of its own."""
    data, given = tmp_path / "data", []
    with segstore.open_dir(data, durability="none") as logs:
        logs.create_topic("t", partitions=40)
        logs.create_topic("large", partitions=1)
        logs.append("t", [(b"%d" % n, b"v") for n in range(1000)])
        for _ in range(2):
            logs.append("large", [(None, b"x" * 700_000)])
    monkeypatch.setattr(parquet_export, "run_job", lambda *what, **_: given.extend(what[2]))
    jobs.export_parquet(None, data, tmp_path / "files", maxBytesPerPartition=1_000_000)

    assert len(given) == 42
    sizes = {one.key: one.size_bytes for one in given}
    stored = (data / "t-7" / f"{0:020d}.log").stat().st_size
    assert [size for name, size in sizes.items() if name.startswith("t-7-")] == [stored]
    assert [size for name, size in sizes.items() if "large" in name] == [1_000_000] * 2
    tasks = packed_items([*enumerate(given)], cores=2)
    assert len(tasks) < 10
    assert {len(task) for task in tasks} >= {5}


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--file"], 0, "__main__.py"),
        ([], 2, "usage"),
        (["verify"], 2, "PATH"),
        (["verify", "x", "--option", "subscribe"], 2, "NAME=VALUE"),
        (["--help"], 0, "plan-compaction"),
    ],
)
def test_the_command_tells_what_it_wants(arguments, code, words):
    command = [sys.executable, "-m", "segstore.spark", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)

    assert done.returncode == code
    assert words in done.stdout + done.stderr
