"""A partition directory, loaded as a broker does: the loader by itself, without a log around it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from segstore._core import Directory, SegmentContext
from segstore.errors import UnsupportedFormatError
from segstore.log.files.checkpoint_store import CheckpointStore
from segstore.log.files.stored_state import StoredState
from segstore.log.kafka_profile.kafka_log_loader import KafkaLogLoader
from segstore.log.producers.producer_state_manager import ProducerStateManager
from segstore.log.producers.producer_state_manager_config import ProducerStateManagerConfig
from segstore.log.recovery.recovery_report import RecoveryReport
from segstore.records.compression import codec_table
from segstore.types import TopicPartition

if TYPE_CHECKING:
    from pathlib import Path

    from segstore.log.recovery.loaded_log import LoadedLog

NOW_MS = 1_700_000_000_000


class Settings(NamedTuple):
    """What a load depends on, of topic and broker."""

    index_interval_bytes: int = 4096
    segment_index_bytes: int = 10485760
    segment_bytes: int = 1073741824
    preallocate: bool = False
    producer_id_expiration_ms: int = 86400000


class _FixedCheckpointStore(CheckpointStore):
    """Checkpoints and marker as a test gives them."""

    def __init__(self, directory: Directory, found: StoredState) -> None:
        super().__init__(directory, None, TopicPartition("topic", 0))
        self._given = found

    def read(self) -> StoredState:
        return self._given


def load_as_kafka(  # noqa: PLR0913 - Kafka's own arguments
    folder: Path,
    *,
    clean: bool,
    log_start_offset: int = 0,
    recovery_point: int = 0,
    settings: Settings | None = None,
    now_ms: int = NOW_MS,
    report: RecoveryReport | None = None,
) -> LoadedLog:
    """Load *folder*; the segments are open, for `close_quietly`."""
    if settings is None:
        settings = Settings()
    directory = Directory(str(folder))
    context = SegmentContext(
        directory,
        codec_table(),
        writable=True,
        kafka_profile=True,
        preallocate=settings.preallocate,
        index_interval_bytes=settings.index_interval_bytes,
        max_index_bytes=settings.segment_index_bytes,
        segment_bytes=settings.segment_bytes,
    )
    producers = ProducerStateManagerConfig(settings.producer_id_expiration_ms)

    def new_producer_state() -> ProducerStateManager:
        return ProducerStateManager(folder.name, directory, producers, kafka_profile=True)

    return KafkaLogLoader(
        directory,
        _FixedCheckpointStore(
            directory, StoredState(log_start_offset, recovery_point, clean, None)
        ),
        context,
        RecoveryReport(mode="kafka") if report is None else report,
        codecs=codec_table(),
        new_producer_state=new_producer_state,
        now_ms=now_ms,
    ).load()


def close_quietly(loaded: LoadedLog) -> None:
    """Let go of the files, as a crash does."""
    for segment in loaded.segments:
        segment.close_quietly()


def is_of_later_release(error: Exception) -> bool:
    """Whether 4.3.1 would have believed what this refuses, and 4.4.0 does not [T-25, DIFF-12]."""
    return isinstance(error, UnsupportedFormatError) and str(error.file).endswith(".txnindex")
