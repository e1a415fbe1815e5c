"""The commit of a write: the staged batches go into the logs, once, in the order of the tasks.

A writer with a name (`Transaction`) has a redo log and a producer id. Its batches carry the id and
ascending sequence numbers, as an idempotent producer's, so what a commit that was interrupted had
appended is found in the logs and is not appended again. A version that is done, or was passed over,
is not written a second time.

A writer without a name appends: what its driver had appended when it died stays, and comes again
when the write is repeated, as with Spark's own sink.
"""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING, Final

from segstore._core import (
    Directory,
    increment_sequence,
    scan_batches,
    set_producer_state,
    wall_clock_ms,
)
from segstore.config import MAX_LONG
from segstore.errors import (
    CorruptRecordError,
    IllegalStateError,
    LogLockedError,
    LogNotFoundError,
    UnknownTopicOrPartitionError,
)
from segstore.log.directory.partition_directory import directory_name
from segstore.manager.log_manager import open_dir
from segstore.spark.commit_log import (
    COMMITTING,
    CommitLog,
    CommitRecord,
    PartitionPlan,
    unfinished_commits,
)
from segstore.spark.sink_topics import make_missing_topics
from segstore.spark.staged_file import owner_of, staged_file_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from segstore.log.unified_log import UnifiedLog
    from segstore.manager.log_manager import LogManager
    from segstore.spark.sink_options import SinkOptions, Transaction
    from segstore.spark.staged_file import StagedBatch
    from segstore.spark.staged_write import StagedPart, StagedWrite
    from segstore.types import TopicPartition

PRODUCER_EPOCH: Final = 0
ORPHAN_AGE_MS: Final = 7 * 24 * 3600 * 1000
"""Staged files of others that are older belong to nobody: no task runs for so long."""
LOCK_POLL_SECONDS: Final = 0.1


class SinkCommit:
    """Commits and aborts the writes of one sink.

    Parameters
    ----------
    options : SinkOptions
        Where, and how long to wait for the lock.
    owners : set of str
        The writes whose staged files are removed when they are no longer needed.
    """

    def __init__(self, options: SinkOptions, owners: Iterable[str] = ()) -> None:
        self._options = options
        self._owners = set(owners)

    def commit(self, staged: StagedWrite, transaction: Transaction | None) -> None:
        """Append what was staged, and bring it to stable storage.

        Parameters
        ----------
        staged : StagedWrite
            Of all tasks.
        transaction : Transaction or None
            Which write it is; None = it has no name, and is appended whenever this is called.

        Raises
        ------
        LogLockedError
            Another writer has the directory for longer than ``lockTimeoutMs``.
        LogNotFoundError
            A staged file is not here: the path is another directory for the executors.
        UnknownTopicOrPartitionError
            A partition was removed meanwhile.
        """
        if not staged.files and not self._is_unfinished(transaction):
            return
        with self._open() as manager, closing(Directory(self._options.path)) as directory:
            if transaction is None:
                check_staged_files(directory, staged)
                make_missing_topics(manager, directory, staged.missing)
                for partition, parts in staged.partitions.items():
                    append_parts(manager.log(*partition), directory, parts)
                close_logs(manager, staged.partitions)
            else:
                NamedCommit(manager, directory, transaction).run(staged)
            self._sweep(directory, staged)

    def abort(self, staged: StagedWrite) -> None:
        """Remove what was staged, unless a commit that is under way needs it."""
        if not staged.files:
            return
        with closing(Directory(self._options.path)) as directory:
            needed = files_of_unfinished_commits(directory)
            for name in staged.files:
                if name not in needed:
                    directory.unlink(name, missing_ok=True)

    def _is_unfinished(self, transaction: Transaction | None) -> bool:
        """Whether an earlier commit of the writer waits to be finished."""
        if transaction is None:
            return False
        try:
            with closing(Directory(self._options.path)) as directory:
                record = CommitLog(directory, transaction.application_id).read()
        except LogNotFoundError:
            return False
        return record is not None and record.state == COMMITTING

    def _open(self) -> LogManager:
        """Open the directory for writing as soon as it is free."""
        deadline = time.monotonic() + self._options.lock_timeout_ms / 1000
        # tasks have checked the timestamps: what was in time then is not late now
        config = self._options.config.with_changes(message_timestamp_after_max_ms=MAX_LONG)
        while True:
            try:
                return open_dir(self._options.path, durability="none", config=config)
            except LogLockedError:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(LOCK_POLL_SECONDS)

    def _sweep(self, directory: Directory, staged: StagedWrite) -> None:
        """Remove the staged files of this write, those of lost attempts, and old orphans."""
        needed = files_of_unfinished_commits(directory)
        owners = self._owners | {owner_of(name) for name in staged.files}
        oldest_ms = wall_clock_ms() - ORPHAN_AGE_MS
        for name in staged_file_names(directory):
            if name in needed:
                continue
            if owner_of(name) in owners or _is_older(directory, name, oldest_ms):
                directory.unlink(name, missing_ok=True)


