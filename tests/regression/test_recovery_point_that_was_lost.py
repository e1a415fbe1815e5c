"""The last ``.log`` was shorter than its newest snapshot, and the recovery point was lost.

A broker had closed the log cleanly, so every check said that it was whole (operator case 04). A
snapshot is named by the offset at which it was made, and an epoch begins at the log end at most.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore import cli
from segstore.errors import CorruptLogError
from tests.kits.damaged_logs import batches_of

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A broker's partition with 20 records, closed cleanly; its recovery point is lost."""
    path = tmp_path / "orders-0"
    with segstore.open(path, durability="none") as log:
        for number in range(20):
            log.append([(None, b"value %d" % number)])
    for name in (".segstore", ".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
        (path / name).unlink()
    (tmp_path / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":1}')
    return path


def cut(path: Path) -> None:
    log = path / f"{0:020d}.log"
    os.truncate(log, batches_of(log)[15].position)


def doors(path: Path) -> dict[str, int]:
    """Exit codes."""
    commands = (
        ["verify", "-q"],
        ["ls"],
        ["inspect", "-q"],
        ["cat", "-q"],
        ["scrub", "-q"],
        ["recover", "-q", "--dry-run"],
        ["recover", "-q"],
    )
    return {" ".join(command): cli.main([*command, str(path)]) for command in commands}


def test_a_whole_log_has_no_finding(path: Path):
    """[DUR-63]"""
    assert set(doors(path).values()) == {0}


@pytest.mark.parametrize("kept", ["snapshot", "leader-epoch-checkpoint"])
def test_what_is_left_shows_where_the_log_had_ended(path: Path, kept: str):
    """[DUR-51] As a recovery point does: the open is refused, and nothing is changed."""
    cut(path)
    if kept != "snapshot":
        for snapshot in path.glob("*.snapshot"):
            snapshot.unlink()
        (path / kept).write_text("0\n2\n0 0\n1 20\n")

    for _ in range(2):
        assert set(doors(path).values()) == {1}
    with pytest.raises(CorruptLogError):
        segstore.open(path)
    report = segstore.salvage(path, path.parent / "salvaged" / path.name)
    assert [(one.first_offset, one.next_offset) for one in report.lost] == [(15, 20)]


def test_a_salvage_asks_the_snapshots_also_without_a_marker(path: Path):
    """[DUR-7] A copy of the partition's directory alone: offsets below a snapshot had been used.

    Their records may have been lost by a crash before a sync: no marker says that it was a close.
    """
    cut(path)
    (path.parent / ".kafka_cleanshutdown").unlink()
    report = segstore.salvage(path, path.parent / "salvaged" / path.name)

    assert (report.maybe_lost, report.log_end_offset) == ([(15, 20)], 20)
