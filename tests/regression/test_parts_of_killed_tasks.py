"""What a killed task had written of a file stayed for ever, and a job's state was not synced.

After a power loss a result could be an empty file, which refused the next run.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

import segstore
from segstore.spark import whole_file as module
from segstore.spark.job_runner import run_job
from segstore.spark.mapped_ranges import options_of_call
from segstore.spark.open_logs import OPEN_LOGS
from segstore.spark.parquet_export import ExportTask, export_parquet
from segstore.spark.parquet_files import file_name_of
from segstore.spark.partition_jobs import verify_partition
from segstore.spark.ranges import OffsetRange
from segstore.spark.whole_file import ORPHAN_AGE_SECONDS, new_run, remove_parts, whole_file


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
