"""Chooses the partition for a key, as Kafka's clients do."""

from __future__ import annotations

from itertools import count
from typing import Final

from segstore._core import murmur2
from segstore.errors import ArgumentTypeError, IllegalArgumentError

__all__ = ["partition_for_key"]

POSITIVE: Final = 0x7FFFFFFF

_turns: Final = count()


def partition_for_key(key: bytes | None, partitions_count: int) -> int:
    """Return the partition number for *key*, 0 to ``partitions_count - 1``.

    Parameters
    ----------
    key : bytes or None
        Equal keys get the same partition, the one that Java clients choose. Records without a key
        go to all partitions in turn.
    partitions_count : int
        At least 1.

    Raises
    ------
    IllegalArgumentError
        *partitions_count* is below 1, or *key* has another type.

    Source: Kafka ``BuiltInPartitioner.partitionForKey``, ``Utils.murmur2``.
    """
    number: object = partitions_count
    if not isinstance(number, int) or number < 1:
        raise IllegalArgumentError(
            f"a topic has at least one partition, not {partitions_count!r}",
            found=repr(partitions_count),
            expected="at least 1",
        )
    if key is None:
        return next(_turns) % partitions_count
    try:
        content = key if type(key) is bytes else bytes(memoryview(key))  # also one with steps
        return (murmur2(content) & POSITIVE) % partitions_count
    except TypeError:
        raise ArgumentTypeError(
            f"a key is bytes or None, not {key!r}",
            found=type(key).__name__,
            expected="bytes or None",
        ) from None
