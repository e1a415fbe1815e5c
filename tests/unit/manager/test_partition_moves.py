"""A partition moves to another log directory while it is written [MGR-79, MGR-90, DUR-127]."""

from __future__ import annotations

import os
import shutil
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

import segstore
from segstore import LogManager
from segstore.errors import (
    ClosedError,
    DiskFullError,
    IllegalArgumentError,
    IllegalStateError,
    LogLockedError,
    LogNotFoundError,
    LogReadOnlyError,
    NotALogError,
    UnknownTopicOrPartitionError,
    WriteError,
)
from segstore.log.cleaning.cleaner import Cleaner
from segstore.log.files.partition_directory import future_directory_name
from segstore.log.files.topics_file import TOPICS_FILE, Arrival, format_topics, parse_topics
from segstore.log.local.segment_replacement import SegmentReplacement
from segstore.log.unified_log import UnifiedLog
from segstore.manager import partition_moves
from segstore.manager.partition_copy import PartitionCopy
from segstore.manager.topic_registry import TopicRegistry
from segstore.types import TopicPartition
from tests.kits.log_kit import PATIENCE_SECONDS, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from segstore.log.local.segment import Segment

ORDERS = TopicPartition("orders", 0)
RECORDS = 100


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    return [tmp_path / "a", tmp_path / "b"]


def open_small(paths: list[Path], **settings: object) -> LogManager:
    return segstore.open_dir(paths, internal_segment_bytes=2000, **settings)


def fill(logs: LogManager, count: int = RECORDS) -> None:
    log = logs.log(*ORDERS)
    for number in range(log.log_end_offset, log.log_end_offset + count):
        log.append([(1000 + number, b"%d" % number, b"x" * 50)])


@pytest.fixture
def logs(paths: list[Path]) -> LogManager:
    with open_small(paths) as logs:
        logs.create_topic("orders", config={"retention.ms": -1}, directories={0: paths[0]})
        fill(logs)
        yield logs


def keys(logs: LogManager) -> list[bytes | None]:
    return [record.key for record in logs.log(*ORDERS)]


