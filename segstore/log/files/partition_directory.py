"""Names of partition directories and of the files in them, parsed and made [LOC-24, DUR-98]."""

from __future__ import annotations

import re
from bisect import bisect_right
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import uuid4

from segstore.arguments import integer
from segstore.errors import IllegalArgumentError, InvalidTopicError, NotALogError
from segstore.types import TopicPartition

if TYPE_CHECKING:
    from array import array
    from collections.abc import Iterable
    from uuid import UUID

    from segstore._core import Directory, SegmentListing

MAX_OFFSET: Final = 2**63 - 1
MAX_PARTITION: Final = 2**31 - 1
MAX_TOPIC_LENGTH: Final = 249
MAX_NAME_LENGTH: Final = 255

LOG_FILE_SUFFIX: Final = "log"
INDEX_FILE_SUFFIXES: Final = ("index", "timeindex", "txnindex")
INDEX_ENTRY_BYTES: Final = {"index": 8, "timeindex": 12}
MAX_INDEX_BYTES: Final = 2**31 - 1
DELETED_FILE_SUFFIX: Final = ".deleted"
CLEANED_FILE_SUFFIX: Final = ".cleaned"
SWAP_FILE_SUFFIX: Final = ".swap"

DELETE_DIRECTORY_SUFFIX: Final = "-delete"
STRAY_DIRECTORY_SUFFIX: Final = "-stray"
FUTURE_DIRECTORY_SUFFIX: Final = "-future"
_DIRECTORY_SUFFIXES: Final = (
    DELETE_DIRECTORY_SUFFIX,
    STRAY_DIRECTORY_SUFFIX,
    FUTURE_DIRECTORY_SUFFIX,
)

_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}", re.ASCII)
_PARTITION = re.compile(r"0|[1-9][0-9]{0,9}", re.ASCII)
_UNIQUE_ID_DIRECTORY = re.compile(r"(\S+)-(\S+)\.(\S+)-(?:delete|stray|future)", re.ASCII)
_DELETED_DIRECTORY = re.compile(rf"\.[0-9a-f]{{32}}{DELETE_DIRECTORY_SUFFIX}\Z", re.ASCII)
_OFFSET = re.compile(r"\+?[0-9]{1,40}", re.ASCII)
_SEGMENT_FILE = re.compile(
    r"([0-9]{20})\.(log|index|timeindex|txnindex|snapshot)(\.deleted|\.cleaned|\.swap)?", re.ASCII
)


def list_during_writes(directory: Directory) -> tuple[SegmentListing, array[int]]:
    """Return the names in *directory* and the base offsets of its ``.log`` files, none left out.

    While a directory is read, others may roll: of the files made meanwhile a listing has any, also
    the second one without the first, which looks like lost records. What was made before the last
    file of one listing is in the next one.
    """
    before = directory.segment_listing().base_offsets(LOG_FILE_SUFFIX)
    while True:
        listing = directory.segment_listing()
        bases = listing.base_offsets(LOG_FILE_SUFFIX)
        is_in_both = bisect_right(bases, before[-1]) if before else 0
        if is_in_both or not bases:
            return listing, bases[:is_in_both]
        before = bases  # all of it was replaced meanwhile


def check_topic(topic: str) -> str:
    """Return *topic* when it is a legal name.

    Raises
    ------
    InvalidTopicError
        The name is empty, ``.``, ``..``, longer than 249 characters or holds other characters than
        ASCII letters, digits, ``.``, ``_`` and ``-`` [DUR-98].
    """
    name: object = topic
    if not isinstance(name, str) or name in {".", ".."} or not _TOPIC.fullmatch(name):
        raise InvalidTopicError(
            f"{topic!r} is no topic name",
            found=repr(topic),
            expected="1 to 249 of the characters a-z A-Z 0-9 . _ - and neither '.' nor '..'",
        )
    return topic


def check_partition(partition: int) -> int:
    """Return *partition* when it is a legal number, 0 to 2^31 - 1 (`InvalidTopicError` if not)."""
    if not 0 <= integer("partition", partition) <= MAX_PARTITION:
        raise InvalidTopicError(
            f"{partition} is no partition number", found=str(partition), expected="0 to 2147483647"
        )
    return partition


def directory_name(topic_partition: TopicPartition) -> str:
    """Return ``<topic>-<partition>``, both checked."""
    topic, partition = topic_partition
    return f"{check_topic(topic)}-{check_partition(partition)}"


def delete_directory_name(topic_partition: TopicPartition) -> str:
    """Return a new name for a directory that is being deleted (Kafka ``logDeleteDirName``).

    ``<topic>-<partition>.<32 hexadecimal digits>-delete``; the topic is cut where the name would be
    longer than a file system takes [LOC-24].
    """
    return _capped_name(topic_partition, DELETE_DIRECTORY_SUFFIX)


def stray_directory_name(topic_partition: TopicPartition) -> str:
    """Return a new name for a directory that nobody knows any more (Kafka ``logStrayDirName``).

    As `delete_directory_name`, with ``-stray`` [LOC-24].
    """
    return _capped_name(topic_partition, STRAY_DIRECTORY_SUFFIX)


