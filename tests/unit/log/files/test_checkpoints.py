"""The small text files beside a log: strict, bounded readers; exact writers [DUR-21, DUR-97]."""

from __future__ import annotations

import json
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segstore import _core
from segstore._core import FileBarrier, crc32c
from segstore.errors import CorruptCheckpointError, SegstoreError
from segstore.log.files.checkpoints import (
    LogState,
    format_leader_epoch_checkpoint,
    format_offset_checkpoint,
    parse_checkpoint,
    parse_leader_epoch_checkpoint,
    parse_offset_checkpoint,
    parse_partition_metadata,
    read_offset,
    read_topic_id,
    write_offset,
)
from segstore.log.files.clean_shutdown_marker import CleanShutdownMarker
from segstore.types import EpochEntry, TopicPartition

ORDERS = TopicPartition("orders", 0)
EPOCHS = st.builds(EpochEntry, st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1))


@pytest.fixture
def directory(tmp_path):
    directory = _core.Directory(str(tmp_path))
    yield directory
    directory.close()


# ---- checkpoints ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"0",
        b"0\n",
        b"0\n0\n",
        b"0\n0",
        b"0\r\n0\r\n",
        b"0\r0\r",
        b"-0\n+0\n",
    ],
)
def test_files_without_entries(data):
    """[format.md 15.1] Empty, or only the version; any line end."""
    assert parse_checkpoint(data, 3, "x") == []


@pytest.mark.parametrize(
    "entry", [b"a 0 7", b"a  0\t7", b"a 0 7 ", b"a 0 7\t\t", b"a 0 007", b"a 00 +7"]
)
def test_blanks_between_and_behind_fields(entry):
    """[format.md 15.1]"""
    assert parse_offset_checkpoint(b"0\n1\n%s\n" % entry) == {TopicPartition("a", 0): 7}


@pytest.mark.parametrize(
    "data",
    [
        b"\n",
        b" 0\n0\n",
        b"0 \n0\n",
        b"1\n0\n",
        b"x\n0\n",
        b"0\n\n",
        b"0\n1\n",
        b"0\n0\na 0 7\n",
        b"0\n2\na 0 7\n",
        b"0\n-1\n",
        b"0\n1\n\n",
        b"0\n1\na 0\n",
        b"0\n1\na 0 7 8\n",
        b"0\n1\n a 0 7\n",
        b"0\n1\na 0 x\n",
        b"0\n1\na x 7\n",
        b"0\n1\na 0 9223372036854775808\n",
        b"0\n1\na 2147483648 7\n",
        b"0\n1\na 0 \xd9\xa7\n",  # a digit of another script
        b"0\n1\na 0 1_000\n",
        b"0\n1\na 0 \xff\n",
        b"99999999999999999999999999\n",
        b"0\n1\n" + b"a" * 600 + b" 0 7\n",
        b"\0" * 4096,
    ],
)
def test_malformed_files_are_refused_by_name_and_line(data):
    """[DUR-97] ASCII digits and one sign, exact counts, bounded lines."""
    with pytest.raises(CorruptCheckpointError) as caught:
        parse_offset_checkpoint(data, "some-checkpoint")
    assert caught.value.file == "some-checkpoint"
    assert len(str(caught.value)) < 500


@given(st.binary(max_size=200))
def test_no_bytes_make_a_reader_fail_otherwise(data):
    """[DUR-97, DUR-103] Whatever a checkpoint holds, it is read or refused."""
    for parse in (parse_offset_checkpoint, parse_leader_epoch_checkpoint, parse_partition_metadata):
        try:
            parse(data)
        except CorruptCheckpointError:
            continue
    assert CleanShutdownMarker.parse(data) is None
    LogState.parse(data)


@given(st.lists(EPOCHS, max_size=20))
def test_epochs_written_are_read(entries):
    """[EPC-11, EPC-12]"""
    assert parse_leader_epoch_checkpoint(format_leader_epoch_checkpoint(entries)) == entries


