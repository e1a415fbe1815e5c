"""Spark: the source, the sink and the jobs."""

from __future__ import annotations

import json
import os
import pickle
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytest.importorskip("pyspark.sql.datasource")
pytest.importorskip("fsspec")

import segstore
from segstore.cli import pipeline_queries as queries
from segstore.cli.pipeline import last_event, write_files
from segstore.errors import (
    CorruptLogError,
    CorruptRecordError,
    DiskFullError,
    FsyncFailedError,
    IllegalArgumentError,
    IllegalStateError,
)
from segstore.log.unified_log import UnifiedLog
from segstore.spark import named_commit, sink_commit
from segstore.spark.compaction_plan import plan_compaction_of
from segstore.spark.conditions import ConnectorOptionError
from segstore.spark.datasource import SegstoreDataSource
from segstore.spark.job_runner import run_job
from segstore.spark.job_state import JobState, directory_signature
from segstore.spark.log_source import source_of
from segstore.spark.mapped_ranges import options_of_call, ranges_of
from segstore.spark.mapped_read import _narrowed
from segstore.spark.offsets import plan_ranges
from segstore.spark.open_logs import MAX_OPEN_LOGS, OPEN_LOGS
from segstore.spark.options import parse_options
from segstore.spark.parquet_export import ExportTask, export_parquet
from segstore.spark.partition_jobs import stats_of_partition, verify_partition
from segstore.spark.reader import SegstoreReader
from segstore.spark.record_count import count_range
from segstore.spark.schema import connector_schema
from segstore.spark.sink_options import parse_sink_options
from segstore.spark.stream_options import parse_stream_options
from segstore.spark.stream_plan import StreamPlan
from segstore.spark.stream_reader import UnlimitedStreamReader
from segstore.spark.topic_offsets import NO_OFFSETS
from segstore.spark.where_clause import Narrowing
from segstore.tables import whole_file as module
from segstore.tables.offset_ranges import OffsetRange
from segstore.tables.parquet_files import exported_files, file_name_of
from segstore.tables.partition_import import PartitionImport, import_partition
from segstore.tables.whole_file import ORPHAN_AGE_SECONDS, new_run, remove_parts, whole_file
from segstore.types import Codec
from tests.kits.commit_kit import (
    SMALL,
    all_values,
    assert_once_and_in_order,
    fail_at_append,
    state_of,
)
from tests.kits.log_kit import TIME
from tests.kits.remote_directories import forget, upload
from tests.kits.sink_kit import Stream, hidden_files, make_topic, numbered, schema_of, write_batch

# ---- names that are no options -------------------------------------------------------------------
# A misspelt option: functions refuse it, since they would do more; the source and sink warn.


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("asign", "assign"),
        ("subscrib", "subscribe"),
        ("startingOffset", "startingOffsets"),
        ("isolation_level", "isolation.level"),
    ],
)
def test_a_function_refuses_what_it_does_not_know(tmp_path, name, meant):
    with pytest.raises(ConnectorOptionError, match=f"{name}.*was {meant} meant"):
        options_of_call(str(tmp_path), {name: "x"})


def test_a_function_refuses_anything_else_too(tmp_path):
    with pytest.raises(ConnectorOptionError, match=r"there is no option 'colour' \(expected"):
        options_of_call(str(tmp_path), {"colour": "red"})


def test_names_in_any_case_and_of_the_connector_are_known(tmp_path):
    given = {"SUBSCRIBE": "t", "kafka.group.id": "g", "fetchOffset.numRetries": 3, "remote.x": "y"}
    with pytest.warns(UserWarning, match="consumer are ignored"):
        assert options_of_call(str(tmp_path), given).choice.topics == ("t",)


@pytest.mark.parametrize("kind", ["segments", "batches"])
def test_functions_are_for_records(tmp_path, kind):
    with pytest.raises(ConnectorOptionError, match=f"kind={kind}"):
        options_of_call(str(tmp_path), {"kind": kind})
    assert options_of_call(str(tmp_path), {"kind": "records"}).choice.pattern is not None


def test_the_source_and_the_sink_warn():
    read = parse_options({"path": "d", "subscribe": "t", "minPartition": "3", "mine": "1"})
    assert read.warnings == ("option minpartition is not known: minPartitions is",)
    write = parse_sink_options({"path": "d", "topic": "t", "numPartition": "3"})
    assert write.warnings == ("option numpartition is not known: numPartitions is",)


def test_a_log_that_lost_its_log_files_is_not_passed_over(tmp_path):
    with segstore.open_dir(tmp_path, durability="none") as manager:
        manager.create_topic("t", 2)
        for number in range(2):
            manager.append("t", [(None, b"x")], partition=number)
    for file in (tmp_path / "t-1").glob("*.log"):
        file.unlink()

    reader = SegstoreReader(
        {"path": str(tmp_path), "subscribe": "t"}, connector_schema(include_headers=False)
    )
    with pytest.raises(segstore.SegstoreError, match="t-1"):
        reader.partitions()


def test_a_limit_below_nothing_is_warned_of(tmp_path):
    """It ends as with Spark's Kafka source; the error then speaks of lost data."""
    given = {"path": str(tmp_path), "subscribe": "t", "maxOffsetsPerTrigger": "-5"}
    (warning,) = parse_stream_options(given).read.warnings
    assert "maxOffsetsPerTrigger is -5" in warning


