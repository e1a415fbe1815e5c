"""Arguments of public functions: what is of another type is refused before anything is done."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable
from typing import Any, Final, NoReturn

from segstore.errors import ArgumentTypeError, IllegalArgumentError
from segstore.number_limits import MAX_INT, MAX_LONG, MIN_LONG
from segstore.record_columns import RecordColumns, named_columns
from segstore.record_rows import no_time, record_timestamp, timestamp_in_ms
from segstore.types import AppendOrigin, Isolation

MIN_INT: Final = -(2**31)


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
        raise no_time(name, value, ArgumentTypeError)
    return integer(name, number)


def default_timestamp(value: object) -> int:
    """Return the time *value*, for records without one, in ms."""
    number = record_timestamp(value, None, error=ArgumentTypeError)
    if number is None:
        raise no_time("timestamp", value, ArgumentTypeError)
    return integer("timestamp", number)


def columns_of_frame(
    timestamp: object, key: object, value: object, headers: object, partition: object = None
) -> tuple[int | None, RecordColumns]:
    """Return the time in ms for records without one, and the columns, that an append was given.

    A *timestamp* that is a str names a column, as the others do.
    """
    column = timestamp if isinstance(timestamp, str) else None
    default = None if timestamp is None or column is not None else default_timestamp(timestamp)
    return default, named_columns(
        key=key, value=value, timestamp=column, headers=headers, partition=partition
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


def partition_numbers(partitions: object) -> list[int]:
    """Return the numbers that a user names, ascending; each counts once."""
    if isinstance(partitions, str) or not isinstance(partitions, Iterable):
        raise ArgumentTypeError(
            f"partitions must be integers in a list, not {partitions!r}",
            found=repr(partitions)[:80],
            expected="integers in a list",
        )
    return sorted({integer("a number of partitions", number) for number in partitions})


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
