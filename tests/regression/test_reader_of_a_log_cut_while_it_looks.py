"""A writer cuts a log and fills it again while a read-only handle looks at it.

In files of the same names and sizes: the handle went on with those that had no name any more, for
ever, and was not told.
"""

from __future__ import annotations

import os
import resource
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore import CorruptRecordError, LogTruncatedError, ResourceError
from segstore._core import is_any_replaced
from segstore.log.local.observed_end import ObservedEnd
from segstore.log.local.segment import Segment
from tests.kits.log_kit import TIME
from tests.kits.refilled_log import SETTINGS, fill, values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from segstore import UnifiedLog


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a-0"


@pytest.fixture
def writer(path: Path) -> Iterator[UnifiedLog]:
    with segstore.open(path, **SETTINGS) as log:
        yield log


def behind(
    monkeypatch: pytest.MonkeyPatch, name: str, base_offset: int, change: Callable[[], object]
) -> list[int]:
    """Let *change* happen once, behind that method of the segment; returns when it did."""
    method, happened = getattr(Segment, name), []

    def changed(self: Segment, *args: object, **options: object) -> object:
        answer = method(self, *args, **options)
        if self.base_offset == base_offset and not happened:
            happened.append(base_offset)
            change()
        return answer

    monkeypatch.setattr(Segment, name, changed)
    return happened


@pytest.mark.parametrize("cut", [9, 12, 25])
@pytest.mark.parametrize("base_offset", [0, 10, 20, 30])
def test_a_cut_above_what_was_seen_during_a_refresh(
    writer: UnifiedLog, path: Path, monkeypatch: pytest.MonkeyPatch, cut: int, base_offset: int
):
    """[DUR-77] Nothing that was shown is gone: nothing is told, and it is the log as it is."""
    fill(writer, b"A", 8)
    with segstore.open(path, read_only=True) as log:
        fill(writer, b"A", 31)

        def change() -> None:
            writer.truncate_to(cut)
            fill(writer, b"B", 31)

        assert log.log_end_offset == 8
        happened = behind(monkeypatch, "scan", base_offset, change)
        assert log.refresh() == 31
        assert happened
        assert values(log) == values(writer)
        assert log.verify().ok


@pytest.mark.parametrize("cut", [5, 12])
@pytest.mark.parametrize("base_offset", [10, 20])
def test_a_cut_during_an_open(
    writer: UnifiedLog, path: Path, monkeypatch: pytest.MonkeyPatch, cut: int, base_offset: int
):
    """[DUR-71, DUR-77] The reader looks at all of it, whatever was synced behind the rolls."""
    fill(writer, b"A", 31)
    writer.flush()
    (path / "recovery-point-offset-checkpoint").write_text("0\n1\na 0 0\n")

    def change() -> None:
        writer.truncate_to(cut)
        fill(writer, b"B", 31)

    happened = behind(monkeypatch, "scan", base_offset, change)
    with segstore.open(path, read_only=True) as log:
        assert happened
        assert values(log) == values(writer)
        assert log.refresh() == 31


def test_a_cut_during_the_look_behind_a_cut(
    writer: UnifiedLog, path: Path, monkeypatch: pytest.MonkeyPatch
):
    """[DUR-77] Told once, and of the log behind the second one."""
    fill(writer, b"A", 18)
    with segstore.open(path, read_only=True) as log:
        writer.truncate_to(5)
        fill(writer, b"B", 41)

        def change() -> None:
            writer.truncate_to(15)
            fill(writer, b"C", 41)

        happened = behind(monkeypatch, "scan", 20, change)
        with pytest.raises(LogTruncatedError):
            log.refresh()
        assert happened
        assert values(log) == values(writer)
        assert log.refresh() == 41


