"""Topics are made and deleted whole: ``topics.json`` says how far each has come [DUR-11, DUR-23].

``creating`` is on stable storage before the first directory is made, and ``live`` follows the last
log. A creation that fails removes what it made; after a kill, the next open for writing removes it.
Partitions that are added to a topic go the same way. ``deleting`` is for a topic that a user asked
to delete: only then records go with it [DUR-6]. The next open for writing finishes a deletion.
A topic, or a new partition, that is not live is in no list.
"""

from __future__ import annotations

import logging
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Final

from segstore._core import Barrier, Directory, FileBarrier
from segstore.errors import (
    AlreadyExistsError,
    CorruptCheckpointError,
    InconsistentTopicIdError,
    LimitExceededError,
    LogNotFoundError,
    SegstoreError,
)
from segstore.log.files.checkpoints import read_topic_id
from segstore.log.files.partition_directory import (
    LOG_FILE_SUFFIX,
    directory_name,
    is_partition_directory_name,
    parse_directory_name,
    parse_file_name,
)
from segstore.log.files.partition_metadata_file import PartitionMetadataFile, topic_id_text
from segstore.log.files.partition_path import is_of_an_empty_log
from segstore.log.files.topics_file import (
    TOPICS_FILE,
    UNREADABLE_TOPICS,
    TopicEntry,
    TopicState,
    format_topics,
    read_topics,
)
from segstore.log.files.tree_removal import remove_trees
from segstore.manager.topic_directories import new_topic_id
from segstore.types import TopicPartition

if TYPE_CHECKING:
    import uuid
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from segstore.manager.current_logs import CurrentLogs
    from segstore.manager.deleted_partitions import DeletedPartitions

HEADER_BYTES: Final = 17
"""Offset, size, leader epoch and magic of a batch."""

_NO_ID: Final = (CorruptCheckpointError, LimitExceededError)
"""What says of ``partition.metadata`` that nothing can be read of it."""

_log = logging.getLogger(__name__)


