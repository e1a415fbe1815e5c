"""The append validator against Kafka's ``LogValidator`` in Java, over the same batch in memory."""

from __future__ import annotations

import statistics
import subprocess

from segstore import _core
from segstore.records.compression import codec_table
from segstore.types import Codec

from .common import PROFILE, ScratchDirectory, TimedAlone, seconds_per_unit
from .datasets import batches
from .kafka_peer import JAVA_SOURCES, kafka_class_path

JAVA_SOURCE = JAVA_SOURCES / "ValidateWithKafka.java"
ROUNDS, ROUND_RECORDS, WARM_UP_RECORDS = (
    (1, 5_000, 0) if PROFILE.rounds == 1 else (max(PROFILE.rounds, 9), 400_000, 12_000_000)
)


class Validate(TimedAlone, ScratchDirectory):
    """Speed over that of Kafka's validator: one batch again and again, in the caches.

    That is where a batch is whose CRC was just checked. Both take CPU time of one thread, in turn,
    after Java has had rounds to compile; the peer's collector and compiler count for nothing.
    Codecs: what comes in, and what the topic wants.
    """

    params = ([100], [16_384, 1_000_000], ["uncompressed", "lz4", "uncompressed to lz4"])
    param_names = ("value_bytes", "batch_bytes", "codecs")
    unit = "ratio"
    timeout = 600
    peer: subprocess.Popen[str] | None = None

    def setup(self, value_bytes: int, batch_bytes: int, codecs: str) -> None:
        class_path = kafka_class_path()
        self.set_up_ours(value_bytes, batch_bytes, codecs)
        file = self.path / "batch"
        file.write_bytes(self.data)
        names = [self.source.replace("uncompressed", "none"), self.target.name.lower()]
        self.peer = subprocess.Popen(
            ["java", "-cp", class_path, str(JAVA_SOURCE), str(file), *names, str(self.repeats)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def set_up_ours(self, value_bytes: int, batch_bytes: int, codecs: str) -> None:
        self.make_scratch()
        self.source, _, target = codecs.partition(" to ")
        self.target = (
            Codec.NONE if codecs == "uncompressed" else Codec[(target or self.source).upper()]
        )
        batch = batches(value_bytes, batch_bytes, self.source)[0]
        self.data, (self.headers, _) = bytearray(batch), _core.scan_batches(batch)
        self.records_count = int(self.headers["records_count"][0])
        self.repeats = -(-ROUND_RECORDS // self.records_count)
        self.validator = _core.LogValidator(codec_table(), target_codec=self.target)

    def teardown(self, *parameters: object) -> None:
        if self.peer is not None:
            self.peer.communicate()
        super().teardown(*parameters)

    def time_validate(self, *_: object) -> None:
        self._ours()

    def track_speed_against_kafka(self, value_bytes: int, batch_bytes: int, codecs: str) -> float:
        for _ in range(-(-WARM_UP_RECORDS // ROUND_RECORDS)):
            self._theirs()
        self._ours()
        measured = [(seconds_per_unit(self._ours), self._theirs()) for _ in range(ROUNDS)]
        ours = statistics.median(mine for mine, _ in measured)
        return statistics.median(theirs for _, theirs in measured) / ours

    def _ours(self) -> float:
        next_offset = 0
        for _ in range(self.repeats):
            self.data[:8] = bytes(8)  # what the time before has stamped
            result = self.validator.validate_and_assign_offsets(
                self.data, self.headers, next_offset, 0, 0
            )
            next_offset = result.next_offset
        assert next_offset == self.repeats * self.records_count  # never time a wrong answer
        return next_offset

    def _theirs(self) -> float:
        assert self.peer is not None
        assert self.peer.stdin is not None
        assert self.peer.stdout is not None
        self.peer.stdin.write("round\n")
        self.peer.stdin.flush()
        seconds, records = self.peer.stdout.readline().split()
        assert int(records) == self.repeats * self.records_count
        return float(seconds) / int(records)
