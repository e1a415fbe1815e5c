"""A log start above the end of a log that was not closed: what the tools say of it.

``verify`` and ``recover --dry-run`` failed with an AttributeError of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from segstore import cli
from segstore.cli.partition_check import check_partition

if TYPE_CHECKING:
    from pathlib import Path

RECORDS = 12
LOG_START = 1000
CHECKPOINT = "log-start-offset-checkpoint"


@pytest.fixture
def contradicted(new_log, tmp_path) -> Path:
    """Three segments of twelve records, not closed, and a log start of another log."""
    log = new_log()
    for number in range(RECORDS):
        if number and number % 4 == 0:
            log.roll()
        log.append([(None, b"value %d" % number)])
    log.flush()
    log.close_quietly()
    (tmp_path / "topic-0" / CHECKPOINT).write_text(f"0\n1\ntopic 0 {LOG_START}\n")
    return tmp_path / "topic-0"


def files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_what_an_open_does_is_foretold(contradicted, capsys):
    """[DUR-54, DUR-65] All segments are set aside; the forecast of that changes nothing."""
    before = files(contradicted)
    names = sorted(path.name for path in contradicted.glob("*.log"))
    expected = [name.replace(".log", ".quarantine-1") for name in names]

    report = check_partition(str(contradicted)).forecast.report

    assert sorted(report.set_aside) == expected
    assert cli.main(["recover", "--dry-run", "-q", str(contradicted)]) == 1
    out = capsys.readouterr().out
    assert all(name in out for name in expected)
    assert files(contradicted) == before
