"""What a disk does not give: a salvage met a block that could be read the third time: KeyError.

The block was lost, and was not: two rows said what stands at one position, of which the first took
the reason of both.
"""

from __future__ import annotations

import errno
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import segstore
from segstore.errors import ReadIOError
from segstore.log.log_environment import LogEnvironment
from segstore.log.log_salvage import salvage_and_open
from segstore.log.open_options import open_options
from tests.crash.crash_script import PATH, ManualScheduler
from tests.kits.directory_kit import disk_with, fail_reads_of, name_of, records
from tests.kits.preloaded_library import compiled, environment_with


def salvage_with(first: int) -> tuple[list[int], bool] | None:
    """Return what is kept, and whether that is all, when two reads fail; None = it was refused."""
    disk = disk_with({name_of(0): records(0, 3) + b"?" * 70, name_of(5): records(5, 6)})
    reads = itertools.count(1)

    def fail_two(call: str, name: str) -> None:
        if call == "read_at" and name == name_of(0) and next(reads) in {first, first + 1}:
            disk.fail(call, 1, errno.EIO)

    disk.watch(fail_two)
    log_environment = LogEnvironment(environment=disk, background=lambda *_: ManualScheduler())
    options = open_options(segment_index_bytes=4096)
    try:
        log, report = salvage_and_open(PATH, "/data/new-0", options, log_environment)
    except ReadIOError:  # what had been read before cannot be copied
        return None
    disk.watch(None)
    kept = [record.offset for record in log.scan()]
    log.close_quietly()
    return kept, report.complete


def test_a_salvage_ends_whichever_reads_fail():
    """[DUR-33, DUR-62, DUR-103] Records of other segments are there, and a loss is told."""
    results = [salvage_with(first) for first in range(1, 40)]

    assert ([5], False) in results
    assert all(each in (None, ([5], False), ([0, 1, 2, 5], False)) for each in results)


def test_a_file_that_cannot_be_read_is_told_with_its_errno():
    """[DUR-33, DUR-62] It was called "a batch whose length is wrong". Case 17."""
    bad = records(0, 3)
    disk = disk_with({name_of(0): bad, name_of(3): records(3, 6)})

    fail_reads_of(disk, name_of(0))
    log_environment = LogEnvironment(environment=disk, background=lambda *_: ManualScheduler())
    options = open_options(segment_index_bytes=4096)
    log, report = salvage_and_open(PATH, "/data/new-0", options, log_environment)
    disk.watch(None)
    assert [record.offset for record in log.scan()] == [3, 4, 5]
    log.close_quietly()

    (lost,) = report.lost
    assert (lost.code, lost.os_error, lost.size_bytes) == ("FILE_UNREADABLE", errno.EIO, len(bad))
    assert (lost.first_offset, lost.next_offset) == (0, 3)
    assert "EIO" in str(report)


SMALL_FILES = [
    ".segstore", ".kafka_cleanshutdown", "leader-epoch-checkpoint", "partition.metadata",
    "recovery-point-offset-checkpoint", "log-start-offset-checkpoint",
]  # fmt: skip


@pytest.mark.parametrize("kind", ["directory", "pipe", "link"])
@pytest.mark.parametrize("name", [*SMALL_FILES, f"{1:020d}.log"])
def test_what_is_no_file_costs_no_record_of_other_files(tmp_path, name, kind):
    """[DUR-62] A salvage refused the log, or might have waited for a pipe. Case 17."""
    path = tmp_path / "a-0"
    with segstore.open(path) as log:
        for number in range(3):
            log.append([(None, b"%d" % number)])
            log.roll()
    (path / name).unlink(missing_ok=True)
    if kind == "link":
        (path / name).symlink_to("nowhere")
    else:
        {"directory": Path.mkdir, "pipe": os.mkfifo}[kind](path / name)

    report = segstore.salvage(path, tmp_path / "s" / "a-0")

    assert report.batches == (3 if name in SMALL_FILES else 2)
    lost = [(one.code, one.file) for one in report.lost if one.file]
    assert lost == ([] if name in SMALL_FILES else [("FILE_IS_NO_FILE", name)])


def test_one_bad_sector_costs_the_batches_in_it(tmp_path):
    """[DUR-33, DUR-62] The report has its errno, though bytes beside it were read. Case 17."""
    path = tmp_path / "bad" / "a-0"
    with segstore.open(path) as log:
        for number in range(60):
            log.append([(None, b"%0500d" % number)])
        log.roll()
        log.append([(None, b"last")])
    library = compiled(Path(__file__).parent / "failing_read.c", tmp_path)
    bad = {"FAILING_READ": f"bad/a-0/{0:020d}.log", "FAILING_FROM": "8192", "FAILING_TO": "12288"}
    command = [sys.executable, "-m", "segstore", "salvage", "-q", "--json"]
    done = subprocess.run(
        [*command, path, tmp_path / "s" / "a-0"],
        env=environment_with(library, **bad),
        capture_output=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (1, b"")
    report = json.loads(done.stdout)
    (lost,) = report["lost"]
    assert (lost["code"], lost["os_error"]) == ("FILE_UNREADABLE", errno.EIO)
    assert lost["position"] <= 8192
    assert lost["position"] + lost["size_bytes"] >= 12288
    assert report["batches"] == 61 - (lost["next_offset"] - lost["first_offset"])
    assert lost["next_offset"] - lost["first_offset"] <= 9
