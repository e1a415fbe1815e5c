"""What stands for a record: its time in ms, and rows whose first part is none.

Times come from users as integers, datetimes, or what NumPy and pandas have for them; rows as
tuples. The core asks here for everything that is no exact int and no plain tuple.
"""

from __future__ import annotations

import operator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from segstore.errors import (
    ArgumentTypeError,
    IllegalArgumentError,
    RecordTypeError,
    SegstoreError,
)

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND: Final = timedelta(milliseconds=1)
RECORDS: Final = (
    "(key, value) or (timestamp, key, value) tuples, Record objects, "
    "or Arrow data (pyarrow, pandas, polars, duckdb)"
)
"""What an append takes, for errors."""
_FRAME_OF_ROWS: Final = "pyarrow.Table.from_pylist() makes a frame of dictionaries"
_TRIPLE: Final = ("timestamp", "key", "value")
_TIMESTAMP: Final = "milliseconds since 1970 as an integer, or a datetime with a time zone"


def record_timestamp(
    value: object,
    default: int | None,
    where: str = "",
    error: type[SegstoreError] = RecordTypeError,
) -> int | None:
    """Return the time *value* of a record in ms; *default* where it is missing (NaT).

    *where* is put before the error: ``"record 3: "``. A time before 1970 is refused where it comes
    as a datetime: -1 ms would be no timestamp. The range of integers is looked at by others.

    Raises
    ------
    RecordTypeError
        Not a time, or *error*.
    IllegalArgumentError
        It does not fit.
    """
    name = f"{where}the timestamp"
    number = timestamp_in_ms(name, value, error)
    if number is None:
        return default
    if number < 0 and not hasattr(value, "__index__"):
        raise IllegalArgumentError(
            f"{name} is before 1970: {repr(value)[:80]}",
            found=repr(value)[:80],
            expected="1970 or later",
        )
    return number


