"""Which partitions a command line names: by directory, or by log directory and topic."""

from __future__ import annotations

import argparse
import os
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from segstore.cli.bucket_paths import bucket_at
from segstore.cli.output import UsageError
from segstore.errors import LogNotFoundError, NotALogError, UnknownTopicOrPartitionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from segstore.log.lone_segment import LoneSegment
    from segstore.log.unified_log import Log
    from segstore.manager.log_manager import LogManager
    from segstore.types import TopicPartition


def add_partition_arguments(parser: Any, *, takes_files: bool = False) -> None:
    """Add ``PATH``, ``-t`` and ``-p``, as every command takes them that reads one topic."""
    if takes_files:
        parser.add_argument(
            "paths",
            metavar="PATH",
            nargs="+",
            help="directory of a partition (data/orders-0), or a log directory with -t; the same "
            "of a tiered bucket (s3://archive/kafka/orders-0); or .log files of one partition, a "
            "quoted pattern of them, or a tar archive",
        )
    else:
        parser.add_argument(
            "path",
            metavar="PATH",
            help="directory of a partition (data/orders-0), or a log directory with -t",
        )
    parser.add_argument("-t", "--topic", help="topic, when PATH is a log directory")
    parser.add_argument(
        "-p", "--partition", type=partition_number, help="partition (default: all of the topic)"
    )


def add_as_argument(parser: Any) -> None:
    """Add ``--as``, for a directory or a file whose name is that of no partition."""
    parser.add_argument(
        "--as",
        dest="as_",
        metavar="TOPIC-N",
        help="read PATH, which may be a copy such as orders-0.bak, as this partition",
    )


def read_as(as_: str | None) -> TopicPartition | None:
    """Return the partition that ``--as`` names."""
    from segstore.log.files.partition_directory import parse_directory_name

    return None if as_ is None else parse_directory_name(as_)


class ReadableLog(NamedTuple):
    """A log that a command line names."""

    open: Callable[[], AbstractContextManager[Log | LoneSegment]]
    is_of_bucket: bool = False
    """What its last records begin may be ended by records that are not in the bucket."""


def readable_logs(paths: Sequence[str], arguments: argparse.Namespace) -> list[ReadableLog]:
    """Return the logs that *paths*, ``-t`` and ``-p`` name, in order of their numbers.

    Partitions of a log directory or of a bucket; or files alone, which are one log together.
    Errors are those of `selected_partitions` and `bucket_at`.
    """
    from segstore.log.lone_files import is_of_files
    from segstore.log.lone_segment import open_to_read

    topic, number, as_ = arguments.topic, arguments.partition, arguments.as_
    if arguments.remote is not None:
        return _both_parts(paths, topic, number, arguments.remote)
    bucket = bucket_at(paths[0], arguments) if len(paths) == 1 else None
    if bucket is not None:
        chosen = bucket.selected(topic, number)
        return [ReadableLog(partial(bucket.open, one), is_of_bucket=True) for one in chosen]
    found: Sequence[str | Sequence[str]] = [paths]
    if topic is not None or number is not None or (len(paths) == 1 and not is_of_files(paths[0])):
        if len(paths) > 1:
            raise UsageError("-t and -p go with one PATH, a log directory")
        found = selected_partitions(paths[0], topic, number)
    return [ReadableLog(partial(open_to_read, one, as_=as_)) for one in found]


def _both_parts(
    paths: Sequence[str], topic: str | None, number: int | None, remote: str
) -> list[ReadableLog]:
    """Return tiered logs of a log directory, which go on in remote storage."""
    if len(paths) > 1:
        raise UsageError("--remote goes with one PATH: a partition's directory, or that of logs")
    found = selected_partitions(paths[0], topic, number)
    return [ReadableLog(partial(open_both_parts, one, remote)) for one in found]


@contextmanager
def open_both_parts(path: str, remote: str) -> Iterator[Log]:
    """Open a partition's directory to read it, with what of it is in remote storage."""
    import segstore
    from segstore.log.files.partition_directory import parse_directory_name

    directory = Path(path).absolute()
    with segstore.open_dir(directory.parent, read_only=True, remote=remote) as logs:
        yield logs.log(*parse_directory_name(directory.name))


