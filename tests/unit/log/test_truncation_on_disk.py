"""What a truncation leaves in the small files, in the directory, and of the remote part [TRU-*]."""

from __future__ import annotations

from pathlib import Path

import pytest

from segstore._core import wall_clock_ms
from segstore.errors import DiskFullError
from segstore.log.files.checkpoints import LogState
from segstore.types import EpochEntry
from tests.kits.log_kit import TIME, at, bases, batch, offsets, singleton
from tests.kits.remote_kit import TIERED, RemoteRecords

SIZE = len(singleton())


def state_of(log) -> LogState:
    """What ``.segstore`` says."""
    found = LogState.read(log._directory)
    assert found is not None
    return found


def epochs_of(log) -> list[str]:
    """The lines of the leader-epoch checkpoint."""
    return (Path(log.path) / "leader-epoch-checkpoint").read_text().split("\n")[2:-1]


def checkpoint(folder, name: str, text: str | None = None) -> str:
    path = Path(folder) / f"{name}-offset-checkpoint"
    if text is not None:
        path.write_text(text)
    return path.read_text()


@pytest.fixture
def tiered(new_log):
    """Offsets 0 to 7, two an epoch and one a segment, of which 0 to 3 are in remote storage alone.

    ``tiered(recovery)``.
    """

    def open_tiered(recovery):
        log = new_log(
            recovery=recovery,
            replicated=False,
            retention_ms=None,
            retention_bytes=4 * SIZE,
            internal_segment_bytes=SIZE,
            remote_log_reader=RemoteRecords(),
            **TIERED,
        )
        for number in range(8):
            log.append_as_leader(batch([(TIME + number, None, b"value")]), number // 2)
        log.update_highest_offset_in_remote_storage(5)
        assert len(log.delete_old_segments()) == 4
        return log

    return open_tiered


# ---- epochs --------------------------------------------------------------------------------------


def test_epochs_without_records_go_from_the_disk_too(new_log):
    """[TRU-2, EPC-6, DUR-64] With them ``.segstore``, which is tied to the checkpoint."""
    log = new_log()
    for epoch in (1, 3):
        log.append_as_leader(singleton(), leader_epoch=epoch)
    log._epochs.assign(9, 2)
    log._metadata.save_state()
    assert epochs_of(log) == ["1 0", "3 1", "9 2"]
    assert state_of(log).latest_epoch == EpochEntry(9, 2)

    assert log.truncate_to(2) is False

    assert epochs_of(log) == ["1 0", "3 1"]
    assert state_of(log).latest_epoch == EpochEntry(3, 1)


def test_without_an_epoch_the_next_may_be_older(new_log):
    """[TRU-2, DUR-50, DUR-64] Than those of records below the log start: no damage at the open."""
    log = new_log()
    for _ in range(2):
        log.append_as_leader(singleton(), leader_epoch=3)
    log.delete_records(2)
    assert epochs_of(log) == ["3 2"]
    assert log.truncate_to(2) is False
    assert epochs_of(log) == []
    log.append_as_leader(singleton(), leader_epoch=1)
    log.close_quietly()

    again = new_log()
    assert offsets(again) == [2]
    assert not again.report.truncated_bytes


def test_without_epochs_that_go_nothing_is_written(new_log, monkeypatch):
    """[TRU-2] A truncation to the log end, or behind it, costs no sync."""
    log = new_log()
    log.append_as_leader(singleton(), leader_epoch=1)
    monkeypatch.setattr(log._metadata, "save_state", lambda *_: pytest.fail("nothing has changed"))

    assert log.truncate_to(1) is log.truncate_to(7) is False


@pytest.mark.parametrize("recovery", ["safe", "kafka"])
def test_epochs_of_what_goes_go_from_the_disk(new_log, recovery):
    """[TRU-3, TRU-4, EPC-6]"""
    log = new_log(recovery=recovery)
    for epoch in (1, 3, 5):
        log.append_as_leader(singleton(), leader_epoch=epoch)

    log.truncate_to(2)
    assert epochs_of(log) == ["1 0", "3 1"]
    log.truncate_fully_and_start_at(7)
    assert epochs_of(log) == []


# ---- segments and their neighbours ---------------------------------------------------------------


def test_the_segment_that_begins_there_is_emptied_and_stays(new_log):
    """[TRU-3, LOC-14] Also the first one of all: it is no full truncation."""
    log = new_log(internal_segment_bytes=100)
    for number in range(4):
        log.append([(None, b"%d" % number)])
    log.delete_records(2)
    assert bases(log) == [2, 3]
    first = log.segments()[0]

    log.truncate_to(2)

    assert list(log.segments()) == [first]
    assert (log.log_start_offset, log.log_end_offset, first.size_bytes) == (2, 2, 0)


@pytest.mark.parametrize("call", ["truncate_to", "truncate_fully_and_start_at"])
def test_producers_of_what_goes_are_forgotten(new_log, call):
    """[TRU-3, PSM-57] With the snapshots above the new end; those of what stays are known."""
    log = new_log()
    for number in range(4):
        options = {"producer_id": number, "producer_epoch": 0, "base_sequence": 0}
        made = batch([(None, b"v")], timestamp=wall_clock_ms(), **options)
        log.append_as_leader(made, 0)
        log.roll()
    assert len(log.active_producers()) == 4

    getattr(log, call)(2)

    kept = [0, 1] if call == "truncate_to" else []
    assert [each.producer_id for each in log.active_producers()] == kept
    names = sorted(path.name for path in Path(log.path).glob("*.snapshot"))
    assert names == [f"{offset:020d}.snapshot" for offset in (1, 2) if kept]


# ---- marks of the end ----------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["truncate_to", "truncate_fully_and_start_at"])
def test_the_high_watermark_falls_to_the_log_end(new_log, call):
    """[TRU-3, TRU-4, HW-4]"""
    log = new_log(replicated=True)
    log.append_as_follower(at(0) + at(1) + at(2) + at(3), 0)
    log.update_high_watermark(4)

    getattr(log, call)(2)

    assert (log.high_watermark, log.last_stable_offset, log.log_end_offset) == (2, 2, 2)


@pytest.mark.parametrize("call", ["truncate_to", "truncate_fully_and_start_at"])
@pytest.mark.parametrize("recovery", ["safe", "kafka"])
def test_what_is_left_is_durable_and_the_checkpoint_not_above(new_log, call, recovery, tmp_path):
    """[DUR-4, DUR-16, DUR-18] In Kafka's profile too, and in the checkpoint of the broker."""
    (tmp_path / "topic-0").mkdir()  # lines of a partition without a directory do not count
    (tmp_path / "recovery-point-offset-checkpoint").write_text("0\n1\ntopic 0 4\n")
    settings = {"recovery": recovery}
    if recovery == "kafka":
        settings["state_dir"] = tmp_path / "state"
    log = new_log(**settings)
    for number in range(4):
        log.append([(None, b"%d" % number)])
    log.flush()

    getattr(log, call)(2)

    assert log.durable_offset == 2
    assert log.recovery_point <= 2
    if recovery == "kafka":
        assert checkpoint(tmp_path, "recovery-point") == "0\n1\ntopic 0 2\n"


def test_the_recovery_point_stays_below_a_hole(new_log):
    """[TRU-5, DUR-51] Nothing is between the data and the log end: it would look like a loss."""
    log = new_log()
    log.append([(None, b"x")] * 3)
    log.append([(None, b"y")] * 3)
    log.flush()

    log.truncate_to(5)

    assert (log.log_end_offset, log.durable_offset, log.recovery_point) == (5, 5, 3)
    assert state_of(log).contiguous_from == 5  # what lies below may be the hole
    log.truncate_to(2)
    assert (log.recovery_point, state_of(log).contiguous_from) == (0, 2)
    log.truncate_to(0)
    assert state_of(log).contiguous_from == 0


@pytest.mark.parametrize(
    ("offset", "log_start", "contiguous_from"), [(9, 9, 0), (9, 4, 0), (2, 2, 0)]
)
def test_a_full_truncation_leaves_no_gap(new_log, offset, log_start, contiguous_from):
    """[TRU-4, DUR-18, DUR-64] And no mark that the log is being emptied."""
    log = new_log()
    for _ in range(4):
        log.append([(None, b"x")])

    log.truncate_fully_and_start_at(offset, log_start)

    state = state_of(log)
    assert (state.contiguous_from, state.is_being_emptied) == (contiguous_from, False)
    assert (log.log_start_offset, log.log_end_offset) == (offset, offset)


# ---- the remote part -----------------------------------------------------------------------------


@pytest.mark.parametrize("recovery", ["safe", "kafka"])
def test_below_the_local_part_the_remote_part_stays(tiered, recovery):
    """[TRU-3, LST-6, DUR-141] Kafka gives it up: the log start moves there, no epoch is left."""
    log = tiered(recovery)

    log.truncate_to(2)

    is_safe = recovery == "safe"
    assert log.log_start_offset == (0 if is_safe else 2)
    assert epochs_of(log) == (["0 0", "4 2"] if is_safe else [])
    assert (log.local_log_start_offset, log.log_end_offset) == (2, 2)
    assert log.highest_offset_in_remote_storage == (1 if is_safe else 5)
    if is_safe:
        assert state_of(log).local_log_start_offset == 2


def test_to_the_log_start_nothing_remote_stays(tiered):
    """[TRU-3, DUR-141] The epochs that had records are over."""
    log = tiered("safe")

    log.truncate_to(0)

    assert (log.log_start_offset, log.local_log_start_offset, log.log_end_offset) == (0, 0, 0)
    assert epochs_of(log) == ["4 0"]
    assert state_of(log).local_log_start_offset == 0


def test_within_the_local_part_what_was_uploaded_there_is_forgotten(tiered):
    """[LST-6, DUR-1] What is written there next is another record."""
    log = tiered("safe")

    log.truncate_to(5)

    assert log.highest_offset_in_remote_storage == 4
    assert (log.log_start_offset, log.local_log_start_offset) == (0, 4)
    assert offsets(log.scan(4)) == [4]


@pytest.mark.parametrize(("offset", "log_start"), [(6, 0), (6, 6), (2, 1), (12, 3)])
def test_a_full_truncation_of_a_tiered_log_keeps_the_log_start_it_is_given(
    tiered, new_log, offset, log_start
):
    """[TRU-4, LST-6, DUR-26] Also after the next open; what is remote below it stays."""
    log = tiered("safe")

    log.truncate_fully_and_start_at(offset, log_start)

    assert (log.log_start_offset, log.local_log_start_offset) == (log_start, offset)
    assert log.highest_offset_in_remote_storage == min(5, offset - 1)
    log.close_quietly()
    again = new_log(remote_log_reader=RemoteRecords(), **TIERED)
    assert (again.log_start_offset, again.local_log_start_offset) == (log_start, offset)


# ---- a disk without room -------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["truncate_to", "truncate_fully_and_start_at"])
def test_what_was_refused_leaves_no_mark(new_log, monkeypatch, call):
    """[DUR-30] Not that the log is being emptied, and nothing beside the files that count."""
    log = new_log()
    for _ in range(4):
        log.append([(None, b"x")])
    log.flush()
    log.delete_records(3)

    def refuse(*_):
        raise DiskFullError("no space")

    with monkeypatch.context() as patched:
        patched.setattr(log._local_log, "begin_truncation", refuse)
        with pytest.raises(DiskFullError):
            getattr(log, call)(2)

    assert state_of(log).is_being_emptied is False
    assert log.durable_offset == 4
    assert not [path.name for path in Path(log.path).iterdir() if path.suffix == ".tmp"]
    assert checkpoint(log.path, "log-start") == "0\n1\ntopic 0 3\n"
    assert offsets(log) == [3]
    assert log.append([(None, b"y")]).base_offset == 4


def test_a_hole_is_noted_before_it_is_made(new_log, monkeypatch):
    """[DUR-30, DUR-64, TRU-5] Behind the cut a full disk may refuse the note."""
    log = new_log()
    for value in (b"x", b"y"):
        log.append([(None, value)] * 3)

    def refuse(*_):
        raise DiskFullError("no space")

    with monkeypatch.context() as patched:
        patched.setattr(log._metadata, "save_state", refuse)
        log.truncate_to(5)
    assert state_of(log).contiguous_from == 5
    log.append([(None, b"z")])
    log.close_quietly()

    again = new_log()
    assert offsets(again) == [0, 1, 2, 5]