def numbers(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def contents(directory: Path) -> dict[str, bytes]:
    return {
        path.name: path.read_bytes()
        for path in directory.iterdir()
        if path.name not in {".lock", ".kafka_cleanshutdown", ".segstore-clean"}
    }


def partition_directories(paths: list[Path]) -> list[str]:
    return sorted(f"{p.parent.name}/{p.name}" for one in paths for p in one.glob("orders-0*"))


def test_all_of_it_is_in_the_other_directory(logs: LogManager, paths: list[Path]):
    """[DUR-127, MGR-90] Files byte for byte, log start, settings, producers, the topic's id."""
    log = logs.log(*ORDERS)
    log.delete_records(30)
    topic_id = log.topic_id
    assert logs.move_partition("orders", 0, paths[1]) == str(paths[1] / "orders-0")
    moved = logs.log(*ORDERS)
    assert moved is not log
    assert moved.path == str(paths[1] / "orders-0")
    assert keys(logs) == numbers(RECORDS)[30:]
    assert (moved.log_start_offset, moved.log_end_offset) == (30, 100)
    assert moved.topic_id == topic_id
    assert logs.describe_topic("orders").topic_id == topic_id
    assert moved.config.retention_ms is None
    assert not (paths[0] / "orders-0").exists()
    fill(logs, 5)
    logs.close()
    assert partition_directories(paths) == ["b/orders-0"]
    with segstore.open_dir(paths[1], read_only=True) as alone:
        assert keys(alone) == numbers(105)[30:]
        assert alone.log(*ORDERS).verify().ok


def test_files_are_copied_byte_for_byte(logs: LogManager, paths: list[Path]):
    """[DUR-127] With their times."""
    for path in (paths[0] / "orders-0").glob("*.log"):
        os.utime(path, (1_000_000, 1_000_000))
    logs.move_partition("orders", 0, paths[1])
    (old,) = paths[0].glob("orders-0.*-delete")
    assert contents(paths[1] / "orders-0") == contents(old)
    for path in (paths[1] / "orders-0").glob("*.log"):  # Kafka's retention goes by it [RTN-5]
        assert int(path.stat().st_mtime * 1000) == int((old / path.name).stat().st_mtime * 1000)


def test_appends_and_reads_go_on(logs: LogManager, paths: list[Path]):
    """[DUR-127] An append through the manager raises no error, and no record is lost."""
    is_over = threading.Event()
    appended: list[int] = []

    def append() -> None:
        while not is_over.is_set():
            info = logs.append("orders", [(None, b"%d" % (RECORDS + len(appended)), b"v")])
            appended.extend(one.base_offset for one in info.values())

    thread = threading.Thread(target=append)
    thread.start()
    try:
        for number in range(6):
            logs.move_partition("orders", 0, paths[(number + 1) % 2])
    finally:
        is_over.set()
        thread.join()
    assert appended == [*range(RECORDS, RECORDS + len(appended))]
    assert keys(logs) == numbers(RECORDS + len(appended))


@pytest.mark.parametrize("recovery", ["safe", "kafka"])
def test_the_high_watermark_goes_with_it(paths: list[Path], recovery: str):
    """[MGR-90]"""
    with open_small(paths, recovery=recovery, replicated=True) as logs:
        logs.create_topic("orders", directories={0: paths[0]})
        fill(logs)
        logs.log(*ORDERS).update_high_watermark(70)
        logs.move_partition("orders", 0, paths[1])
        assert logs.log(*ORDERS).high_watermark == 70


@pytest.mark.parametrize("recovery", ["safe", "kafka"])
@pytest.mark.parametrize("step", ["begin", "rename"])
def test_the_high_watermark_stays_where_a_move_is_interrupted(
    paths: list[Path], monkeypatch, recovery: str, step: str
):
    """[MGR-90] Before the copy has the partition's name, or just after that."""
    name_copy = partition_moves._name_copy

    def interrupt(*args: Any) -> None:
        if step == "rename":
            name_copy(*args)
        raise KeyboardInterrupt

    with open_small(paths, recovery=recovery, replicated=True) as logs:
        logs.create_topic("orders", directories={0: paths[0]})
        fill(logs)
        logs.log(*ORDERS).update_high_watermark(70)
        monkeypatch.setattr(partition_moves, "_name_copy", interrupt)
        with pytest.raises(KeyboardInterrupt):
            logs.move_partition("orders", 0, paths[1])
        assert logs.log(*ORDERS).path == str(paths[step == "rename"] / "orders-0")
        assert logs.log(*ORDERS).high_watermark == 70
    with open_small(paths, recovery=recovery, replicated=True) as logs:
        assert logs.log(*ORDERS).high_watermark == 70


@pytest.mark.parametrize("recovery", ["safe", "kafka"])
def test_a_clean_stop_after_it(paths: list[Path], recovery: str):
    """[DUR-24, DUR-123] It was closed cleanly; there and back, too."""
    with open_small(paths, recovery=recovery) as logs:
        logs.create_topic("orders", directories={0: paths[0]})
        fill(logs)
        logs.move_partition("orders", 0, paths[1])
    with open_small(paths, recovery=recovery) as logs:
        assert logs.log(*ORDERS).report.clean
        fill(logs, 5)
        for number in range(2):
            logs.move_partition("orders", 0, paths[number])
            assert logs.log(*ORDERS).report.clean
            fill(logs, 5)
        logs.move_partition("orders", 0, paths[0])
    with open_small(paths, recovery=recovery) as logs:
        assert logs.log(*ORDERS).report.clean
        assert keys(logs) == numbers(RECORDS + 15)


def test_a_handle_is_closed_by_it(logs: LogManager, paths: list[Path]):
    log = logs.log(*ORDERS)
    logs.move_partition("orders", 0, paths[1])
    with pytest.raises(ClosedError):
        log.append([(None, b"v")])


def test_what_cannot_be_moved(logs: LogManager, paths: list[Path], tmp_path: Path):
    """[MGR-79, MGR-82] A partition that lies there already is not moved there."""
    with pytest.raises(IllegalStateError, match="lies in this log directory"):
        logs.move_partition("orders", 0, paths[0])
    with pytest.raises(UnknownTopicOrPartitionError):
        logs.move_partition("orders", 1, paths[1])
    with pytest.raises(IllegalArgumentError, match="opened without"):
        logs.move_partition("orders", 0, tmp_path / "c")
    (paths[0] / "orders-0" / "mine").mkdir()
    with pytest.raises(NotALogError, match="would be lost"):
        logs.move_partition("orders", 0, paths[1])
    assert partition_directories(paths) == ["a/orders-0"]
    assert keys(logs) == numbers(RECORDS)


def test_state_elsewhere(paths: list[Path], tmp_path: Path):
    with open_small(paths, recovery="kafka", state_dir=tmp_path / "state") as logs:
        logs.create_topic("orders")
        with pytest.raises(IllegalArgumentError, match="state lies elsewhere"):
            logs.move_partition("orders", 0, paths[1])


@pytest.mark.parametrize(("cut", "end"), [(50, 90), (98, 103)], ids=["segments", "the last"])
def test_a_truncation_meanwhile(logs: LogManager, paths: list[Path], monkeypatch, cut, end):
    """What was copied before may be other records by then, also where the file is longer."""
    log = logs.log(*ORDERS)
    real = partition_moves._Move.copy_beside_appends
    monkeypatch.setattr(partition_moves, "_ENOUGH_BYTES", 1)

    def copy(move: partition_moves._Move) -> None:
        real(move)
        log.truncate_to(cut)
        for number in range(cut, end):
            log.append([(1000 + number, b"%d" % number, b"y" * 51)])

    monkeypatch.setattr(partition_moves._Move, "copy_beside_appends", copy)
    logs.move_partition("orders", 0, paths[1])
    assert keys(logs) == numbers(end)
    assert logs.log(*ORDERS).verify().ok


@pytest.mark.parametrize("beside", [True, False], ids=["beside a copy", "after it"])
def test_a_compaction_meanwhile(logs: LogManager, paths: list[Path], monkeypatch, *, beside: bool):
    """[CLN-110] What was copied of a segment is no beginning of the one that took its name."""
    monkeypatch.setattr(partition_moves, "_ENOUGH_BYTES", 1)
    logs.alter_topic("orders", {"cleanup.policy": "compact"})
    log, expected = logs.log(*ORDERS), []
    real, seen = partition_moves._Move.copy_beside_appends, []

    def compact() -> None:
        if not expected:
            log.append([(b"%d" % number, b"again") for number in range(0, RECORDS, 2)])
            log.roll()
            log.compact()
            expected.extend(keys(logs))

    def copy(move: partition_moves._Move) -> None:
        real(move)
        compact()

    def progress(done: int, total: int) -> None:
        seen.append((done, total))
        if beside and len(seen) == 3:
            compact()

    monkeypatch.setattr(partition_moves._Move, "copy_beside_appends", copy)
    logs.move_partition("orders", 0, paths[1], progress=progress)
    assert keys(logs) == expected
    assert len(expected) == RECORDS
    assert logs.log(*ORDERS).verify().ok


def compactable(logs: LogManager) -> UnifiedLog:
    """Return the log, of which every second record has a later value."""
    logs.alter_topic("orders", {"cleanup.policy": "compact"})
    log = logs.log(*ORDERS)
    log.append([(b"%d" % number, b"again") for number in range(0, RECORDS, 2)])
    log.roll()
    return log


@pytest.mark.parametrize("is_before", [True, False], ids=["before the look", "after it"])
def test_a_compaction_between_two_looks_at_a_log(
    logs: LogManager, paths: list[Path], monkeypatch, *, is_before: bool
):
    """[DUR-127] The segments are those of the generation that was seen, or of a later one."""
    monkeypatch.setattr(partition_moves, "_ENOUGH_BYTES", 1)
    log, real, done = compactable(logs), partition_moves._Move._forget_if_changed, []

    def look(move: partition_moves._Move) -> bool:
        is_changed = False if is_before else real(move)
        if not done:
            done.append(log.compact())
        return real(move) if is_before else is_changed

    monkeypatch.setattr(partition_moves._Move, "_forget_if_changed", look)
    logs.move_partition("orders", 0, paths[1])
    assert len(keys(logs)) == RECORDS
    assert logs.log(*ORDERS).verify().ok


def test_a_compaction_whose_files_have_their_names_already(
    logs: LogManager, paths: list[Path], monkeypatch
):
    """[DUR-127, CLN-110] A copy of the old ones that comes to their end begins again."""
    monkeypatch.setattr(partition_moves, "_ENOUGH_BYTES", 1)
    log, real = compactable(logs), SegmentReplacement.finish
    is_named, go_on, looks = threading.Event(), threading.Event(), []
    missing_bytes = PartitionCopy.missing_bytes

    def finish(replacement: SegmentReplacement) -> None:
        real(replacement)
        is_named.set()
        assert go_on.wait(60)

    def look(copy: PartitionCopy, segments: tuple[Segment, ...]) -> int:
        looks.append(len(segments))
        if len(looks) == 1:
            compacting.start()
            assert is_named.wait(60)
        return missing_bytes(copy, segments)

    monkeypatch.setattr(SegmentReplacement, "finish", finish)
    monkeypatch.setattr(PartitionCopy, "missing_bytes", look)

    def compact() -> None:
        with suppress(ClosedError):  # the last step of the move has closed it by then
            log.compact()

    compacting = threading.Thread(target=compact)
    try:
        logs.move_partition("orders", 0, paths[1], progress=lambda *_: go_on.set())
    finally:
        go_on.set()
        compacting.join(60)
    assert len(looks) > 1
    assert sorted(set(keys(logs))) == sorted(numbers(RECORDS))
    assert logs.log(*ORDERS).verify().ok


def test_a_compaction_just_before_the_last_step(logs: LogManager, paths: list[Path], monkeypatch):
    """[DUR-127] What the log has is asked when it is closed."""
    log, real = compactable(logs), UnifiedLog.close

    def close(one: UnifiedLog) -> None:
        if one is log and not one.closed:
            log.compact()
        real(one)

    monkeypatch.setattr(UnifiedLog, "close", close)
    logs.move_partition("orders", 0, paths[1])
    assert len(keys(logs)) == RECORDS
    assert logs.log(*ORDERS).verify().ok


@pytest.mark.parametrize("number", [1, 2, 9, 22])
def test_a_pass_by_hand_hears_that_its_log_was_closed(
    logs: LogManager, paths: list[Path], number: int
):
    """[MGR-90] The move goes on, with the records that were there; no file of the pass goes too."""
    log, calls, has_made_files = compactable(logs), [], []

    def check() -> None:
        calls.append(None)
        if len(calls) == number:
            has_made_files.append(bool([*(paths[0] / "orders-0").glob("*.cleaned")]))
            logs.move_partition("orders", 0, paths[1])
            assert not [*(paths[1] / "orders-0").glob("*.cleaned")]

    with pytest.raises(ClosedError, match="the log orders-0 is closed"):
        log.clean(Cleaner(check_done=check), 0)
    assert has_made_files == [number > 16]
    assert sorted(set(keys(logs))) == sorted(numbers(RECORDS))
    assert logs.log(*ORDERS).verify().ok
    logs.log(*ORDERS).compact()
    assert len(keys(logs)) == RECORDS


def test_segments_that_go_meanwhile(logs: LogManager, paths: list[Path], monkeypatch):
    """Records that retention, or a user, deletes are not in the copy."""
    monkeypatch.setattr(partition_moves, "_ENOUGH_BYTES", 1)
    seen: list[tuple[int, int]] = []

    def progress(done: int, total: int) -> None:
        if not seen:
            logs.log(*ORDERS).delete_records(60)
        seen.append((done, total))

    logs.move_partition("orders", 0, paths[1], progress=progress)
    assert keys(logs) == numbers(RECORDS)[60:]
    assert all(done <= total for done, total in seen)
    first = min(int(path.stem) for path in (paths[1] / "orders-0").glob("*.log"))
    assert first > 20


def test_a_deletion_meanwhile(logs: LogManager, paths: list[Path], monkeypatch):
    """Nothing comes back."""
    monkeypatch.setattr(
        partition_moves._Move, "copy_beside_appends", lambda _: logs.delete_topic("orders")
    )
    with pytest.raises(IllegalStateError, match="closed or deleted"):
        logs.move_partition("orders", 0, paths[1])
    assert logs.topics() == {}
    logs.close()
    assert partition_directories(paths) == []


def test_two_moves_at_once(logs: LogManager, paths: list[Path], monkeypatch):
    errors: list[Exception] = []

    def again(_: object) -> None:
        with pytest.raises(IllegalStateError, match="being moved") as raised:
            logs.move_partition("orders", 0, paths[1])
        errors.append(raised.value)

    monkeypatch.setattr(partition_moves._Move, "copy_beside_appends", again)
    logs.move_partition("orders", 0, paths[1])
    assert errors
    assert keys(logs) == numbers(RECORDS)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), WriteError("no"), OSError("no")])
