"""Is a transaction really under way? (Kafka ``VerificationStateEntry``, ``VerificationGuard``).

Before the first transactional batch of a producer, the transaction's coordinator is asked whether
the partition belongs to the transaction (KIP-890). The guard ties the batch to that question: a
batch that was held up in the network, and comes when the transaction is over, has none.

Source: [PSM-30, PSM-31, PSM-35].
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, ClassVar, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_SENTINEL_VALUE: Final = 0


@dataclass(frozen=True, slots=True, init=False)
class VerificationGuard:
    """A number that no other guard of this process has; each call returns a new one."""

    value: int

    SENTINEL: ClassVar[VerificationGuard]
    """Stands for "no verification": it verifies nothing, not even itself."""
    _values: ClassVar[Iterator[int]] = count(_SENTINEL_VALUE + 1)

    def __init__(self) -> None:
        object.__setattr__(self, "value", next(self._values))  # one step under the interpreter lock

    def verify(self, guard: VerificationGuard) -> bool:
        """Whether *guard*, from a request, is this one and not ``SENTINEL``."""
        return guard.value != _SENTINEL_VALUE and guard.value == self.value


def _sentinel() -> VerificationGuard:
    guard = VerificationGuard()
    object.__setattr__(guard, "value", _SENTINEL_VALUE)
    return guard


VerificationGuard.SENTINEL = _sentinel()


@dataclass(slots=True)
class VerificationStateEntry:
    """The verification under way of one producer.

    Attributes
    ----------
    timestamp : int
        When it began, in ms: what it expires by; use does not renew it.
    lowest_sequence : int
        Of the batches that wait for it.
    epoch : int
        Of the producer.
    supports_epoch_bump : bool
        The producer's transactions raise its epoch (KIP-890, version 2).
    verification_guard : VerificationGuard
        What the batch has to come with.
    """

    timestamp: int
    lowest_sequence: int
    epoch: int
    supports_epoch_bump: bool = field(default=False, kw_only=True)
    verification_guard: VerificationGuard = field(default_factory=VerificationGuard, kw_only=True)

    def maybe_update_lowest_sequence_and_epoch(self, sequence: int, epoch: int) -> None:
        """Note another batch that waits: the lowest sequence number of the highest epoch counts.

        Batches can be verified out of order; the first to be appended must be the lowest [PSM-13].
        """
        if epoch > self.epoch:
            self.epoch = epoch
            self.lowest_sequence = sequence
        elif epoch == self.epoch:
            self.lowest_sequence = min(self.lowest_sequence, sequence)
