"""The options of ``format("segstore")``: names, precedence and checks of Spark's Kafka source.

Everything that can be said without looking at the directory is said here, when ``load()`` runs.
Option names are case-insensitive. ``path`` takes the place of ``kafka.bootstrap.servers``.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from segstore.errors import NotALogError
from segstore.log.files.partition_directory import parse_directory_name
from segstore.log.lone_files import is_of_files, matching_files
from segstore.remote.remote_logs import RemoteSettings
from segstore.remote.urls import is_url, normal_url, shown_url
from segstore.spark.conditions import (
    ConnectorOptionError,
    UnresolvedConditionError,
    condition_error,
    option_error,
)
from segstore.spark.directory_option import (
    TieredLayout,
    log_directory_path,
    remote_settings,
    tiered_layout,
)
from segstore.spark.java_pattern import compile_java_pattern
from segstore.spark.json_options import (
    OFFSETS_EXAMPLE,
    TIMESTAMPS_EXAMPLE,
    parse_assignment,
    parse_partition_values,
)
from segstore.spark.option_names import READ_OPTIONS, misspelt_options
from segstore.spark.option_values import boolean, byte_size, integer, java_integer, positive
from segstore.spark.ranges import EARLIEST, LATEST
from segstore.types import Isolation

if TYPE_CHECKING:
    import re
    from collections.abc import Mapping

    from segstore.types import TopicPartition

SUBSCRIBE, SUBSCRIBE_PATTERN, ASSIGN = "subscribe", "subscribepattern", "assign"
_STRATEGIES: Final = (SUBSCRIBE, SUBSCRIBE_PATTERN, ASSIGN)

_REFUSED_CLIENT_OPTIONS: Final = {
    "auto.offset.reset": (
        "Kafka option 'auto.offset.reset' is not supported. Instead set the source option "
        "'startingOffsets' to "
        "'earliest' or 'latest' to specify where to start."
    ),
    "key.deserializer": (
        "Kafka option 'key.deserializer' is not supported as keys are deserialized as byte arrays "
        "with "
        "ByteArrayDeserializer. Use DataFrame operations to explicitly deserialize the keys."
    ),
    "value.deserializer": (
        "Kafka option 'value.deserializer' is not supported as values are deserialized as byte "
        "arrays with "
        "ByteArrayDeserializer. Use DataFrame operations to explicitly deserialize the values."
    ),
    "interceptor.classes": "Kafka option 'interceptor.classes' is not supported",
    "enable.auto.commit": "Kafka option 'enable.auto.commit' is not supported",
}
"""In the order in which the connector looks."""

_ISOLATIONS: Final = (Isolation.READ_UNCOMMITTED, Isolation.READ_COMMITTED, Isolation.DURABLE)


@dataclass(frozen=True, slots=True)
class OffsetLimit:
    """Where a read starts or ends, as asked: exactly one of the four is set.

    Attributes
    ----------
    keyword : int or None
        ``EARLIEST`` or ``LATEST`` for all partitions.
    offsets : dict or None
        Offset by partition; -2 and -1 stand for earliest and latest.
    timestamps : dict or None
        Timestamp in ms by partition.
    timestamp : int or None
        One timestamp in ms for all partitions.
    """

    keyword: int | None = None
    offsets: Mapping[TopicPartition, int] | None = None
    timestamps: Mapping[TopicPartition, int] | None = None
    timestamp: int | None = None


@dataclass(frozen=True, slots=True)
class TopicChoice:
    """What to read: ``topics`` by name, a ``pattern`` to search for, or ``assigned`` partitions.

    ``everything``: what the path has, as of files alone.
    """

    topics: tuple[str, ...] = ()
    pattern: re.Pattern[str] | None = None
    assigned: frozenset[TopicPartition] | None = None
    everything: bool = False

    def may_mean(self, partition: TopicPartition) -> bool:
        """Whether *partition* may be among what is read, if it exists."""
        if self.assigned is not None:
            return partition in self.assigned
        if self.pattern is not None:
            return self.pattern.search(partition.topic) is not None
        return self.everything or partition.topic in self.topics


@dataclass(frozen=True, slots=True)
class ConnectorOptions:
    """The options of one read, checked.

    ``files``: what is read if the path is no directory; ``as_partition``: whose records they are.
    """

    path: str = field(repr=False)  # a URL may hold secrets
    choice: TopicChoice
    start: OffsetLimit
    end: OffsetLimit
    latest_when_no_offset_matches: bool = False
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    max_bytes_per_partition: int | None = None
    partitions_per_task: int | None = None
    fail_on_data_loss: bool = True
    skips_damage: bool = False
    include_headers: bool = False
    isolation: Isolation = Isolation.READ_UNCOMMITTED
    connector_compatible: bool = False
    files: tuple[str, ...] = ()
    as_partition: str | None = None
    remote: RemoteSettings = field(default_factory=RemoteSettings)
    tiered: TieredLayout | None = None
    warnings: tuple[str, ...] = field(default=(), compare=False)

    @property
    def is_remote(self) -> bool:
        """Whether the logs are fetched: from a URL, or from a tiered bucket, also in a folder."""
        return self.tiered is not None or is_url(self.path)

    @property
    def absolute_path(self) -> str:
        """The path as every process finds it: an executor's working directory is another."""
        if is_url(self.path):
            return normal_url(self.path)
        return os.path.abspath(self.path)  # noqa: PTH100 - links stay as they are

    @property
    def shown_path(self) -> str:
        """The path for messages: a URL without secrets."""
        path = self.absolute_path
        return shown_url(path) if is_url(path) else path


