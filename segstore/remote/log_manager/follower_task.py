"""The task of a log that another broker leads [TIER-44]."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segstore.remote.log_manager.copied_end import note_copied
from segstore.remote.log_manager.remote_log_task import RemoteLogTask

if TYPE_CHECKING:
    from segstore.log.unified_log import UnifiedLog


class FollowerTask(RemoteLogTask):
    """Notes what the leader has copied, so that the local part goes (Kafka ``RLMFollowerTask``)."""

    def _execute(self, log: UnifiedLog) -> None:
        generation = log._settled_generation()  # noqa: SLF001 - asked by its manager
        note_copied(log, self._parts, self._partition, generation)
