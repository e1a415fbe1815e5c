"""A reader of a log that had lost a `.log` file said so in a warning alone.

`segstore ls` showed nothing, and `verify()` of the handle that knew better found all good.
"""

from __future__ import annotations

import re

import pytest

import segstore
from segstore.log.findings.finding import Records
from tests.kits.cli_process import run_segstore

CLOSED, KILLED = "closed", "killed"

FIRST, MIDDLE, LAST = 0, 2, -1


@pytest.fixture(params=[CLOSED, KILLED])
def log_directory(request, tmp_path):
    """Nine records in nine segments."""
    path = tmp_path / "a-0"
    log = segstore.open(path, internal_segment_bytes=150)
    for number in range(9):
        log.append([(None, b"%d" % number + b"v" * 60)])
    assert log._background.wait_until_idle()  # a sync after a roll may still note an older point
    log.flush()
    if request.param == CLOSED:
        log.close()
    else:
        log.close_quietly()
    return path


@pytest.mark.parametrize(
    ("which", "missing", "first_lost"),
    [(FIRST, "records? 0 ", 0), (MIDDLE, "records? 2 ", 2), (LAST, "at offset 8", 8)],
)
def test_it_is_damage(log_directory, which, missing, first_lost):
    """[DUR-7, DUR-51] In the report, in the list of partitions, and in what verifies the handle."""
    lost = sorted(log_directory.glob("*.log"))[which]
    lost.unlink()

    with segstore.open(log_directory, read_only=True) as log:
        told = log.report.damage or ""
        assert re.search(f"{missing}.* missing", told)
        assert len(set(log.report.warnings)) == len(log.report.warnings) > 0
        report = log.verify()
    assert not report.ok
    (found,) = report.findings
    assert found.records == Records.MISSING
    assert found.lost == ((first_lost, first_lost),)
    assert report.to_dict()["problems"] == report.problems
    listed = run_segstore("ls", log_directory)
    assert listed.returncode == 1
    assert re.search(rb" [289]! ", listed.stdout)
    assert told in listed.stderr.decode()


def test_a_whole_log_has_none(log_directory):
    """Nothing is told of a log that has all its files."""
    with segstore.open(log_directory, read_only=True) as log:
        assert log.report.damage is None
        assert log.verify().ok
    assert run_segstore("ls", log_directory).returncode == 0
