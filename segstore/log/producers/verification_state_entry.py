"""Is a transaction really under way? (Kafka ``VerificationStateEntry``, ``VerificationGuard``).

Before the first transactional batch of a producer, the transaction's coordinator is asked whether
the partition belongs to the transaction (KIP-890). The guard ties the batch to that question: a
batch that was held up in the network, and comes when the transaction is over, has none.

Source: [PSM-30, PSM-31, PSM-35].
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, ClassVar, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_SENTINEL_VALUE: Final = 0


@dataclass(frozen=True, slots=True, init=False)
class VerificationGuard:
    """A number that no other guard of this process has; made anew by each call."""

    value: int

    SENTINEL: ClassVar[VerificationGuard]
    """Stands for "no verification": it verifies nothing, not even itself."""
    _values: ClassVar[Iterator[int]] = count(_SENTINEL_VALUE + 1)

    def __init__(self) -> None:
        object.__setattr__(self, "value", next(self._values))  # one step under the interpreter lock

    def verify(self, guard: VerificationGuard) -> bool:
        """Whether *guard*, that of a request, is this one, and is one at all."""
        return guard.value != _SENTINEL_VALUE and guard.value == self.value


def _sentinel() -> VerificationGuard:
    guard = VerificationGuard()
    object.__setattr__(guard, "value", _SENTINEL_VALUE)
    return guard


VerificationGuard.SENTINEL = _sentinel()


class VerificationStateEntry:
    """The verification under way of one producer.

    Parameters
    ----------
    timestamp : int
        When it began, in ms: what it expires by; use does not renew it.
    sequence : int
        Of the batch that waits for it.
    epoch : int
        Of the producer.
    supports_epoch_bump : bool
        Whether the producer's epoch rises with every transaction (transactions of version 2).
    """

    __slots__ = (
        "epoch",
        "lowest_sequence",
        "supports_epoch_bump",
        "timestamp",
        "verification_guard",
    )

    def __init__(
        self, timestamp: int, sequence: int, epoch: int, *, supports_epoch_bump: bool = False
    ) -> None:
        self.timestamp = timestamp
        self.verification_guard = VerificationGuard()
        self.lowest_sequence = sequence
        self.epoch = epoch
        self.supports_epoch_bump = supports_epoch_bump

    def maybe_update_lowest_sequence_and_epoch(self, sequence: int, epoch: int) -> None:
        """Note another batch that waits: the lowest sequence number of the highest epoch counts.

        Batches can be verified out of order; the first to be appended must be the lowest [PSM-13].
        """
        if epoch > self.epoch:
            self.epoch = epoch
            self.lowest_sequence = sequence
        elif epoch == self.epoch:
            self.lowest_sequence = min(self.lowest_sequence, sequence)

    def __repr__(self) -> str:
        return (
            f"VerificationStateEntry(timestamp={self.timestamp}, "
            f"verification_guard={self.verification_guard.value}, "
            f"lowest_sequence={self.lowest_sequence}, epoch={self.epoch}, "
            f"supports_epoch_bump={self.supports_epoch_bump})"
        )