def test_what_fails_changes_nothing(logs: LogManager, paths: list[Path], monkeypatch, error):
    """[DUR-127] The copy is removed at once, and the partition goes on."""

    def fail(_: object) -> None:
        raise error

    monkeypatch.setattr(partition_moves._Move, "copy_beside_appends", fail)
    with pytest.raises(type(error)):
        logs.move_partition("orders", 0, paths[1])
    assert partition_directories(paths) == ["a/orders-0"]
    fill(logs, 3)
    assert keys(logs) == numbers(RECORDS + 3)


def test_settings_go_with_it(paths: list[Path]):
    """[DUR-128] A directory that has no partition of the topic yet knows what it was given."""
    with open_small(paths) as logs:
        logs.create_topic("orders", config={"retention.ms": 5000}, directories={0: paths[0]})
        logs.move_partition("orders", 0, paths[1])
    with segstore.open_dir(paths[1]) as alone:
        assert alone.log(*ORDERS).config.retention_ms == 5000


# ---- what a crash has left -----------------------------------------------------------------------


def leave(paths: list[Path], *, is_copied: bool, name: str, was_deleted: bool = False) -> None:
    """Make what a process leaves that was killed in the midst of a move."""
    with open_small(paths) as logs:
        logs.create_topic("orders", directories={0: paths[0]})
        fill(logs)
    shutil.copytree(paths[0] / "orders-0", paths[1] / name)
    content = parse_topics((paths[0] / TOPICS_FILE).read_bytes()).topics
    future = name if name.endswith("-future") else future_directory_name(ORDERS)
    arrival = Arrival(future, str(paths[0]), RECORDS if is_copied else None)
    (paths[1] / TOPICS_FILE).write_bytes(format_topics(content, {ORDERS: arrival}))
    if was_deleted:
        (paths[0] / "orders-0").rename(paths[0] / f"orders-0.{'0' * 32}-delete")


