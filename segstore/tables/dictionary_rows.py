"""Rows of a file whose values come again: as few at a time as their values have room for.

Parquet has a value once for each page of a dictionary, however many rows have it. So the size of a
file says nothing of the memory that its rows take.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segstore.numpy_on_demand import np
from segstore.records.arrow_numpy import numbers_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    import pyarrow.parquet as pq
    from numpy.typing import NDArray


def columns_with_dictionaries(metadata: pq.FileMetaData, roots: frozenset[str]) -> list[str]:
    """Return the paths of columns of bytes, below *roots*, that have a dictionary somewhere."""
    found = {}
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for index in range(group.num_columns):
            column = group.column(index)
            path = column.path_in_schema
            if (
                column.has_dictionary_page
                and column.physical_type == "BYTE_ARRAY"
                and path.partition(".")[0] in roots
            ):
                found[path] = True
    return [*found]


def with_values(batch: pa.RecordBatch, max_bytes: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of *batch* with values instead of dictionaries, so many bytes at a time.

    Parameters
    ----------
    batch : RecordBatch
        Dictionaries are in columns, or in the fields of a list of structs.
    max_bytes : int
        Of the values that were in a dictionary. One row alone may have more.

    Raises
    ------
    ArrowInvalid
        A value is not in its dictionary.
    """
    sizes = sum((_value_bytes(column) for column in batch.columns), np.zeros(len(batch), np.int64))
    ends = np.cumsum(sizes)
    first = 0
    while first < len(ends):
        limit = ends[first] - sizes[first] + max_bytes
        behind = max(first + 1, int(np.searchsorted(ends, limit, "right")))
        yield _decoded(batch.slice(first, behind - first))
        first = behind


def _numbers_but_for_nulls(column: pa.Array) -> Any:
    """Return whole numbers, and anything where there is none; pyarrow's scalars ask for pandas."""
    import pyarrow as pa

    buffers = [None, column.buffers()[1]]
    return numbers_of(pa.Array.from_buffers(column.type, len(column), buffers, 0, column.offset))


def _value_bytes(column: pa.Array) -> Any:
    """Return the bytes that each row has in a dictionary, shape (rows,); 0 = there is none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(column.type):
        lengths = numbers_of(pc.binary_length(column.dictionary)).astype(np.int64)
        is_valid = _is_valid(column.indices)
        indices = _numbers_but_for_nulls(column.indices)
        is_there = (indices >= 0) & (indices < len(lengths))
        if not is_there[is_valid].all():
            raise pa.ArrowInvalid("a value is not in its dictionary")
        sizes = np.zeros(len(indices), np.int64)
        sizes[is_valid] = lengths[indices[is_valid]]
        return sizes
    if _is_list_of_structs(column.type):
        elements = column.flatten()
        fields = (elements.field(n) for n in range(elements.type.num_fields))
        sizes = sum(map(_value_bytes, fields), np.zeros(len(elements), np.int64))
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        until = np.cumsum(np.maximum(_lengths(column), 0))
        return np.diff(ends[until], prepend=0)
    return 0


def _decoded(batch: pa.RecordBatch) -> pa.RecordBatch:
    import pyarrow as pa

    columns = [_decoded_column(column) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _decoded_column(column: pa.Array) -> pa.Array:
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        return column.dictionary_decode()
    if not _is_list_of_structs(column.type):
        return column
    elements = column.flatten()
    fields = [_decoded_column(elements.field(n)) for n in range(elements.type.num_fields)]
    kinds = [elements.type.field(n).with_type(one.type) for n, one in enumerate(fields)]
    validity = _bits(_is_valid(elements)) if elements.null_count else None
    pairs = pa.Array.from_buffers(pa.struct(kinds), len(elements), [validity], children=fields)
    lengths = _lengths(column)
    offsets = np.zeros(len(column) + 1, np.int32)
    np.cumsum(np.maximum(lengths, 0), out=offsets[1:])
    kind = pa.list_(column.type.value_field.with_type(pairs.type))
    buffers = [_bits(lengths >= 0), pa.py_buffer(offsets)]
    return pa.Array.from_buffers(kind, len(column), buffers, children=[pairs])


def _is_list_of_structs(kind: pa.DataType) -> bool:
    import pyarrow as pa

    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    return bool(is_list and pa.types.is_struct(kind.value_type))


def _lengths(column: pa.Array) -> NDArray[Any]:
    """Return how many elements each list has; -1 of a null."""
    import pyarrow.compute as pc

    lengths = pc.list_value_length(column)
    return np.where(_is_valid(lengths), _numbers_but_for_nulls(lengths).astype(np.int64), -1)


def _is_valid(column: pa.Array) -> NDArray[np.bool_]:
    import pyarrow as pa
    import pyarrow.compute as pc

    if not column.null_count:
        return np.ones(len(column), bool)
    return numbers_of(pc.cast(column.is_valid(), pa.int8())).astype(bool)


def _bits(is_valid: NDArray[np.bool_]) -> pa.Buffer:
    import pyarrow as pa

    return pa.py_buffer(np.packbits(is_valid, bitorder="little"))
