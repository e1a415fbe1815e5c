"""Where chunks lie, and what is refused before memory is taken for it."""

from __future__ import annotations

import struct
import tracemalloc

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from segstore.errors import (
    CodecError,
    CorruptCheckpointError,
    CorruptLogError,
    LimitExceededError,
    SegstoreError,
)
from segstore.remote.tiered.chunk_index import fixed_chunk_index, variable_chunk_index
from tests.kits.tiered_writer import chunk_sizes_block

SIZES = st.lists(st.integers(1, 2**31 - 1), min_size=1, max_size=20)


def ranges(chunks):
    return [(chunk.stored_position, chunk.stored_position + chunk.stored_bytes) for chunk in chunks]


def test_a_range_needs_its_own_chunks():
    """[RDB-1] [MAN-3] The first and the last byte of a chunk, and what lies outside."""
    index = fixed_chunk_index(10, 25, 38, 33, overhead_bytes=28)

    assert index.chunk_count == 3
    assert index.stored_file_size == 38 + 38 + 33
    assert [chunk.plain_bytes for chunk in index.chunks(0, 25)] == [10, 10, 5]
    assert ranges(index.chunks(9, 10)) == [(0, 38)]
    assert ranges(index.chunks(10, 11)) == [(38, 76)]
    assert ranges(index.chunks(9, 11)) == [(0, 38), (38, 76)]
    assert ranges(index.chunks(24, 99)) == [(76, 109)]
    assert list(index.chunks(25, 99)) == list(index.chunks(7, 7)) == list(index.chunks(9, 3)) == []
    assert ranges(index.chunks(-5, 1)) == [(0, 38)]


@given(sizes=SIZES, chunk_size=st.integers(1, 1000), data=st.data())
def test_a_variable_index_gives_the_sizes_that_were_written(sizes, chunk_size, data):
    """[MAN-4] [MAN-5] Every width, and one that is larger than needed."""
    file_size = data.draw(st.integers((len(sizes) - 1) * chunk_size + 1, len(sizes) * chunk_size))
    width = data.draw(st.sampled_from([0, 4]))
    block = zstandard.compress(chunk_sizes_block(sizes, width))
    index = variable_chunk_index(chunk_size, file_size, block)
    chunks = list(index.chunks(0, file_size))

    assert [chunk.stored_bytes for chunk in chunks] == sizes
    assert [chunk.number for chunk in chunks] == list(range(len(sizes)))
    assert sum(chunk.plain_bytes for chunk in chunks) == file_size
    assert index.stored_file_size == sum(sizes)


def test_an_empty_segment_has_no_chunks():
    """[MAN-4] n = 0: nothing follows."""
    assert variable_chunk_index(10, 0, zstandard.compress(bytes(4))).chunk_count == 0
    assert fixed_chunk_index(10, 0, 10, 0, overhead_bytes=0).stored_file_size == 0


def test_a_fixed_index_of_two_thousand_million_chunks_takes_no_memory():
    """[MAN-3] Such a claim is compared with the object's size later."""
    index = fixed_chunk_index(1, 2**31 - 1, 29, 29, overhead_bytes=28)

    assert index.chunk_count == 2**31 - 1
    assert index.chunk(2**31 - 2).stored_position == 29 * (2**31 - 2)


@pytest.mark.parametrize(
    "sizes",
    [
        (0, 25, 10, 5, 0),
        (-1, 25, 10, 5, 0),
        (2**30, 25, 2**30, 25, 0),
        (10, -1, 10, 5, 0),
        (10, 2**31, 10, 8, 0),
        (10, 25, 9, 5, 0),
        (10, 25, 10, 6, 0),
        (10, 25, 10, 5, 28),
        (10, 25, 38, 33, 0),
    ],
)
def test_fixed_sizes_that_contradict_each_other_are_refused(sizes):
    """[MAN-3] [MAN-6] [ENC-3]."""
    *four, overhead = sizes
    with pytest.raises(CorruptCheckpointError, match=r"chunkIndex\.\w+ does not fit"):
        fixed_chunk_index(*four, overhead_bytes=overhead)


GOOD = chunk_sizes_block([20, 30, 5])


@pytest.mark.parametrize(
    ("block", "position"),
    [
        (b"", None),
        (GOOD[:3], None),
        (GOOD[:8], None),
        (GOOD[:-1], None),
        (GOOD + b"\0", None),
        (struct.pack(">i", -1), None),
        (struct.pack(">i", 2**31 - 1), None),
        (chunk_sizes_block([20, 30]), None),
        (GOOD[:8] + b"\0" + GOOD[9:], 8),
        (GOOD[:8] + b"\5" + GOOD[9:], 8),
        (GOOD[:-4] + struct.pack(">i", 0), 11),
        (GOOD[:-4] + struct.pack(">i", -5), 11),
        (struct.pack(">iiB", 3, -21, 1) + bytes([0, 30]) + GOOD[-4:], 9),
        (struct.pack(">iiB", 3, 2**31 - 1, 1) + bytes([0, 1]) + GOOD[-4:], 10),
    ],
)
def test_a_block_that_does_not_fit_is_refused(block, position):
    """[MAN-4] [MAN-5] Cut, too long, of another count, with sizes that cannot be."""
    with pytest.raises(CorruptCheckpointError) as raised:
        variable_chunk_index(10, 25, zstandard.compress(block))
    assert raised.value.position == position


def test_a_block_that_is_too_large_is_refused_by_its_header():
    """[MAN-4] At most 10 MiB; a bomb of zeros is not unpacked."""
    bomb = zstandard.compress(bytes(11 * 1024 * 1024))

    assert len(bomb) < 2000
    with pytest.raises(LimitExceededError, match="at most 10485760 bytes"):
        variable_chunk_index(10, 25, bomb)


def test_more_chunks_than_the_object_can_hold_take_no_memory():
    """[MAN-5] [ENC-3] A small manifest may claim millions; the listing has the size of ``.log``."""
    count = 400_000
    block = struct.pack(">iiB", count, 40, 1) + bytes(count - 1) + struct.pack(">i", 40)
    frame = zstandard.compress(block)
    assert len(frame) < 1000

    tracemalloc.start()
    with pytest.raises(CorruptLogError, match="found 1000 bytes, expected 400000 chunks"):
        variable_chunk_index(10, 10 * count, frame, log_bytes=1000)
    refused = tracemalloc.get_traced_memory()[1]
    with pytest.raises(CorruptLogError, match="400000 chunks"):
        variable_chunk_index(10, 10 * count, frame, overhead_bytes=28, log_bytes=36 * count)
    tracemalloc.reset_peak()
    index = variable_chunk_index(10, 10 * count, frame, log_bytes=40 * count)
    size, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert index.stored_file_size == 40 * count
    assert index.chunk(count - 1).stored_position == 40 * (count - 1)
    assert refused < 100_000
    assert size < 9 * count
    assert peak < 40 * count


@pytest.mark.parametrize("frames", [b"", b"no frame", zstandard.compress(GOOD) * 2])
def test_a_block_is_one_zstd_frame(frames):
    """[MAN-4]."""
    with pytest.raises(CodecError):
        variable_chunk_index(10, 25, frames)


@given(st.integers(), st.integers(), st.binary(max_size=60))
def test_any_numbers_and_bytes_are_an_index_or_an_error_of_ours(chunk_size, file_size, block):
    """[MAN-4] And what is an index fits the sizes that were given."""
    try:
        index = variable_chunk_index(chunk_size, file_size, zstandard.compress(block))
    except SegstoreError:
        return
    assert sum(chunk.plain_bytes for chunk in index.chunks(0, file_size)) == file_size
