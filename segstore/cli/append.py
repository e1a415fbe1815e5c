"""``segstore append``: records from stdin into a partition or topic, as ``kcat -P`` does.

What stands in one read of stdin is one append: a fast pipe makes large batches, and a line that is
typed is in the log before the next one.
"""

from __future__ import annotations

import json
import os
import sys
from base64 import b64decode
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING

from segstore.cli.held_interrupts import held_interrupts
from segstore.cli.output import UsageError, count_of, human_bytes, say
from segstore.cli.partition_paths import add_wait_argument, partition_number, partitions_of
from segstore.cli.record_format import unescape
from segstore.errors import (
    IllegalArgumentError,
    SegstoreError,
    UnknownTopicOrPartitionError,
)

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Collection, Iterable, Iterator

    from segstore._core import Record
    from segstore.types import LogAppendInfo

    Parser = Callable[[bytes], Record]
    Append = Callable[[list[Record]], list[tuple[str, LogAppendInfo]]]

READ_BYTES = 1024 * 1024
MAX_LINE_BYTES = 64 * 1024 * 1024

JSON_FIELDS = ("key", "value", "timestamp", "headers")
OTHER_JSON_FIELDS = ("topic", "partition", "offset", "timestampType", "leaderEpoch")
"""Printed by ``cat``; an append sets them again."""

CODECS = {"none": "producer", "gzip": "gzip", "snappy": "snappy", "lz4": "lz4", "zstd": "zstd"}


def register(parser: argparse.ArgumentParser) -> None:
    """Describe the command and its arguments."""
    parser.description = (
        "Append each line of stdin as a record. PATH is a partition's directory; it is created if "
        "it does not exist. With -t, PATH is a log directory, and the key chooses the partition as "
        "in Kafka's clients. Only --partitions creates a topic."
    )
    parser.add_argument("path", metavar="PATH", help="data/notes-0, or a log directory with -t")
    parser.add_argument("-t", "--topic", help="topic in the log directory PATH")
    parser.add_argument(
        "-p", "--partition", type=partition_number, help="append all records to this partition"
    )
    parser.add_argument(
        "--partitions",
        type=partition_number,
        metavar="N",
        help="create TOPIC with N partitions if it does not exist",
    )
    parser.add_argument(
        "-K", dest="key_delimiter", metavar="DELIM", help="DELIM separates key and value"
    )
    parser.add_argument("-k", dest="key", help="key of every record")
    parser.add_argument(
        "-D",
        dest="delimiter",
        default="\\n",
        metavar="DELIM",
        help="DELIM separates records (default: newline)",
    )
    parser.add_argument(
        "-H",
        dest="headers",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="header, repeatable",
    )
    parser.add_argument("-z", dest="codec", choices=CODECS, default="none", help="compression")
    parser.add_argument(
        "-Z", dest="empty_is_null", action="store_true", help="store an empty key or value as null"
    )
    parser.add_argument(
        "--format",
        choices=("lines", "jsonl"),
        default="lines",
        help="jsonl: lines of `cat --format jsonl` (offsets are new)",
    )
    parser.add_argument(
        "--durability",
        default="sync",
        metavar="MODE",
        help="none | messages=N | seconds=S | sync (default %(default)s)",
    )
    parser.add_argument(
        "-X",
        dest="settings",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="topic setting with Kafka's name, such as segment.bytes=1048576; repeatable",
    )
    add_wait_argument(parser)
    parser.add_argument("-q", dest="quiet", action="store_true", help="no summary on stderr")


