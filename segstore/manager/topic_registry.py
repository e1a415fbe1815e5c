"""Making topics, all or nothing: ``topics.json`` says how far each has come [DUR-11, DUR-23].

``creating`` is on stable storage before the first directory is made, and ``live`` follows the last
log. A creation that fails removes what it made; after a kill, the next open for writing removes it.
Nobody lists a topic that is not live. ``deleting`` is for a topic that a user asked to delete: only
then records go with it [DUR-6].
"""

from __future__ import annotations

import logging
from contextlib import closing
from typing import TYPE_CHECKING, Final

from segstore._core import Barrier, Directory, FileBarrier
from segstore.errors import AlreadyExistsError, LogNotFoundError, SegstoreError
from segstore.log.files.checkpoints import read_topic_id
from segstore.log.files.partition_directory import (
    LOG_FILE_SUFFIX,
    directory_name,
    is_partition_directory_name,
    parse_directory_name,
    parse_file_name,
)
from segstore.log.files.partition_metadata_file import PartitionMetadataFile
from segstore.log.files.partition_path import is_of_an_empty_log
from segstore.log.files.topics_file import (
    TOPICS_FILE,
    TopicEntry,
    TopicState,
    format_topics,
    read_topics,
)
from segstore.log.files.tree_removal import remove_trees
from segstore.manager.partition_directories import UNREADABLE_TOPICS
from segstore.manager.topic_directories import new_topic_id
from segstore.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

HEADER_BYTES: Final = 17
"""Offset, size, leader epoch and magic of a batch."""

_log = logging.getLogger(__name__)


