"""A log directory at a URL: which partitions it holds, and what is in each, by listings alone."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from segstore.errors import LogNotFoundError, NotALogError
from segstore.log.files.partition_directory import (
    LOG_FILE_SUFFIX,
    directory_name,
    is_partition_directory_name,
    parse_directory_name,
    segment_files,
)
from segstore.remote.remote_file import Folder
from segstore.remote.remote_partition import RemotePartition

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore.remote.remote_file import RemoteStore
    from segstore.remote.spool import Spool
    from segstore.types import TopicPartition


class RemoteDirectory:
    """What `store` holds; looked at anew by every call.

    Parameters
    ----------
    store : RemoteStore
        Of the log directory.
    spool : Spool
        Takes what is read.
    """

    def __init__(self, store: RemoteStore, spool: Spool) -> None:
        self._store = store
        self._spool = spool

    def url_of(self, topic_partition: TopicPartition) -> str:
        """Return the URL of a partition, for people."""
        return f"{self._store.url}/{directory_name(topic_partition)}"

    def check(self) -> Folder:
        """Return what is in the directory itself.

        Raises
        ------
        LogNotFoundError, NotALogError
            There is nothing, or it is one partition's.
        """
        found = self._store.list_folder("")
        if not found.files and not found.folders:
            raise LogNotFoundError(
                "there is nothing at this URL", file=self._store.url, expected="a log directory"
            )
        if any(file.kind == LOG_FILE_SUFFIX for file in segment_files(found.files)):
            raise NotALogError(
                "this is the directory of one partition; the log directory is the one above it",
                file=self._store.url,
                found="segment files (.log)",
                expected="directories <topic>-<partition>",
            )
        return found

    def partitions(
        self, is_meant: Callable[[TopicPartition], bool]
    ) -> dict[TopicPartition, RemotePartition | None]:
        """Return the partitions that hold a log, as they are now, sorted.

        Those that have lost all of it but its indexes, too: their open says what is missing.

        Parameters
        ----------
        is_meant : callable
            Which partitions are looked into. Of the others only the name is known, and None is
            returned: what is wrong with one of them hides none that is meant.

        Raises
        ------
        LogNotFoundError, NotALogError
            As `check`.
        """
        above = self.check()
        names = filter(is_partition_directory_name, above.folders)
        named = sorted(map(parse_directory_name, names))
        meant = list(filter(is_meant, named))
        with ThreadPoolExecutor(self._store.requests_at_once) as pool:
            folders = list(pool.map(self._store.list_folder, map(directory_name, meant)))
        found: dict[TopicPartition, RemotePartition | None] = dict.fromkeys(named)
        for topic_partition, folder in zip(meant, folders, strict=True):
            one = RemotePartition(self._store, self._spool, topic_partition, above, folder)
            if one.is_held:
                found[topic_partition] = one
            else:
                del found[topic_partition]
        return found

    def partition(self, topic_partition: TopicPartition) -> RemotePartition:
        """Return one partition as it is now.

        Raises
        ------
        LogNotFoundError
            There is none, or it holds no log.
        """
        name = directory_name(topic_partition)
        above = self._store.list_folder("") if self._store.has_checkpoints else Folder({}, [])
        folder = self._store.list_folder(name)
        found = RemotePartition(self._store, self._spool, topic_partition, above, folder)
        if not found.is_held:
            raise LogNotFoundError(
                "there is no log at this URL",
                file=self.url_of(topic_partition),
                found=f"{len(folder.files)} files",
                expected="one .log file at least",
            )
        return found
