"""The state machine of a log, its last part: what every reader must see after every step."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from segstore.log.files.profile import Profile
from segstore.log.findings.finding import FindingCode
from segstore.types import SpecialTimestamp
from tests.kits.log_machine import START_MS
from tests.kits.log_machine_ends import SHARE
from tests.kits.log_machine_stops import StoppingMachine
from tests.kits.oracle import OracleRecord

if TYPE_CHECKING:
    from segstore import FetchDataInfo, UnifiedLog
    from tests.kits.log_oracle import OracleLog


class LogMachine(StoppingMachine):
    """The log against its oracle."""

    @invariant()
    def offsets_agree(self):
        log, oracle = self.log, self.oracle
        assert log.log_start_offset == oracle.log_start
        assert log.log_end_offset == oracle.log_end
        self._settle_high_watermark()
        possible = oracle.last_stable_offsets(oracle.high_watermark)
        assert log.last_stable_offset in possible, (log.last_stable_offset, possible)
        assert log.durable_offset <= log.log_end_offset
        assert log.recovery_point <= log.durable_offset or self._points_above_the_end()

    def _points_above_the_end(self) -> bool:
        """Whether the recovery point may be above the log end."""
        return False

    @invariant()
    def records_agree(self):
        assert found_in(self.log.scan()) == self.oracle.records()
        for isolation, bound in (
            ("durable", self.log.durable_offset),
            ("high_watermark", self.log.high_watermark),
        ):
            assert found_in(self.log.scan(isolation=isolation)) == self.oracle.visible(bound)
        self._check_committed(self.log, self.oracle)
        start = self.oracle.log_start
        self._check_aborted(self.log.read(start, 1_000_000, "read_committed"), start)

    def _check_committed(self, log: UnifiedLog, oracle: OracleLog):
        bound = log.last_stable_offset
        committed = found_in(log.scan(isolation="read_committed"))
        assert committed == oracle.committed(bound)

    @invariant()
    def epochs_agree(self):
        assert self.log.latest_epoch == self.oracle.latest_epoch
        for epoch in range((self.oracle.latest_epoch or 0) + 2):
            found = self.log.end_offset_for_epoch(epoch)
            assert found == self.oracle.end_offset_for_epoch(epoch)

    @invariant()
    def producers_agree(self):
        found = {one.producer_id: one for one in self.log.active_producers()}
        assert not self.oracle.gone_producers & found.keys()
        for id_, known in self.oracle.producers.items():
            if not known.is_certain:
                continue
            one = found[id_]
            assert one.producer_epoch == known.epoch
            assert one.last_timestamp == known.last_timestamp
            assert one.last_sequence == (known.batches[-1].last_sequence if known.batches else -1)
            start = known.transaction_start
            assert one.current_txn_start_offset == (-1 if start is None else start)

    @invariant()
    def another_handle_sees_the_same(self):
        with self._open(read_only=True) as reader:
            seen = replace(self.oracle, log_start=self._reader_start())
            end = reader.log_end_offset
            assert reader.log_start_offset == seen.log_start
            assert seen.data_end <= end <= seen.log_end
            assert found_in(reader) == seen.records()
            possible = seen.last_stable_offsets(end)
            assert reader.last_stable_offset in possible, (reader.last_stable_offset, possible)
            self._check_committed(reader, seen)

    def _reader_start(self) -> int:
        """Return where a handle begins that is opened now."""
        return self.oracle.log_start

    @rule(share=SHARE, max_bytes=st.integers(0, 2000))
    def fetch(self, share: float, max_bytes: int):
        offset = self._offset_at(share)
        self.reach("fetch")
        found = found_in(self.log.read(offset, max_bytes))
        assert found == self.oracle.records(offset)[: len(found)]
        if max_bytes == 0:
            return
        bound = self.log.last_stable_offset
        fetched = self.log.read(offset, max_bytes, "read_committed")
        found = found_in(fetched)
        assert found == self.oracle.committed(bound, offset)[: len(found)]
        self._check_aborted(fetched, offset)

    def _check_aborted(self, fetched: FetchDataInfo, offset: int):
        """All transactions that have data in the bytes, and none that ended before them [LOC-9]."""
        listed = fetched.aborted_transactions
        if listed is None:  # behind the last batch of a log that goes on in a gap
            assert fetched.size_bytes == 0
            return
        headers = fetched.headers
        end = int(headers["last_offset"][-1]) + 1 if len(headers) else -1
        aborted = [one for one in self.oracle.transactions() if one.is_aborted]
        of_begin = {
            (one.producer_id, begin): one
            for one in aborted
            for begin in one.begins(self.oracle.log_start)
        }
        found = [of_begin[one].end_offset for one in listed]
        needed = {
            one.end_offset
            for one in aborted
            if any(offset <= b.last_offset and b.base_offset < end for b in one.batches)
        }
        possible = {one.end_offset for one in aborted if one.end_offset >= offset}
        assert needed <= set(found) <= possible, (offset, end, needed, listed, possible)
        assert len(found) == len(set(found))
        if needed:
            self.count("aborted transactions in a fetch")

    @rule(one=SHARE, other=SHARE)
    def scan_a_range(self, one: float, other: float):
        start, end = sorted([self._offset_at(one), self._offset_at(other)])
        assert found_in(self.log.scan(start, end)) == self.oracle.records(start, end)

    @rule(share=SHARE, later_ms=st.integers(-1, 1))
    def look_up_a_timestamp(self, share: float, later_ms: int):
        """About those of records, and in another handle too."""
        self.reach("look up a timestamp")
        times = sorted({record.timestamp for record in self.oracle.records()}) or [START_MS]
        timestamp = times[int(share * (len(times) - 1))] + later_ms
        with self._open(read_only=True) as reader:
            seen = replace(self.oracle, log_start=self._reader_start())
            for log, oracle in ((self.log, self.oracle), (reader, seen)):
                found = log.offset_for_timestamp(timestamp)
                assert found == oracle.offset_for_timestamp(timestamp)
                first_segment = log.segments()[0].base_offset  # a reader has none below the start
                youngest = log.fetch_offset_by_timestamp(SpecialTimestamp.MAX).offset
                assert youngest == oracle.offset_of_max_timestamp(first_segment)

    @rule()
    def verify(self):
        """In Kafka's profile no file shows whether an empty segment has lost records."""
        report, is_kafkas = self.log.verify(), self.log.profile is Profile.KAFKA
        codes = {one.code for one in report.findings}
        is_known = is_kafkas and codes == {FindingCode.RECORDS_MAYBE_MISSING}
        assert report.ok or is_known, str(report)


def found_in(records: object) -> list[OracleRecord]:
    return [OracleRecord(one.offset, one.timestamp, one.key, one.value) for one in records]
