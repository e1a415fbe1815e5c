"""What a SQL condition tells a log: bounds of offsets and timestamps, topics, partitions.

Spark applies the whole condition afterwards, so whatever is not understood here is no harm: it is
left to Spark. Only conditions that are joined by AND narrow a read down.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from segstore.number_limits import MAX_LONG, MIN_LONG
from segstore.spark.schema import SOURCE_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_TOKEN: Final = re.compile(
    r"""(?P<string>'(?:[^'\\]|'')*')|(?P<quoted>"(?:[^"\\]|"")*")|(?P<number>[0-9]+(?![\w.]))|(?P<name>`[^`]*`|[A-Za-z_]\w*)"""
    r"""|(?P<operator><=>|<=|>=|<>|!=|==|[<>=(),-])|(?P<blank>\s+)|(?P<other>.)""",
    re.DOTALL,
)
_FLIPPED: Final = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "=", "==": "=="}
_OTHER_FORMS: Final = frozenset({"not", "!", "is", "like", "ilike", "rlike", "symmetric"})
_UNKNOWN: Final = frozenset({"'", '"', "`", "\\"})
"""Where one of these is left over, a string or name was written in a way that is not known here."""
_COMMENTS: Final = ("--", "/*")
_TIMES: Final = frozenset({"timestamp", "date", "timestamp_ltz"})


@dataclass(slots=True)
class Narrowing:
    """What is wanted at most; a record outside of it does not meet the condition.

    Attributes
    ----------
    first_offset, end_offset : int
        Offsets ``[first_offset, end_offset)``.
    first_timestamp, end_timestamp : int
        Timestamps in ms, ``[first_timestamp, end_timestamp)``.
    partitions, topics : set or None
        None = all.
    columns : frozenset of str
        The columns of the source that the condition names, and perhaps others.
    """

    first_offset: int = 0
    end_offset: int = MAX_LONG
    first_timestamp: int = MIN_LONG
    end_timestamp: int = MAX_LONG
    partitions: frozenset[int] | None = None
    topics: frozenset[str] | None = None
    columns: frozenset[str] = field(default_factory=frozenset)

    def keep_offsets(self, low: int, end: int) -> None:
        """Leave out what is outside ``[low, end)``."""
        self.first_offset = max(self.first_offset, low)
        self.end_offset = min(self.end_offset, end)

    def keep_timestamps(self, low: int, end: int) -> None:
        """Leave out what is outside ``[low, end)``."""
        self.first_timestamp = max(self.first_timestamp, low)
        self.end_timestamp = min(self.end_timestamp, end)

    def keep_partitions(self, numbers: frozenset[int]) -> None:
        """Leave out all other partitions."""
        self.partitions = numbers if self.partitions is None else self.partitions & numbers

    def keep_topics(self, names: frozenset[str]) -> None:
        """Leave out all other topics."""
        self.topics = names if self.topics is None else self.topics & names


def narrowing_of(condition: str, microseconds_of: Callable[[str], int | None]) -> Narrowing:
    """Read *condition*.

    Parameters
    ----------
    condition : str
        SQL, as ``DataFrame.where`` takes it.
    microseconds_of : callable
        Gives what Spark makes of a literal of a time, in microseconds since 1970; None = nothing.
    """
    tokens = [
        (match.lastgroup or "", match.group())
        for match in _TOKEN.finditer(condition)
        if match.lastgroup != "blank"
    ]
    names = {text.strip('`"').lower() for kind, text in tokens if kind in {"name", "quoted"}}
    found = Narrowing(columns=frozenset(SOURCE_COLUMNS[one] for one in names & {*SOURCE_COLUMNS}))
    if any(text in _UNKNOWN for _, text in tokens) or any(map(condition.__contains__, _COMMENTS)):
        return found
    for conjunct in _conjuncts(tokens):
        _take(conjunct, found, microseconds_of)
    return found


_Tokens = list[tuple[str, str]]


def _conjuncts(tokens: _Tokens) -> Iterator[_Tokens]:
    """Yield the conditions that AND joins; none where something else may join them."""
    while _is_in_brackets(tokens):
        tokens = tokens[1:-1]
    parts: list[_Tokens] = [[]]
    depth, between = 0, False
    for kind, text in tokens:
        word = text.lower() if kind == "name" else text
        depth += (word == "(") - (word == ")")
        if depth == 0 and word in {"or", "case"}:
            return
        if depth == 0 and word == "and" and not between:
            parts.append([])
            continue
        if depth == 0 and word in {"and", "between"}:
            between = word == "between"
        parts[-1].append((kind, text))
    if len(parts) == 1:
        yield parts[0]
        return
    for part in parts:
        yield from _conjuncts(part)