class TopicRegistry:
    """The topics of a log directory whose ``.lock`` is held; guarded by the manager's mutex.

    Parameters
    ----------
    directory : Directory
        The log directory.
    forget : callable
        Removes what is known of older partitions, whose directories are gone [DUR-121].
    open_log : callable
        Opens the log of a partition, and makes it where there is none.
    close_logs : callable
        Ends the logs of partitions that are open, without a write.
    """

    def __init__(
        self,
        directory: Directory,
        forget: Callable[[Sequence[TopicPartition]], None],
        open_log: Callable[[TopicPartition], object],
        close_logs: Callable[[Iterable[TopicPartition]], None],
    ) -> None:
        self._directory = directory
        self._forget = forget
        self._open_log = open_log
        self._close_logs = close_logs
        self._topics: dict[str, TopicEntry] | None = None  # as the file says
        self._is_in_doubt = False  # a write was interrupted: the file may be ahead

    def reconcile(self) -> None:
        """Finish or undo what a process left that was killed.

        What cannot be done now is told, stays unlisted, and is tried again by the next open.
        """
        try:
            topics = self._known()
        except UNREADABLE_TOPICS:  # told by who lists the directory
            return
        for name, entry in [*topics.items()]:
            if entry.state is not TopicState.LIVE:
                try:
                    self._reconcile(name, entry)
                except (SegstoreError, OSError) as error:
                    _log.warning(
                        "%s: topic %r was left %s by a process that was killed, and cannot be"
                        " settled now: %s",
                        self._directory.path,
                        name,
                        entry.state.value,
                        error,
                    )

    def entry_of(self, name: str) -> TopicEntry | None:
        """Return what the file says of a topic, None where it does not name it.

        Raises
        ------
        CorruptCheckpointError, UnsupportedFormatError
            ``topics.json`` cannot be read.
        """
        return self._known().get(name)

    def alter(self, name: str, entry: TopicEntry) -> None:
        """Write down what a topic that is live was given, durably."""
        self._write({**self._known(), name: entry})

    def create(self, name: str, partitions: int, config: Mapping[str, str]) -> None:
        """Make a topic: all of it, or nothing.

        Raises
        ------
        AlreadyExistsError
            A directory of the topic is here.
        CorruptCheckpointError, UnsupportedFormatError
            ``topics.json`` cannot be read: nothing was made.
        SegstoreError
            What kept it from being made; a note says so where something of it is left.
        """
        left = self._known().get(name)
        if left is not None and left.state is not TopicState.LIVE:
            self._reconcile(name, left)
        self._check_is_new(name)
        entry = TopicEntry(new_topic_id(), partitions, TopicState.CREATING, config)
        self._write({**self._known(), name: entry})
        try:
            self._make(name, entry)
        except BaseException as error:
            try:
                self._undo(name, entry)
            except (SegstoreError, OSError) as another:
                error.add_note(
                    f"what was made of topic {name!r} is still there, unlisted; the next open for"
                    f" writing removes it, which failed now: {another}"
                )
            raise

    def _known(self) -> dict[str, TopicEntry]:
        if self._topics is None:
            self._topics = {**read_topics(self._directory)}
        return self._topics

    def _check_is_new(self, name: str) -> None:
        """Raise when there is any partition, made by whomever."""
        numbers = sorted(
            parse_directory_name(file).partition
            for file in self._directory.names(ordered=False)
            if file.startswith(f"{name}-")
            and is_partition_directory_name(file)
            and parse_directory_name(file).topic == name
            and self._directory.info(file).is_directory
        )
        if numbers:
            raise AlreadyExistsError(
                f"topic {name!r} exists, with {len(numbers)} partitions",
                file=self._directory.path,
                found=f"partitions {numbers}",
            )

    def _reconcile(self, name: str, entry: TopicEntry) -> None:
        if entry.state is TopicState.CREATING and any(
            _holds_more_than_an_empty_log(directory)
            for directory in self._directories(name, entry)
            if _may_be_of(directory, entry)
        ):
            self._make(name, entry)  # somebody has used them meanwhile: nothing is removed
        else:
            self._undo(name, entry)

    def _make(self, name: str, entry: TopicEntry) -> None:
        """Make what is missing of a topic, then say that it is live."""
        partitions = [TopicPartition(name, number) for number in range(entry.partitions)]
        names = {one: directory_name(one) for one in partitions}
        new = [one for one in partitions if not _is_directory(self._directory, names[one])]
        self._close_logs(new)  # of handles whose directory somebody has removed
        self._forget(new)
        for one in new:
            self._directory.make_directory(names[one])
        self._directory.sync(Barrier.NEW_DIRECTORY)
        for directory in self._directories(name, entry):
            metadata = PartitionMetadataFile(directory)
            if not metadata.exists and entry.topic_id is not None:
                metadata.record(entry.topic_id)
                metadata.maybe_flush()
        for one in partitions:
            self._open_log(one)
        self._write({**self._known(), name: entry._replace(state=TopicState.LIVE)})

    def _undo(self, name: str, entry: TopicEntry) -> None:
        """Remove what there is of a topic that is not live."""
        if self._is_in_doubt:  # it may be live on the disk: nobody may find a part of it
            self._write({**self._known(), name: entry})
        self._close_logs(TopicPartition(name, number) for number in range(entry.partitions))
        gone = [
            directory.path.rpartition("/")[2]
            for directory in self._directories(name, entry)
            if _may_be_of(directory, entry)
        ]
        remove_trees(self._directory, gone)
        self._write({key: value for key, value in self._known().items() if key != name})

    def _directories(self, name: str, entry: TopicEntry) -> Iterator[Directory]:
        """Open the directories of a topic, one after another; each is closed behind its turn."""
        above = self._directory
        for number in range(entry.partitions):
            there = directory_name(TopicPartition(name, number))
            if _is_directory(above, there):
                with closing(Directory(f"{above.path}/{there}", above.environment)) as directory:
                    yield directory

    def _write(self, topics: dict[str, TopicEntry]) -> None:
        directory, barrier = self._directory, FileBarrier.TOPICS
        directory.write_beside(TOPICS_FILE, format_topics(topics), barrier)
        self._is_in_doubt = True
        directory.put_in_place(TOPICS_FILE, barrier)
        self._topics, self._is_in_doubt = topics, False


def _is_directory(directory: Directory, name: str) -> bool:
    try:
        return directory.info(name).is_directory
    except LogNotFoundError:
        return False


def _may_be_of(directory: Directory, entry: TopicEntry) -> bool:
    """Whether a directory was made for the topic: it has its id, or no id and no records.

    A kill leaves it without an id before the id was written, or while the directory is removed.
    """
    found = read_topic_id(directory)
    if found is None:
        return not _holds_more_than_an_empty_log(directory)
    return found == entry.topic_id


def _holds_more_than_an_empty_log(directory: Directory) -> bool:
    """Whether there is what a creation does not make: a record, or a file of somebody else.

    Also where records were: all of them were deleted, or recovery has set them aside.
    """
    return any(_is_used(directory, name) for name in directory.names(ordered=False))


def _is_used(directory: Directory, name: str) -> bool:
    file = parse_file_name(name)
    if file is None:
        return not is_of_an_empty_log(name)
    if file.kind != LOG_FILE_SUFFIX:
        return False
    # a preallocated file begins with zeros, a batch does not
    return file.offset > 0 or any(directory.read_range(name, 0, HEADER_BYTES))
