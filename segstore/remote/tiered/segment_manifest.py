"""The manifest of a tiered segment, one JSON object in ``.rsm-manifest`` [MAN].

Fields may stand in any order, and unknown ones are ignored [MAN-1]. Nothing proves a manifest: each
size in it is compared with the others here, and with the objects where those are read.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from segstore.errors import (
    CorruptCheckpointError,
    InvalidTopicError,
    LimitExceededError,
    SegstoreError,
    UnsupportedFormatError,
)
from segstore.log.files.partition_directory import check_topic
from segstore.log.files.partition_metadata_file import topic_id_text
from segstore.number_limits import MAX_INT, MAX_LONG, MIN_INT, MIN_LONG
from segstore.remote.tiered.chunk_cipher import AAD_BYTES, OVERHEAD_BYTES
from segstore.remote.tiered.chunk_index import ChunkIndex, fixed_chunk_index, variable_chunk_index
from segstore.remote.tiered.key_ring import Encryption
from segstore.remote.tiered.object_key import parse_kafka_id
from segstore.types import EpochEntry, TopicPartition

if TYPE_CHECKING:
    from uuid import UUID

    from segstore.remote.tiered.object_key import ObjectKey

_ValueT = TypeVar("_ValueT")

VERSION: Final = "1"
MAX_MANIFEST_BYTES: Final = 16 * 1024 * 1024
"""The largest block of chunk sizes, which zstd did not shrink, in Base64, and some more."""
INDEX_NAMES: Final = ("offset", "timestamp", "producerSnapshot", "leaderEpoch", "transaction")
"""In the order of the indexes object [IXO-1]."""

_EPOCH = re.compile(r"0|[1-9][0-9]{0,9}")
_SHOWN_CHARACTERS: Final = 80


class StoredIndex(NamedTuple):
    """Where one index lies in the indexes object, in stored bytes."""

    position: int
    size: int


class CopiedSegment(NamedTuple):
    """What the broker said of the segment when it copied it [MAN-7].

    Attributes
    ----------
    topic_partition, topic_id, segment_id : TopicPartition, UUID, UUID
        Whose segment it is, and which copy.
    start_offset, end_offset : int
        Both inclusive.
    max_timestamp_ms : int
        Largest timestamp of its records.
    broker_id, event_timestamp_ms : int
        Which broker copied it, and when that began by its clock.
    leader_epochs : tuple of EpochEntry
        Each epoch with its first offset in this segment, ascending [MAN-8].
    """

    topic_partition: TopicPartition
    topic_id: UUID
    segment_id: UUID
    start_offset: int
    end_offset: int
    max_timestamp_ms: int
    broker_id: int
    event_timestamp_ms: int
    leader_epochs: tuple[EpochEntry, ...]


class SegmentManifest(NamedTuple):
    """What is needed to read a segment.

    Attributes
    ----------
    chunk_index : ChunkIndex
        Of ``.log``.
    indexes : mapping of str to StoredIndex
        By the names of `INDEX_NAMES`; without ``transaction`` where the broker had no such file.
    is_compressed : bool
        The chunks of ``.log`` are; the indexes never are.
    encryption : Encryption or None
        Of the chunks and of the indexes.
    metadata : CopiedSegment
        Of the segment.
    """

    chunk_index: ChunkIndex
    indexes: dict[str, StoredIndex]
    is_compressed: bool
    encryption: Encryption | None
    metadata: CopiedSegment

    @property
    def is_transformed(self) -> bool:
        """Whether ``.log`` has other bytes than the broker's file [CHK-2]."""
        return self.is_compressed or self.encryption is not None

    @property
    def indexes_bytes(self) -> int:
        """Size of the whole indexes object [IXO-1]."""
        return sum(one.size for one in self.indexes.values())


def parse_manifest(data: bytes, file: str, log_bytes: int | None = None) -> SegmentManifest:
    """Parse the manifest in *data*.

    Parameters
    ----------
    data : bytes
        The object.
    file : str
        Its name, for the error.
    log_bytes : int or None
        Size of the segment's ``.log`` object, if it is known: no memory is taken for more chunks.

    Raises
    ------
    CorruptCheckpointError
        It is no JSON, was cut, lacks a field, or contradicts itself.
    UnsupportedFormatError
        It has another version, or is of a build that is too old [VER-3].
    LimitExceededError, CodecError
        Its chunk index is too large, or damaged.
    CorruptLogError
        The ``.log`` object is too small for its chunks.
    """
    try:
        return _parse(_json(data), log_bytes)
    except SegstoreError as error:
        raise error.locate(file) from error.__cause__