# ---- plan beside a writer ------------------------------------------------------------------------
# A plan by timestamps beside a writer: its ends were taken before, and what it found lay behind.
#
# The query failed with a data loss that was none, or with a start above its end.


RECORDS_OF_A_PLAN = 100


@pytest.fixture
def logs(tmp_path):
    with segstore.open_dir(tmp_path, durability="none") as manager:
        manager.create_topic("t", 1)
    append(tmp_path, 0, RECORDS_OF_A_PLAN)
    yield tmp_path
    OPEN_LOGS.close()


def append(logs, first, count):
    with segstore.open_dir(logs, durability="none") as manager:
        for number in range(first, first + count):
            manager.log("t", 0).append([(TIME + number, None, b"%d" % number)])


def planned(logs, **given):
    """Plan a query; a writer goes on as soon as the ends are known."""
    options = options_of_call(str(logs), given)
    source = source_of(options)

    def open_log(partition):
        log = source.open(partition)
        append(logs, RECORDS_OF_A_PLAN, 50)
        return log

    return [
        (offsets.from_offset, offsets.until_offset)
        for offsets in plan_ranges(options, source.partitions(), open_log, pytest.fail)
    ]


def test_an_end_that_a_writer_brought_is_the_end_of_the_plan(logs):
    assert planned(logs, endingTimestamp=TIME + RECORDS_OF_A_PLAN + 5) == [(0, RECORDS_OF_A_PLAN)]


def test_a_start_that_a_writer_brought_is_no_match_yet(logs):
    begin = {"startingTimestamp": TIME + RECORDS_OF_A_PLAN + 5}
    with pytest.raises(segstore.SegstoreError, match="No offset matched"):
        planned(logs, **begin)


def test_a_start_that_a_writer_brought_is_the_end_where_that_was_asked_for(logs):
    latest = {"startingOffsetsByTimestampStrategy": "latest"}
    assert planned(logs, startingTimestamp=TIME + RECORDS_OF_A_PLAN + 5, **latest) == [
        (RECORDS_OF_A_PLAN, RECORDS_OF_A_PLAN)
    ]


@pytest.mark.parametrize(
    ("word", "expected"),
    [(-1, (RECORDS_OF_A_PLAN, RECORDS_OF_A_PLAN)), (-2, (0, RECORDS_OF_A_PLAN))],
)
def test_words_in_the_place_of_timestamps(logs, word, expected):
    assert planned(logs, startingTimestamp=word) == [expected]


# ---- plans of many partitions --------------------------------------------------------------------
# A plan of more than 64 partitions failed with ClosedError, and one in each of two threads, too.
#
# The logs that stay open were handed out while they stayed in the cache, so the 65th closed the
# first one, which the plan still held; two threads closed each other's.


PARTITIONS = MAX_OPEN_LOGS + 6


@pytest.fixture(scope="module")
def many_partitions(tmp_path_factory):
    path = tmp_path_factory.mktemp("many")
    for number in range(PARTITIONS):
        with segstore.open(path / f"t-{number}", durability="none") as log:
            log.append([segstore.Record(value=b"v", timestamp=n) for n in range(3)])
    yield path
    OPEN_LOGS.close()


@pytest.mark.parametrize(
    "more", [{}, {"maxBytesPerPartition": 1}, {"startingTimestamp": 1, "endingTimestamp": 3}]
)
def test_all_are_planned_and_read(many_partitions, more):
    options = options_of_call(str(many_partitions), more)
    ranges = ranges_of(options)

    assert len(ranges) == PARTITIONS
    first = 1 if "startingTimestamp" in more else 0
    assert sum(count_range(options, one) for one in ranges) == PARTITIONS * (3 - first)


def test_threads_plan_side_by_side(many_partitions):
    """Together they need more than stay open."""
    options = options_of_call(str(many_partitions), {})

    def plan(_):
        return [(one.from_offset, one.until_offset) for one in ranges_of(options)]

    with ThreadPoolExecutor(4) as pool:
        plans = list(pool.map(plan, range(8)))
    assert plans == [[(0, 3)] * PARTITIONS] * 8


# ---- result of another directory -----------------------------------------------------------------
# A kept result answered for another directory, and for files whose times were set back.
#
# It was known by the partition's name, and by names, sizes and mtime of the files: a damaged copy
# of a verified directory was never read.


RESULT = {"ok": True}


@pytest.fixture
def path(tmp_path):
    """The directory of a partition, in a log directory with the checkpoints of two."""
    with segstore.open_dir(tmp_path / "data", durability="none") as logs:
        logs.create_topic("t", partitions=2)
        logs.append("t", [(None, b"v" * 50)] * 100)
    return tmp_path / "data" / "t-0"


@pytest.fixture
def state(tmp_path, path):
    """A folder with the result of the partition."""
    made = JobState(tmp_path / "state", "verify")
    made.keep("t-0", str(path), directory_signature(str(path)), RESULT)
    return pickle.loads(pickle.dumps(made))  # as an executor has it


def damage(path):
    """Change a byte, and put the time of change back."""
    file = min(path.glob("*.log"))
    times = file.stat()
    data = bytearray(file.read_bytes())
    data[100] ^= 1
    file.write_bytes(data)
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


def test_it_holds_while_nothing_changes(state, path):
    with segstore.open(path, read_only=True) as log:
        assert sum(1 for _ in log) > 0
    (path / "0.txt").write_text("no part of the log")

    assert state.read("t-0", str(path)) == RESULT
    assert state.read("t-1", str(path)) is None


