"""Arguments of public functions: what is of another type is refused before anything is done."""

from __future__ import annotations

import operator
import os
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NoReturn

from segstore.config import MAX_INT, MAX_LONG, MIN_LONG
from segstore.errors import (
    ArgumentTypeError,
    IllegalArgumentError,
    RecordTypeError,
    SegstoreError,
)
from segstore.types import AppendOrigin, Isolation

MIN_INT: Final = -(2**31)

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND: Final = timedelta(milliseconds=1)
_TRIPLE: Final = ("timestamp", "key", "value")
_TIMESTAMP: Final = "milliseconds since 1970 as an integer, or a datetime with a time zone"


def integer(name: str, value: object) -> int:
    """Return *value*, an int or what stands for one exactly (numpy's integers), of 64 bits.

    Raises
    ------
    ArgumentTypeError
        For everything else: 1.5 is not offset 1, and "1" is not either.
    IllegalArgumentError
        For a number that no file of Kafka's can hold.
    """
    try:
        number = value if type(value) is int else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise _wrong_type(name, value, "an integer") from None
    if type(value) is bool:
        raise _wrong_type(name, value, "an integer")
    if not MIN_LONG <= number <= MAX_LONG:
        raise IllegalArgumentError(
            f"{name} must be of 64 bits, {MIN_LONG} to {MAX_LONG}, not {_shown(value)}",
            found=_shown(value),
            expected=f"{MIN_LONG} to {MAX_LONG}",
        )
    return number


def integer_within(name: str, value: object, low: int, high: int) -> int:
    """Return *value*, an integer from *low* to *high*."""
    number = integer(name, value)
    if not low <= number <= high:
        raise IllegalArgumentError(
            f"{name} must be an integer, {low} to {high}, not {number}",
            found=str(number),
            expected=f"{low} to {high}",
        )
    return number


def leader_epoch(value: object) -> int:
    """Return *value*, an integer of the 32 bits that a batch has for its leader epoch."""
    return integer_within("leader_epoch", value, MIN_INT, MAX_INT)


def natural(name: str, value: object) -> int:
    """Return *value*, an integer that is not negative."""
    number = integer(name, value)
    if number < 0:
        raise IllegalArgumentError(
            f"{name} must be 0 or more, not {number}", found=str(number), expected="0 or more"
        )
    return number


def positive(name: str, value: object) -> int:
    """Return *value*, an integer above 0."""
    number = integer(name, value)
    if number <= 0:
        raise IllegalArgumentError(
            f"{name} must be above 0, not {number}", found=str(number), expected="above 0"
        )
    return number


def timestamp(name: str, value: object) -> int:
    """Return the bound *value* in ms: the first whole one at or behind it.

    Parameters
    ----------
    name : str
        Of the argument.
    value : int or datetime
        As `timestamp_in_ms` takes it; a missing one is refused.
    """
    number = timestamp_in_ms(name, value, up=True)
    if number is None:
        raise _no_time(name, value, ArgumentTypeError)
    return number


def default_timestamp(value: object) -> int:
    """Return the time *value*, for records without one, in ms."""
    number = record_timestamp(value, None, error=ArgumentTypeError)
    if number is None:
        raise _no_time("timestamp", value, ArgumentTypeError)
    return number


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
            f"{name} is before 1970: {_shown(value)}", found=_shown(value), expected="1970 or later"
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
        raise _no_time(name, value, error)
    try:
        return integer(name, value)
    except ArgumentTypeError:  # a bool of NumPy, an array
        raise _no_time(name, value, error) from None


def _ms_of_datetime64(name: str, value: Any, error: type[SegstoreError], *, up: bool) -> int | None:
    if getattr(value, "ndim", 0) != 0:
        raise _no_time(name, value, error)
    if value != value:  # noqa: PLR0124 - NaT
        return None
    down = value.astype("datetime64[ms]")
    number = int(down.astype("int64"))
    return number + 1 if up and down != value else number


def _no_time(name: str, value: object, error: type[SegstoreError]) -> SegstoreError:
    if error is ArgumentTypeError:
        return _wrong_type(name, value, _TIMESTAMP)
    kind = type(value).__name__
    return error(f"{name} is {kind}, not {_TIMESTAMP}", found=kind, expected=_TIMESTAMP)