def check_key(
    manifest: SegmentManifest, key: ObjectKey, file: str, topic: str | None = None
) -> None:
    """Refuse a manifest that is not the one of *key* [SEL-1].

    Without *topic* any will do that the key's folder ends with: the rest is the prefix [BKT-4].

    Raises
    ------
    CorruptCheckpointError
        Topic, topic id, partition, start offset or segment id are others.
    """
    metadata = manifest.metadata
    named, partition = metadata.topic_partition
    if topic is None:
        topic = named if key.folder.head.endswith(named) else key.folder.head
    pairs = (
        ("topic", named, topic),
        ("topic id", topic_id_text(metadata.topic_id), topic_id_text(key.folder.topic_id)),
        ("partition", partition, key.partition),
        ("start offset", metadata.start_offset, key.start_offset),
        ("segment id", topic_id_text(metadata.segment_id), topic_id_text(key.segment_id)),
    )
    for name, found, expected in pairs:
        if found != expected:
            raise CorruptCheckpointError(
                f"the manifest is of another {name} than its key",
                file=file,
                found=f"{name} {found}",
                expected=f"{name} {expected}",
            )


def _json(data: bytes) -> _Fields:
    if len(data) > MAX_MANIFEST_BYTES:
        raise LimitExceededError(
            "the manifest is too large",
            found=f"{len(data)} bytes",
            expected=f"at most {MAX_MANIFEST_BYTES} bytes",
        )
    try:
        found = json.loads(data.decode())
    except UnicodeDecodeError as error:
        raise _malformed("UTF-8", error.reason, error.start) from None
    except json.JSONDecodeError as error:
        position = len(error.doc[: error.pos].encode())
        raise _malformed("JSON", f"{error.msg}, {len(data)} bytes", position) from None
    except (RecursionError, ValueError) as error:  # nested too deeply; a number of many digits
        raise _malformed("JSON that can be read", type(error).__name__) from None
    if not isinstance(found, dict):
        raise _malformed("a JSON object", type(found).__name__)
    return _Fields(found, "")


def _malformed(expected: str, found: str, position: int | None = None) -> CorruptCheckpointError:
    return CorruptCheckpointError(
        "the manifest is damaged or was cut", position=position, found=found, expected=expected
    )


class _Fields:
    """An object of the JSON text, whose fields are taken with their kinds."""

    __slots__ = ("_fields", "path")

    def __init__(self, fields: dict[str, Any], path: str) -> None:
        self._fields, self.path = fields, path

    def __contains__(self, name: str) -> bool:
        return self._fields.get(name) is not None

    def names(self) -> list[str]:
        return list(self._fields)

    def take(self, name: str, kind: type[_ValueT]) -> _ValueT:
        value = self._fields.get(name)
        if type(value) is not kind:  # a bool is an int to Python, not to JSON
            raise self.wrong(name, value, kind.__name__)
        return value

    def integer(self, name: str, smallest: int, largest: int) -> int:
        value = self.take(name, int)
        if not smallest <= value <= largest:
            raise self.wrong(name, value, f"{smallest} to {largest}")
        return value

    def nested(self, name: str) -> _Fields:
        return _Fields(self.take(name, dict), f"{self.path}{name}.")

    def base64(self, name: str, text: str | None = None) -> bytes:
        text = self.take(name, str) if text is None else text
        try:
            return base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            raise self.wrong(name, text, "Base64") from None

    def kafka_id(self, name: str) -> UUID:
        text = self.take(name, str)
        found = parse_kafka_id(text)
        if found is None:
            raise self.wrong(name, text, "22 characters of Base64")
        return found

    def wrong(self, name: str, value: object, expected: str) -> CorruptCheckpointError:
        shown = "nothing" if value is None else repr(value)[:_SHOWN_CHARACTERS]
        return CorruptCheckpointError(
            f"the field {self.path}{name} of the manifest is wrong", found=shown, expected=expected
        )


def _parse(fields: _Fields, log_bytes: int | None) -> SegmentManifest:
    version = fields.take("version", str)
    if version != VERSION:
        raise UnsupportedFormatError(
            "the manifest has a version that is not known",
            found=f"version {version[:_SHOWN_CHARACTERS]!r}",
            expected=f"version {VERSION!r}",
        )
    _refuse_old_build(fields, "segmentIndexes", "2023-10-10")
    _refuse_old_build(fields, "remoteLogSegmentMetadata", "2023-09-07")
    encryption = _encryption(fields.nested("encryption")) if "encryption" in fields else None
    overhead = 0 if encryption is None else OVERHEAD_BYTES
    is_compressed = fields.take("compression", bool)
    chunk_index = _chunk_index(
        fields.nested("chunkIndex"), overhead, log_bytes, is_compressed=is_compressed
    )
    indexes = _indexes(fields.nested("segmentIndexes"), overhead)
    metadata = _metadata(fields.nested("remoteLogSegmentMetadata"))
    return SegmentManifest(chunk_index, indexes, is_compressed, encryption, metadata)


