"""What every log consists of, whether it reads or writes: put together from what was loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import segstore._core as _core
from segstore.log.files.profile import Profile
from segstore.log.local.checksum_sidecars import ChecksumSidecars
from segstore.log.local.local_log import LocalLog
from segstore.log.local.observed_end import ObservedEnd
from segstore.log.log_offsets import LogOffsets
from segstore.log.remote_part import RemotePart

if TYPE_CHECKING:
    from segstore._core import AppendLock, CodecTable, SegmentContext
    from segstore.log.files.background import Scheduler
    from segstore.log.files.checkpoint_store import CheckpointStore
    from segstore.log.log_environment import LogEnvironment
    from segstore.log.open_handles import OpenHandles
    from segstore.log.open_options import OpenOptions
    from segstore.log.recovery.loaded_log import LoadedLog
    from segstore.log.recovery.recovery_report import RecoveryReport


class LogParts(NamedTuple):
    """Made by an open, one after another; each part has its own state."""

    checkpoint_store: CheckpointStore
    loaded: LoadedLog
    context: SegmentContext
    codecs: CodecTable
    options: OpenOptions
    report: RecoveryReport
    open_handles: OpenHandles
    log_environment: LogEnvironment
    append_lock: AppendLock
    background: Scheduler
    local_log: LocalLog
    observed_end: ObservedEnd | None
    offsets: LogOffsets
    remote: RemotePart


def log_parts(  # noqa: PLR0913 - what an open has found and taken
    checkpoint_store: CheckpointStore,
    loaded: LoadedLog,
    context: SegmentContext,
    codecs: CodecTable,
    options: OpenOptions,
    report: RecoveryReport,
    open_handles: OpenHandles,
    log_environment: LogEnvironment,
) -> LogParts:
    """Make the parts of a log."""
    directory, profile = checkpoint_store.directory, options.profile
    background = log_environment.background(
        f"segstore-{checkpoint_store.topic_partition}", open_handles.lock
    )
    producers = loaded.producer_state
    published = _core.PublishedEnd() if producers is None else producers.published
    observed_end = sidecars = None
    if open_handles.lock is None:
        observed_end = ObservedEnd(
            checkpoint_store,
            context,
            loaded.segments,
            loaded.log_end,
            loaded.generation,
            is_fixed=log_environment.is_fixed,
        )
    elif profile is Profile.SAFE:  # a broker and a reader keep none
        there, are_written = loaded.checksum_sidecars, options.checksum_sidecar
        sidecars = ChecksumSidecars(directory, there, are_written=are_written)
    for base_offset, timestamp in log_environment.max_timestamps.items():
        segment = loaded.segments.get(base_offset)
        if segment is not None and timestamp >= 0:
            segment.told_max_timestamp = timestamp
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
        checksum_sidecars=sidecars,
        observed_end=observed_end,
        lineage=log_environment.lineage,
        origins=log_environment.origins,
    )
    offsets = LogOffsets(
        local_log,
        loaded.producer_state,
        loaded.log_start_offset,
        replicated=options.replicated,
        profile=profile,
    )
    remote = RemotePart(
        checkpoint_store, options.remote_log_reader, is_kept=loaded.keeps_remote_part
    )
    return LogParts(
        checkpoint_store,
        loaded,
        context,
        codecs,
        options,
        report,
        open_handles,
        log_environment,
        _core.AppendLock(),
        background,
        local_log,
        observed_end,
        offsets,
        remote,
    )
