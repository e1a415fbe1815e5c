"""Moving a log's directory, and the ends of a log: let go of, or taken away [REN-1, DEL-1]."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from segstore._core import Barrier, Directory
from segstore.arguments import flag, instance
from segstore.errors import DirectoryReplacedError, IllegalArgumentError, IllegalStateError
from segstore.log.directory.holdings import Holdings
from segstore.log.directory.partition_directory import (
    delete_directory_name,
    has_unique_id,
    parse_directory_name,
)
from segstore.log.directory.partition_lock import PartitionLock
from segstore.log.directory.partition_path import open_parent_directory
from segstore.log.directory.tree_removal import remove_trees
from segstore.log.log_producers import LogProducers

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore.log.directory.background import Scheduler
    from segstore.log.ending import Ending
    from segstore.types import TopicPartition


class LogRemoval(LogProducers):
    """What a broker does to a log that is moved, or closed, or whose topic is deleted."""

    ending: Ending
    _background: Scheduler
    _holdings: Holdings
    _is_renamed_for_deletion = False
    _on_new_name: Callable[[], None] | None

    def rename_dir(self, name: str, *, reinitialize: bool = True) -> bool:
        """Rename the directory within the one above it, durably; returns whether it changed.

        Source: [REN-1, LOC-23]; Kafka ``UnifiedLog.renameDir``.

        Parameters
        ----------
        name : str
            ``<topic>-<partition>``, or with one of Kafka's endings ``.<id>-delete``, ``-future``,
            ``-stray``.
        reinitialize : bool
            False for a topic that is being deleted: from then on nothing can be appended.

        Raises
        ------
        NotALogError
            *name* is not that of a partition's directory.
        IllegalStateError
            The directory above cannot be opened.
        """
        self._require_writable()
        instance("name", name, str, "a str")
        parse_directory_name(name)
        flag("reinitialize", reinitialize)
        parent, directory = self._holdings.parent, self._directory
        if parent is None:
            raise IllegalStateError("the directory above cannot be written", file=self.path)
        old_name = directory.path.rpartition("/")[2]
        with self._append_lock:
            self._require_writable()
            self._begin_deletion()
            self._flush_topic_id()
            if name == old_name:
                return False
            _check_is_the_same(directory, parent, old_name)
            if parent.exists(name):
                raise IllegalArgumentError(
                    f"there is a {name} already", file=parent.path, found=name, expected="no such"
                )
            with self._flusher.poisoned_by(BaseException):
                self._note_name(parse_directory_name(name))
                parent.rename(old_name, name)
                parent.sync(Barrier.RENAMED_DIRECTORY)
                directory.note_renamed(f"{parent.path}/{name}")
                self.path = directory.path
                if self._on_new_name is not None:
                    self._on_new_name()
            self._is_renamed_for_deletion = not reinitialize
            if not reinitialize:
                self._epochs.clear()
        return True

    def _note_name(self, topic_partition: TopicPartition) -> None:
        """Write the checkpoints for the new name, beside the old one's lines, before it counts.

        Deleted records would come back else, and synced ones count as a tail [DUR-5, DUR-19].
        """
        if topic_partition == self.topic_partition:
            return
        self._places.take_name(topic_partition)
        self._flusher.take_name(topic_partition)
        self.topic_partition = topic_partition

    def _let_go(self) -> None:
        raise NotImplementedError

    def _end(self, last_step: Callable[[], None]) -> None:
        """Take no calls any more, do *last_step*, and let go of everything.

        Once: a second call does what is left of one that was interrupted. Beside one that is under
        way it waits, and in the midst of that it does nothing.
        """
        ending = self.ending
        if ending.is_over:
            return
        self._require_same_process()  # no thread of the parent's comes to an end here [DUR-68]
        if ending.is_around_this_thread():
            return
        self._require_not_awaited()
        ending.run(lambda: self._end_alone(last_step))

    def _end_alone(self, last_step: Callable[[], None]) -> None:
        if self.ending.is_over:  # by the thread that was waited for
            return
        try:
            with self._append_lock:  # who is inside an append leaves it first [DUR-70]
                is_first = not self._is_closed
                if is_first:
                    self._settle_lane()
                    self._is_closed = True
            if is_first:
                self._background.close()
                last_step()
        finally:
            if self._is_closed:
                self._let_go()

    def _require_not_awaited(self) -> None:
        """Raise RuntimeError in the midst of a call that an end of the log waits for [DUR-70].

        A handler or a finalizer that waited there, for who ends it, would wait for itself.
        """
        self._append_lock.require_another_owner()
        if not self.read_only:
            self._flusher.rounds.require_another_leader()

    def _settle_records(self) -> None:
        if self._is_renamed_for_deletion:
            raise IllegalStateError(
                "the log was renamed for deletion: it takes no changes", file=self.path
            )
        super()._settle_records()

    def delete(self) -> None:
        """Close the log and remove its directory with everything in it, durably [DEL-1].

        Also of a log that was closed [CLO-2]. Source: Kafka ``UnifiedLog.delete``.

        Raises
        ------
        LogLockedError
            It was closed, and somebody else has it open for writing now.
        """
        if self.closed:
            holdings = self._take_again()
            try:
                _remove_tree(holdings)
            finally:
                holdings.let_go()
            return
        self._require_writable()
        self._require_not_awaited()
        if not self.ending.run(self._delete_alone):
            raise RuntimeError("the log is being closed, by who waits for this call")

    def _delete_alone(self) -> None:
        try:
            with self._append_lock:
                self._require_writable()
                self._settle_lane()
                self._is_closed = True
            self._background.close()
            self._epochs.clear()
            _remove_tree(self._holdings)
        finally:
            if self._is_closed:
                self._let_go()

    def _take_again(self) -> Holdings:
        path, environment = self.path, self._directory.environment
        holdings = Holdings(Directory(path, environment))
        try:
            parent = holdings.parent = open_parent_directory(path, environment)
            holdings.lock = PartitionLock.acquire(
                holdings.directory, parent, home=holdings.directory
            )
        except BaseException:
            holdings.let_go()
            raise
        return holdings


def _check_is_the_same(directory: Directory, parent: Directory, name: str) -> None:
    """Refuse to touch what has the name of a directory that was moved away."""
    with closing(Directory(f"{parent.path}/{name}", directory.environment)) as there:
        try:
            is_the_same, cause = there.identity == directory.identity, None
        except DirectoryReplacedError as error:  # its descriptor was closed, and is opened by path
            is_the_same, cause = False, error
        if not is_the_same:
            raise IllegalStateError(
                "the log's directory was moved: another one has its name",
                file=directory.path,
                found="another directory",
                expected="the one that was opened",
            ) from cause


def _remove_tree(holdings: Holdings) -> None:
    """Remove the partition's directory and what is in it, the deepest first.

    It gets a name first under which nobody opens it.
    """
    directory, parent = holdings.directory, holdings.parent
    if parent is None:
        raise IllegalStateError("the directory above cannot be written", file=directory.path)
    name = directory.path.rpartition("/")[2]
    _check_is_the_same(directory, parent, name)
    if not has_unique_id(name):
        doomed = delete_directory_name(parse_directory_name(name))
        parent.rename(name, doomed)
        parent.sync(Barrier.DOOMED_DIRECTORY)
        directory.note_renamed(f"{parent.path}/{doomed}")
        name = doomed
    remove_trees(parent, [name])