def _refuse_old_build(fields: _Fields, name: str, until: str) -> None:
    if name not in fields:
        raise _old_build(until, f"no field {name}")


def _old_build(until: str, found: str) -> UnsupportedFormatError:
    return UnsupportedFormatError(
        f"the manifest is of a build of the plug-in from before {until}, or was changed",
        found=found,
        expected="a manifest of the release 2023-11-16 or a later one",
    )


def _encryption(fields: _Fields) -> Encryption:
    data_key = fields.take("dataKey", str)
    key_id, colon, wrapped = data_key.partition(":")
    if not colon:
        raise _old_build("2023-07-18", "a data key without a key id")
    if not key_id.strip() or ":" in wrapped:
        raise fields.wrong("dataKey", data_key, "<key id>:<Base64>")
    aad = fields.base64("aad")
    if len(aad) != AAD_BYTES:
        raise fields.wrong("aad", f"{len(aad)} bytes", f"{AAD_BYTES} bytes")
    return Encryption(key_id, fields.base64("dataKey", wrapped), aad)


def _chunk_index(
    fields: _Fields, overhead: int, log_bytes: int | None, *, is_compressed: bool
) -> ChunkIndex:
    kind = fields.take("type", str)
    size = fields.integer("originalChunkSize", 1, MAX_INT)
    file_size = fields.integer("originalFileSize", 0, MAX_INT)
    expected = "variable" if is_compressed else "fixed"
    if kind != expected:
        raise fields.wrong("type", kind, repr(expected))
    if is_compressed:
        return variable_chunk_index(
            size,
            file_size,
            fields.base64("transformedChunks"),
            overhead_bytes=overhead,
            log_bytes=log_bytes,
        )
    return fixed_chunk_index(
        size,
        file_size,
        fields.integer("transformedChunkSize", 0, MAX_INT),
        fields.integer("finalTransformedChunkSize", 0, MAX_INT),
        overhead_bytes=overhead,
    )


def _indexes(fields: _Fields, overhead: int) -> dict[str, StoredIndex]:
    """Return where the indexes lie, one behind another without a gap [IXO-1, IXO-2]."""
    found: dict[str, StoredIndex] = {}
    end = 0
    for name in INDEX_NAMES:
        if name == "transaction" and name not in fields:
            continue
        place = fields.nested(name)
        position, size = (place.integer(each, 0, MAX_INT) for each in ("position", "size"))
        if position != end:
            raise place.wrong("position", position, f"{end}, the end of the index before")
        if 0 < size <= overhead:
            raise place.wrong("size", size, f"0, or more than {overhead}")
        end += size
        found[name] = StoredIndex(position, size)
    return found


def _metadata(fields: _Fields) -> CopiedSegment:
    segment = fields.nested("remoteLogSegmentId")
    partition = segment.nested("topicIdPartition")
    named = partition.nested("topicPartition")
    start_offset = fields.integer("startOffset", 0, MAX_LONG)
    end_offset = fields.integer("endOffset", start_offset, MAX_LONG)
    return CopiedSegment(
        TopicPartition(_topic(named), named.integer("partition", 0, MAX_INT)),
        partition.kafka_id("topicId"),
        segment.kafka_id("id"),
        start_offset,
        end_offset,
        fields.integer("maxTimestampMs", MIN_LONG, MAX_LONG),
        fields.integer("brokerId", MIN_INT, MAX_INT),
        fields.integer("eventTimestampMs", MIN_LONG, MAX_LONG),
        _leader_epochs(fields.nested("segmentLeaderEpochs"), start_offset, end_offset),
    )


def _topic(fields: _Fields) -> str:
    topic = fields.take("topic", str)
    try:
        return check_topic(topic)
    except InvalidTopicError:
        raise fields.wrong("topic", topic, "a name of a topic") from None


def _leader_epochs(fields: _Fields, start_offset: int, end_offset: int) -> tuple[EpochEntry, ...]:
    """Return the epochs in the order of their numbers: "10" comes after "9" [MAN-7, MAN-8]."""
    entries = []
    for name in fields.names():
        if _EPOCH.fullmatch(name) is None or int(name) > MAX_INT:
            raise fields.wrong("", name, "leader epochs as decimal numbers")
        entries.append(EpochEntry(int(name), fields.integer(name, start_offset, end_offset)))
    entries.sort()
    at = start_offset
    for epoch, offset in entries:
        if offset < at:
            raise fields.wrong(str(epoch), offset, f"at least {at}, where the epoch before begins")
        at = offset
    if not entries:
        raise fields.wrong("", None, "a leader epoch at least")
    return tuple(entries)
