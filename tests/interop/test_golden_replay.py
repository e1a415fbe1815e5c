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
from segstore.log.log_environment import LogEnvironment
from segstore.log.log_opener import open_partition
from segstore.log.open_options import open_options
from tests.interop.golden_case import GoldenPartition
from tests.kits.directory_files import check_files, files_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from segstore import UnifiedLog
    from tests.interop.conftest import GoldenSummary

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
            log = open_partition(folder / f"{topic}-0", options, LogEnvironment(environment=clock))
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
        if answer["log_append_time"] >= 0:
            self.clocks[answer["topic"]].wall_clock_ms = answer["log_append_time"]
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


@pytest.fixture(params=["kafka", "safe"])
def profile(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def broker(script_case: Path, tmp_path: Path, profile: str) -> Iterator[Broker]:
    made = Broker(script_case, tmp_path, profile)
    yield made
    made.close()


def is_refused_above_the_log(answer: dict[str, Any]) -> bool:
    """Whether it is about rights, or a message set of an old format."""
    magic = base64.b64decode(answer["request_base64"])[16]
    return answer["error"] != "NONE" and (
        magic < 2 or answer["error"].endswith("AUTHORIZATION_FAILED")
    )


def refused_by_safe(case: Path, answers: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """First request of a topic that the broker took with a record that no consumer sees."""
    refused = {}
    for topic in {answer["topic"] for answer in answers}:
        hidden = GoldenPartition(case, f"{topic}-0").hidden_offsets
        if hidden:
            taken = [one for one in answers if one["topic"] == topic and one["error"] == "NONE"]
            refused[topic] = max(
                (one for one in taken if one["base_offset"] <= hidden[0]),
                key=lambda one: one["base_offset"],
            )
    return refused


def without_what_follows(
    script: list[dict[str, Any]], refused: dict[str, dict[str, Any]]
) -> list[dict[str, Any]]:
    """Leave out what safe refuses, and what was taken behind it: its offsets count the records."""
    left, seen = [], set()
    for answer in script:
        topic = answer["topic"]
        if answer is refused.get(topic):
            seen.add(topic)
        if topic not in seen or answer["error"] != "NONE":
            left.append(answer)
    return left


def test_the_script_gives_the_brokers_answers_and_files(
    broker: Broker, script_case: Path, tmp_path: Path, profile: str, golden_summary: GoldenSummary
):
    """[APP-1..APP-14, APP-30..APP-34] The requests in order, good and bad, and what they left."""
    name = script_case.name
    script = [one for one in broker.answers if not is_refused_above_the_log(one)]
    above = sorted(one["what"] for one in broker.answers if is_refused_above_the_log(one))
    golden_summary.name(f"{name}: refused above the log: {', '.join(above)}")
    refused = refused_by_safe(script_case, script) if profile == "safe" else {}
    script = without_what_follows(script, refused)
    for answer in script:
        broker.produce(answer)
    for answer in refused.values():
        golden_summary.name(f"{name}, safe: refused before it is written: {answer['what']}")
        with pytest.raises(errors.InvalidRecordError, match=r"its offset is \d"):
            broker.produce(answer)
    broker.close()
    golden_summary.add(f"requests, {profile}", len(script), len(script))
    for topic in broker.logs:
        check_directory(
            tmp_path / f"{topic}-0",
            GoldenPartition(script_case, f"{topic}-0"),
            profile,
            ends_early=topic in refused,
        )
        golden_summary.add(f"directories of requests, {profile}", 1, 1)


def check_directory(
    ours: Path, brokers: GoldenPartition, profile: str, *, ends_early: bool
) -> None:
    """Byte for byte; what zstd made, by its records, since encoders differ."""
    found, expected = files_of(ours), files_of(brokers.directory)
    if profile == "safe":
        found = {name: data for name, data in found.items() if name not in OURS}
    if brokers.topic_configs.get("compression.type") == "zstd":
        with (
            segstore.open(ours, read_only=True) as one,
            segstore.open(brokers.directory, read_only=True) as two,
        ):
            assert one.scan().tuples() == two.scan().tuples()
            assert [described(batch) for batch in one.scan().batches()] == [
                described(batch) for batch in two.scan().batches()
            ]
        newest = max(name for name in expected if name.endswith(".snapshot"))
        names = ("leader-epoch-checkpoint", "partition.metadata", newest)
        check_files({name: found[name] for name in names}, {name: expected[name] for name in names})
        return
    if ends_early:  # where it refused a request
        base = max(offset_of(name) for name in found if name.endswith(".log"))
        for kind in ("log", "index"):
            name = f"{base:020}.{kind}"
            assert expected[name].startswith(found[name])
        found = {name: data for name, data in found.items() if not is_active(name, base)}
        expected = {name: data for name, data in expected.items() if not is_active(name, base)}
    check_files(found, expected)


def offset_of(name: str) -> int:
    """Base offset of a segment, end of a snapshot; -1 of other files."""
    stem = name.partition(".")[0]
    return int(stem) if stem.isdigit() else -1


def is_active(name: str, base: int) -> bool:
    """Whether the file is of the active segment at *base*, or of what is behind its begin."""
    is_snapshot = name.endswith(".snapshot")
    return offset_of(name) > base or (offset_of(name) == base and not is_snapshot)


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
