"""The metadata log of a broker as a manager knows it: read once, at the first question.

Source: docs/decisions/metadata-image.md.
"""

from __future__ import annotations

import copy
import logging
from typing import TYPE_CHECKING, Final

from segstore.errors import LogDirectoryOfflineError, LogNotFoundError, SegstoreError
from segstore.log.files.broker_metadata import (
    UNREADABLE_METADATA,
    find_broker_metadata,
    metadata_log_in,
)
from segstore.log.files.checkpoints import META_PROPERTIES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from segstore._core import Directory
    from segstore.log.files.broker_metadata import BrokerMetadata

WAY_OUT: Final = (
    "reads and appends go on, and retention deletes nothing. If the directory is not a broker's any"
    " more, move the metadata log away"
)
_log = logging.getLogger(__name__)


class DirectoryMetadata:
    """What the metadata log says of one log directory, as long as a manager has it open.

    Parameters
    ----------
    directory : Directory
        The log directory.
    metadata_log : str or None
        Where the caller says that the metadata log is.
    find : callable
        Returns where it is when the caller has not said so; None = nowhere.

    Raises
    ------
    LogNotFoundError
        There is none where the caller says that one is.
    """

    def __init__(
        self, directory: Directory, metadata_log: str | None, find: Callable[[], str | None]
    ) -> None:
        self._directory = directory
        self._metadata_log = metadata_log
        self._find = find
        self._found: BrokerMetadata | None = None
        self._error: BaseException | None = None
        self._is_read = False
        if metadata_log is not None:
            self._read()

    def get(self) -> BrokerMetadata | None:
        """Return what it says; None where there is no metadata log.

        Raises
        ------
        SegstoreError, OSError
            It cannot be used, as it was read first.
        """
        if not self._is_read:
            self._read()
        if self._error is not None:
            raise copy.copy(self._error)  # each has a traceback of its own
        return self._found

    def _read(self) -> None:
        try:
            metadata_log = self._metadata_log or self._find()
            if metadata_log is not None:
                self._found = find_broker_metadata(self._directory, metadata_log)
        except UNREADABLE_METADATA as error:
            if self._metadata_log is not None and isinstance(error, LogNotFoundError):
                raise
            if isinstance(error, SegstoreError):
                error.go_on(None, WAY_OUT)
            _log.warning("%s: the settings of topics are unknown: %s", self._directory.path, error)
            self._error = error.with_traceback(None)
        self._is_read = True


def metadata_log_of(
    directories: Sequence[Directory], offline: Mapping[str, SegstoreError]
) -> str | None:
    """Return the metadata log in one of a broker's log directories; None where there is none.

    Raises
    ------
    LogDirectoryOfflineError
        It may be in one that is offline: topics without its settings would lose records [DUR-128].
    """
    for one in directories:
        metadata_log = metadata_log_in(one)
        if metadata_log is not None:
            return metadata_log
    if any(one.exists(META_PROPERTIES) for one in directories):
        for path, error in offline.items():
            raise LogDirectoryOfflineError(
                "the metadata log of the broker may be in this log directory, which is offline."
                " Where it is elsewhere, say so with metadata_log",
                file=path,
            ) from error
    return None
