"""What a change of a topic does in one log directory, step by step [DUR-11, DUR-23].

``topics.json`` of the directory is the intent. `SharedTopics` has the order of the steps, over all
directories in which the topic has partitions.
"""

from __future__ import annotations

from contextlib import ExitStack, closing, suppress
from typing import TYPE_CHECKING, Final

from segstore._core import Barrier, Directory, FileBarrier
from segstore.errors import (
    CorruptCheckpointError,
    IllegalStateError,
    LimitExceededError,
    LogLockedError,
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
from segstore.log.files.partition_metadata_file import PartitionMetadataFile
from segstore.log.files.partition_path import is_of_an_empty_log
from segstore.log.files.postponed_syncs import PostponedSyncs
from segstore.log.files.topics_file import (
    TOPICS_FILE,
    Arrival,
    TopicEntry,
    TopicsFile,
    format_topics,
    read_topics_file,
)
from segstore.log.files.tree_removal import remove_tree
from segstore.types import TopicPartition

if TYPE_CHECKING:
    import uuid
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from segstore.manager.current_logs import CurrentLogs
    from segstore.manager.deleted_partitions import DeletedPartitions

HEADER_BYTES: Final = 17
"""Offset, size, leader epoch and magic of a batch."""

_ROUND: Final = 256
"""So many partitions are written before the first of them is synced; two files of each are open."""
_NO_ID: Final = (CorruptCheckpointError, LimitExceededError)
"""What says of ``partition.metadata`` that nothing can be read of it."""


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
        self._file: TopicsFile | None = None  # what it says
        self._is_in_doubt = False  # a write was interrupted: the file may be ahead

    def entry_of(self, name: str) -> TopicEntry | None:
        """Return what the file says of a topic, None where it does not name it.

        Raises
        ------
        CorruptCheckpointError, UnsupportedFormatError
            ``topics.json`` cannot be read.
        """
        return self._known().get(name)

    def reread(self) -> None:
        """Read the file again at the next look: another process may have changed it."""
        self._file = None

    def all_entries(self) -> Mapping[str, TopicEntry]:
        """Return what the file says of all topics; raises as `entry_of`."""
        return self._known()

    def holds(self, name: str) -> bool:
        """Whether a partition of a topic has a directory here, made by whomever."""
        return bool(self.numbers_of(name))

    def numbers_of(self, name: str) -> list[int]:
        """Return the partitions of a topic that have a directory here, made by whomever."""
        return sorted(
            parse_directory_name(file).partition
            for file in self._directory.names(ordered=False)
            if file.startswith(f"{name}-")
            and is_partition_directory_name(file)
            and parse_directory_name(file).topic == name
            and self._directory.info(file).is_directory
        )

    def know_directories(self, directories: Mapping[uuid.UUID, str]) -> None:
        """Write down which log directories are used together, this one first, durably."""
        known = self._known_file().directories
        if self._is_in_doubt or [*known.items()] != [*directories.items()]:
            self._write(directories=directories)

    def put(self, name: str, entry: TopicEntry) -> None:
        """Write down what a topic is, durably."""
        self._write({**self._known(), name: entry})

    def create(self, name: str, entry: TopicEntry) -> None:
        """Write down which partitions are about to be made, durably."""
        self.put(name, entry)

    def arrivals(self) -> Mapping[TopicPartition, Arrival]:
        """Return what the file says of partitions that are moved here; raises as `entry_of`."""
        return self._known_file().arrivals

    def expect(
        self, topic_partition: TopicPartition, arrival: Arrival, entry: TopicEntry | None
    ) -> None:
        """Write down that a partition is moved here, and of which topic it is, durably."""
        topics = self._known()
        if entry is not None:
            topics = {**topics, topic_partition.topic: entry}
        self._write(topics, arrivals={**self.arrivals(), topic_partition: arrival})

    def withdraw_arrival(self, topic_partition: TopicPartition, arrival: Arrival) -> None:
        """Say again that a copy does not count, where the file may say that it does."""
        if self._is_in_doubt or self.arrivals().get(topic_partition, arrival) != arrival:
            self.expect(topic_partition, arrival, None)

    def end_arrival(self, topic_partition: TopicPartition) -> None:
        """Write down that a move is over, durably."""
        if self._is_in_doubt or topic_partition in self.arrivals():
            left = {key: one for key, one in self.arrivals().items() if key != topic_partition}
            self._write(arrivals=left)

    def is_used(self, name: str, entry: TopicEntry) -> bool:
        """Whether a program has put something into new partitions: nothing of them is removed."""
        return any(
            _holds_more_than_an_empty_log(directory)
            for directory in self._directories(name, entry.new_here)
            if _may_be_of(directory, entry)
        )

    def _known(self) -> Mapping[str, TopicEntry]:
        return self._known_file().topics

    def _known_file(self) -> TopicsFile:
        if self._file is None:
            self._file = read_topics_file(self._directory)
        return self._file

    # ---- making ----------------------------------------------------------------------------------

    def make(self, name: str, entry: TopicEntry, made: Callable[[int], None]) -> None:
        """Make what is missing of the new partitions that belong here; `put` makes them live.

        Parameters
        ----------
        name : str
            The topic.
        entry : TopicEntry
            What the file says of it.
        made : callable
            Called with how many partitions are whole and synced since the call before.
        """
        partitions = [TopicPartition(name, number) for number in entry.new_here]
        names = {one: directory_name(one) for one in partitions}
        new = [one for one in partitions if not _is_directory(self._directory, names[one])]
        self._logs.close_all_quietly(new)  # of handles whose directory somebody has removed
        with self._logs.forgetting_state_of(new):
            for one in new:
                self._directory.make_directory(names[one])
        self._directory.sync(Barrier.NEW_DIRECTORY)
        for first in range(0, len(new), _ROUND):
            one_round = new[first : first + _ROUND]
            self._fill(one_round, entry.topic_id)
            made(len(one_round))
        left = [one for one in partitions if one not in {*new}]
        with self._logs.locking(left):
            for directory in self._directories(name, [one.partition for one in left]):
                metadata = PartitionMetadataFile(directory)
                if not metadata.exists and entry.topic_id is not None:
                    metadata.record(entry.topic_id)
                    metadata.maybe_flush()
        for one in left:
            self._logs.find_or_open(one)
            made(1)

    def _fill(self, new: Sequence[TopicPartition], topic_id: uuid.UUID | None) -> None:
        """Make the files of new and empty directories: all are written, then all are synced."""
        with self._logs.locking(new), ExitStack() as opened:
            ids = PostponedSyncs()
            for one in new:
                directory = opened.enter_context(self._open(directory_name(one)))
                ids.add(directory)
                if topic_id is not None:
                    PartitionMetadataFile(directory).write(topic_id)
            ids.sync_files()
        logs = PostponedSyncs()
        try:
            for one in new:
                self._logs.open_new(one, logs)
            logs.sync_files()
            logs.sync_names()  # with those of the ids
        except BaseException:
            self._logs.close_all_quietly(new)  # none goes on without its syncs
            raise

    def withdraw(self, name: str, entry: TopicEntry) -> None:
        """Say again that the new partitions are not live, where the file may say that they are."""
        if self._is_in_doubt or self._known().get(name) != entry:
            self.put(name, entry)

    def undo(self, name: str, entry: TopicEntry) -> None:
        """Remove what there is of new partitions that are not live.

        What another process writes, or has written, stays, and so does the entry of the topic.

        Raises
        ------
        LogLockedError, IllegalStateError
            The first partition that stays.
        """
        self._logs.close_all_quietly(TopicPartition(name, one) for one in entry.new_here)
        kept: SegstoreError | None = None
        for directory in self._directories(name, entry.new_here):
            if _may_be_of(directory, entry):
                try:
                    self._remove_unused(directory)
                except (LogLockedError, IllegalStateError) as error:
                    kept = kept or error
        self._directory.sync(Barrier.REMOVED_DIRECTORY)
        if kept is not None:
            raise kept
        left = {key: value for key, value in self._known().items() if key != name}
        if entry.adding and self.holds(name):
            left[name] = entry._replace(adding=0, here=None)
        self._write(left)

    def _remove_unused(self, directory: Directory) -> None:
        name = directory.path.rpartition("/")[2]
        with self._logs.locking([parse_directory_name(name)]):
            if _holds_more_than_an_empty_log(directory):
                raise IllegalStateError(
                    "the new partition was written before its topic was whole: it is not removed",
                    file=directory.path,
                )
            remove_tree(self._directory, name)

    # ---- deleting --------------------------------------------------------------------------------

    def ids_of(self, name: str) -> dict[str, uuid.UUID | None]:
        """Return the topic id of each partition's directory, None where none can be read."""
        found: dict[str, uuid.UUID | None] = {}
        for number in self.numbers_of(name):
            topic_partition = TopicPartition(name, number)
            there = directory_name(topic_partition)
            log = self._logs.find_in_place(topic_partition)
            found[there] = None if log is None else log.topic_id
            if found[there] is None:
                with self._open(there) as directory, suppress(*_NO_ID):
                    found[there] = read_topic_id(directory)
        return found

    def write_id(self, there: str, topic_id: uuid.UUID) -> None:
        """Give a partition's directory a topic id, durably."""
        with self._open(there) as directory:
            PartitionMetadataFile(directory).write(topic_id)

    def keep(self, name: str, entry: TopicEntry | None) -> bool:
        """Say that a topic stays, after a deletion that could not begin; returns whether it does.

        Parameters
        ----------
        name : str
            The topic.
        entry : TopicEntry or None
            What the file said of it before.
        """
        if self._is_in_doubt or self._known().get(name) != entry:
            others = {key: value for key, value in self._known().items() if key != name}
            with suppress(SegstoreError, OSError):
                self._write(others if entry is None else {**self._known(), name: entry})
        return not self._is_in_doubt and self._known().get(name) == entry

    def finish_deletion(self, name: str, entry: TopicEntry) -> None:
        """Give the directories of a topic other names, then forget the topic."""
        self.doom(
            [
                parse_directory_name(directory.path.rpartition("/")[2])
                for directory in self._directories(name, range(entry.partitions))
                if _may_be_of(directory, entry)
            ]
        )
        self._write({key: value for key, value in self._known().items() if key != name})

    def end_logs(self, name: str) -> None:
        """Close the logs of a topic whose deletion has begun, without a write."""
        self._logs.close_all_quietly(TopicPartition(name, one) for one in self.numbers_of(name))

    def doom(self, topic_partitions: Sequence[TopicPartition]) -> None:
        """Give directories names that end in ``-delete``, durably; they are removed later."""
        with self._logs.forgetting_state_of(topic_partitions):
            names = [self._logs.rename_for_deletion(one) for one in topic_partitions]
        self._directory.sync(Barrier.DOOMED_DIRECTORY)
        for name in names:  # nothing of them is removed before that
            self._deleted.add(name)

    def set_aside(self, topic_partition: TopicPartition) -> str:
        """Give a directory a name that ends in ``-stray``, durably; nothing removes it [MGR-63]."""
        with self._logs.forgetting_state_of([topic_partition]):
            name = self._logs.rename_as_stray(topic_partition)
        self._directory.sync(Barrier.DOOMED_DIRECTORY)
        return name

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

    def _write(
        self,
        topics: Mapping[str, TopicEntry] | None = None,
        *,
        arrivals: Mapping[TopicPartition, Arrival] | None = None,
        directories: Mapping[uuid.UUID, str] | None = None,
    ) -> None:
        """Write the file, durably; what is not given stays."""
        directory, barrier, known = self._directory, FileBarrier.TOPICS, self._known_file()
        file = TopicsFile(
            known.topics if topics is None else topics,
            known.arrivals if arrivals is None else arrivals,
            known.directories if directories is None else directories,
        )
        directory.write_beside(TOPICS_FILE, format_topics(*file), barrier)
        self._is_in_doubt = True
        directory.put_in_place(TOPICS_FILE, barrier)
        self._file, self._is_in_doubt = file, False


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
