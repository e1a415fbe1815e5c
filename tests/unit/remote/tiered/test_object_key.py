"""Keys of a bucket's objects."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segstore.errors import InvalidTopicError
from segstore.remote.tiered.object_key import (
    MANIFEST,
    OLD_SUFFIXES,
    SUFFIXES,
    format_main_key,
    format_partition_folder,
    object_key,
    parse_kafka_id,
    parse_object_key,
    parse_topic_folder,
)

ID, OTHER_ID = "MNLa-lFfSKy8CJMN7PSmCg", "-_NGp7RQSYSZHOkzcztCrQ"
KEY = f"tier-a-b-{ID}/10/00000000000000000295-{OTHER_ID}.log"


def test_a_prefix_without_a_slash_stays_with_the_topic():
    """[BKT-2] [BKT-4] Only a known prefix, or the manifest, parts them."""
    key = parse_object_key(KEY)

    assert key.folder.head == "tier-a-b"
    assert key.folder.topic_after("tier-") == "a-b"
    assert key.folder.topic_after("") == "tier-a-b"
    assert key.folder.topic_after("other-") is None
    assert key.folder.topic_after("tier-a-b") is None
    assert (key.partition, key.start_offset, key.suffix) == (10, 295, "log")
    assert f"{key.main_key}.log" == KEY


@given(
    prefix=st.text(max_size=20),
    topic=st.from_regex(r"[A-Za-z0-9._-]{1,249}", fullmatch=True).filter(
        lambda topic: topic not in {".", ".."}
    ),
    ids=st.tuples(st.uuids(), st.uuids()),
    numbers=st.tuples(st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1)),
    suffix=st.sampled_from(SUFFIXES),
)
def test_what_was_made_is_parsed_again(prefix, topic, ids, numbers, suffix):
    """[BKT-2] [BKT-3] [BKT-4] Whatever the prefix holds, slashes, hyphens and line ends too."""
    main = format_main_key(prefix, topic, ids[0], *numbers, ids[1])
    key = parse_object_key(object_key(main, suffix))

    assert key is not None
    assert key.main_key == main
    assert key.folder.topic_after(prefix) == topic
    assert (key.folder.topic_id, key.segment_id) == ids
    assert (key.partition, key.start_offset, key.suffix) == (*numbers, suffix)
    assert len(main) + len(".rsm-manifest") - len(prefix) <= 340  # [BKT-6]


def test_digits_of_another_locale_are_digits():
    """[BKT-3] As a broker in a locale with its own digits writes them."""
    digits = "".join(chr(0x660 + int(digit)) for digit in "00000000000000000295")
    key = parse_object_key(KEY.replace("00000000000000000295", digits))

    assert key.start_offset == 295
    assert digits in key.main_key


@pytest.mark.parametrize(
    "key",
    [
        "",
        "orders-0/00000000000000000000.log",
        KEY.replace(ID, ID[:-1]),
        KEY.replace(ID, ID[:-1] + "h"),  # the last character holds bits that no id has
        KEY.replace("/10/", "/010/"),
        KEY.replace("/10/", "/2147483648/"),
        KEY.replace("/10/", "/-1/"),
        KEY.replace("00000000000000000295", "0000000000000000295"),
        KEY.replace("00000000000000000295", "99999999999999999999"),
        KEY.replace(".log", ".txt"),
        KEY + "\n",
        f"-{ID}/0/00000000000000000295-{OTHER_ID}.log",
    ],
)
def test_what_the_plug_in_did_not_write_is_no_key(key):
    """[BKT-3] Another object in the bucket is nobody's segment."""
    assert parse_object_key(key) is None


@pytest.mark.parametrize("suffix", OLD_SUFFIXES)
def test_objects_of_old_builds_are_known_as_such(suffix):
    """[VER-3] One object for each index."""
    assert parse_object_key(KEY.replace("log", suffix)).is_of_old_build
    assert not parse_object_key(KEY.replace("log", MANIFEST)).is_of_old_build


def test_the_folder_of_a_partition_ends_with_a_slash():
    """[BKT-5] Else partition 1 would find partition 10."""
    topic_id = parse_kafka_id(ID)

    assert format_partition_folder("p/", "orders", topic_id, 1) == f"p/orders-{ID}/1/"
    with pytest.raises(InvalidTopicError):
        format_partition_folder("p/", "a/b", topic_id, 1)


def test_folders_of_topics_have_exactly_an_id_at_their_end():
    """[BKT-5] A plain match of `orders-` would find another topic's folder."""
    folder = parse_topic_folder(f"orders-eu-{ID}")

    assert folder == ("orders-eu", UUID(bytes=parse_kafka_id(ID).bytes))
    assert folder.topic_after("") == "orders-eu"
    assert parse_topic_folder("orders-0") is None
    assert parse_topic_folder(f"orders-{ID}/0") is None
    assert parse_topic_folder(f"orders-{ID}x") is None
    assert parse_topic_folder(f"orders-{ID}-{ID}").head == f"orders-{ID}"
