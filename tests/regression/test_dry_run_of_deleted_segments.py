"""``recover --dry-run``: "there is nothing to repair" of a log of which the open removes segments.

The log directory's checkpoint says a log start that the partition's own has not; the log was
closed cleanly, and the open took out what lies below.
"""

from __future__ import annotations

import json

import pytest

import segstore
from segstore import cli

LOG_START = 8


@pytest.fixture
def partition(tmp_path):
    """Three segments of four records, closed cleanly."""
    path = tmp_path / "orders-0"
    with segstore.open(path) as log:
        for number in range(12):
            if number and number % 4 == 0:
                log.roll()
            log.append([(None, b"value %d" % number)])
    return path


def test_segments_that_an_open_removes_are_named(partition, capsys):
    """[DUR-18, DUR-65] The forecast's list, as the open's own report has it then."""
    (partition.parent / "log-start-offset-checkpoint").write_text(f"0\n1\norders 0 {LOG_START}\n")
    names = sorted(path.name for path in partition.glob("*.log"))

    assert cli.main(["recover", "--dry-run", "-q", str(partition)]) == 0
    out = capsys.readouterr().out
    assert cli.main(["recover", "--dry-run", "-q", "--json", str(partition)]) == 0
    foretold = json.loads(capsys.readouterr().out)["forecast"]["report"]["removed"]

    assert sorted(path.name for path in partition.glob("*.log")) == names
    with segstore.open(partition) as log:
        assert log.log_start_offset == LOG_START
        assert foretold == log.report.removed == names[:2]
    assert "nothing to repair" not in out
    assert f"removed: {', '.join(names[:2])}" in out


def test_a_log_that_stays_as_it_is(partition, capsys):
    """[DUR-65] Nothing is said where nothing is done."""
    assert cli.main(["recover", "--dry-run", "-q", str(partition)]) == 0
    assert capsys.readouterr().out.endswith("there is nothing to repair\n")