def test_the_result_of_another_directory_is_refused(state, path, tmp_path):
    other = tmp_path / "copy" / "t-0"
    shutil.copytree(path.parent, other.parent)

    with pytest.raises(IllegalArgumentError, match="result of another directory") as refused:
        state.read("t-0", str(other))
    assert refused.value.found == str(path)


def test_a_copy_in_the_place_of_the_directory_is_read_anew(state, path, tmp_path):
    shutil.copytree(path, tmp_path / "copy")
    shutil.rmtree(path)
    (tmp_path / "copy").rename(path)

    assert state.read("t-0", str(path)) is None


def test_damage_with_the_old_time_is_read_anew(state, path):
    damage(path)

    assert state.read("t-0", str(path)) is None


@pytest.mark.parametrize(
    ("name", "text", "holds"),
    [
        ("recovery-point-offset-checkpoint", "0\n2\nt 0 1\nt 1 50\n", False),
        ("log-start-offset-checkpoint", "0\n1\nt 0 7\n", False),
        ("log-start-offset-checkpoint", "0\n1\nt 1 7\n", True),
        ("t-0/leader-epoch-checkpoint", "0\n1\n3 0\n", False),
        ("t-0/00000000000000000000.log.swap", "", False),
    ],
)
def test_what_an_open_reads_counts(state, path, name, text, holds):
    """A checkpoint of the log directory by the partition's own line."""
    (path.parent / name).write_text(text)

    assert (state.read("t-0", str(path)) is not None) == holds


def test_a_lost_clean_marker_counts(state, path):
    (path.parent / ".kafka_cleanshutdown").unlink()

    assert state.read("t-0", str(path)) is None


def test_another_text_is_refused(state, path, tmp_path):
    (tmp_path / "state" / "verify-t-0.json").write_text("")

    with pytest.raises(IllegalArgumentError, match="no result of a job"):
        state.read("t-0", str(path))


# ---- spark reads of a damaged end ----------------------------------------------------------------
# Synced records that were missing were silently not read by Spark: rows, counts, exports, streams.
#
# The open for reading ends where the damage is and says so in its report, which nobody looked at.


APPENDS, RECORDS_BEFORE_THE_DAMAGE = 5, 50


@pytest.fixture
def written(tmp_path):
    """A log that was closed cleanly: its marker and recovery point say 250."""
    directory = tmp_path / "data"
    directory.mkdir()
    with segstore.open(directory / "t-0") as log:
        for _ in range(APPENDS):
            log.append([(b"k", b"value")] * RECORDS_BEFORE_THE_DAMAGE)
    yield directory
    OPEN_LOGS.close()


