"""What a log gets from its owner: environment, scheduler, shared locks and checkpoints."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from segstore.log.files.background import BackgroundWorker
from segstore.log.log_watcher import UNWATCHED
from segstore.log.producers.producer_state_manager import DEFAULT_MAX_TRANSACTION_TIMEOUT_MS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from segstore._core import Environment
    from segstore.log.files.background import Scheduler
    from segstore.log.files.file_origin import FileOrigin
    from segstore.log.files.log_directory_checkpoints import LogDirectoryCheckpoints
    from segstore.log.files.postponed_syncs import PostponedSyncs
    from segstore.log.files.stored_state import StoredState
    from segstore.log.log_dir_failure_channel import LogDirFailureChannel
    from segstore.log.log_watcher import LogWatcher
    from segstore.log.producers.producer_state_manager_config import ProducerStateManagerConfig
    from segstore.types import EpochEntry


class LogEnvironment(NamedTuple):
    """For who opens logs on behalf of others, and for tests that hold the clock.

    Attributes
    ----------
    parent_is_locked : bool
        The caller holds the ``.lock`` of the directory above.
    parent_was_clean : bool
        Its clean marker was there when the caller took it, and this log has not changed since.
    found : StoredState or None
        Log start, recovery point and clean marker; None = what the files say.
    environment : Environment or None
        Files and clocks; None = the system's.
    background : callable
        Called with a name and what must live as long as tasks run; gives the log's scheduler.
    producer_config : ProducerStateManagerConfig or None
        Shared by the logs of one owner; None = the defaults [PSM-36].
    max_transaction_timeout_ms : int
        The coordinator's: transactions that are open for much longer hang [PSM-46].
    failures : LogDirFailureChannel or None
        Of the log directory, shared by its logs; None = each bears its own mark [LOC-27].
    checkpoints_above : LogDirectoryCheckpoints or None
        The log directory's, of the caller who holds its ``.lock``; None = the log's own view.
    on_new_name : callable or None
        Called when `rename_dir` has given the directory another name.
    has_settings : bool
        The settings are those of the topic; else the log looks into ``topics.json``.
    watcher : LogWatcher
        Told when the log may need a look.
    postponed : PostponedSyncs or None
        Gets the directory, which the caller has just made: he syncs it with others. None = the open
        does that.
    makes_directory : bool
        A log that is to be written, and is not there, is made.
    origins : mapping of str to FileOrigin
        Of files that are not called by their names here.
    is_fixed : bool
        No writer changes the files: they are those of a listing.
    fills_import : bool
        The caller is the import of which `IMPORT_MARKER` says that it is not finished.
    """

    parent_is_locked: bool = False
    parent_was_clean: bool = False
    found: StoredState | None = None
    environment: Environment | None = None
    background: Callable[[str, object], Scheduler] = BackgroundWorker
    producer_config: ProducerStateManagerConfig | None = None
    max_transaction_timeout_ms: int = DEFAULT_MAX_TRANSACTION_TIMEOUT_MS
    failures: LogDirFailureChannel | None = None
    checkpoints_above: LogDirectoryCheckpoints | None = None
    on_new_name: Callable[[], None] | None = None
    has_settings: bool = False
    watcher: LogWatcher = UNWATCHED
    postponed: PostponedSyncs | None = None
    makes_directory: bool = True
    lineage: tuple[EpochEntry, ...] = ()
    max_timestamps: Mapping[int, int] = MappingProxyType({})
    origins: Mapping[str, FileOrigin] = MappingProxyType({})
    is_fixed: bool = False
    fills_import: bool = False


STANDALONE = LogEnvironment()
"""A log that is opened by itself."""
