"""How a manager compacts: threads, memory, rate (Kafka ``CleanerConfig``)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from segstore.errors import IllegalArgumentError
from segstore.log.cleaning.cleaner import (
    DEFAULT_IO_BUFFER_BYTES,
    DEFAULT_LOAD_FACTOR,
    DEFAULT_MAP_BYTES,
)

if TYPE_CHECKING:
    from segstore.config.broker_config import BrokerConfig


@dataclass(frozen=True, slots=True)
class CleanerConfig:
    """How a manager compacts (Kafka ``CleanerConfig``); the keys begin with ``log.cleaner``.

    Attributes
    ----------
    threads : int
        How many logs of one log directory are cleaned at the same time, 1 or more.
    dedupe_buffer_size : int
        Bytes for the keys of all threads together, 24 a key.
    dedupe_buffer_load_factor : float
        The part of them that is filled, above 0 and at most 1.
    io_buffer_size : int
        Bytes of the buffers of all threads together.
    max_io_bytes_per_second : float
        What all threads together may read and write.
    backoff_ms : int
        How long a thread waits that found nothing to clean.
    enable : bool
        False = nothing is compacted, and retention deletes of compacted logs.
    """

    threads: int = 1
    dedupe_buffer_size: int = DEFAULT_MAP_BYTES
    dedupe_buffer_load_factor: float = DEFAULT_LOAD_FACTOR
    io_buffer_size: int = DEFAULT_IO_BUFFER_BYTES
    max_io_bytes_per_second: float = math.inf
    backoff_ms: int = 15_000
    enable: bool = True

    def __post_init__(self) -> None:
        if self.threads < 1:
            raise IllegalArgumentError(
                f"a cleaner cannot have {self.threads} threads",
                found=str(self.threads),
                expected="1 or more",
            )
        if not self.max_io_bytes_per_second > 0:
            raise IllegalArgumentError(
                "a cleaner that may read and write nothing cannot clean",
                found=str(self.max_io_bytes_per_second),
                expected="a number of bytes a second above 0",
            )

    @classmethod
    def of_broker(cls, config: BrokerConfig) -> CleanerConfig:
        """Return that of a broker's settings [CFG-69…CFG-75]."""
        values = config.values
        return cls(
            values["log.cleaner.threads"],
            values["log.cleaner.dedupe.buffer.size"],
            values["log.cleaner.io.buffer.load.factor"],
            values["log.cleaner.io.buffer.size"],
            values["log.cleaner.io.max.bytes.per.second"],
            values["log.cleaner.backoff.ms"],
            values["log.cleaner.enable"],
        )