def partition_number(text: str) -> int:
    """Read a partition's number, for argparse."""
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is no partition number")
    return int(text)


def selected_partitions(path: str, topic: str | None, partition: int | None) -> list[str]:
    """Return the partition directories that the arguments name, in order of their numbers.

    Raises
    ------
    UsageError
        ``-p`` without ``-t``, or a log directory without ``-t``.
    LogNotFoundError, UnknownTopicOrPartitionError
        What is named is not there.
    """
    if topic is None:
        if partition is not None:
            raise UsageError("-p goes with -t: PATH alone names a partition's directory")
        check_is_partition(path)
        return [path]
    found = sorted(
        (number, name) for name_topic, number, name in partitions_of(path) if name_topic == topic
    )
    if not found:
        raise UnknownTopicOrPartitionError(f"there is no topic {topic!r} in {path}", file=path)
    if partition is not None:
        found = [(number, name) for number, name in found if number == partition]
        if not found:
            raise UnknownTopicOrPartitionError(
                f"topic {topic!r} has no partition {partition} in {path}", file=path
            )
    return [f"{path}/{name}" for _, name in found]


def all_partitions(path: str, as_: str | None = None, others: Sequence[str] = ()) -> list[str]:
    """Return *path* itself when it is a partition's directory, else all those in it and *others*.

    Raises
    ------
    UsageError
        It holds partitions, and *as_* names one.
    LogNotFoundError
        There is no such directory.
    NotALogError
        It is neither a partition nor does it hold one.
    """
    if is_partition(path) or holds_log(path):
        return [path]
    if as_ is not None:
        raise UsageError("--as is for one partition: PATH is a directory of several")
    found = sorted(
        (topic, number, f"{one}/{name}")
        for one in (path, *others)
        for topic, number, name in partitions_of(one)
        if holds_log(f"{one}/{name}")
    )
    if not found:
        raise NotALogError(
            "neither a partition's directory nor one that holds partitions", file=path
        )
    return [found_path for _, _, found_path in found]


def partitions_of(path: str) -> list[tuple[str, int, str]]:
    """Return (topic, partition, directory name) of each partition in a log directory.

    A topic whose making was interrupted is not there.
    """
    from segstore._core import Directory
    from segstore.log.files.partition_directory import (
        is_partition_directory_name,
        parse_directory_name,
    )
    from segstore.manager.partition_directories import read_with_topics

    def look() -> list[str]:
        with os.scandir(path) as entries:
            return [
                entry.name
                for entry in entries
                if is_partition_directory_name(entry.name) and entry.is_dir()
            ]

    try:
        with closing(Directory(path)) as directory:
            names, unfinished = read_with_topics(directory, look)
    except (LogNotFoundError, FileNotFoundError) as error:
        raise _no_directory(path) from error
    except (NotALogError, NotADirectoryError) as error:
        raise NotALogError("this is a file, not a directory of logs", file=path) from error
    found = [(parse_directory_name(name), name) for name in names]
    return [(*partition, name) for partition, name in found if not unfinished.hides(partition)]


def add_log_dir_argument(parser: argparse.ArgumentParser) -> None:
    """Add ``--log-dir``, for directories that are used together."""
    parser.add_argument(
        "--log-dir",
        action="append",
        default=[],
        dest="others",
        metavar="DIR",
        help="another log directory of the same topics; repeat it for more",
    )


def log_dirs(arguments: argparse.Namespace) -> list[str]:
    """Return the log directories that are used together, as they were typed.

    Raises
    ------
    LogNotFoundError, NotALogError
        One is not there, or is a file: an open for writing would make it.
    """
    directories = [arguments.path, *arguments.others]
    for one in directories:
        if is_partition(one) and arguments.others:
            raise UsageError(f"{one} is the directory of one partition: name the one above it")
    return directories


@contextmanager
def opened_together(
    directories: list[str], arguments: argparse.Namespace, **options: Any
) -> Iterator[LogManager]:
    """Open log directories for a command; the error of one that cannot be opened ends it."""
    import segstore

    with segstore.open_dir(directories, metadata_log=arguments.metadata_log, **options) as logs:
        for error in logs.offline_directories().values():
            raise error
        yield logs


