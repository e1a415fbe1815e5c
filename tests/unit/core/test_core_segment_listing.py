"""A partition directory sorted into segments, and segments whose files are opened at first use."""

from __future__ import annotations

from array import array

import pytest

from segstore._core import Directory, SegmentContext, SegmentListing, open_segments
from segstore.errors import (
    ArgumentTypeError,
    ClosedError,
    IllegalArgumentError,
    LogNotFoundError,
    NotALogError,
)
from segstore.log.files.partition_directory import file_name
from segstore.log.local.segment import Segment
from segstore.records.compression import codec_table


@pytest.fixture
def directory(tmp_path):
    for base in (40, 3, 500):
        (tmp_path / file_name(base, "log")).write_bytes(bytes(base))
    (tmp_path / file_name(40, "index")).touch()
    (tmp_path / file_name(41, "index")).touch()
    (tmp_path / file_name(40, "snapshot")).touch()
    (tmp_path / "leader-epoch-checkpoint").touch()
    (tmp_path / "caf\udce9").touch()
    return Directory(str(tmp_path))


@pytest.fixture
def context(directory):
    return SegmentContext(directory, codec_table(), writable=True)


def test_a_listing_is_by_kind_and_says_what_is_missing(directory):
    """[DUR-51, DUR-98]"""
    listing = directory.segment_listing()

    assert list(listing.base_offsets("log")) == [3, 40, 500]
    assert list(listing.base_offsets("log", lacking="index")) == [3, 500]
    assert list(listing.base_offsets("index", lacking="log")) == [41]
    assert list(listing.base_offsets("txnindex")) == []
    assert sorted(listing.others) == ["caf\udce9", "leader-epoch-checkpoint"]
    assert directory.has_segments()


def test_names_that_come_from_elsewhere_are_sorted_too(tmp_path):
    listing = SegmentListing([file_name(9, "log"), "x", file_name(2, "log")])

    assert list(listing.base_offsets("log")) == [2, 9]
    assert listing.others == ["x"]
    assert list(SegmentListing().base_offsets("log")) == []
    assert not Directory(str(tmp_path)).has_segments()


def test_a_kind_that_does_not_exist_is_refused(directory):
    with pytest.raises(IllegalArgumentError, match="no kind 'swap'"):
        directory.segment_listing().base_offsets("swap")


def test_a_closed_directory_lists_nothing(directory):
    directory.close()
    with pytest.raises(ClosedError):
        directory.segment_listing()
    with pytest.raises(ClosedError):
        directory.has_segments()


def test_segments_know_their_sizes_and_open_nothing(directory, context):
    """[LZY-1, P16]"""
    segments = open_segments(Segment, context, array("q", [3, 40, 500]))

    assert [type(segment) for segment in segments] == [Segment] * 3
    assert [segment.base_offset for segment in segments] == [3, 40, 500]
    assert [segment.size_bytes for segment in segments] == [3, 40, 500]
    for segment in segments:
        segment.close()  # touches nothing: what was there is there, and no more
        with pytest.raises(ClosedError):
            _ = segment.size_bytes
    assert file_name(3, "index") not in directory.names()


def test_a_file_that_went_since_it_was_listed_is_left_out(directory, context):
    listing = directory.segment_listing()
    directory.unlink(file_name(40, "log"))

    segments = open_segments(Segment, context, listing.base_offsets("log"))
    assert [segment.base_offset for segment in segments] == [3, 500]
    directory.unlink(file_name(500, "log"))
    with pytest.raises(LogNotFoundError):
        segments[1].read_next_offset()


def test_what_is_no_regular_file_is_named(directory, context, tmp_path):
    """[DUR-97, DUR-99]"""
    (tmp_path / file_name(7, "log")).mkdir()
    with pytest.raises(NotALogError, match=file_name(7, "log")):
        open_segments(Segment, context, directory.segment_listing().base_offsets("log"))


def test_base_offsets_are_signed_64_bit_numbers(context):
    with pytest.raises(ArgumentTypeError):
        open_segments(Segment, context, array("i", [3]))
    with pytest.raises(IllegalArgumentError):
        open_segments(Segment, context, array("q", [-3]))