@given(
    st.dictionaries(
        st.builds(
            TopicPartition,
            st.text("abc._-XYZ019", min_size=1, max_size=249),
            st.integers(0, 2**31 - 1),
        ),
        st.integers(-(2**63), 2**63 - 1),
        max_size=20,
    )
)
def test_offsets_written_are_read(offsets):
    """[format.md 15.1] The longest topic, partition and offset fit a line."""
    assert parse_offset_checkpoint(format_offset_checkpoint(offsets)) == offsets


def test_of_two_lines_for_a_partition_the_last_wins():
    """[format.md 15.1]"""
    assert parse_offset_checkpoint(b"0\n2\norders 0 7\norders 0 5\n") == {ORDERS: 5}


@pytest.mark.parametrize("data", [b"0\n1\norders 0 6", b"0\n1\norders", b"0\n0", b"0"])
def test_offsets_without_the_last_newline_are_cut(directory, data):
    """[DUR-21] Of 60 in the last line 6 was left, and was the recovery point. Kafka believes it."""
    directory.create_file("c", data, FileBarrier.CLEAN_MARKER)
    with pytest.raises(CorruptCheckpointError, match="is cut short"):
        read_offset(directory, "c", ORDERS)


def test_one_partition_is_read_from_a_checkpoint_of_many(directory):
    """[DUR-65] Missing file and missing line are None; a negative offset is refused."""
    assert read_offset(directory, "c", ORDERS) is None
    directory.create_file("c", b"0\n2\nother 0 7\norders 1 9\n", FileBarrier.CLEAN_MARKER)
    assert read_offset(directory, "c", ORDERS) is None

    write_offset(directory, "c", ORDERS, 11)

    assert read_offset(directory, "c", ORDERS) == 11
    assert "c.tmp" not in directory.names()
    write_offset(directory, "c", ORDERS, -1)
    with pytest.raises(CorruptCheckpointError, match="-1"):
        read_offset(directory, "c", ORDERS)


def test_a_file_that_is_too_large_is_not_read(directory, tmp_path):
    """[DUR-97] 64 MiB; nothing is allocated for a claimed size."""
    with (tmp_path / "c").open("wb") as file:
        file.truncate(64 * 1024 * 1024 + 1)

    with pytest.raises(SegstoreError, match="too large"):
        read_offset(directory, "c", ORDERS)


# ---- partition.metadata --------------------------------------------------------------------------


def test_the_topic_id_of_a_partition(directory):
    """[UNI-5, DUR-23]"""
    topic_id = uuid.UUID(int=0x9750B59B2A27D8F069491A516AFDBB7C)
    assert read_topic_id(directory) is None

    directory.create_file(
        "partition.metadata",
        b"version: 0\ntopic_id: l1C1myon2PBpSRpRav27fA\nmore",
        FileBarrier.CLEAN_MARKER,
    )

    assert read_topic_id(directory) == topic_id


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"version: 0",
        b"version:0\ntopic_id: l1C1myon2PBpSRpRav27fA",
        b"version: 0\ntopic_id: KBlBCaYDkxS9m/poViIy1w",  # not of the alphabet for file names
        b"version: 0\ntopic_id: l1C1myon2PBpSRpRav27fA=",
        b"version: -1\ntopic_id: l1C1myon2PBpSRpRav27fA",
        b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA",
        b"version: 0\ntopic_id: l1C1",
        b"version: 0\ntopic_id: not*base64*at*all*!!!!",
    ],
)
def test_malformed_metadata_is_refused(data):
    """[format.md 15.2]"""
    with pytest.raises(CorruptCheckpointError):
        parse_partition_metadata(data)


# ---- clean marker and .segstore ------------------------------------------------------------------


@pytest.mark.parametrize("latest_epoch", [None, EpochEntry(3, 17)])
def test_a_clean_marker_says_how_the_log_ended(latest_epoch):
    """[DUR-24] JSON with Kafka's version, so that a broker takes it for its own."""
    marker = CleanShutdownMarker(60, 47, 1664, latest_epoch, log_start_offset=12)

    assert CleanShutdownMarker.parse(marker.format()) == marker
    assert json.loads(marker.format())["version"] == 0


