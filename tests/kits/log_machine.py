"""The state machine of a log, its first part: how it is opened and what is appended to it."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from hypothesis import event
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from segstore._core import BatchOptions, encode_records
from segstore.log.findings.finding import FindingCode
from segstore.log.log_environment import LogEnvironment
from segstore.log.log_opener import open_partition
from segstore.log.open_options import open_options
from segstore.log.producers.producer_state_manager_config import ProducerStateManagerConfig
from segstore.records.compression import codec_table
from tests.kits.log_oracle import OracleLog
from tests.kits.log_oracle_producer import OracleBatch
from tests.kits.mock_time import MockTime
from tests.kits.oracle import OracleRecord

if TYPE_CHECKING:
    from segstore import UnifiedLog
    from segstore.log.findings.finding import Finding

START_MS = 1_700_000_000_000
PRODUCER_EXPIRATION_MS = 200_000
CODECS = codec_table()

Data = tuple[int, bytes | None, bytes | None]
"""How long ago, key, value."""

RECORDS = st.lists(
    st.tuples(
        st.integers(0, 500), st.none() | st.binary(max_size=4), st.none() | st.binary(max_size=24)
    ),
    min_size=1,
    max_size=4,
)
CODEC_IDS = st.integers(0, 4)
TIMES = st.integers(10, 30)

SETTINGS = st.fixed_dictionaries(
    {
        "durability": st.sampled_from(["none", "messages=7", "seconds=30"]),
        "compression_type": st.sampled_from(["producer", "gzip", "lz4", "zstd"]),
        "internal_segment_bytes": st.sampled_from([1200, 4000]),
        "index_interval_bytes": st.sampled_from([0, 150, 4096]),
        "segment_index_bytes": st.sampled_from([48, 4096]),
        "file_delete_delay_ms": st.sampled_from([0, 60_000]),
        "preallocate": st.booleans(),
        "retention_ms": st.sampled_from([None, 50_000, 300_000]),
        "retention_bytes": st.sampled_from([400, 1500, -1]),
    }
)


class AppendingMachine(RuleBasedStateMachine):
    """One log, its oracle, its clock, and the folder of the log."""

    recovery = "safe"
    reached: ClassVar[Counter[str]] = Counter()
    """How often each kind of step was taken, in all sequences of a run."""

    @initialize(chosen=SETTINGS, is_replicated=st.booleans())
    def open_new_log(self, *, chosen: dict[str, object], is_replicated: bool):
        self._open_new_log(
            chosen,
            OracleLog(is_replicated=is_replicated, producer_expiration_ms=PRODUCER_EXPIRATION_MS),
        )

    def _open_new_log(self, chosen: dict[str, object], oracle: OracleLog):
        self.folder = Path(tempfile.mkdtemp(prefix="segstore-machine-"))
        self.path = self.folder / "topic-0"
        self.time = MockTime(START_MS)
        self.settings = self._possible(chosen)
        self.coordinator_epoch = 0
        self.last_step = "open"
        self.cut_offsets: set[int] = set()
        self.oracle = oracle
        self.log = self._open()

    def reach(self, step: str, *more: str):
        """Note a step, and what it met."""
        self.last_step = step
        for one in (step, *(f"{step}: {what}" for what in more)):
            self.count(one)

    def count(self, what: str):
        self.reached[what] += 1
        event(what)

    def teardown(self):
        if hasattr(self, "log"):
            try:
                report = self.log.verify()
                assert all(map(self._is_cut, report.findings)), str(report)
            finally:
                self.log.close()
                shutil.rmtree(self.folder)

    def _is_cut(self, finding: Finding) -> bool:
        """Whether a segment is empty because truncations took all that its batches had left.

        Nothing in the directory tells it from a file that was lost [DUR-7].
        """
        return finding.code is FindingCode.RECORDS_MAYBE_MISSING and all(
            last is not None and self.cut_offsets.issuperset(range(first, last + 1))
            for first, last in finding.lost
        )

    def _open(self, *, read_only: bool = False) -> UnifiedLog:
        options = open_options(
            recovery=self.recovery,
            replicated=self.oracle.is_replicated and not read_only,
            read_only=read_only,
            segment_ms=None,
            producer_config=ProducerStateManagerConfig(PRODUCER_EXPIRATION_MS),
            **self._own_options(),
            **self.settings,
        )
        if not read_only:
            self.opened_ms, self.looked_at_time_ms = self.time.now_ms, None
        log_environment = LogEnvironment(
            environment=self.time.environment, background=self.time.scheduler
        )
        return open_partition(self.path, options, log_environment)

    def _own_options(self) -> dict[str, object]:
        """Return options of one profile only."""
        return {}

    def _possible(self, settings: dict[str, object]) -> dict[str, object]:
        """Return the settings that a log of this profile survives."""
        return settings

    # ---- appends ---------------------------------------------------------------------------------

    @rule(records=RECORDS)
    def append(self, records: list[Data]):
        self.reach("append")
        self._append_own(self._stamped(records))

    @rule(records=RECORDS, times=TIMES)
    def append_much(self, records: list[Data], times: int):
        """More than a segment holds, in one call, and no codec makes it small."""
        self.reach("append much")
        noise = (sha256(bytes([number])).digest() for number in range(times))
        stamped = self._stamped(records)
        self._append_own([(time, key, one) for one in noise for time, key, _ in stamped])

    def _append_own(self, records: list[Data]):
        first = self.oracle.log_end
        info = self.log.append(records)
        assert (info.base_offset, info.last_offset) == (first, first + len(records) - 1)
        self.oracle.note_epoch(self.oracle.latest_epoch or 0, first)
        found = [len(list(batch)) for batch in self.log.scan(first).batches()]
        for count in found:
            self._note(records[:count], self.oracle.log_end)
            del records[:count]
        assert not records

    @rule(many=st.lists(RECORDS, min_size=1, max_size=3), codec=CODEC_IDS, is_newer=st.booleans())
    def append_as_leader(self, *, many: list[list[Data]], codec: int, is_newer: bool):
        epoch = (self.oracle.latest_epoch or 0) + is_newer
        self.reach("append as leader", "newer epoch" if is_newer else "same epoch")
        for data in many:
            records = self._stamped(data)
            info = self.log.append_as_leader(encoded(records, codec=codec), epoch)
            assert info.base_offset == self.oracle.log_end
            self.oracle.note_epoch(epoch, info.base_offset)
            self._note(records, info.base_offset)

    @rule(
        many=st.lists(st.tuples(st.integers(0, 3), RECORDS), min_size=1, max_size=3),
        codec=CODEC_IDS,
        is_newer=st.booleans(),
    )
    def append_as_follower(self, *, many: list[tuple[int, list[Data]]], codec: int, is_newer: bool):
        """Offsets are given, and some may be missing."""
        epoch = (self.oracle.latest_epoch or 0) + is_newer
        self.reach("append as follower", "newer epoch" if is_newer else "same epoch")
        content, offset, noted = b"", self.oracle.log_end, []
        for gap, data in many:
            offset += gap
            records = self._stamped(data)
            content += encoded(
                records, codec=codec, base_offset=offset, partition_leader_epoch=epoch
            )
            noted.append((records, offset))
            offset += len(records)
        info = self.log.append_as_follower(content, epoch)
        assert (info.base_offset, info.last_offset) == (noted[0][1], offset - 1)
        self.oracle.note_epoch(epoch, noted[0][1])
        for records, base_offset in noted:
            self._note(records, base_offset)

    def _stamped(self, data: list[Data]) -> list[Data]:
        return [(self.time.now_ms - ago, key, value) for ago, key, value in data]

    def _note(self, records: list[Data], base_offset: int, **producer: object) -> OracleBatch:
        numbered = tuple(OracleRecord(base_offset + i, *one) for i, one in enumerate(records))
        batch = OracleBatch(numbered, **producer)
        self.oracle.append(batch)
        return batch

    def _offset_at(self, share: float) -> int:
        start, end = self.oracle.log_start, self.oracle.log_end
        return start + int((end - start) * share)


def encoded(records: list[Data], **options: object) -> bytes:
    return bytes(encode_records(records, BatchOptions(**options), CODECS, START_MS, 2**30))
