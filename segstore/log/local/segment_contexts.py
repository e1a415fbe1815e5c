"""What the segments of a log share: settings that the core needs, made from those of the topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segstore._core import SegmentContext
from segstore.log.files.profile import Profile

if TYPE_CHECKING:
    from segstore._core import CodecTable, Directory
    from segstore.config import LogConfig


def segment_context(  # noqa: PLR0913 - what the segments of a log share
    directory: Directory,
    codecs: CodecTable,
    config: LogConfig,
    profile: Profile,
    *,
    writable: bool,
    heap_indexes: bool = True,
) -> SegmentContext:
    """Return the context for segments that are made, or opened, with these settings [SEG-1].

    A segment keeps its own when the settings change [UNI-7]. A reader's indexes are in memory in
    any case: another process may cut their files [DUR-27].
    """
    return SegmentContext(
        directory,
        codecs,
        writable=writable,
        heap_indexes=heap_indexes or not writable,
        preallocate=config.preallocate,
        index_interval_bytes=config.index_interval_bytes,
        max_index_bytes=config.segment_index_bytes,
        segment_bytes=config.roll_bytes,
        kafka_profile=profile is Profile.KAFKA,
    )
