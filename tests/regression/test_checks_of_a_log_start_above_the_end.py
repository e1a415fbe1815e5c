"""A log start above the end of a log that was not closed: what the tools say of it.

``verify`` and ``recover --dry-run`` failed with an AttributeError of their own. Of the files that
the open then made they said that there was "no batch in them that the log does not have", and the
guide's way to have the records back brought none.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

import segstore
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


def test_what_was_set_aside_is_told(contradicted, capsys, tmp_path):
    """[DUR-59] Each file with its offsets: no finding, but what could be had back is said."""
    with segstore.open(contradicted) as log:
        assert f"put {CHECKPOINT} right" in str(log.report)
        checked = str(log.verify())
    code = cli.main(["verify", "-q", str(contradicted)])
    outputs = [checked, capsys.readouterr().out]
    assert code == 0
    assert cli.main(["inspect", "-q", str(contradicted)]) == 0
    outputs.append(capsys.readouterr().out)
    outputs.append(str(segstore.salvage(contradicted, tmp_path / "saved-0")))

    for text in outputs:
        assert "there is no batch in them" not in text
        for first in range(0, RECORDS, 4):
            assert (
                f"4 batches with offsets {first} to {first + 3}, below the log start {LOG_START}:"
                " deleted, or set aside for a log start that was not what was written"
            ) in text


def test_the_way_back_of_the_guide(contradicted, tmp_path):
    """[DUR-59] In a copy, with the right log start and without the marker of the wrong one."""
    segstore.open(contradicted).close()
    rescue = tmp_path / "rescue" / "topic-0"
    shutil.copytree(contradicted, rescue)
    for file in rescue.glob("*.quarantine-1"):
        file.rename(file.with_suffix(".log"))
    (rescue / CHECKPOINT).write_text("0\n1\ntopic 0 0\n")
    (rescue / ".kafka_cleanshutdown").unlink()

    segstore.salvage(rescue, tmp_path / "saved" / "topic-0")

    with segstore.open(tmp_path / "saved" / "topic-0") as log:
        assert [record.value for record in log] == [b"value %d" % n for n in range(RECORDS)]
