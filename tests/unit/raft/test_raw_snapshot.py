"""The file of a snapshot: what a log never takes for one, and what nobody writes to any more."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Literal

import pytest

from segstore._core import Directory, SimulatedDisk
from segstore.errors import IllegalStateError, LogNotFoundError, SegstoreError
from segstore.raft.offset_and_epoch import OffsetAndEpoch
from tests.crash.barrier_scene import new_disk
from tests.crash.barrier_scenes_of_directories import raft_environment
from tests.crash.manual_scheduler import ManualScheduler
from tests.kits.raft_kit import append, commit, open_raft, snapshot

if TYPE_CHECKING:
    from pathlib import Path

SNAPSHOT = OffsetAndEpoch(3, 1)


@pytest.mark.parametrize("recovery", ["safe", "kafka"])
def test_a_frozen_snapshot_is_read_only(tmp_path: Path, recovery: Literal["safe", "kafka"]):
    """[RAFT-27] For everybody; and it is still renamed and removed when it is of no use."""
    with open_raft(tmp_path, recovery, internal_metadata_delete_delay_millis=0) as log:
        append(log, 3, 1)
        commit(log)
        snapshot(log, *SNAPSHOT)
        (file,) = (tmp_path / "__cluster_metadata-0").glob("*.checkpoint")
        assert file.stat().st_mode & 0o222 == 0
        append(log, 3, 1)
        commit(log)
        assert log.delete_before_snapshot(snapshot(log, 6, 1))
    with open_raft(tmp_path, recovery) as log:
        assert log.snapshot_ids == (OffsetAndEpoch(6, 1),)
    assert not file.exists()


@pytest.mark.parametrize(
    ("call", "kind"), [("make_read_only_at", IllegalStateError), ("rename", SegstoreError)]
)
def test_a_snapshot_that_cannot_be_frozen_is_none(call: str, kind: type[SegstoreError]):
    """[RAFT-27, DUR-145] Its file goes with `close`, and the snapshot can be made again."""
    disk = new_disk()
    with open_raft("/data", log_environment=raft_environment(disk)) as log:
        append(log, 3, 1)
        commit(log)
        disk.fail(call, 1, errno.EPERM)
        with pytest.raises(kind, match=r"0{19}3-0{9}1"):
            snapshot(log, *SNAPSHOT)
        assert log.snapshot_ids == ()
        assert _snapshots(disk) == []

        snapshot(log, *SNAPSHOT)

        assert _snapshots(disk) == [f"{3:020}-{1:010}.checkpoint"]


def test_a_reader_goes_on_while_the_snapshot_is_deleted():
    """[RAFT-28, RAFT-37] Up to the end of the delay: who loads it need not begin anew."""
    disk, scheduler = new_disk(), ManualScheduler()
    log_environment = raft_environment(disk)._replace(background=lambda *_: scheduler)
    with open_raft("/data", log_environment=log_environment) as log:
        append(log, 3, 1)
        commit(log)
        snapshot(log, *SNAPSHOT)
        reader = log.latest_snapshot()
        assert reader is not None
        whole = reader.read()
        append(log, 3, 1)
        commit(log)
        assert log.delete_before_snapshot(snapshot(log, 6, 1))

        assert log.read_snapshot(SNAPSHOT) is None
        assert reader.slice(0, 10) + reader.slice(10, len(whole)) == whole
        scheduler.run(60)
        with pytest.raises(LogNotFoundError):
            reader.read()


def _snapshots(disk: SimulatedDisk) -> list[str]:
    directory = Directory("/data/__cluster_metadata-0", disk)
    names = [name for name in directory.names() if ".checkpoint" in name]
    directory.close()
    return names
