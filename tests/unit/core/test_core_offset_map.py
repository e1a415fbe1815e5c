"""The cleaner's map of keys, from Python [CLN-45..CLN-52]; Kafka's own cases: conformance."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segstore._core import OffsetMap
from segstore.errors import IllegalArgumentError

SLOTS = 50


@given(
    st.lists(
        st.tuples(st.binary(max_size=3), st.integers(0, 2**63 - 1)), max_size=SLOTS, min_size=1
    )
)
def test_a_map_with_room_is_a_dictionary(entries: list[tuple[bytes, int]]):
    """[CLN-48, CLN-49, CLN-52]"""
    offset_map = OffsetMap(SLOTS * 24)
    expected: dict[bytes, int] = {}
    for key, offset in entries:
        offset_map.put(key, offset)
        expected[key] = offset

    assert {key: offset_map.get(key) for key in expected} == expected
    assert offset_map.size == len(expected)
    assert offset_map.latest_offset == entries[-1][1]
    assert offset_map.get(b"longer than any") == -1


@given(st.sets(st.integers(0, 10**6), min_size=SLOTS, max_size=SLOTS))
def test_every_slot_can_be_used(numbers: set[int]):
    """[CLN-46, CLN-48] and then nothing goes in, not even what is there."""
    offset_map = OffsetMap(SLOTS * 24)
    for number in numbers:
        offset_map.put(b"%d" % number, number)

    assert offset_map.utilization == 1.0
    assert all(offset_map.get(b"%d" % number) == number for number in numbers)
    for key in (b"%d" % min(numbers), b"new"):
        with pytest.raises(IllegalArgumentError):
            offset_map.put(key, 0)


@pytest.mark.parametrize("key", [b"", b"k", bytearray(b"k" * 55), memoryview(b"k" * 1000)])
def test_keys_are_told_apart_by_their_md5(key):
    """[CLN-45] an entry is found from what an independent hash says: one probe, one slot."""
    first_word = int.from_bytes(hashlib.md5(key).digest()[:4], signed=True)
    slot = abs(first_word) % 2
    other = next(
        other
        for other in (b"%d" % number for number in range(100))
        if abs(int.from_bytes(hashlib.md5(other).digest()[:4], signed=True)) % 2 != slot
    )
    offset_map = OffsetMap(48)
    offset_map.put(key, 7)
    assert offset_map.get(other) == -1
    offset_map.put(other, 8)
    assert (offset_map.get(key), offset_map.get(other)) == (7, 8)


@pytest.mark.parametrize("memory_bytes", [-1, 0, 23, 2**31, 2**62])
def test_a_map_without_a_slot_or_beyond_a_java_array_is_refused(memory_bytes):
    with pytest.raises(IllegalArgumentError):
        OffsetMap(memory_bytes)


def test_a_key_is_bytes():
    """A record without a key is not in the map: who builds it leaves it out."""
    offset_map = OffsetMap(48)
    for key in (None, "text", 7):
        with pytest.raises(TypeError):
            offset_map.put(key, 1)
