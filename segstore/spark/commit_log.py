"""The redo log of a writer with a name: which write it committed last, or is committing.

One small file for each writer, ``.segstore-commit-<producer id>.json`` in the log directory. Before
the first batch is appended it says what will be, and where each log ended; when all is on stable
storage it says so. Whoever finds it in the middle finishes that write first, from its staged files.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from segstore._core import Barrier, FileBarrier
from segstore.errors import CorruptCheckpointError, IllegalStateError, SegstoreError
from segstore.log.files.partition_directory import directory_name, parse_directory_name
from segstore.number_limits import MAX_INT, MAX_LONG
from segstore.spark.staged_file import STAGED_PREFIX, StagedBatch
from segstore.spark.staged_write import StagedPart

if TYPE_CHECKING:
    from segstore._core import Directory
    from segstore.types import TopicPartition

COMMIT_PREFIX: Final = ".segstore-commit-"
COMMIT_SUFFIX: Final = ".json"
FORMAT: Final = 1
COMMITTING: Final = "committing"
DONE: Final = "done"
MAX_FILE_BYTES: Final = 1 << 30
"""About forty bytes for a batch: of a commit of terabytes."""


def producer_id_of(application_id: str) -> int:
    """Return the producer id of a writer: 63 bits of the hash of its name."""
    digest = hashlib.sha256(application_id.encode()).digest()
    return int.from_bytes(digest[:8], "big") & MAX_LONG


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """What is appended to one partition.

    Attributes
    ----------
    base_sequence : int
        Sequence number of the first record.
    log_end_offset : int
        Where the log ended before; batches of the producer from there on are of this write.
    parts : list of StagedPart
        The batches, in their order.
    topic_id : uuid.UUID or None
        Of the topic; None = it had none, or an older redo log.
    """

    base_sequence: int
    log_end_offset: int
    parts: list[StagedPart]
    topic_id: uuid.UUID | None = None


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """The content of a redo log.

    Attributes
    ----------
    application_id : str
        Who writes.
    version : int
        Which of its writes.
    state : str
        ``committing`` or ``done``.
    partitions : dict of TopicPartition to PartitionPlan
        Empty when it is done.
    query_id : str or None
        The streaming query that wrote last; None = none did, or an older redo log.
    """

    application_id: str
    version: int
    state: str
    partitions: dict[TopicPartition, PartitionPlan] = field(default_factory=dict)
    query_id: str | None = None

    @property
    def files(self) -> set[str]:
        """The staged files that are needed to finish."""
        return {part.file for plan in self.partitions.values() for part in plan.parts}

    def done(self) -> CommitRecord:
        """Return what is left to say when all is appended."""
        return replace(self, state=DONE, partitions={})

    def with_plans(self, partitions: dict[TopicPartition, PartitionPlan]) -> CommitRecord:
        """Return the record with other plans."""
        return replace(self, partitions=partitions)


class CommitLog:
    """The redo log of one writer.

    Parameters
    ----------
    directory : Directory
        The log directory; whoever writes the file holds its lock.
    application_id : str
        Who writes.
    """

    def __init__(self, directory: Directory, application_id: str) -> None:
        self._directory = directory
        self._application_id = application_id
        self.producer_id = producer_id_of(application_id)
        self.name = f"{COMMIT_PREFIX}{self.producer_id:016x}{COMMIT_SUFFIX}"

    def read(self) -> CommitRecord | None:
        """Return what the file says; None = the writer committed nothing yet.

        Raises
        ------
        CorruptCheckpointError
            The file cannot be read as what it should be.
        IllegalStateError
            It is of another writer, whose name has the same hash.
        """
        if not self._directory.exists(self.name):
            return None
        record = read_commit_record(self._directory, self.name)
        if record.application_id != self._application_id:
            raise IllegalStateError(
                "the redo log is of another writer: choose another txnAppId",
                file=f"{self._directory.path}/{self.name}",
                found=repr(record.application_id),
                expected=repr(self._application_id),
            )
        return record

    def write(self, record: CommitRecord) -> None:
        """Replace the file; on stable storage when this returns.

        So are the names of the staged files by then: a crash must not leave the word alone that
        they are to be appended.
        """
        if record.state == COMMITTING:
            self._directory.sync(Barrier.STAGED_NAMES)
        content = {
            "format": FORMAT,
            "id": record.application_id,
            "query": record.query_id,
            "version": record.version,
            "state": record.state,
            "partitions": {
                directory_name(partition): {
                    "base_sequence": plan.base_sequence,
                    "log_end_offset": plan.log_end_offset,
                    "staged": plan.parts,
                    "topic_id": None if plan.topic_id is None else str(plan.topic_id),
                }
                for partition, plan in record.partitions.items()
            },
        }
        text = json.dumps(content, separators=(",", ":"), ensure_ascii=True)
        self._directory.write_file_atomically(self.name, text.encode(), FileBarrier.SINK_COMMIT)


def unfinished_commits(directory: Directory) -> list[CommitRecord]:
    """Return every writer's redo log that waits to be finished."""
    names = [
        name
        for name in directory.names()
        if name.startswith(COMMIT_PREFIX) and name.endswith(COMMIT_SUFFIX)
    ]
    records = [read_commit_record(directory, name) for name in names]
    return [record for record in records if record.state == COMMITTING]


def read_commit_record(directory: Directory, name: str) -> CommitRecord:
    """Return the content of a redo log, checked."""
    data = directory.read_file(name, MAX_FILE_BYTES)
    try:
        return _parsed(json.loads(data))
    except (ValueError, KeyError, TypeError, AttributeError, SegstoreError) as error:
        raise CorruptCheckpointError(
            f"the redo log of a Spark write cannot be read: {error}",
            file=f"{directory.path}/{name}",
            found=repr(data[:80]),
            expected="JSON as written by a commit",
        ) from error


def _parsed(content: Any) -> CommitRecord:
    _require(content["format"] == FORMAT, "its format is not 1")
    _require(isinstance(content["id"], str), "the id is no text")
    _require(content["state"] in {COMMITTING, DONE}, "the state is unknown")
    _require(type(content["version"]) is int, "the version is no integer")
    query_id = content.get("query")  # an older redo log has none
    _require(query_id is None or isinstance(query_id, str), "the query is no text")
    return CommitRecord(
        content["id"],
        content["version"],
        content["state"],
        {parse_directory_name(k): _plan(plan) for k, plan in content["partitions"].items()},
        query_id,
    )


def _plan(plan: Any) -> PartitionPlan:
    parts = []
    for name, batches in plan["staged"]:
        # a name only, whatever stands there: the file is removed in the end
        _require(isinstance(name, str) and name.startswith(STAGED_PREFIX), "no staged file")
        _require("/" not in name, "a staged file elsewhere")
        rows = [StagedBatch(*[_natural(number) for number in batch]) for batch in batches]
        parts.append(StagedPart(name, rows))
    sequence = _natural(plan["base_sequence"], MAX_INT)
    text = plan.get("topic_id")  # an older redo log has none
    topic_id = None if text is None else uuid.UUID(text)
    return PartitionPlan(sequence, _natural(plan["log_end_offset"]), parts, topic_id)


def _natural(value: Any, largest: int = MAX_LONG) -> int:
    _require(type(value) is int and 0 <= value <= largest, "a number is out of range")
    return int(value)


def _require(condition: object, otherwise: str) -> None:
    if not condition:
        raise ValueError(otherwise)
