"""``segstore topics``: make, change, describe, delete and list topics, as ``kafka-topics.sh``."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

from segstore.cli.output import Progress, UsageError, count_of, print_table, say, write_line
from segstore.cli.partition_paths import (
    add_log_dir_argument,
    add_metadata_log_argument,
    add_remote_argument,
    add_wait_argument,
)
from segstore.cli.policy_text import given_properties, policy_of_topic, stray_text, strays_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from segstore.manager.log_manager import LogManager
    from segstore.manager.topic_description import TopicDescription, TopicSetting


def register(parser: argparse.ArgumentParser) -> None:
    """Describe the command and its arguments."""
    parser.description = (
        "The topics of a log directory and their settings, which are Kafka's and stay in "
        "topics.json. Nothing deletes records until a topic is given cleanup.policy, retention.ms "
        "or retention.bytes. Topics of a broker's metadata log go by its settings, and are changed "
        "with Kafka's tools. A change needs the directory for itself: stop its writer."
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    described = actions.add_parser("list", help="all topics, with what deletes their records")
    _add_directory(described)
    described.add_argument("--json", action="store_true", help="one JSON object a topic")
    described.set_defaults(action=_list)

    created = actions.add_parser("create", help="make a topic: all partitions or none")
    _add_topic(created)
    add_wait_argument(created)
    add_remote_argument(created, "the topic may have remote.storage.enable=true")
    created.add_argument("--partitions", type=int, default=1, metavar="N", help="how many (1)")
    _add_config(created, "a setting, such as retention.ms=604800000; repeat it for more")
    _add_quiet(created)
    created.set_defaults(action=_create)

    altered = actions.add_parser("alter", help="other settings, more partitions: all or nothing")
    _add_topic(altered)
    add_wait_argument(altered)
    add_remote_argument(altered, "what a setting ends is deleted there")
    altered.add_argument(
        "--partitions", type=int, metavar="N", help="how many there are to be: not fewer"
    )
    _add_config(altered, "a setting that the topic is to have; repeat it for more")
    altered.add_argument(
        "--delete-config",
        action="append",
        default=[],
        metavar="KEY",
        help="a setting that the topic is to have no more; repeat it for more",
    )
    _add_quiet(altered)
    altered.set_defaults(action=_alter)

    shown = actions.add_parser("describe", help="id, partitions, and settings with their source")
    _add_directory(shown)
    shown.add_argument("topic", metavar="TOPIC", nargs="?", help="default: all topics")
    shown.add_argument("--all", action="store_true", help="also settings that are defaults")
    shown.add_argument("--json", action="store_true", help="one JSON object a topic")
    shown.set_defaults(action=_describe)

    deleted = actions.add_parser("delete", help="delete a topic with all its records")
    _add_topic(deleted)
    add_wait_argument(deleted)
    add_remote_argument(deleted, "what the topic has there is deleted too")
    deleted.set_defaults(action=_delete)

    forgotten = actions.add_parser(
        "forget-directory",
        help="give up a log directory that is gone for good",
        description="Give up a log directory that was used with the others, with the records that "
        "are only there. Its id is in the error that says it is missing. Topics can be changed "
        "again after that.",
    )
    _add_directory(forgotten)
    add_wait_argument(forgotten)
    forgotten.add_argument("id", metavar="ID", help="the directory id")
    forgotten.set_defaults(action=_forget_directory)


def _add_directory(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="DIR", help="a log directory")
    add_log_dir_argument(parser)
    add_metadata_log_argument(parser)


def _add_topic(parser: argparse.ArgumentParser) -> None:
    _add_directory(parser)
    parser.add_argument("topic", metavar="TOPIC")


def _add_quiet(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-q", dest="quiet", action="store_true", help="no progress on stderr")


def _add_config(parser: argparse.ArgumentParser, help_text: str) -> None:
    parser.add_argument(
        "--config", action="append", default=[], metavar="KEY=VALUE", help=help_text
    )


def run(arguments: argparse.Namespace) -> int:
    """Do what the action says."""
    action: Callable[[argparse.Namespace], None] = arguments.action
    action(arguments)
    return 0


def _open(arguments: argparse.Namespace) -> LogManager:
    """Open a directory that is there, to read it."""
    import segstore

    paths = [arguments.path, *arguments.others]
    return segstore.open_dir(paths, read_only=True, metadata_log=arguments.metadata_log)


def _open_to_write(arguments: argparse.Namespace) -> LogManager:
    import segstore

    paths = [arguments.path, *arguments.others]
    return segstore.open_dir(
        paths,
        metadata_log=arguments.metadata_log,
        lock_timeout=arguments.wait,
        remote=getattr(arguments, "remote", None),
    )


def _list(arguments: argparse.Namespace) -> None:
    with _open(arguments) as logs:
        topics = logs.topics()
        policies = {topic: policy_of_topic(logs, topic) for topic in topics}
        strays = strays_of(logs)
    for one, reason in strays.items():
        say(f"segstore: {arguments.path}: {stray_text(str(one), reason)}")
    if arguments.json:
        for topic, numbers in topics.items():
            stray = {one.partition: reason for one, reason in strays.items() if one.topic == topic}
            policy = policies[topic]
            row = {"topic": topic, "partitions": len(numbers), "policy": policy, "stray": stray}
            write_line(json.dumps(row))
        return
    rows = [(topic, str(len(numbers)), policies[topic]) for topic, numbers in topics.items()]
    print_table(("TOPIC", "PARTITIONS", "POLICY"), rows)


def _create(arguments: argparse.Namespace) -> None:
    config = given_properties(arguments.config)
    with _open_to_write(arguments) as logs, Progress(quiet=arguments.quiet) as progress:
        made = logs.create_topic(
            arguments.topic,
            arguments.partitions,
            config=config,
            progress=partial(progress, arguments.topic),
        )
    write_line(f"{arguments.topic}: created, with {count_of(len(made), 'partition')}")


def _alter(arguments: argparse.Namespace) -> None:
    _open(arguments).close()  # a directory that is not there is not made
    given, taken_back = given_properties(arguments.config), dict.fromkeys(arguments.delete_config)
    for key in given.keys() & taken_back.keys():
        raise UsageError(f"--config and --delete-config both name {key}: name it in one of them")
    config = {**given, **taken_back}
    with _open_to_write(arguments) as logs, Progress(quiet=arguments.quiet) as progress:
        described = logs.alter_topic(
            arguments.topic,
            config,
            partitions=arguments.partitions,
            progress=partial(progress, arguments.topic),
        )
    _print(described, with_defaults=False)


def _describe(arguments: argparse.Namespace) -> None:
    with _open(arguments) as logs:
        names = [arguments.topic] if arguments.topic is not None else [*logs.topics()]
        described = [logs.describe_topic(name) for name in names]
    for one in described:
        if arguments.json:
            write_line(json.dumps(_fields(one, with_defaults=arguments.all)))
        else:
            _print(one, with_defaults=arguments.all)


def _delete(arguments: argparse.Namespace) -> None:
    _open(arguments).close()
    with _open_to_write(arguments) as logs:
        logs.delete_topic(arguments.topic)
    write_line(f"{arguments.topic}: deleted")


def _forget_directory(arguments: argparse.Namespace) -> None:
    _open(arguments).close()
    with _open_to_write(arguments) as logs:
        logs.forget_directory(arguments.id)
    write_line(f"{arguments.id}: given up")


def _print(described: TopicDescription, *, with_defaults: bool) -> None:
    shown = _fields(described, with_defaults=with_defaults)
    count = count_of(len(described.partitions), "partition")
    write_line(f"{described.name}: {count}, topic id {shown['topic_id'] or 'unknown'}")
    rows = [(f"  {one['name']}", _text(one["value"]), one["source"]) for one in shown["settings"]]
    print_table(("  SETTING", "VALUE", "SOURCE"), rows)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        return "-"
    return ",".join(value) if isinstance(value, list) else str(value)


def _fields(described: TopicDescription, *, with_defaults: bool) -> dict[str, Any]:
    from segstore.log.files.partition_metadata_file import topic_id_text
    from segstore.manager.topic_description import SettingSource

    topic_id = described.topic_id
    return {
        "topic": described.name,
        "topic_id": None if topic_id is None else topic_id_text(topic_id),
        "partitions": [*described.partitions],
        "settings": [
            _setting(one)
            for one in described.settings
            if with_defaults or one.source is not SettingSource.DEFAULT
        ],
    }


def _setting(one: TopicSetting) -> dict[str, Any]:
    value = [*one.value] if isinstance(one.value, tuple) else one.value
    return {"name": one.name, "value": value, "source": one.source.value}
