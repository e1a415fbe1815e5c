"""Where keys go: as Java clients decide it."""

from __future__ import annotations

import pytest

from segstore.errors import IllegalArgumentError
from segstore.records.partitioner import partition_for_key


@pytest.mark.parametrize(
    ("key", "hashed"), [(b"foobar", -790332482), (b"21", -973932308), (b"abc", 479470107)]
)
@pytest.mark.parametrize("count", [1, 4, 7, 1000])
def test_a_key_has_its_partition(key: bytes, hashed: int, count: int):
    """Kafka: BuiltInPartitioner.partitionForKey, with the hashes of UtilsTest.testMurmur2."""
    assert partition_for_key(key, count) == (hashed & 0x7FFFFFFF) % count


def test_records_without_a_key_take_turns():
    assert sorted(partition_for_key(None, 5) for _ in range(10)) == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]


def test_a_topic_has_partitions():
    with pytest.raises(IllegalArgumentError):
        partition_for_key(b"k", 0)
