"""Which columns of a table are the parts of its records, and which would be lost.

The core asks here before it reads a table: names are for people, the core knows places.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from segstore.errors import ArgumentTypeError, IllegalArgumentError

if TYPE_CHECKING:
    from collections.abc import Sequence

PARTS: Final = ("key", "value", "timestamp", "headers")
"""Of a record; also the names of their columns, unless a caller gives others."""
ALL_OTHERS: Final = "*"
OF_A_LOG: Final = frozenset({"offset", "timestampType", "leaderEpoch"})
"""Columns of a log's tables which an append assigns, and no other table has by these names."""
OF_A_TOPIC: Final = frozenset({"topic", "partition"})
"""A log's tables have them too; alone they are a user's."""
_INDEX_LEVEL: Final = re.compile(r"__index_level_\d+__")
"""pandas hands the row labels of a frame over as a column of such a name, which nobody gave."""
_EXPECTED: Final = ", ".join(PARTS)
_MOST_NAMES: Final = 20


class Places(NamedTuple):
    """Where the columns are in a table: -1 where there is none."""

    key: int
    value: int
    timestamp: int
    headers: int
    partition: int
    of_json: tuple[int, ...] | None
    """Columns of which the value is made."""


class RecordColumns(NamedTuple):
    """Names of the columns that are the parts of a record.

    None is the part's own name, if there is such a column, and it is named for no other part.
    ``value`` may be several names, or `ALL_OTHERS`: then the value is a JSON object of them.
    """

    key: str | None = None
    value: str | tuple[str, ...] | None = None
    timestamp: str | None = None
    headers: str | None = None
    partition: str | None = None

    @property
    def has_json(self) -> bool:
        """Whether the value is made of columns."""
        return isinstance(self.value, tuple) or self.value == ALL_OTHERS

    def names(self, column: str) -> bool:
        """Whether a caller means *column*."""
        return any(
            given in {column, ALL_OTHERS} if isinstance(given, str) else column in given
            for given in self
            if given is not None
        )

    def find(self, names: Sequence[str]) -> Places:
        """Return where the columns are in a table of the columns *names*.

        Raises
        ------
        IllegalArgumentError
            A column that was named does not exist or exists twice; a column would be lost; there is
            neither a key nor a value, or no column for a value of all others; the table is a log's,
            without its headers.
        """
        for part, given in zip(self._fields, self, strict=True):
            for name in (given,) if isinstance(given, str) else given or ():
                if name not in names and not (part == "value" and name == self.value == ALL_OTHERS):
                    raise _no_such_column(part, name, names)
        one = {part: self._place_of(part, names) for part in self._fields}
        of_json = self._places_of_json(names, one)
        if of_json == ():
            raise IllegalArgumentError(
                f"value={ALL_OTHERS!r}: no column is left for the value, and each would be {{}}",
                found=_shown(names) or "no columns",
                expected="more columns than are named",
            )
        used = {*one.values(), *(of_json or ())}
        _check_is_single(names, used)
        left = [name for place, name in enumerate(names) if place not in used]
        _check_nothing_is_lost(left, of_a_log=not OF_A_LOG.isdisjoint(names))
        if one["key"] < 0 and one["value"] < 0 and not of_json:
            raise IllegalArgumentError(
                "no column is named key or value, and records without both hold nothing: name them,"
                " as in append(frame, key='user_id', value='payload')",
                found=_shown(names) or "no columns",
                expected=_EXPECTED,
            )
        if one["headers"] < 0 and not OF_A_LOG.isdisjoint(left):
            raise _lost_headers([name for name in left if name in OF_A_LOG])
        return Places(of_json=of_json, **one)

    def _place_of(self, part: str, names: Sequence[str]) -> int:
        name = getattr(self, part)
        if part == "value" and self.has_json:
            return -1
        if name is None and part in PARTS and part not in self:  # named, it is that part alone
            name = part
        return names.index(name) if name in names else -1

    def _places_of_json(
        self, names: Sequence[str], others: dict[str, int]
    ) -> tuple[int, ...] | None:
        if self.value == ALL_OTHERS:
            taken = set(others.values())
            return tuple(
                place
                for place, name in enumerate(names)
                if place not in taken and not _INDEX_LEVEL.fullmatch(name)
            )
        if isinstance(self.value, tuple):
            return tuple(names.index(name) for name in self.value)
        return None


