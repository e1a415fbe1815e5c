"""The commit of a writer with a name: by a redo log, so that what it repeats comes once.

Its batches carry a producer id and ascending sequence numbers, as an idempotent producer's, so what
a commit that was interrupted had appended is found in the logs and is not appended again. A version
that is done, or was passed over, is not written a second time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from segstore._core import increment_sequence
from segstore.errors import (
    CorruptRecordError,
    IllegalStateError,
    InconsistentTopicIdError,
    LogNotFoundError,
    UnknownTopicOrPartitionError,
)
from segstore.log.files.partition_directory import directory_name
from segstore.log.files.partition_metadata_file import check_same_topic
from segstore.spark.commit_log import COMMITTING, CommitLog, CommitRecord, PartitionPlan
from segstore.spark.driver_warning import warn
from segstore.spark.sink_topics import make_missing_topics
from segstore.spark.staged_append import (
    append_parts,
    check_parts,
    check_staged_files,
    close_logs,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from segstore._core import Directory
    from segstore.manager.log_manager import LogManager
    from segstore.spark.sink_options import Transaction
    from segstore.spark.staged_file import StagedBatch
    from segstore.spark.staged_write import StagedPart, StagedWrite
    from segstore.types import TopicPartition


_CANNOT_BE_FINISHED: Final = (
    CorruptRecordError,
    InconsistentTopicIdError,
    LogNotFoundError,
    UnknownTopicOrPartitionError,
)


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

    Attributes
    ----------
    has_written : bool
        Whether `run` has appended anything.
    """

    def __init__(self, manager: LogManager, directory: Directory, transaction: Transaction) -> None:
        self._manager = manager
        self._directory = directory
        self._transaction = transaction
        self.has_written = False
        self._commit_log = CommitLog(directory, transaction.application_id)
        self._producer_id = self._commit_log.producer_id

    def run(self, staged: StagedWrite) -> set[str]:
        """Finish the writer's last commit; then do this one, unless it is done already.

        Returns
        -------
        set of str
            The staged files of the last commit, which nobody needs any more.

        Raises
        ------
        IllegalStateError
            The last commit cannot be finished: what it has to append is gone or damaged, or a topic
            was deleted and made again since it began. Or it was of another streaming query with
            the same ``txnAppId``.
        """
        record, version = self._commit_log.read(), self._transaction.version
        if record is not None:
            self._check_query(record, staged)
            staged = staged._replace(query_id=staged.query_id or record.query_id)
        files: set[str] = set()
        if record is not None and record.state == COMMITTING:
            there = {key: self._batches_there(key, plan) for key, plan in record.partitions.items()}
            files = record.files
            if record.version == version and staged.files and not any(there.values()):
                self._begin(staged)  # the same anew: it does not depend on what an abort left
                return files
            self._resume(record, there)
            if record.version == version:
                return files
        if record is None or record.version < version:
            self._begin(staged)
        elif staged.files:
            warn(
                f"nothing was written: {record.application_id!r} has committed version "
                f"{record.version}, this is {version}; unless it is a repetition, choose another "
                "txnAppId"
            )
        return files

    def _check_query(self, record: CommitRecord, staged: StagedWrite) -> None:
        """Raise when two queries have one name: they would take each other's batches for theirs."""
        known, here = record.query_id, staged.query_id
        if known is not None and here is not None and known != here:
            raise IllegalStateError(
                f"the redo log of {record.application_id!r} is of another streaming query, or of "
                "this one with another checkpoint: choose another txnAppId",
                file=f"{self._directory.path}/{self._commit_log.name}",
                found=f"the query {known}",
                expected=f"the query {here}",
            )

    def _begin(self, staged: StagedWrite) -> None:
        """Write down what is to be done, then do it."""
        if not staged.files:
            return
        check_staged_files(self._directory, staged)
        for parts in staged.partitions.values():
            check_parts(self._directory, parts)
        application_id, version = self._transaction.application_id, self._transaction.version
        make_missing_topics(self._manager, staged.missing)
        plans = {key: self._plan(key, parts) for key, parts in staged.partitions.items()}
        record = CommitRecord(application_id, version, COMMITTING, plans, staged.query_id)
        self._commit_log.write(record)
        self._append(record, {})

    def _resume(self, record: CommitRecord, there: Mapping[TopicPartition, int]) -> None:
        """Go on with a commit that was interrupted."""
        self._check_rest(record, there)
        # of a partition that has none yet, the log may have become shorter or longer since
        plans = {
            key: plan if there[key] else self._plan(key, plan.parts)
            for key, plan in record.partitions.items()
        }
        if plans != record.partitions:
            record = record.with_plans(plans)
            self._commit_log.write(record)
        self._append(record, there)

    def _check_rest(self, record: CommitRecord, there: Mapping[TopicPartition, int]) -> None:
        """Raise before anything is appended when what is left to do cannot be done."""
        try:
            for key, plan in record.partitions.items():
                log = self._manager.log(*key)
                check_same_topic(log.path, plan.topic_id, log.topic_id)
                check_parts(self._directory, plan.parts, there[key])
        except _CANNOT_BE_FINISHED as error:
            count = sum(len(part.batches) for p in record.partitions.values() for part in p.parts)
            raise IllegalStateError(
                f"the commit of version {record.version} by {record.application_id!r} was "
                f"interrupted and cannot be finished: {error}; to give up the rest of it remove "
                "the redo log",
                file=f"{self._directory.path}/{self._commit_log.name}",
                found=f"{sum(there.values())} of its {count} batches in the logs",
                expected="the staged files that it names, and its partitions",
            ) from error

    def _append(self, record: CommitRecord, there: Mapping[TopicPartition, int]) -> None:
        for key, plan in record.partitions.items():
            producer = (self._producer_id, plan.base_sequence)
            log = self._manager.log(*key)
            append_parts(log, self._directory, plan.parts, producer, there.get(key, 0))
        close_logs(self._manager, record.partitions)
        self._commit_log.write(record.done())
        self.has_written = True

    def _plan(self, key: TopicPartition, parts: list[StagedPart]) -> PartitionPlan:
        log = self._manager.log(*key)
        base_sequence = 0
        for producer in log.active_producers():
            if producer.producer_id == self._producer_id and producer.last_sequence >= 0:
                base_sequence = increment_sequence(producer.last_sequence, 1)
        return PartitionPlan(base_sequence, log.log_end_offset, parts, log.topic_id)

    def _batches_there(self, key: TopicPartition, plan: PartitionPlan) -> int:
        """Return how many of the batches a log has: those of the producer since its noted end.

        The log is asked and not its producer state, which forgets a producer by the timestamps of
        its records.
        """
        if not self._directory.exists(directory_name(key)):
            return 0
        log = self._manager.log(*key)
        if plan.topic_id is not None and log.topic_id != plan.topic_id:
            return 0  # what was appended is gone with the topic that it was appended to
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


def _batches_of(parts: list[StagedPart]) -> Iterable[StagedBatch]:
    return (batch for part in parts for batch in part.batches)
