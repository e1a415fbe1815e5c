"""Up to where the cleaner has cleaned a log, as ``.segstore`` says it [CLN-25, DUR-120, DUR-126].

A broker has that offset in the ``cleaner-offset-checkpoint`` of the log directory, by the name of
the partition alone. With a line that is stale, a deleted key comes back. Here the offset is tied to
the topic id and to the sizes of the segments below it. Where these are others, nothing is known to
be clean, and the next pass begins at the log start.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from segstore._core import crc32c
from segstore.errors import DiskFullError
from segstore.log.files.checkpoints import CleanedPart

if TYPE_CHECKING:
    import uuid

    from segstore.log.files.checkpoints import LogState
    from segstore.log.local.local_log import LocalLog
    from segstore.log.log_metadata import LogMetadata
    from segstore.log.topic_identity import TopicIdentity


def clean_end_of(state: LogState, local_log: LocalLog, topic_id: uuid.UUID | None) -> int | None:
    """Return where the clean part ends by what ``.segstore`` says; None where that is unknown."""
    cleaned = state.cleaned
    if cleaned is None or cleaned.offset > local_log.log_end.message_offset:
        return None
    is_same = cleaned.fingerprint == _fingerprint(local_log, topic_id, cleaned.offset)
    return cleaned.offset if is_same else None


def _fingerprint(local_log: LocalLog, topic_id: uuid.UUID | None, offset: int) -> int:
    segments = (one for one in local_log.segments if one.base_offset < offset)
    sizes = "".join(f"{one.base_offset} {one.size_bytes}\n" for one in segments)
    return crc32c(f"{topic_id}\n{sizes}".encode())


class CleanPart:
    """Keeps the offset of one log; callers of `note` and `renew` hold the append lock."""

    def __init__(
        self, metadata: LogMetadata, local_log: LocalLog, topic_identity: TopicIdentity
    ) -> None:
        self._metadata = metadata
        self._local_log = local_log
        self._topic_identity = topic_identity

    def end(self) -> int | None:
        """Return where the clean part ends; None where nothing is known to be clean."""
        state_file, topic_id = self._metadata.state_file, self._topic_identity.topic_id
        if state_file is None:
            return None
        return clean_end_of(state_file.state, self._local_log, topic_id)

    def note(self, offset: int) -> None:
        """Let the clean part end at *offset*, durably.

        Nothing is written where that is the first offset, which is what an open goes by anyway.
        """
        state_file = self._metadata.state_file
        if state_file is None:
            return
        is_empty = offset <= self._local_log.segments.first_segment.base_offset
        cleaned = None if is_empty else CleanedPart(offset, self._fingerprint(offset))
        if state_file.state.cleaned != cleaned:
            self._metadata.begin_change()
            state_file.change(cleaned=cleaned)

    def renew(self, offset: int | None) -> None:
        """Let the clean part end where it did, after older segments of it have gone."""
        if offset is not None:
            with suppress(DiskFullError):  # then the next pass begins at the log start
                self.note(offset)

    def _fingerprint(self, offset: int) -> int:
        return _fingerprint(self._local_log, self._topic_identity.topic_id, offset)
