"""``__remote_log_metadata`` of a log directory: where it notes what of its logs is remote.

The topic lies in the directory itself and is a log like others, in a broker's format. So a broker
that takes the directory over knows what was copied, and the other way round. Source: Kafka
``TopicBasedRemoteLogMetadataManager``, KIP-405.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from segstore.errors import IllegalStateError, LogReadOnlyError
from segstore.log.files.topic_names import REMOTE_LOG_METADATA_TOPIC

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
    count : callable
        Returns how many the topic has, also elsewhere; 0 where it is not made.
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
        count: Callable[[], int],
        open_log: Callable[[int], Log],
        create: Callable[[], object] | None,
    ) -> None:
        self._path = path
        self._numbers = numbers
        self._count = count
        self._known_count = 0
        self._open_log = open_log
        self._create = create
        self.noted: Callable[[], None] | None = None

    @property
    def partitions_count(self) -> int:
        """How many partitions it has, also elsewhere; 1 while it is not made: so many it will have.

        Events are found by this number: it must not be that of the partitions that are here.
        """
        return self._made_count() or 1

    @property
    def numbers(self) -> Sequence[int]:
        """The partitions that are here, ascending."""
        return self._numbers()

    def _made_count(self) -> int:
        if not self._known_count:  # it does not change
            self._known_count = self._count()
        return self._known_count

    def _log(self, partition: int) -> Log | None:
        """Return the log of a partition; None while the topic is not made.

        Raises
        ------
        IllegalStateError
            The topic is made, and that partition is elsewhere.
        """
        if partition in self._numbers():
            return self._open_log(partition)
        if not self._made_count():
            return None
        here = ", ".join(map(str, self._numbers()))
        raise IllegalStateError(
            f"{REMOTE_LOG_METADATA_TOPIC}-{partition} is not in this log directory: what it says of"
            " remote segments is not known. It is in another log directory of the broker, or of"
            " another broker",
            file=self._path,
            found=f"partitions {here}" if here else "no partition of the topic",
            expected=f"{REMOTE_LOG_METADATA_TOPIC}-{partition}",
        )

    def append(self, partition: int, value: bytes) -> None:
        """Append a record with that value; it is durable when this returns [DUR-140]."""
        self.make()
        log: UnifiedLog = self._log(partition)  # type: ignore[assignment]  # made; read-only: refused
        log.append([(None, value)])
        log.flush()
        if self.noted is not None:
            self.noted()

    def make(self) -> None:
        """Make the topic where it is not there."""
        if self._made_count():
            return
        if self._create is None:
            raise LogReadOnlyError(
                "nothing is noted of remote storage: the log directory was opened read-only",
                file=self._path,
            )
        self._create()

    def end_offset(self, partition: int) -> int:
        """Return the offset that the next record of a partition gets; 0 while it is not made."""
        log = self._log(partition)
        if log is None:
            return 0
        if log.read_only:
            log.refresh()
        return log.log_end_offset

    def values(self, partition: int) -> Iterator[bytes | None]:
        """Yield the values of a partition from its begin on, in order."""
        log = self._log(partition)
        if log is not None:
            if log.read_only:
                log.refresh()
            for record in log.scan():
                yield record.value
