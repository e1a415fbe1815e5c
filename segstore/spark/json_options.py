"""The JSON of ``assign``, ``startingOffsets`` and so on.

The connector's parser (json4s over Jackson) forgives what is a slip, and reads other records than
were meant: text behind the closing brace, fractions (cut), ``null`` (0, or nothing), a repeated key
(the last wins). Here these are errors, unless ``connectorCompatible`` asks for them.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NoReturn

from segstore.spark.conditions import option_error
from segstore.types import TopicPartition

if TYPE_CHECKING:
    from segstore.spark.conditions import ConnectorOptionError

ASSIGN_EXAMPLE: Final = '{"topicA":[0,1],"topicB":[0,1]}'
OFFSETS_EXAMPLE: Final = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
TIMESTAMPS_EXAMPLE: Final = (
    '{"topicA": {"0": 123456789, "1": 123456789}, "topicB": {"0": 123456789, "1": 123456789}}'
)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)  # NaN and Infinity are Python's additions to JSON


def _refuse_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ValueError("a key twice")
    return values


MAX_PARTITION_DIGITS: Final = 10

_LENIENT: Final = json.JSONDecoder(parse_constant=_refuse_constant)
_STRICT: Final = json.JSONDecoder(
    parse_constant=_refuse_constant, object_pairs_hook=_refuse_repeated_keys
)


def parse_assignment(text: str, *, lenient: bool = False) -> frozenset[TopicPartition]:
    """Read ``{"topic":[0,1]}``; *lenient*: as the connector does."""
    try:
        topics = _object(_first_value(text, lenient), lenient)
        return frozenset(
            TopicPartition(topic, _integer(partition, lenient, bits=32))
            for topic, partitions in topics.items()
            for partition in _list(partitions, lenient)
        )
    except (ValueError, RecursionError):
        raise _expected("assign", ASSIGN_EXAMPLE, text) from None


def parse_partition_values(
    option: str, text: str, example: str, *, lenient: bool = False
) -> dict[TopicPartition, int]:
    """Read ``{"topic":{"0":23,"1":-1}}``, offsets or timestamps.

    *option* and *example* are for the error; *lenient*: as the connector does.
    """
    try:
        topics = _object(_first_value(text, lenient), lenient)
        return {
            TopicPartition(topic, _partition_number(partition)): _integer(value, lenient, bits=64)
            for topic, values in topics.items()
            for partition, value in _object(values, lenient).items()
        }
    except (ValueError, RecursionError):
        raise _expected(option, example, text) from None


def _expected(option: str, example: str, text: str) -> ConnectorOptionError:
    return option_error(
        option, text, f"JSON such as {example}", f"Expected e.g. {example}, got {text}"
    )


def _first_value(text: str, lenient: bool) -> object:  # noqa: FBT001
    if not lenient:
        return _STRICT.decode(text)
    value, _ = _LENIENT.raw_decode(text.strip())
    return value


def _object(value: object, lenient: bool) -> dict[str, Any]:  # noqa: FBT001
    if value is None and lenient:
        return {}
    if not isinstance(value, dict):
        raise ValueError("not an object")  # noqa: TRY004 - every refusal becomes the one error above
    return value


def _list(value: object, lenient: bool) -> list[Any]:  # noqa: FBT001
    if value is None and lenient:
        return []
    if not isinstance(value, list):
        raise ValueError("not a list")  # noqa: TRY004
    return value


def _integer(value: object, lenient: bool, *, bits: int) -> int:  # noqa: FBT001
    """A JSON number; *lenient*: as Java's ``longValue``, fractions cut, too large ones wrapped."""
    half = 1 << (bits - 1)
    if not lenient:
        if type(value) is not int or not -half <= value < half:
            raise ValueError("not a number")
        return value
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("not a number")  # noqa: TRY004
    try:
        number = int(value)
    except OverflowError:  # 1e999
        raise ValueError("not a number") from None
    return (number + half) % (2 * half) - half


def _partition_number(text: str) -> int:
    """A partition as a key: Java's ``toInt``, which takes ``00`` and ``+1`` but no blanks."""
    digits = text.removeprefix("+").removeprefix("-") if text[:1] in "+-" else text
    if not (digits.isascii() and digits.isdigit()) or len(digits) > MAX_PARTITION_DIGITS:
        raise ValueError("not a partition")
    number = int(text)
    if not -(2**31) <= number < 2**31:
        raise ValueError("not a partition")
    return number
