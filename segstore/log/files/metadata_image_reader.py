"""What a broker's disk knows of its cluster: from the files of a metadata log to its image."""

from __future__ import annotations

import os
from contextlib import closing, suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from segstore._core import Directory
from segstore.arguments import natural, path_text
from segstore.errors import (
    CorruptLogError,
    LogNotFoundError,
    OffsetOutOfRangeError,
    SegstoreError,
)
from segstore.log.files.metadata_image import MetadataImage
from segstore.log.files.metadata_log_files import MetadataLogFiles, snapshot_ids
from segstore.log.files.metadata_replay import MetadataReplay, MetadataReplayError
from segstore.log.files.topic_names import METADATA_LOG
from segstore.number_limits import MAX_LONG

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segstore._core import Environment, RawRecord
    from segstore.log.files.metadata_log_files import MetadataBatch

ATTEMPTS: Final = 3


def read_metadata_image(
    path: str | os.PathLike[str],
    environment: Environment | None = None,
    *,
    at: int | None = None,
) -> MetadataImage:
    """Read what a KRaft metadata log says: topics, ids, partitions, settings, brokers.

    The newest whole snapshot is read, then the log after it. Nothing is written or locked, and a
    broker may run.

    Parameters
    ----------
    path : str or PathLike
        ``__cluster_metadata-0``, or the directory that holds it: that of ``metadata.log.dir``, else
        the first of ``log.dirs``.
    environment : Environment or None
        Of the files; None = the real ones.
    at : int or None
        The image of the records below this offset: what was known before it. None = of all.

    Returns
    -------
    MetadataImage
        Frozen. A write that was interrupted at the end of the log is left out, and ``torn_bytes``
        counts its bytes.

    Raises
    ------
    ArgumentTypeError, IllegalArgumentError
        *path* is no path.
    LogNotFoundError
        There is no metadata log.
    OffsetOutOfRangeError
        *at* is above the end, or what was known then is gone: a later snapshot has replaced it.
    CorruptLogError
        The log or a snapshot is damaged, or records are missing: the file, the position, what was
        found and what was expected.

    Source: [RAFT-23, RAFT-47, RAFT-48, format.md 6.4]; Kafka ``MetadataLoader``, ``MetadataDelta``.
    """
    offset = None if at is None else natural("at", at)
    with closing(_metadata_log(path_text("path", path), environment)) as directory:
        for _ in range(ATTEMPTS - 1):
            with suppress(LogNotFoundError):  # a broker has deleted what a newer snapshot replaces
                return _image_of(directory, offset)
        return _image_of(directory, offset)


def _image_of(directory: Directory, at: int | None) -> MetadataImage:
    files = MetadataLogFiles(directory, at)
    below = MAX_LONG if at is None else at
    replay = MetadataReplay()
    end_offset, last_epoch = 0, -1
    for batch in files.snapshot_batches():
        _replay(batch, replay, 0)
    if files.snapshot is not None:
        last_epoch, end_offset = files.snapshot
    for batch in files.batches():
        _replay(batch, replay, end_offset, below)
        end_offset, last_epoch = min(batch.last_offset + 1, below), batch.epoch
        replay.last_timestamp = batch.timestamp
    if at is not None and end_offset < at:
        raise OffsetOutOfRangeError(
            f"the metadata log ends before offset {at}",
            file=directory.path,
            found=f"offset {end_offset}, the log end",
            expected=f"an offset up to {end_offset}",
        )
    return MetadataImage(
        path=directory.path,
        end_offset=end_offset,
        last_epoch=last_epoch,
        last_timestamp=replay.last_timestamp,
        snapshot=None if files.snapshot is None else files.snapshot.name,
        incomplete_snapshots=files.incomplete_snapshots,
        torn_bytes=files.torn_bytes,
        open_transaction_offset=replay.open_transaction_offset,
        unknown_records=MappingProxyType(dict(replay.unknown_records)),
        kraft_version=replay.kraft_version,
        voters=replay.voters,
        metadata_version=replay.metadata_version,
        features=MappingProxyType(replay.features),
        brokers=MappingProxyType(replay.brokers),
        controllers=MappingProxyType(replay.controllers),
        topics=MappingProxyType(replay.topics()),
        configs=_frozen_twice(replay.configs),
        client_quotas=_frozen_twice(replay.client_quotas),
        next_producer_id=replay.next_producer_id,
        access_control_entries=MappingProxyType(replay.access_control_entries),
        scram_iterations=MappingProxyType(replay.scram_iterations),
        delegation_tokens=MappingProxyType(replay.delegation_tokens),
    )


def _metadata_log(path: str, environment: Environment | None) -> Directory:
    """Open the directory of the metadata log at or in *path*."""
    with closing(Directory(path, environment)) as directory:
        if directory.exists(METADATA_LOG):
            path = os.path.join(path, METADATA_LOG)  # noqa: PTH118 - as the user wrote it
        elif not directory.has_segments() and not snapshot_ids(directory.names()):
            raise LogNotFoundError(
                "there is no metadata log of a KRaft cluster",
                file=path,
                found="neither segments nor snapshots",
                expected=f"{METADATA_LOG}, or a directory that holds it",
            )
    return Directory(path, environment)


def _replay(batch: MetadataBatch, replay: MetadataReplay, start: int, end: int = MAX_LONG) -> None:
    """Take the records of a batch in [*start*, *end*); an error names file and position."""
    for record in batch.records():
        if not start <= record.offset < end:
            continue
        try:
            if batch.is_control:
                replay.replay_control(record)
            else:
                replay.replay(record)
        except (MetadataReplayError, SegstoreError) as error:
            raise _damaged(batch, record, error) from error


def _damaged(
    batch: MetadataBatch, record: RawRecord, error: MetadataReplayError | SegstoreError
) -> CorruptLogError:
    return CorruptLogError(
        f"the record with offset {record.offset} in the batch there is wrong: {error.message}",
        file=batch.file,
        position=batch.position,
        found=error.found,
        expected=error.expected,
    )


def _frozen_twice(values: dict[Any, dict[str, Any]]) -> Mapping[Any, Mapping[str, Any]]:
    return MappingProxyType({owner: MappingProxyType(one) for owner, one in values.items()})
