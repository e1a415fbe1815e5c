"""A checksum sidecar may hold any bytes: none of them calls a good segment damaged [DUR-60]."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segstore._core import crc32c
from segstore.errors import CorruptCheckpointError
from segstore.log.files.checksum_sidecar import (
    BLOCK_BYTES,
    ChecksumSidecar,
    sidecar_base_offset,
    sidecar_name,
)
from tests.fuzz.mutations import anything_like, outcome

MAX_MESSAGE = 700

sizes = st.integers(1, 4 * BLOCK_BYTES)
sidecars = sizes.flatmap(
    lambda size: st.builds(
        ChecksumSidecar,
        st.just(7),
        st.just(size),
        st.integers(7, 2**63 - 1),
        st.tuples(*[st.integers(0, 2**32 - 1)] * -(-size // BLOCK_BYTES)),
    )
)


@given(sidecars)
def test_sidecars_written_are_read(sidecar: ChecksumSidecar):
    """[DUR-60]"""
    assert ChecksumSidecar.parse(sidecar.format(), 7) == sidecar


@given(sidecars.map(lambda sidecar: sidecar.format()), st.data())
def test_a_sidecar_with_any_bit_changed_is_refused(data: bytes, draw: st.DataObject):
    """[DUR-60] So that it calls no good segment damaged."""
    bit = draw.draw(st.integers(0, len(data) * 8 - 1))
    other = bytearray(data)
    other[bit // 8] ^= 1 << bit % 8
    with pytest.raises(CorruptCheckpointError):
        ChecksumSidecar.parse(bytes(other), 7)


def with_right_checksum(data: bytes) -> bytes:
    """As ill will makes it: the last four bytes fit the rest."""
    return data[:-4] + struct.pack(">I", crc32c(data[:-4])) if len(data) >= 4 else data


@given(anything_like(sidecars.map(lambda sidecar: sidecar.format())), st.booleans())
def test_hostile_sidecars(data: bytes, fits: bool):  # noqa: FBT001 - drawn
    """[DUR-85, DUR-97, DUR-105] File, position, what was found and what was expected."""
    if fits:
        data = with_right_checksum(data)
    sidecar, error = outcome(lambda: ChecksumSidecar.parse(data, 7), CorruptCheckpointError)
    if error is None:
        assert sidecar.format() == data
        return
    assert error.file == sidecar_name(7)
    assert 0 <= error.position <= len(data)
    assert error.found
    assert error.expected
    assert len(str(error)) < MAX_MESSAGE


def test_a_size_that_only_claims_is_no_memory():
    """[DUR-102] 2 GiB say 32768 checksums; there are none."""
    data = ChecksumSidecar(7, 2**31 - 1, 8, ()).format()
    with pytest.raises(CorruptCheckpointError) as raised:
        ChecksumSidecar.parse(data, 7)
    assert raised.value.found == f"{len(data)} bytes"


@given(st.text(max_size=40) | st.from_regex(r"[0-9]{19,21}\.segsum(\.tmp)?\n?"))
def test_names_of_sidecars(name: str):
    """[DUR-98]"""
    base_offset = sidecar_base_offset(name)
    assert base_offset is None or (sidecar_name(base_offset) == name and base_offset < 2**63)