def parse_options(given: Mapping[str, str]) -> ConnectorOptions:
    """Check the options of a batch read.

    Parameters
    ----------
    given : mapping of str to str
        As Spark hands them over; names in any case.

    Raises
    ------
    ConnectorOptionError
        In the connector's words; conditions of Spark's by their names
        (``UnresolvedConditionError``).
    """
    options = {name.lower(): value for name, value in given.items()}
    start = offset_limit(options, "starting", OffsetLimit(keyword=EARLIEST))
    end = offset_limit(options, "ending", OffsetLimit(keyword=LATEST))
    _check_limits_of_a_batch(start, end)
    ignored = [
        f"{name} option ignored in batch queries"
        for name in ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
        if name.lower() in options
    ]
    parsed = read_options(options, start, end, ignored)
    _check_start_not_greater_than_end(start, end)
    return parsed


def read_options(
    options: Mapping[str, str], start: OffsetLimit, end: OffsetLimit, warnings: list[str]
) -> ConnectorOptions:
    """Check what batches and streams have in common; *options* by lower-case name."""
    strategy = options.get("startingoffsetsbytimestampstrategy", "error").upper()
    if strategy not in {"ERROR", "LATEST"}:
        raise option_error(
            "startingOffsetsByTimestampStrategy",
            options["startingoffsetsbytimestampstrategy"],
            "error or latest",
            f"No value found for '{strategy}'",
        )
    files = files_at_path(options)
    choice = _topic_choice(options, has_one=bool(files))
    min_partitions = positive(options, "minPartitions", "minPartitions", bits=32)
    max_records = positive(options, "maxRecordsPerPartition", "maxrecordsperpartition", bits=64)
    max_bytes = byte_size(options, "maxBytesPerPartition")
    _check_client_options(options)
    return ConnectorOptions(
        path=log_directory_path(options),
        choice=choice,
        start=start,
        end=end,
        latest_when_no_offset_matches=strategy == "LATEST",
        min_partitions=min_partitions,
        max_records_per_partition=max_records,
        max_bytes_per_partition=max_bytes,
        partitions_per_task=_partitions_per_task(options, max_bytes),
        fail_on_data_loss=boolean(options, "failOnDataLoss", default=True),
        skips_damage=_skips_damage(options),
        include_headers=boolean(options, "includeHeaders", default=False),
        isolation=_isolation(options, of_files=bool(files)),
        files=files,
        as_partition=_as_partition(options, of_files=bool(files)),
        connector_compatible=is_connector_compatible(options),
        remote=remote_settings(options),
        tiered=tiered_layout(options),
        warnings=(*_warnings(options), *warnings),
    )


# ---- topics --------------------------------------------------------------------------------------


def files_at_path(options: Mapping[str, str]) -> tuple[str, ...]:
    """Return the files that ``path`` names or matches; nothing where it names a log directory."""
    if not options.get("path") or is_url(path := log_directory_path(options)):
        return ()
    if tiered_layout(options) is not None:
        return ()
    path = os.path.abspath(path)  # noqa: PTH100 - links stay as they are
    return tuple(matching_files(path)) if is_of_files(path) else ()


