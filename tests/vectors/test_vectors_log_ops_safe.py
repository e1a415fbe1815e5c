"""The scripts of log_ops with the safe profile: nothing that was acknowledged is lost or changed.

Where Kafka does something else, a rule says why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segstore.errors import (
    CorruptRecordError,
    IllegalArgumentError,
    InvalidEpochError,
    LimitExceededError,
    OffsetsOutOfOrderError,
    OutOfOrderSequenceError,
    RecordBatchTooLargeError,
    SegstoreError,
)
from segstore.log.files.profile import Profile
from tests.vectors.log_script import LogScript

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.vectors.vector_files import Case, Cases

Batch = tuple[int, int, bytes]
"""Base offset, last offset, and the bytes."""

EPOCH = "DUR-64: an append with a leader epoch below the newest is refused"
NO_BATCH = "DUR-7: bytes without one whole batch are refused, Kafka appends nothing"
OVERLAP = "DUR-50: batches of one append that overlap are refused"
GAP = "LOC-11 port: a roll above the log end is refused"
ARGUMENT = "LOC-15: a log start above the log end is refused"
LIMIT = "DUR-92: a limit of decompression"
START = "DUR-19, DUR-65: the log start on disk, not the one that the script remembers"
KEEPS = "DUR-50, DUR-36: what was appended before a crash is all there"
SIZE = "compressed anew to another size, above that of a segment"
FULL = "SEG-27 port: an index that is full is not written any more, the append stands"
LOOKED_AT = "HW-6: a look at the place of a high watermark does not move it"
REMEMBERS = "PSM-20, PSM-72: a duplicate of a deleted record; Kafka forgot it in a recovery"
NO_ROLL = "APP-12: a refused append does not roll; Kafka's does, and its snapshot knows a producer"
LOOKS = {"read", "fetch_offset_snapshot", "maybe_increment_high_watermark"}

RULES: list[tuple[type[SegstoreError], str, str]] = [
    (InvalidEpochError, "", EPOCH),
    (CorruptRecordError, "append", NO_BATCH),
    (LimitExceededError, "", LIMIT),
    (RecordBatchTooLargeError, "append_as_leader", SIZE),
    (OffsetsOutOfOrderError, "append", OVERLAP),
    (IllegalArgumentError, "roll", GAP),
    (IllegalArgumentError, "truncate_fully_and_start_at", ARGUMENT),
]
"""What the safe profile refuses, in which operations, and why."""


def batches_of(script: LogScript) -> list[Batch]:
    """Every batch from the log start on, as it is in the files."""
    log = script.opened
    found = []
    for segment in log.segments():
        for headers, scan in segment.scan_windows():
            assert scan.why is None, scan.why
            rows = headers[["base_offset", "last_offset", "position", "size_bytes"]].tolist()
            data = (script.path / segment.name).read_bytes()
            found += [
                (base, last, data[position : position + size])
                for base, last, position, size in rows
                if last >= log.log_start_offset
            ]
    return found


class SafeRun:
    """One script, and the rules by which it went otherwise than Kafka's."""

    def __init__(self, case: Case, path: Path) -> None:
        self.script = LogScript(case, path, Profile.SAFE)
        self.known: list[Batch] = []
        self.rules: set[str] = set()
        self.has_diverged = False
        self.has_other_segments = False

    def step(self, operation: Case) -> None:
        name = operation["op"]
        refused: SegstoreError | None = None
        try:
            result = self.script.do(operation)
        except SegstoreError as error:
            refused, result = error, None
        if self.script.log is None:
            assert refused is None, refused
            return
        self.check_records(name, operation, result, refused)
        if not self.has_diverged:
            self.compare(operation, result, refused)

    def check_records(
        self, name: str, operation: Case, result: Any, refused: SegstoreError | None
    ) -> None:
        """[DUR-1, DUR-2, DUR-5] What is there is what was, but for what was asked for."""
        before, found = self.known, batches_of(self.script)
        log_start = self.script.opened.log_start_offset
        self.known = found
        kept = [batch for batch in before if batch[1] >= log_start]
        if refused is not None:
            assert found == kept, f"a refused {name} changed records: {refused}"
        elif name.startswith("append"):
            added = found[len(kept) :]
            assert found[: len(kept)] == kept
            assert not added or added[-1][1] == result["last_offset"]
        elif name == "truncate_to":
            assert found == [batch for batch in kept if batch[1] < operation["offset"]]
        elif name == "truncate_fully_and_start_at":
            assert found == []
        else:
            assert found == kept, f"{name} changed records"

    def compare(self, operation: Case, result: Any, refused: SegstoreError | None) -> None:
        """Compare with Kafka up to the first rule by which the two differ."""
        rule = self.rule_of_outcome(operation, refused)
        if rule is None and refused is None and self.is_known_to_us_alone(operation, result):
            rule = REMEMBERS
        if rule is None and "state" in operation and not operation.get("inconsistent"):
            rule = self.rule_of_state(operation["op"], operation["state"])
            bases = [segment["base_offset"] for segment in operation["state"]["segments"]]
            ours = [segment.base_offset for segment in self.script.opened.segments()]
            self.has_other_segments |= bases != ours
        if rule is not None:
            self.rules.add(rule)
            self.has_diverged = True
            self.script.is_as_kafkas = False

    def is_known_to_us_alone(self, operation: Case, result: Any) -> bool:
        """Whether a batch was answered with the offsets of a deleted one, and Kafka appended it."""
        log_start = self.script.opened.log_start_offset
        return (
            operation["op"] == "append_as_leader"
            and 0 <= result["last_offset"] < log_start <= operation["result"]["first_offset"]
        )

    def rule_of_outcome(self, operation: Case, refused: SegstoreError | None) -> str | None:
        if (refused is None) == ("error" not in operation):
            return None
        for kind, prefix, rule in RULES:
            if rule == SIZE and self.script.is_exact:
                continue
            if isinstance(refused, kind) and operation["op"].startswith(prefix):
                return rule
        kafkas = operation.get("error", {}).get("class", "")
        message = operation.get("error", {}).get("message", "")
        if refused is None and (operation.get("inconsistent") or "to a full index" in message):
            return FULL
        if refused is None and not self.script.is_exact and "TooLarge" in kafkas:
            return SIZE
        if isinstance(refused, OutOfOrderSequenceError) and self.has_other_segments:
            return NO_ROLL
        raise AssertionError(f"Kafka: {operation.get('error')}, safe: {refused!r}")

    def rule_of_state(self, name: str, expected: Case) -> str | None:
        log = self.script.opened
        found = log.log_start_offset, log.log_end_offset
        if found == (expected["log_start_offset"], expected["log_end_offset"]):
            if log.high_watermark == expected["high_watermark"]:
                return None
            assert name in LOOKS, (log.high_watermark, expected)
            return LOOKED_AT
        if log.log_end_offset > expected["log_end_offset"]:
            return KEEPS
        assert log.log_end_offset == expected["log_end_offset"], (found, expected)
        return START


def run(case: Case, path: Path) -> set[str]:
    one = SafeRun(case, path)
    try:
        for number, operation in enumerate(case["ops"]):
            try:
                one.step(operation)
            except Exception as error:
                hidden = {"records", "state", "files"}
                shown = {key: value for key, value in operation.items() if key not in hidden}
                raise AssertionError(f"operation {number} {shown}: {error!r}") from error
            if operation.get("inconsistent"):
                break
    finally:
        one.script.let_go()
    return one.rules


def test_the_scripts_of_log_ops_with_the_safe_profile(
    vectors: Callable[..., Cases], tmp_path: Path
):
    """[DUR-1, DUR-2, DUR-5, DUR-64] Each difference from Kafka is one of the rules, and named."""
    cases = vectors("log_ops", "log_ops, safe")

    def compare(case: Case) -> None:
        for rule in run(case, tmp_path / case["id"] / "topic-0"):
            cases.differs(case, rule)

    cases.check(compare)