def cut(directory):
    """Leave two and a half of five batches."""
    (file,) = (directory / "t-0").glob("*.log")
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def zero(directory):
    (file,) = (directory / "t-0").glob("*.log")
    data = file.read_bytes()
    file.write_bytes(data[: len(data) // 2].ljust(len(data), b"\0"))


@pytest.fixture(params=["disk", "url"])
def options_at(request, written, tmp_path):
    """A function: options of a call for the directory as it is now, on a disk or at a URL."""
    urls = []

    def options(**more):
        if request.param == "disk":
            return options_of_call(str(written), more)
        urls.append(upload(written, *urls[:1]))
        return options_of_call(urls[0], {"spoolDirectory": str(tmp_path / "spool"), **more})

    yield options
    if urls:
        forget(urls[0])


@pytest.mark.parametrize("damage", [cut, zero])
@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed", "durable"])
def test_a_plan_that_goes_to_the_end_says_where_it_is_damaged(
    written, options_at, damage, isolation
):
    damage(written)
    chosen = {"isolation.level": isolation}
    before = {**chosen, "endingOffsets": '{"t":{"0":99}}'}

    with pytest.raises(CorruptLogError, match=r"t-0.*damaged at offset 100: 0{20}\.log"):
        ranges_of(options_at(**chosen))
    (below,) = ranges_of(options_at(**before))
    assert count_range(options_at(**before), below) == 99
    lenient = options_at(**chosen, failOnDataLoss=False)
    with pytest.warns(UserWarning, match="damaged at offset 100"):
        (rest,) = ranges_of(lenient)
    assert count_range(lenient, rest) == 100


def test_a_task_sees_damage_that_came_after_its_plan(written, options_at, tmp_path):
    options = options_at()
    (planned,) = ranges_of(options)
    cut(written)
    options_at()

    with pytest.raises(CorruptLogError, match="damaged at offset 100"):
        count_range(options, planned)
    if not options.is_remote:
        with pytest.raises(CorruptLogError, match="damaged at offset 100"):
            ExportTask(options, str(tmp_path), "zstd")(planned)
        assert not list(tmp_path.glob("*.parquet"))


def test_a_condition_on_what_is_missing_is_no_empty_answer(written, options_at):
    cut(written)

    def narrowed(narrowing):
        return ranges_of(options_at(), lambda offsets, log: _narrowed(offsets, log, narrowing))

    for missing in (Narrowing(first_offset=150), Narrowing(first_timestamp=1 << 60)):
        with pytest.raises(CorruptLogError, match="damaged at offset 100"):
            narrowed(missing)
    (below,) = narrowed(Narrowing(end_offset=80))
    assert below.until_offset == 80


@pytest.mark.parametrize("fails", [True, False])
def test_a_stream_does_not_take_it_for_the_end(written, fails):
    cut(written)
    options = parse_stream_options(
        {"path": str(written), "subscribe": "t", "failOnDataLoss": str(fails).lower()}
    )
    told = []
    plan = StreamPlan(options, source_of(options.read).open, told.append)

    if fails:
        with pytest.raises(CorruptLogError, match="damaged at offset 100"):
            plan.latest_offsets(NO_OFFSETS, takes_all=True)
    else:
        latest = plan.latest_offsets(NO_OFFSETS, takes_all=True)
        assert list(latest.by_partition.values()) == [100]
        assert "damaged at offset 100" in told[0]


@pytest.mark.parametrize("job", [stats_of_partition, plan_compaction_of])
def test_a_job_says_that_something_was_found(written, job):
    whole = job(str(written / "t-0"))
    cut(written)
    damaged = job(str(written / "t-0"))

    assert (whole["ok"], whole["problems"]) == (True, [])
    assert not damaged["ok"]
    assert "damaged at offset 100" in damaged["problems"][0]


# ---- stream on an older spark --------------------------------------------------------------------
# On Spark 4.0 and 4.1 a stream with ``maxOffsetsPerTrigger`` failed at its second batch.
#
# Spark asks there where a new query starts behind its first end. The reader took that start for the
# end of the first batch, so the second one went backwards, which looked like lost data.


@pytest.fixture
def reader_of(tmp_path):
    """A log of a hundred records, and a function that makes readers as Spark 4.0 does."""
    with segstore.open(tmp_path / "t-0", durability="none") as log:
        log.append([(None, b"v")] * 100)
    options = {"path": str(tmp_path), "subscribe": "t", "maxOffsetsPerTrigger": "30"}

    def make(starting="earliest"):
        given = {**options, "startingOffsets": starting}
        with pytest.warns(UserWarning, match=r"before Spark 4\.2 the first batch"):
            return UnlimitedStreamReader(given, connector_schema(include_headers=False))

    yield make
    OPEN_LOGS.close()


def add(path, count):
    with segstore.open(path / "t-0", durability="none") as log:
        log.append([(None, b"v")] * count)


def end(offset):
    return {"t": {"0": offset}}


def ranges(partitions):
    return [(r.from_offset, r.until_offset) for one in partitions for r in one.ranges]


def test_the_second_batch_begins_where_the_first_one_ended(reader_of, tmp_path):
    reader = reader_of()

    assert reader.latestOffset() == end(100)
    assert reader.initialOffset() == end(0)
    assert ranges(reader.partitions(end(0), end(100))) == [(0, 100)]
    assert reader.latestOffset() == end(100)
    add(tmp_path, 50)
    assert reader.latestOffset() == end(130)
    assert reader.latestOffset() == end(130)  # a batch that was not planned took nothing
    assert ranges(reader.partitions(end(100), end(130))) == [(100, 130)]
    assert reader.latestOffset() == end(150)


def test_a_batch_that_runs_again_tells_where_the_next_one_begins(reader_of, tmp_path):
    add(tmp_path, 50)
    reader = reader_of()

    assert ranges(reader.partitions(end(10), end(40))) == [(10, 40)]
    assert reader.latestOffset() == end(70)


def test_a_start_at_the_end_has_an_empty_first_batch(reader_of, tmp_path):
    reader = reader_of("latest")

    assert reader.latestOffset() == end(100)
    add(tmp_path, 5)
    assert reader.initialOffset() == end(105)
    assert ranges(reader.partitions(end(105), end(100))) == []
    assert reader.latestOffset() == end(105)
    assert ranges(reader.partitions(end(100), end(105))) == [(100, 105)]
    add(tmp_path, 70)
    assert reader.latestOffset() == end(135)


# ---- stream that is refused ----------------------------------------------------------------------
# A stream with wrong options: its error is the last thing said, not one of Spark's own.


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"endingOffsets": "latest"}, "a stream has no end"),
        ({"kind": "segments"}, "kind=segments"),
    ],
)
def test_the_first_call_says_it(tmp_path, options, said):
    source = SegstoreDataSource({"path": str(tmp_path), "subscribe": "t", **options})
    reader = source.streamReader(connector_schema(include_headers=False))
    for call in (reader.initialOffset, reader.latestOffset, lambda: reader.partitions({}, {})):
        with pytest.raises(ConnectorOptionError, match=said):
            call()
    reader.stop()


# ---- two queries of one name ---------------------------------------------------------------------
# Two queries with one ``txnAppId`` lost every batch of one of them, without a word.
#
# Their numbers of micro-batches were equal, so the second was taken for a repetition of the first.


@pytest.fixture
def directory_of_two_queries(tmp_path):
    make_topic(tmp_path / "logs")
    return tmp_path / "logs"


def query(directory, query_id):
    return Stream(directory, query_id, topic="t", txnAppId="mine", **SMALL)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_another_query_is_an_error_that_names_both(directory_of_two_queries, version):
    """A new checkpoint has a new id and begins at 0 again."""
    query(directory_of_two_queries, "first-id").run(1, numbered(0, 10))

    with pytest.raises(IllegalStateError, match="another txnAppId") as caught:
        query(directory_of_two_queries, "second-id").run(version, numbered(10, 10))
    assert "first-id" in str(caught.value)
    assert "second-id" in str(caught.value)
    assert all_values(directory_of_two_queries) == list(range(10))
    query(directory_of_two_queries, "first-id").run(2, numbered(10, 10))
    assert all_values(directory_of_two_queries) == list(range(20))


