"""What a log goes by while it is open: settings, the topic's id, the time to forget producers.

Source: [UNI-5, UNI-7, UNI-8, EXP-1].
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import segstore._core as _core
from segstore.arguments import instance
from segstore.config import MAX_LONG, LogConfig
from segstore.log.directory.partition_metadata_file import check_topic_id, inconsistent_topic_id
from segstore.log.directory.profile import Profile
from segstore.log.local.segment_contexts import segment_context
from segstore.log.log_removal import LogRemoval
from segstore.log.producers.producer_input import ProducerInput
from segstore.records.compression import compression_level, require_codec
from segstore.records.record_builder import codec_of
from segstore.types import Codec

if TYPE_CHECKING:
    import uuid

    from segstore.log.directory.durability import Durability

PRODUCER_ID_EXPIRATION_CHECK_INTERVAL_MS: Final = 600_000


class LogSettings(LogRemoval):
    """What can be changed of an open log besides its records."""

    durability: Durability
    _chosen_durability: Durability
    _opened_ms: int
    _topic_id: uuid.UUID | None

    def update_config(self, config: LogConfig) -> LogConfig:
        """Use other settings from the next decision on; returns the old ones [UNI-7].

        Files that are open keep the size of their indexes. Where the new ones end a remote part of
        the log, it begins at its local log start from then on.

        Raises
        ------
        IllegalArgumentError
            They contradict each other for a log in remote storage, or turn that off without
            ``remote_log_delete_on_disable``.
        """
        self._require_writable()
        instance("config", config, LogConfig, "a LogConfig")
        require_codec(codec_of(config))
        with self._append_lock:
            self._require_writable()
            self._check_remote_storage(config)
            self._leave_remote_storage(config)
            old = self.config
            self._use_config(config)
            self._flusher.use_durability(self.durability)
        return old

    @property
    def topic_id(self) -> uuid.UUID | None:
        """The topic's id, None when none is known; in ``partition.metadata``."""
        return self._topic_id

    def assign_topic_id(self, topic_id: uuid.UUID) -> None:
        """Give the log the id of its topic, on stable storage before the next batch [UNI-8].

        Raises
        ------
        InconsistentTopicIdError
            It has another one.
        """
        self._require_writable()
        check_topic_id(topic_id)
        with self._append_lock:
            self._require_writable()
            self._take_topic_id(topic_id)

    def _take_topic_id(self, topic_id: uuid.UUID) -> None:
        known = self._topic_id
        if known is not None and known != topic_id:
            raise inconsistent_topic_id(self._partition_metadata.path, known, topic_id)
        if known is None:
            self._settle_lane()  # the id is written down before the next batch
            self._partition_metadata.record(topic_id)
            self._topic_id = topic_id
            self._background.submit(self._write_topic_id)

    def _write_topic_id(self) -> None:
        with self._append_lock:
            if not self._is_closed and self._flusher.failure is None:
                self._flush_topic_id()

    def _use_config(self, config: LogConfig) -> None:
        """Take over settings; the next decision is made by them [UNI-7]."""
        codec = codec_of(config)
        self.config = config
        context = segment_context(
            self._directory,
            self._codecs,
            config,
            self.profile,
            writable=True,
            heap_indexes=self._local_log.has_heap_indexes,
        )
        self._local_log.use_config(config, context)
        self._batch_bytes = _uncompressed_batch_bytes(config, codec)
        self._builder_config = (
            config
            if self._batch_bytes == config.max_message_bytes
            else config.with_changes(max_message_bytes=self._batch_bytes)
        )
        self._batch_options = _core.BatchOptions(
            codec=int(codec), level=compression_level(codec, config)
        )
        durability = self.durability = self._chosen_durability.with_flush_settings(config)
        self._has_window = durability.seconds is not None
        self._syncs_on_append = durability.sync or durability.messages != MAX_LONG
        self._use_remote_storage(config)
        self._stamps_append_time = config.message_timestamp_type == "LogAppendTime"
        self._input = ProducerInput(config, self._codecs, self.profile)
        self._settle_lane()
        self._lane = self._new_lane() if self.profile is Profile.SAFE else None

    def _expire_producers_later(self) -> None:
        """Look for expired producers at Kafka's times: each interval since the open [EXP-1]."""
        self._expires_producers = True
        interval = PRODUCER_ID_EXPIRATION_CHECK_INTERVAL_MS
        passed = (self._now_ms() - self._opened_ms) % interval
        self._background.repeat(
            self._expire_producers, interval / 1000, first_seconds=(interval - passed) / 1000
        )

    def _expire_producers(self) -> None:
        with self._append_lock:
            self._producers.remove_expired_producers(self._now_ms())


def _uncompressed_batch_bytes(config: LogConfig, codec: Codec) -> int:
    """Return how large a batch may become before it is compressed: a codec may also expand it.

    What is compressed here can be read again: no limit of reading is below that of writing.
    """
    limit = min(config.max_message_bytes, config.roll_bytes)
    if codec is Codec.NONE:
        return limit
    reading = min(config.max_decompressed_batch_bytes, config.max_record_bytes)
    return min(max(limit - limit // 8 - 64, 1), reading)
