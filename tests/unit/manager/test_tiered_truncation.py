"""Records of a tiered log that are cut and written again: remote storage has what was cut."""

from __future__ import annotations

import random
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import TYPE_CHECKING, Any

import pytest

import segstore
from segstore.errors import IllegalArgumentError, IllegalStateError, RemoteStorageError
from segstore.log import truncation
from segstore.manager.tiered_topics import TieredTopics
from segstore.records.memory_records import MemoryRecords
from segstore.remote.log_manager import copied_end, copy_task
from segstore.remote.log_manager.expiration_task import ExpirationTask
from segstore.remote.log_manager.lineage import end_of_contiguous
from segstore.remote.storage.tiered_storage import TieredStorage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import ModuleType

    from segstore.log.unified_log import UnifiedLog
    from segstore.manager.log_manager import LogManager

TIERED = {"remote.storage.enable": "true", "local.retention.bytes": "1000000"}

CUTS = {
    "to_1": (lambda log: log.truncate_to(1), 1, 0),
    "fully_at_2": (lambda log: log.truncate_fully_and_start_at(2), 2, 2),
    "fully_at_2_from_0": (lambda log: log.truncate_fully_and_start_at(2, 0), 2, 0),
}


def fill(logs: LogManager, log: UnifiedLog, name: bytes, count: int = 4) -> None:
    for _ in range(count):
        logs.append("orders", [(None, b"%s%d" % (name, log.log_end_offset))])
        log.roll()


def values(log: UnifiedLog) -> list[bytes | None]:
    return [record.value for record in log.scan()]


def in_ten_minutes() -> int:
    return time.time_ns() // 1_000_000 + 600_000


def keep_nothing_here(logs: LogManager) -> None:
    logs.alter_topic("orders", {"local.retention.bytes": "0"})
    assert logs.maintain().failed == ()


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("is_remote_only", [False, True])
@pytest.mark.parametrize("reopened", ["", "tiered", "by path"])
def test_what_is_cut_and_written_again_is_never_served_as_it_was(
    tmp_path: Path, cut: str, reopened: str, *, is_remote_only: bool
):
    """[DUR-140, DUR-141, EPC-2] The truncation ends the leader epoch, also before a restart."""
    data, remote = tmp_path / "data", str(tmp_path / "tier")
    truncate, end, start = CUTS[cut]
    with segstore.open_dir(data, remote=remote) as logs:
        logs.create_topic("orders", config=TIERED)
        log = logs.log("orders", 0)
        fill(logs, log, b"old")
        assert logs.maintain().failed == ()
        if is_remote_only:
            keep_nothing_here(logs)
        if reopened != "by path":
            truncate(log)
    if reopened == "by path":
        with segstore.open(data / "orders-0") as alone:
            truncate(alone)
            if not is_remote_only and cut == "fully_at_2_from_0":  # it has no remote part [TRU-4]
                start = end
            assert alone.log_start_offset == start
    with segstore.open_dir(data, remote=remote) as logs:
        log = logs.log("orders", 0)
        assert (log.log_start_offset, log.log_end_offset) == (start, end)
        assert log.leader_epochs[-1] == (1, end)
        fill(logs, log, b"new", 5)
        expected = [b"old%d" % n for n in range(start, end)]
        expected += [b"new%d" % n for n in range(end, end + 5)]
        assert values(log) == expected
        keep_nothing_here(logs)
        assert log.local_log_start_offset == end + 5
        assert values(log) == expected
    with segstore.open_bucket(remote) as bucket:
        assert [one.value for one in bucket.scan("orders")][-5:] == expected[-5:]


