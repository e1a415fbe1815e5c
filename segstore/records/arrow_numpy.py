"""Numbers and bytes between Arrow and NumPy, without pandas.

pyarrow's own conversions import pandas where it is installed, to ask whether they were given
something of it. That takes a second, in whichever thread asks first; and Ctrl-C in the middle of
that import ends in an ``AttributeError`` or a ``SystemError``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segstore.errors import LimitExceededError
from segstore.number_limits import MAX_INT
from segstore.numpy_on_demand import np

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from numpy.typing import NDArray


def numbers_of(column: pa.Array) -> NDArray[Any]:
    """Return the whole numbers of *column*; they are not copied.

    Parameters
    ----------
    column : Array
        Of signed or unsigned integers, or of timestamps, without nulls.

    Returns
    -------
    array of the same width, shape (rows,)
        Timestamps as int64, in their unit.

    Raises
    ------
    TypeError
        The column is of another type, or has nulls.
    """
    import pyarrow as pa

    kind = column.type
    if column.null_count or not (pa.types.is_integer(kind) or pa.types.is_timestamp(kind)):
        raise TypeError(
            f"a column of {kind} with {column.null_count} nulls, expected whole numbers without"
        )
    width = kind.bit_width // 8
    sign = "u" if pa.types.is_unsigned_integer(kind) else "i"
    first = column.offset * width
    return np.ndarray(len(column), f"{sign}{width}", column.buffers()[1], first)


def array_of_numbers(values: NDArray[Any]) -> pa.Array:
    """Return an array over *values*, shape (rows,), which are not copied if they are contiguous."""
    import pyarrow as pa

    content = np.ascontiguousarray(values)
    buffers = [None, pa.py_buffer(content)]
    return pa.Array.from_buffers(pa.from_numpy_dtype(content.dtype), len(content), buffers)


def array_of_bytes(values: Sequence[bytes | None]) -> pa.Array:
    """Return an array of type binary.

    Raises
    ------
    LimitExceededError
        Together the values have 2 GiB or more: the offsets of the array have 32 bits.
    """
    import pyarrow as pa

    ends = np.zeros(len(values) + 1, np.int64)
    np.cumsum([0 if one is None else len(one) for one in values], out=ends[1:])
    if ends[-1] > MAX_INT:
        raise LimitExceededError(
            "the values are too many for a column of bytes",
            found=f"{ends[-1]} bytes",
            expected=f"at most {MAX_INT} bytes",
        )
    offsets = ends.astype(np.int32)
    validity = np.packbits(np.array([one is not None for one in values], bool), bitorder="little")
    content = b"".join(one for one in values if one is not None)
    buffers = [pa.py_buffer(one) for one in (validity, offsets, content)]
    return pa.Array.from_buffers(pa.binary(), len(values), buffers)
