"""The commit of a writer with a name: by a redo log, so that what it repeats comes once.

Its batches carry a producer id and ascending sequence numbers, as an idempotent producer's, so what
a commit that was interrupted had appended is found in the logs and is not appended again. A version
that is done, or was passed over, is not written a second time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from segstore._core import increment_sequence
from segstore.errors import IllegalStateError
from segstore.spark.commit_log import COMMITTING, CommitLog, CommitRecord, PartitionPlan
from segstore.spark.reader import warn
from segstore.spark.sink_topics import make_missing_topics
from segstore.spark.staged_append import append_parts, check_staged_files, close_logs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from segstore._core import Directory
    from segstore.manager.log_manager import LogManager
    from segstore.spark.sink_options import Transaction
    from segstore.spark.staged_file import StagedBatch
    from segstore.spark.staged_write import StagedPart, StagedWrite
    from segstore.types import TopicPartition


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
        version = self._transaction.version
        if record is None or record.version < version:
            self._begin(staged)
        elif version < record.version and staged.files:  # else it is just repeated
            warn(
                f"nothing was written: {record.application_id!r} has committed version "
                f"{record.version}, this is {version}; choose another txnAppId to begin anew"
            )

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


def _batches_of(parts: list[StagedPart]) -> Iterable[StagedBatch]:
    return (batch for part in parts for batch in part.batches)