def future() -> str:
    return future_directory_name(ORDERS)


@pytest.mark.parametrize(
    ("done", "home"),
    [
        ({"copying"}, "a"),
        ({"copied"}, "b"),
        ({"copied", "deleted"}, "b"),
        ({"copied", "named"}, "b"),
        ({"copied", "named", "deleted"}, "b"),
    ],
)
def test_the_next_open_ends_it(paths: list[Path], done: set[str], home: str):
    """[DUR-127] One live directory is left, with all records, whatever was done of the move."""
    name = "orders-0" if "named" in done else future()
    leave(paths, is_copied="copied" in done, name=name, was_deleted="deleted" in done)
    with open_small(paths) as logs:
        assert keys(logs) == numbers(RECORDS)
        assert logs.log(*ORDERS).path == f"{paths[0].parent}/{home}/orders-0"
        assert logs.unopened_directories() == []
        fill(logs, 3)
    assert [one for one in partition_directories(paths) if "-delete" not in one] == [
        f"{home}/orders-0"
    ]
    assert parse_topics((paths[1] / TOPICS_FILE).read_bytes()).arrivals == {}
    with open_small(paths) as logs:
        assert keys(logs) == numbers(RECORDS + 3)


def test_a_reader_knows_which_one_counts(paths: list[Path]):
    """[DUR-127] Before the next open for writing, too."""
    leave(paths, is_copied=True, name="orders-0")
    with open_small(paths, read_only=True) as logs:
        assert logs.log(*ORDERS).path == str(paths[1] / "orders-0")
        assert logs.partitions() == [ORDERS]


def test_the_only_copy_is_kept(paths: list[Path], caplog):
    """[DUR-6] What is left of a partition that is gone is not removed."""
    name = future()
    leave(paths, is_copied=False, name=name)
    shutil.rmtree(paths[0] / "orders-0")
    with open_small(paths) as logs:
        assert logs.unopened_directories() == [str(paths[1] / name)]
    assert "its copy is not whole" in caplog.text
    assert (paths[1] / name).exists()


