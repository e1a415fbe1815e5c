"""What a log directory holds, by the names of the directories in it [LOC-24, DUR-98]."""

from __future__ import annotations

import logging
from contextlib import closing
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from segstore._core import Directory
from segstore.errors import (
    IllegalStateError,
    LogNotFoundError,
    NotALogError,
)
from segstore.log.files.checkpoints import (
    CLEAN_SHUTDOWN_MARKER,
    CLEANER_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    LOG_STATE,
    META_PROPERTIES,
    RECOVERY_POINT_CHECKPOINT,
)
from segstore.log.files.partition_directory import (
    FUTURE_DIRECTORY_SUFFIX,
    STRAY_DIRECTORY_SUFFIX,
    directory_name,
    has_indexes,
    has_unique_id,
    is_partition_directory_name,
    parse_directory_name,
    segment_files,
)
from segstore.log.files.partition_path import ANYBODYS, refuse_partition_directory
from segstore.log.files.topics_file import (
    TOPICS_FILE,
    UNREADABLE_TOPICS,
    TopicState,
    read_topics,
)
from segstore.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from segstore.log.files.topics_file import TopicEntry

_T = TypeVar("_T")

MOST_LOOKS: Final = 5
MOST_NAMED: Final = 5
LOG_DIRECTORY_FILES: Final = frozenset(
    {
        CLEANER_OFFSET_CHECKPOINT,
        CLEAN_SHUTDOWN_MARKER,
        HIGH_WATERMARK_CHECKPOINT,
        LOG_START_OFFSET_CHECKPOINT,
        META_PROPERTIES,
        RECOVERY_POINT_CHECKPOINT,
        TOPICS_FILE,
    }
)
"""Files that only a log directory has."""
_log = logging.getLogger(__name__)


def list_topic_partitions(directory: Directory) -> list[TopicPartition]:
    """Return the partitions of a log directory, sorted, but for topics that are not finished.

    A topic that is being made, or removed, by `LogManager` or Spark's sink is not there yet, or no
    more. Where ``topics.json`` cannot be read, all directories count, with a warning.
    """
    found, unfinished = read_with_topics(directory, lambda: list_partition_directories(directory))
    return [one for one in found if not unfinished.hides(one)]


class Unfinished(NamedTuple):
    """What does not count in a log directory: its making or removal is not finished.

    Attributes
    ----------
    topics : set of str
        Topics of which no partition counts.
    added : mapping of str to range
        The partitions that are being added to a topic.
    """

    topics: AbstractSet[str]
    added: Mapping[str, range]

    def hides(self, topic_partition: TopicPartition) -> bool:
        """Whether a partition does not count."""
        topic, partition = topic_partition
        return topic in self.topics or partition in self.added.get(topic, ())


def read_with_topics(directory: Directory, look: Callable[[], _T]) -> tuple[_T, Unfinished]:
    """Return what *look* finds in a log directory, and what does not count in it.

    A topic of which *look* may have seen a part only does not count: how many partitions there are
    decides where a key belongs. So ``topics.json`` must be the same file before and after the look,
    or the look is repeated. After some looks, topics count that the file has as the same finished
    ones before and after the last.

    Parameters
    ----------
    directory : Directory
        The log directory.
    look : callable
        Lists names in it, from the start each time.
    """
    signature = _signature(directory)
    for _ in range(MOST_LOOKS):
        topics = _topics(directory)
        found = look()
        before, signature = signature, _signature(directory)
        if signature == before:
            return found, _unfinished(topics)
    later = _topics(directory)
    changed = {name for name in topics.keys() | later if topics.get(name) != later.get(name)}
    topics_left_out, added = _unfinished(topics)
    return found, Unfinished(changed | topics_left_out, added)


def _topics(directory: Directory) -> Mapping[str, TopicEntry]:
    try:
        return read_topics(directory)
    except UNREADABLE_TOPICS as error:
        path = f"{directory.path}/{TOPICS_FILE}"
        _log.warning("%s cannot be read: %s", path, error.message)
        return {}


def _unfinished(topics: Mapping[str, TopicEntry]) -> Unfinished:
    return Unfinished(
        {name for name, entry in topics.items() if entry.state is not TopicState.LIVE},
        {name: entry.new_partitions for name, entry in topics.items() if entry.adding},
    )


def _signature(directory: Directory) -> tuple[int, int, int] | None:
    """Return what tells one ``topics.json`` from the next, None where there is none."""
    try:
        info = directory.info(TOPICS_FILE)
    except LogNotFoundError:
        return None
    return info.inode, info.size, info.changed_ns