def _is_in_brackets(tokens: _Tokens) -> bool:
    """Whether the first bracket closes with the last token."""
    depth = 0
    for number, (_, text) in enumerate(tokens):
        depth += (text == "(") - (text == ")")
        if depth == 0:
            return number > 0 and number == len(tokens) - 1
    return False


def _take(tokens: _Tokens, found: Narrowing, microseconds_of: Callable[[str], int | None]) -> None:
    """Narrow *found* down by one condition, if it is one of the simple forms."""
    words = [text.strip("`").lower() if kind == "name" else text for kind, text in tokens]
    if not words or any(word in _OTHER_FORMS for word in words):
        return
    column, rest = words[0], tokens[1:]
    if words[-1] in {"offset", "partition", "timestamp", "topic"} and len(words) > 2:  # noqa: PLR2004
        operator = _FLIPPED.get(words[-2])
        if operator is not None:
            _compare(words[-1], operator, tokens[:-2], found, microseconds_of)
        return
    match words[1:2]:
        case ["between"]:
            joint = words.index("and") if "and" in words else len(words)
            _compare(column, ">=", tokens[2:joint], found, microseconds_of)
            _compare(column, "<=", tokens[joint + 1 :], found, microseconds_of)
        case ["in"]:
            _take_list(column, rest[1:], found)
        case [operator] if operator in _FLIPPED:
            _compare(column, operator, rest[1:], found, microseconds_of)


def _compare(
    column: str,
    operator: str,
    literal: _Tokens,
    found: Narrowing,
    microseconds_of: Callable[[str], int | None],
) -> None:
    match column:
        case "offset":
            number = _integer(literal)
            if number is not None:
                found.keep_offsets(*_bounds(operator, number, number))
        case "timestamp":
            text = _time_literal(literal)
            time = None if text is None else microseconds_of(text)
            if time is not None:
                found.keep_timestamps(*_bounds(operator, time // 1000, -(-time // 1000)))
        case "topic" | "partition" if operator in {"=", "=="}:
            _take_list(column, [("", "("), *literal, ("", ")")], found)


def _bounds(operator: str, floor: int, ceiling: int) -> tuple[int, int]:
    """Return the whole numbers ``[low, end)`` that meet ``number operator literal``.

    The literal lies between *floor* and *ceiling*, which are one number where it is whole.
    """
    match operator:
        case ">=":
            return ceiling, MAX_LONG
        case ">":
            return floor + 1, MAX_LONG
        case "<=":
            return MIN_LONG, floor + 1
        case "<":
            return MIN_LONG, ceiling
        case _:
            return ceiling, floor + 1


def _take_list(column: str, tokens: _Tokens, found: Narrowing) -> None:
    """Narrow down to the values of ``(1, 2)``, when they are plain ones."""
    if not _is_in_brackets(tokens):
        return
    values: list[int | str] = []
    for item in _split_at_commas(tokens[1:-1]):
        value = _integer(item) if column == "partition" else _string(item)
        if value is None:
            return
        values.append(value)
    if column == "partition":
        found.keep_partitions(frozenset(value for value in values if isinstance(value, int)))
    elif column == "topic":
        found.keep_topics(frozenset(value for value in values if isinstance(value, str)))


def _split_at_commas(tokens: _Tokens) -> Iterator[_Tokens]:
    item: _Tokens = []
    for token in tokens:
        if token[1] == ",":
            yield item
            item = []
        else:
            item.append(token)
    yield item


def _integer(tokens: Sequence[tuple[str, str]]) -> int | None:
    texts = [text for _, text in tokens]
    sign = -1 if texts[:1] == ["-"] else 1
    digits = tokens[1:] if sign < 0 else tokens
    if len(digits) != 1 or digits[0][0] != "number":
        return None
    return sign * int(digits[0][1])


def _string(tokens: Sequence[tuple[str, str]]) -> str | None:
    if len(tokens) != 1 or tokens[0][0] != "string":
        return None
    return tokens[0][1][1:-1].replace("''", "'")


def _time_literal(tokens: Sequence[tuple[str, str]]) -> str | None:
    """Return the literal as it stands: ``'2024-01-01'``, ``TIMESTAMP '2024-01-01'``."""
    *before, last = tokens or [("", "")]
    if last[0] != "string" or len(before) > 1:
        return None
    if before and before[0][1].lower() not in _TIMES:
        return None
    return " ".join(text for _, text in tokens)