def test_the_commit_of_another_query_is_left_to_it(directory_of_two_queries, monkeypatch):
    fail_at_append(monkeypatch, 3)
    with pytest.raises(OSError, match="as asked"):
        query(directory_of_two_queries, "first-id").run(0, numbered(0, 20))
    monkeypatch.undo()

    with pytest.raises(IllegalStateError, match="another txnAppId"):
        query(directory_of_two_queries, "second-id").run(1, numbered(20, 10))
    query(directory_of_two_queries, "first-id").run(0, numbered(0, 20))
    assert all_values(directory_of_two_queries) == list(range(20))
    assert hidden_files(directory_of_two_queries, "staged") == []
    assert state_of(directory_of_two_queries, "mine") == (0, "done")


def test_a_batch_write_of_the_name_does_not_hide_the_query(directory_of_two_queries):
    """As `foreachBatch` makes them: they know no id."""
    query(directory_of_two_queries, "first-id").run(0, numbered(0, 10))
    write_batch(
        directory_of_two_queries, numbered(10, 10), topic="t", txnAppId="mine", txnVersion="1"
    )

    with pytest.raises(IllegalStateError, match="another txnAppId"):
        query(directory_of_two_queries, "second-id").run(2, numbered(20, 10))
    assert all_values(directory_of_two_queries) == list(range(20))


@pytest.mark.parametrize("version", ["4", "5"])
def test_a_version_with_rows_that_is_dropped_says_so(directory_of_two_queries, version):
    name = {"topic": "t", "txnAppId": "nightly"}
    write_batch(directory_of_two_queries, numbered(0, 10), **name, txnVersion="5")

    with pytest.warns(UserWarning, match=f"nothing was written.*version 5, this is {version}"):
        write_batch(directory_of_two_queries, numbered(10, 10), **name, txnVersion=version)
    assert all_values(directory_of_two_queries) == list(range(10))


# ---- redo log of somebody else -------------------------------------------------------------------
# A redo log that could not be read failed every other writer of its directory.
#
# The error came when the files were tidied up, behind the commit: the rows were in the logs, and
# came twice when the write was repeated.


UNREADABLE = ".segstore-commit-00000000000000aa.json"


@pytest.fixture
def directory_of_redo_logs(tmp_path):
    make_topic(tmp_path / "logs")
    (tmp_path / "logs" / UNREADABLE).write_bytes(b"\0" * 100)
    return tmp_path / "logs"


def test_a_write_without_a_name_is_done(directory_of_redo_logs):
    """Nobody knows what the other commit needs, so the staged files stay."""
    with pytest.warns(UserWarning, match=f"staged files stay in .*{UNREADABLE}"):
        write_batch(directory_of_redo_logs, numbered(0, 10), topic="t")

    assert all_values(directory_of_redo_logs) == list(range(10))
    assert len(hidden_files(directory_of_redo_logs, "staged")) == 1


def test_a_micro_batch_is_done_and_its_files_go_later(directory_of_redo_logs):
    stream = Stream(directory_of_redo_logs, topic="t")
    with pytest.warns(UserWarning, match=UNREADABLE):
        stream.run(0, numbered(0, 10))
    assert state_of(directory_of_redo_logs) == (0, "done")
    (directory_of_redo_logs / UNREADABLE).unlink()
    stream.run(1, numbered(10, 10))

    assert all_values(directory_of_redo_logs) == list(range(20))
    assert hidden_files(directory_of_redo_logs, "staged") == []


def test_an_abort_says_what_stays(directory_of_redo_logs):
    """Spark shows the error that the write failed with, not one of its abort."""
    stream = Stream(directory_of_redo_logs, topic="t")
    messages = stream.stage(numbered(0, 10))
    with pytest.warns(UserWarning, match=UNREADABLE):
        stream.abort(messages, 0)

    assert len(hidden_files(directory_of_redo_logs, "staged")) == 1


def test_any_failure_behind_the_commit_is_a_warning(tmp_path, monkeypatch):
    make_topic(tmp_path)

    def failing(_directory):
        raise DiskFullError("as asked")

    monkeypatch.setattr(sink_commit, "staged_file_names", failing)
    with pytest.warns(UserWarning, match="as asked"):
        write_batch(tmp_path, numbered(0, 10), topic="t")
    assert all_values(tmp_path) == list(range(10))


# ---- commit that cannot be finished --------------------------------------------------------------
# A commit whose staged files were damaged or gone blocked its name for ever.
#
# The redo log was written first, and only the append behind it found the damage. An abort took no
# lock, and removed the files of a commit that was about to write its redo log.


@pytest.fixture
def stream(directory_of_two_queries):
    return Stream(directory_of_two_queries, topic="t", lockTimeoutMs="200", **SMALL)


def flip_the_last_byte(file):
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)


def interrupted(stream, monkeypatch, nth):
    """A commit of version 1 that ends at its *nth* append."""
    stream.run(0, numbered(0, 10))
    fail_at_append(monkeypatch, nth)
    with pytest.raises(OSError, match="as asked"):
        stream.run(1, numbered(10, 20))
    monkeypatch.undo()


