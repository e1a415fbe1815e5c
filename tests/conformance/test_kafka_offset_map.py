"""Kafka's OffsetMapTest, of ``SkimpyOffsetMap``."""

from __future__ import annotations

import pytest

from segstore._core import OffsetMap

MEMORY_BYTES = 4096
SLOTS = 170


def key(number: int) -> bytes:
    return str(number).encode()


def filled(first: int) -> tuple[OffsetMap, int]:
    """A map with no free slot, keys and offsets from *first* on; and the last of them."""
    offset_map = OffsetMap(MEMORY_BYTES)
    number = first
    while offset_map.size < offset_map.slots:
        offset_map.put(key(number), number)
        number += 1
    return offset_map, number - 1


@pytest.mark.parametrize("items", [10, 100, 1000, 5000])
def test_basic_validation(items: int):
    """[CLN-45, CLN-46] OffsetMapTest.testBasicValidation: as many keys, at a load of a half."""
    offset_map = OffsetMap(items * 48)
    for number in range(items):
        offset_map.put(key(number), number)

    assert [offset_map.get(key(number)) for number in range(items)] == list(range(items))
    assert offset_map.size == items


def test_clear():
    """[CLN-50] OffsetMapTest.testClear."""
    offset_map = OffsetMap(MEMORY_BYTES)
    for number in range(10):
        offset_map.put(key(number), number)
    assert [offset_map.get(key(number)) for number in range(10)] == list(range(10))

    offset_map.clear()

    assert [offset_map.get(key(number)) for number in range(10)] == [-1] * 10
    assert (offset_map.size, offset_map.latest_offset) == (0, -1)


def test_get_when_full():
    """[CLN-49] OffsetMapTest.testGetWhenFull: a key that is not there is not looked for forever."""
    offset_map, last = filled(37)

    assert (offset_map.slots, offset_map.size) == (SLOTS, SLOTS)
    assert offset_map.get(key(last + 1)) == -1
    assert offset_map.get(key(last)) == last


def test_update_latest_offset():
    """[CLN-48] OffsetMapTest.testUpdateLatestOffset."""
    offset_map, last = filled(37)
    assert offset_map.get(key(last)) == last

    offset_map.latest_offset = 40

    assert offset_map.latest_offset == 40
    assert [offset_map.get(key(number)) for number in (39, 40, last)] == [39, 40, last]


def test_latest_offset():
    """[CLN-48] OffsetMapTest.testLatestOffset."""
    offset_map, last = filled(37)

    assert offset_map.latest_offset == last


def test_utilization():
    """[CLN-50] OffsetMapTest.testUtilization."""
    offset_map = OffsetMap(MEMORY_BYTES)
    assert offset_map.utilization == 0.0

    for number in range(SLOTS):
        offset_map.put(key(number), number)
        assert offset_map.utilization == offset_map.size / offset_map.slots == (number + 1) / SLOTS
