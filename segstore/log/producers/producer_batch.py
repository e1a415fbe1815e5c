"""What the producer state looks at in a batch: a row of the batch-header table, as Python ints."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from segstore._core import increment_sequence
from segstore.types import CONTROL_FLAG, NO_SEQUENCE, TRANSACTIONAL_FLAG

if TYPE_CHECKING:
    from segstore._core import BatchHeaders


class ProducerBatch(NamedTuple):
    """A batch with a producer id; nothing of its records is needed, but of a marker the first."""

    position: int
    """Byte in the file or buffer that was scanned."""
    base_offset: int
    last_offset: int
    max_timestamp: int
    """In ms."""
    producer_id: int
    size_bytes: int
    base_sequence: int
    """-1 = none."""
    attributes: int
    producer_epoch: int

    @property
    def last_sequence(self) -> int:
        """Sequence number of the last record; 0 follows 2^31 - 1 [format.md 4.2]."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return increment_sequence(self.base_sequence, self.last_offset - self.base_offset)

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction."""
        return bool(self.attributes & TRANSACTIONAL_FLAG)

    @property
    def is_control(self) -> bool:
        """Whether the batch is a marker and not data."""
        return bool(self.attributes & CONTROL_FLAG)


def producer_batches(headers: BatchHeaders) -> list[ProducerBatch]:
    """Return the rows of the table that have a producer id, in their order.

    A log without producers pays for one comparison of a column.
    """
    chosen = headers["producer_id"] >= 0
    if not chosen.any():
        return []
    columns = (headers[name][chosen].tolist() for name in ProducerBatch._fields)
    return [ProducerBatch(*row) for row in zip(*columns, strict=True)]
