"""The durable modes of a log: when an append returns, and what a crash can take [DUR-3].

Also the error of a call that comes after a sync has failed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from segstore.errors import FsyncFailedError, IllegalArgumentError
from segstore.number_limits import MAX_LONG

if TYPE_CHECKING:
    from segstore.config.log_config import LogConfig
    from segstore.errors import SegstoreError

MAX_SECONDS: Final = MAX_LONG // 1_000_000_000  # 292 years, in ns
EXPECTED: Final = "'none', 'messages=N', 'seconds=S' or 'sync'"


@dataclass(frozen=True, slots=True)
class Durability:
    """When appended records are brought to stable storage.

    Attributes
    ----------
    sync : bool
        An append returns when a sync that began after its write has ended [DUR-15].
    messages : int
        The append that makes this many unsynced records syncs; 2^63-1 = never.
    seconds : float or None
        A thread syncs this often; None = no thread.
    """

    sync: bool = False
    messages: int = MAX_LONG
    seconds: float | None = None

    @classmethod
    def parse(cls, text: str) -> Durability:
        """Read ``none``, ``messages=1000``, ``seconds=0.5`` or ``sync``.

        Raises
        ------
        IllegalArgumentError
            *text* is something else, N below 1, or S not above 0 or beyond what ``flush.ms`` holds.
        """
        if not isinstance(text, str):
            raise _refused(text)
        mode, equals, number = text.partition("=")
        if not equals and mode in {"none", "sync"}:
            return cls(sync=mode == "sync")
        try:
            if equals and mode == "messages":
                messages = int(number)
                if 1 <= messages <= MAX_LONG:
                    return cls(messages=messages)
            if equals and mode == "seconds":
                seconds = float(number)
                if 0 < seconds <= MAX_SECONDS:
                    return cls(seconds=seconds)
        except ValueError:
            pass
        raise _refused(text)

    def with_flush_settings(self, config: LogConfig) -> Durability:
        """Return the stricter of this and ``flush.messages``, ``flush.ms`` in *config*."""
        seconds = self.seconds
        if config.flush_ms != MAX_LONG:
            wanted = max(config.flush_ms, 1) / 1000
            seconds = wanted if seconds is None else min(seconds, wanted)
        return Durability(self.sync, min(self.messages, config.flush_messages), seconds)

    def __str__(self) -> str:
        if self.sync:
            return "sync"
        if self.messages != MAX_LONG:
            return f"messages={self.messages}"
        return "none" if self.seconds is None else f"seconds={self.seconds:g}"


def _refused(found: object) -> IllegalArgumentError:
    return IllegalArgumentError(
        f"durability must be {EXPECTED}, not {found!r}", found=repr(found), expected=EXPECTED
    )


def sync_failed_before(cause: SegstoreError | None, path: str) -> FsyncFailedError:
    """Return the error for who waits for a sync that will not be tried again [DUR-35]."""
    told = "" if cause is None else f": {cause.text_within(path)}"
    error = FsyncFailedError(
        f"a sync failed and is not tried again; the log is read-only{told}", file=path
    )
    error.__cause__ = cause
    return error