def list_partition_directories(directory: Directory) -> list[TopicPartition]:
    """Return the partitions that have a directory, sorted.

    Directories that are being deleted, moved or that are stray (``-delete``, ``-future``,
    ``-stray``), files, and names that are no partition's are left out; so is what vanishes
    meanwhile.
    """
    names = directory.names(ordered=False)
    found = (partition_of(directory, name) for name in names)
    return sorted(one for one in found if one is not None)


def has_unopened_logs(directory: Directory) -> bool:
    """Whether there are logs that a broker opens, and nothing here does: moved or stray ones."""
    return bool(unopened_directories(directory))


def unopened_directories(directory: Directory) -> list[str]:
    """Return the names that end in ``-stray`` or ``-future``: nothing here opens them [DUR-122]."""
    suffixes = (FUTURE_DIRECTORY_SUFFIX, STRAY_DIRECTORY_SUFFIX)
    return [name for name in directory.names() if name.endswith(suffixes)]


def partition_of(directory: Directory, name: str) -> TopicPartition | None:
    """Return whose directory *name* is, None where it is no directory of a live partition."""
    if not is_partition_directory_name(name):
        return None
    try:
        return parse_directory_name(name) if directory.info(name).is_directory else None
    except LogNotFoundError:
        return None


def holds_a_log(directory: Directory, topic_partition: TopicPartition) -> bool:
    """Whether there is a segment in a partition's directory; one may just look like a partition."""
    with _partition_directory(directory, topic_partition) as partition:
        return partition.has_segments()


def held_a_log(directory: Directory, topic_partition: TopicPartition) -> bool:
    """Whether there is an index of a segment: with no ``.log``, the files of a log were lost."""
    with _partition_directory(directory, topic_partition) as partition:
        return has_indexes(segment_files(partition.names()))


def was_closed_cleanly(directory: Directory, topic_partition: TopicPartition) -> bool:
    """Whether the last writer of a partition's log left its own marker [DUR-24]."""
    with _partition_directory(directory, topic_partition) as partition:
        return partition.exists(CLEAN_SHUTDOWN_MARKER)


def refuse_other_directory(directory: Directory) -> None:
    """Raise `NotALogError` when *directory* has files, and none is of a log directory.

    A new disk, which has nothing or ``lost+found``, is an empty log directory.
    """
    others = [name for name in directory.names(ordered=False) if name not in ANYBODYS]
    if not others or any(map(_is_of_log_directory, others)):
        return
    shown = sorted(others)
    more = f" and {len(shown) - MOST_NAMED} more" if len(shown) > MOST_NAMED else ""
    raise NotALogError(
        "this is no log directory: it holds other files only",
        file=directory.path,
        found=f"{', '.join(shown[:MOST_NAMED])}{more}",
        expected="directories <topic>-<partition>, topics.json or meta.properties",
    )


def _is_of_log_directory(name: str) -> bool:
    return (
        name in LOG_DIRECTORY_FILES
        or name.startswith(LOG_STATE)
        or is_partition_directory_name(name)
        or has_unique_id(name)
    )


def first_missing(numbers: Sequence[int]) -> int:
    """Return the first partition that is not among *numbers*, which ascend."""
    return next((n for n, number in enumerate(numbers) if n != number), len(numbers))


def check_no_gap(
    directory: Directory, topic: str, numbers: Sequence[int], where_to_name_it: str = ""
) -> None:
    """Raise when partitions of a topic are missing below the last: keys cannot be spread.

    Somebody has lost them, or a process was killed that made the topic from its last partition on,
    as an earlier version of Spark's sink did.
    """
    missing = first_missing(numbers)
    if missing < len(numbers):
        path = f"{directory.path}/{directory_name(TopicPartition(topic, missing))}"
        raise IllegalStateError(
            f"topic {topic!r} has only the partitions {[*numbers]} here, and the number of"
            " partitions decides where a key belongs. Name the partition"
            f"{where_to_name_it}, or restore those that are missing;"
            f" segstore.open({path!r}).close() makes an empty one",
            file=directory.path,
            found=str([*numbers]),
            expected="partitions 0, 1, 2 … without a gap",
        )


def partitions_with_logs(path: str) -> list[TopicPartition]:
    """Return the partitions in the log directory *path* that hold a log, sorted.

    Those that have lost all of it but its indexes, too: they are not passed over in silence, their
    open says what is missing.

    Raises
    ------
    LogNotFoundError, NotALogError
        There is no directory, or it is one partition's.
    """
    with closing(Directory(path)) as directory:
        refuse_partition_directory(directory)
        return [
            key
            for key in list_topic_partitions(directory)
            if holds_a_log(directory, key) or held_a_log(directory, key)
        ]


def _partition_directory(
    directory: Directory, topic_partition: TopicPartition
) -> closing[Directory]:
    return closing(Directory(f"{directory.path}/{directory_name(topic_partition)}"))
