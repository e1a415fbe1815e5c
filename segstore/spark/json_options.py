"""The JSON of ``assign``, ``startingOffsets`` and so on, as leniently as the connector reads it.

What its parser (json4s over Jackson) forgives, a moved query may rely on: text behind the closing
brace, fractions (cut), ``null`` (0, or nothing), a repeated key (the last wins). What it refuses is
refused here.
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


MAX_PARTITION_DIGITS: Final = 10

_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant)


def parse_assignment(text: str) -> frozenset[TopicPartition]:
    """Read ``{"topic":[0,1]}``."""
    try:
        topics = _object(_first_value(text))
        return frozenset(
            TopicPartition(topic, _integer(partition, bits=32))
            for topic, partitions in topics.items()
            for partition in _list(partitions)
        )
    except (ValueError, RecursionError):
        raise _expected("assign", ASSIGN_EXAMPLE, text) from None


def parse_partition_values(option: str, text: str, example: str) -> dict[TopicPartition, int]:
    """Read ``{"topic":{"0":23,"1":-1}}``, offsets or timestamps.

    *option* and *example* are for the error.
    """
    try:
        topics = _object(_first_value(text))
        return {
            TopicPartition(topic, _partition_number(partition)): _integer(value, bits=64)
            for topic, values in topics.items()
            for partition, value in _object(values).items()
        }
    except (ValueError, RecursionError):
        raise _expected(option, example, text) from None


def _expected(option: str, example: str, text: str) -> ConnectorOptionError:
    return option_error(
        option, text, f"JSON such as {example}", f"Expected e.g. {example}, got {text}"
    )


def _first_value(text: str) -> object:
    value, _ = _DECODER.raw_decode(text.strip())
    return value


def _object(value: object) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError("not an object")  # noqa: TRY004 - every refusal becomes the one error above
    return value


def _list(value: object) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise ValueError("not a list")  # noqa: TRY004
    return value


def _integer(value: object, *, bits: int) -> int:
    """A JSON number as Java's ``longValue`` gives it: fractions cut, too large ones wrapped."""
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("not a number")  # noqa: TRY004
    try:
        number = int(value)
    except OverflowError:  # 1e999
        raise ValueError("not a number") from None
    half = 1 << (bits - 1)
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
