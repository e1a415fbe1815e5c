"""A log written by a seeded sequence of operations, then closed or left as by a killed process."""

from __future__ import annotations

import contextlib
import random
from typing import TYPE_CHECKING, Any, Final

import segstore
from segstore._core import encode_end_transaction_marker, wall_clock_ms
from segstore.errors import OutOfOrderSequenceError, RecordBatchTooLargeError
from segstore.log.files.checkpoints import (
    CLEAN_SHUTDOWN_MARKER,
    RECOVERY_POINT_CHECKPOINT,
    parse_offset_checkpoint,
)
from segstore.types import AppendOrigin
from tests.kits.log_kit import batch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from segstore import UnifiedLog

CODECS: Final = (0, 0, 1, 2, 3, 4)
ENDINGS: Final = ("closed", "killed", "torn", "followed by rubbish")

AN_HOUR_MS: Final = 3600 * 1000
FIRST_TRANSACTIONAL_ID: Final = 20

KAFKA_KEYS: Final = {
    "internal_segment_bytes": "internal.segment.bytes",
    "segment_index_bytes": "segment.index.bytes",
    "index_interval_bytes": "index.interval.bytes",
    "message_timestamp_type": "message.timestamp.type",
    "compression_type": "compression.type",
    "preallocate": "preallocate",
    "cleanup_policy": "cleanup.policy",
    "delete_retention_ms": "delete.retention.ms",
}