def test_one_directory_alone(paths: list[Path]):
    """[DUR-127] What has the partition's name counts; the rest waits for both directories."""
    name = future()
    leave(paths, is_copied=True, name=name)
    with open_small(paths[1:]) as logs:
        assert logs.topics() == {}
        assert logs.unopened_directories() == [str(paths[1] / name)]
    with open_small(paths[:1]) as logs:
        fill(logs, 7)
    with open_small(paths) as logs:  # records of the one that was used
        assert keys(logs) == numbers(RECORDS + 7)
        assert logs.log(*ORDERS).path == str(paths[0] / "orders-0")
        assert logs.unopened_directories() == []


def test_both_were_used(paths: list[Path], caplog):
    """[MGR-22] Nothing is removed, and no directory is guessed."""
    leave(paths, is_copied=True, name="orders-0")
    with open_small(paths[:1]) as logs:
        fill(logs, 7)
    with open_small(paths) as logs, pytest.raises(IllegalStateError, match="several log dir"):
        logs.log(*ORDERS)
    assert "was used since" in caplog.text
    assert partition_directories(paths) == ["a/orders-0", "b/orders-0"]


@pytest.mark.parametrize("name", ["orders-0", None])
@pytest.mark.parametrize("is_cut", [True, False])
def test_an_old_directory_that_ends_as_before_was_used(
    paths: list[Path], name: str | None, *, is_cut: bool
):
    """[DUR-127] Other records were lost, and deleted ones came back."""
    leave(paths, is_copied=True, name=name or future())
    with open_small(paths[:1]) as logs:
        log = logs.log(*ORDERS)
        if is_cut:
            log.truncate_to(90)
            log.append([(None, b"new", b"v")] * 10)
        else:
            log.delete_records(50)
        expected = keys(logs)
    with open_small(paths) as logs:
        if name is not None:
            with pytest.raises(IllegalStateError, match="several log dir"):
                keys(logs)
            logs.set_aside_partition("orders", 0, paths[1])
        assert keys(logs) == expected
        assert logs.log(*ORDERS).path == str(paths[0] / "orders-0")


def test_the_copy_was_used(paths: list[Path]):
    """[DUR-127] The end of the old log decides, whatever the copy got since."""
    leave(paths, is_copied=True, name="orders-0")
    with open_small(paths[1:]) as logs:
        fill(logs, 7)
    with open_small(paths) as logs:
        assert keys(logs) == numbers(RECORDS + 7)
        assert logs.log(*ORDERS).path == str(paths[1] / "orders-0")


# ---- moves that fail -----------------------------------------------------------------------------


@pytest.mark.parametrize("recovery", ["safe", "kafka"])
def test_a_failed_move_leaves_no_log_start(paths: list[Path], monkeypatch, recovery: str):
    """[DUR-120] A later partition of the name has its own."""
    with open_small(paths, recovery=recovery, replicated=True) as logs:
        logs.create_topic("orders", directories={0: paths[0]})
        fill(logs)
        log = logs.log(*ORDERS)
        log.update_high_watermark(RECORDS)
        log.delete_records(60)
        with monkeypatch.context() as patch:
            patch.setattr(partition_moves, "_name_copy", mock.Mock(side_effect=OSError))
            with pytest.raises(OSError):
                logs.move_partition("orders", 0, paths[1])
        assert keys(logs) == numbers(RECORDS)[60:]
        logs.delete_topic("orders")
        logs.create_topic("orders", directories={0: paths[0]})
        fill(logs)
        logs.log(*ORDERS).update_high_watermark(RECORDS)
        logs.move_partition("orders", 0, paths[1])
    line = "orders 0 60"
    assert line not in (paths[1] / "log-start-offset-checkpoint").read_text().splitlines()
    with open_small(paths, recovery=recovery, replicated=True) as logs:
        assert keys(logs) == numbers(RECORDS)


def test_a_move_that_cannot_begin_writes_nothing_more(logs: LogManager, paths: list[Path]):
    """A full disk is an error of its own kind, without a note."""
    before = (paths[1] / TOPICS_FILE).exists()
    full = mock.Mock(side_effect=DiskFullError("full", file="x"))
    with mock.patch.object(TopicRegistry, "expect", full), pytest.raises(DiskFullError) as caught:
        logs.move_partition("orders", 0, paths[1])
    assert not hasattr(caught.value, "__notes__")
    assert full.call_count == 1
    assert (paths[1] / TOPICS_FILE).exists() == before
    logs.move_partition("orders", 0, paths[1])
    assert keys(logs) == numbers(RECORDS)


def delete(logs: LogManager, offset: int) -> None:
    log = logs.log(*ORDERS)
    log.update_high_watermark(log.log_end_offset)
    log.delete_records(offset)


@pytest.mark.parametrize("recovery", ["safe", "kafka"])
def test_what_was_deleted_in_the_copy_stays_deleted(paths: list[Path], recovery: str):
    """[DUR-19] The lines of the old directory do not replace those of a copy that was used."""
    with open_small(paths, recovery=recovery, replicated=True) as logs:
        logs.create_topic("orders", directories={0: paths[0]})
        fill(logs)
        delete(logs, 10)
    shutil.copytree(paths[0] / "orders-0", paths[1] / "orders-0")
    topics = parse_topics((paths[0] / TOPICS_FILE).read_bytes()).topics
    arrival = Arrival(future(), str(paths[0]), RECORDS)
    (paths[1] / TOPICS_FILE).write_bytes(format_topics(topics, {ORDERS: arrival}))
    with open_small(paths[1:], recovery=recovery, replicated=True) as logs:
        delete(logs, 50)
    for _ in range(2):
        with open_small(paths, recovery=recovery, replicated=True) as logs:
            assert logs.log(*ORDERS).path == str(paths[1] / "orders-0")
            assert logs.log(*ORDERS).log_start_offset == 50


