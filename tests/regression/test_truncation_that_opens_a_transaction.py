"""A truncation took the end of a transaction whose producer had been forgotten: it was not seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segstore import AppendOrigin, MemoryRecords
from segstore.log.producers.producer_state_manager_config import ProducerStateManagerConfig

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore import UnifiedLog
    from tests.kits.log_kit import Clock

EXPIRATION_MS = 1000


def test_a_transaction_is_open_again_without_its_marker(
    new_log: Callable[..., UnifiedLog], clock: Clock
):
    """[PSM-73, PSM-56, LSO-1, TRU-5] Kafka reads nothing again where it knew no producer."""
    settings = {"producer_config": ProducerStateManagerConfig(EXPIRATION_MS)}
    log = new_log(**settings)
    now_ms = clock.now
    log.append_as_leader(
        MemoryRecords.with_records(
            [(now_ms, None, b"x")],
            producer_id=7,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        ).data
    )
    marker = MemoryRecords.with_end_transaction_marker(7, 0, commit=False, timestamp=now_ms)
    log.append_as_leader(marker.data, origin=AppendOrigin.COORDINATOR, transaction_version=1)
    log.close()
    clock.sleep(EXPIRATION_MS)
    log = new_log(**settings)
    assert log.active_producers() == []

    log.truncate_to(1)

    assert log.last_stable_offset == 0
    assert [one.producer_id for one in log.active_producers()] == [7]
    assert list(log.scan(isolation="read_committed")) == []
