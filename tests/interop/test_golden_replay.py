"""The requests that a broker was sent, sent to us: the same answers, and the same files.

What the broker's request layer refused never reached its log: rights, and message sets of magic 0
and 1, which no produce request may hold any more.
"""

from __future__ import annotations

import base64
import json
import uuid
from typing import TYPE_CHECKING, Any

import pytest

import segstore
from segstore import errors
from segstore._core import Environment
from segstore.log.log_opener import open_partition
from segstore.log.open_options import open_options
from segstore.log.surroundings import Surroundings
from tests.directory_files import check_files, files_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from segstore import UnifiedLog
    from tests.interop.conftest import GoldenSummary

CASE = "append-script"
REFUSED_ABOVE_THE_LOG = {
    "transactional bit without a producer id (none)",
    "transactional bit without a producer id (lz4)",
    "magic 1",
    "magic 0, gzip",
}
REFUSED_BY_SAFE = "record offset deltas 0, 2, 1"
"""Accepted by the broker: three records, of which a consumer sees two."""

ERRORS: dict[str, type[Exception]] = {
    "CORRUPT_MESSAGE": errors.CorruptRecordError,
    "INVALID_RECORD": errors.InvalidRecordError,
    "INVALID_TIMESTAMP": errors.InvalidTimestampError,
    "MESSAGE_TOO_LARGE": errors.RecordTooLargeError,
    "RECORD_LIST_TOO_LARGE": errors.RecordBatchTooLargeError,
    "UNKNOWN_SERVER_ERROR": errors.SegstoreError,
}
SETTINGS = {
    "internal.segment.bytes": "internal_segment_bytes",
    "segment.index.bytes": "segment_index_bytes",
    "index.interval.bytes": "index_interval_bytes",
    "compression.type": "compression_type",
    "message.timestamp.type": "message_timestamp_type",
    "cleanup.policy": "cleanup_policy",
    "max.message.bytes": "max_message_bytes",
    "segment.ms": "segment_ms",
}
OURS = {".lock", ".segstore", ".kafka_cleanshutdown", "recovery-point-offset-checkpoint"}
"""Files of a safe log that a broker does not have."""


class Broker:
    """The logs of the case's topics, on a clock of the script."""

    def __init__(self, case: Path, folder: Path, profile: str) -> None:
        self.description = json.loads((case / "case.json").read_text())
        self.answers: list[dict[str, Any]] = self.description["produce_answers"]
        self.clocks: dict[str, Environment] = {}
        self.logs: dict[str, UnifiedLog] = {}
        self._profile = profile
        for topic, described in self.description["topics"].items():
            configs = described["configs"]
            settings = {ours: configs[name] for name, ours in SETTINGS.items() if name in configs}
            topic_id = (case / "data" / f"{topic}-0" / "partition.metadata").read_text().split()[-1]
            options = open_options(
                recovery=profile,
                durability="none",
                topic_id=uuid.UUID(bytes=base64.urlsafe_b64decode(f"{topic_id}==")),
                **{name: int(v) if v.isdigit() else v for name, v in settings.items()},
            )
            clock = Environment.with_wall_clock(self.description["broker"]["asked_at_ms"])
            self.clocks[topic] = clock
            log = open_partition(folder / f"{topic}-0", options, Surroundings(environment=clock))
            log.assign_epoch_start_offset(0, log.log_end_offset)
            self.logs[topic] = log

    def produce(self, answer: dict[str, Any]) -> None:
        """Send the request of *answer*, and expect the answer."""
        log, data = self.logs[answer["topic"]], base64.b64decode(answer["request_base64"])
        if answer["error"] != "NONE":
            end = log.log_end_offset
            with pytest.raises(ERRORS[answer["error"]]) as caught:
                log.append_as_leader(data, 0)
            assert log.log_end_offset == end
            records = getattr(caught.value, "record_errors", ())
            assert len(records) >= len(answer.get("record_errors") or ())
            return
        if answer["topic"] == "log-time":
            self.clocks["log-time"].wall_clock_ms = answer["log_append_time"]
        info = log.append_as_leader(data, 0)
        assert (info.base_offset, info.log_append_time, info.log_start_offset) == (
            answer["base_offset"],
            answer["log_append_time"],
            answer["log_start_offset"],
        )

    def close(self) -> None:
        """Stop as a broker does: everything on disk, then the clean end."""
        for log in self.logs.values():
            if not log.closed:
                log.flush(force_active_segment=True)
                log.close()


