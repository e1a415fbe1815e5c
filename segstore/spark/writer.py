"""``df.write`` and ``df.writeStream`` with ``format("segstore")``: what has a name comes once.

Tasks stage finished batches in files, and the driver's commit appends them to the logs. Until then
nothing of a write can be seen. A streaming query has a name, its id, and numbers its micro-batches;
a batch write has one with the options ``txnAppId`` and ``txnVersion``. What has a name is written
once, however often task, commit or driver are repeated.

Spark runs ``write`` in the executors, with a pickled writer; ``commit`` and ``abort`` in a process
of their own, for streams with a writer that is made anew.
"""

from __future__ import annotations

import uuid
from contextlib import closing
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter

from segstore.spark.commit_log import producer_id_of
from segstore.spark.conditions import ConnectorOptionError
from segstore.spark.driver_warning import warn
from segstore.spark.row_partitions import RowPartitions
from segstore.spark.sink_commit import SinkCommit
from segstore.spark.sink_options import Transaction, parse_sink_options
from segstore.spark.sink_rows import batches_of_rows
from segstore.spark.sink_schema import sink_columns
from segstore.spark.sink_topics import SinkTopics, open_sink_directory
from segstore.spark.staged_file import StagedFile
from segstore.spark.staged_write import StagedMessage, StagedWrite

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql.datasource import WriterCommitMessage
    from pyspark.sql.types import StructType

    from segstore.spark.sink_options import SinkOptions

try:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter as StreamWriter

    HANDS_ROWS = False
except ImportError:  # Spark 4.0, which hands over rows
    from pyspark.sql.datasource import (  # type: ignore[assignment]
        DataSourceStreamWriter as StreamWriter,
    )

    HANDS_ROWS = True

QUERY_ID = "sql.streaming.queryId"
"""The local property that Spark gives to the tasks of a streaming query."""


class Sink:
    """What batch and streaming writes have in common; it travels pickled to the executors.

    Parameters
    ----------
    options : SinkOptions
        Checked.
    schema : StructType
        Of the DataFrame.
    """

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self.options = options
        self.schema = schema
        self.columns, warnings = sink_columns(schema, options.topic)
        self._job = uuid.uuid4().hex
        for text in (*options.warnings, *warnings):
            warn(text)

    def stage(self, batches: Iterator[pa.RecordBatch], query_id: str | None) -> StagedMessage:
        """Write the rows of a task to a file; *query_id* is that of a streaming query."""
        options = self.options
        name = self.application_id(query_id)
        with closing(open_sink_directory(options)) as directory:
            topics = SinkTopics(directory, options.partitions_count)
            rows = RowPartitions(options, topics)
            with StagedFile(directory, self._owner(name), options, sync=name is not None) as file:
                for batch in batches:
                    for partition, records in rows.split(self._chosen(batch)):
                        file.add(partition, records)
                file.finish()
            if not file.batches:
                return StagedMessage(query_id=query_id)
            return StagedMessage(file.name, file.batches, topics.missing, query_id)

    def application_id(self, query_id: str | None) -> str | None:
        """Return who writes: the option ``txnAppId``, else the streaming query."""
        return self.options.application_id or query_id

    def commit(self, staged: StagedWrite, transaction: Transaction | None) -> None:
        """Append what was staged."""
        owners = () if transaction is None else (self._owner(transaction.application_id),)
        SinkCommit(self.options, (self._job, *owners)).commit(staged, transaction)

    def abort(self, staged: StagedWrite) -> None:
        """Remove what was staged, also by attempts whose messages did not come."""
        SinkCommit(self.options, (self._job,)).abort(staged)

    def _owner(self, application_id: str | None) -> str:
        """Return what staged files are named after: of a stream, those of earlier runs are found.

        Batch writes of one name may run side by side, streaming queries cannot.
        """
        if application_id is None or self.options.version is not None:
            return self._job
        return f"{producer_id_of(application_id):016x}"

    def _chosen(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the columns that are written; of two with one name, the first."""
        import pyarrow as pa

        names = batch.schema.names
        arrays = [batch.column(names.index(name)) for name in self.columns]
        return pa.RecordBatch.from_arrays(arrays, names=list(self.columns))


class SegstoreWriter(DataSourceArrowWriter):
    """A batch write into a log directory.

    Parameters
    ----------
    options : mapping of str to str
        As Spark hands them over.
    schema : StructType
        Of the DataFrame.
    overwrite : bool
        Whether the mode is ``overwrite``, which is refused.

    Raises
    ------
    ConnectorOptionError
        For options, columns or a mode that cannot be.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> None:
        if overwrite:
            raise ConnectorOptionError(
                "a log can only be appended to. Spark's Kafka sink says: Save mode Overwrite not "
                "allowed for Kafka. Allowed save modes are Append and ErrorIfExists (default).",
                found="overwrite",
                expected='mode("append")',
            )
        parsed = parse_sink_options(options)
        if (parsed.application_id is None) != (parsed.version is None):
            raise ConnectorOptionError(
                "the options txnAppId and txnVersion name a write together: give both or neither",
                found="one of them",
                expected="both, or neither",
            )
        self._sink = Sink(parsed, schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Stage the rows of a task."""
        return self._sink.stage(iterator, None)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Append what the tasks staged, in their order."""
        options, transaction = self._sink.options, None
        if options.application_id is not None and options.version is not None:
            transaction = Transaction(options.application_id, options.version)
        self._sink.commit(StagedWrite.of(messages), transaction)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove what the tasks staged."""
        self._sink.abort(StagedWrite.of(messages))


class SegstoreStreamWriter(StreamWriter):
    """A streaming write into a log directory.

    In output mode ``complete`` each micro-batch appends the whole result, as with the connector.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        parsed = parse_sink_options(options)
        if parsed.version is not None:
            raise ConnectorOptionError(
                "option txnVersion is for batch writes: micro-batches have their own numbers",
                found=str(parsed.version),
            )
        self._sink = Sink(parsed, schema)

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Stage the rows of a task."""
        sink = self._sink
        batches = batches_of_rows(iterator, sink.schema, sink.columns) if HANDS_ROWS else iterator
        return sink.stage(batches, query_id_of_task())

    def commit(
        self,
        messages: list[WriterCommitMessage | None],
        batchId: int,  # noqa: N803 - Spark's name
    ) -> None:
        """Append what the tasks of a micro-batch staged, unless that was done before."""
        staged = StagedWrite.of(messages)
        application_id = self._sink.application_id(staged.query_id)
        transaction = None
        if application_id is not None:
            transaction = Transaction(application_id, batchId)
        elif staged.files:
            warn(
                "the streaming query has no id and no option txnAppId: a micro-batch that is "
                "repeated is written again"
            )
        self._sink.commit(staged, transaction)

    def abort(
        self,
        messages: list[WriterCommitMessage | None],
        batchId: int,  # noqa: ARG002, N803
    ) -> None:
        """Remove what the tasks of a micro-batch staged."""
        self._sink.abort(StagedWrite.of(messages))


def query_id_of_task() -> str | None:
    """Return the streaming query that the running task works for; it survives restarts."""
    context = TaskContext.get()
    return None if context is None else context.getLocalProperty(QUERY_ID)
