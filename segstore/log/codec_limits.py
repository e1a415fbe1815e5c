"""What a log's codecs may decompress: the limits of its settings, and of its profile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segstore.log.files.profile import Profile
from segstore.number_limits import MAX_INT
from segstore.records.compression import codec_table

if TYPE_CHECKING:
    import segstore._core as _core
    from segstore.config.log_config import LogConfig


def codecs_of(
    config: LogConfig, profile: Profile, most_record_bytes: int = MAX_INT
) -> _core.CodecTable:
    """Return the codecs of a log; Kafka's profile has no other limit than *most_record_bytes*.

    Parameters
    ----------
    most_record_bytes : int
        Bound on one record after decompression, beside that of *config*.

    Source: [DUR-62, DUR-92].
    """
    if profile is Profile.KAFKA:
        return codec_table(MAX_INT, most_record_bytes)
    record_bytes = min(config.max_record_bytes, most_record_bytes)
    return codec_table(config.max_decompressed_batch_bytes, record_bytes)
