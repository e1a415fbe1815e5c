"""What Kafka's `LogCleanerManager` and a thread of its `LogCleaner` did with pools of logs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from segstore.errors import LogReadOnlyError, SegstoreError
from segstore.log.files.checkpoints import CLEANER_OFFSET_CHECKPOINT
from segstore.log.files.profile import Profile
from tests.kits.directory_files import check_files, expected_files
from tests.vectors.cleaner_manager_script import CleanerManagerScript
from tests.vectors.kafka_errors import expected_classes
from tests.vectors.manager_script import description_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.vectors.vector_files import Case, Cases


def compare_answer(script: CleanerManagerScript, operation: Case) -> None:
    error = operation.get("error")
    try:
        result = script.do(operation)
    except SegstoreError as raised:
        if error is None or not isinstance(raised, (*expected_classes(error), LogReadOnlyError)):
            raise
        return
    assert error is None, f"Kafka refuses: {error}"
    if operation["op"] in {"append_as_leader", "cleaner_iteration"}:  # it shows less than ours
        result = {key: result[key] for key in operation["result"]}
    if isinstance(result, dict) and "stats" in result and result["stats"] is not None:
        utilization = result["stats"].pop("buffer_utilization")
        expected = operation["result"]["stats"].pop("buffer_utilization")
        assert utilization == pytest.approx(expected)
    assert result is None or result == operation["result"], f"{result}, not {operation['result']}"


class Expected:
    """What Kafka shows after each operation: only the changes are in the vectors."""

    def __init__(self) -> None:
        self.logs: dict[str, Any] = {}
        self.checkpoints: dict[str, str] = {}
        self.states: dict[str, str] = {}
        self.uncleanable: dict[str, list[str]] = {}

    def take(self, operation: Case) -> None:
        self.logs.update(operation.get("logs", {}))
        self.checkpoints.update(operation.get("cleaner_checkpoints", {}))
        self.states = operation.get("cleaning_states", self.states)
        self.uncleanable = operation.get("uncleanable", self.uncleanable)


def compare(script: CleanerManagerScript, operation: Case, expected: Expected) -> None:
    if "candidates" in operation:
        found = script.candidates()
        assert found == operation["candidates"], f"{found}, not {operation['candidates']}"
    compare_answer(script, operation)
    expected.take(operation)
    for found, known in (
        (script.describe_logs(), expected.logs),
        (script.describe_checkpoints(), expected.checkpoints),
        (script.describe_states(), expected.states),
        (script.describe_uncleanable(), expected.uncleanable),
    ):
        assert found == known, f"{found}, not {known}"
    if reported := operation.get("reported_offline"):
        script.candidates()  # Kafka's harness has looked, and so it was reported
        assert {*reported} <= {*script.offline_dirs()}


def comparable(files: dict[str, bytes]) -> dict[str, bytes]:
    """Sort the lines of the cleaner's checkpoints, whose order is free.

    What a failed pass of Kafka leaves behind is left out: here it is removed at once.
    """
    return {
        name: b"\n".join(sorted(data.splitlines()))
        if name.endswith(CLEANER_OFFSET_CHECKPOINT)
        else data
        for name, data in files.items()
        if not name.endswith(".cleaned")
    }


def check(case: Case, root: Path) -> bool:
    """Return False where a script is compared in part: a log directory has failed by then."""
    script, expected = CleanerManagerScript(case, root, Profile.KAFKA), Expected()
    try:
        for number, operation in enumerate(case["ops"]):
            try:
                compare(script, operation, expected)
            except Exception as error:
                if script.offline_dirs():
                    return False
                what = f"operation {number} {description_of(operation)}: {error!r}"
                raise AssertionError(what) from error
        assert script.errors == []
        found = {
            str(path.relative_to(root)): path.read_bytes()
            for path in root.rglob("*")
            if path.is_file() and path.name != ".lock"
        }
        expected_at_end = expected_files(case["final_files"], {})
        check_files(comparable(found), comparable(expected_at_end))
    finally:
        script.let_go()
    return True


def test_cleaner_manager(vectors: Callable[[str], Cases], tmp_path: Path):
    """[CLN-3..CLN-7, CLN-15..CLN-41, CLN-120] Kafka: LogCleanerManager, LogCleaner.

    A log directory that has failed takes no changes at all here; in Kafka some get through.
    """
    cases = vectors("cleaner_manager")

    def compare_case(case: Case) -> None:
        if not check(case, tmp_path / case["id"]):
            cases.differs(case, "a log directory that has failed takes no change at all [DUR-38]")

    cases.check(compare_case)
