"""What a tiered log is given where the directory was opened without its remote storage.

So the log keeps its remote part: its log start stays, no record counts as copied that is not known
to be, and local retention deletes none of the others. A read there raises an error
that names what is missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from segstore.errors import IllegalStateError

if TYPE_CHECKING:
    from segstore.types import TopicPartition


class MissingRemoteStorage:
    """A `RemoteLogReader` that reads nothing.

    Parameters
    ----------
    path : str
        Of the log directory.
    """

    def __init__(self, path: str) -> None:
        self._path = path

    def read(self, topic_partition: TopicPartition, *_: object, **__: object) -> NoReturn:
        """See `RemoteLogReader`."""
        raise self._error(topic_partition)

    def aborted_transactions(self, topic_partition: TopicPartition, *_: object) -> NoReturn:
        """See `RemoteLogReader`."""
        raise self._error(topic_partition)

    def find_offset_by_timestamp(self, topic_partition: TopicPartition, *_: object) -> NoReturn:
        """See `RemoteLogReader`."""
        raise self._error(topic_partition)

    def _error(self, topic_partition: TopicPartition) -> IllegalStateError:
        return IllegalStateError(
            f"{topic_partition} has records in remote storage, and the log directory was opened"
            " without remote=",
            file=f"{self._path}/{topic_partition}",
            found="no remote=",
            expected="open_dir(…, remote=…), or --remote",
        )
