"""The text of a .log or .checkpoint file, as ``kafka-dump-log`` prints it [format.md 18.2]."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from segstore.cli.batch_file import BatchFile, FileBatch
from segstore.cli.dump_report import MAX_INT, DumpOptions, Findings, absolute_path
from segstore.cli.output import UsageError, write
from segstore.errors import SegstoreError
from segstore.records.utf8_java import decode_utf8
from segstore.types import DELETE_HORIZON_FLAG, TRANSACTIONAL_FLAG

if TYPE_CHECKING:
    from collections.abc import Iterator

    from segstore._core import CodecTable, RawRecord

OUTPUT_CHUNK_BYTES = 256 * 1024


def dump_log(path: str, options: DumpOptions, findings: Findings) -> None:
    """Print the batches and, if asked for, the records of the file at *path*."""
    with BatchFile(path) as file:
        write(f"{first_line(Path(path).name, file)}\n".encode())
        chunk: list[bytes] = []
        chunk_bytes = 0
        try:
            for line in _lines(file, options, findings):
                encoded = line.encode()
                chunk.append(encoded)
                chunk_bytes += len(encoded)
                if chunk_bytes > OUTPUT_CHUNK_BYTES:
                    write(b"".join(chunk))
                    chunk.clear()
                    chunk_bytes = 0
        finally:
            write(b"".join(chunk))  # also what comes before an error: that is what a dump is for


def named_base_offset(name: str) -> int | None:
    """Return the number that a file's name begins with, None without one."""
    number = name.partition(".")[0]
    return int(number) if re.fullmatch(r"[0-9]{1,20}", number) else None


def first_line(name: str, file: BatchFile) -> str:
    """Return what the dump of a file of this name begins with.

    A log under another name begins with the base offset of its first batch.

    Raises
    ------
    UsageError
        It is no name of a snapshot.
    """
    if name == "bootstrap.checkpoint":
        return "KRaft bootstrap snapshot"
    snapshot = re.fullmatch(r"([0-9]{20})-([0-9]{10})\.checkpoint", name)
    if snapshot:
        return f"Snapshot end offset: {int(snapshot[1])}, epoch: {int(snapshot[2])}"
    if name.endswith(".checkpoint"):
        raise UsageError(
            f"{name}: a snapshot's name is its end offset and epoch, <20 digits>-<10 digits>"
        )
    base_offset = named_base_offset(name)
    if base_offset is None:
        base_offset = next((batch.base_offset for batch in file.batches()), 0)
    return f"Log starting offset: {base_offset}"


def _lines(file: BatchFile, options: DumpOptions, findings: Findings) -> Iterator[str]:
    valid_bytes = 0
    last_offset = -1
    for batch in file.batches(0, options.max_bytes):
        yield _batch_line(batch, valid_bytes, file.path)
        if options.deep:
            for record in batch_records(batch, file.path):
                last_offset = note_order(file.path, last_offset, record.offset, findings)
                yield _record_line(batch, record, options)
        valid_bytes += batch.size_bytes
    trailing_bytes = min(file.size_bytes, options.max_bytes) - valid_bytes
    if trailing_bytes > 0 and options.max_bytes == MAX_INT:
        yield f"Found {trailing_bytes} invalid bytes at the end of {Path(file.path).name}\n"


def note_order(path: str, last_offset: int, offset: int, findings: Findings) -> int:
    """Note an offset that does not follow the last one; returns *offset*."""
    if offset != last_offset + 1:
        findings.non_consecutive.setdefault(absolute_path(path), {})[last_offset] = offset
    return offset


def batch_codec(batch: FileBatch, path: str) -> str:
    """Return the name of a batch's codec; an unknown one is an error that names the file."""
    try:
        return batch.codec.name.lower()
    except SegstoreError as error:
        error.file = path
        raise


def _batch_line(batch: FileBatch, valid_bytes: int, path: str) -> str:
    codec = batch_codec(batch, path)
    horizon = "OptionalLong.empty"
    if batch.attributes & DELETE_HORIZON_FLAG:
        horizon = f"OptionalLong[{batch.base_timestamp}]"
    rest = (
        f" position: {valid_bytes} {batch.timestamp_type}: {batch.max_timestamp} "
        f"size: {batch.size_bytes} magic: {batch.magic} compresscodec: {codec} "
        f"crc: {batch.crc} isvalid: {_boolean(batch.is_valid)}\n"
    )
    if batch.is_legacy:
        return f"offset: {batch.last_offset}{rest}"
    return (
        f"baseOffset: {batch.base_offset} lastOffset: {batch.last_offset} "
        f"count: {batch.records_count} baseSequence: {batch.base_sequence} "
        f"lastSequence: {batch.last_sequence} "
        f"producerId: {batch.producer_id} producerEpoch: {batch.producer_epoch} "
        f"partitionLeaderEpoch: {batch.partition_leader_epoch} "
        f"isTransactional: {_boolean(batch.attributes & TRANSACTIONAL_FLAG)} "
        f"isControl: {_boolean(batch.is_control)} deleteHorizonMs: {horizon}{rest}"
    )


def _boolean(value: object) -> str:
    return "true" if value else "false"


def batch_records(batch: FileBatch, path: str) -> Iterator[RawRecord]:
    """Records of a batch, its CRC unchecked: a dump shows a bad batch too, as far as it goes."""
    from segstore._core import iterate_raw_records

    try:
        yield from iterate_raw_records(batch.data, _codecs(), iteration="whole")
    except SegstoreError as error:
        error.file = path
        error.position = batch.position + (error.position or 0)
        raise


def _codecs() -> CodecTable:
    from segstore.records.compression import codec_table

    return codec_table()


def _record_line(batch: FileBatch, record: RawRecord, options: DumpOptions) -> str:
    parts = []
    prefix = "| "
    if not options.skip_record_metadata:
        parts.append(_record_metadata(batch, record))
        prefix = " "
    if options.decoder is not None and not batch.is_control:
        key, payload = options.decoder.decode(record)
        if key is not None:
            parts.append(f"{prefix}key: {key}")
            prefix = " "
        if payload is not None:
            parts.append(f"{prefix}payload: {payload}")
    parts.append("\n")
    return "".join(parts)


def _record_metadata(batch: FileBatch, record: RawRecord) -> str:
    key_size = -1 if record.key is None else len(record.key)
    value_size = -1 if record.value is None else len(record.value)
    line = (
        f"| offset: {record.offset} {batch.timestamp_type}: {record.timestamp} "
        f"keySize: {key_size} valueSize: {value_size}"
    )
    if batch.is_legacy:
        return f"{line} isValid: {_boolean(record.is_valid)} crc: {record.crc}"
    header_keys = ",".join(decode_utf8(name) for name, _ in record.headers)
    line += f" sequence: {record.sequence} headerKeys: [{header_keys}]"
    if batch.is_control:
        from segstore.cli.dump_control import control_text

        line += control_text(record.key, record.value)
    return line