def test_the_epoch_that_was_raised_stays_without_records(tmp_path: Path):
    """[EPC-6, EPC-7] A second truncation, which cuts nothing, and restarts leave it."""
    data, remote = tmp_path / "data", str(tmp_path / "tier")
    with segstore.open_dir(data, remote=remote) as logs:
        logs.create_topic("orders", config=TIERED)
        log = logs.log("orders", 0)
        fill(logs, log, b"old")
        log.truncate_to(2)
        assert list(log.leader_epochs) == [(0, 0), (1, 2)]
        assert not log.truncate_to(2)
        assert list(log.leader_epochs) == [(0, 0), (1, 2)]
    for _ in range(2):
        with segstore.open_dir(data, remote=remote) as logs:
            log = logs.log("orders", 0)
            assert list(log.leader_epochs) == [(0, 0), (1, 2)]
    with segstore.open_dir(data, remote=remote) as logs:
        log = logs.log("orders", 0)
        log.truncate_to(1)
        assert list(log.leader_epochs) == [(0, 0), (2, 1)]


def test_a_log_without_remote_part_keeps_its_epoch(tmp_path: Path):
    """[TRU-1, EPC-6] Nobody has a copy of what goes."""
    with segstore.open_dir(tmp_path / "data") as logs:
        logs.create_topic("orders")
        log = logs.log("orders", 0)
        fill(logs, log, b"old")
        log.truncate_to(2)
        assert list(log.leader_epochs) == [(0, 0)]


OFF = {"remote.storage.enable": "false", "remote.log.delete.on.disable": "true"}


@pytest.mark.parametrize("records_of_a_segment", [1, 3])
def test_copies_of_before_remote_storage_was_disabled_never_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, records_of_a_segment: int
):
    """[DUR-140, CFG-46, TIER-90] The storage was away then: they go before others are made."""
    with segstore.open_dir(tmp_path / "data", remote=tmp_path / "tier") as logs:
        logs.create_topic("orders", config=TIERED)
        log = logs.log("orders", 0)
        fill(logs, log, b"old")
        assert logs.maintain().failed == ()
        with monkeypatch.context() as patched:
            patched.setattr(TieredStorage, "delete_log_segment_data", away)
            with pytest.raises(RemoteStorageError):
                logs.alter_topic("orders", OFF)
            log.truncate_to(1)
            for number in range(1, 4):
                logs.append("orders", [(None, b"new%d" % number)])
                if log.log_end_offset % records_of_a_segment == 1 % records_of_a_segment:
                    log.roll()
            with pytest.raises(RemoteStorageError) as raised:
                logs.alter_topic("orders", dict.fromkeys(OFF) | TIERED)
            assert "as before" in raised.value.__notes__[0]
            assert not log.remote_log_enabled
        logs.alter_topic("orders", dict.fromkeys(OFF) | TIERED)
        log.roll()
        keep_nothing_here(logs)
        assert log.local_log_start_offset == 4
        assert values(log) == [b"old0", b"new1", b"new2", b"new3"]


def test_a_truncation_ends_the_epoch_while_copies_may_be_left(tmp_path: Path):
    """[DUR-141, CFG-46] The settings of the directory disable remote storage, and enable it."""
    options = {"remote": tmp_path / "tier", "remote_storage_enable": True}
    with segstore.open_dir(tmp_path / "data", **options) as logs:
        logs.create_topic("orders", config={"local.retention.bytes": "1000000"})
        log = logs.log("orders", 0)
        fill(logs, log, b"old")
        assert logs.maintain().copied
    off = options | {"remote_storage_enable": False, "remote_log_delete_on_disable": True}
    for _ in range(2):
        with segstore.open_dir(tmp_path / "data", **off) as logs:
            log = logs.log("orders", 0)
            log.truncate_to(2)
            assert list(log.leader_epochs) == [(0, 0), (1, 2)]
    with segstore.open_dir(tmp_path / "data", **options) as logs:
        log = logs.log("orders", 0)
        fill(logs, log, b"new", 2)
        keep_nothing_here(logs)
        assert log.local_log_start_offset == 4
        assert values(log) == [b"old0", b"old1", b"new2", b"new3"]


