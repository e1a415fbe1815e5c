"""What jobs do with one partition."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore.errors import LogNotFoundError
from segstore.log.check.partition_check import check_partition
from segstore.log.files.checkpoints import CLEAN_SHUTDOWN_MARKER
from segstore.spark.maintenance_jobs import MAINTAIN, MaintenanceTask, maintain_partition
from segstore.spark.partition_jobs import recover_partition, verify_partition
from tests.kits.damaged_logs import batches_of, build
from tests.kits.log_kit import remove_segment

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.kits.damaged_logs import LogDirectory


def bad_batch(directory: LogDirectory) -> None:
    """Zeros over a batch that was not known to be synced, with others after it."""
    (directory.path / CLEAN_SHUTDOWN_MARKER).unlink(missing_ok=True)
    directory.set_recovery_point(0)
    batch = batches_of(directory.file(directory.bases[1]))[1]
    with directory.file(directory.bases[1]).open("r+b") as file:
        file.seek(batch.position)
        file.write(bytes(batch.size))


def bad_batch_and_index(directory: LogDirectory) -> None:
    """The same, and an index of another segment is gone."""
    bad_batch(directory)
    directory.file(directory.bases[0], "index").unlink()


def lost_beginning(directory: LogDirectory) -> None:
    """The first segment is gone."""
    remove_segment(directory.path, directory.bases[0])


def gap(directory: LogDirectory) -> None:
    """A segment between two others is gone."""
    remove_segment(directory.path, directory.bases[1])


def lost_end(directory: LogDirectory) -> None:
    """The last segment is empty: the sentence about it names no file."""
    os.truncate(directory.file(directory.bases[-1]), 0)


@pytest.mark.parametrize("damage", [bad_batch, bad_batch_and_index, lost_beginning, gap, lost_end])
@pytest.mark.parametrize("clean", [True, False])
def test_verify_gives_the_findings_of_the_check(
    tmp_path: Path, damage: Callable[[LogDirectory], None], *, clean: bool
):
    """[DUR-7, DUR-58] Each once: what the open said as a sentence is one of them."""
    directory = build(tmp_path / "orders-0", clean=True)
    if not clean:  # what was synced is known all the same
        (directory.path / CLEAN_SHUTDOWN_MARKER).unlink()
    damage(directory)
    with segstore.open(directory.path, read_only=True) as log:
        is_known = log.report.damage is not None
    expected = check_partition(str(directory.path)).problems
    found = verify_partition(str(directory.path))

    assert is_known
    assert not found["ok"]
    assert expected
    assert found["problems"] == expected


def test_a_job_makes_no_partition(tmp_path: Path):
    """Its topic was deleted after the plan, or this executor does not have the path."""
    path = tmp_path / "data" / "orders-0"
    with pytest.raises(LogNotFoundError, match="no such directory"):
        maintain_partition(MaintenanceTask(MAINTAIN, path=str(path)))
    with pytest.raises(LogNotFoundError, match="no such directory"):
        recover_partition(str(path))

    assert not [*tmp_path.iterdir()]
