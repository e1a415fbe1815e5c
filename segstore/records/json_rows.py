"""Columns as JSON text: a value for each cell, an object for each row.

The texts are made column by column, without a Python object for each cell.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from segstore.errors import IllegalArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pyarrow as pa

_MUST_BE_ESCAPED: Final = r'["\\\x00-\x1f]'
_CONTROL: Final = r"[\x00-\x1f]"
_STARTS_AS_A_TIME: Final = r"^(\d{4}-|\d\d:)"
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
        if types.is_nested(kind.value_type):
            raise _no_text_for(name, kind, "decode the dictionary first")
        check_json_type(name, kind.value_type)
    elif types.is_struct(kind):
        _check_names_differ(name, [field.name for field in kind])
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
        raise _no_text_for(name, kind, hint)


def _no_text_for(name: str, kind: pa.DataType, hint: str) -> IllegalArgumentError:
    return IllegalArgumentError(
        f"column {name} has the Arrow type {kind}, which JSON has no text for: {hint}",
        found=str(kind),
        expected=_HOW,
    )


def _check_names_differ(name: str, fields: list[str]) -> None:
    twice = next((field for field in fields if fields.count(field) > 1), None)
    if twice is not None:  # readers of JSON keep one of them
        raise IllegalArgumentError(
            f"column {name} has two fields named {twice}, and one would be lost: rename it first",
            found=repr(twice)[:80],
            expected="different names",
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
        A float is NaN or infinite, a text is no UTF-8, or a time is outside a day or the years 0000
        to 9999, naming column and row.
    """
    return _object(columns, rows, lambda place: first_row + place, "")


def _object(
    columns: Mapping[str, pa.Array], rows: int, row_of: Callable[[int], int], inside: str
) -> pa.Array:
    """Return the objects of *columns*; *inside* is put before their names in errors.

    *row_of* gives the number of the row for the place of a cell.
    """
    import pyarrow as pa

    if not columns:
        return pa.repeat(pa.scalar("{}", pa.large_string()), rows)
    parts: list[Any] = []
    for name, column in columns.items():
        before = "," if parts else "{"
        field = json.dumps(name, ensure_ascii=False)
        parts += [f"{before}{field}:", _values(column, row_of, inside + name)]
    return _joined(*parts, "}")


def _values(column: pa.Array, row_of: Callable[[int], int], name: str) -> pa.Array:
    """Return a JSON text for each cell, ``null`` where there is none."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import types

    kind = column.type
    if types.is_dictionary(kind):
        return _values(_decoded(column), row_of, name)
    if types.is_struct(kind):
        cells = zip(kind, column.flatten(), strict=True)  # pyarrow puts the nulls of a struct there
        fields = {field.name: cell for field, cell in cells}
        text = _object(fields, len(column), row_of, f"{name}.")
    elif _is_list(kind):
        text = _list(column, row_of, name)
    elif types.is_floating(kind):
        text = _float(column, row_of, name)
    elif _is_text(kind):
        text = _joined('"', _escaped(_utf8(column, row_of, name)), '"')
    elif types.is_timestamp(kind) or types.is_date(kind) or types.is_time(kind):
        end = '"' if not types.is_timestamp(kind) or kind.tz is None else 'Z"'
        text = _joined('"', _time(column, row_of, name), end)
    else:
        text = column.cast(pa.large_string())
    return pc.if_else(column.is_valid(), text, pa.scalar("null", pa.large_string()))


def _decoded(column: pa.DictionaryArray) -> pa.Array:
    import pyarrow as pa

    if pa.types.is_string_view(column.type.value_type):  # as of polars; pyarrow takes no views
        text = column.dictionary.cast(pa.large_string())
        column = pa.DictionaryArray.from_arrays(column.indices, text)
    return column.dictionary_decode()


def _list(column: pa.Array, row_of: Callable[[int], int], name: str) -> pa.Array:
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    ends = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))

    def row_of_element(place: int) -> int:
        return row_of(int(np.searchsorted(ends, place, side="right")) - 1)

    elements = _values(column.flatten(), row_of_element, f"{name}[]")
    lists = pa.LargeListArray.from_arrays(pa.array(ends), elements)
    return _joined("[", pc.binary_join(lists, pa.scalar(",", pa.large_string())), "]")


def _float(column: pa.Array, row_of: Callable[[int], int], name: str) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    column = column.cast(pa.float32()) if pa.types.is_float16(column.type) else column
    place = pc.index(pc.is_finite(column), value=False).as_py()
    if place >= 0:
        raise _no_value(
            row_of(place),
            name,
            str(column[place].as_py()),
            "JSON has no number for",
            "a finite number, or null",
        )
    text = column.cast(pa.large_string())
    return pc.replace_substring_regex(text, r"^(-?\d+)$", r"\1.0")  # else it is read as an integer


def _time(column: pa.Array, row_of: Callable[[int], int], name: str) -> pa.Array:
    """Return the texts of RFC 3339, a time without an offset; it knows four digits of a year."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp(kind.unit))  # in UTC
    text = column.cast(pa.large_string())
    # For what it cannot format, pyarrow writes a text that says so.
    place = pc.index(pc.match_substring_regex(text, _STARTS_AS_A_TIME), value=False).as_py()
    if place >= 0:
        raise _no_value(
            row_of(place),
            name,
            f"{column[place].value} as a {kind}",
            "is outside what a time has a text for",
            "a time in a day, of the years 0000 to 9999, or null",
        )
    return pc.replace_substring(text, " ", "T") if pa.types.is_timestamp(kind) else text


def _utf8(column: pa.Array, row_of: Callable[[int], int], name: str) -> pa.Array:
    """Return texts of which each is UTF-8; Arrow data of others may hold any bytes."""
    import pyarrow as pa

    data = column.cast(pa.large_binary())
    try:
        return data.cast(pa.large_string())  # this way it is checked
    except pa.ArrowInvalid:
        for place, cell in enumerate(data):
            try:
                (cell.as_py() or b"").decode()
            except UnicodeDecodeError:
                found = repr(cell.as_py())[:80]
                raise _no_value(
                    row_of(place), name, found, "is no UTF-8", "UTF-8, or null"
                ) from None
        raise


def _no_value(row: int, name: str, found: str, why: str, expected: str) -> IllegalArgumentError:
    return IllegalArgumentError(
        f"row {row}: column {name} holds {found}, which {why}: make it null first",
        found=found,
        expected=expected,
    )


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
