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

OTHERWISE = {
    "no-bootstrap": "the path takes the place of kafka.bootstrap.servers",
    "partition-by": "Spark refuses it for a sink in Python, there it is ignored",
    "save-path": "the path is the log directory, there it is ignored",
    "bad-kafka.acks": CLIENT,
    "bad-kafka.transactional.id": CLIENT,
    "round-robin": "partitioners of Kafka's producer are Java classes",
    "mode-errorifexists": MODE,
    "mode-error": MODE,
    "mode-None": MODE,
    "stream-update": "Spark has no update mode for a sink in Python",
}
"""Entries that are deliberately answered otherwise (id without ``sink/``), and why."""

OTHER_WORDS = {
    "java.lang.NullPointerException": "null header",
    "org.apache.kafka.common.errors.InvalidTopicException": "is no topic name",
}
"""Where the connector says little or nothing."""

OTHER_WORDS_OF = {
    "value-variant": "value attribute unsupported type variant",
    "mode-ignore": "UNSUPPORTED_DATA_SOURCE_SAVE_MODE",
}
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
    mode: str | None = None
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
        """Why the answer is not compared; None = it is."""
        return OTHERWISE.get(self.name)

    @property
    def is_refused_without_rows(self) -> bool:
        """Whether the connector refuses options or columns, before any task runs."""
        first = self.error["chain"][0]["class"] if self.error else ""
        return first.endswith(("AnalysisException", ".IllegalArgumentException"))

    @property
    def words(self) -> str:
        """What an error has to say."""
        if self.name in OTHER_WORDS_OF:
            return OTHER_WORDS_OF[self.name]
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
    """A fixed fifth that has one of each group."""
    entries = [entry for entry in sink_entries(folder) if entry.left_out is None]
    first = {entry.group: entry for entry in reversed(entries)}
    wanted = {entry.id for entry in entries[::8]} | {entry.id for entry in first.values()}
    return tuple(entry for entry in entries if entry.id in wanted)