def test_a_cut_before_the_new_end_is_read(
    writer: UnifiedLog, path: Path, monkeypatch: pytest.MonkeyPatch
):
    """[DUR-77] The old end was asked before that: what was cut in between was never told."""
    fill(writer, b"A", 5)
    with segstore.open(path, read_only=True) as log:
        fill(writer, b"A", 9)
        method, happened = ObservedEnd.__init__, []

        def changed(self: ObservedEnd, *args: object) -> None:
            if not happened:
                happened.append(True)
                writer.truncate_to(2)
                fill(writer, b"B", 9)
            method(self, *args)

        monkeypatch.setattr(ObservedEnd, "__init__", changed)
        with pytest.raises(LogTruncatedError):
            log.refresh()
        assert happened
        assert values(log) == values(writer)


@pytest.mark.parametrize("end", [310, 315])
@pytest.mark.parametrize("is_read", [False, True])
def test_a_repair_that_writes_the_same_end_again(
    writer: UnifiedLog, path: Path, end: int, *, is_read: bool
):
    """[DUR-77] The bytes before the end are the same, one before them is not: it is told."""
    fill(writer, b"A", end)
    with segstore.open(path, read_only=True) as log:
        if is_read:
            values(log)
        writer.truncate_to(50)
        fill(writer, b"A", end, other=150)

        with pytest.raises(LogTruncatedError):
            log.refresh()
        assert log.refresh() == end
        assert values(log)[150] == b"X00150"


def test_a_scan_under_way_beside_such_a_repair(writer: UnifiedLog, path: Path):
    """[DUR-77]"""
    fill(writer, b"A", 315)
    with segstore.open(path, read_only=True) as log:
        records = iter(log.scan())
        assert next(records).value == b"A00000"
        writer.truncate_to(50)
        fill(writer, b"A", 315, other=150)

        with pytest.raises(LogTruncatedError):
            list(records)


def test_a_truncation_below_a_log_whose_records_were_all_deleted(writer: UnifiedLog, path: Path):
    """[DUR-77] No batch was left to tell by: the log begins before what was seen."""
    fill(writer, b"A", 30)
    with segstore.open(path, read_only=True) as log:
        tail = log.tail(0, timeout=0.2)
        assert [next(tail).offset for _ in range(30)] == list(range(30))
        writer.delete_records(30)
        assert log.refresh() == 30
        assert log.log_start_offset == 30
        writer.truncate_to(5)
        fill(writer, b"B", 40)

        with pytest.raises(LogTruncatedError):
            log.refresh()
        assert log.refresh() == 40
        assert log.log_start_offset == 5
        assert values(log) == values(writer)


def test_a_scan_without_a_descriptor_left(writer: UnifiedLog, path: Path):
    """[DUR-6, DUR-31] It could not be told whether the log was cut, and it went on."""
    for number in range(60):
        writer.append([(TIME, None, b"A%05d" % number + bytes(100_000))])
    with segstore.open(path, read_only=True) as log:
        records = iter(log.scan())
        next(records)
        writer.truncate_to(5)
        for number in range(5, 60):
            writer.append([(TIME, None, b"B%05d" % number + bytes(100_000))])
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
        try:
            with pytest.raises(ResourceError):
                list(records)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.parametrize("position", [-45, -3], ids=["header", "payload"])
def test_a_bit_that_rots_in_the_last_batch(writer: UnifiedLog, path: Path, position: int):
    """[DUR-7, DUR-79] In its header it was told as a truncation, and the record was gone then."""
    fill(writer, b"A", 9)
    with segstore.open(path, read_only=True) as log:
        assert len(values(log)) == 9
        with (path / f"{0:020d}.log").open("r+b") as file:
            file.seek(position, os.SEEK_END)
            (byte,) = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte ^ 1]))

        for _ in range(2):
            assert log.refresh() == 9
            with pytest.raises(CorruptRecordError):
                values(log)


def test_what_counts_as_replaced(writer: UnifiedLog, path: Path):
    """Only what is open can be another file than the one of its name."""
    fill(writer, b"A", 25)
    with segstore.open(path, read_only=True) as log:
        values(log)
        segments = log._local_log.segments
        assert not is_any_replaced(segments)
        name = path / f"{10:020d}.log"
        content = name.read_bytes()
        name.unlink()
        assert not is_any_replaced(segments)
        name.write_bytes(content)
        assert is_any_replaced(segments)
        assert not is_any_replaced([segments.first_segment])
    assert not is_any_replaced(segments)