def test_a_directory_that_gets_the_name_meanwhile_is_not_taken_for_the_copy(
    logs: LogManager, paths: list[Path], monkeypatch
):
    """[DUR-127] The rename failed, and the old directory was deleted: the records were lost."""
    monkeypatch.setattr(partition_moves, "_ENOUGH_BYTES", 1)

    def make_another(*_: int) -> None:
        (paths[1] / "orders-0").mkdir(exist_ok=True)
        (paths[1] / "orders-0" / "note").write_text("of another program")

    with pytest.raises(IllegalStateError, match="cannot rename"):
        logs.move_partition("orders", 0, paths[1], progress=make_another)
    assert partition_directories(paths) == ["a/orders-0", "b/orders-0"]
    shutil.rmtree(paths[1] / "orders-0")
    assert keys(logs) == numbers(RECORDS)


def test_an_old_directory_that_could_not_be_deleted_goes_with_the_next_move(
    logs: LogManager, paths: list[Path]
):
    """[DUR-127] The disk was full. Two directories had the partition after the next move."""
    paths.append(paths[0].parent / "c")
    logs.close()
    with open_small(paths) as again:
        full = mock.patch.object(TopicRegistry, "doom", side_effect=DiskFullError("full"))
        with full, pytest.raises(DiskFullError):
            again.move_partition("orders", 0, paths[1])
        fill(again, 5)
        assert partition_directories(paths) == ["a/orders-0", "b/orders-0"]
        with full, pytest.raises(DiskFullError):
            again.move_partition("orders", 0, paths[2])
        assert keys(again) == numbers(RECORDS + 5)
        for target in (paths[2], paths[0], paths[1]):
            again.move_partition("orders", 0, target)
            assert keys(again) == numbers(RECORDS + 5)
    assert partition_directories(paths) == ["b/orders-0"]


def test_another_directory_of_the_name_is_refused(logs: LogManager, paths: list[Path]):
    """[MGR-22]"""
    (paths[1] / "orders-0").mkdir()
    with pytest.raises(IllegalStateError, match="several log directories"):
        logs.move_partition("orders", 0, paths[1])
    assert partition_directories(paths) == ["a/orders-0", "b/orders-0"]


def test_an_open_does_not_take_another_directory_for_the_copy(paths: list[Path]):
    """[DUR-127] Killed before the copy had the name, which an older copy has meanwhile."""
    with open_small(paths) as logs:
        logs.create_topic("orders", directories={0: paths[0]})
        fill(logs)
    shutil.copytree(paths[0] / "orders-0", paths[1] / "orders-0")
    future = future_directory_name(ORDERS)
    shutil.copytree(paths[0] / "orders-0", paths[1] / future)
    arrival = Arrival(future, str(paths[0]), RECORDS)
    (paths[1] / TOPICS_FILE).write_bytes(format_topics({}, {ORDERS: arrival}))
    open_small(paths).close()
    assert "a/orders-0" in partition_directories(paths)


def test_a_directory_that_has_failed_gives_nothing_away(logs: LogManager, paths: list[Path]):
    """[DUR-38, MGR-91]"""
    logs.close()
    with open_small(paths) as again:
        error = WriteError("the disk is broken")
        again._failures.maybe_add_offline_log_dir(str(paths[0]), error)
        with pytest.raises(LogReadOnlyError):
            again.move_partition("orders", 0, paths[1])
        assert keys(again) == numbers(RECORDS)
        with pytest.raises(LogReadOnlyError):
            again.close()


def test_settings_that_a_topic_gets_meanwhile_go_with_it(paths: list[Path]):
    """[DUR-128] No file had an entry of the topic at the begin; Kafka's defaults would delete."""
    paths[0].mkdir()
    segstore.open(paths[0] / "orders-0").close()
    copy = partition_moves._Move.copy_beside_appends
    with open_small(paths) as logs:

        def alter_and_copy(self: partition_moves._Move) -> None:
            logs.alter_topic("orders", {"retention.ms": 12345})
            copy(self)

        with mock.patch.object(partition_moves._Move, "copy_beside_appends", alter_and_copy):
            logs.move_partition("orders", 0, paths[1])
        assert logs.log(*ORDERS).config.retention_ms == 12345
    assert parse_topics((paths[1] / TOPICS_FILE).read_bytes()).topics["orders"].config


# ---- moves that could not be undone --------------------------------------------------------------


def fail_to_move(logs: LogManager, target: Path, *, is_copied: bool) -> None:
    """Let a move fail, and the removal of its copy too: the disk was full."""
    full = DiskFullError("full", file="x")
    step = "_name_copy" if is_copied else "_hand_over"
    with (
        mock.patch.object(partition_moves, step, side_effect=full),
        mock.patch.object(partition_moves, "remove_trees", side_effect=full),
        pytest.raises(DiskFullError) as caught,
    ):
        logs.move_partition("orders", 0, target, progress=None if is_copied else fails_with(full))
    assert "ends this one" in caught.value.__notes__[0]
    assert len([*target.glob("*-future")]) == 1


def fails_with(error: BaseException) -> Callable[[int, int], None]:
    def progress(_done: int, _total: int) -> None:
        raise error

    return progress