def test_a_damaged_batch_is_found_before_anything_is_written(directory_of_two_queries, stream):
    stream.run(0, numbered(0, 10))
    messages = stream.stage(numbered(10, 20), numbered(30, 20))
    flip_the_last_byte(directory_of_two_queries / messages[1].file)

    with pytest.raises(CorruptRecordError, match="staged batch is damaged"):
        stream.commit(messages, 1)
    assert state_of(directory_of_two_queries) == (0, "done")
    assert_once_and_in_order(directory_of_two_queries, 10)
    stream.run(1, numbered(10, 20), numbered(30, 20))
    assert_once_and_in_order(directory_of_two_queries, 50)


def test_an_abort_beside_a_commit_leaves_its_files(directory_of_two_queries, stream, monkeypatch):
    """Between the check of the files and the redo log, from another process of Spark."""
    messages = stream.stage(numbered(0, 10))
    make_topics = named_commit.make_missing_topics

    def abort_first(*arguments):
        with pytest.warns(UserWarning, match="staged files stay"):
            stream.abort(messages, 0)
        make_topics(*arguments)

    monkeypatch.setattr(named_commit, "make_missing_topics", abort_first)
    stream.commit(messages, 0)

    assert_once_and_in_order(directory_of_two_queries, 10)
    assert hidden_files(directory_of_two_queries, "staged") == []


def test_a_commit_of_which_nothing_is_there_is_begun_anew(
    directory_of_two_queries, stream, monkeypatch
):
    """What was staged again takes the place of what is gone."""
    interrupted(stream, monkeypatch, 1)
    (directory_of_two_queries / hidden_files(directory_of_two_queries, "staged")[0]).unlink()
    stream.run(1, numbered(10, 20))

    assert state_of(directory_of_two_queries) == (1, "done")
    assert hidden_files(directory_of_two_queries, "staged") == []
    assert_once_and_in_order(directory_of_two_queries, 30)


def test_a_commit_into_a_topic_that_was_removed_is_begun_anew(
    directory_of_two_queries, monkeypatch
):
    stream = Stream(directory_of_two_queries, topic="t", numPartitions="3", **SMALL)
    interrupted(stream, monkeypatch, 1)
    for number in range(3):
        shutil.rmtree(directory_of_two_queries / f"t-{number}")
    stream.run(1, numbered(10, 20))

    assert state_of(directory_of_two_queries) == (1, "done")
    assert all_values(directory_of_two_queries) == list(range(10, 30))


def test_the_redo_log_is_the_way_out_of_the_rest(directory_of_two_queries, stream, monkeypatch):
    """A part is in the logs and the rest is gone: it says so, and appends nothing."""
    interrupted(stream, monkeypatch, 5)
    (directory_of_two_queries / hidden_files(directory_of_two_queries, "staged")[0]).unlink()
    before = all_values(directory_of_two_queries)
    assert 10 < len(before) < 30

    with pytest.raises(IllegalStateError, match=r"version 1 .* remove the redo log") as caught:
        stream.run(1, numbered(10, 20))
    assert "found 4 of its" in str(caught.value)
    assert all_values(directory_of_two_queries) == before
    redo_log = directory_of_two_queries / hidden_files(directory_of_two_queries, "commit")[0]
    assert redo_log.name in str(caught.value)
    redo_log.unlink()
    stream.run(1, numbered(10, 20))
    assert all_values(directory_of_two_queries) == sorted([*before, *range(10, 30)])


# ---- write that fails halfway --------------------------------------------------------------------
# A write without a name that failed in its commit left rows, which came twice when repeated.
#
# An abort left the files of attempts whose messages never came to the driver.


@pytest.fixture
def directory_of_a_write(tmp_path):
    make_topic(tmp_path / "logs")
    write_batch(tmp_path / "logs", numbered(0, 10), topic="t")
    return tmp_path / "logs"


def writer_of(directory):
    options = {"path": str(directory), "topic": "t", **SMALL}
    return SegstoreDataSource(options).writer(schema_of("key", "value"), overwrite=False)


@pytest.mark.parametrize("nth", [1, 2, 9])
def test_what_was_appended_is_taken_back(directory_of_a_write, monkeypatch, nth):
    fail_at_append(monkeypatch, nth)
    with pytest.raises(OSError, match="as asked"):
        write_batch(directory_of_a_write, numbered(10, 20), topic="t", **SMALL)
    monkeypatch.undo()

    assert all_values(directory_of_a_write) == list(range(10))
    write_batch(directory_of_a_write, numbered(10, 20), topic="t")
    assert all_values(directory_of_a_write) == list(range(30))
    with segstore.open_dir(directory_of_a_write, read_only=True) as manager:
        assert all(manager.log("t", number).report.damage is None for number in range(3))


@pytest.mark.parametrize("at", [-1, 8, 16], ids=["record", "length", "magic"])
def test_a_damaged_staged_batch_takes_back_what_came_before_it(directory_of_a_write, at):
    """The log that refuses it is check enough: nothing of the batch is changed on its way."""
    writer = writer_of(directory_of_a_write)
    message = writer.write(iter([numbered(10, 20)]))
    last = max(
        (batch for batches in message.batches.values() for batch in batches),
        key=lambda batch: batch.position,
    )
    file = directory_of_a_write / message.file
    data = bytearray(file.read_bytes())
    data[last.position + (at if at >= 0 else last.size_bytes - 1)] ^= 1
    file.write_bytes(data)

    with pytest.raises(
        CorruptRecordError, match=rf"{message.file}, position {last.position}: a staged"
    ):
        writer.commit([message])
    assert all_values(directory_of_a_write) == list(range(10))


