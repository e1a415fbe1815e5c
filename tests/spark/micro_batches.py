"""A micro-batch engine in small: what Spark does with a stream reader, without Spark.

As Spark's ``MicroBatchExecution``: the end of a batch is in the checkpoint before it runs, and a
planned batch that was not committed runs again as it was planned.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from segstore.spark.stream_reader import HAS_READ_LIMITS

if HAS_READ_LIMITS:
    from pyspark.sql.streaming.datasource import ReadAllAvailable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

LONGEST_DELAY_SECONDS = 4
"""Above every ``maxTriggerDelay`` that was recorded."""


@dataclass
class Checkpoint:
    """Ends of the planned batches by batch id, and the ids of those that are done."""

    offsets: dict[int, Any] = field(default_factory=dict)
    commits: set[int] = field(default_factory=set)

    def put(self, files: Mapping[str, str]) -> None:
        """Take over files of a checkpoint, name to text."""
        for name, text in files.items():
            kind, _, batch_id = name.partition("/")
            if kind == "offsets":
                self.offsets[int(batch_id)] = json.loads(text.splitlines()[-1])
            elif kind == "commits":
                self.commits.add(int(batch_id))

    def remove(self, names: list[str]) -> None:
        """Forget files of a checkpoint."""
        for name in names:
            kind, _, batch_id = name.partition("/")
            if kind == "offsets":
                self.offsets.pop(int(batch_id), None)
            elif kind == "commits":
                self.commits.discard(int(batch_id))


@dataclass
class Batch:
    """One micro-batch that ran."""

    batch_id: int
    start: Any
    end: Any
    spark_partitions: int
    record_batches: list[pa.RecordBatch]


def is_reported(reader: Any) -> bool:
    """Whether *reader* is one of Spark 4.2 and later, which tells it where a batch begins."""
    return hasattr(reader, "prepareForTriggerAvailableNow")


def run(reader: Any, trigger: str, checkpoint: Checkpoint) -> Iterator[Batch]:
    """Run *reader* until *trigger* ends or, for ``processingTime``, until nothing is new."""
    if trigger == "availableNow" and is_reported(reader):
        reader.prepareForTriggerAvailableNow()
    planned = max(checkpoint.offsets, default=-1)
    if planned >= 0 and planned not in checkpoint.commits:
        start = checkpoint.offsets[planned - 1] if planned > 0 else None
        yield _batch(reader, planned, start, checkpoint)
        if trigger == "once":
            return
    give_up = time.monotonic() + LONGEST_DELAY_SECONDS
    while True:
        planned = max(checkpoint.offsets, default=-1)
        committed = checkpoint.offsets.get(planned)
        start, end = _next_batch(reader, trigger, committed)
        if end == committed:
            held_back = (
                trigger == "processingTime"
                and is_reported(reader)
                and reader.reportLatestOffset() != end
            )
            if not held_back or time.monotonic() > give_up:
                return
            time.sleep(0.1)
            continue
        checkpoint.offsets[planned + 1] = end
        yield _batch(reader, planned + 1, start, checkpoint)
        if trigger == "once":
            return


def _next_batch(reader: Any, trigger: str, committed: Any) -> tuple[Any, Any]:
    """Ask *reader* in the order of Spark 4.2, or of Spark 4.0, which begins with the end."""
    if is_reported(reader):
        start = _through_json(reader.initialOffset()) if committed is None else committed
        limit = ReadAllAvailable() if trigger == "once" else reader.getDefaultReadLimit()
        return start, _through_json(reader.latestOffset(start, limit))
    end = _through_json(reader.latestOffset())
    return _through_json(reader.initialOffset()) if committed is None else committed, end


def _batch(reader: Any, batch_id: int, start: Any, checkpoint: Checkpoint) -> Batch:
    end = checkpoint.offsets[batch_id]
    if start is None:
        start = _through_json(reader.initialOffset())
    partitions = reader.partitions(start, end)
    record_batches = [batch for partition in partitions for batch in reader.read(partition)]
    checkpoint.commits.add(batch_id)
    reader.commit(end)
    return Batch(batch_id, start, end, len(partitions), record_batches)


def _through_json(offsets: Any) -> Any:
    return json.loads(json.dumps(offsets))
