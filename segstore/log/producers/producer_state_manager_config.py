"""Settings of all producer states of a process (Kafka ``ProducerStateManagerConfig``) [PSM-36]."""

from __future__ import annotations

from dataclasses import dataclass

from segstore.arguments import flag, integer_within
from segstore.number_limits import MAX_LONG


@dataclass(slots=True)
class ProducerStateManagerConfig:
    """Settings that all logs share; each use reads the current value, so they may change."""

    producer_id_expiration_ms: int = 24 * 3600 * 1000
    """How long a producer is remembered after its last batch: ``producer.id.expiration.ms``."""
    transaction_verification_enabled: bool = False
    """Whether a transaction's first batch needs a guard.

    Kafka's ``transaction.partition.verification.enable``. A broker's default is True; here it is
    False, because the caller has to ask a coordinator.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if name == "producer_id_expiration_ms":
            value = integer_within(name, value, 1, MAX_LONG)
        elif name == "transaction_verification_enabled":
            value = flag(name, value)
        object.__setattr__(self, name, value)