@pytest.mark.parametrize("first_here", [1, 2, 5])
def test_a_copy_that_begins_before_the_log_here_is_compared_with_the_rest(
    tmp_path: Path, first_here: int
):
    """[DUR-140] The settings of the directory disabled remote storage, and told no one."""
    enabled = {"remote": tmp_path / "tier", "remote_storage_enable": True}
    with segstore.open_dir(tmp_path / "data", **enabled) as logs:
        logs.create_topic("orders", config={"local.retention.bytes": "1000000"})
        log = logs.log("orders", 0)
        for number in range(6):
            logs.append("orders", [(None, b"old%d" % number)])
        log.roll()
        assert logs.maintain().copied[0].end_offset == 6
    with segstore.open_dir(tmp_path / "data") as logs:
        log = logs.log("orders", 0)
        log.truncate_to(1)
        for number in range(1, 6):
            log.roll()
            logs.append("orders", [(None, b"new%d" % number)])
        log.roll()
        log.delete_records(first_here)
        log.delete_old_segments()
        assert log.segments()[0].base_offset == first_here
    with segstore.open_dir(tmp_path / "data", **enabled) as logs:
        log = logs.log("orders", 0)
        logs.alter_topic("orders", {"local.retention.bytes": "0"})
        (failed,) = logs.maintain().failed
        assert "other records in the log" in str(failed.error)
        expected = [b"new%d" % number for number in range(first_here, 6)]
        assert values(log) == expected
        off = {"remote.storage.enable": "false", "remote.log.delete.on.disable": "true"}
        logs.alter_topic("orders", off)
        logs.alter_topic("orders", dict.fromkeys(off))
        assert logs.maintain().failed == ()
        assert log.local_log_start_offset == 6
        assert values(log) == expected


def away(*_: object, **__: object) -> None:
    raise RemoteStorageError("the store is away", file="tier")


@pytest.mark.parametrize("where", [copied_end, copy_task])
def test_records_written_beside_a_pass_do_not_count_as_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: ModuleType
):
    """[DUR-140] Another thread cuts the log and writes it again: the pass knows what was cut."""
    with segstore.open_dir(tmp_path / "data", remote=tmp_path / "tier") as logs:
        logs.create_topic("orders", config=TIERED)
        log = logs.log("orders", 0)
        fill(logs, log, b"old", 3)
        if where is copied_end:
            assert logs.maintain().failed == ()

        def beside(*arguments: Any) -> int:
            monkeypatch.undo()
            log.truncate_to(1)
            fill(logs, log, b"new", 3)
            return end_of_contiguous(*arguments)

        logs.alter_topic("orders", {"local.retention.bytes": "0"})
        monkeypatch.setattr(where, "end_of_contiguous", beside)
        assert logs.maintain().failed == ()
        assert log.highest_offset_in_remote_storage < 1
        assert log.local_log_start_offset <= 1
        expected = [b"old0", b"new1", b"new2", b"new3"]
        assert values(log) == expected
        assert logs.maintain(in_ten_minutes()).failed == ()
        assert log.local_log_start_offset == 4
        assert values(log) == expected


def test_records_written_beside_a_pass_do_not_expire_with_those_that_were_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """[DUR-143] The log start goes over the records that the pass has found too old."""
    with segstore.open_dir(tmp_path / "data", remote=tmp_path / "tier") as logs:
        logs.create_topic("orders", config=TIERED)
        log = logs.log("orders", 0)
        for number in range(4):
            logs.append("orders", [(None, b"old%d" % number)], timestamp=1000)
            log.roll()
        assert logs.maintain().failed == ()
        outlived = ExpirationTask._outlived

        def beside(*arguments: Any) -> Iterator[Any]:
            monkeypatch.undo()
            log.truncate_to(1)
            fill(logs, log, b"new", 4)
            return outlived(*arguments)

        logs.alter_topic("orders", {"retention.ms": "3600000"})
        monkeypatch.setattr(ExpirationTask, "_outlived", beside)
        assert logs.maintain().failed == ()
        assert log.log_start_offset <= 1
        assert logs.maintain(in_ten_minutes()).failed == ()
        assert values(log) == [b"new%d" % number for number in range(1, 5)]


