"""``segstore pipeline``: events keep their order wherever its driver is killed.

Spark's file source notes the files of a micro-batch before the batch is noted. Killed in between it
reads two files in one micro-batch, the larger one first, and the log had the later events in front.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import segstore
from segstore.cli import pipeline_queries as queries
from segstore.cli.pipeline import last_event, write_files

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
