"""What every log consists of, whether it reads or writes: put together from what was loaded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import segstore._core as _core
from segstore.log.directory.profile import Profile
from segstore.log.local.checksum_sidecars import ChecksumSidecars
from segstore.log.local.local_log import LocalLog
from segstore.log.local.seen_end import SeenEnd
from segstore.log.log_offsets import LogOffsets
from segstore.log.remote_part import RemotePart

if TYPE_CHECKING:
    from segstore._core import AppendLock, CodecTable, SegmentContext
    from segstore.log.directory.background import Scheduler
    from segstore.log.directory.holdings import Holdings
    from segstore.log.directory.log_places import LogPlaces
    from segstore.log.loader.loaded_log import LoadedLog
    from segstore.log.loader.recovery_report import RecoveryReport
    from segstore.log.open_options import OpenOptions
    from segstore.log.surroundings import Surroundings


@dataclass(frozen=True, slots=True)
class LogParts:
    """Made by an open, one after another; each part has its own state."""

    places: LogPlaces
    loaded: LoadedLog
    context: SegmentContext
    codecs: CodecTable
    options: OpenOptions
    report: RecoveryReport
    holdings: Holdings
    surroundings: Surroundings
    append_lock: AppendLock
    background: Scheduler
    local_log: LocalLog
    seen_end: SeenEnd | None
    offsets: LogOffsets
    remote: RemotePart


def log_parts(  # noqa: PLR0913 - what an open has found and taken
    places: LogPlaces,
    loaded: LoadedLog,
    context: SegmentContext,
    codecs: CodecTable,
    options: OpenOptions,
    report: RecoveryReport,
    holdings: Holdings,
    surroundings: Surroundings,
) -> LogParts:
    """Make the parts of a log."""
    directory, profile = places.directory, options.profile
    background = surroundings.background(f"segstore-{places.topic_partition}", holdings.lock)
    producers = loaded.producer_state
    published = _core.PublishedEnd() if producers is None else producers.published
    seen_end = sidecars = None
    if holdings.lock is None:
        seen_end = SeenEnd(places, context, loaded.segments, loaded.log_end)
    elif profile is Profile.SAFE:  # a broker and a reader keep none
        there, are_written = loaded.checksum_sidecars, options.checksum_sidecar
        sidecars = ChecksumSidecars(directory, there, are_written=are_written)
    local_log = LocalLog(
        directory,
        context,
        options.config,
        loaded.segments,
        loaded.log_end,
        published,
        background,
        codecs,
        may_have_gaps=loaded.may_have_gaps or profile is Profile.KAFKA,
        first_missing_offset=loaded.first_missing_offset,
        checksum_sidecars=sidecars,
        seen_end=seen_end,
    )
    offsets = LogOffsets(
        local_log,
        loaded.producer_state,
        loaded.log_start_offset,
        replicated=options.replicated,
        profile=profile,
    )
    remote = RemotePart(places, options.remote_offset_reader, is_kept=loaded.keeps_remote_part)
    return LogParts(
        places,
        loaded,
        context,
        codecs,
        options,
        report,
        holdings,
        surroundings,
        _core.AppendLock(),
        background,
        local_log,
        seen_end,
        offsets,
        remote,
    )
