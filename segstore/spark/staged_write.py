"""What all tasks of a write staged, as the commit gets it: messages, and their sum."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql.datasource import WriterCommitMessage

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from segstore.spark.staged_file import StagedBatch
    from segstore.types import TopicPartition


@dataclass(frozen=True)
class StagedMessage(WriterCommitMessage):
    """What one task tells the commit.

    Attributes
    ----------
    file : str or None
        Name of its file; None = it had no rows.
    batches : dict of TopicPartition to list of StagedBatch
        What is in it.
    missing : dict of str to int
        Topics that are to be made, with their number of partitions.
    query_id : str or None
        The streaming query that the task worked for.
    """

    file: str | None = None
    batches: dict[TopicPartition, list[StagedBatch]] = field(default_factory=dict)
    missing: dict[str, int] = field(default_factory=dict)
    query_id: str | None = None


class StagedPart(NamedTuple):
    """Batches of one partition that one task staged."""

    file: str
    batches: list[StagedBatch]


class StagedWrite(NamedTuple):
    """What a whole write staged.

    Attributes
    ----------
    files : tuple of str
        Their names, in the order of the tasks.
    partitions : dict of TopicPartition to list of StagedPart
        What is to be appended to each, in that order.
    missing : dict of str to int
        Topics that are to be made, with their number of partitions.
    query_id : str or None
        The streaming query.
    """

    files: tuple[str, ...]
    partitions: dict[TopicPartition, list[StagedPart]]
    missing: dict[str, int]
    query_id: str | None

    @classmethod
    def of(cls, messages: Sequence[WriterCommitMessage | None]) -> StagedWrite:
        """Return the sum of *messages*; failed tasks have none."""
        told = [message for message in messages if isinstance(message, StagedMessage)]
        partitions: dict[TopicPartition, list[StagedPart]] = {}
        missing: dict[str, int] = {}
        for message in told:
            missing |= message.missing
            for partition, batches in message.batches.items():
                part = StagedPart(message.file or "", batches)
                partitions.setdefault(partition, []).append(part)
        files = tuple(message.file for message in told if message.file is not None)
        return cls(files, partitions, missing, _only(message.query_id for message in told))


def _only(query_ids: Iterable[str | None]) -> str | None:
    """Return what all tasks say; they belong to one query."""
    known = {query_id for query_id in query_ids if query_id is not None}
    return known.pop() if len(known) == 1 else None
