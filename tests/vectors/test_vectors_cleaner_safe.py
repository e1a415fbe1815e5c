"""The scripts of the cleaner with the safe profile: each key keeps its last committed value.

Where Kafka leaves something else, a rule says why.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from segstore.log.files.profile import Profile
from tests.vectors.cleaner_script import CleanerScript
from tests.vectors.test_vectors_log_ops import check_operation

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.vectors.vector_files import Case, Cases

EMPTY = "DUR-126: the last batch of each group stays, if empty; not that of the round [4.4.0]"
MARKER = "DUR-126: with the empty last batch of a group the marker of its transaction stays"

Batch = dict[str, Any]


def records_of(batches: list[Batch]) -> list[Batch]:
    """Return the records of data batches."""
    return [record for batch in batches if not batch["control"] for record in batch["records"]]


def markers_of(batches: list[Batch]) -> list[tuple[int, str]]:
    return [
        (record["offset"], record["control"]["type"])
        for batch in batches
        if batch["control"]
        for record in batch["records"]
    ]


def live_values(script: CleanerScript) -> dict[str, Any]:
    """Return the last committed value of each key, None for one whose last is a tombstone."""
    found = {}
    log = script.opened
    for record in log.scan(isolation="read_committed"):
        if record.key is not None:
            found[base64.b64encode(record.key).decode()] = record.value
    return found


def without_tombstones(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


class SafeRun:
    """One case, and the rules by which it went otherwise than Kafka's."""

    def __init__(self, case: Case, path: Path) -> None:
        self.script = CleanerScript(case, path, Profile.SAFE)
        self.script.is_exact = False
        self.rules: set[str] = set()

    def check_round(self, entry: Case) -> None:
        script = self.script
        for operation in entry["ops"]:
            check_operation(script, operation)
        script.set_file_times(entry["segment_mtime_ms"])
        before = live_values(script)
        stats = script.clean(entry)
        script.time.run_due()
        after = live_values(script)
        assert without_tombstones(after) == without_tombstones(before)
        assert stats.end_offset == entry["result"]["end_offset"]
        self.check_batches(entry)
        report = script.opened.verify()
        assert report.ok, report.findings
        script.do_advance_time({"ms": entry["then_advance_time_ms"]})

    def check_batches(self, entry: Case) -> None:
        found = [batch for one in self.script.segments() for batch in one["batches"]]
        expected = [batch for one in entry["segments_after"] for batch in one["batches"]]
        assert records_of(found) == records_of(expected)
        if markers_of(found) != markers_of(expected):
            assert set(markers_of(found)) > set(markers_of(expected))
            self.rules.add(MARKER)
        if [one["base_offset"] for one in found] != [one["base_offset"] for one in expected]:
            self.rules.add(EMPTY)


def test_cleaner_in_the_safe_profile(vectors: Callable[..., Cases], tmp_path: Path):
    """[CLN-45..CLN-122, DUR-125, DUR-126] Kafka: Cleaner.clean."""
    cases = vectors("cleaner", "cleaner, safe")

    def compare(case: Case) -> None:
        run = SafeRun(case, tmp_path / case["id"] / "topic-0")
        try:
            for number, entry in enumerate(case["rounds"]):
                try:
                    run.check_round(entry)
                except Exception as error:
                    what = f"round {number}: {type(error).__name__} {error}"
                    raise AssertionError(what) from error
        finally:
            run.script.let_go()
        for rule in run.rules:
            cases.differs(case, rule)

    cases.check(compare)