class NamedCommit:
    """A commit with a redo log; the directory's lock is held.

    Parameters
    ----------
    manager : LogManager
        The open directory.
    directory : Directory
        The same, for the files in it.
    transaction : Transaction
        Who writes, and which of his writes.
    """

    def __init__(self, manager: LogManager, directory: Directory, transaction: Transaction) -> None:
        self._manager = manager
        self._directory = directory
        self._transaction = transaction
        self._commit_log = CommitLog(directory, transaction.application_id)
        self._producer_id = self._commit_log.producer_id

    def run(self, staged: StagedWrite) -> None:
        """Finish the writer's last commit; then do this one, unless it is done already."""
        record = self._commit_log.read()
        if record is not None and record.state == COMMITTING:
            self._resume(record)
        if record is None or record.version < self._transaction.version:
            self._begin(staged)

    def _begin(self, staged: StagedWrite) -> None:
        """Write down what is to be done, then do it."""
        if not staged.files:
            return
        check_staged_files(self._directory, staged)
        application_id, version = self._transaction.application_id, self._transaction.version
        make_missing_topics(self._manager, self._directory, staged.missing)
        plans = {key: self._plan(key, parts) for key, parts in staged.partitions.items()}
        record = CommitRecord(application_id, version, COMMITTING, plans)
        self._commit_log.write(record)
        self._append(record, {})

    def _resume(self, record: CommitRecord) -> None:
        """Go on with a commit that was interrupted."""
        there = {key: self._batches_there(key, plan) for key, plan in record.partitions.items()}
        # of a partition that has none yet, the log may have become shorter or longer since
        plans = {
            key: plan if there[key] else self._plan(key, plan.parts)
            for key, plan in record.partitions.items()
        }
        if plans != record.partitions:
            record = record.with_plans(plans)
            self._commit_log.write(record)
        self._append(record, there)

    def _append(self, record: CommitRecord, there: Mapping[TopicPartition, int]) -> None:
        for key, plan in record.partitions.items():
            producer = (self._producer_id, plan.base_sequence)
            log = self._manager.log(*key)
            append_parts(log, self._directory, plan.parts, producer, there.get(key, 0))
        close_logs(self._manager, record.partitions)
        self._commit_log.write(record.done())

    def _plan(self, key: TopicPartition, parts: list[StagedPart]) -> PartitionPlan:
        log = self._manager.log(*key)
        base_sequence = 0
        for producer in log.active_producers():
            if producer.producer_id == self._producer_id and producer.last_sequence >= 0:
                base_sequence = increment_sequence(producer.last_sequence, 1)
        return PartitionPlan(base_sequence, log.log_end_offset, parts)

    def _batches_there(self, key: TopicPartition, plan: PartitionPlan) -> int:
        """Return how many of the batches a log has: those of the producer since its noted end.

        The log is asked and not its producer state, which forgets a producer by the timestamps of
        its records.
        """
        log = self._manager.log(*key)
        start = max(log.log_start_offset, min(plan.log_end_offset, log.log_end_offset))
        found = [
            batch.last_sequence
            for batch in log.scan(start).batches()
            if batch.producer_id == self._producer_id
        ]
        expected, sequence = [], plan.base_sequence
        for batch in _batches_of(plan.parts):
            sequence = increment_sequence(sequence, batch.records_count - 1)
            expected.append(sequence)
            sequence = increment_sequence(sequence, 1)
        if found != expected[: len(found)]:
            raise IllegalStateError(
                f"the log of {key} holds other batches of producer {self._producer_id} than the "
                f"redo log {self._commit_log.name} says",
                file=log.path,
                found=f"last sequence numbers {found[:5]}",
                expected=f"{expected[:5]}, or the first of them",
            )
        return len(found)


def append_parts(
    log: UnifiedLog,
    directory: Directory,
    parts: list[StagedPart],
    producer: tuple[int, int] | None = None,
    skip: int = 0,
) -> None:
    """Append staged batches to a log.

    Parameters
    ----------
    log : UnifiedLog
        Of the partition.
    directory : Directory
        With the staged files.
    parts : list of StagedPart
        The batches.
    producer : tuple of int or None
        Producer id and sequence number of the first record; None = batches of no producer.
    skip : int
        How many of the batches the log has already.
    """
    sequence = -1 if producer is None else producer[1]
    for part in parts:
        for batch in part.batches:
            if skip:
                skip -= 1
            else:
                data = read_batch(directory, part.file, batch)
                if producer is not None:
                    set_producer_state(data, producer[0], PRODUCER_EPOCH, sequence)
                if log.append_as_leader(data).is_duplicate:
                    raise IllegalStateError(
                        f"the log of {log.topic_partition} takes a new batch for a repeated one",
                        file=log.path,
                        found=f"sequence number {sequence}",
                    )
            if producer is not None:
                sequence = increment_sequence(sequence, batch.records_count)


def read_batch(directory: Directory, name: str, batch: StagedBatch) -> bytearray:
    """Return a staged batch: just that one, and undamaged, for its CRC is about to change."""
    data = bytearray(directory.read_range(name, batch.position, batch.size_bytes))
    headers, result = scan_batches(data, max_batches=1)
    if (
        result.valid_bytes != batch.size_bytes
        or int(headers["records_count"][0]) != batch.records_count
    ):
        raise CorruptRecordError(
            "a staged batch is damaged",
            file=f"{directory.path}/{name}",
            position=batch.position,
            found=result.stop if result.why is None else str(result.why),
            expected=f"a batch of {batch.records_count} records in {batch.size_bytes} bytes",
        )
    return data


def check_staged_files(directory: Directory, staged: StagedWrite) -> None:
    """Raise while there is a way back when something of *staged* is not here."""
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


def files_of_unfinished_commits(directory: Directory) -> set[str]:
    """Return the staged files that somebody still needs."""
    return {name for record in unfinished_commits(directory) for name in record.files}


def _batches_of(parts: list[StagedPart]) -> Iterable[StagedBatch]:
    return (batch for part in parts for batch in part.batches)


def _is_older(directory: Directory, name: str, oldest_ms: int) -> bool:
    try:
        return directory.info(name).modified_ms < oldest_ms
    except LogNotFoundError:
        return False
