"""Numbers and bytes between Arrow and NumPy are what pyarrow's own conversions give."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from segstore.errors import LimitExceededError
from segstore.records import arrow_numpy
from segstore.records.arrow_numpy import array_of_bytes, array_of_numbers, numbers_of

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


@pytest.mark.parametrize("kind", INTEGERS)
def test_numbers_come_and_go(kind: str):
    values = np.array([0, 1, 127, 5], kind)
    column = array_of_numbers(values)
    assert column.equals(pa.array(values))
    for part in (column, column[1:3], column[4:], array_of_numbers(values[::2])):
        found = numbers_of(part)
        assert (found.dtype, found.tolist()) == (kind, part.to_pylist())


def test_timestamps_are_numbers_of_their_unit():
    column = pa.array([5, -1, 7], pa.timestamp("ms", "UTC"))[1:]
    assert numbers_of(column).tolist() == [-1, 7]


@pytest.mark.parametrize("column", [pa.array([1, None]), pa.array([1.5]), pa.array(["1"])])
def test_what_is_no_number(column: pa.Array):
    with pytest.raises(TypeError, match=f"a column of {column.type} with"):
        numbers_of(column)


@pytest.mark.parametrize("values", [[], [None], [b""], [b"ab", None, b"", b"c" * 300] * 5])
def test_bytes(values: list[bytes | None]):
    column = array_of_bytes(values)
    column.validate(full=True)
    assert column.equals(pa.array(values, pa.binary()))


def test_more_bytes_than_offsets_can_tell_are_refused(monkeypatch: pytest.MonkeyPatch):
    """The offsets of a column have 32 bits: they wrapped."""
    monkeypatch.setattr(arrow_numpy, "MAX_INT", 9)
    assert array_of_bytes([b"x" * 5, None, b"x" * 4]).to_pylist() == [b"x" * 5, None, b"x" * 4]
    with pytest.raises(LimitExceededError, match="10 bytes"):
        array_of_bytes([b"x" * 5, b"x" * 5])
