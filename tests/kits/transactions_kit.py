"""Producers that write to a log, and their markers, as Kafka's log tests do."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from segstore._core import wall_clock_ms
from segstore.types import AppendOrigin
from tests.kits.records_kit import build

if TYPE_CHECKING:
    from segstore import UnifiedLog
    from segstore.types import LogAppendInfo

NOW = wall_clock_ms()
"""Producers of long ago are forgotten when a snapshot is loaded."""
ABORT, COMMIT = 0, 1


def write(log: UnifiedLog, count: int = 1) -> LogAppendInfo:
    """Append records of no producer."""
    return log.append_as_leader(build([(n, NOW, b"%d" % n, b"v") for n in range(count)]), 0)


class Producer:
    """One producer; it counts its own sequence numbers."""

    def __init__(
        self,
        log: UnifiedLog,
        producer_id: int,
        epoch: int = 0,
        *,
        transactional: bool = True,
        sequence: int = 0,
    ) -> None:
        self.log = log
        self._options = {
            "producer_id": producer_id,
            "producer_epoch": epoch,
            "transactional": transactional,
        }
        self._sequence = sequence

    def write(self, count: int = 1) -> LogAppendInfo:
        """Append so many records."""
        rows = [(n, NOW, b"%d" % n, b"v") for n in range(count)]
        batch = build(rows, base_sequence=self._sequence, **self._options)
        self._sequence += count
        return self.log.append_as_leader(batch, 0)

    def skip(self, count: int) -> None:
        """Leave sequence numbers out."""
        self._sequence += count

    def end(self, kind: int, coordinator_epoch: int = 0, timestamp: int = NOW) -> LogAppendInfo:
        """Append the marker that ends the transaction."""
        key, value = struct.pack(">hh", 0, kind), struct.pack(">hi", 0, coordinator_epoch)
        marker = build([(0, timestamp, key, value)], control=True, **self._options)
        return self.log.append_as_leader(
            marker, 0, origin=AppendOrigin.COORDINATOR, transaction_version=0
        )


def write_transactions(log: UnifiedLog) -> None:
    """The sequence of Kafka's transaction index tests [T-14]: 90 offsets."""
    producers = {number: Producer(log, number) for number in (1, 2, 3, 4)}
    for number, count in (
        *((1, 5), (0, 3), (2, 2), (1, 4), (3, 3), (0, 2), (1, 10), (1, "abort"), (2, 6), (4, 3)),
        *((0, 10), (3, 9), (3, "commit"), (4, 8), (2, 7), (2, "abort"), (0, 10), (4, 4)),
        (4, "commit"),
    ):
        if number == 0:
            write(log, count)
        elif isinstance(count, str):
            producers[number].end(ABORT if count == "abort" else COMMIT)
        else:
            producers[number].write(count)