def _as_partition(options: Mapping[str, str], *, of_files: bool) -> str | None:
    """Return the name that files alone are read under; a directory has one of its own."""
    name = options.get("aspartition")
    if name is None:
        return None
    if not of_files:
        raise ConnectorOptionError(
            "option asPartition is for files alone, and path is a log directory: to read a copy of"
            " a partition with another name, set path to DIRECTORY/*.log",
            found=f"asPartition={name}",
            expected="a path of .log files, a pattern or an archive",
        )
    try:
        parse_directory_name(name)
    except NotALogError as error:
        raise ConnectorOptionError(
            f"option asPartition is {name!r}: {error.message}",
            found=name,
            expected="<topic>-<partition>, such as orders-0",
        ) from None
    return name


def _topic_choice(options: Mapping[str, str], *, has_one: bool) -> TopicChoice:
    given = [name for name in _STRATEGIES if name in options]  # an empty value counts as given
    if has_one and not given:
        return TopicChoice(everything=True)
    if len(given) != 1:
        number = "Only one" if given else "One"
        verb = "can" if given else "must"
        raise ConnectorOptionError(
            "set one of the options subscribe, subscribePattern and assign: it says what to read. "
            f"Spark's Kafka source says: {number} of the following options {verb} be specified "
            f"for Kafka source: {', '.join(_STRATEGIES)}. See the docs for more details.",
            found=", ".join(given) or "none of them",
            expected="one of them",
        )
    value = options[given[0]]
    if given[0] == ASSIGN:
        if not value.strip().startswith("{"):
            raise _nothing_in("No topicpartitions to assign", "assign", value)
        lenient = is_connector_compatible(options)
        return TopicChoice(assigned=parse_assignment(value, lenient=lenient))
    if given[0] == SUBSCRIBE:
        topics = tuple(dict.fromkeys(name.strip() for name in value.split(",") if name.strip()))
        if not topics:
            raise _nothing_in("No topics to subscribe to", "subscribe", value)
        return TopicChoice(topics=topics)
    if not value.strip():
        raise _nothing_in("Pattern to subscribe is empty", "subscribePattern", value)
    return TopicChoice(pattern=compile_java_pattern(value.strip()))


def _nothing_in(what: str, option: str, value: str) -> ConnectorOptionError:
    return ConnectorOptionError(
        f"{what} as specified value for option '{option}' is '{value}'", found=repr(value)
    )


# ---- offsets and timestamps ----------------------------------------------------------------------


def offset_limit(options: Mapping[str, str], side: str, default: OffsetLimit) -> OffsetLimit:
    """Timestamp before timestamps before offsets; what loses is not even parsed."""
    if (text := options.get(f"{side}timestamp")) is not None:
        number = java_integer(text.strip(), bits=64)
        if number is None:
            raise option_error(
                f"{side}Timestamp",
                text,
                "milliseconds since 1970, a whole number",
                f"Expected a single long value, got {text}",
            )
        return OffsetLimit(timestamp=number)
    if (text := options.get(f"{side}offsetsbytimestamp")) is not None:
        name = f"{side}OffsetsByTimestamp"
        lenient = is_connector_compatible(options)
        return OffsetLimit(
            timestamps=parse_partition_values(name, text, TIMESTAMPS_EXAMPLE, lenient=lenient)
        )
    if (text := options.get(f"{side}offsets")) is not None:
        keyword = text.strip().lower()
        if keyword == "earliest":
            return OffsetLimit(keyword=EARLIEST)
        if keyword == "latest":
            return OffsetLimit(keyword=LATEST)
        name = f"{side}Offsets"
        lenient = is_connector_compatible(options)
        return OffsetLimit(
            offsets=parse_partition_values(name, text, OFFSETS_EXAMPLE, lenient=lenient)
        )
    return default


def _check_limits_of_a_batch(start: OffsetLimit, end: OffsetLimit) -> None:
    if start.keyword == LATEST:
        raise option_error(
            "startingOffsets",
            "latest",
            "earliest, or offsets: there would be nothing to read",
            "starting offset can't be latest for batch queries on Kafka",
        )
    for partition, offset in (start.offsets or {}).items():
        if offset == LATEST:
            raise option_error(
                "startingOffsets",
                f"{LATEST} for {partition}",
                f"an offset, or {EARLIEST} for the earliest: there would be nothing to read",
                f"startingOffsets for {partition} can't be latest for batch queries on Kafka",
            )
    if end.keyword == EARLIEST:
        raise option_error(
            "endingOffsets",
            "earliest",
            "latest, or offsets: there would be nothing to read",
            "ending offset can't be earliest for batch queries on Kafka",
        )
    for partition, offset in (end.offsets or {}).items():
        if offset == EARLIEST:
            raise option_error(
                "endingOffsets",
                f"{EARLIEST} for {partition}",
                f"an offset, or {LATEST} for the latest: there would be nothing to read",
                f"ending offset for {partition} can't be earliest for batch queries on Kafka",
            )