@pytest.mark.parametrize(
    "data", [b"", b"{}", b'{"version":0,"brokerEpoch":-1}', b"[" * 100_000, b"\xff", b"null"]
)
def test_what_is_no_marker_of_ours_is_none(data):
    """[DUR-51] Then the stop does not count as clean."""
    assert CleanShutdownMarker.parse(data) is None


@pytest.mark.parametrize("latest_epoch", [None, EpochEntry(3, 17)])
def test_the_state_file_round_trips(latest_epoch):
    """[DUR-64]"""
    for generation in (0, 7):
        state = LogState(5, 9, latest_epoch, generation=generation)

        assert LogState.parse(state.format()) == state


def test_what_earlier_versions_noted_of_transaction_indexes_is_read_over():
    """[DUR-8, DUR-64] Size and checksum, size alone, and that one is damaged."""
    state = LogState(5, 9, None)
    noted = b"transaction_index 0 68 7\ntransaction_index 9 34\ntransaction_index 20 -1\n"
    text, _, _ = state.format().rpartition(b"crc ")

    assert LogState.parse(text + noted + b"crc %d\n" % crc32c(text + noted)) == state
    assert LogState.parse(text + noted) == state  # of a still older version
    assert LogState.parse(state.format() + noted) is None


@pytest.mark.parametrize("latest_epoch", [None, EpochEntry(0, 0)])
def test_no_flipped_bit_of_a_state_file_goes_unnoticed(latest_epoch):
    """[DUR-7, DUR-64] Some made it a broker's log: a segment that was lost then was no loss."""
    data = LogState(0, 0, latest_epoch, (None,)).format()
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        assert LogState.parse(bytes(flipped)) is None, bytes(flipped)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"version 1\ncontiguous_from 0\nepochs_ordered_from 0\n",
        b"version 0\ncontiguous_from 0\n",
        b"version 0\ncontiguous_from\nepochs_ordered_from 0\n",
        b"version 0\ncontiguous_from 0 1\nepochs_ordered_from 0\n",
        b"version 0\ncontiguous_from x\nepochs_ordered_from 0\n",
        b"version 0\ncontiguous_from 0\nepochs_ordered_from 0\nlatest_epoch 1\n",
        b"\xff\xfe",
    ],
)
def test_a_state_file_that_says_nothing_usable_is_none(data):
    """[DUR-64] Derived, never guessed: without it fewer things are known."""
    assert LogState.parse(data) is None


@pytest.mark.parametrize(
    ("entries", "end", "may_be_left"),
    [
        ([(1, 0), (3, 4), (5, 9)], 12, True),
        ([(1, 0), (3, 7)], 9, True),  # what lay between is gone
        ([(5, 11)], 12, True),
        ([], 9, True),
        ([(1, 0), (3, 4), (6, 9)], 12, False),  # a later epoch
        ([(1, 0), (3, 4)], 10, False),  # an earlier one where the latest had begun
        ([], 10, False),
        ([(3, 9), (5, 11)], 12, False),
        ([(3, 4), (5, 8)], 12, False),  # the latest one begins before it began
    ],
)
def test_what_may_be_left_of_a_log(entries, end, may_be_left):
    """[DUR-64] Lost batches, not written ones, are why its epochs are others."""
    state = LogState(0, 0, EpochEntry(5, 9))
    assert state.may_have_left([EpochEntry(*entry) for entry in entries], 0, end) == may_be_left
    without = LogState(0, 0, None)
    assert without.may_have_left([EpochEntry(*entry) for entry in entries], 0, end) == (not entries)
    either = LogState(0, 0, EpochEntry(2, 3), (EpochEntry(5, 9),))  # a truncation begins
    assert either.may_have_left([EpochEntry(*entry) for entry in entries], 0, end) == may_be_left
    moved = state.may_have_left([EpochEntry(*entry) for entry in entries], 9, end)
    begins_below = entries == [(3, 4), (5, 8)]  # which a deletion has moved
    assert moved == (may_be_left or begins_below)
