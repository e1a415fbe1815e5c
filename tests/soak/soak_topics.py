"""What the topics of the soak are: their policies, and records that are made again from offsets.

A record is a function of the topic's id, the partition and its offset. So a process can check what
it reads without a memory of what was written, and without a word from the one that wrote it. Of a
topic with transactions the offset also says where markers lie and which transactions are aborted.
"""

from __future__ import annotations

import random
import zlib
from typing import TYPE_CHECKING, NamedTuple

from segstore.types import Codec

if TYPE_CHECKING:
    import uuid
    from collections.abc import Iterable, Mapping

    from segstore.types import Record

CYCLE = 48
"""A transaction has these offsets; the last one is its marker."""
KEYS = 60
MOST_RECORDS = 40
"""Of one append."""
RETENTION_MS = 10_000
RETENTION_BYTES = 100_000
KEPT_BYTES = 600_000
"""A topic without limits that has grown so large is deleted and made again."""
FILLER = random.Random(1).randbytes(500) + b"filler " * 100

SEGMENTS: Mapping[str, int] = {"internal.segment.bytes": 24_000, "index.interval.bytes": 1_000}
COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": 0.2,
    "delete.retention.ms": 500,
}
BY_TIME = {"cleanup.policy": "delete", "retention.ms": RETENTION_MS}
BY_SIZE = {"cleanup.policy": "delete", "retention.bytes": RETENTION_BYTES}


class Kind(NamedTuple):
    """A policy of topics, and who writes them."""

    settings: Mapping[str, str | int | float]
    changes: Mapping[str, tuple[str | int | float, ...]] = {}
    """Values that a setting may be given while the topic is there."""
    codec: Codec = Codec.NONE
    """Of batches that a producer sends; other ones go by ``compression.type``."""
    is_idempotent: bool = False
    is_transactional: bool = False

    @property
    def config(self) -> dict[str, str | int | float]:
        return {**SEGMENTS, **self.settings}

    @property
    def is_compacted(self) -> bool:
        return "compact" in str(self.settings.get("cleanup.policy"))

    @property
    def has_retention(self) -> bool:
        return "delete" in str(self.settings.get("cleanup.policy"))


_COMPRESSION = {"compression.type": ("uncompressed", "gzip", "snappy", "lz4", "zstd")}
_LARGER = {"retention.bytes": (RETENTION_BYTES, 2 * RETENTION_BYTES)}
_LONGER = {"retention.ms": (RETENTION_MS, 2 * RETENTION_MS)}
_RATIO = {"min.cleanable.dirty.ratio": (0.1, 0.3), "delete.retention.ms": (0, 1_000)}

KINDS: Mapping[str, Kind] = {
    "kept": Kind({"flush.messages": 50}, _COMPRESSION),
    "time": Kind({**BY_TIME, "segment.ms": 3_000, "compression.type": "gzip"}, _LONGER),
    "size": Kind({**BY_SIZE, "compression.type": "lz4"}, {**_LARGER, **_COMPRESSION}),
    "compact": Kind({**COMPACTED, "flush.ms": 300}, _RATIO),
    "packed": Kind({**COMPACTED, "compression.type": "zstd"}, {**_RATIO, **_COMPRESSION}),
    "both": Kind({**COMPACTED, **BY_TIME, "cleanup.policy": "compact,delete"}, _LONGER),
    "retried": Kind({**BY_SIZE}, _LARGER, Codec.ZSTD, is_idempotent=True),
    "sold": Kind({**BY_SIZE}, _LARGER, Codec.SNAPPY, is_transactional=True),
    "state": Kind({**COMPACTED}, _RATIO, Codec.LZ4, is_transactional=True),
}
"""By what the name of a topic begins with: these are there all the time."""
BRIEF = "brief"
"""Topics that come and go."""
ALL_KINDS: Mapping[str, Kind] = {**KINDS, BRIEF: Kind({}, _COMPRESSION)}


def kind_of(topic: str) -> Kind:
    return ALL_KINDS[topic.partition("-")[0]]


class Content:
    """What the records of one partition are."""

    def __init__(self, topic: str, topic_id: uuid.UUID | str, partition: int) -> None:
        self.kind = kind_of(topic)
        self.name = f"{topic}-{partition} of topic id {topic_id}"
        self._tag = f"{topic_id}/{partition}/".encode()

    def _chance(self, offset: int) -> int:
        return zlib.crc32(b"%d" % offset, zlib.crc32(self._tag))

    def is_marker(self, offset: int) -> bool:
        return self.kind.is_transactional and offset % CYCLE == CYCLE - 1

    def is_aborted(self, offset: int) -> bool:
        return self.kind.is_transactional and self._chance(-1 - offset // CYCLE) % 4 == 0

    def is_visible(self, offset: int, *, committed: bool) -> bool:
        return not self.is_marker(offset) and not (committed and self.is_aborted(offset))

    def next_visible(self, offset: int, *, committed: bool) -> int:
        while not self.is_visible(offset, committed=committed):
            offset += 1
        return offset

    def last_stable_offset(self, end: int) -> int:
        return end - end % CYCLE if self.kind.is_transactional else end

    def sequence(self, offset: int) -> int:
        """What the producer of the partition counts: its records, without markers."""
        return offset - offset // CYCLE if self.kind.is_transactional else offset

    def key_at(self, offset: int) -> bytes:
        return b"key %d" % (self._chance(offset) % KEYS)

    def value_at(self, offset: int) -> bytes | None:
        chance = self._chance(offset) // KEYS
        if self.kind.is_compacted and chance % 8 == 0:
            return None
        begin = chance % 700
        return b"%s%d %s" % (self._tag, offset, FILLER[begin : begin + 20 + chance % 150])

    def rows(self, offset: int, count: int) -> list[tuple[bytes, bytes | None]]:
        return [(self.key_at(one), self.value_at(one)) for one in range(offset, offset + count)]

    def check(self, records: Iterable[Record], position: int, *, committed: bool = False) -> int:
        """Compare records that were read from *position* on; return the offset after the last one.

        Compaction leaves records out, and nothing else does.
        """
        for record in records:
            offset = record.offset
            expected = self.next_visible(position, committed=committed)
            if self.kind.is_compacted:
                assert offset >= expected, f"{self.name}: {offset} comes where {expected} was due"
                assert self.is_visible(offset, committed=committed), (
                    f"{self.name}: {offset} is {'aborted or ' if committed else ''}a marker"
                )
            else:
                assert offset == expected, f"{self.name}: {offset} comes where {expected} was due"
            found, made = (record.key, record.value), (self.key_at(offset), self.value_at(offset))
            assert found == made, f"{self.name}: {offset} is {found}, and was appended as {made}"
            position = offset + 1
        return position

    def last_offsets(self, start: int, end: int) -> dict[bytes, int]:
        """Return the offset of the last committed record of each key."""
        found: dict[bytes, int] = {}
        for offset in range(self.last_stable_offset(end) - 1, start - 1, -1):
            if self.is_visible(offset, committed=True):
                found.setdefault(self.key_at(offset), offset)
                if len(found) == KEYS:
                    break
        return found
