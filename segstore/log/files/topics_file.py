"""``topics.json`` of a log directory: the topics that this library has made, and their settings.

Source: DESIGN D16; docs/formats.md has every byte.

The file is the intent of a change. A topic is *creating* before its first directory is made, and
*live* when the last log is there. It is *deleting* before the first directory gets another name,
and not in the file after the last one. What it says is never guessed from a damaged file. Topics
that a broker, or an earlier version, has made are in it once they were given settings.
"""

from __future__ import annotations

import base64
import json
import re
import uuid
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from segstore._core import crc32c
from segstore.errors import (
    CorruptCheckpointError,
    InvalidTopicError,
    LimitExceededError,
    NotALogError,
    UnsupportedFormatError,
)
from segstore.log.files.checkpoints import MAX_CHECKPOINT_BYTES
from segstore.log.files.parsed_file import read_parsed
from segstore.log.files.partition_directory import (
    FUTURE_DIRECTORY_SUFFIX,
    MAX_PARTITION,
    check_topic,
    directory_name,
    parse_directory_name,
)
from segstore.log.files.partition_metadata_file import topic_id_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from segstore._core import Directory
    from segstore.types import TopicPartition

TOPICS_FILE: Final = "topics.json"
VERSION: Final = 1
UNREADABLE_TOPICS: Final = (
    CorruptCheckpointError,
    UnsupportedFormatError,
    NotALogError,
    LimitExceededError,
)
"""What says of ``topics.json`` that it cannot be used; other errors are of the disk."""

WAY_OUT: Final = (
    "reads and appends use the directories that exist. Mount the disks of all log directories, and"
    " look for topics with too few partitions. Then move the file away: topics can be made again"
    " then, and the settings of all topics are lost. Those of the directory count until each topic"
    " is given its own again. After that, an empty directory is taken for a new one"
)

_HEAD: Final = b'{"version":'
_ARRIVING: Final = b'],"arriving":[\n'
_DIRECTORIES: Final = b'],"directories":[\n'
_FIRST_LINE: Final = b'{"version":%d,"topics":[\n'
_LAST_LINE = re.compile(rb'\],"crc32c":(0|[1-9][0-9]{0,9})\}\n')
_TOPIC_ID = re.compile(r"[A-Za-z0-9_-]{22}", re.ASCII)
_KEYS: Final = {
    0: {"name", "id", "partitions", "state"},
    1: {"name", "id", "partitions", "adding", "state", "config"},
}
"""What a topic has, by the version of the file; version 0 has no settings."""
_KEYS_OF_SOME: Final = {0: set[str](), 1: {"here", "change"}}
"""What only some topics have."""


class TopicState(StrEnum):
    """How far a topic's making, or its removal, has come."""

    CREATING = "creating"
    LIVE = "live"
    DELETING = "deleting"


class TopicEntry(NamedTuple):
    """What the file says of a topic."""

    topic_id: uuid.UUID | None
    """None of a topic of a broker whose partitions have none."""
    partitions: int
    """The topic has the partitions 0 to this number less one."""
    state: TopicState
    config: Mapping[str, str] = MappingProxyType({})
    """What the topic was given, in Kafka's keys, as text."""
    adding: int = 0
    """So many partitions of a live topic are being made, from the number *partitions* on."""
    here: tuple[int, ...] | None = None
    """Those of the partitions that are being made in this directory; None = all of them."""
    change: int = 0
    """The number of the change that made it so; of several directories, the greatest counts."""

    def counts_for(self, topic_id: uuid.UUID | None) -> bool:
        """Whether it speaks of a partition with that id; None = a partition without one.

        Another id means that the topic was made again since, by a broker or by hand. The settings
        of the older topic would delete the records of this one [DUR-120, DUR-128].
        """
        return None in {self.topic_id, topic_id} or self.topic_id == topic_id

    @property
    def new_partitions(self) -> range:
        """The numbers of those that are being made."""
        if self.state is TopicState.CREATING:
            return range(self.partitions)
        return range(self.partitions, self.partitions + self.adding)

    @property
    def new_here(self) -> tuple[int, ...]:
        """The numbers of those that are being made in this directory."""
        return tuple(self.new_partitions) if self.here is None else self.here

    @property
    def is_finished(self) -> bool:
        """Whether all of the topic is there."""
        return self.state is TopicState.LIVE and not self.adding