def run(arguments: argparse.Namespace) -> int:
    """Append everything that stdin gives, then say what was done."""
    if arguments.topic is None and (arguments.partition, arguments.partitions) != (None, None):
        raise UsageError("-p and --partitions go with -t")
    parse = line_parser(arguments)
    delimiter = unescape(arguments.delimiter) if arguments.format == "lines" else b"\n"
    if not delimiter:
        raise UsageError("-D: the delimiter is empty")
    totals = Totals()
    try:
        with open_target(arguments) as append:
            for lines in chunks_of_lines(sys.stdin.fileno(), delimiter):
                records = [parse(line) for line in lines]
                with held_interrupts():  # else they may be in the log, and are not counted
                    for name, info in append(records):
                        totals.add(name, info)
    except KeyboardInterrupt:
        totals.say(quiet=arguments.quiet)
        raise
    except BaseException as error:
        if isinstance(error, SegstoreError):
            for number, info in error.appended.items():
                totals.add(f"{arguments.topic}-{number}", info)
        if totals.records:  # what was appended before the error stays
            totals.say(quiet=arguments.quiet)
        raise
    totals.say(quiet=arguments.quiet)
    return 0


def line_parser(arguments: argparse.Namespace) -> Parser:
    """Return the function that makes a record of a line."""
    from segstore._core import Record

    if arguments.format == "jsonl":
        return parse_jsonl
    headers = [parse_header(text) for text in arguments.headers]
    fixed_key = None if arguments.key is None else os.fsencode(arguments.key)
    key_delimiter = None if arguments.key_delimiter is None else unescape(arguments.key_delimiter)
    if key_delimiter == b"":
        raise UsageError("-K: the delimiter is empty")
    empty_is_null: bool = arguments.empty_is_null

    def parse(line: bytes) -> Record:
        key, value = fixed_key, line
        if key_delimiter is not None:
            before, found, after = line.partition(key_delimiter)
            if found:
                key, value = before, after
        if empty_is_null:
            return Record(value=value or None, key=key or None, headers=headers)
        return Record(key=key, value=value, headers=headers)

    return parse


def parse_header(text: str) -> tuple[str, bytes | None]:
    """Read ``name=value``; without ``=`` the value is null."""
    name, found, value = text.partition("=")
    return name, os.fsencode(value) if found else None


def parse_jsonl(line: bytes) -> Record:
    """Make a record of a line of ``cat --format jsonl``; key or value must be there.

    Raises
    ------
    UsageError
        The line is no such object.
    IllegalArgumentError
        It has a field that is not a record's, or neither a key nor a value.
    """
    from segstore._core import Record

    try:
        fields = json.loads(line)
        _check_fields(fields.keys())
        headers = [(str(name), _bytes(value)) for name, value in fields.get("headers") or ()]
        timestamp = fields.get("timestamp")
        if timestamp is not None and type(timestamp) is not int:
            raise TypeError(f"the timestamp is {json.dumps(timestamp)}")  # noqa: TRY301
        return Record(
            value=_bytes(fields.get("value")),
            key=_bytes(fields.get("key")),
            headers=headers,
            timestamp=timestamp,
        )
    except IllegalArgumentError:
        raise
    except (ValueError, TypeError, AttributeError) as error:
        raise UsageError(f"not a line of --format jsonl: {line[:60]!r}: {error}") from error


def _check_fields(fields: Collection[str]) -> None:
    expected = ", ".join(JSON_FIELDS)
    for name in fields:
        if name not in JSON_FIELDS and name not in OTHER_JSON_FIELDS:
            raise IllegalArgumentError(
                f"no record has a field {name[:80]!r}: the fields are {expected}"
                f" (the log sets {', '.join(OTHER_JSON_FIELDS)})",
                found=name,
                expected=expected,
            )
    if "key" not in fields and "value" not in fields:
        raise IllegalArgumentError(
            "no field is named key or value: a record without both holds nothing",
            found=", ".join(fields),
            expected=expected,
        )


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text, validate=True)


def chunks_of_lines(descriptor: int, delimiter: bytes) -> Iterator[list[bytes]]:
    """Yield the whole lines of each read; the last one may lack its delimiter."""
    rest = b""
    while data := os.read(descriptor, READ_BYTES):
        rest += data
        *lines, rest = rest.split(delimiter)
        if len(rest) > MAX_LINE_BYTES:
            raise UsageError(f"a line is longer than {MAX_LINE_BYTES} bytes")
        if lines:
            yield lines
    if rest:
        yield [rest]


