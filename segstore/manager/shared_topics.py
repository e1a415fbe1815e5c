"""Topics are made, changed and deleted whole, over all directories that have partitions of them.

``topics.json`` of each directory says how far a change has come. ``creating`` is on stable storage
in all of them before the first directory is made, and ``live`` follows the last log. A creation
that fails removes what it made; after a kill, the next open for writing removes it. Partitions that
are added to a topic go the same way. ``deleting`` is for a topic that a user asked to delete: only
then records go with it [DUR-6]. No listing has a topic, or a new partition, that is not live in
each directory.

After a kill the directories may disagree about a topic. The next open for writing makes them agree:

=============================  ==================================================
an entry of the same topic id  result
=============================  ==================================================
one says ``deleting``          the topic is deleted
one says ``live``              what others have begun is finished
all have begun                 undone; finished if a program has put something there
live with different settings   those of the greatest number of a change count
=============================  ==================================================
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from segstore.errors import (
    AlreadyExistsError,
    InconsistentTopicIdError,
    LogDirectoryOfflineError,
    SegstoreError,
)
from segstore.log.files.partition_metadata_file import topic_id_text
from segstore.log.files.topic_directories import new_topic_id
from segstore.log.files.topics_file import UNREADABLE_TOPICS, TopicEntry, TopicState

if TYPE_CHECKING:
    import uuid
    from collections.abc import Callable, Mapping, Sequence

    from segstore.manager.log_directory import LogDirectory
    from segstore.types import TopicPartition

_log = logging.getLogger(__name__)


class SharedTopics:
    """The topics of all directories of a manager; guarded by its mutex.

    Parameters
    ----------
    directories : sequence of LogDirectory
        Those that are open for writing, in their configured order.
    offline : mapping of str to Exception
        Those that could not be opened: while there are any, no topic is changed.
    """

    def __init__(
        self, directories: Sequence[LogDirectory], offline: Mapping[str, Exception]
    ) -> None:
        self._directories = directories
        self._offline = offline

    def reconcile(self) -> None:
        """Finish or undo what a process left that was killed, and make the directories agree.

        What cannot be done now is logged, stays unlisted, and is tried again by the next open.
        """
        if self._offline:
            return
        names: dict[str, None] = {}
        for one in self._directories:
            try:
                with one.guard():
                    entries = one.registry.all_entries()
            except UNREADABLE_TOPICS:  # the listing of the directory logs it
                continue
            only = len(self._directories) == 1
            names |= {
                name: None for name, entry in entries.items() if not (only and entry.is_finished)
            }
        for name in names:
            try:
                self.settle(name)
            except (SegstoreError, OSError) as error:
                _log.warning(
                    "topic %r was left %s by a process that was killed, and cannot be settled now:"
                    " %s",
                    name,
                    self._state_of(name),
                    error,
                )

    def entry_of(self, name: str) -> TopicEntry | None:
        """Return what the files say of a topic, None where none names it.

        Raises
        ------
        CorruptCheckpointError, UnsupportedFormatError
            A ``topics.json`` cannot be read.
        """
        return max(self._entries(name).values(), key=lambda entry: entry.change, default=None)

    def check_complete(self) -> None:
        """Raise while a directory is offline: it may have a part of any topic [MGR-64, MGR-76]."""
        for path, error in self._offline.items():
            if isinstance(error, LogDirectoryOfflineError):  # it is missing: its text has all
                for one in self._directories:
                    one.registry.all_entries()  # a damaged file is the first to repair
                raise LogDirectoryOfflineError(
                    error.message, file=path, found=error.found, expected=error.expected
                ) from error
            raise LogDirectoryOfflineError(
                "topics cannot be changed: this log directory is offline, and may have partitions"
                " of the topic. Repair it. If it is gone for good, open the others without it, and"
                " call forget_directory",
                file=path,
            ) from error

    # ---- changes ---------------------------------------------------------------------------------

    def alter(self, name: str, entry: TopicEntry) -> None:
        """Write down what a topic was given, durably, in each directory that has a part of it.

        Raises
        ------
        SegstoreError
            What kept it from being written. The topic is as before, or a note says what follows.
        """
        homes = self._homes(name)
        before = {one: one.registry.entry_of(name) for one in homes}
        then = entry._replace(change=entry.change + 1) if len(homes) > 1 else entry
        done: dict[LogDirectory, TopicEntry | None] = {}
        try:
            for one, step in _named_first(before, then):
                done[one] = before[one]
                with one.guard():
                    one.registry.put(name, step)
        except BaseException as error:
            if len(homes) > 1 and not _keep(name, done):
                error.add_note(
                    f"a part of topic {name!r} has the settings; the next open for writing gives"
                    " them to the whole topic"
                )
            raise

    def create(
        self,
        name: str,
        placement: Mapping[LogDirectory, Sequence[int]],
        config: Mapping[str, str],
        made: Callable[[int], None],
    ) -> None:
        """Make a topic: all of it, or nothing.

        Parameters
        ----------
        name : str
            A name that no partition has.
        placement : mapping of LogDirectory to sequence of int
            Where each partition is to be.
        config : mapping of str to str
            Its settings.
        made : callable
            Called with how many partitions are made since the call before.

        Raises
        ------
        AlreadyExistsError
            A directory of the topic is here.
        CorruptCheckpointError, UnsupportedFormatError
            ``topics.json`` cannot be read: nothing was made.
        SegstoreError
            What kept it from being made; a note says so where something of it is left.
        """
        count = sum(map(len, placement.values()))
        entry = TopicEntry(new_topic_id(), count, TopicState.CREATING, config)
        live = entry._replace(state=TopicState.LIVE)
        self._make_or_undo(name, _steps(entry, placement), live, made)

    def check_is_new(self, name: str) -> None:
        """Raise `AlreadyExistsError` when there is any partition, made by whomever."""
        for one in self._directories:
            numbers = one.registry.numbers_of(name)
            if numbers:
                raise AlreadyExistsError(
                    f"topic {name!r} exists, with {len(numbers)} partitions",
                    file=one.path,
                    found=f"partitions {numbers}",
                )

    def grow(
        self,
        name: str,
        entry: TopicEntry,
        then: TopicEntry,
        placement: Mapping[LogDirectory, Sequence[int]],
        made: Callable[[int], None],
    ) -> None:
        """Add partitions to a topic: all of them, or none.

        Parameters
        ----------
        name : str
            The topic.
        entry, then : TopicEntry
            As the topic is before, and as it is to be after.
        placement : mapping of LogDirectory to sequence of int
            Where each new partition is to be.
        made : callable
            Called with how many partitions are made since the call before.
        """
        homes = {one: placement.get(one, ()) for one in [*self._homes(name), *placement]}
        adding = entry._replace(adding=then.partitions - entry.partitions)
        live = then._replace(change=then.change + 1) if len(homes) > 1 else then
        self._make_or_undo(name, _steps(adding, homes), live, made)

    def _make_or_undo(
        self,
        name: str,
        steps: Mapping[LogDirectory, TopicEntry],
        live: TopicEntry,
        made: Callable[[int], None],
    ) -> None:
        begun: list[LogDirectory] = []
        try:
            for one, entry in steps.items():
                with one.guard():
                    one.registry.create(name, entry)
                begun.append(one)
            self._finish(name, steps, live, made)
        except BaseException as error:
            try:
                self._undo(name, {one: steps[one] for one in begun})
            except (SegstoreError, OSError) as another:
                error.add_note(
                    f"what was made of topic {name!r} is still there, unlisted; the next open for"
                    f" writing removes it, which failed now: {another}"
                )
            raise

    @staticmethod
    def _finish(
        name: str,
        steps: Mapping[LogDirectory, TopicEntry],
        live: TopicEntry,
        made: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Make what is missing of the new partitions, then say that they are live."""
        for one, entry in steps.items():
            with one.guard():
                one.registry.make(name, entry, made)
        for one in steps:
            with one.guard():
                one.registry.put(name, live)

    @staticmethod
    def _undo(name: str, steps: Mapping[LogDirectory, TopicEntry]) -> None:
        for one, entry in steps.items():  # all before the first removal: no part is live after it
            with one.guard():
                one.registry.withdraw(name, entry)
        for one, entry in steps.items():
            with one.guard():
                one.registry.undo(name, entry)

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
        homes = self._homes(name)
        old = self.entry_of(name)
        before = {one: one.registry.entry_of(name) for one in homes}
        entry = TopicEntry(
            self._one_id(name, homes, old),
            numbers[-1] + 1,
            TopicState.DELETING,
            {} if old is None else old.config,
        )
        begun: dict[LogDirectory, TopicEntry | None] = {}
        try:
            for one, then in _named_first(before, entry):
                begun[one] = before[one]
                with one.guard():
                    one.registry.put(name, then)
            begun = {}
            self._finish_deletion(name, homes, entry)
        except BaseException as error:
            if not begun or not _keep(name, begun):
                for one in homes:
                    one.registry.end_logs(name)
                error.add_note(
                    f"topic {name!r} is unlisted, and is deleted by the next open for writing, or"
                    " by another delete_topic"
                )
            raise

    @staticmethod
    def _finish_deletion(name: str, homes: Sequence[LogDirectory], entry: TopicEntry) -> None:
        for one in homes:
            with one.guard():
                one.registry.finish_deletion(name, entry)

    def _one_id(
        self, name: str, homes: Sequence[LogDirectory], entry: TopicEntry | None
    ) -> uuid.UUID | None:
        """Return the id that all partitions have, once those without one were given it.

        By the id, a deletion that is interrupted finds its directories, and no later ones.
        """
        found = self._ids_of(name, homes)
        ids = {one for ids in found.values() for one in ids.values() if one is not None}
        known = next(iter(ids), None if entry is None else entry.topic_id)
        topic_id = known or new_topic_id()
        for one, ids_here in found.items():
            with one.guard():
                for there, topic_id_there in ids_here.items():
                    if topic_id_there is None:
                        one.registry.write_id(there, topic_id)
        return topic_id

    def check_deletable(self, name: str) -> None:
        """Raise where `delete` would refuse a topic, before it writes anything."""
        homes = self._homes(name)
        for one in homes:
            one.check_writable()
            one.registry.entry_of(name)
        self._ids_of(name, homes)

    @staticmethod
    def _ids_of(
        name: str, homes: Sequence[LogDirectory]
    ) -> dict[LogDirectory, dict[str, uuid.UUID | None]]:
        """Return the id of each partition's directory; raises where there are several."""
        found = {one: one.registry.ids_of(name) for one in homes}
        ids = {one: None for ids in found.values() for one in ids.values() if one is not None}
        if len(ids) > 1:
            named = ", ".join(
                f"{topic_id_text(topic_id)} in {there}"
                for ids_here in found.values()
                for there, topic_id in ids_here.items()
                if topic_id is not None
            )
            raise InconsistentTopicIdError(
                f"the partitions of {name!r} are of several topics: delete_partition deletes one of"
                " them",
                file=homes[0].path,
                found=named,
                expected="one topic id",
            )
        return found

    def delete_partition(self, topic_partition: TopicPartition) -> None:
        """Delete one partition, and none of the others: as a broker does that gives it up."""
        for one in self._directories:
            if one.holds(topic_partition):
                one.check_writable()
                with one.guard():
                    one.registry.doom([topic_partition])

    # ---- what was left ---------------------------------------------------------------------------

    def settle(self, name: str) -> bool:
        """Finish or undo what was left of a topic; returns whether its deletion was finished."""
        by_id: dict[uuid.UUID | None, dict[LogDirectory, TopicEntry]] = {}
        for one, entry in self._entries(name).items():
            by_id.setdefault(entry.topic_id, {})[one] = entry
        if len(by_id) > 1:
            _log.warning(
                "topic %r has several topic ids, in %s: none of them is taken for the right one",
                name,
                ", ".join(one.path for entries in by_id.values() for one in entries),
            )
        was_deleted = [self._settle(name, entries) for entries in by_id.values()]
        return any(was_deleted)

    def _settle(self, name: str, entries: Mapping[LogDirectory, TopicEntry]) -> bool:
        """Make the entries of one topic id agree; see the table above."""
        for entry in entries.values():
            if entry.state is TopicState.DELETING:
                self._finish_deletion(name, [*entries], entry)
                return True
        done = [entry for entry in entries.values() if entry.is_finished]
        goal = max(done, key=lambda entry: entry.change, default=None)
        open_ones = {one: entry for one, entry in entries.items() if not entry.is_finished}
        if open_ones:
            last = max(open_ones.values(), key=lambda entry: entry.change)
            if goal is not None and last.adding and goal.change <= last.change:
                goal = None  # of a directory that has not begun
            if goal is None and not any(
                one.registry.is_used(name, entry) for one, entry in open_ones.items()
            ):
                self._undo(name, open_ones)
                return False
            if goal is None:  # a program has used them meanwhile: nothing is removed
                goal = last._replace(
                    state=TopicState.LIVE,
                    partitions=last.new_partitions.stop,
                    adding=0,
                    here=None,
                    change=last.change + bool(last.adding and len(entries) > 1),
                )
            self._finish(name, open_ones, goal)
        for one, entry in entries.items():
            if goal is not None and one not in open_ones and entry.change < goal.change:
                with one.guard():
                    one.registry.put(name, goal)
        return False

    def _entries(self, name: str) -> dict[LogDirectory, TopicEntry]:
        found = {}
        for one in self._directories:
            with one.guard():
                entry = one.registry.entry_of(name)
            if entry is not None:
                found[one] = entry
        return found

    def _homes(self, name: str) -> list[LogDirectory]:
        """Return the directories that have a part of a topic; all of them must take changes."""
        homes = [
            one
            for one in self._directories
            if one.registry.entry_of(name) is not None or one.registry.holds(name)
        ]
        for one in homes:
            one.check_writable()
        return homes

    def _state_of(self, name: str) -> str:
        entries = self._entries(name).values()
        states = ("with new partitions" if one.adding else one.state.value for one in entries)
        return " and ".join(dict.fromkeys(states))


def _steps(
    entry: TopicEntry, placement: Mapping[LogDirectory, Sequence[int]]
) -> dict[LogDirectory, TopicEntry]:
    """Return what each directory is to say while new partitions are made."""
    if len(placement) == 1:
        return dict.fromkeys(placement, entry)
    return {one: entry._replace(here=tuple(numbers)) for one, numbers in placement.items()}


def _named_first(
    before: Mapping[LogDirectory, TopicEntry | None], then: TopicEntry
) -> list[tuple[LogDirectory, TopicEntry]]:
    """Return what is written where, so that each file names the topic before one has the change.

    After a kill, a directory whose file does not name it would not be made to agree.
    """
    live = TopicEntry(then.topic_id, then.partitions, TopicState.LIVE)
    unnamed = [one for one, entry in before.items() if entry is None] if len(before) > 1 else []
    return [*((one, live) for one in unnamed), *((one, then) for one in before)]


def _keep(name: str, before: Mapping[LogDirectory, TopicEntry | None]) -> bool:
    """Say again what the files said before; returns whether all of them do."""
    return all([one.registry.keep(name, entry) for one, entry in before.items()])  # noqa: C419