def _check_start_not_greater_than_end(start: OffsetLimit, end: OffsetLimit) -> None:
    for kind, starts, ends in (
        ("offset", start.offsets, end.offsets),
        ("timestamp", start.timestamps, end.timestamps),
    ):
        if starts is None or ends is None:
            continue
        if starts.keys() != ends.keys():
            raise condition_error(
                "MISMATCHED_TOPIC_PARTITIONS_BETWEEN_START_OFFSET_AND_END_OFFSET",
                UnresolvedConditionError,
                tpsForStartOffset=", ".join(map(str, sorted(starts))),
                tpsForEndOffset=", ".join(map(str, sorted(ends))),
            )
        for partition, from_value in starts.items():
            if 0 <= ends[partition] < from_value:
                raise condition_error(
                    "UNRESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET",
                    UnresolvedConditionError,
                    offsetType=kind,
                    startOffset=from_value,
                    endOffset=ends[partition],
                    topic=partition.topic,
                    partition=partition.partition,
                )


# ---- the rest ------------------------------------------------------------------------------------


def _check_client_options(options: Mapping[str, str]) -> None:
    for name, message in _REFUSED_CLIENT_OPTIONS.items():
        if f"kafka.{name}" in options:
            raise ConnectorOptionError(message, found=f"kafka.{name}")
    if "minoffsetspertrigger" in options and "maxoffsetspertrigger" in options:
        low = integer(options, "minOffsetsPerTrigger", bits=64)
        high = integer(options, "maxOffsetsPerTrigger", bits=64)
        if low > high:
            raise ConnectorOptionError(
                f"The value of minOffsetPerTrigger({low}) is higher than the "
                f"maxOffsetsPerTrigger({high})."
            )


def is_connector_compatible(options: Mapping[str, str]) -> bool:
    """Whether what the connector does by accident is done too: see docs/spark.md."""
    return boolean(options, "connectorCompatible", default=False)


def _partitions_per_task(options: Mapping[str, str], max_bytes: int | None) -> int | None:
    """How many ranges a task may read; the bytes of ranges are not known, so no limit of them."""
    per_task = positive(options, "partitionsPerTask", "partitionsPerTask", bits=32)
    if per_task is not None and max_bytes is not None:
        raise ConnectorOptionError(
            "partitionsPerTask and maxBytesPerPartition are both set, and the ranges of a task are "
            "not counted in bytes: set maxRecordsPerPartition, which limits a whole task",
            found="both options",
            expected="partitionsPerTask with maxRecordsPerPartition, or one of the two alone",
        )
    return per_task


def _skips_damage(options: Mapping[str, str]) -> bool:
    """Whether a read goes on behind damage; the values are those of `Log.scan`."""
    text = options.get("ondamage", "raise")
    if text.lower() not in {"raise", "skip"}:
        raise option_error("onDamage", text, "raise or skip", f"Unknown value {text}")
    return text.lower() == "skip"


def _isolation(options: Mapping[str, str], *, of_files: bool) -> Isolation:
    """Which records are shown; with ``kafka.`` before its name as well as without."""
    name = "isolation.level" if "isolation.level" in options else "kafka.isolation.level"
    text = options.get(name, Isolation.READ_UNCOMMITTED)
    if of_files and text == Isolation.DURABLE:
        raise ConnectorOptionError(
            f"option {name} is durable: files without their directory do not say what was synced",
            found=text,
            expected="read_uncommitted or read_committed",
        )
    if text not in _ISOLATIONS:
        raise option_error(
            name,
            text,
            ", ".join(_ISOLATIONS),
            f"Invalid value {text} for configuration isolation.level: "
            "String must be one of: read_committed, read_uncommitted",
        )
    return Isolation(text)


def _warnings(options: Mapping[str, str]) -> list[str]:
    found = []
    if "kafka.bootstrap.servers" in options:
        found.append(
            "option kafka.bootstrap.servers is ignored: records are read from the directory in "
            "'path'"
        )
    ignored = [
        name
        for name in sorted(options)
        if name.startswith("kafka.")
        and name not in {"kafka.bootstrap.servers", "kafka.isolation.level"}
    ]
    if ignored:
        found.append(f"options of Kafka's consumer are ignored: {', '.join(ignored)}")
    found += misspelt_options(options, READ_OPTIONS)
    return found