def test_a_batch_of_another_number_of_records_is_none_of_the_write(directory_of_a_write):
    writer = writer_of(directory_of_a_write)
    message = writer.write(iter([numbered(10, 20)]))
    batches = next(iter(message.batches.values()))
    batches[0] = batches[0]._replace(records_count=batches[0].records_count + 1)

    with pytest.raises(CorruptRecordError, match=r"found \d+ records, expected a batch of"):
        writer.commit([message])
    assert all_values(directory_of_a_write) == list(range(10))


def test_what_cannot_be_taken_back_is_told(directory_of_a_write, monkeypatch):
    def failing(_log, _offset):
        raise DiskFullError("no room")

    fail_at_append(monkeypatch, 9)
    monkeypatch.setattr(UnifiedLog, "truncate_to", failing)
    with pytest.raises(OSError, match="as asked") as caught:
        write_batch(directory_of_a_write, numbered(10, 20), topic="t", **SMALL)
    (note, *_) = caught.value.__notes__
    assert re.search(r"may be left in t-\d from offset \d+ on: .*no room", note)
    assert len(all_values(directory_of_a_write)) > 10


def test_a_failure_to_sync_says_where_the_records_are(directory_of_a_write, monkeypatch):
    """Some are durable then, and may have been read: nothing is taken back without a word."""
    close, closed = UnifiedLog.close, []

    def failing(self):
        closed.append(self)
        if len(closed) == 2:
            raise FsyncFailedError("as asked")
        close(self)

    monkeypatch.setattr(UnifiedLog, "close", failing)
    with pytest.raises(FsyncFailedError, match="as asked") as caught:
        write_batch(directory_of_a_write, numbered(10, 20), topic="t")
    monkeypatch.undo()
    notes = "".join(caught.value.__notes__)
    assert re.findall(r"may be left in (t-\d) from offset \d+ on: readers", notes) == [
        "t-0",
        "t-1",
        "t-2",
    ]
    assert set(range(10)) < set(all_values(directory_of_a_write))


def test_an_abort_removes_the_files_of_lost_attempts(directory_of_a_write):
    """Killed, or denied by the coordinator: the driver has no message of them."""
    writer = writer_of(directory_of_a_write)
    messages = [writer.write(iter([numbered(0, 10)])) for _ in range(2)]
    others = writer_of(directory_of_a_write).write(iter([numbered(0, 10)]))
    writer.abort([messages[0], None])

    assert hidden_files(directory_of_a_write, "staged") == [others.file]


def test_an_abort_of_nothing_makes_no_directory(tmp_path):
    writer_of(tmp_path / "none").abort([None])
    assert list(tmp_path.iterdir()) == []


# ---- import of an unfinished export --------------------------------------------------------------
# An import of an export that was killed made a log with a hole, and said that all was well.
#
# When the export was finished later, the second import was refused: the records of the hole could
# never come in.


FIRST, MIDDLE, LAST = (OffsetRange("t", 0, start, start + 100) for start in (0, 100, 200))


@pytest.fixture
def export(tmp_path):
    """An export of three files, of which the middle one is not there yet; and what writes it."""
    with segstore.open(tmp_path / "data" / "t-0", durability="none") as log:
        log.append([(None, b"%d" % number) for number in range(300)])
    (tmp_path / "files").mkdir()
    options = options_of_call(str(tmp_path / "data"), {"subscribe": "t"})
    task = ExportTask(options, str(tmp_path / "files"), "zstd")
    task(FIRST)
    task(LAST)
    yield task
    OPEN_LOGS.close()


def work_of(folder, **given):
    files = tuple(exported_files(str(folder / "files")))
    return PartitionImport(files, str(folder / "back" / "t-0"), Codec.NONE, **given)


def test_a_missing_file_is_refused_and_comes_in_later(export, tmp_path):
    with pytest.raises(CorruptLogError, match="offsets 100 to 199 are in no file") as refused:
        import_partition(work_of(tmp_path))

    assert file_name_of(FIRST) in str(refused.value)
    assert Path(refused.value.file).name == file_name_of(LAST)
    assert not (tmp_path / "back").exists()

    export(MIDDLE)
    assert import_partition(work_of(tmp_path)) == {"records": 300, "log_end_offset": 300}


@pytest.mark.usefixtures("export")
def test_a_gap_may_be_wanted(tmp_path):
    found = import_partition(work_of(tmp_path, allow_gaps=True))

    assert found == {"records": 200, "log_end_offset": 300}
    with segstore.open(tmp_path / "back" / "t-0", read_only=True) as log:
        assert [record.offset for record in log] == [*range(100), *range(200, 300)]


@pytest.mark.usefixtures("export")
def test_files_of_two_isolations_are_no_export(tmp_path):
    """Only the first file of the folder was looked at, and only by an export."""
    options = options_of_call(
        str(tmp_path / "data"), {"subscribe": "t", "isolation.level": "read_committed"}
    )
    ExportTask(options, str(tmp_path / "files"), "zstd")(MIDDLE)

    with pytest.raises(CorruptLogError, match=r"isolation\.level read_committed") as refused:
        import_partition(work_of(tmp_path))
    assert Path(refused.value.file).name == file_name_of(MIDDLE)


# ---- parts of killed tasks -----------------------------------------------------------------------
# What a killed task had written of a file stayed for ever, and a job's state was not synced.
#
# After a power loss a result could be an empty file, which refused the next run.


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


