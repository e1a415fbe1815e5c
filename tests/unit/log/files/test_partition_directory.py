"""Names of partition directories and of segment files [LOC-24, DUR-98]."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segstore._core import SegmentListing
from segstore.errors import InvalidTopicError, NotALogError
from segstore.log.files.partition_directory import (
    SegmentFile,
    check_partition,
    check_topic,
    directory_name,
    file_name,
    is_partition_directory_name,
    list_during_writes,
    parse_directory_name,
    parse_file_name,
    segment_files,
)
from segstore.types import TopicPartition

UNIQUE_ID = "0123456789abcdef0123456789abcdef"
TOPICS = st.text("abcXYZ019._-", min_size=1, max_size=249).filter(lambda t: t not in {".", ".."})


@given(TOPICS, st.integers(0, 2**31 - 1))
def test_a_directory_name_says_topic_and_partition(topic, partition):
    """[LOC-24] Also with dashes, dots and digits in the topic."""
    name = directory_name(TopicPartition(topic, partition))

    assert parse_directory_name(name) == (topic, partition)
    for kind in ("delete", "stray", "future"):
        assert parse_directory_name(f"{name}.{UNIQUE_ID}-{kind}") == (topic, partition)
        assert not is_partition_directory_name(f"{name}.{UNIQUE_ID}-{kind}")


@pytest.mark.parametrize(
    "name",
    ["", "orders", "-0", "orders-", "orders-01", "orders-+1", "orders--1 ", "orders-x",
     "orders-1.5", "orders-\u0661", "orders-99999999999", "orders1999.-delete",
     "orders-0-delete", "orders.0"],
)  # fmt: skip
def test_other_names_are_no_partitions(name):
    """[LOC-24, DUR-98] Kafka: LocalLogTest.testParseTopicPartitionNameForMissingSeparator,
    LocalLogTest.testParseTopicPartitionNameForEmptyName,
    LocalLogTest.testParseTopicPartitionNameForInvalidPartition.
    """
    assert not is_partition_directory_name(name)
    with pytest.raises(NotALogError) as caught:
        parse_directory_name(name)
    assert "<topic>-<partition>" in caught.value.expected


@pytest.mark.parametrize("topic", ["", ".", "..", "a b", "a/b", "a\0b", "\u00e9", "x" * 250, "a\n"])
def test_illegal_topics(topic):
    """[DUR-98, DUR-101]"""
    with pytest.raises(InvalidTopicError):
        check_topic(topic)


def test_bounds_of_names():
    """[DUR-98] 249 characters, 2^31 - 1 partitions."""
    assert check_topic("x" * 249) == "x" * 249
    assert check_partition(2**31 - 1) == 2**31 - 1
    for partition in (-1, 2**31):
        with pytest.raises(InvalidTopicError):
            check_partition(partition)


@given(
    st.integers(0, 2**63 - 1),
    st.sampled_from(["log", "index", "timeindex", "txnindex", "snapshot"]),
    st.sampled_from(["", ".deleted", ".cleaned", ".swap"]),
)
def test_a_file_name_says_offset_kind_and_suffix(offset, kind, suffix):
    """[DUR-98] Kafka: LocalLogTest.testOffsetFromFile."""
    name = file_name(offset, kind) + suffix

    assert parse_file_name(name) == SegmentFile(offset, kind, suffix)
    assert parse_file_name(name).name == name


@pytest.mark.parametrize(
    "name",
    ["5.log", "00000000000000000005.LOG", "00000000000000000005", "00000000000000000005.log.bak",
     "0000000000000000005.log", "000000000000000000005.log", "-0000000000000000005.log",
     "09223372036854775808.log", "99999999999999999999.log", "00000000000000000005.log\n",
     " 00000000000000000005.log", "00000000000000000005.log.deleted.swap", "\u0660" * 20 + ".log"],
)  # fmt: skip
def test_names_that_are_not_ours_to_touch(name):
    """[DUR-98]"""
    assert parse_file_name(name) is None
    assert segment_files([name]) == []


@pytest.mark.parametrize(
    ("listings", "expected"),
    [
        ([[0, 40], [0, 40]], [0, 40]),
        ([[0, 40, 80], [0, 40, 60, 80, 90]], [0, 40, 60, 80]),  # 60 was made before 80
        ([[0, 40], [0, 60]], [0]),  # 40 was truncated, 60 may stand behind another one
        ([[0], [50, 70], [50, 60, 70, 80]], [50, 60, 70]),  # all was replaced
        ([[], [0]], None),
        ([[0], []], []),
        ([[], []], []),
    ],
)
def test_a_listing_beside_a_writer_leaves_no_file_out(listings, expected):
    """[DUR-71, DUR-78] A directory that is read while files are made shows any of the new ones."""
    found = iter([*listings, [0, 5]])

    class Changing:
        def segment_listing(self):
            return SegmentListing(f"{base:020}.log" for base in next(found))

    listing, bases = list_during_writes(Changing())

    assert list(bases) == ([0] if expected is None else expected)
    assert not listing.others