@pytest.fixture
def case(golden: Path) -> Path:
    folder = golden / CASE
    if not folder.exists():
        pytest.skip(f"no {CASE} among the cases")
    return folder


@pytest.fixture(params=["kafka", "safe"])
def profile(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def broker(case: Path, tmp_path: Path, profile: str) -> Iterator[Broker]:
    made = Broker(case, tmp_path, profile)
    yield made
    made.close()


def test_the_script_gives_the_brokers_answers_and_files(
    broker: Broker, case: Path, tmp_path: Path, profile: str, golden_summary: GoldenSummary
):
    """[APP-1..APP-14, APP-30..APP-34] 213 requests in order, good and bad, and what they left."""
    script = [one for one in broker.answers if one["what"] not in REFUSED_ABOVE_THE_LOG]
    golden_summary.name(
        f"{CASE}: refused above the log: {', '.join(sorted(REFUSED_ABOVE_THE_LOG))}"
    )
    if profile == "safe":
        first = next(n for n, one in enumerate(script) if one["what"] == REFUSED_BY_SAFE)
        refused = script[first]
        # the offsets of what follows in its topic count it
        script = script[:first] + [
            one for one in script[first + 1 :] if one["topic"] != "plain" or one["error"] != "NONE"
        ]
        golden_summary.name(f"{CASE}, safe: refused before it is written: {REFUSED_BY_SAFE}")
    for answer in script:
        broker.produce(answer)
    if profile == "safe":
        with pytest.raises(errors.InvalidRecordError, match="its offset is 2"):
            broker.produce(refused)
    broker.close()
    golden_summary.add(f"requests, {profile}", len(script), len(script))
    for topic in broker.logs:
        check_directory(tmp_path / f"{topic}-0", case / "data" / f"{topic}-0", profile)
        golden_summary.add(f"directories of requests, {profile}", 1, 1)


def check_directory(ours: Path, brokers: Path, profile: str) -> None:
    """Byte for byte; what zstd made, by its records, since encoders differ."""
    found, expected = files_of(ours), files_of(brokers)
    if profile == "safe":
        found = {name: data for name, data in found.items() if name not in OURS}
    if brokers.name == "to-zstd-0":
        with (
            segstore.open(ours, read_only=True) as one,
            segstore.open(brokers, read_only=True) as two,
        ):
            assert one.scan().tuples() == two.scan().tuples()
            assert [described(batch) for batch in one.scan().batches()] == [
                described(batch) for batch in two.scan().batches()
            ]
        names = ("leader-epoch-checkpoint", "partition.metadata", f"{45:020}.snapshot")
        check_files({name: found[name] for name in names}, {name: expected[name] for name in names})
        return
    if brokers.name == "plain-0" and profile == "safe":  # ends where it refused a request
        name = f"{399:020}"
        for kind in ("log", "index", "timeindex"):
            active = expected.pop(f"{name}.{kind}")
            if kind != "timeindex":
                assert active.startswith(found[f"{name}.{kind}"])
            del found[f"{name}.{kind}"]
        del found[f"{452:020}.snapshot"], expected[f"{456:020}.snapshot"]
    check_files(found, expected)


def described(batch: segstore.RecordBatch) -> tuple[object, ...]:
    """All of a header but what depends on the encoder."""
    return (
        batch.base_offset,
        batch.last_offset,
        batch.partition_leader_epoch,
        batch.attributes,
        batch.max_timestamp,
        batch.base_sequence,
        batch.count,
    )