def _no_time_zone(name: str, value: datetime, error: type[SegstoreError]) -> SegstoreError:
    return error(
        f"{name} is {_shown(value)} without a time zone, which is another time in each place: "
        "value.astimezone() takes it for local time, value.replace(tzinfo=datetime.UTC) for UTC",
        found=_shown(value),
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
                " the places count, not the names",
                found=", ".join(fields),
                expected=", ".join(expected),
            )


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


def refuse_pickle(what: str, instead: str) -> NoReturn:
    """Refuse to pickle or copy a handle: *what* it is, and what to do *instead*."""
    raise ArgumentTypeError(
        f"{what} cannot be pickled or copied, nor given to another process: {instead}",
        found=what,
        expected="what another process opens by itself",
    )


def seconds(name: str, value: object) -> float:
    """Return *value*, a number of seconds that is not negative."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong_type(name, value, "a number of seconds")
    if not value >= 0:
        raise IllegalArgumentError(
            f"{name} must be 0 or more, not {value!r}", found=repr(value), expected="0 or more"
        )
    return float(value)


def flag(name: str, value: object) -> bool:
    """Return *value*, True or False: the text "no" would count as true."""
    if type(value) is not bool:
        raise _wrong_type(name, value, "True or False")
    return value


def callback(name: str, value: Any) -> None:
    """Refuse what is neither None nor can be called."""
    if value is not None and not callable(value):
        raise _wrong_type(name, value, "a function or None")


def function(name: str, value: object) -> None:
    """Refuse what cannot be called."""
    if not callable(value):
        raise _wrong_type(name, value, "a function")


def path_text(name: str, value: object) -> str:
    """Return the path *value* as text."""
    try:
        text = os.fsdecode(value)  # type: ignore[arg-type]
    except TypeError:
        raise _wrong_type(name, value, "a path: str, bytes or os.PathLike") from None
    if "\0" in text:
        raise IllegalArgumentError(
            f"{name} has a zero byte in it: {repr(text)[:80]}",
            found=repr(text)[:80],
            expected="a path without one",
        )
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        raise IllegalArgumentError(
            f"{name} has a lone surrogate in it, which is in no file name: {repr(text)[:80]}",
            found=repr(text)[:80],
            expected="text that can be encoded",
        ) from None
    return text


def names(name: str, value: object) -> tuple[Any, ...]:
    """Return the names that *value*, a sequence, holds; which are right is not looked at."""
    try:
        return tuple(value)  # type: ignore[arg-type]
    except TypeError:
        raise _wrong_type(name, value, "a sequence of names") from None


def instance(name: str, value: object, kind: type, expected: str) -> None:
    """Refuse what is no *kind*."""
    if not isinstance(value, kind):
        raise _wrong_type(name, value, expected)


def isolation_of(value: object) -> Isolation:
    """Return the isolation that *value* is or names."""
    try:
        return Isolation(value)  # type: ignore[arg-type]
    except ValueError:
        expected = ", ".join(Isolation)
        raise IllegalArgumentError(
            f"isolation must be one of {expected}, not {value!r}",
            found=repr(value),
            expected=expected,
        ) from None


def append_origin(value: object) -> AppendOrigin:
    """Return the origin that *value* is, one that appends as a leader."""
    if not isinstance(value, AppendOrigin) or value is AppendOrigin.REPLICATION:
        if not isinstance(value, AppendOrigin):
            raise _wrong_type("origin", value, "an AppendOrigin")
        raise IllegalArgumentError(
            f"origin must be one of a leader's, not {value!r}",
            found=repr(value),
            expected="AppendOrigin.CLIENT, COORDINATOR or RAFT_LEADER",
        )
    return value


def _wrong_type(name: str, value: object, expected: str) -> ArgumentTypeError:
    shown = _shown(value)
    return ArgumentTypeError(
        f"{name} must be {expected}, not {shown}", found=shown, expected=expected
    )


def _shown(value: object) -> str:
    """Return a short text for *value*, which may be anything; its ``__repr__`` may fail."""
    try:
        return repr(value)[:80]
    except Exception:  # noqa: BLE001 - also an int of more digits than Python writes
        return f"an object of type {type(value).__name__}"
