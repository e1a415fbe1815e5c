"""The largest and smallest numbers of Kafka's types: Java's short, int and long."""

from __future__ import annotations

from typing import Final

MAX_SHORT: Final = 2**15 - 1
MAX_INT: Final = 2**31 - 1
MAX_LONG: Final = 2**63 - 1
MIN_INT: Final = -(2**31)
MIN_LONG: Final = -(2**63)
