"""The commit of a write: the staged batches go into the logs, once, in the order of the tasks.

A writer with a name (`Transaction`) has a redo log, and what it repeats is not appended again: see
`named_commit`. A writer without a name appends, and takes it back when that fails; what its driver
had appended when it was killed stays, and comes again when the write is repeated, as with Spark's
own sink.
"""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING, Final, TypeVar

from segstore._core import Directory, wall_clock_ms
from segstore.errors import LogLockedError, LogNotFoundError, SegstoreError
from segstore.log.files.checkpoints import LOCK
from segstore.manager.log_manager import open_dir
from segstore.number_limits import MAX_LONG
from segstore.spark.commit_log import COMMITTING, CommitLog, unfinished_commits
from segstore.spark.driver_warning import warn
from segstore.spark.named_commit import NamedCommit
from segstore.spark.sink_topics import make_missing_topics
from segstore.spark.staged_append import append_or_roll_back, check_staged_files
from segstore.spark.staged_file import owner_of, staged_file_names
from segstore.tables.whole_file import ORPHAN_AGE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from segstore.manager.log_manager import LogManager
    from segstore.spark.sink_options import SinkOptions, Transaction
    from segstore.spark.staged_write import StagedWrite

LOCK_POLL_SECONDS: Final = 0.1

_T = TypeVar("_T")


class SinkCommit:
    """Commits and aborts the writes of one sink.

    Parameters
    ----------
    options : SinkOptions
        Where, and how long to wait for the lock.
    owners : set of str
        The writes whose staged files are removed when they are no longer needed.
    """

    def __init__(self, options: SinkOptions, owners: Iterable[str] = ()) -> None:
        self._options = options
        self._owners = set(owners)

    def commit(self, staged: StagedWrite, transaction: Transaction | None) -> None:
        """Append what was staged, and bring it to stable storage.

        Parameters
        ----------
        staged : StagedWrite
            Of all tasks.
        transaction : Transaction or None
            Which write it is; None = it has no name, and is appended whenever this is called.

        Raises
        ------
        LogLockedError
            Another writer has the directory for longer than ``lockTimeoutMs``.
        LogNotFoundError
            A staged file is not here: the path is another directory for the executors.
        UnknownTopicOrPartitionError
            A partition was removed meanwhile.
        """
        if not staged.files and not self._is_unfinished(transaction):
            return
        files = set(staged.files)
        with self._open() as manager, closing(Directory(self._options.path)) as directory:
            if transaction is None:
                check_staged_files(directory, staged)
                make_missing_topics(manager, staged.missing)
                append_or_roll_back(manager, directory, staged.partitions)
                owners = self._owners
            else:
                commit = NamedCommit(manager, directory, transaction)
                files |= commit.run(staged)
                # one that comes too late knows nothing of what its query has staged since
                owners = self._owners if commit.has_written else set()
            self._sweep(directory, files, owners)

    def abort(self, staged: StagedWrite) -> None:
        """Remove what was staged, unless an unfinished commit needs it.

        A commit that is under way has the lock until it has said what it needs, or is done. What
        stays because the lock is not to be had is removed by the next commit of the same query, or
        by any after a week.
        """
        try:
            directory = Directory(self._options.path)
        except LogNotFoundError:
            return  # nothing was staged
        with closing(directory):

            def chosen() -> list[str]:
                return [
                    name
                    for name in staged_file_names(directory)
                    if name in staged.files or owner_of(name) in self._owners
                ]

            if not chosen():
                return
            try:
                lock = self._when_free(lambda: directory.lock(LOCK, exclusive=True))
            except LogLockedError as error:
                warn(f"staged files stay in {directory.path}: {error}")
                return
            try:
                self._remove(directory, chosen)
            finally:
                lock.release()

    def _is_unfinished(self, transaction: Transaction | None) -> bool:
        """Whether an earlier commit of the writer waits to be finished."""
        if transaction is None:
            return False
        try:
            with closing(Directory(self._options.path)) as directory:
                record = CommitLog(directory, transaction.application_id).read()
        except LogNotFoundError:
            return False
        return record is not None and record.state == COMMITTING

    def _open(self) -> LogManager:
        """Open the directory for writing as soon as it is free."""
        # tasks have checked the timestamps: what was in time then is not late now
        options = self._options
        config = options.config.with_changes(message_timestamp_after_max_ms=MAX_LONG)
        return self._when_free(
            lambda: open_dir(
                options.path,
                durability="none",
                config=config,
                allow_network_fs=options.allow_network_fs,
            )
        )

    def _when_free(self, take: Callable[[], _T]) -> _T:
        """Take the lock of the directory as soon as it is free."""
        timeout_ms = self._options.lock_timeout_ms
        deadline = time.monotonic() + timeout_ms / 1000
        while True:
            try:
                return take()
            except LogLockedError as error:
                if time.monotonic() >= deadline:
                    raise LogLockedError(
                        "another writer has the log directory",
                        file=self._options.path,
                        found=f"its lock was not free for {timeout_ms} ms",
                        expected="a writer that closes, or a larger option lockTimeoutMs",
                    ) from error
                time.sleep(LOCK_POLL_SECONDS)

    def _sweep(self, directory: Directory, files: set[str], owners: set[str]) -> None:
        """Remove the staged *files*, all others of *owners*, and old orphans."""
        if owners:
            owners = owners | {owner_of(name) for name in files}
        oldest_ms = wall_clock_ms() - ORPHAN_AGE_SECONDS * 1000

        def nobodys() -> list[str]:
            return [
                name
                for name in staged_file_names(directory)
                if name in files
                or owner_of(name) in owners
                or _is_older(directory, name, oldest_ms)
            ]

        self._remove(directory, nobodys)

    def _remove(self, directory: Directory, chosen: Callable[[], Iterable[str]]) -> None:
        """Remove staged files, but for those that an unfinished commit needs.

        What is in the way is a warning and no error: all is written or given up by now, and an
        error would have a write repeated that is done. While a redo log cannot be read, nobody
        knows what it needs, and everything stays.
        """
        try:
            needed = files_of_unfinished_commits(directory)
            for name in chosen():
                if name not in needed:
                    directory.unlink(name, missing_ok=True)
        except (SegstoreError, OSError) as error:
            warn(f"staged files stay in {directory.path}: {error}")


def files_of_unfinished_commits(directory: Directory) -> set[str]:
    """Return the staged files that somebody still needs."""
    return {name for record in unfinished_commits(directory) for name in record.files}


def _is_older(directory: Directory, name: str, oldest_ms: int) -> bool:
    try:
        return directory.info(name).modified_ms < oldest_ms
    except LogNotFoundError:
        return False