class Arrival(NamedTuple):
    """What the file says of a partition that is moved here from another log directory [DUR-127]."""

    directory: str
    """The name of the copy while it is made, which ends in ``-future``."""
    source: str
    """The path of the log directory that the partition comes from."""
    end: int | None = None
    """Where the log ended when all of it was copied, and is on stable storage; None before."""

    @property
    def is_copied(self) -> bool:
        """Whether the copy counts, unless the log that was copied has another end since."""
        return self.end is not None


class TopicsFile(NamedTuple):
    """All that the file says."""

    topics: Mapping[str, TopicEntry]
    arrivals: Mapping[TopicPartition, Arrival]
    directories: Mapping[uuid.UUID, str] = MappingProxyType({})
    """Ids of all log directories that were opened together, and the last path of each.

    The first one is this directory. Empty where it was only opened alone.
    """


NOTHING_SAID: Final = TopicsFile(MappingProxyType({}), MappingProxyType({}))


def format_topics(
    topics: Mapping[str, TopicEntry],
    arrivals: Mapping[TopicPartition, Arrival] = NOTHING_SAID.arrivals,
    directories: Mapping[uuid.UUID, str] = NOTHING_SAID.directories,
) -> bytes:
    """Return the file's text: JSON, a line for each topic, and a CRC-32C of all lines before."""
    text = _FIRST_LINE % VERSION + _lines(_line(name, entry) for name, entry in topics.items())
    if arrivals:
        text += _ARRIVING + _lines(_arrival_line(key, one) for key, one in arrivals.items())
    if directories:
        text += _DIRECTORIES + _lines(_directory_line(key, one) for key, one in directories.items())
    return text + b'],"crc32c":%d}\n' % crc32c(text)


def _lines(lines: Iterable[str]) -> bytes:
    text = ",\n".join(lines).encode()
    return text + b"\n" if text else text


def _arrival_line(topic_partition: TopicPartition, arrival: Arrival) -> str:
    content = {
        "partition": directory_name(topic_partition),
        "directory": arrival.directory,
        "from": arrival.source,
        "end": arrival.end,
    }
    return json.dumps(content, separators=(",", ":"))


def _directory_line(directory_id: uuid.UUID, path: str) -> str:
    return json.dumps({"id": topic_id_text(directory_id), "path": path}, separators=(",", ":"))


def _line(name: str, entry: TopicEntry) -> str:
    topic_id = None if entry.topic_id is None else topic_id_text(entry.topic_id)
    topic: dict[str, Any] = {
        "name": name,
        "id": topic_id,
        "partitions": entry.partitions,
        "adding": entry.adding,
        "state": entry.state.value,
        "config": dict(sorted(entry.config.items())),
    }
    if entry.here is not None:
        topic["here"] = [*entry.here]
    if entry.change:
        topic["change"] = entry.change
    return json.dumps(topic, separators=(",", ":"))


def parse_topics(data: bytes) -> TopicsFile:
    """Return what a file says.

    Raises
    ------
    CorruptCheckpointError
        The content is not what was written.
    UnsupportedFormatError
        A later version of this library has written it.
    """
    text, _, _ = data.rpartition(b'],"crc32c":')
    last = _LAST_LINE.fullmatch(data, len(text))
    if last is None or not data.startswith(_HEAD):
        raise _damaged(
            "the file is cut off, or segstore did not write it", "a line with a checksum"
        )
    if int(last[1]) != crc32c(text):
        raise _damaged("its checksum is wrong", f"crc32c {crc32c(text)}", last[1].decode())
    try:
        content: Any = json.loads(data)
        version = content["version"]
        if version not in _KEYS:
            raise UnsupportedFormatError(
                f"version {version!r} of the file is unknown: a later segstore has written it",
                file=TOPICS_FILE,
                found=repr(version),
                expected=f"0 to {VERSION}",
            )
        topics = {topic["name"]: _entry(topic, version) for topic in content["topics"]}
        arriving = content.get("arriving", ())
        arrivals = dict(map(_arrival, arriving))
        listed = content.get("directories", ())
        directories = dict(map(_known_directory, listed))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        if isinstance(error, UnsupportedFormatError):
            raise
        raise _damaged("its checksum is right, and its content is not") from error
    if len(topics) != len(content["topics"]):
        raise _damaged("it names a topic twice")
    if len(arrivals) != len(arriving):
        raise _damaged("it names a partition twice")
    if len(directories) != len(listed):
        raise _damaged("it names a log directory twice")
    return TopicsFile(topics, arrivals, directories)


