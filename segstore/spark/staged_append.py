"""From staged files into logs: checks while there is a way back, then batch by batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from segstore._core import increment_sequence, scan_batches, set_producer_state
from segstore.errors import (
    CorruptRecordError,
    IllegalStateError,
    InvalidRecordError,
    LogNotFoundError,
    SegstoreError,
    UnknownTopicOrPartitionError,
)
from segstore.log.files.partition_directory import directory_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from segstore._core import Directory
    from segstore.log.unified_log import UnifiedLog
    from segstore.manager.log_manager import LogManager
    from segstore.spark.staged_file import StagedBatch
    from segstore.spark.staged_write import StagedPart, StagedWrite
    from segstore.types import TopicPartition

PRODUCER_EPOCH: Final = 0


def append_parts(
    log: UnifiedLog,
    directory: Directory,
    parts: list[StagedPart],
    producer: tuple[int, int],
    skip: int = 0,
) -> None:
    """Append staged batches to a log, as a producer's.

    Parameters
    ----------
    log : UnifiedLog
        Of the partition.
    directory : Directory
        With the staged files.
    parts : list of StagedPart
        The batches.
    producer : tuple of int
        Producer id and sequence number of the first record.
    skip : int
        How many of the batches the log has already.
    """
    producer_id, sequence = producer
    for part in parts:
        for batch in part.batches:
            if skip:
                skip -= 1
            else:
                data = read_batch(directory, part.file, batch)
                set_producer_state(data, producer_id, PRODUCER_EPOCH, sequence)
                if log.append_as_leader(data).is_duplicate:
                    raise IllegalStateError(
                        f"the log of {log.topic_partition} takes a new batch for a repeated one",
                        file=log.path,
                        found=f"sequence number {sequence}",
                    )
            sequence = increment_sequence(sequence, batch.records_count)


def append_or_roll_back(
    manager: LogManager, directory: Directory, partitions: dict[TopicPartition, list[StagedPart]]
) -> None:
    """Append staged batches of no producer to all logs, or to none, and close the logs.

    A failure takes back what was appended, under the directory's lock, until the syncs at its end
    begin: some is durable then. Where it cannot be taken back, the error has a note on what is
    left; what a process leaves that is killed here is not taken back.
    """
    logs = {partition: manager.log(*partition) for partition in partitions}
    ends = {partition: log.log_end_offset for partition, log in logs.items()}
    try:
        for partition, parts in partitions.items():
            for part in parts:
                for batch in part.batches:
                    _append_as_it_is(logs[partition], directory, part.file, batch)
    except BaseException as error:
        for partition, end in ends.items():
            try:
                if logs[partition].log_end_offset > end:
                    logs[partition].truncate_to(end)
            except (SegstoreError, OSError) as another:
                error.add_note(f"{_left(partition, end)}: {another}")
        raise
    try:
        close_logs(manager, partitions)
    except BaseException as error:
        for partition, end in ends.items():
            error.add_note(f"{_left(partition, end)}: readers may have read them")
        raise


def _left(partition: TopicPartition, end_offset: int) -> str:
    return f"records of this write may be left in {partition} from offset {end_offset} on"


def _append_as_it_is(log: UnifiedLog, directory: Directory, name: str, batch: StagedBatch) -> None:
    """Append a staged batch of no producer; that the log checks it is enough."""
    try:
        info = log.append_as_leader(directory.read_range(name, batch.position, batch.size_bytes))
    except (CorruptRecordError, InvalidRecordError) as error:
        raise _damaged(directory, name, batch, str(error)) from error
    records_count = info.last_offset - info.base_offset + 1
    if records_count != batch.records_count:
        raise _damaged(directory, name, batch, f"{records_count} records")


def read_batch(directory: Directory, name: str, batch: StagedBatch) -> bytearray:
    """Return a staged batch: just that one, and undamaged, for its CRC is about to change."""
    data = bytearray(directory.read_range(name, batch.position, batch.size_bytes))
    headers, result = scan_batches(data, max_batches=1)
    if (
        result.valid_bytes != batch.size_bytes
        or int(headers["records_count"][0]) != batch.records_count
    ):
        found = result.stop if result.why is None else str(result.why)
        raise _damaged(directory, name, batch, found)
    return data


def _damaged(directory: Directory, name: str, batch: StagedBatch, found: str) -> CorruptRecordError:
    return CorruptRecordError(
        "a staged batch is damaged",
        file=f"{directory.path}/{name}",
        position=batch.position,
        found=found,
        expected=f"a batch of {batch.records_count} records in {batch.size_bytes} bytes",
    )


def check_parts(directory: Directory, parts: list[StagedPart], skip: int = 0) -> None:
    """Read staged batches, all but the first *skip*, and raise when one is gone or damaged."""
    for part in parts:
        for batch in part.batches[skip:]:
            read_batch(directory, part.file, batch)
        skip = max(0, skip - len(part.batches))


def check_staged_files(directory: Directory, staged: StagedWrite) -> None:
    """Raise while there is a way back when something of *staged* is not here, or cut off.

    What its batches hold is looked at by `check_parts`, or where they are appended and can be taken
    back.
    """
    ends: dict[str, int] = dict.fromkeys(staged.files, 0)
    for parts in staged.partitions.values():
        for part in parts:
            last = part.batches[-1]
            ends[part.file] = max(ends[part.file], last.position + last.size_bytes)
    for name, end in ends.items():
        path = f"{directory.path}/{name}"
        if not directory.exists(name):
            raise LogNotFoundError(
                "a file that a task staged is not in the log directory as the driver sees it: "
                "'path' must be one directory for all, the driver and the executors",
                file=path,
                found="no such file",
            )
        size = directory.info(name).size
        if size < end:
            raise CorruptRecordError(
                "a staged file is cut off", file=path, found=f"{size} bytes", expected=f"{end}"
            )
    for partition in staged.partitions:
        name = directory_name(partition)
        if partition.topic not in staged.missing and not directory.exists(name):
            raise UnknownTopicOrPartitionError(
                f"the partition {partition} was removed while it was written to",
                file=directory.path,
                found="no such directory",
            )


def close_logs(manager: LogManager, partitions: Iterable[TopicPartition]) -> None:
    """Bring what was appended to stable storage, by what has to come anyway: a clean close."""
    for partition in partitions:
        manager.log(*partition).close()
