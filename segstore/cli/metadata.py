"""``segstore metadata``: what a broker's disk knows of its cluster; ``write`` makes it know."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from segstore.cli.output import UsageError, count_of, human_time, print_table, say, write_line

if TYPE_CHECKING:
    import argparse

    from segstore.log.files.metadata_image import MetadataImage, TopicImage

TOPIC_COLUMNS: Final = ("TOPIC", "ID", "PARTITIONS", "SETTINGS")
PARTITION_COLUMNS: Final = ("PARTITION", "LEADER", "EPOCH", "REPLICAS", "ISR", "DIRECTORIES")
BROKER_COLUMNS: Final = ("BROKER", "STATE", "LISTENERS", "DIRECTORIES", "SETTINGS")
SECRETS: Final = re.compile(r"password|secret|jaas|keystore\.key|certificate")
"""Keys whose values are not printed."""
HIDDEN: Final = "(hidden)"
METADATA_VERSION: Final = 30
"""As in ``metadata_writing``, which is imported only where it is needed."""


def register(parser: argparse.ArgumentParser) -> None:
    """Describe the command and its arguments."""
    parser.description = (
        "Show what the metadata log of a KRaft cluster says, at its end or at an offset: topics "
        "with their ids and settings, partitions, brokers, features. Values of passwords and keys "
        "are hidden. stderr has what was left out: a write that was interrupted, records of "
        "unknown types."
    )
    parser.add_argument(
        "path",
        nargs="+",
        metavar="[write] DIR",
        help="__cluster_metadata-0, or the log directory that holds it (metadata.log.dir); with "
        "the word write before it: a log directory that never had a broker, whose metadata log "
        "is to be written, so that one takes its topics over",
    )
    parser.add_argument("-t", "--topic", help="the partitions of this topic")
    parser.add_argument(
        "--at",
        metavar="OFFSET",
        type=int,
        help="what was known before this offset, as far as no later snapshot has replaced it",
    )
    parser.add_argument("--json", action="store_true", help="everything, as one JSON object")
    writing = parser.add_argument_group("write")
    writing.add_argument("--node-id", type=int, default=1, metavar="N", help="node.id (1)")
    writing.add_argument("--cluster-id", metavar="ID", help="a new one, if there is none")
    writing.add_argument(
        "--metadata-version",
        type=int,
        default=METADATA_VERSION,
        metavar="LEVEL",
        help=f"level of metadata.version ({METADATA_VERSION}, of Kafka 4.3)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the image, or write the log."""
    match arguments.path:
        case [path]:
            return _show(arguments, path)
        case ["write", path]:
            return _write(arguments, path)
    raise UsageError(f"one directory, or the word write and one, not {' '.join(arguments.path)}")


def _write(arguments: argparse.Namespace, path: str) -> int:
    from segstore.manager.metadata_writing import write_metadata_log

    written = write_metadata_log(
        path,
        node_id=arguments.node_id,
        cluster_id=arguments.cluster_id,
        metadata_version=arguments.metadata_version,
    )
    write_line(
        f"{written.path}: {count_of(len(written.topics), 'topic')}, cluster.id="
        f"{written.cluster_id}, node.id={written.node_id}"
    )
    return 0


def _show(arguments: argparse.Namespace, path: str) -> int:
    from segstore.errors import OffsetOutOfRangeError
    from segstore.log.files.metadata_image_reader import read_metadata_image

    try:
        image = read_metadata_image(path, at=arguments.at)
    except OffsetOutOfRangeError as error:
        raise UsageError(str(error)) from error
    topic = None if arguments.topic is None else _topic(image, arguments.topic)
    for note in notes(image):
        say(f"segstore: {image.path}: {note}")
    if arguments.json:
        value = image_fields(image) if topic is None else _plain(topic._asdict())
        write_line(json.dumps(value, indent=2))
    elif topic is not None:
        print_table(PARTITION_COLUMNS, _partition_rows(topic))
    else:
        _print(image)
    return 0


def _topic(image: MetadataImage, name: str) -> TopicImage:
    topic = image.topics.get(name)
    if topic is None:
        known = ", ".join(image.topics) or "none"
        raise UsageError(f"{image.path}: there is no topic {name!r}; the topics are: {known}")
    return topic