BY_THEIR_NAMES: Final = RecordColumns()


def named_columns(
    *,
    key: object = None,
    value: object = None,
    timestamp: object = None,
    headers: object = None,
    partition: object = None,
) -> RecordColumns:
    """Return the columns that a caller names.

    Raises
    ------
    ArgumentTypeError
        What should be a name is none.
    IllegalArgumentError
        *value* is an empty list, or names a column twice.
    """
    for part, name in (
        ("key", key),
        ("timestamp", timestamp),
        ("headers", headers),
        ("partition", partition),
    ):
        if name is not None and not isinstance(name, str):
            raise _no_name(part, name, "the name of a column")
    chosen: Any = value
    if value is not None and not isinstance(value, str):
        is_sequence = hasattr(value, "__getitem__") and not isinstance(value, bytes | dict)
        chosen = tuple(value) if is_sequence else ()  # type: ignore[arg-type]
        if not is_sequence or not all(isinstance(name, str) for name in chosen):
            expected = "the name of a column, a list of names, or '*' for all others"
            raise _no_name("value", value, expected)
        if not chosen or len({*chosen}) < len(chosen):
            raise IllegalArgumentError(
                f"value={value!r} must name at least one column, and none twice",
                found=repr(value)[:80],
                expected="different names",
            )
    parts: Any = (key, chosen, timestamp, headers, partition)
    return BY_THEIR_NAMES if parts == BY_THEIR_NAMES else RecordColumns(*parts)


def _no_name(part: str, value: object, expected: str) -> ArgumentTypeError:
    found = repr(value)[:80]
    return ArgumentTypeError(
        f"{part} must be {expected}, not {found}", found=found, expected=expected
    )


def _no_such_column(part: str, name: str, names: Sequence[str]) -> IllegalArgumentError:
    from difflib import get_close_matches

    near = get_close_matches(name.lower(), [each.lower() for each in names], n=1)
    meant = [each for each in names if each.lower() in near]
    return IllegalArgumentError(
        f"{part}={name!r}: there is no such column"
        + (f"; did you mean {meant[0]!r}?" if meant else f"; there are {_shown(names)}"),
        found=repr(name)[:80],
        expected=_shown(names),
    )


def _check_is_single(names: Sequence[str], used: set[int]) -> None:
    for place in used:
        if place >= 0 and names.count(names[place]) > 1:
            raise IllegalArgumentError(
                f"two columns are named {names[place]}",
                found=repr(names[place])[:80],
                expected="different names",
            )


def _check_nothing_is_lost(left: Sequence[str], *, of_a_log: bool) -> None:
    assigned = OF_A_LOG | OF_A_TOPIC if of_a_log else frozenset()
    lost = [name for name in left if name not in assigned and not _INDEX_LEVEL.fullmatch(name)]
    if lost:
        many = len(lost) > 1
        raise IllegalArgumentError(
            f"{'columns' if many else 'column'} {', '.join(map(repr, lost[:_MOST_NAMES]))}"
            f"{' …' if len(lost) > _MOST_NAMES else ''} would be lost: the columns of a record are"
            f" {_EXPECTED}. key=, value=, timestamp= and headers= name others; value='*' stores all"
            " that are left as JSON. Drop from the frame what is not to be stored",
            found=_shown(lost),
            expected=_EXPECTED,
        )


def _lost_headers(of_a_log: Sequence[str]) -> IllegalArgumentError:
    return IllegalArgumentError(
        "the table was read from a log without the column headers, and the appended records would"
        f" have none: read it with headers. To leave them out, drop {', '.join(of_a_log)} too",
        found=", ".join(of_a_log),
        expected="headers",
    )


def _shown(names: Sequence[str]) -> str:
    return ", ".join(names[:_MOST_NAMES]) + (" …" if len(names) > _MOST_NAMES else "")
