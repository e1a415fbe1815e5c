"""What Spark's own Kafka sink did with given DataFrames, and what of it is compared.

Of each: the query that made the DataFrame, options, what the new topics held afterwards or the
error.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from tests.spark.connector_answers import read_answers

CLIENT = "options of Kafka's producer that mean nothing to a writer of files are ignored"
MODE = "of a sink in Python, Spark itself takes the modes append and overwrite only"
PARTITIONER = "partitioners of Kafka's producer are Java classes"
PATH = "the path takes the place of kafka.bootstrap.servers"
SAVED = "the path is the log directory, there it is ignored"
PARTITIONED = "Spark refuses it for a sink in Python, there it is ignored"
UPDATE = "Spark has no update mode for a sink in Python"

BROKER = "kafka.bootstrap.servers"
NOT_GIVEN = "not given"
_HEEDED = {
    BROKER,
    "kafka.key.serializer",
    "kafka.value.serializer",
    "kafka.compression.type",
    "kafka.partitioner.ignore.keys",
    "kafka.max.block.ms",
}
"""What this sink knows as well, or what is only there to make failures come soon."""

OTHER_WORDS = {
    "java.lang.NullPointerException": "null header",
    "org.apache.kafka.common.errors.InvalidTopicException": "is no topic name",
}
"""Where the connector says little or nothing."""

VARIANT = "value attribute unsupported type variant"
IGNORE = "UNSUPPORTED_DATA_SOURCE_SAVE_MODE"
"""Where Spark speaks before the sink does."""

NOTHING_IS_LEFT = "a write that fails leaves nothing, there the rows before the bad one"


@dataclass(frozen=True)
class SinkEntry:
    """A DataFrame that was written, and what became of it."""

    id: str
    topics: dict[str, int]
    options: dict[str, str]
    accepted: bool
    case: str | None = None
    sql: str | None = None
    select: str | None = None
    source: str | None = None
    output_mode: str | None = None
    mode: str | None = NOT_GIVEN
    partition_by: str | None = None
    save: str | None = None
    input_schema: dict[str, Any] | None = None
    written: dict[str, Any] | None = None
    error: dict[str, Any] | None = field(default=None)
    partitions_are_random: bool = False

    @property
    def name(self) -> str:
        """The id, without what all begin with."""
        return self.id.removeprefix("sink/")

    @property
    def group(self) -> str:
        """What the entry is about, without its variant."""
        return re.split(r"-[0-9]+$|-", self.name, maxsplit=1)[0]

    @property
    def left_out(self) -> str | None:
        """Why the answer is deliberately another one, and not compared; None = it is compared."""
        reasons = {
            PATH: BROKER not in self.options,
            PARTITIONED: self.partition_by is not None,
            SAVED: self.save is not None,
            PARTITIONER: "kafka.partitioner.class" in self.options,
            MODE: self.mode in {None, "error", "errorifexists"},
            UPDATE: self.output_mode == "update",
            CLIENT: not self.accepted and self._has_options_of_client,
        }
        return next((reason for reason, is_given in reasons.items() if is_given), None)

    @property
    def _has_options_of_client(self) -> bool:
        return any(name.startswith("kafka.") and name not in _HEEDED for name in self.options)

    @property
    def is_refused_by_mode(self) -> bool:
        """Whether Spark refuses the save mode, and does not ask the sink."""
        return self.mode == "ignore"

    @property
    def is_refused_without_rows(self) -> bool:
        """Whether the connector refuses options or columns, before any task runs."""
        first = self.error["chain"][0]["class"] if self.error else ""
        return first.endswith(("AnalysisException", ".IllegalArgumentException"))

    @property
    def words(self) -> str:
        """What an error has to say."""
        if self.is_refused_by_mode:
            return IGNORE
        fields = self.input_schema["fields"] if self.input_schema else ()
        if any(field["name"] == "value" and field["type"] == "variant" for field in fields):
            return VARIANT
        assert self.error is not None
        last = self.error["chain"][-1]
        said = OTHER_WORDS.get(last["class"], last["message"])
        return said.partition(" after ")[0].partition(" SQLSTATE")[0].rstrip(".")


@cache
def sink_entries(folder: str | None) -> tuple[SinkEntry, ...]:
    """Every recorded entry."""
    return tuple(SinkEntry(**line) for line in read_answers(folder, "sink"))


@cache
def chosen_entries(folder: str | None) -> tuple[SinkEntry, ...]:
    """Of each group the first one, and a fixed forty-eighth of all."""
    entries = [entry for entry in sink_entries(folder) if entry.left_out is None]
    first = {entry.group: entry for entry in reversed(entries)}
    wanted = {entry.id for entry in entries[::48]} | {entry.id for entry in first.values()}
    return tuple(entry for entry in entries if entry.id in wanted)
