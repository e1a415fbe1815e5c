"""Partitions of a tiered bucket written as a broker's directories; ``segstore.restore_bucket``."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from segstore.arguments import flag, path_text
from segstore.errors import (
    DiskFullError,
    IllegalArgumentError,
    LogLockedError,
    SegstoreError,
    UnknownTopicOrPartitionError,
)
from segstore.log.files.checkpoints import LOCK
from segstore.log.files.log_directory_checkpoints import LogDirectoryCheckpoints
from segstore.log.files.partition_directory import directory_name
from segstore.log.files.partition_path import absolute_path, refuse_partition_directory
from segstore.log.files.topic_directories import make_log_directory
from segstore.notebook import text_as_html
from segstore.remote.bucket import open_tiered_store
from segstore.remote.tiered.object_key import parse_kafka_id
from segstore.remote.tiered.partition_restore import PartitionRestore, plan_restore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from segstore._core import Directory
    from segstore.remote.tiered.segment_states import Directories
    from segstore.remote.tiered.tiered_partition import LeftOut
    from segstore.remote.tiered.tiered_store import TieredStore
    from segstore.types import TopicPartition

    Progress = Callable[[str, int, int], None]


class RestoreReport(NamedTuple):
    """What became of one partition.

    Attributes
    ----------
    path : str
        Of its directory.
    written_bytes : int
        By this call; 0 = an earlier one has restored it, and it is as it was then.
    log_start_offset, log_end_offset : int
        Of the log.
    stable_end_offset : int
        Committed reads end there: below the log end a transaction is open, whose end was not in the
        bucket.
    segments : int
        How many there are.
    left_out : tuple of LeftOut
        Segments of the bucket that were not read, with the reasons, as `Bucket.left_out`.
    error : SegstoreError or None
        Why the partition was not restored; all numbers are 0 then.
    topic_note : str or None
        The topic was deleted and created again: which topic id was read.
    """

    path: str
    written_bytes: int = 0
    log_start_offset: int = 0
    log_end_offset: int = 0
    stable_end_offset: int = 0
    segments: int = 0
    left_out: tuple[LeftOut, ...] = ()
    error: SegstoreError | None = None
    topic_note: str | None = None

    def _repr_html_(self) -> str:
        return text_as_html(self)


def restore_bucket(  # noqa: PLR0913 - keywords of users
    url: str | os.PathLike[str],
    directory: str | os.PathLike[str],
    *,
    topics: Sequence[str] | str | None = None,
    partitions: Sequence[int] | int | None = None,
    keys: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    key_prefix: str = "",
    remote_log_metadata: Directories | None = None,
    topic_ids: Mapping[str, UUID | str] | None = None,
    below_log_start: bool = False,
    progress: Progress | None = None,
    **settings: str,
) -> list[RestoreReport]:
    """Write partitions of a tiered bucket as directories that a broker opens.

    Segments and indexes are the broker's own, byte for byte. A partition appears when all of it is
    written, durable and checked: sizes, CRCs, offsets, leader epochs, indexes. Run again after an
    interruption: finished partitions stay, and whole files of an unfinished one are not fetched
    again. A partition that is there and was not restored from these segments is not changed.

    Parameters
    ----------
    url, keys, key_prefix, remote_log_metadata, **settings
        As for `open_bucket`.
    directory : path
        The log directory; made when it is missing. No broker and no other writer may use it.
    topics : sequence of str, str or None
        None: all topics of the bucket.
    partitions : sequence of int, int or None
        Of each of the topics. None: all that are in the bucket.
    topic_ids : mapping of str to UUID or str, or None
        The ids that topics have in the cluster whose broker is to open them; others keep those of
        the bucket. A broker takes a partition with another id for a stray one. All batches of a
        topic with a new id get the leader epoch 0: in another cluster the old ones mean nothing.
    below_log_start : bool
        Begin with the lowest offset that a segment still holds, so that records come back which
        DeleteRecords or retention has deleted. False: where the log began when its newest segment
        was copied.
    progress : callable or None
        ``progress(partition, done, total)``, in bytes; each byte is written, and checked.

    Returns
    -------
    list of RestoreReport
        One for each partition.

    Raises
    ------
    UnknownTopicOrPartitionError
        The bucket has nothing of a topic or of a partition.
    DiskFullError
        The disk has less room than the partitions need; nothing was written.
    LogLockedError
        A broker or another writer uses the directory.
    SegstoreError
        That of the first partition that could not be restored; all others were restored first. Its
        notes name the others that could not be.
    """
    flag("below_log_start", below_log_start)
    reports = list(
        restore_partitions(
            open_tiered_store(url, keys, key_prefix, remote_log_metadata, settings),
            directory,
            topics=topics,
            partitions=partitions,
            topic_ids=topic_ids,
            below_log_start=below_log_start,
            progress=progress,
        )
    )
    failed = [one.error for one in reports if one.error is not None]
    if failed:
        for other in failed[1:]:
            failed[0].add_note(f"not restored either: {other}")
        failed[0].add_note(f"{len(reports) - len(failed)} other partitions were restored")
        raise failed[0]
    return reports


def restore_partitions(  # noqa: PLR0913 - those of restore_bucket
    store: TieredStore,
    directory: str | os.PathLike[str],
    *,
    topics: Sequence[str] | str | None = None,
    partitions: Sequence[int] | int | None = None,
    topic_ids: Mapping[str, UUID | str] | None = None,
    below_log_start: bool = False,
    progress: Progress | None = None,
) -> Iterator[RestoreReport]:
    """Yield what became of each partition, as soon as it is known; `restore_bucket` describes it.

    A partition that could not be restored is a report with an error.
    """
    ids = {topic: _topic_id(topic, text) for topic, text in (topic_ids or {}).items()}
    chosen = _chosen(store, topics, partitions)
    _check_topics_of_ids(chosen, ids)
    with ExitStack() as stack:
        target = make_log_directory(absolute_path(path_text("directory", directory)))
        stack.callback(target.close)
        refuse_partition_directory(target)
        stack.callback(_lock(target).release)
        checkpoints = LogDirectoryCheckpoints(target)

        def planned(one: TopicPartition) -> tuple[PartitionRestore, RestoreReport]:
            found = plan_restore(store, one, ids.get(one.topic), below_log_start=below_log_start)
            name = directory_name(one)
            restore = PartitionRestore(target, checkpoints, found, store.requests_at_once, progress)
            return restore, RestoreReport(
                f"{target.path}/{name}",
                0,
                found.log_start_offset,
                found.log_end_offset,
                found.stable_end_offset,
                max(len(found.runs), 1),
                found.left_out,
                topic_note=found.topic_note,
            )

        good = []
        needed_bytes = 0
        for one in chosen:  # planned again below: the plans of all may be large
            try:
                needed_bytes += planned(one)[0].missing_bytes()
                good.append(one)
            except SegstoreError as error:
                yield RestoreReport(f"{target.path}/{directory_name(one)}", error=error)
        _check_room(target, needed_bytes)
        for one in good:
            try:
                restore, report = planned(one)
                report = report._replace(written_bytes=restore.run())
            except SegstoreError as error:
                report = RestoreReport(f"{target.path}/{directory_name(one)}", error=error)
            yield report


def _chosen(
    store: TieredStore, topics: Sequence[str] | str | None, partitions: Sequence[int] | int | None
) -> list[TopicPartition]:
    found = store.partitions()
    names = [topics] if isinstance(topics, str) else topics
    numbers = [partitions] if isinstance(partitions, int) else partitions
    chosen = [
        one
        for one in found
        if (names is None or one.topic in names) and (numbers is None or one.partition in numbers)
    ]
    for topic in names or ():
        if not any(one.topic == topic for one in found):
            raise UnknownTopicOrPartitionError(
                "the bucket holds nothing of this topic",
                file=store.url,
                found=f"topics {', '.join(sorted({one.topic for one in found})) or 'none'}",
                expected=topic,
            )
    for number in numbers or ():
        if not any(one.partition == number for one in chosen):
            raise UnknownTopicOrPartitionError(
                "the bucket holds nothing of this partition",
                file=store.url,
                found=f"partitions {', '.join(map(str, found)) or 'none'}",
                expected=f"partition {number}",
            )
    if not found:
        raise UnknownTopicOrPartitionError(
            "there is no topic of a tiered bucket here: name the folder that holds the folders"
            " <topic>-<topic id>",
            file=store.url,
            found="no topic",
            expected="folders of topics",
        )
    return chosen


def _check_topics_of_ids(chosen: Sequence[TopicPartition], ids: Mapping[str, UUID]) -> None:
    known = {one.topic for one in chosen}
    for topic in ids:
        if topic not in known:
            raise UnknownTopicOrPartitionError(
                "there is a topic id for a topic that is not restored",
                found=topic,
                expected=f"one of {', '.join(sorted(known))}",
            )


def _topic_id(topic: str, given: UUID | str) -> UUID:
    topic_id = given if isinstance(given, UUID) else parse_kafka_id(given)
    if topic_id is None or not topic_id.int:
        raise IllegalArgumentError(
            f"this is no topic id for {topic}",
            found=repr(given),
            expected="a UUID, or 22 characters as kafka-topics --describe prints them",
        )
    return topic_id


def _lock(target: Directory) -> Any:
    try:
        return target.lock(LOCK, exclusive=True)
    except LogLockedError as error:
        raise LogLockedError(
            "a broker or another writer uses the log directory: stop it, and run again",
            file=f"{target.path}/{LOCK}",
            os_error=error.os_error,
        ) from error


def _check_room(target: Directory, needed_bytes: int) -> None:
    disk = os.statvfs(target.path)
    free = disk.f_bavail * disk.f_frsize
    if needed_bytes > free:
        raise DiskFullError(
            "the disk has less room than the partitions need: nothing was written",
            file=target.path,
            found=f"{free} bytes free",
            expected=f"at least {needed_bytes} bytes",
        )