@pytest.mark.parametrize("is_copied", [False, True])
def test_the_next_move_removes_the_copy_of_one_that_was_not_undone(
    logs: LogManager, paths: list[Path], monkeypatch, *, is_copied: bool
):
    """[DUR-127] Such a copy stayed until a user removed it."""
    monkeypatch.setattr(partition_moves, "_ENOUGH_BYTES", 1)
    fail_to_move(logs, paths[1], is_copied=is_copied)
    fill(logs, 5)
    logs.move_partition("orders", 0, paths[1])
    assert keys(logs) == numbers(RECORDS + 5)
    assert logs.unopened_directories() == []
    logs.close()
    assert partition_directories(paths) == ["b/orders-0"]


@pytest.mark.parametrize("is_copied", [False, True])
def test_the_next_open_removes_the_copy_of_one_that_went_elsewhere(
    logs: LogManager, paths: list[Path], monkeypatch, *, is_copied: bool
):
    """[DUR-127] The copy got the partition's name, beside the directory that has newer records."""
    monkeypatch.setattr(partition_moves, "_ENOUGH_BYTES", 1)
    logs.close()
    paths.append(paths[0].parent / "c")
    with open_small(paths) as again:
        fail_to_move(again, paths[1], is_copied=is_copied)
        fill(again, 5)
        again.move_partition("orders", 0, paths[2])
    with open_small(paths) as again:
        assert keys(again) == numbers(RECORDS + 5)
        assert again.log(*ORDERS).path == str(paths[2] / "orders-0")
    assert partition_directories(paths) == ["c/orders-0"]
    assert parse_topics((paths[1] / TOPICS_FILE).read_bytes()).arrivals == {}


def test_a_copy_from_a_directory_that_is_not_open_is_named(paths: list[Path]):
    """[DUR-127] It may be the only one that has all records: nothing writes over its line."""
    leave(paths, is_copied=True, name=future())
    other = paths[0].parent / "c"
    shutil.copytree(paths[0], other)
    with open_small([other, paths[1]]) as logs:
        with pytest.raises(IllegalStateError, match="Open that one too") as caught:
            logs.move_partition("orders", 0, paths[1])
        assert str(paths[0]) in str(caught.value)
        assert str(next(paths[1].glob("*-future"))) in str(caught.value)
    shutil.rmtree(other)
    with open_small(paths) as logs:
        assert keys(logs) == numbers(RECORDS)


def test_a_copy_with_a_torn_id_is_removed(paths: list[Path]):
    """[DUR-127] It was not on stable storage before the kill."""
    leave(paths, is_copied=False, name=future())
    (copy,) = paths[1].glob("*-future")
    (copy / "partition.metadata").write_bytes(b"")
    with open_small(paths) as logs:
        assert logs.unopened_directories() == []
        assert keys(logs) == numbers(RECORDS)


@pytest.mark.parametrize("home", ["a", "c"])
def test_a_copy_of_an_older_topic_is_kept(paths: list[Path], caplog, home: str):
    """[DUR-6] The disk of the partition was lost, and the topic was made again."""
    leave(paths, is_copied=False, name=future())
    shutil.rmtree(paths[0] / "orders-0")
    (paths[0] / TOPICS_FILE).unlink()
    (copy,) = paths[1].glob("*-future")
    (copy / "partition.metadata").unlink()  # it is copied last
    paths.append(paths[0].parent / "c")
    with open_small([paths[0], paths[2]]) as logs:
        logs.create_topic("orders", directories={0: paths[0].parent / home})
    with open_small(paths) as logs:
        assert f"the copy {copy}" in caplog.text
        with pytest.raises(LogNotFoundError, match="its copy is not whole"):
            logs.move_partition("orders", 0, paths[1])
        assert logs.unopened_directories() == [str(copy)]


def test_a_copy_does_not_count_while_it_is_removed(paths: list[Path]):
    """[DUR-127] A crash left a part of it, which could be as the old directory by then."""
    leave(paths, is_copied=True, name=future())
    with open_small(paths[:1]) as logs:
        logs.log(*ORDERS).delete_records(50)

    def remove(*_: object) -> None:
        assert parse_topics((paths[1] / TOPICS_FILE).read_bytes()).arrivals[ORDERS].end is None
        raise KeyboardInterrupt

    removal = mock.patch.object(partition_moves, "remove_trees", side_effect=remove)
    with removal, pytest.raises(KeyboardInterrupt):
        open_small(paths)


# ---- what happens beside a move ------------------------------------------------------------------


def in_thread(call: Callable[[], object]) -> tuple[threading.Thread, list[BaseException]]:
    errors: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, errors


def join(*threads: threading.Thread) -> None:
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()


def test_a_close_waits_until_a_move_is_undone(logs: LogManager, paths: list[Path], monkeypatch):
    """[DUR-127] The thread wrote into the copy when another process could have the directory."""
    monkeypatch.setattr(partition_moves, "_ENOUGH_BYTES", 1)
    is_inside, may_go_on = threading.Event(), threading.Event()

    def progress(_done: int, _total: int) -> None:
        is_inside.set()
        assert may_go_on.wait(PATIENCE_SECONDS)

    mover, errors = in_thread(lambda: logs.move_partition("orders", 0, paths[1], progress=progress))
    assert is_inside.wait(PATIENCE_SECONDS)
    closer, failed = in_thread(logs.close)
    wait_for(lambda: logs._is_closing)
    closer.join(0.1)
    assert closer.is_alive()
    with pytest.raises(LogLockedError):
        open_small(paths)
    may_go_on.set()
    join(mover, closer)
    assert [type(error) for error in errors] == [ClosedError]
    assert not hasattr(errors[0], "__notes__")
    assert failed == []
    assert logs.closed
    assert partition_directories(paths) == ["a/orders-0"]
    assert parse_topics((paths[1] / TOPICS_FILE).read_bytes()).arrivals == {}
    with open_small(paths) as again:
        assert keys(again) == numbers(RECORDS)
        assert again.log(*ORDERS).report.clean