@pytest.mark.parametrize("cut", ["to", "fully"])
def test_a_batch_that_is_only_remote_is_not_cut(tmp_path: Path, cut: str):
    """[TRU-5, DUR-141] Its records below the cut could not be read: nothing changes."""

    def truncate(offset: int) -> None:
        log.truncate_to(offset) if cut == "to" else log.truncate_fully_and_start_at(offset, 0)

    with segstore.open_dir(tmp_path / "data", remote=tmp_path / "tier") as logs:
        logs.create_topic("orders", config=TIERED)
        log = logs.log("orders", 0)
        log.append([(None, b"old%d" % number) for number in range(3)])
        log.append([(None, b"old%d" % number) for number in range(3, 10)])
        log.roll()
        assert logs.maintain().failed == ()
        keep_nothing_here(logs)
        before = list(log.leader_epochs)
        for offset in (4, 9):
            with pytest.raises(IllegalArgumentError) as raised:
                truncate(offset)
            assert raised.value.expected == "3 or 10"
            assert raised.value.file.endswith(".log")
        assert (log.log_end_offset, list(log.leader_epochs)) == (10, before)
        assert len(values(log)) == 10
        truncate(3)
        assert values(log) == [b"old0", b"old1", b"old2"]
        with pytest.raises(IllegalArgumentError):
            truncate(1)
        log.truncate_fully_and_start_at(1)
        assert (log.log_start_offset, log.log_end_offset) == (1, 1)


def test_a_truncation_of_what_is_only_remote_needs_the_storage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """[DUR-144] Its batches are there. Without it the error comes before any change."""
    with segstore.open_dir(tmp_path / "data", remote=tmp_path / "tier") as logs:
        logs.create_topic("orders", config=TIERED)
        log = logs.log("orders", 0)
        fill(logs, log, b"old")
        assert logs.maintain().failed == ()
        keep_nothing_here(logs)
        with monkeypatch.context() as patched:
            patched.setattr(TieredTopics, "read", away)
            with pytest.raises(RemoteStorageError, match="away"):
                log.truncate_to(2)
            log.truncate_to(4)
            log.truncate_fully_and_start_at(4, 0)
        assert values(log) == [b"old%d" % number for number in range(4)]
    with segstore.open_dir(tmp_path / "data") as logs:
        log = logs.log("orders", 0)
        with pytest.raises(IllegalStateError, match="without remote="):
            log.truncate_to(2)
        assert log.log_end_offset == 4


def test_a_segment_of_an_epoch_that_is_gone_expires_once(tmp_path: Path):
    """[TIER-56, TIER-58] It is too old, and its epochs end where the log begins then."""
    now = time.time_ns() // 1_000_000
    with segstore.open_dir(tmp_path / "data", remote=tmp_path / "tier") as logs:
        logs.create_topic("orders", config=TIERED)
        log = logs.log("orders", 0)
        for offset, epoch in enumerate((0, 0, 1, 1, 2, 2)):
            at = 1000 if epoch < 2 else now
            data = MemoryRecords.with_records(
                [(at, None, b"v%d" % offset)], partition_leader_epoch=epoch, base_offset=offset
            )
            log.append_as_follower(bytes(data.data), epoch)
            if offset in {3, 5}:
                log.roll()
        assert logs.maintain().copied[0].end_offset == 6
        log.delete_records(3)
        assert log.leader_epochs[0] == (1, 3)
        logs.alter_topic("orders", {"retention.ms": "3600000"})
        report = logs.maintain(in_ten_minutes())
        assert report.failed == ()
        assert [one.segments for one in report.expired] == [1]
        assert values(log) == [b"v4", b"v5"]


def test_a_truncation_beside_a_copy_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """[TIER-33, DUR-142] Files of the segment are gone; the next pass copies what is there then."""
    copy = TieredStorage.copy_log_segment_data
    with segstore.open_dir(tmp_path / "data", remote=tmp_path / "tier") as logs:
        logs.create_topic("orders", config=TIERED)
        log = logs.log("orders", 0)
        fill(logs, log, b"old")

        def beside(*arguments: Any) -> None:
            monkeypatch.undo()
            log.truncate_fully_and_start_at(2)
            copy(*arguments)

        monkeypatch.setattr(TieredStorage, "copy_log_segment_data", beside)
        assert logs.maintain().failed == ()
        fill(logs, log, b"new", 2)
        assert logs.maintain(in_ten_minutes()).failed == ()
        assert log.highest_offset_in_remote_storage == 3
        assert values(log) == [b"new2", b"new3"]


