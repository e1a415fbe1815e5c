"""The order of Java's maps, which a dump must print [format.md 18.6]."""

from __future__ import annotations

import pytest

from segstore.cli.java_text import hash_map_order, string_hash


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", 0), ("a", 97), ("ab", 3105), ("\U0001f600", 1772899), ("polygenelubricants", 2**31)],
)
def test_string_hash_is_javas(text: str, expected: int):
    """Known values of ``String.hashCode``; the last one is the smallest int."""
    assert string_hash(text) == expected


def test_a_map_lists_its_keys_by_bucket():
    """Keys that differ by one in the last character lie in neighbouring buckets."""
    assert hash_map_order(["c", "a", "b"]) == ["a", "b", "c"]
    assert hash_map_order(["p", "a"]) == ["p", "a"]  # 0x70 and 0x61: buckets 0 and 1 of 16