class RandomScript:
    """Writes ``<folder>/topic-0``; the same seed gives the same operations.

    Attributes
    ----------
    settings : dict
        Of `segstore.open`.
    ending : str
        One of `ENDINGS`.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self.directory = folder / "topic-0"
        self._rng = random.Random(seed)
        pick = self._rng.choice
        self.settings: dict[str, Any] = {
            "internal_segment_bytes": pick((600, 1500, 4000, 20_000)),
            "index_interval_bytes": pick((0, 1, 200, 4096)),
            "message_timestamp_type": pick(("CreateTime", "CreateTime", "LogAppendTime")),
            "compression_type": pick(("producer", "producer", "uncompressed", "lz4", "zstd")),
            "preallocate": pick((False, False, False, True)),
        }
        self.ending = pick(ENDINGS)
        # Kafka's recovery fails at a full index [LDR-24]: none is where it has something to do.
        self.settings["segment_index_bytes"] = pick((64, 1024, 4096)) if self.is_closed else 4096
        self._epoch = 0
        self._time = wall_clock_ms() - AN_HOUR_MS  # Kafka forgets producers of another day
        self._sent: dict[int, bytes] = {}
        self._log: UnifiedLog

    @property
    def kafka_config(self) -> dict[str, str]:
        """The same settings by Kafka's names."""
        return {KAFKA_KEYS[name]: _text(value) for name, value in self.settings.items()}

    @property
    def is_closed(self) -> bool:
        """Whether the script ends with a close."""
        return self.ending == "closed"

    @property
    def is_clean(self) -> bool:
        """Whether the log was left clean: closed, or killed before a change [DUR-24]."""
        return (self.directory / CLEAN_SHUTDOWN_MARKER).exists()

    def run(self, look: Callable[[UnifiedLog], str]) -> str:
        """Write the log and end as `ending` says; returns what *look* saw at the end."""
        self._log = self._open()
        operations, weights = zip(*self._operations().items(), strict=True)
        for operation in self._rng.choices(operations, weights, k=self._rng.randint(1, 40)):
            operation()
        seen = look(self._log)
        if self.is_closed:
            self._log.close()
            return seen
        if self._rng.random() < 0.3:
            self._log.flush()
        active = self._log.segments()[-1]
        file, size, (headers, _) = self.directory / active.name, active.size_bytes, active.scan()
        self._log.close_quietly()
        data = file.read_bytes()
        point = checkpointed(self.directory, RECOVERY_POINT_CHECKPOINT)  # nothing below it is torn
        synced_bytes = int(headers["size_bytes"][headers["base_offset"] < point].sum())
        if self.ending == "torn" and size > synced_bytes:
            file.write_bytes(data[: self._rng.randrange(synced_bytes, size)])
        elif self.ending == "followed by rubbish":
            more = self._rng.choice((1, 11, 12, 61, 300))
            file.write_bytes(
                data[:size] + self._rng.choice((bytes(more), self._rng.randbytes(more)))
            )
        if file.stat().st_size != len(data):  # who writes has removed the marker before
            (self.directory / CLEAN_SHUTDOWN_MARKER).unlink(missing_ok=True)
        return seen

    def _operations(self) -> dict[Callable[[], object], int]:
        return {
            self._append: 8,
            self._append_as_leader: 8,
            self._append_as_follower: 5,
            self._append_of_producer: 8,
            self._end_transaction: 4,
            self._roll: 2,
            self._flush: 1,
            self._truncate: 2,
            self._truncate_fully: 1 if self._rng.random() < 0.1 else 0,
            self._delete_records: 2,
            self._reopen: 1,
        }

    def _open(self) -> UnifiedLog:
        return segstore.open(
            self.directory,
            durability=self._rng.choice(("none", "none", "messages=20", "sync")),
            file_delete_delay_ms=0,
            segment_ms=None,
            **self.settings,
        )

    # ---- operations ------------------------------------------------------------------------------

    def _append(self) -> None:
        self._log.append(self._records(self._rng.choice((1, 1, 2, 10, 30))))

    def _append_as_leader(self) -> None:
        self._epoch += self._rng.random() < 0.15
        data = batch(self._records(self._rng.randint(1, 12)), codec=self._rng.choice(CODECS))
        self._append_batch(lambda: self._log.append_as_leader(data, self._latest_epoch()))

    def _append_as_follower(self) -> None:
        """Some batches with offsets and epochs of their own, as another leader wrote them."""
        self._epoch = self._latest_epoch()
        offset = self._log.log_end_offset
        data = b""
        for _ in range(self._rng.randint(1, 3)):
            offset += self._rng.choice((0, 0, 0, 0, 0, 1, 7, 1000))
            self._epoch += self._rng.random() < 0.2
            records = self._records(self._rng.randint(1, 8))
            codec = self._rng.choice(CODECS)
            data += batch(records, base_offset=offset, epoch=self._epoch, codec=codec)
            offset += len(records)
        self._append_batch(
            lambda: self._log.append_as_follower(
                self._rng.choice((bytes, segstore.MemoryRecords))(data), self._epoch
            )
        )

    def _append_of_producer(self) -> None:
        """The next batch of a producer, at times one that it sent before."""
        producer_id = self._rng.choice((10, 11, 20, 21, 22))
        data = self._sent.get(producer_id, b"")
        if not data or self._rng.random() < 0.9:
            entry = self._log._producers.last_entry(producer_id)
            is_known = entry is not None and not entry.is_empty
            data = batch(
                self._records(self._rng.randint(1, 6)),
                codec=self._rng.choice(CODECS),
                producer_id=producer_id,
                producer_epoch=0 if entry is None else entry.producer_epoch,
                base_sequence=entry.last_seq + 1 if entry is not None and is_known else 0,
                transactional=producer_id >= FIRST_TRANSACTIONAL_ID,
            )
        self._sent[producer_id] = data
        with contextlib.suppress(OutOfOrderSequenceError):  # sent before what is known of it
            self._append_batch(lambda: self._log.append_as_leader(data, self._latest_epoch()))

    def _end_transaction(self) -> None:
        """A marker, for one that is open or not."""
        producer_id = self._rng.choice((20, 21, 22))
        entry = self._log._producers.last_entry(producer_id)
        self._time += 1
        marker = encode_end_transaction_marker(
            0,
            self._time,
            self._latest_epoch(),
            producer_id,
            0 if entry is None else entry.producer_epoch,
            commit=self._rng.random() < 0.5,
            coordinator_epoch=1,
        )
        self._log.append_as_leader(
            segstore.MemoryRecords(marker),
            self._latest_epoch(),
            origin=AppendOrigin.COORDINATOR,
            transaction_version=1,
        )

    def _append_batch(self, append: Callable[[], object]) -> None:
        try:
            append()
        except RecordBatchTooLargeError:  # more than a segment of this log holds: nothing happened
            assert self.settings["internal_segment_bytes"] <= 4000

    def _roll(self) -> None:
        self._log.roll()

    def _flush(self) -> None:
        self._log.flush()

    def _truncate(self) -> None:
        first, end = self._log.log_start_offset, self._log.log_end_offset
        self._log.truncate_to(max(first, end - self._rng.choice((1, 5, 20, 200))))

    def _truncate_fully(self) -> None:
        end = self._log.log_end_offset
        self._log.truncate_fully_and_start_at(end + self._rng.choice((0, 3, 500)))

    def _delete_records(self) -> None:
        bases = [segment.base_offset for segment in self._log.segments()]
        first, end = self._log.log_start_offset, self._log.high_watermark
        offset = self._rng.choice((self._rng.randint(first, end), self._rng.choice(bases)))
        if offset <= end:
            self._log.delete_records(offset)

    def _reopen(self) -> None:
        if self._rng.random() < 0.6:
            self._log.close()
        else:
            self._log.close_quietly()
        self._log = self._open()

    # ---- input -----------------------------------------------------------------------------------

    def _latest_epoch(self) -> int:
        self._epoch = max(self._epoch, self._log.stats()["latest_leader_epoch"])
        return self._epoch

    def _records(self, count: int) -> list[segstore.Record]:
        return [self._record() for _ in range(count)]

    def _record(self) -> segstore.Record:
        rng = self._rng
        self._time += rng.choice((0, 1, 1, 50, 2000, -500))
        return segstore.Record(
            key=rng.choice((None, b"", rng.randbytes(rng.randint(1, 20)))),
            value=rng.choice((None, b"", rng.randbytes(rng.randint(1, 120)), b"v" * 63)),
            headers=rng.choice(([], [], [("h", None), ("é", b""), ("n", rng.randbytes(3))])),
            timestamp=self._time,
        )


def checkpointed(directory: Path, name: str) -> int:
    """Return the offset that the partition's own checkpoint *name* has, 0 without one."""
    file = directory / name
    return next(iter(parse_offset_checkpoint(file.read_bytes()).values())) if file.exists() else 0


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