def test_a_close_waits_until_the_last_step_of_a_move_is_done(
    logs: LogManager, paths: list[Path], monkeypatch
):
    """[DUR-127] The partition has moved, and was closed cleanly."""
    real = partition_moves._name_copy
    closers: list[tuple[threading.Thread, list[BaseException]]] = []

    def name_copy(*arguments: Any) -> None:
        closers.append(in_thread(logs.close))
        closers[0][0].join(0.1)
        real(*arguments)

    monkeypatch.setattr(partition_moves, "_name_copy", name_copy)
    logs.move_partition("orders", 0, paths[1])
    join(closers[0][0])
    assert closers[0][1] == []
    assert partition_directories(paths) == ["b/orders-0"]
    with open_small(paths) as again:
        assert again.log(*ORDERS).report.clean


def test_a_close_by_progress_is_refused(logs: LogManager, paths: list[Path], monkeypatch):
    """[DUR-70] It would wait for itself. In the last call the move is over."""
    monkeypatch.setattr(partition_moves, "_ENOUGH_BYTES", 1)
    refused: list[str] = []

    def progress(_done: int, _total: int) -> None:
        try:
            logs.close()
        except RuntimeError as error:
            refused.append(str(error))

    logs.move_partition("orders", 0, paths[1], progress=progress)
    assert set(refused) == {
        "this thread moves orders-0: close the manager after move_partition has returned"
    }
    assert logs.closed
    assert partition_directories(paths) == ["b/orders-0"]


def test_progress_is_called_without_a_lock(logs: LogManager, paths: list[Path], monkeypatch):
    """[DUR-127] A slow one blocked all appends; one that used the manager raised RuntimeError."""
    monkeypatch.setattr(partition_moves, "_ENOUGH_BYTES", 3000)
    seen: list[tuple[int, int]] = []

    def progress(done: int, total: int) -> None:
        seen.append((done, total))
        join(in_thread(lambda: fill(logs, 1))[0])
        logs.create_topic(f"t{len(seen)}")

    logs.move_partition("orders", 0, paths[1], progress=progress)
    assert len(seen) > 1
    assert seen == sorted(seen)
    assert seen[-1][0] == seen[-1][1]
    assert keys(logs) == numbers(RECORDS + len(seen))


@pytest.mark.parametrize("error", [LogNotFoundError("mine"), WriteError("mine")])
def test_an_error_of_progress_comes_out(
    logs: LogManager, paths: list[Path], monkeypatch, error: Exception
):
    """It was taken for one of the copy: lost, or the end of the directory."""
    monkeypatch.setattr(partition_moves, "_ENOUGH_BYTES", 1)
    with pytest.raises(type(error), match="mine"):
        logs.move_partition("orders", 0, paths[1], progress=fails_with(error))
    assert partition_directories(paths) == ["a/orders-0"]
    assert logs.offline_directories() == {}
    monkeypatch.undo()
    with pytest.raises(type(error), match="mine"):  # by the last call
        logs.move_partition("orders", 0, paths[1], progress=fails_with(error))
    assert keys(logs) == numbers(RECORDS)
    assert logs.log(*ORDERS).path == str(paths[1] / "orders-0")


class SlowRecords:
    """Records whose iteration takes as long as a call."""

    def __init__(self, *waits: Callable[[], object]) -> None:
        self.waits = [*waits]
        self.times = 0

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        self.times += 1
        if self.waits:
            self.waits.pop(0)()
        yield b"k", b"v"


def test_an_append_that_a_move_has_interrupted_goes_first(logs: LogManager, paths: list[Path]):
    """[DUR-127] One move after another could keep a large append from its turn."""
    movers: list[tuple[threading.Thread, list[BaseException]]] = []

    def move_again() -> None:
        movers.append(in_thread(lambda: logs.move_partition("orders", 0, paths[0])))
        movers[0][0].join(0.3)

    records = SlowRecords(lambda: logs.move_partition("orders", 0, paths[1]), move_again)
    logs.append("orders", records, partition=0)
    join(movers[0][0])
    assert movers[0][1] == []
    assert records.times == 2
    assert keys(logs) == [*numbers(RECORDS), b"k"]
    assert logs.log(*ORDERS).path == str(paths[0] / "orders-0")


def test_a_close_does_not_wait_for_a_move_that_waits_for_it(logs: LogManager, paths: list[Path]):
    """[DUR-70] By the handler of a signal, which came in an append that goes first."""
    with logs._moves.going_first(ORDERS):
        mover, errors = in_thread(lambda: logs.move_partition("orders", 0, paths[1]))
        mover.join(0.1)
        assert mover.is_alive()
        logs.close()
    join(mover)
    assert [type(error) for error in errors] == [ClosedError]
    assert partition_directories(paths) == ["a/orders-0"]
