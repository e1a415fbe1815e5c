"""One wrong number in a log-start checkpoint took intact segments away, and then the open refused.

What lay below the log start was unlinked before anybody had looked whether the log is whole, and
only the newest segment was set aside where all of it lay there.
"""

from __future__ import annotations

import contextlib
import errno

import pytest

import segstore
from segstore._core import Barrier, DataFile, Directory, FileBarrier
from segstore.errors import CorruptLogError, SegstoreError
from segstore.log.files.checkpoints import (
    CLEAN_SHUTDOWN_MARKER,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    SYNC_FAILED_MARK,
    format_offset_checkpoint,
)
from segstore.log.files.clean_shutdown_file_handler import CleanShutdownFileHandler
from segstore.log.files.partition_directory import file_name
from segstore.log.log_environment import LogEnvironment
from segstore.log.log_opener import open_partition
from segstore.log.open_options import open_options
from segstore.log.recovery import repair
from segstore.types import TopicPartition
from tests.crash.barrier_scene import new_disk
from tests.kits.log_kit import at, offsets

BASES = (0, 10, 20)
IMPOSSIBLE = "0\n1\ntopic 0 1000\n"


def state_of(path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.glob("*.log")}


@pytest.fixture
def path(tmp_path):
    """Records 0 to 29 of a broker that stopped cleanly, in three segments."""
    path = tmp_path / "topic-0"
    path.mkdir()
    for base in BASES:
        (path / f"{base:020d}.log").write_bytes(b"".join(at(base + i) for i in range(10)))
    (path / LEADER_EPOCH_CHECKPOINT).write_text("0\n1\n0 0\n")
    (tmp_path / CLEAN_SHUTDOWN_MARKER).write_text('{"version":0,"brokerEpoch":3}')
    (tmp_path / "meta.properties").write_text("")
    (tmp_path / LOG_START_OFFSET_CHECKPOINT).write_text(IMPOSSIBLE)
    return path


@pytest.fixture
def own_path(tmp_path):
    """Records 0 to 29 that this library wrote; the number is wrong in the log directory alone."""
    path = tmp_path / "topic-0"
    (tmp_path / "meta.properties").write_text("")
    for name in (LOG_START_OFFSET_CHECKPOINT, RECOVERY_POINT_CHECKPOINT):
        (tmp_path / name).write_text("0\n0\n")
    with segstore.open(path) as log:
        for base in BASES:
            log.append([(None, b"v")] * 10)
            if base < BASES[-1]:
                log.roll()
    (tmp_path / LOG_START_OFFSET_CHECKPOINT).write_text(IMPOSSIBLE)
    return path


def require_refused_as_it_was(path) -> None:
    before = state_of(path)
    for _ in range(2):
        with pytest.raises(CorruptLogError, match="No record was changed"):
            segstore.open(path)
        assert state_of(path) == before
    with segstore.open(path, read_only=True) as log:
        assert log.report.damage is not None


@pytest.mark.parametrize("point", [30, None])
def test_and_the_last_batch_is_torn(path, point):
    """[DUR-6, DUR-51]"""
    if point is not None:
        (path.parent / RECOVERY_POINT_CHECKPOINT).write_text(f"0\n1\ntopic 0 {point}\n")
    newest = path / f"{BASES[-1]:020d}.log"
    newest.write_bytes(newest.read_bytes()[:-5])

    require_refused_as_it_was(path)


def test_and_the_recovery_point_lies_between(path):
    """[DUR-51] Records had been synced that are not there."""
    (path.parent / RECOVERY_POINT_CHECKPOINT).write_text("0\n1\ntopic 0 35\n")

    require_refused_as_it_was(path)


@pytest.mark.parametrize("is_cut", [False, True])
def test_and_a_log_of_ours_has_lost_its_end(own_path, is_cut):
    """[DUR-24, DUR-51] Its marker says where it ended."""
    newest = own_path / f"{BASES[-1]:020d}.log"
    if is_cut:
        newest.write_bytes(newest.read_bytes()[:-5])
    else:
        newest.unlink()

    require_refused_as_it_was(own_path)


@pytest.mark.parametrize("which", ["path", "own_path"])
def test_and_a_sync_had_failed(which, request):
    """[DUR-21, DUR-36] That says nothing of the log start, which the clean stop disproves."""
    path = request.getfixturevalue(which)
    (path / SYNC_FAILED_MARK).touch()

    with segstore.open(path) as log:
        assert offsets(log) == [*range(30)]


