"""Synced records that were missing were silently not read by Spark: rows, counts, exports, streams.

The open for reading ends where the damage is and says so in its report, which nobody looked at.
"""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("fsspec")

import segstore
from segstore.errors import CorruptLogError
from segstore.spark.compaction_plan import plan_compaction_of
from segstore.spark.log_source import source_of
from segstore.spark.mapped_ranges import options_of_call, ranges_of
from segstore.spark.mapped_read import _narrowed
from segstore.spark.open_logs import OPEN_LOGS
from segstore.spark.parquet_export import ExportTask
from segstore.spark.partition_jobs import stats_of_partition
from segstore.spark.record_count import count_range
from segstore.spark.stream_options import parse_stream_options
from segstore.spark.stream_plan import StreamPlan
from segstore.spark.topic_offsets import NO_OFFSETS
from segstore.spark.where_clause import Narrowing
from tests.kits.remote_directories import forget, upload

APPENDS, RECORDS = 5, 50


@pytest.fixture
def written(tmp_path):
    """A log that was closed cleanly: its marker and recovery point say 250."""
    directory = tmp_path / "data"
    directory.mkdir()
    with segstore.open(directory / "t-0") as log:
        for _ in range(APPENDS):
            log.append([(b"k", b"value")] * RECORDS)
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
