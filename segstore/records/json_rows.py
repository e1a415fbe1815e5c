"""Columns as JSON text: a value for each cell, an object for each row.

The texts are made column by column, without a Python object for each cell.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from segstore.errors import IllegalArgumentError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

_MUST_BE_ESCAPED: Final = r'["\\\x00-\x1f]'
_CONTROL: Final = r"[\x00-\x1f]"
_HOW: Final = (
    "null, bool, integers, floats, decimals, text, dates, times, timestamps, and lists and structs"
    " of these"
)
_HINTS: Final = {
    "binary": "make it text first, as by decoding UTF-8 or base64",
    "duration": "make it a number first",
    "interval": "make it a number first",
    "map": "make it a list of structs first",
}


def check_json_type(name: str, kind: pa.DataType) -> None:
    """Refuse a type that JSON has no text for; *name* is that of the column.

    Raises
    ------
    IllegalArgumentError
        Naming the column, the type and what to do.
    """
    from pyarrow import types

    if types.is_dictionary(kind):
        check_json_type(name, kind.value_type)
    elif types.is_struct(kind):
        for field in kind:
            check_json_type(f"{name}.{field.name}", field.type)
    elif _is_list(kind):
        check_json_type(f"{name}[]", kind.value_type)
    elif not (
        types.is_null(kind)
        or types.is_boolean(kind)
        or types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_decimal(kind)
        or _is_text(kind)
        or types.is_date(kind)
        or types.is_time(kind)
        or types.is_timestamp(kind)
    ):
        hint = next((hint for word, hint in _HINTS.items() if word in str(kind)), "leave it out")
        raise IllegalArgumentError(
            f"column {name} has the Arrow type {kind}, which JSON has no text for: {hint}",
            found=str(kind),
            expected=_HOW,
        )


def json_objects(columns: Mapping[str, pa.Array], rows: int, first_row: int = 0) -> pa.Array:
    """Return a JSON object for each row, as large_string: ``{"city":"Rome","age":7}``.

    Parameters
    ----------
    columns : mapping of str to Array
        In the order of the object's fields; of types that `check_json_type` takes.
    rows : int
        Length of each column.
    first_row : int
        The number of the first row, for errors.

    Raises
    ------
    IllegalArgumentError
        A float is NaN or infinite, naming column and row.
    """
    return _object(columns, rows, first_row, "")


def _object(
    columns: Mapping[str, pa.Array], rows: int, first_row: int | None, inside: str
) -> pa.Array:
    """Return the objects of *columns*; *inside* is put before their names in errors."""
    import pyarrow as pa

    if not columns:
        return pa.repeat(pa.scalar("{}", pa.large_string()), rows)
    parts: list[Any] = []
    for name, column in columns.items():
        before = "," if parts else "{"
        field = json.dumps(name, ensure_ascii=False)
        parts += [f"{before}{field}:", _values(column, first_row, inside + name)]
    return _joined(*parts, "}")


def _values(column: pa.Array, first_row: int | None, name: str) -> pa.Array:
    """Return a JSON text for each cell, ``null`` where there is none."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import types

    kind = column.type
    if types.is_dictionary(kind):
        return _values(column.dictionary_decode(), first_row, name)
    if types.is_struct(kind):
        cells = zip(kind, column.flatten(), strict=True)  # pyarrow puts the nulls of a struct there
        fields = {field.name: cell for field, cell in cells}
        text = _object(fields, len(column), first_row, f"{name}.")
    elif _is_list(kind):
        text = _list(column, name)
    elif types.is_floating(kind):
        text = _float(column, first_row, name)
    elif _is_text(kind):
        text = _joined('"', _escaped(column.cast(pa.large_string())), '"')
    elif types.is_timestamp(kind):
        in_utc = column.cast(pa.timestamp(kind.unit)).cast(pa.large_string())
        end = '"' if kind.tz is None else 'Z"'
        text = _joined('"', pc.replace_substring(in_utc, " ", "T"), end)
    elif types.is_date(kind) or types.is_time(kind):
        text = _joined('"', column.cast(pa.large_string()), '"')
    else:
        text = column.cast(pa.large_string())
    return pc.if_else(column.is_valid(), text, pa.scalar("null", pa.large_string()))


def _list(column: pa.Array, name: str) -> pa.Array:
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    ends = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
    elements = _values(column.flatten(), None, f"{name}[]")
    lists = pa.LargeListArray.from_arrays(pa.array(ends), elements)
    return _joined("[", pc.binary_join(lists, pa.scalar(",", pa.large_string())), "]")


def _float(column: pa.Array, first_row: int | None, name: str) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    column = column.cast(pa.float32()) if pa.types.is_float16(column.type) else column
    place = pc.index(pc.is_finite(column), value=False).as_py()
    if place >= 0:
        where = "" if first_row is None else f"row {first_row + place}: "
        found = str(column[place].as_py())
        raise IllegalArgumentError(
            f"{where}column {name} holds {found}, which JSON has no number for: make it null first",
            found=found,
            expected="a finite number, or null",
        )
    text = column.cast(pa.large_string())
    return pc.replace_substring_regex(text, r"^(-?\d+)$", r"\1.0")  # else it is read as an integer


def _escaped(text: pa.Array) -> pa.Array:
    """Return what stands between the quotation marks of JSON."""
    import pyarrow.compute as pc

    if not pc.any(pc.match_substring_regex(text, _MUST_BE_ESCAPED)).as_py():
        return text
    text = pc.replace_substring(pc.replace_substring(text, "\\", r"\\"), '"', r"\"")
    if pc.any(pc.match_substring_regex(text, _CONTROL)).as_py():
        for number in range(0x20):
            text = pc.replace_substring(text, chr(number), json.dumps(chr(number))[1:-1])
    return text


def _joined(*parts: Any) -> pa.Array:
    """Join texts and columns of texts row by row; null where one of them is."""
    import pyarrow as pa
    import pyarrow.compute as pc

    text = pa.large_string()
    columns = [pa.scalar(part, text) if isinstance(part, str) else part for part in parts]
    return pc.binary_join_element_wise(*columns, pa.scalar("", text))


def _is_text(kind: pa.DataType) -> bool:
    from pyarrow import types

    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _is_list(kind: pa.DataType) -> bool:
    from pyarrow import types

    return bool(
        types.is_list(kind)
        or types.is_large_list(kind)
        or types.is_fixed_size_list(kind)
        or types.is_list_view(kind)
        or types.is_large_list_view(kind)
    )