def test_and_nothing_disproves_it(path):
    """[DUR-5, LDR-25] No clean stop: the log begins anew, and nothing is gone."""
    (path.parent / CLEAN_SHUTDOWN_MARKER).unlink()
    before = state_of(path)
    with segstore.open(path) as log:
        assert (log.log_start_offset, log.log_end_offset) == (1000, 1000)
        assert any("is set aside" in warning for warning in log.report.warnings)

    kept = {file.read_bytes() for file in path.glob("*.quarantine-*")}
    assert kept == {*before.values()}


@pytest.mark.parametrize("number", [1, 2])
def test_an_open_ends_while_all_is_set_aside(path, monkeypatch, number):
    """[DUR-54, DUR-56] What is left then is set aside by the next one, and not taken away."""
    (path.parent / CLEAN_SHUTDOWN_MARKER).unlink()
    before = {*state_of(path).values()}
    real, done = repair.set_aside, []

    def end_at(*arguments) -> None:
        done.append(real(*arguments))
        if len(done) == number:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(repair, "set_aside", end_at)
        with pytest.raises(KeyboardInterrupt):
            segstore.open(path)
    assert state_of(path)
    segstore.open(path).close()

    assert {file.read_bytes() for file in path.glob("*.quarantine-*")} == before


def test_a_copy_that_broke_off_is_refused_each_time(own_path):
    """[DUR-24, DUR-63] The clean marker says that records are missing: a refusal leaves it."""
    (own_path.parent / LOG_START_OFFSET_CHECKPOINT).write_text("0\n0\n")
    (own_path.parent / RECOVERY_POINT_CHECKPOINT).write_text("0\n0\n")
    for name in (RECOVERY_POINT_CHECKPOINT, LEADER_EPOCH_CHECKPOINT):
        (own_path / name).unlink()
    (own_path / f"{BASES[-1]:020d}.log").unlink()

    for _ in range(2):
        with pytest.raises(CorruptLogError, match="had been synced"):
            segstore.open(own_path)


@pytest.mark.parametrize("call", ["rename", "open_file", "file_info_at", "sync_directory"])
@pytest.mark.parametrize("number", range(1, 10))
def test_a_call_fails_while_all_is_set_aside(call, number):
    """[DUR-6, DUR-54] The next open took the lowest segment for deleted, behind one failed call."""
    disk = new_disk()
    directory = Directory("/topic-0", disk, create=True)
    for base in BASES:
        with DataFile(directory, file_name(base, "log"), create=True) as file:
            file.write(0, b"".join(at(base + i) for i in range(10)))
            file.sync(Barrier.RECOVERY_RECORDS)
    content = format_offset_checkpoint({TopicPartition("topic", 0): 1000})
    directory.write_file_atomically(LOG_START_OFFSET_CHECKPOINT, content, FileBarrier.LOG_START)
    disk.fail(call, number, errno.EIO)
    with contextlib.suppress(SegstoreError):
        open_on(disk).close_quietly()
    disk.fail(call, 0, 0)
    open_on(disk).close_quietly()

    kept = [name for name in directory.names() if "quarantine" in name]
    assert len(kept) == len(BASES)


def open_on(disk):
    return open_partition("/topic-0", open_options(), LogEnvironment(environment=disk))


def test_the_open_is_killed_between_the_clean_markers(tmp_path, monkeypatch):
    """[DUR-5, DUR-24] The log directory's alone does not say that the log start is true."""
    with segstore.open_dir(tmp_path) as manager:
        manager.create_topic("topic", 1)
        log = manager.log("topic", 0)
        log.append_as_follower(at(0, 10) + at(10, 10), 0)
        log.delete_records(15)
        log.truncate_to(17)
    real = CleanShutdownFileHandler.delete

    def end_behind(self) -> None:
        real(self)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(CleanShutdownFileHandler, "delete", end_behind)
        with pytest.raises(KeyboardInterrupt):
            segstore.open(tmp_path / "topic-0")

    with segstore.open(tmp_path / "topic-0") as log:
        assert (log.log_start_offset, log.log_end_offset) == (15, 15)
        assert not log.report.set_aside  # the clean marker says that they were deleted
