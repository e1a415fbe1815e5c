"""Damage in a segment whose time index was lost hid readable records from look-ups by time.

[DUR-79] The largest timestamp of what could be read was taken for that of the segment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import segstore
from segstore.errors import CorruptLogError, CorruptRecordError
from segstore.types import SpecialTimestamp
from tests.kits.log_kit import TIME

if TYPE_CHECKING:
    from pathlib import Path

    from segstore import UnifiedLog

DAMAGE = (CorruptLogError, CorruptRecordError)
BATCHES = 60
DAMAGED = 20
WANTED = 30
LAST = 2 * BATCHES


def time_of(offset: int) -> int:
    return TIME + 10 * offset


def opened(path: Path, **settings: object) -> UnifiedLog:
    return segstore.open(
        path, durability="none", segment_ms=None, index_interval_bytes=256, **settings
    )


def damage(path: Path, base_offset: int, time_index: bytes) -> None:
    """Overwrite a batch of a segment; *time_index* is what its time index holds then."""
    with opened(path, read_only=True) as log:
        segment = next(one for one in log.segments() if one.base_offset == base_offset)
        position = segment.translate_offset(base_offset + DAMAGED, segment.size_bytes).position
    file = path / f"{base_offset:020d}.log"
    content = bytearray(file.read_bytes())
    content[position : position + 50] = b"\xff" * 50
    file.write_bytes(content)
    file.with_suffix(".timeindex").write_bytes(time_index)


@pytest.fixture(params=[b"", bytes(24)], ids=["empty", "zeros"])
def time_index(request: pytest.FixtureRequest) -> bytes:
    """What is left of a time index; where there is no file an open for writing reports damage."""
    return request.param


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A log of two sealed segments of as many batches and one that has one, closed cleanly."""
    path = tmp_path / "topic-0"
    with opened(path) as log:
        for offset in range(LAST + 1):
            if offset and offset % BATCHES == 0:
                log.roll()
            log.append([(time_of(offset), None, bytes(300))])
    return path


@pytest.mark.parametrize("read_only", [True, False], ids=["read_only", "writable"])
def test_a_look_up_by_time_reports_damage_before_its_answer(
    path: Path, time_index: bytes, *, read_only: bool
):
    """[DUR-79, TS-2] The second segment's first record was given as the answer."""
    damage(path, 0, time_index)
    with opened(path, read_only=read_only) as log:
        for _ in range(2):  # neither answer is one that the first call has kept
            with pytest.raises(DAMAGE) as refused:
                log.offset_for_timestamp(time_of(WANTED))
            assert refused.value.next_readable_offset == DAMAGED + 1
            with pytest.raises(DAMAGE):
                log.fetch_offset_by_timestamp(time_of(WANTED))
            with pytest.raises(DAMAGE):
                log.fetch_offset_by_timestamp(SpecialTimestamp.MAX)
            with pytest.raises(DAMAGE):
                log.scan(start_timestamp=time_of(WANTED)).tuples()

        assert log.offset_for_timestamp(time_of(DAMAGED - 1)) == DAMAGED - 1
        skipping = log.scan(start_timestamp=time_of(WANTED), on_damage="skip")
        assert [record.offset for record in skipping] == [*range(WANTED, LAST + 1)]


def test_a_whole_time_index_leads_past_damage(path: Path):
    """[DUR-8, DUR-53] Its entries show where later times are."""
    damage(path, 0, (path / f"{0:020d}.timeindex").read_bytes())
    with opened(path, read_only=True) as log:
        assert log.offset_for_timestamp(time_of(WANTED)) == WANTED
        assert not log.segments()[0].max_timestamp().is_partial


def test_a_segment_says_that_damage_may_hide_its_largest_timestamp(path: Path, time_index: bytes):
    """[SEG-3, DUR-79]"""
    damage(path, 0, time_index)
    with opened(path, read_only=True) as log:
        first, second, _ = log.segments()
        for _ in range(2):
            assert first.max_timestamp() == (time_of(DAMAGED - 1), DAMAGED - 1, True)
        assert second.max_timestamp() == (time_of(LAST - 1), LAST - 1, False)


def test_retention_by_time_keeps_a_segment_whose_newest_record_is_hidden(
    path: Path, time_index: bytes
):
    """[RET-7, DUR-79] Records that are young were deleted with what is old before the damage."""
    damage(path, BATCHES, time_index)
    with opened(path, retention_ms=1) as log:
        with pytest.raises(CorruptLogError, match=r"retention\.ms"):
            log.delete_old_segments()

        assert log.log_start_offset == BATCHES  # the first one is whole, and old

        log.delete_records(LAST)
        assert [segment.base_offset for segment in log.segments()] == [LAST]


def test_an_append_behind_damage_hides_no_record_in_front_of_it(tmp_path: Path):
    """[DUR-79, SEG-5.5] A time-index entry says that no record before it has a later time."""
    path = tmp_path / "topic-0"
    with opened(path) as log:
        for offset in range(BATCHES):
            log.append([(time_of(offset), None, bytes(300))])
    damage(path, 0, b"")
    with opened(path) as log:
        for _ in range(4):
            log.append([(time_of(DAMAGED), None, bytes(300))])
        for _ in range(2):
            with pytest.raises(DAMAGE):
                log.offset_for_timestamp(time_of(WANTED))
        log.roll()
    with opened(path, read_only=True) as log, pytest.raises(DAMAGE):
        log.offset_for_timestamp(time_of(WANTED))