def left_behind(folder, run):
    """Do as a task that is killed: a part that nobody removes."""
    part = folder / f".segstore-part-{run}-{new_run()}"
    part.write_bytes(b"half")
    return part.name


def test_a_file_is_synced_before_it_has_its_name(tmp_path, monkeypatch):
    synced = []

    def fsync(descriptor):
        synced.append((Path(f"/proc/self/fd/{descriptor}").readlink(), names_in(tmp_path)))

    monkeypatch.setattr(module.os, "fsync", fsync)
    with whole_file(tmp_path / "a.json", new_run()) as part:
        part.write_bytes(b"whole")

    assert synced == [(part, [part.name]), (tmp_path, ["a.json"])]
    assert (tmp_path / "a.json").read_bytes() == b"whole"


def test_a_file_that_fails_leaves_the_one_before(tmp_path):
    (tmp_path / "a.json").write_bytes(b"before")

    def write_half():
        with whole_file(tmp_path / "a.json", new_run()) as part:
            part.write_bytes(b"half")
            raise KeyError

    with pytest.raises(KeyError):
        write_half()

    assert names_in(tmp_path) == ["a.json"]
    assert (tmp_path / "a.json").read_bytes() == b"before"


def test_parts_of_this_run_and_old_ones_go(tmp_path):
    run, other = new_run(), new_run()
    left_behind(tmp_path, run)
    old = left_behind(tmp_path, other)
    before = time.time() - ORPHAN_AGE_SECONDS - 60
    os.utime(tmp_path / old, (before, before))
    stays = left_behind(tmp_path, other)
    (tmp_path / ".segstore-part-of-somebody").write_bytes(b"")
    os.utime(tmp_path / ".segstore-part-of-somebody", (before, before))
    remove_parts(str(tmp_path), run)

    assert names_in(tmp_path) == sorted([stays, ".segstore-part-of-somebody"])
    remove_parts(str(tmp_path / "nothing"), run)  # is no error of a job that is done


def test_jobs_remove_what_was_left(tmp_path):
    """With nothing to do they need no Spark; the old part is that of a run that was killed."""
    with segstore.open(tmp_path / "data" / "t-0", durability="none") as log:
        log.append([(None, b"v")] * 10)
    files, state = tmp_path / "files", tmp_path / "state"
    files.mkdir()
    task = ExportTask(
        options_of_call(str(tmp_path / "data"), {"subscribe": "t"}), str(files), "zstd"
    )
    offsets = OffsetRange("t", 0, 0, 10)
    task(offsets)
    state.mkdir()
    before = time.time() - ORPHAN_AGE_SECONDS - 60
    for folder in (files, state):
        os.utime(folder / left_behind(folder, new_run()), (before, before))

    assert export_parquet(None, tmp_path / "data", files, subscribe="t").items == ()
    assert run_job(None, "verify", [], verify_partition, state=state).items == ()
    assert names_in(files) == [file_name_of(offsets)]
    assert names_in(state) == []
    OPEN_LOGS.close()


# ---- pipeline killed between two notes -----------------------------------------------------------
# ``segstore pipeline``: events keep their order wherever its driver is killed.
#
# Spark's file source notes the files of a micro-batch before the batch is noted. Killed in between
# it reads two files in one micro-batch, the larger one first, and the log had the later events in
# front.


START = 1_356_998_400_000
# the files become larger, and many events have the same time: neither says their order
DATA = [(START + one // 7 * 60_000, b"AA", b"%d" % one * (one + 1)) for one in range(80)]


def write_with_two_files_in_a_micro_batch(work: Path) -> None:
    """Run the query, make what a killed driver leaves behind its next note, and run it again."""
    from segstore.spark import session

    files = sorted(queries.source_folder(work).iterdir())
    aside = [file.rename(work / file.name) for file in files[2:]]
    spark = session("two notes", **queries.SETTINGS)
    queries.write_events(spark, work).awaitTermination()
    for file, place in zip(aside, files[2:], strict=True):
        file.rename(place)
    notes = work / "checkpoints" / queries.EVENTS / "sources" / "0"
    version, line = (notes / "1").read_text().splitlines()
    note = json.loads(line)
    assert note["path"].endswith(files[1].name)
    note["path"] = note["path"].replace(files[1].name, files[2].name)
    note |= {"timestamp": files[2].stat().st_mtime_ns // 10**6, "batchId": 2}
    (notes / "2").write_text(f"{version}\n{json.dumps(note)}")
    queries.write_events(spark, work).awaitTermination()
    spark.stop()


@pytest.mark.slow
def test_two_files_in_one_micro_batch(tmp_path: Path):
    pytest.importorskip("pyspark")
    write_files(queries.source_folder(tmp_path), DATA)
    queries.make_topics(tmp_path)

    # a process of its own: no other test may find its session
    subprocess.run([sys.executable, "-m", __name__, str(tmp_path)], check=True)

    number = segstore.partition_for_key(b"AA", queries.EVENT_PARTITIONS)
    with segstore.open_dir(queries.event_log(tmp_path), read_only=True) as logs:
        found = [(one.timestamp, one.value) for one in logs.log(queries.EVENTS, number)]
    last = last_event(DATA)
    assert [one for one in found if one[1] != last[2]] == [(time, value) for time, _, value in DATA]


if __name__ == "__main__":
    write_with_two_files_in_a_micro_batch(Path(sys.argv[1]))
