"""When what has failed is tried again: each time after twice as long [DUR-131]."""

from __future__ import annotations

from typing import Final, NamedTuple

LONGEST_RETRY_MS: Final = 3_600_000
"""A log that fails again and again is tried each hour."""


class Retry(NamedTuple):
    """A log that has failed.

    Attributes
    ----------
    attempts : int
        How often in a row.
    due_ms : int
        When it is tried again.
    """

    attempts: int
    due_ms: int


def retry_delay_ms(first_ms: int, attempts: int, longest_ms: int) -> int:
    """Return how long a task waits that has failed so often in a row: each time twice as long."""
    return min(first_ms << min(attempts - 1, 32), longest_ms)


def next_retry(before: Retry | None, now_ms: int, first_ms: int) -> Retry:
    """Return the retry of a log that fails now; *before* = that of its last failure, if any."""
    attempts = 1 if before is None else before.attempts + 1
    return Retry(attempts, now_ms + retry_delay_ms(first_ms, attempts, LONGEST_RETRY_MS))
