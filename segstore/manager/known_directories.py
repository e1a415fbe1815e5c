"""Which log directories were ever used together, and which of them is missing.

A disk that is not mounted leaves an empty directory. Taken for a new one, it would hide a part of
the topics, which could be deleted and made again without it. So ``topics.json`` of each directory
lists the ids of all of them. The id of a broker's directory is that of ``meta.properties``. In
Kafka's profile nothing is listed. Source: [MGR-9, DUR-124], DESIGN D16.
"""

from __future__ import annotations

import logging
from contextlib import closing, suppress
from typing import TYPE_CHECKING

from segstore._core import Directory
from segstore.errors import (
    CorruptCheckpointError,
    LogDirectoryOfflineError,
    LogNotFoundError,
    SegstoreError,
)
from segstore.log.files.meta_properties import read_meta_properties
from segstore.log.files.partition_metadata_file import topic_id_text
from segstore.log.files.topic_directories import new_topic_id
from segstore.log.files.topics_file import NOTHING_SAID, read_topics_file
from segstore.manager.partition_directories import (
    has_unopened_logs,
    list_partition_directories,
)

if TYPE_CHECKING:
    import uuid
    from collections.abc import Sequence

    from segstore.log.files.topics_file import TopicsFile
    from segstore.manager.log_directory import LogDirectory

_NEW_ID = (
    " The open directory at that path has another id. If it is the same one, and its topics.json"
    " was lost or moved away, no record is lost: give up the missing id with forget_directory."
)

_log = logging.getLogger(__name__)


class KnownDirectories:
    """The ids that the directories of a manager list; guarded by its mutex.

    Parameters
    ----------
    directories : sequence of LogDirectory
        Those that are open.

    Attributes
    ----------
    missing : dict of UUID to str
        Ids that are listed and that no open directory has, and the last path of each.
    """

    def __init__(self, directories: Sequence[LogDirectory]) -> None:
        self._directories = directories
        self._unreadable: dict[str, Exception] = {}
        """By log directory: why its ``topics.json`` does not say which others there are."""
        files = {one: _read(one, self._unreadable) for one in directories}
        here = {_id_of(one.directory, file) for one, file in files.items()}
        listed = {key: path for file in files.values() for key, path in file.directories.items()}
        self.missing = {key: path for key, path in listed.items() if key not in here}
        lists = [file.directories for file in files.values() if len(file.directories) > 1]
        for one, file in files.items():
            own = next(iter(file.directories), None)
            if len(lists) > 1 and own in listed and sum(own in others for others in lists) == 1:
                _log.warning(
                    "%s is back: forget_directory has given it up, or its topics.json is not of"
                    " the same time as the others. Topics that were deleted meanwhile may be back",
                    one.path,
                )

    def errors(self) -> dict[str, SegstoreError]:
        """Return an error for each missing directory, by its last path, or its id."""
        opened = {one.path for one in self._directories}
        return {
            topic_id_text(key) if path in opened else path: LogDirectoryOfflineError(
                f"{_named(key, path)}, is missing."
                f"{_NEW_ID if path in opened else ''} Mount its disk, and open all log directories"
                " together: the command line names more of them with --log-dir."
                f" If it is gone for good, forget_directory({topic_id_text(key)!r}) says so, or"
                " `segstore topics forget-directory`. Until then, no topic can be changed",
                file=path,
                found="no open log directory with that id",
                expected=f"directory id {topic_id_text(key)}",
            )
            for key, path in self.missing.items()
        }

    def error_of_new(self, path: str) -> SegstoreError | None:
        """Return why an empty directory is not taken for a new one; None where it is."""
        for key, last_path in self.missing.items():
            return LogDirectoryOfflineError(
                f"the directory is empty, and {_named(key, last_path)}, is missing: a disk may not"
                " be mounted. Mount it, or name that log directory too. If it is gone for good,"
                f" forget_directory({topic_id_text(key)!r}) says so, or `segstore topics"
                " forget-directory`; then open the directories again. Until then, no topic can be"
                " changed",
                file=path,
                found="an empty directory",
                expected=f"directory id {topic_id_text(key)}",
            )
        for unreadable, error in self._unreadable.items():
            return LogDirectoryOfflineError(
                "the directory is empty, and a disk may not be mounted: topics.json of"
                f" {unreadable} would say so, and cannot be read. Until it can be, the empty"
                f" directory is not used. {error}",
                file=path,
                found="an empty directory",
            )
        return None

    def write_down(self) -> None:
        """List all of them in each, durably.

        Each has its own id on stable storage before another one lists it: else a kill would leave
        an id that no directory has. Where it cannot be written, the next open does.
        """
        own: dict[LogDirectory, uuid.UUID] = {}
        for one in self._directories:
            known = _id_of(one.directory, _read(one))
            own[one] = known or new_topic_id()
            if known is None and not self._write(one, {own[one]: one.path}):
                del own[one]
        all_ids = dict(sorted(({key: one.path for one, key in own.items()} | self.missing).items()))
        for one, key in own.items():
            self._write(one, {key: one.path} | all_ids | {key: one.path})

    @staticmethod
    def _write(one: LogDirectory, directories: dict[uuid.UUID, str]) -> bool:
        try:
            with one.guard():
                one.registry.know_directories(directories)
        except (SegstoreError, OSError) as error:
            _log.warning("%s: it cannot be written which directories are used: %s", one.path, error)
            return False
        return True

    def forget(self, directory_id: uuid.UUID) -> None:
        """List a missing one no more, durably; after an error the next call does the rest."""
        for one in self._directories:
            one.check_writable()
            with one.guard():
                known = _read(one).directories
                one.registry.know_directories({k: p for k, p in known.items() if k != directory_id})
        del self.missing[directory_id]


def is_new(path: str) -> bool:
    """Whether there is no log, no directory id and nothing of a topic in the directory *path*."""
    try:
        with closing(Directory(path)) as directory:
            return (
                _id_of(directory, read_topics_file(directory)) is None
                and not list_partition_directories(directory)
                and not has_unopened_logs(directory)
            )
    except LogNotFoundError:
        return True
    except SegstoreError:  # its open says what is wrong
        return False


def _id_of(directory: Directory, file: TopicsFile) -> uuid.UUID | None:
    own = next(iter(file.directories), None)
    if own is None:
        with suppress(CorruptCheckpointError):
            properties = read_meta_properties(directory)
            return None if properties is None else properties.directory_id
    return own


def _read(one: LogDirectory, unreadable: dict[str, Exception] | None = None) -> TopicsFile:
    """Read the file of a directory; one that cannot be read lists nothing, changes report it."""
    try:
        with one.guard():
            return read_topics_file(one.directory)
    except (SegstoreError, OSError) as error:
        if unreadable is not None:
            unreadable[one.path] = error
    return NOTHING_SAID


def _named(directory_id: uuid.UUID, path: str) -> str:
    return f"the log directory {topic_id_text(directory_id)}, which was last at {path}"
