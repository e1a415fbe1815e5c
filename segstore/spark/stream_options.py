"""The options of a streaming read: those of a batch, and what a trigger may take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from segstore.errors import IllegalArgumentError
from segstore.spark.conditions import ConnectorOptionError, option_error
from segstore.spark.option_values import integer, milliseconds
from segstore.spark.options import (
    ConnectorOptions,
    OffsetLimit,
    files_at_path,
    offset_limit,
    parse_options,
    read_options,
)
from segstore.spark.ranges import LATEST

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class TriggerLimits:
    """How many offsets one micro-batch takes.

    Attributes
    ----------
    max_offsets : int or None
        ``maxOffsetsPerTrigger``: at most about so many, shared out by backlog.
    min_offsets : int or None
        ``minOffsetsPerTrigger``: no batch before so many are there ...
    max_trigger_delay_ms : int
        ``maxTriggerDelay``: ... or so many ms have passed since the last batch.
    """

    max_offsets: int | None = None
    min_offsets: int | None = None
    max_trigger_delay_ms: int = 15 * 60_000


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """The options of a streaming read, checked; ``read.end`` means nothing."""

    read: ConnectorOptions
    limits: TriggerLimits


def parse_stream_options(given: Mapping[str, str]) -> StreamOptions:
    """Check the options of a streaming read.

    Parameters
    ----------
    given : mapping of str to str
        As Spark hands them over; names in any case.

    Raises
    ------
    ConnectorOptionError
        In the connector's words.
    """
    options = {name.lower(): value for name, value in given.items()}
    for name, what in (
        ("endingOffsets", "offset"),
        ("endingOffsetsByTimestamp", "timestamp"),
    ):
        if name.lower() in options:
            raise option_error(
                name,
                options[name.lower()],
                "no such option: a stream has no end",
                f"ending {what} not valid in streaming queries",
            )
    if files_at_path(options):
        raise ConnectorOptionError(
            "a stream follows a log directory, and path names files alone: use spark.read",
            found=options["path"],
            expected="a log directory",
        )
    start = offset_limit(options, "starting", OffsetLimit(keyword=LATEST))
    ignored = ["endingTimestamp option ignored in streams"] if "endingtimestamp" in options else []
    limits = _trigger_limits(options)
    if limits.max_offsets is not None and limits.max_offsets < 0:
        ignored.append(
            f"option maxOffsetsPerTrigger is {limits.max_offsets}: a batch would end before it "
            "begins, which is a data loss here as in Spark's Kafka source, and spoils the query"
        )
    read = read_options(options, start, OffsetLimit(keyword=LATEST), ignored)
    return StreamOptions(read, limits)


def _trigger_limits(options: Mapping[str, str]) -> TriggerLimits:
    numbers = {
        name: integer(options, name, bits=64) if name.lower() in options else None
        for name in ("maxOffsetsPerTrigger", "minOffsetsPerTrigger")
    }
    return TriggerLimits(
        numbers["maxOffsetsPerTrigger"],
        numbers["minOffsetsPerTrigger"],
        milliseconds(options, "maxTriggerDelay", default="15m"),
    )


def parse_options_of_either(given: Mapping[str, str]) -> ConnectorOptions:
    """Check what can be said while it is open whether a batch or a stream is read.

    Spark asks a source written in Python for its schema, in ``load()``, without saying which of
    the two it is for. So what is wrong for both is an error there, and what is wrong for one of
    them when the query runs.
    """
    try:
        return parse_options(given)
    except IllegalArgumentError as wrong_for_a_batch:
        try:
            return parse_stream_options(given).read
        except IllegalArgumentError:
            raise wrong_for_a_batch from None