def _entry(topic: dict[str, Any], version: int) -> TopicEntry:
    name, topic_id, partitions = topic["name"], topic["id"], topic["partitions"]
    adding, state = topic.get("adding", 0), TopicState(topic["state"])
    keys, change = _KEYS[version], topic.get("change", 0)
    if topic.keys() - _KEYS_OF_SOME[version] != keys:
        raise ValueError(topic)
    if any(type(number) is not int for number in (partitions, adding, change)) or change < 0:
        raise ValueError(topic)
    if partitions < 1 or adding < 0 or partitions + adding > MAX_PARTITION:
        raise ValueError(topic)
    if adding and state is not TopicState.LIVE:
        raise ValueError(topic)
    try:
        check_topic(name)
    except InvalidTopicError as error:
        raise ValueError(topic) from error
    config = topic.get("config", {})
    if not all(isinstance(text, str) for text in (*config, *config.values())):
        raise ValueError(topic)
    parsed_id = None if topic_id is None and "config" in keys else _topic_id(topic_id)
    entry = TopicEntry(
        parsed_id, partitions, state, MappingProxyType(config), adding, change=change
    )
    return entry._replace(here=_here(topic["here"], entry)) if "here" in topic else entry


def _arrival(content: dict[str, Any]) -> tuple[TopicPartition, Arrival]:
    if content.keys() != {"partition", "directory", "from", "end"}:
        raise ValueError(content)
    end = content.pop("end")
    if not (end is None or (type(end) is int and end >= 0)):
        raise ValueError(content)
    if not all(isinstance(text, str) for text in content.values()):
        raise ValueError(content)
    partition, directory = content["partition"], content["directory"]
    try:
        topic_partition = parse_directory_name(partition)
        is_future = directory.endswith(FUTURE_DIRECTORY_SUFFIX)
        is_its_copy = is_future and parse_directory_name(directory) == topic_partition
    except (NotALogError, InvalidTopicError) as error:
        raise ValueError(content) from error
    if not is_its_copy or directory_name(topic_partition) != partition:
        raise ValueError(content)
    return topic_partition, Arrival(directory, content["from"], end)


def _known_directory(content: dict[str, Any]) -> tuple[uuid.UUID, str]:
    if content.keys() != {"id", "path"} or not isinstance(content["path"], str):
        raise ValueError(content)
    return _topic_id(content["id"]), content["path"]


def _here(numbers: list[Any], entry: TopicEntry) -> tuple[int, ...]:
    new = entry.new_partitions
    if type(numbers) is not list or any(
        type(number) is not int or number not in new for number in numbers
    ):
        raise ValueError(numbers)
    if len({*numbers}) != len(numbers):
        raise ValueError(numbers)
    return tuple(numbers)


def _topic_id(text: str) -> uuid.UUID:
    if not _TOPIC_ID.fullmatch(text):
        raise ValueError(text)
    topic_id = uuid.UUID(bytes=base64.urlsafe_b64decode(f"{text}=="))
    if topic_id_text(topic_id) != text or topic_id.int == 0:
        raise ValueError(text)
    return topic_id


def _damaged(
    what: str, expected: str | None = None, found: str | None = None
) -> CorruptCheckpointError:
    return CorruptCheckpointError(
        f"{what}; {WAY_OUT}", file=TOPICS_FILE, found=found, expected=expected
    )


def read_topics(directory: Directory) -> Mapping[str, TopicEntry]:
    """Return what the file of a log directory says of topics; nothing without one.

    Raises
    ------
    CorruptCheckpointError, UnsupportedFormatError
        See `parse_topics`.
    """
    return read_topics_file(directory).topics


def read_topics_file(directory: Directory) -> TopicsFile:
    """Return all that the file of a log directory says; nothing without one. Never change it.

    Raises
    ------
    CorruptCheckpointError, UnsupportedFormatError
        See `parse_topics`.
    """
    try:
        found = read_parsed(directory, TOPICS_FILE, parse_topics, MAX_CHECKPOINT_BYTES)
    except (CorruptCheckpointError, UnsupportedFormatError) as error:
        error.file = f"{directory.path}/{TOPICS_FILE}"
        raise
    return NOTHING_SAID if found is None else found
