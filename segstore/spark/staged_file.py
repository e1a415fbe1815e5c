"""What a task writes: finished batches of records in one file, which a commit appends to the logs.

The file lies in the log directory itself, as a plain file: a broker that opens the directory looks
at directories only, and would stop at one whose name is no partition's. It is named
``.segstore-staged-<owner>-<attempt>``; the owner is the write that it belongs to, an attempt is one
run of a task. It is on stable storage when the task is done.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Final, NamedTuple

from segstore._core import Barrier, BatchOptions, DataFile, encode_columns, wall_clock_ms
from segstore.errors import (
    InvalidTimestampError,
    RecordBatchTooLargeError,
    RecordTooLargeError,
)
from segstore.records.compression import codec_table, compression_level

if TYPE_CHECKING:
    from typing import Self

    import pyarrow as pa

    from segstore._core import BatchHeaders, Directory, EncodedBatches
    from segstore.spark.sink_options import SinkOptions
    from segstore.types import TopicPartition

STAGED_PREFIX: Final = ".segstore-staged-"
MAX_BUFFERED_BYTES: Final = 32 * 1024 * 1024
"""Of all partitions of a task together; a producer's ``buffer.memory`` by default."""
FILL: Final = 0.95
"""How full a batch is made, since a record is a little larger than its cells."""


class StagedBatch(NamedTuple):
    """Where a batch of records lies in its file."""

    position: int
    size_bytes: int
    records_count: int


class StagedFile:
    """The file of one task attempt; a context manager that removes it when the task fails.

    Parameters
    ----------
    directory : Directory
        The log directory.
    owner : str
        The write it belongs to.
    options : SinkOptions
        Codec and size of the batches.
    sync : bool
        Bring the file to stable storage at the end: a repeated commit may need it.

    Attributes
    ----------
    name : str
        Of the file.
    batches : dict of TopicPartition to list of StagedBatch
        What it holds, in the order of the rows.
    """

    def __init__(
        self, directory: Directory, owner: str, options: SinkOptions, *, sync: bool
    ) -> None:
        self.name = f"{STAGED_PREFIX}{owner}-{uuid.uuid4().hex}"
        self.batches: dict[TopicPartition, list[StagedBatch]] = {}
        self._directory = directory
        self._options = options
        self._sync = sync
        self._file: DataFile | None = None
        self._size = 0
        self._pieces: dict[TopicPartition, list[pa.RecordBatch]] = {}
        self._piece_bytes: dict[TopicPartition, int] = {}
        self._buffered_bytes = 0
        config = options.config
        self._codecs = codec_table(config.max_decompressed_batch_bytes, config.max_record_bytes)
        level = compression_level(options.codec, config)
        self._batch_options = BatchOptions(codec=int(options.codec), level=level)

    def add(self, partition: TopicPartition, records: pa.RecordBatch) -> None:
        """Take records; they are written when a batch is full."""
        self._keep(partition, records)
        if self._piece_bytes[partition] >= self._options.batch_bytes:
            self._write(partition, keep_rest=True)
        elif self._buffered_bytes > MAX_BUFFERED_BYTES:
            self._write_all()

    def _keep(self, partition: TopicPartition, records: pa.RecordBatch) -> None:
        size_bytes = records.nbytes
        self._pieces.setdefault(partition, []).append(records)
        self._piece_bytes[partition] = self._piece_bytes.get(partition, 0) + size_bytes
        self._buffered_bytes += size_bytes

    def finish(self) -> None:
        """Write what is left, and bring the file to stable storage."""
        self._write_all()
        if self._file is not None and self._sync:
            self._file.sync(Barrier.STAGED_RECORDS)

    def _write_all(self) -> None:
        for partition in list(self._pieces):
            self._write(partition, keep_rest=False)

    def _write(self, partition: TopicPartition, *, keep_rest: bool) -> None:
        """Write the records of a partition; with *keep_rest* as whole batches, the rest stays."""
        import pyarrow as pa

        pieces, size_bytes = self._pieces.pop(partition), self._piece_bytes.pop(partition)
        self._buffered_bytes -= size_bytes
        records = pa.Table.from_batches(pieces).combine_chunks()
        rows = records.num_rows
        fit = max(1, int(rows * self._options.batch_bytes * FILL / max(1, size_bytes)))
        whole = rows // fit * fit if keep_rest and rows > fit else rows
        for rest in records.slice(whole).to_batches():
            self._keep(partition, rest)
        chunks = records.slice(0, whole).to_batches(max_chunksize=fit)  # each ends in a batch
        encoded = encode_columns(
            pa.Table.from_batches(chunks),
            self._batch_options,
            self._codecs,
            wall_clock_ms(),
            self._options.batch_bytes,
        )
        self._check(encoded.headers)
        self._append(partition, encoded)

    def _append(self, partition: TopicPartition, encoded: EncodedBatches) -> None:
        if self._file is None:
            self._file = DataFile(self._directory, self.name, create=True)
        self._file.write(self._size, encoded)
        batches = self.batches.setdefault(partition, [])
        for header in encoded.headers:
            size_bytes = int(header["size_bytes"])
            batches.append(StagedBatch(self._size, size_bytes, int(header["records_count"])))
            self._size += size_bytes

    def _check(self, headers: BatchHeaders) -> None:
        """Refuse now what a log would refuse later, when there is no way back."""
        config = self._options.config
        largest = int(headers["size_bytes"].max())
        if largest > config.max_message_bytes:
            raise RecordTooLargeError(
                f"a batch of {largest} bytes is larger than max.message.bytes",
                found=f"{largest} bytes",
                expected=f"at most {config.max_message_bytes} bytes",
            )
        if largest > config.roll_bytes:
            raise RecordBatchTooLargeError(
                f"a batch of {largest} bytes is larger than a segment, which segment.bytes limits",
                found=f"{largest} bytes",
                expected=f"at most {config.roll_bytes} bytes",
            )
        newest = int(headers["max_timestamp"].max())
        bound = wall_clock_ms() + config.message_timestamp_after_max_ms
        if newest > bound:
            raise InvalidTimestampError(
                f"a record has the timestamp {newest}: it is further in the future than "
                "message.timestamp.after.max.ms allows",
                found=f"{newest} ms",
                expected=f"at most {bound} ms",
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        if self._file is not None:
            self._file.close()
            if kind is not None:
                self._directory.unlink(self.name, missing_ok=True)


def staged_file_names(directory: Directory) -> list[str]:
    """Return the names of all staged files."""
    return [name for name in directory.names() if name.startswith(STAGED_PREFIX)]


def owner_of(name: str) -> str:
    """Return the write that a staged file belongs to."""
    return name.removeprefix(STAGED_PREFIX).rpartition("-")[0]