@contextmanager
def open_target(arguments: argparse.Namespace) -> Iterator[Append]:
    """Open the partition or topic and give the function that appends a list of records to it."""
    import segstore
    from segstore.config.log_config import LogConfig

    properties = {"compression.type": CODECS[arguments.codec], **topic_settings(arguments.settings)}
    config = LogConfig.from_properties(properties)
    durability: str = arguments.durability
    wait: float = arguments.wait
    if arguments.topic is None:
        with segstore.open(
            arguments.path, durability=durability, config=config, lock_timeout=wait
        ) as log:
            yield lambda records: [(str(log.topic_partition), log.append(records))]
        return
    topic: str = arguments.topic
    if arguments.partitions is None:
        check_topic_exists(arguments.path, topic)
    with segstore.open_dir(
        arguments.path, durability=durability, config=config, lock_timeout=wait
    ) as manager:
        if topic not in manager.topics():
            manager.create_topic(topic, arguments.partitions)
        elif arguments.partitions not in {None, len(manager.topics()[topic])}:
            raise UsageError(
                f"--partitions: topic {topic!r} exists, with {len(manager.topics()[topic])}"
            )

        def append(records: list[Record]) -> list[tuple[str, LogAppendInfo]]:
            infos = manager.append(topic, records, partition=arguments.partition)
            return [(f"{topic}-{number}", info) for number, info in infos.items()]

        yield append


def topic_settings(settings: Iterable[str]) -> dict[str, str]:
    """Read ``-X KEY=VALUE``; a broker's other topic settings mean nothing to a log and are refused.

    Raises
    ------
    UsageError
        It is not of that form, there is no such setting, or it takes only true and false.
    """
    from dataclasses import fields

    from segstore.config.log_config import LogConfig, key_name

    kinds = {key_name(known.name): str(known.type) for known in fields(LogConfig)}
    properties = {}
    for setting in settings:
        key, found, value = setting.partition("=")
        if not found:
            raise UsageError(f"-X: {setting!r} is not KEY=VALUE")
        name = key.replace("_", ".").replace("-", ".")
        kind = kinds.get(name)
        if kind is None:
            near = get_close_matches(key, kinds, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(kinds))}"
            raise UsageError(f"-X: there is no setting {key!r}: {hint}")
        if kind == "bool" and value.strip().lower() not in {"true", "false"}:
            raise UsageError(f"-X: {key} is true or false, not {value!r}")
        properties[name] = value
    return properties


def check_topic_exists(path: str, topic: str) -> None:
    """Refuse a topic that is not there: a wrong letter must not make a new one."""
    topics = sorted({name for name, _, _ in partitions_of(path)})
    if topic not in topics:
        near = get_close_matches(topic, topics, 1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise UnknownTopicOrPartitionError(
            f"there is no topic {topic!r} in {path}: {hint}--partitions N makes it", file=path
        )


@dataclass(slots=True)
class Totals:
    """What was appended, for the summary."""

    records: int = 0
    size_bytes: int = 0
    offsets: dict[str, tuple[int, int]] = field(default_factory=dict)

    def add(self, name: str, info: LogAppendInfo) -> None:
        """Count one append to the partition *name*."""
        if info.records_count == 0:
            return
        self.records += info.records_count
        self.size_bytes += info.size_bytes
        first, _ = self.offsets.get(name, (info.base_offset, 0))
        self.offsets[name] = first, info.last_offset

    def say(self, *, quiet: bool) -> None:
        """Write the summary to stderr."""
        if not quiet:
            say(self.text())

    def text(self) -> str:
        """Return the summary: ``appended 2 records, 90 B: notes-0 offsets 0 to 1``."""
        where = ", ".join(
            f"{name} offsets {first} to {last}"
            for name, (first, last) in sorted(self.offsets.items())
        )
        summary = f"appended {count_of(self.records, 'record')}, {human_bytes(self.size_bytes)}"
        return f"{summary}: {where}" if where else summary
