"""Batches in memory that a producer or leader built (Kafka ``MemoryRecords``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segstore._core import (
    BatchOptions,
    encode_end_transaction_marker,
    encode_records,
    iterate_records,
    scan_batches,
    wall_clock_ms,
)
from segstore.arguments import flag, integer_within
from segstore.errors import ArgumentTypeError, IllegalArgumentError, RecordTypeError
from segstore.number_limits import MAX_INT, MAX_LONG, MAX_SHORT
from segstore.record_rows import record_timestamp
from segstore.records.compression import codec_table
from segstore.records.record_batch import RecordBatch
from segstore.records.transferable_channel import TransferableRecords
from segstore.types import Codec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime
    from typing import Self

    from typing_extensions import Buffer

    from segstore._core import BatchHeaders, CodecTable, Record
    from segstore.records.transferable_channel import TransferableChannel

__all__ = ["MemoryRecords", "batches_of"]


def batches_of(
    headers: BatchHeaders,
    data: memoryview,
    codecs: CodecTable | None = None,
    *,
    topic: str = "",
    partition: int = -1,
) -> Iterator[RecordBatch]:
    """Yield a view of each row's batch; positions count from the start of *data*."""
    for header in headers:
        start = int(header["position"])
        end = start + int(header["size_bytes"])
        yield RecordBatch(header, data[start:end], codecs, topic=topic, partition=partition)


class MemoryRecords(TransferableRecords):
    """Whole batches in a buffer, checked once.

    Parameters
    ----------
    data : Buffer
        The batches in sequence. An incomplete batch at the end is left out, as in Kafka [APP-6].
        Not copied: it must not change while this object is used.
    codecs : CodecTable
        Codecs for the records; default: the shared table.
    check_crc : bool
        Whether the checksums are verified.

    Raises
    ------
    CorruptRecordError
        A batch is damaged, at byte ``position``.

    Source: [format.md 9.1, memory scanner]; Kafka ``MemoryRecords``.
    """

    __slots__ = ("_codecs", "_data", "_headers")

    def __init__(
        self, data: Buffer, codecs: CodecTable | None = None, *, check_crc: bool = True
    ) -> None:
        view = _view_of(data)
        headers, result = scan_batches(view, check_crc=check_crc)
        if result.why is not None:
            raise result.why
        self._data = view.cast("B").toreadonly()[: result.valid_bytes]
        self._headers = headers
        self._codecs = codec_table() if codecs is None else codecs

    @classmethod
    def with_records(  # noqa: PLR0913 - the fields of a batch
        cls,
        records: Iterable[object],
        *,
        codec: Codec = Codec.NONE,
        base_offset: int = 0,
        partition_leader_epoch: int = -1,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        transactional: bool = False,
    ) -> Self:
        """Build one batch, as a producer sends it; with a producer id it is idempotent.

        Parameters
        ----------
        records : iterable
            ``(key, value)``, ``(timestamp, key, value)`` or `Record`; at least one.
        codec : Codec
            Compression of the batch.
        base_offset : int
            Offset of the first record. A leader replaces it, and accepts only 0 from a producer.
        partition_leader_epoch, producer_id, producer_epoch, base_sequence : int
            -1 = none.
        transactional : bool
            True: the batch is part of a transaction of the producer, and may begin it.

        Raises
        ------
        RecordTypeError, RecordTooLargeError
            A record cannot be in a batch.

        Source: Kafka ``MemoryRecords.withRecords``, ``withIdempotentRecords``,
        ``withTransactionalRecords``.
        """
        if not hasattr(records, "__iter__"):
            raise RecordTypeError(
                f"records must be an iterable of records, not {type(records).__name__}",
                found=type(records).__name__,
                expected="an iterable of (key, value), (timestamp, key, value) or Record",
            )
        options = BatchOptions(
            base_offset=integer_within("base_offset", base_offset, 0, MAX_LONG),
            partition_leader_epoch=integer_within(
                "partition_leader_epoch", partition_leader_epoch, -1, MAX_INT
            ),
            codec=int(Codec(codec)),
            producer_id=integer_within("producer_id", producer_id, -1, MAX_LONG),
            producer_epoch=integer_within("producer_epoch", producer_epoch, -1, MAX_SHORT),
            base_sequence=integer_within("base_sequence", base_sequence, -1, MAX_INT),
            transactional=flag("transactional", transactional),
        )
        data = encode_records(records, options, codec_table(), wall_clock_ms(), MAX_INT)
        return cls(data, check_crc=False)

    @classmethod
    def with_end_transaction_marker(  # noqa: PLR0913 - the fields of a marker
        cls,
        producer_id: int,
        producer_epoch: int,
        *,
        commit: bool,
        coordinator_epoch: int = 0,
        timestamp: int | datetime | None = None,
        base_offset: int = 0,
        partition_leader_epoch: int = 0,
    ) -> Self:
        """Build the control batch with which a coordinator ends a producer's transaction.

        Parameters
        ----------
        commit : bool
            True commits the transaction, False aborts it.
        timestamp : int, datetime or None
            In ms since 1970, or a datetime with a time zone; None = now.

        Source: Kafka ``MemoryRecords.withEndTransactionMarker``, ``EndTransactionMarker``.
        """
        data = encode_end_transaction_marker(
            integer_within("base_offset", base_offset, 0, MAX_LONG),
            wall_clock_ms()
            if timestamp is None
            else integer_within("timestamp", record_timestamp(timestamp, None), 0, MAX_LONG),
            integer_within("partition_leader_epoch", partition_leader_epoch, -1, MAX_INT),
            integer_within("producer_id", producer_id, 0, MAX_LONG),
            integer_within("producer_epoch", producer_epoch, 0, MAX_SHORT),
            commit=flag("commit", commit),
            coordinator_epoch=integer_within("coordinator_epoch", coordinator_epoch, 0, MAX_INT),
        )
        return cls(data, check_crc=False)

    @property
    def data(self) -> memoryview:
        """The whole batches: read-only, shape ``(size_bytes,)``, format ``B``."""
        return self._data

    @property
    def headers(self) -> BatchHeaders:
        """The batch-header table: one row for each batch."""
        return self._headers

    @property
    def size_bytes(self) -> int:
        """Size of the whole batches in bytes."""
        return self._data.nbytes

    def transfer_to(self, channel: TransferableChannel, position: int, count: int) -> int:
        """Send up to *count* bytes from *position* on in one step; returns how many were sent."""
        return channel.write(self._data[position : position + count])

    def batches(self) -> Iterator[RecordBatch]:
        """Yield the batches."""
        return batches_of(self._headers, self._data, self._codecs)

    def __iter__(self) -> Iterator[Record]:
        """Yield the data records of all batches."""
        return iterate_records(self._data, self._codecs, check_crc=False)

    def __len__(self) -> int:
        """Return the number of batches."""
        return len(self._headers)

    def __repr__(self) -> str:
        return f"MemoryRecords({len(self)} batches, {self.size_bytes} bytes)"


def _view_of(data: Buffer) -> memoryview:
    kind = type(data).__name__
    expected = "bytes or another buffer, contiguous in memory"
    try:
        view = memoryview(data)
    except TypeError:
        raise ArgumentTypeError(
            f"the batches must be bytes, not {kind}", found=kind, expected=expected
        ) from None
    except ValueError as error:  # a memoryview that was released
        raise IllegalArgumentError(
            f"the batches cannot be read: {error}", found=kind, expected=expected
        ) from None
    if not view.c_contiguous:
        raise IllegalArgumentError(
            "the batches must be contiguous in memory",
            found="a memoryview with steps",
            expected=expected,
        )
    return view