def future_directory_name(topic_partition: TopicPartition) -> str:
    """Return a new name for a copy that will take a log's place (Kafka ``logFutureDirName``).

    ``<topic>-<partition>.<32 hexadecimal digits>-future``, never cut [LOC-24].
    """
    return f"{directory_name(topic_partition)}.{uuid4().hex}{FUTURE_DIRECTORY_SUFFIX}"


def restoring_directory_name(topic_partition: TopicPartition, topic_id: UUID) -> str:
    """Return the name for a directory that is not restored yet; a later run finds it again.

    It is that of a stray one: a broker, and we, leave such a directory alone [LOC-24].
    """
    return _capped_name(topic_partition, STRAY_DIRECTORY_SUFFIX, topic_id)


def _capped_name(topic_partition: TopicPartition, suffix: str, unique: UUID | None = None) -> str:
    topic, dash, partition = directory_name(topic_partition).rpartition("-")
    ending = f"{dash}{partition}.{(unique or uuid4()).hex}{suffix}"
    return topic[: MAX_NAME_LENGTH - len(ending)] + ending


def parse_directory_name(name: str) -> TopicPartition:
    """Return the topic and partition that a directory's *name* says.

    Kafka ``parseTopicPartitionName``. Names with ``.<unique id>-delete``, ``-stray`` and
    ``-future`` are parsed too.

    Raises
    ------
    NotALogError
        The name is not of the form ``<topic>-<partition>``.
    InvalidTopicError
        It is, but the topic part is no legal topic name.
    """
    stem = name
    if has_unique_id(name):
        if not _UNIQUE_ID_DIRECTORY.fullmatch(name):
            raise _no_partition_directory(name)
        stem = name.rpartition(".")[0]
    topic, dash, partition = stem.rpartition("-")
    if not dash or not topic or not _PARTITION.fullmatch(partition):
        raise _no_partition_directory(name)
    return TopicPartition(check_topic(topic), check_partition(int(partition)))


def is_directory_of(path: str, topic_partition: TopicPartition) -> bool:
    """Whether the directory at *path* has a name of that partition."""
    with suppress(NotALogError, InvalidTopicError):
        return parse_directory_name(path.rpartition("/")[2]) == topic_partition
    return False


def has_unique_id(name: str) -> bool:
    """Whether *name* is that of a directory being deleted or moved, or of a stray one."""
    return name.endswith(_DIRECTORY_SUFFIXES)


def is_deleted_directory_name(name: str) -> bool:
    """Whether *name* is one that a broker, or we, give a partition to delete it [MGR-60].

    Only then: a directory with another name may be anyone's [DUR-124].
    """
    if not _DELETED_DIRECTORY.search(name):
        return False
    try:
        parse_directory_name(name)
    except (NotALogError, InvalidTopicError):
        return False
    return True


def is_partition_directory_name(name: str) -> bool:
    """Whether *name* is that of a live partition directory."""
    try:
        parse_directory_name(name)
    except (NotALogError, InvalidTopicError):
        return False
    return not has_unique_id(name)


def _no_partition_directory(name: str) -> NotALogError:
    return NotALogError(
        f"the directory name {name!r} is not <topic>-<partition>, as in 'orders-0'",
        file=name,
        found=repr(name),
        expected="<topic>-<partition>",
    )


class SegmentFile(NamedTuple):
    """A file of a segment or a producer snapshot, by its name."""

    offset: int
    kind: str
    """``log``, ``index``, ``timeindex``, ``txnindex`` or ``snapshot``."""
    suffix: str
    """Empty, ``.deleted``, ``.cleaned`` or ``.swap``."""

    @property
    def name(self) -> str:
        """The file's name."""
        return f"{file_name(self.offset, self.kind)}{self.suffix}"


def file_name(offset: int, kind: str) -> str:
    """Return the name of a segment's file: ``00000000000000000042.log`` for 42 and ``log``."""
    return f"{offset:020d}.{kind}"


def parse_file_name(name: str) -> SegmentFile | None:
    """Return what *name* says, None for every name that is not ours to touch [DUR-98]."""
    match = _SEGMENT_FILE.fullmatch(name)
    if match is None:
        return None
    offset = int(match[1])
    return None if offset > MAX_OFFSET else SegmentFile(offset, match[2], match[3] or "")


def segment_files(names: Iterable[str]) -> list[SegmentFile]:
    """Return the segment files and snapshots among *names*, in their order."""
    return [parsed for name in names if (parsed := parse_file_name(name)) is not None]


def has_indexes(files: Iterable[SegmentFile]) -> bool:
    """Whether there is an index of a segment: with no ``.log``, the files of a log were lost."""
    return any(not file.suffix and file.kind in INDEX_ENTRY_BYTES for file in files)


def offset_from_file_name(name: str) -> int:
    """Return the number before the first dot of *name* (Kafka ``offsetFromFileName``).

    Raises
    ------
    IllegalArgumentError
        There is none that an offset can be (Kafka ``NumberFormatException``) [LDR-2, LDR-11].
    """
    digits = name.partition(".")[0]
    offset = int(digits) if _OFFSET.fullmatch(digits) else None
    if offset is None or not 0 <= offset <= MAX_OFFSET:
        raise IllegalArgumentError(
            f"the file name {name!r} does not begin with an offset",
            file=name,
            found=repr(digits),
            expected="a number from 0 to 2^63 - 1",
        )
    return offset
