"""Batches and markers of producers, fed to a producer state as Kafka's tests do."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest

from segstore._core import Directory, RawRecord
from segstore.log.producers.producer_batch import ProducerBatch
from segstore.log.producers.producer_state_manager import ProducerStateManager
from segstore.log.producers.producer_state_manager_config import ProducerStateManagerConfig
from segstore.records.control_record import ControlRecordType
from segstore.types import CONTROL_FLAG, TRANSACTIONAL_FLAG, AppendOrigin, LogOffsetMetadata

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from segstore.log.producers.producer_append_info import ProducerAppendInfo
    from segstore.log.producers.txn_metadata import CompletedTxn

PRODUCER = 1
EXPIRATION_MS = 24 * 3600 * 1000
MAX_TIMEOUT_MS = 5 * 60 * 1000
LATE_MS = MAX_TIMEOUT_MS + 5 * 60 * 1000
NOW = 1_700_000_000_000
ABORT, COMMIT = ControlRecordType.ABORT, ControlRecordType.COMMIT


def data(  # noqa: PLR0913 - the header of a batch
    seq: int,
    offset: int,
    *,
    count: int = 1,
    epoch: int = 0,
    pid: int = PRODUCER,
    timestamp: int = NOW,
    transactional: bool = False,
) -> ProducerBatch:
    """A batch of *count* records."""
    attributes = TRANSACTIONAL_FLAG if transactional else 0
    last = offset + count - 1
    return ProducerBatch(0, offset, last, timestamp, pid, 100, seq, attributes, epoch)


def marker(
    kind: ControlRecordType, coordinator_epoch: int, offset: int, timestamp: int
) -> RawRecord:
    """The record that ends a transaction."""
    key, value = struct.pack(">hh", 0, kind), struct.pack(">hi", 0, coordinator_epoch)
    return RawRecord(offset, timestamp, -1, key, value, (), 0)


class Producers:
    """A producer state and the folder of its snapshots."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.directory = Directory(str(path))
        self.config = ProducerStateManagerConfig(EXPIRATION_MS, True)
        self.state = self.another()

    def another(self) -> ProducerStateManager:
        """A new state over the same snapshots."""
        return ProducerStateManager(
            "test-0", self.directory, self.config, max_transaction_timeout_ms=MAX_TIMEOUT_MS
        )

    def prepare(
        self, origin: AppendOrigin = AppendOrigin.CLIENT, pid: int = PRODUCER
    ) -> ProducerAppendInfo:
        return self.state.prepare_update(pid, origin)

    def append(
        self,
        batch: ProducerBatch,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        *,
        state: ProducerStateManager | None = None,
    ) -> None:
        """Append a batch and take it in."""
        state = state or self.state
        info = state.prepare_update(batch.producer_id, origin)
        info.append(batch, LogOffsetMetadata(batch.base_offset, 0, 990000 + batch.base_offset))
        state.update(info)
        state.update_map_end_offset(batch.last_offset + 1)

    def seq(self, seq: int, offset: int, **fields: int) -> None:
        """A client's batch of one record."""
        self.append(data(seq, offset, **fields))

    def txn(self, seq: int, offset: int, **fields: int) -> None:
        """A client's transactional batch of one record."""
        self.append(data(seq, offset, transactional=True, **fields))

    def end(  # noqa: PLR0913 - what a marker says
        self,
        kind: ControlRecordType,
        offset: int,
        *,
        epoch: int = 0,
        pid: int = PRODUCER,
        coordinator_epoch: int = 0,
        timestamp: int = NOW,
        transaction_version: int = 0,
        origin: AppendOrigin = AppendOrigin.COORDINATOR,
        state: ProducerStateManager | None = None,
    ) -> CompletedTxn | None:
        """A coordinator's marker, appended and taken in."""
        state = state or self.state
        info = state.prepare_update(pid, origin)
        attributes = TRANSACTIONAL_FLAG | CONTROL_FLAG
        batch = ProducerBatch(0, offset, offset, timestamp, pid, 78, -1, attributes, epoch)
        record = marker(kind, coordinator_epoch, offset, timestamp)
        completed = info.append(batch, None, transaction_version, [record])
        state.update(info)
        if completed is not None:
            state.complete_txn(completed)
        state.update_map_end_offset(offset + 1)
        return completed

    @property
    def unstable(self) -> int | None:
        """The first unstable offset."""
        place = self.state.first_unstable_offset
        return None if place is None else place.message_offset

    def snapshots(self) -> list[int]:
        """Offsets in the names of the folder's snapshots."""
        return [int(path.stem) for path in sorted(self.path.glob("*.snapshot"))]

    def touch(self, *offsets: int) -> None:
        """Make empty snapshot files, and list them."""
        for offset in offsets:
            (self.path / f"{offset:020}.snapshot").touch()
        self.state = self.another()


@pytest.fixture
def producers(tmp_path: Path) -> Iterator[Producers]:
    kit = Producers(tmp_path)
    yield kit
    kit.directory.close()
