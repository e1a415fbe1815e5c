"""``__remote_log_metadata`` of a log directory: where it notes what of its logs is remote.

The topic lies in the directory itself and is a log like others, in a broker's format. So a broker
that takes the directory over knows what was copied, and the other way round. Source: Kafka
``TopicBasedRemoteLogMetadataManager``, KIP-405.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from segstore.errors import LogReadOnlyError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from segstore.log.unified_log import Log, UnifiedLog

NEVER_CLEANED: Final[Mapping[str, str]] = MappingProxyType(
    {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
)
"""What Kafka gives the topic: each of its records may still say what is remote."""


class DirectoryMetadataTopic:
    """The topic as a metadata manager uses it (`MetadataTopic`).

    Parameters
    ----------
    path : str
        Of the log directory.
    numbers : callable
        Returns the partitions of the topic that are there, ascending.
    open_log : callable
        Returns the log of one of them; opens it where it is not open.
    create : callable or None
        Makes the topic, with one partition. None for a directory that is only read.

    Attributes
    ----------
    noted : callable or None
        Called after each append: it may tell a user how far a pass is.
    """

    def __init__(
        self,
        path: str,
        numbers: Callable[[], Sequence[int]],
        open_log: Callable[[int], Log],
        create: Callable[[], object] | None,
    ) -> None:
        self._path = path
        self._numbers = numbers
        self._open_log = open_log
        self._create = create
        self.noted: Callable[[], None] | None = None

    @property
    def partitions_count(self) -> int:
        """How many partitions it has; 1 while it is not made: so many it will have."""
        return len(self._numbers()) or 1

    def append(self, partition: int, value: bytes) -> None:
        """Append a record with that value; it is durable when this returns [DUR-140]."""
        self.make()
        log: UnifiedLog = self._open_log(partition)  # type: ignore[assignment]  # read-only: refused
        log.append([(None, value)])
        log.flush()
        if self.noted is not None:
            self.noted()

    def make(self) -> None:
        """Make the topic where it is not there."""
        if self._numbers():
            return
        if self._create is None:
            raise LogReadOnlyError(
                "nothing is noted of remote storage: the log directory was opened read-only",
                file=self._path,
            )
        self._create()

    def end_offset(self, partition: int) -> int:
        """Return the offset that the next record of a partition gets; 0 while it is not made."""
        if not self._numbers():
            return 0
        log = self._open_log(partition)
        if log.read_only:
            log.refresh()
        return log.log_end_offset

    def values(self, partition: int) -> Iterator[bytes | None]:
        """Yield the values of a partition from its begin on, in order."""
        if self._numbers():
            log = self._open_log(partition)
            if log.read_only:
                log.refresh()
            for record in log.scan():
                yield record.value