def path_in(directories: list[str], partition: TopicPartition) -> str:
    """Return the path of a partition, in that of the directories where it lies."""
    paths = [f"{one.rstrip('/')}/{partition}" for one in directories]
    return next(filter(os.path.isdir, paths), paths[0])


def add_wait_argument(parser: argparse.ArgumentParser) -> None:
    """Add ``--wait``, for commands that write."""
    parser.add_argument(
        "--wait",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="how long to wait while another program has the lock (default: not at all)",
    )


def add_remote_argument(parser: argparse.ArgumentParser, what: str) -> None:
    """Add ``--remote``, for the directories of tiered topics."""
    parser.add_argument(
        "--remote",
        metavar="URL",
        help=f"remote storage of topics with remote.storage.enable=true, as s3://bucket/tier or a"
        f" folder: {what}",
    )


def add_metadata_log_argument(parser: argparse.ArgumentParser) -> None:
    """Add ``--metadata-log``, for a broker's directory that is not the first of its log.dirs."""
    parser.add_argument(
        "--metadata-log",
        metavar="DIR",
        help="__cluster_metadata-0 of the broker, or the directory that holds it (default: that in"
        " DIR, if there is one)",
    )


def unlisted_directories(path: str) -> list[str]:
    """Return the directories in a log directory that hold a log under a name of no partition.

    A broker deletes or moves them, or somebody has copied them.
    """
    from segstore.log.files.partition_directory import has_unique_id, is_partition_directory_name

    found = []
    with suppress(OSError), os.scandir(path) as entries:
        for entry in entries:
            if is_partition_directory_name(entry.name) or not entry.is_dir(follow_symlinks=False):
                continue
            with suppress(OSError):  # of what may not be looked into nothing is known
                if has_unique_id(entry.name) or is_partition(entry.path):
                    found.append(entry.name)
    return sorted(found)


def is_partition(path: str) -> bool:
    """Whether *path* is a directory that holds segments, whatever its name.

    One that cannot be listed is, where it has the name of one: the check says what is wrong.

    Raises
    ------
    LogNotFoundError, NotALogError
        There is nothing at *path*, or a file.
    """
    from segstore._core import SegmentListing
    from segstore.log.files.partition_directory import is_partition_directory_name

    try:
        listing = SegmentListing(entry.name for entry in Path(path).iterdir())
    except FileNotFoundError as error:
        raise _no_directory(path) from error
    except NotADirectoryError as error:
        raise NotALogError(
            "this is a file: give the directory <topic>-<partition> that holds it; `segstore cat`"
            " and `segstore dump` read one file alone",
            file=path,
        ) from error
    except OSError:
        if is_partition_directory_name(Path(path).absolute().name):
            return True
        raise
    return bool(listing.base_offsets("log"))


def holds_log(path: str) -> bool:
    """Whether the directory is a log's, or was one: many a directory's name ends in a number."""
    from segstore.log.files.checkpoints import (
        LEADER_EPOCH_CHECKPOINT,
        LOG_STATE,
        PARTITION_METADATA,
    )
    from segstore.log.files.partition_directory import segment_files

    try:
        names = {name.name for name in Path(path).iterdir()}
    except OSError:  # told by who opens it
        return True
    return not names.isdisjoint({LEADER_EPOCH_CHECKPOINT, LOG_STATE, PARTITION_METADATA}) or any(
        file.kind == "log" for file in segment_files(list(names))
    )


def check_is_partition(path: str) -> None:
    """Refuse what is no partition, with a hint where it is a log directory."""
    if is_partition(path):
        return
    names = [name for _, _, name in sorted(partitions_of(path))]
    if names:
        topic = names[0].rpartition("-")[0]
        raise UsageError(
            f"{path} is a directory of {len(names)} partitions: name one, as in "
            f"{path.rstrip('/')}/{names[0]}, or a topic with -t {topic}"
        )
    raise NotALogError("this directory holds no .log file", file=path)


def _no_directory(path: str) -> LogNotFoundError:
    """Return the error of a path where nothing is; it names the partitions beside it."""
    from segstore.log.files.partition_path import absolute_path, hint_beside

    hint = hint_beside(absolute_path(path), None)
    return LogNotFoundError(f"there is no such file or directory{hint}", file=path)