def timestamp_in_ms(
    name: str, value: object, error: type[SegstoreError] = ArgumentTypeError, *, up: bool = False
) -> int | None:
    """Return the time *value* in ms since 1970, None for NaT.

    Parameters
    ----------
    name : str
        What it is, for the error.
    value : int or datetime
        An integer, also of NumPy, is milliseconds. A datetime, also of pandas, must have a time
        zone; NumPy's ``datetime64`` is UTC.
    error : type
        Raised for anything else: True, 1.5, a text, a date.
    up : bool
        Round up to a whole ms, as the bound of a range is; else down, as a record keeps a time.
    """
    if isinstance(value, datetime):
        if value != value:  # noqa: PLR0124 - pandas' NaT, which is a datetime
            return None
        if value.utcoffset() is None:
            raise _no_time_zone(name, value, error)
        return -((EPOCH - value) // MILLISECOND) if up else (value - EPOCH) // MILLISECOND
    if getattr(getattr(value, "dtype", None), "kind", "") == "M":
        return _ms_of_datetime64(name, value, error, up=up)
    if type(value) is bool or not hasattr(value, "__index__"):
        raise no_time(name, value, error)
    try:
        return operator.index(value)
    except TypeError:  # a bool of NumPy, an array
        raise no_time(name, value, error) from None


def _ms_of_datetime64(name: str, value: Any, error: type[SegstoreError], *, up: bool) -> int | None:
    if getattr(value, "ndim", 0) != 0:
        raise no_time(name, value, error)
    if value != value:  # noqa: PLR0124 - NaT
        return None
    down = value.astype("datetime64[ms]")
    number = int(down.astype("int64"))
    # NumPy multiplies without a look at the range: then the way back leads elsewhere.
    back, behind = (each.astype(value.dtype) for each in (down, down + 1))
    if back != value and not back < value < behind:
        raise IllegalArgumentError(
            f"{name} is not within 64 bits of milliseconds: {repr(value)[:80]}",
            found=repr(value)[:80],
            expected="milliseconds since 1970 in 64 bits",
        )
    return number + 1 if up and down != value else number


def no_time(name: str, value: object, error: type[SegstoreError]) -> SegstoreError:
    """Return the error for what is no time."""
    kind = type(value).__name__
    verb = "must be" if error is ArgumentTypeError else f"is {kind}, not"
    end = f", not {kind}" if error is ArgumentTypeError else ""
    found = repr(value)[:80] if error is ArgumentTypeError else kind  # no contents of records
    return error(f"{name} {verb} {_TIMESTAMP}{end}", found=found, expected=_TIMESTAMP)


def _no_time_zone(name: str, value: datetime, error: type[SegstoreError]) -> SegstoreError:
    return error(
        f"{name} is {repr(value)[:80]} without a time zone, which is another time in each place: "
        "value.replace(tzinfo=datetime.UTC) takes it for UTC",
        found=repr(value)[:80],
        expected="a datetime with a time zone, or milliseconds since 1970",
    )


def check_row_type(kind: type, index: int) -> None:
    """Refuse named tuples whose fields stand elsewhere than in a record: ``kind`` is their type.

    Raises
    ------
    RecordTypeError
        The first of three is the ``Index`` of ``DataFrame.itertuples()``, or a field named key,
        value or timestamp is not where a record has it.
    """
    fields = getattr(kind, "_fields", None)
    if not isinstance(fields, tuple) or len(fields) not in {2, 3}:
        return
    expected = _TRIPLE[-len(fields) :]
    if len(fields) == len(_TRIPLE) and fields[0] == "Index":
        raise row_numbers(f"record {index} begins with the index of its DataFrame", str(fields))
    for place, name in enumerate(fields):
        if name in expected and expected.index(name) != place:
            raise RecordTypeError(
                f"record {index} has the fields {', '.join(fields)}:"
                " their order counts, not their names",
                found=", ".join(fields),
                expected=", ".join(expected),
            )


def no_record(item: object, index: int) -> RecordTypeError:
    """Return the error for an *item* of records that is none."""
    kind = f"a tuple of {len(item)}" if isinstance(item, tuple) else type(item).__name__
    hint = f": {_FRAME_OF_ROWS}" if isinstance(item, dict) else ""
    return RecordTypeError(
        f"record {index} is {kind}{hint}",
        found=kind,
        expected="a Record, (key, value) or (timestamp, key, value)",
    )


def refuse_no_rows(records: object) -> None:
    """Refuse what cannot be iterated over for records: a text, or a single dictionary.

    Raises
    ------
    RecordTypeError
        Naming its type.
    """
    is_one = isinstance(records, str | bytes | bytearray | memoryview | dict)
    if not is_one and hasattr(records, "__iter__"):
        return
    kind = type(records).__name__
    hint = ": encode it to bytes first" if isinstance(records, str) else ""
    if isinstance(records, dict):
        hint = ": pyarrow.table() makes a frame of columns by name"
    raise RecordTypeError(f"{kind} cannot be appended{hint}", found=kind, expected=RECORDS)


def row_numbers(what: str, found: str) -> RecordTypeError:
    """Return the error for numbers of rows in the place of timestamps."""
    return RecordTypeError(
        f"{what}, and the first of three is the timestamp: give (key, value) pairs, as "
        "itertuples(index=False) does, or Record(timestamp=…) where it is meant",
        found=found,
        expected="(key, value) or (timestamp, key, value)",
    )


def refuse_counted_rows(rows: list[Any]) -> None:
    """Refuse rows whose timestamps are 0, 1, 2, … to the last: they count, and tell no time.

    Two rows at least, and each a tuple of three: ``enumerate``, or the index of a DataFrame.
    """
    if len(rows) > 1 and all(counts_rows(row, index) for index, row in enumerate(rows)):
        raise counted_rows(len(rows))


def counts_rows(row: object, index: int) -> bool:
    """Whether *row* is a tuple of three that begins with its own place *index*."""
    return isinstance(row, tuple) and len(row) == len(_TRIPLE) and row[0] == index


def counted_rows(count: int) -> RecordTypeError:
    """Return the error for *count* rows whose timestamps are their places."""
    return row_numbers(
        f"the {count} records begin with 0 to {count - 1}, which count them",
        f"timestamps 0 to {count - 1}",
    )
