"""Whether a log has a part in remote storage, as its settings say, and what ends that.

`RemoteTier` is that part while there is one. Nothing here copies a record.

Source: [UNI-2, UNI-6, CFG-43..CFG-46, DUR-26].
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from segstore.errors import IllegalArgumentError
from segstore.log.remote_tier import RemoteTier, is_remote_log_enabled, may_have_copies

if TYPE_CHECKING:
    from segstore.config.log_config import LogConfig
    from segstore.log.files.checkpoint_store import CheckpointStore
    from segstore.log.flusher import LogFlusher
    from segstore.log.local.local_log import LocalLog
    from segstore.log.log_offsets import LogOffsets
    from segstore.log.remote_tier import RemoteLogReader


class RemotePart:
    """Begins and ends the remote tier of one log, under its append lock.

    Parameters
    ----------
    reader : RemoteLogReader or None
        Answers for records that are in remote storage.
    is_kept : bool
        An earlier handle left records in remote storage alone. They stay the log's, without a
        reader and whatever the settings say, until ``remote_log_delete_on_disable`` [DUR-26,
        CFG-46].

    Attributes
    ----------
    tier : RemoteTier or None
        None = all records of the log are here.
    may_have_copies : bool
        Records of it may be in remote storage, also of a log without a `tier`: it was opened
        without a reader, or the settings have ended the tier and not all of it is deleted yet.
    """

    __slots__ = ("_checkpoint_store", "_is_kept", "_reader", "may_have_copies", "tier")

    def __init__(
        self, checkpoint_store: CheckpointStore, reader: RemoteLogReader | None, *, is_kept: bool
    ) -> None:
        self.tier: RemoteTier | None = None
        self.may_have_copies = False
        self._checkpoint_store = checkpoint_store
        self._reader = reader
        self._is_kept = is_kept

    def check(self, config: LogConfig) -> None:
        """Refuse settings that contradict each other, or forget what is in remote storage.

        Source: [CFG-43..CFG-46].
        """
        if self._reader is None:
            return
        if not self.is_ended_by(config):
            return
        path = self._checkpoint_store.directory.path
        if config.remote_storage_enable:
            raise IllegalArgumentError(
                "a log in remote storage cannot be compacted: set remote_storage_enable=False"
                " first, or together with it",
                file=path,
                found=f"cleanup_policy {config.cleanup_policy!r}",
                expected="one without compact",
            )
        if not config.remote_log_delete_on_disable:
            raise IllegalArgumentError(
                "remote_storage_enable=False needs remote_log_delete_on_disable=True, which deletes"
                " the records that are in remote storage alone. remote_log_copy_disable=True keeps"
                " them and ends uploads",
                file=path,
                found="remote_log_delete_on_disable False",
                expected="remote_log_delete_on_disable True",
            )

    def is_ended_by(self, config: LogConfig) -> bool:
        """Whether the log has a remote part that *config* ends."""
        return self.tier is not None and not self._is_wanted_by(config)

    def use_config(
        self, config: LogConfig, local_log: LocalLog, offsets: LogOffsets, flusher: LogFlusher
    ) -> None:
        """Begin, change or end the remote part as *config* says [UNI-2, UNI-6]."""
        self.may_have_copies = self._is_wanted_by(config) or may_have_copies(
            config, self._checkpoint_store.topic_partition.topic
        )
        if not self._is_wanted_by(config):
            self.tier, self._is_kept = None, False
            return
        copies = self._is_kept or not config.remote_log_copy_disable
        if self.tier is not None:
            self.tier.copy_segments(copies=copies)
            return
        first = local_log.segments.first_segment.base_offset
        start = max(offsets.log_start_offset, first)
        self.tier = RemoteTier(self._reader, start, copies=copies)
        offsets.raise_high_watermark(start)
        flusher.raise_recovery_point(start)

    def show(self, config: LogConfig, local_log: LocalLog, offsets: LogOffsets) -> None:
        """Begin the remote part of a log that another handle writes, where it can be read."""
        if self._reader is not None and self._is_wanted_by(config):
            first = local_log.segments.first_segment.base_offset
            start = max(offsets.log_start_offset, first)
            self.tier = RemoteTier(self._reader, start, copies=False)

    def _is_wanted_by(self, config: LogConfig) -> bool:
        if self._is_kept and not config.remote_log_delete_on_disable:
            return True
        return is_remote_log_enabled(
            config,
            self._checkpoint_store.topic_partition.topic,
            system_enabled=self._reader is not None,
        )