def test_what_is_deleted_beside_a_pass_is_not_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """[TIER-33] The log start has passed it: a copy would go at once, and has no leader epoch."""
    copy = TieredStorage.copy_log_segment_data
    with segstore.open_dir(tmp_path / "data", remote=tmp_path / "tier") as logs:
        logs.create_topic("orders", config=TIERED)
        log = logs.log("orders", 0)
        fill(logs, log, b"old")

        def beside(*arguments: Any) -> None:
            copy(*arguments)
            log.maybe_increment_log_start_offset(3)

        monkeypatch.setattr(TieredStorage, "copy_log_segment_data", beside)
        report = logs.maintain()
        assert report.failed == ()
        assert log.highest_offset_in_remote_storage == 3
        names = sorted(int(path.name[:20]) for path in (tmp_path / "tier").rglob("*.log"))
        assert names == [3]
        assert values(log) == [b"old3"]


def test_a_pass_that_begins_within_a_truncation_sees_what_comes_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """[DUR-140] The log has its new end by then, and the leader epochs of before."""
    delete = truncation.delete_snapshots_of
    with (
        segstore.open_dir(tmp_path / "data", remote=tmp_path / "tier") as logs,
        ThreadPoolExecutor(1) as pool,
    ):
        logs.create_topic("orders", config=TIERED)
        log = logs.log("orders", 0)
        fill(logs, log, b"old")
        assert logs.maintain().failed == ()
        passes = []

        def beside(*arguments: Any) -> None:
            monkeypatch.undo()
            passes.append(pool.submit(logs.maintain, in_ten_minutes()))
            time.sleep(0.3)
            delete(*arguments)

        monkeypatch.setattr(truncation, "delete_snapshots_of", beside)
        log.truncate_to(1)
        assert passes[0].result().failed == ()
        fill(logs, log, b"new", 3)
        keep_nothing_here(logs)
        assert log.highest_offset_in_remote_storage == 3
        assert values(log) == [b"old0", b"new1", b"new2", b"new3"]


def test_a_log_that_is_cut_beside_its_passes_has_what_was_appended(tmp_path: Path, few_or_many):
    """[DUR-140, DUR-141, DUR-143] Passes copy, delete and expire in another thread meanwhile."""
    for seed in range(few_or_many(2, 100)):
        cut_beside_passes(tmp_path / str(seed), seed)


def cut_beside_passes(path: Path, seed: int) -> None:
    """Append to a log, cut and read it, beside a thread that has passes."""
    dice, kept, starts = random.Random(seed), dict[int, bytes](), list[int]()
    failed: list[object] = []
    ended = Event()

    def run_passes() -> None:
        now = time.time_ns() // 1_000_000
        while not ended.wait(0.002):
            now += 600_000  # all that is sealed is copied, and goes here
            failed.extend(logs.maintain(now).failed)

    with (
        segstore.open_dir(path / "data", remote=path / "tier") as logs,
        ThreadPoolExecutor(1) as pool,
    ):
        logs.create_topic("orders", config=TIERED | {"local.retention.bytes": "0"})
        log = logs.log("orders", 0)
        passes = pool.submit(run_passes)
        try:
            for number in range(300):
                step = dice.random()
                if step < 0.8 or not starts:
                    starts.append(log.log_end_offset)
                    written = [b"%d %d" % (number, n) for n in range(dice.randint(1, 5))]
                    kept |= dict(enumerate(written, log.log_end_offset))
                    log.append([(None, value) for value in written])
                    if dice.random() < 0.4:
                        log.roll()
                elif step < 0.9:
                    cut = dice.choice(starts[-dice.choice([2, 5, 30]) :])
                    log.truncate_to(cut)
                    starts = [one for one in starts if one < cut]
                    kept = {one: value for one, value in kept.items() if one < cut}
                else:
                    assert {one.offset: one.value for one in log.scan(0)} == kept
        finally:
            ended.set()
            passes.result()
        assert failed == []
        assert {one.offset: one.value for one in log.scan(0)} == kept