class TopicRegistry:
    """The topics of a log directory whose ``.lock`` is held; guarded by the manager's mutex.

    Parameters
    ----------
    directory : Directory
        The log directory.
    logs : CurrentLogs
        Opens the logs of new partitions, and ends those of deleted ones.
    deleted : DeletedPartitions
        Gets the directories of deleted partitions.
    """

    def __init__(self, directory: Directory, logs: CurrentLogs, deleted: DeletedPartitions) -> None:
        self._directory = directory
        self._logs = logs
        self._deleted = deleted
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
            if entry.state is not TopicState.LIVE or entry.adding:
                try:
                    self._reconcile(name, entry)
                except (SegstoreError, OSError) as error:
                    _log.warning(
                        "%s: topic %r was left %s by a process that was killed, and cannot be"
                        " settled now: %s",
                        self._directory.path,
                        name,
                        "with new partitions" if entry.adding else entry.state.value,
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
        self.settle(name)
        self._check_is_new(name)
        entry = TopicEntry(new_topic_id(), partitions, TopicState.CREATING, config)
        self._make_or_undo(name, entry, entry._replace(state=TopicState.LIVE))

    def grow(self, name: str, entry: TopicEntry, then: TopicEntry) -> None:
        """Add partitions to a topic: all of them, or none.

        Parameters
        ----------
        name : str
            The topic.
        entry, then : TopicEntry
            As the topic is before, and as it is to be after.
        """
        adding = then.partitions - entry.partitions
        self._make_or_undo(name, entry._replace(adding=adding), then)

    def settle(self, name: str) -> bool:
        """Finish or undo what was left of a topic; returns whether its deletion was finished."""
        left = self._known().get(name)
        if left is None or (left.state is TopicState.LIVE and not left.adding):
            return False
        self._reconcile(name, left)
        return left.state is TopicState.DELETING

    def delete(self, name: str, numbers: Sequence[int]) -> None:
        """Delete a topic with its partitions: all of it, or nothing [MGR-63, DUR-121].

        Raises
        ------
        InconsistentTopicIdError
            The partitions have different topic ids: nothing was deleted.
        CorruptCheckpointError, UnsupportedFormatError
            ``topics.json`` cannot be read: nothing was deleted.
        SegstoreError
            What kept it from being deleted; a note says so where the deletion has begun.
        """
        old = self._known().get(name)
        entry = TopicEntry(
            self._one_id(name, numbers, old),
            numbers[-1] + 1,
            TopicState.DELETING,
            {} if old is None else old.config,
        )
        try:
            self._write({**self._known(), name: entry})
            self._finish_deletion(name, entry)
        except BaseException as error:
            if self._is_in_doubt and self._known().get(name) is not entry:
                with suppress(SegstoreError, OSError):
                    self._write(self._known())  # the topic stays
            if self._is_in_doubt or self._known().get(name) is entry:
                self._logs.close_all_quietly(TopicPartition(name, one) for one in numbers)
                error.add_note(
                    f"topic {name!r} is unlisted, and is deleted by the next open for writing, or"
                    " by another delete_topic"
                )
            raise

    def delete_partition(self, topic_partition: TopicPartition) -> None:
        """Delete one partition, and none of the others: as a broker does that gives it up."""
        self._doom([topic_partition])

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
        if entry.state is TopicState.DELETING:
            self._finish_deletion(name, entry)
        elif any(
            _holds_more_than_an_empty_log(directory)
            for directory in self._directories(name, entry.new_partitions)
            if _may_be_of(directory, entry)
        ):  # a program has used them meanwhile: nothing is removed
            count = entry.new_partitions.stop
            made = entry._replace(state=TopicState.LIVE, partitions=count, adding=0)
            self._make(name, entry, made)
        else:
            self._undo(name, entry)

    # ---- making ----------------------------------------------------------------------------------

    def _make_or_undo(self, name: str, entry: TopicEntry, made: TopicEntry) -> None:
        self._write({**self._known(), name: entry})
        try:
            self._make(name, entry, made)
        except BaseException as error:
            try:
                self._undo(name, entry)
            except (SegstoreError, OSError) as another:
                error.add_note(
                    f"what was made of topic {name!r} is still there, unlisted; the next open for"
                    f" writing removes it, which failed now: {another}"
                )
            raise

    def _make(self, name: str, entry: TopicEntry, made: TopicEntry) -> None:
        """Make what is missing of the new partitions, then say that they are live."""
        partitions = [TopicPartition(name, number) for number in entry.new_partitions]
        names = {one: directory_name(one) for one in partitions}
        new = [one for one in partitions if not _is_directory(self._directory, names[one])]
        self._logs.close_all_quietly(new)  # of handles whose directory somebody has removed
        with self._logs.forgetting_state_of(new):
            for one in new:
                self._directory.make_directory(names[one])
        self._directory.sync(Barrier.NEW_DIRECTORY)
        for directory in self._directories(name, entry.new_partitions):
            metadata = PartitionMetadataFile(directory)
            if not metadata.exists and entry.topic_id is not None:
                metadata.record(entry.topic_id)
                metadata.maybe_flush()
        for one in partitions:
            self._logs.find_or_open(one)
        self._write({**self._known(), name: made})

    def _undo(self, name: str, entry: TopicEntry) -> None:
        """Remove what there is of new partitions that are not live."""
        if self._is_in_doubt:  # it may be live on the disk: nobody may find a part of it
            self._write({**self._known(), name: entry})
        self._logs.close_all_quietly(TopicPartition(name, one) for one in entry.new_partitions)
        gone = [
            directory.path.rpartition("/")[2]
            for directory in self._directories(name, entry.new_partitions)
            if _may_be_of(directory, entry)
        ]
        remove_trees(self._directory, gone)
        left = {key: value for key, value in self._known().items() if key != name}
        if entry.adding:
            left[name] = entry._replace(adding=0)
        self._write(left)

    # ---- deleting --------------------------------------------------------------------------------

    def _one_id(
        self, name: str, numbers: Iterable[int], entry: TopicEntry | None
    ) -> uuid.UUID | None:
        """Return the id that all partitions have, once those without one were given it.

        By the id, a deletion that is interrupted finds its directories, and no later ones.
        """
        found: dict[str, uuid.UUID] = {}
        without: list[str] = []
        for number in numbers:
            topic_partition = TopicPartition(name, number)
            there = directory_name(topic_partition)
            log = self._logs.find_in_place(topic_partition)
            topic_id = None if log is None else log.topic_id
            if topic_id is None:
                with self._open(there) as directory, suppress(*_NO_ID):
                    topic_id = read_topic_id(directory)
            if topic_id is None:
                without.append(there)
            else:
                found[there] = topic_id
        ids = {*found.values()}
        if len(ids) > 1:
            raise InconsistentTopicIdError(
                f"the partitions of {name!r} are of several topics: delete_partition deletes one of"
                " them",
                file=self._directory.path,
                found=", ".join(f"{topic_id_text(one)} in {file}" for file, one in found.items()),
                expected="one topic id",
            )
        known = ids.pop() if ids else None if entry is None else entry.topic_id
        topic_id = known or new_topic_id()
        for there in without:
            with self._open(there) as directory:
                PartitionMetadataFile(directory).write(topic_id)
        return topic_id

    def _finish_deletion(self, name: str, entry: TopicEntry) -> None:
        """Give the directories of a topic other names, then forget the topic."""
        self._doom(
            [
                parse_directory_name(directory.path.rpartition("/")[2])
                for directory in self._directories(name, range(entry.partitions))
                if _may_be_of(directory, entry)
            ]
        )
        self._write({key: value for key, value in self._known().items() if key != name})

    def _doom(self, topic_partitions: Sequence[TopicPartition]) -> None:
        """Give directories names that end in ``-delete``, durably; they are removed later."""
        with self._logs.forgetting_state_of(topic_partitions):
            for one in topic_partitions:
                self._deleted.add(self._logs.rename_for_deletion(one))
        self._directory.sync(Barrier.DOOMED_DIRECTORY)

    # ---- files -----------------------------------------------------------------------------------

    def _open(self, name: str) -> closing[Directory]:
        return closing(Directory(f"{self._directory.path}/{name}", self._directory.environment))

    def _directories(self, name: str, numbers: Iterable[int]) -> Iterator[Directory]:
        """Open directories of a topic, one after another; each is closed after its turn."""
        for number in numbers:
            there = directory_name(TopicPartition(name, number))
            if _is_directory(self._directory, there):
                with self._open(there) as directory:
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
