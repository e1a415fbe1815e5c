"""What a task does when records of its range are deleted while it reads them: the connector's way.

Retention, or a user, removes segments of a log that a query has planned. The task finds a file
gone; what that means depends on where the log begins now.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from segstore.errors import OffsetOutOfRangeError
from segstore.spark.conditions import ConnectorConditionError, condition_error
from segstore.spark.driver_warning import warn
from segstore.spark.log_source import source_of
from segstore.spark.offsets import check_no_data_loss

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from segstore.spark.options import ConnectorOptions
    from segstore.spark.ranges import OffsetRange

_T = TypeVar("_T")


def read_what_is_left(
    options: ConnectorOptions,
    offsets: OffsetRange,
    read: Callable[[OffsetRange], Iterator[tuple[_T, int]]],
) -> Iterator[_T]:
    """Yield what *read* yields for *offsets*, as long as the log holds them.

    Parameters
    ----------
    options : ConnectorOptions
        Where the log is, and ``failOnDataLoss``.
    offsets : OffsetRange
        The range.
    read : callable
        Takes what is left of it; yields something, and the offset behind what that stands for.

    Raises
    ------
    ConnectorConditionError
        Records of the range were deleted, and ``failOnDataLoss`` is true. If it is false, the read
        goes on where the log begins.
    """
    rest: OffsetRange | None = offsets
    while rest is not None:
        try:
            for found, next_offset in read(rest):
                yield found
                rest = replace(rest, from_offset=next_offset)
        except (FileNotFoundError, OffsetOutOfRangeError) as error:
            rest = _behind_loss(options, rest, error)
        else:
            return


def _behind_loss(
    options: ConnectorOptions, rest: OffsetRange, error: FileNotFoundError | OffsetOutOfRangeError
) -> OffsetRange | None:
    """Return what the log still holds of *rest*, None = nothing; *error* if it holds all."""
    try:
        log = source_of(options).open(rest.topic_partition)
    except FileNotFoundError:
        if options.fail_on_data_loss:
            condition = "KAFKA_DATA_LOSS.PARTITIONS_DELETED"
            raise condition_error(condition, partitions=rest.topic_partition) from error
        warn(f"{rest.topic_partition} was deleted: {_shown(rest)} are left out")
        return None
    if log.start_offset <= rest.from_offset:
        raise error
    if options.fail_on_data_loss:
        try:
            check_no_data_loss(rest, log)
        except ConnectorConditionError as loss:
            raise loss from error
    lost = replace(rest, until_offset=min(log.start_offset, rest.until_offset))
    warn(f"{rest.topic_partition} begins at offset {log.start_offset} now: {_shown(lost)} are lost")
    return replace(rest, from_offset=lost.until_offset) if lost != rest else None


def _shown(offsets: OffsetRange) -> str:
    return f"offsets [{offsets.from_offset}, {offsets.until_offset})"
