"""``segstore pipeline``: events keep their order wherever its driver is killed.

Spark's file source notes the files of a micro-batch before the batch is noted. Killed in between it
reads two files in one micro-batch, the larger one first, and the log had the later events in front.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore.cli.pipeline import last_event, write_files

pytest.importorskip("pyspark")

from segstore.cli import pipeline_queries as queries
from tests.spark.conftest import spark

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

__all__ = ["spark"]

START = 1_356_998_400_000
# the files become larger, and many events have the same time: neither says their order
DATA = [(START + one // 7 * 60_000, b"AA", b"%d" % one * (one + 1)) for one in range(80)]


@pytest.mark.slow
def test_two_files_in_one_micro_batch(spark: SparkSession, tmp_path: Path):
    folder = queries.source_folder(tmp_path)
    write_files(folder, DATA)
    files = sorted(folder.iterdir())
    aside = [file.rename(tmp_path / file.name) for file in files[2:]]
    queries.make_topics(tmp_path)
    queries.write_events(spark, tmp_path).awaitTermination()
    for file in aside:
        file.rename(folder / file.name)
    notes = tmp_path / "checkpoints" / queries.EVENTS / "sources" / "0"
    version, line = (notes / "1").read_text().splitlines()
    note = json.loads(line)
    assert note["path"].endswith(files[1].name)
    note["path"] = note["path"].replace(files[1].name, files[2].name)
    note |= {"timestamp": files[2].stat().st_mtime_ns // 10**6, "batchId": 2}
    (notes / "2").write_text(f"{version}\n{json.dumps(note)}")

    queries.write_events(spark, tmp_path).awaitTermination()

    number = segstore.partition_for_key(b"AA", queries.EVENT_PARTITIONS)
    with segstore.open_dir(queries.event_log(tmp_path), read_only=True) as logs:
        found = [(one.timestamp, one.value) for one in logs.log(queries.EVENTS, number)]
    last = last_event(DATA)
    assert [one for one in found if one[1] != last[2]] == [(time, value) for time, _, value in DATA]