def notes(image: MetadataImage) -> list[str]:
    """Return what a reader of the image should know of the files."""
    found = [
        f"{name} is incomplete: the snapshot before it, or the log, was read instead"
        for name in image.incomplete_snapshots
    ]
    if image.torn_bytes:
        found.append(
            f"{image.torn_bytes} bytes after the last whole batch are left out: a write was"
            " interrupted, and a broker cuts it"
        )
    if image.open_transaction_offset is not None:
        found.append(
            f"the records from offset {image.open_transaction_offset} on are left out: their"
            " transaction has no end"
        )
    if image.unknown_records:
        counts = ", ".join(f"{one} ({n})" for one, n in sorted(image.unknown_records.items()))
        found.append(f"records of unknown types are left out, by type: {counts}")
    return found


def image_fields(image: MetadataImage) -> dict[str, Any]:
    """Return an image as plain values; what JSON has no keys for is a list."""
    from segstore.log.files.metadata_image import ConfigResourceType

    fields: dict[str, Any] = {
        name: value for name, value in vars(image).items() if not name.startswith("topics_by_id")
    }
    fields["topics"] = {
        name: {**topic._asdict(), "config": _shown(image.topic_config(name))}
        for name, topic in image.topics.items()
    }
    fields["configs"] = [
        {"type": resource.type.name, "name": resource.name, "config": _shown(config)}
        for resource, config in image.configs.items()
        if resource.type != ConfigResourceType.TOPIC or resource.name not in image.topics
    ]
    fields["client_quotas"] = [
        {"entity": dict(entity), "quotas": quotas} for entity, quotas in image.client_quotas.items()
    ]
    fields["scram_iterations"] = [
        {"user": user, "mechanism": mechanism, "iterations": iterations}
        for (user, mechanism), iterations in image.scram_iterations.items()
    ]
    plain: dict[str, Any] = _plain(fields)
    return plain


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: ids as Kafka writes them, named tuples by their names."""
    from segstore.log.files.partition_metadata_file import topic_id_text

    if isinstance(value, UUID):
        return topic_id_text(value)
    if hasattr(value, "_asdict"):
        return _plain(value._asdict())
    if isinstance(value, Mapping):
        return {
            topic_id_text(name) if isinstance(name, UUID) else str(name): _plain(one)
            for name, one in value.items()
        }
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value


def _print(image: MetadataImage) -> None:
    levels = {"metadata.version": image.metadata_version, **image.features}
    write_line(image.path)
    write_line(
        f"end offset {image.end_offset}, epoch {image.last_epoch},"
        f" {human_time(image.last_timestamp)}, snapshot {image.snapshot or 'none'}"
    )
    write_line(f"features: {', '.join(f'{name} {level}' for name, level in levels.items())}")
    write_line("")
    print_table(BROKER_COLUMNS, _broker_rows(image))
    write_line("")
    print_table(TOPIC_COLUMNS, _topic_rows(image))


def _broker_rows(image: MetadataImage) -> list[list[str]]:
    return [
        [
            str(number),
            "fenced" if broker.is_fenced else "active",
            ", ".join(f"{name}://{one.host}:{one.port}" for name, one in broker.listeners.items()),
            ", ".join(map(_plain, broker.directories)) or "-",
            _settings(image.broker_config(number)),
        ]
        for number, broker in sorted(image.brokers.items())
    ]


def _topic_rows(image: MetadataImage) -> list[list[str]]:
    return [
        [
            name,
            _plain(topic.topic_id),
            str(len(topic.partitions)),
            _settings(image.topic_config(name)),
        ]
        for name, topic in image.topics.items()
    ]


def _partition_rows(topic: TopicImage) -> list[list[str]]:
    return [
        [
            str(number),
            "-" if one.leader < 0 else str(one.leader),
            str(one.leader_epoch),
            ",".join(map(str, one.replicas)),
            ",".join(map(str, one.isr)) or "-",
            ",".join(map(_plain, one.directories)),
        ]
        for number, one in topic.partitions.items()
    ]


def _settings(config: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in sorted(_shown(config).items())) or "-"


def _shown(config: Mapping[str, str]) -> dict[str, str]:
    return {key: HIDDEN if SECRETS.search(key) else value for key, value in config.items()}
