"""What a task does when its range is deleted or cut while it reads: the connector's way.

Retention, or a user, removes segments of a log that a query has planned. The task finds a file
gone; what that means depends on where the log begins and ends now. A log that is not to be found is
deleted only where its directory is known to be the one that was planned: others are there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

from segstore.errors import (
    InconsistentTopicIdError,
    LogTruncatedError,
    NotALogError,
    OffsetOutOfRangeError,
    SegstoreError,
)
from segstore.log.files.partition_metadata_file import made_again
from segstore.spark.conditions import ConnectorConditionError, deleted_error
from segstore.spark.driver_warning import warn
from segstore.spark.log_source import source_of
from segstore.spark.offsets import check_no_data_loss, what_is_left_out

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from segstore.spark.log_source import LogSource
    from segstore.spark.options import ConnectorOptions
    from segstore.tables.offset_ranges import OffsetRange
    from segstore.types import TopicPartition

_T = TypeVar("_T")
_LOSS: Final = (
    FileNotFoundError,
    NotALogError,  # a part of what is being removed
    OffsetOutOfRangeError,
    LogTruncatedError,
    InconsistentTopicIdError,
)


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
        Records of the range were deleted or cut off, and ``failOnDataLoss`` is true. If it is
        false, the read goes on with what the log holds.
    """
    rest: OffsetRange | None = offsets
    while rest is not None:
        try:
            for found, next_offset in read(rest):
                yield found
                rest = replace(rest, from_offset=next_offset)
        except _LOSS as error:
            rest = _behind_loss(options, rest, error)
        else:
            return


def _behind_loss(
    options: ConnectorOptions, rest: OffsetRange, error: Exception
) -> OffsetRange | None:
    """Return what the log still holds of *rest*, None = nothing; *error* if it holds all."""
    source = source_of(options)
    try:
        log = source.open(rest.topic_partition)
    except (FileNotFoundError, NotALogError):
        if not _was_deleted(source, rest.topic_partition):
            raise error from None
        _say_deleted(options, rest, error)
        return None
    if rest.topic_id is not None and log.topic_id != rest.topic_id:
        _say_deleted(options, rest, error, made_again(rest.topic_id, log.topic_id))
        return None
    start = max(log.start_offset, rest.from_offset)
    end = min(log.end_offset, rest.until_offset)
    if start == rest.from_offset and end == rest.until_offset:
        raise error
    if options.fail_on_data_loss:
        try:
            check_no_data_loss(rest, log)
        except ConnectorConditionError as loss:
            raise loss from error
    warn(what_is_left_out(rest, log))
    return replace(rest, from_offset=start, until_offset=end) if start < end else None


def _say_deleted(
    options: ConnectorOptions, rest: OffsetRange, error: Exception, detail: str = ""
) -> None:
    """Say that nothing of *rest* is there any more, as an error or a warning."""
    if options.fail_on_data_loss:
        raise deleted_error(rest.topic_partition, detail) from error
    warn(
        f"{rest.topic_partition} was deleted{' and made again: ' if detail else ''}{detail}: "
        f"offsets [{rest.from_offset}, {rest.until_offset}) are left out"
    )


def _was_deleted(source: LogSource, partition: TopicPartition) -> bool:
    """Whether the log directory is there with other partitions, and without *partition*.

    One that is missing, or empty, may be a volume that is not mounted here.
    """
    try:
        there = source.partitions()
    except (OSError, SegstoreError):
        return False
    return bool(there) and partition not in there
