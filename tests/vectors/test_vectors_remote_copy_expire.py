"""Random operations on a tiered log: what is copied, what expires, and what is left of both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from segstore.errors import (
    CorruptLogError,
    OffsetOutOfRangeError,
    RemoteStorageError,
    SegstoreError,
)
from segstore.log.files.profile import Profile
from segstore.log.remote_tier import RemoteTier
from segstore.remote.log_manager.expiration_task import ExpirationTask
from tests.vectors.kafka_errors import expected_classes
from tests.vectors.remote_script import RemoteScript

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from segstore.log.local.segment import Segment
    from tests.vectors.vector_files import Case, Cases

READ_ERRORS: dict[str, tuple[type[Exception], ...]] = {
    "OffsetOutOfRangeException": (OffsetOutOfRangeError,),
    "RemoteStorageException": (RemoteStorageError,),
    "RemoteResourceNotFoundException": (RemoteStorageError,),
    "KafkaException": (RemoteStorageError,),
}
HIDDEN = {"records", "state", "events", "metrics", "log", "result"}


def only_local_of_4_3_1(tier: RemoteTier, segments: Iterable[Segment]) -> list[Segment]:
    """[TIER-4] The segment that begins with the last uploaded record counts, too."""
    return [one for one in segments if one.base_offset >= tier.highest_offset]


@pytest.fixture
def kafka_4_3_1(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the vectors have where 4.4.0 does something else."""
    monkeypatch.setattr(RemoteTier, "only_local", only_local_of_4_3_1)
    monkeypatch.setattr(ExpirationTask, "_seed_highest_offset", lambda *_: None)


class FutureFailedError(Exception):
    """Kafka publishes all states of a partition at once, and waits; here each call waits."""


def check_ends_at_once(script: RemoteScript, operation: Case) -> None:
    """The first publication that fails ends the deletion of a partition [TIER-90]."""
    result = script.do(operation)
    assert result["errors"] == 1
    assert script.events[-1]["fault"] == "future"


def check(case: Case, path: Path) -> set[str]:
    """Run one script, and return the rules by which reads differ; a difference names its operation.

    Raises
    ------
    FutureFailedError
        From there on nothing can be compared.
    """
    script = RemoteScript(case, path / "topic-0", Profile.KAFKA)
    try:
        for number, operation in enumerate(case["ops"]):
            kinds = {one["kind"] for one in operation.get("faults", ())}
            if operation["op"] == "stop_partition" and "future" in kinds:
                check_ends_at_once(script, operation)
                raise FutureFailedError
            try:
                check_operation(script, operation)
            except Exception as error:
                shown = {key: value for key, value in operation.items() if key not in HIDDEN}
                what = f"operation {number} {shown}: {type(error).__name__} {error}"
                raise AssertionError(what) from error
        return script.rules
    finally:
        script.let_go()


def check_operation(script: RemoteScript, operation: Case) -> None:
    error = operation.get("error")
    if operation["op"] in {"read_remote", "fetch_offset_by_timestamp"}:
        check_read(script, operation)
        return
    try:
        result = script.do(operation)
    except SegstoreError as raised:
        if error is None or not isinstance(raised, expected_classes(error)):
            raise
    else:
        assert error is None, f"Kafka refuses: {error}"
        check_result(operation, result)
    check_events(script.events, operation.get("events", []))
    if "state" in operation and script.log is not None:
        check_equal("state", script.state(), operation["state"])
    if "metrics" in operation:
        check_equal("metrics", script.metrics(), operation["metrics"])


def check_read(script: RemoteScript, operation: Case) -> None:
    """Compare a read; where the reader keeps a rule that Kafka has not, it is named."""
    error, expected = operation.get("error"), operation.get("result")
    try:
        result = script.do(operation)
    except CorruptLogError:
        assert script.foreign_count, "no batch is of another broker"
        script.rules.add("a segment of another broker that is cut, or of another history [DUR-141]")
        return
    except SegstoreError as raised:
        if error is None or not isinstance(raised, READ_ERRORS[error["class"]]):
            raise
        return
    assert error is None, f"Kafka refuses: {error}"
    if result == expected:
        return
    if operation["op"] == "fetch_offset_by_timestamp":
        assert result is not None
        assert expected is None or result["offset"] < expected["offset"], f"{result}, {expected}"
        assert result["timestamp"] >= operation["timestamp"] >= 0
        script.rules.add("a look-up by time goes on to the next remote segment [TIER-71]")
        return
    raise AssertionError(f"result {result}, expected {expected}")


def check_result(operation: Case, result: Any) -> None:
    expected = operation.get("result")
    if operation["op"] == "stop_partition":
        expected = expected | {"errors": len(expected["errors"])}
    if isinstance(result, dict) and isinstance(expected, dict):
        check_equal("result", result, expected)
    else:
        assert result == expected, f"result {result}, expected {expected}"


def check_equal(what: str, found: Case, expected: Case) -> None:
    different = {
        key: (found[key], expected[key]) for key in found if found[key] != expected.get(key)
    }
    assert not different, f"{what} (found, expected): {different}"


def check_events(found: list[Case], expected: list[Case]) -> None:
    """Compare what was asked of storage and metadata; reads tell what caches did."""
    expected = [one for one in expected if not one["call"].startswith("fetch")]
    calls = [f"{one['call']} {one.get('segment')} {one.get('state')}" for one in found]
    wanted = [f"{one['call']} {one.get('segment')} {one.get('state')}" for one in expected]
    assert calls == wanted, f"events {calls}, expected {wanted}"
    for one, other in zip(found, expected, strict=True):
        different = {key: (one[key], other.get(key)) for key in one if one[key] != other.get(key)}
        if other.get("max_timestamp", 0) is None:  # an empty segment: the time of its file
            different.pop("max_timestamp", None)
        assert not different, f"{one['call']} {one.get('segment')}: (found, expected) {different}"


@pytest.mark.usefixtures("kafka_4_3_1")
def test_remote_copy_expire(vectors: Callable[[str], Cases], tmp_path: Path):
    """[TIER-1..TIER-5, TIER-31..TIER-60, TIER-90]"""
    cases = vectors("remote_copy_expire")

    def compare(case: Case) -> None:
        try:
            for rule in check(case, tmp_path / case["id"]):
                cases.differs(case, rule)
        except FutureFailedError:
            cases.differs(case, "a publication that fails ends the deletion of a partition")

    cases.check(compare)
