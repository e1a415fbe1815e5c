"""The scripts of the cleaner's manager with the safe profile: each key keeps its last value.

What is chosen differs from Kafka's where a rule says so, and then so does what follows.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from segstore.errors import (
    CorruptLogError,
    CorruptRecordError,
    SegstoreError,
)
from segstore.log.files.profile import Profile
from tests.vectors.cleaner_manager_script import OF_A_LOG, CleanerManagerScript
from tests.vectors.conftest import TALLY
from tests.vectors.manager_script import description_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

    from segstore import UnifiedLog
    from tests.vectors.vector_files import Case, Cases

STALE = "DUR-126: a line of cleaner-offset-checkpoint alone does not say what is clean"
UNREADABLE = "DUR-124: a checkpoint that cannot be read takes no directory offline"
DAMAGE = "DUR-125: no batch of a damaged segment is written again"
EMPTY = "DUR-126: the last batch of each group stays, if empty: other sizes, another choice"

OLD = "CLN-7: what is old is deleted before a pass, not after it: other sizes, another choice"

DAMAGED = (CorruptLogError, CorruptRecordError)
REASONS = {"write_cleaner_checkpoint": STALE, "flip_bit": DAMAGE}
CLEANS = {"cleaner_iteration", "clean_grabbed"}
Values = dict[bytes, tuple[int, bytes]]


def live_values(log: UnifiedLog) -> Values | None:
    """Return offset and value of the last committed record of each key; None with damage.

    Those below the log start, and keys whose last record is a tombstone, are left out.
    """
    found: dict[bytes, tuple[int, bytes | None]] = {}
    try:
        for record in log.scan(isolation="read_committed"):
            if record.key is not None:
                found[record.key] = record.offset, record.value
    except DAMAGED:
        return None
    return {key: (at, value) for key, (at, value) in found.items() if value is not None}


class SafeRun:
    """One case, and the rule by which it first went otherwise than Kafka's."""

    def __init__(self, case: Case, root: Path) -> None:
        self.script = CleanerManagerScript(case, root, Profile.SAFE)
        self.root = root
        self.rule: str | None = None
        self.reasons: list[str] = []
        self.damaged: dict[Path, bytes] = {}
        self.starts: dict[str, int] = {}

    def run(self, operation: Case) -> None:
        name = operation["op"]
        if name in REASONS:
            self.reasons.append(REASONS[name])
        elif operation.get("reported_offline"):
            self.reasons.append(UNREADABLE)
        before = self.values() if name in CLEANS else {}
        self.starts = self.log_starts()
        sound = [one for one in before if self.log_of(one).verify().ok]
        self.do(operation)
        if name in CLEANS:
            self.note_deletions()
        for log_name, values in before.items():
            self.check_kept(log_name, values)
        for log_name in sound:
            report = self.log_of(log_name).verify()
            assert report.ok, report.findings
        if name == "flip_bit":
            self.note_damage(operation)
        for path, data in self.damaged.items():
            assert not path.exists() or path.read_bytes() == data, f"{path} was written again"

    def do(self, operation: Case) -> None:
        """After another choice, logs have other states than in Kafka."""
        try:
            found = self.script.do(operation)
        except KeyError:
            assert operation["op"] == "clean_grabbed"
            assert self.rule is not None
        except RuntimeError as error:
            if operation["op"] in OF_A_LOG | CLEANS:
                raise
            if "error" not in operation:
                self.note(str(error))
        except SegstoreError:
            if "error" not in operation:
                raise
        else:
            self.compare(operation, found)

    def compare(self, operation: Case, found: Any) -> None:
        """Look whether the choice, or a pass, went otherwise than Kafka's."""
        expected = operation.get("result")
        if operation["op"] == "grab_filthiest_compacted_log":
            expected = (expected or {}).get("log_to_clean")
            found = found["log_to_clean"]
        elif operation["op"] == "cleaner_iteration":
            expected, found = (expected or {}).get("cleaned"), found["cleaned"]
        else:
            return
        if expected != found:
            self.note_deletions()
            self.note(f"{found}, not {expected}")

    def note(self, what: str) -> None:
        """Keep the reason of the first difference; without one it is a mistake."""
        if self.rule is None:
            self.rule = self.reasons[-1] if self.reasons else EMPTY
            assert self.reasons or self.has_empty_batches(), what

    def has_empty_batches(self) -> bool:
        return any(
            (row["records_count"] == 0)
            for script in self.script.scripts.values()
            for segment in script.opened.segments()
            for headers, _ in segment.scan_windows(check_crc=False)
            for row in headers
        )

    def note_deletions(self) -> None:
        """From here on, passes may differ: Kafka's have copied what ours has deleted before."""
        if self.log_starts() != self.starts:
            self.reasons.insert(0, OLD)

    def log_starts(self) -> dict[str, int]:
        return {name: one.opened.log_start_offset for name, one in self.script.scripts.items()}

    def values(self) -> dict[str, Values | None]:
        scripts = self.script.scripts.items()
        return {name: live_values(script.opened) for name, script in scripts}

    def check_kept(self, name: str, before: Values | None) -> None:
        log = self.log_of(name)
        after = live_values(log)
        if before is None or after is None:
            assert self.damaged
            return
        kept = {key: one for key, one in before.items() if one[0] >= log.log_start_offset}
        assert after == kept, f"{name}: {after}, not {kept}"

    def log_of(self, name: str) -> UnifiedLog:
        return self.script.scripts[name].opened

    def note_damage(self, operation: Case) -> None:
        path = self.root / operation["path"]
        if live_values(self.log_of(path.parent.name)) is None:  # it shows
            self.damaged[path] = path.read_bytes()


def test_cleaner_manager_in_the_safe_profile(
    vectors: Callable[..., Cases], tmp_path: Path, request: pytest.FixtureRequest
):
    """[CLN-30..CLN-41, DUR-120, DUR-125, DUR-126, DUR-131] Kafka: LogCleanerManager."""
    cases = vectors("cleaner_manager", "cleaner_manager, nothing lost in the safe profile")
    weaknesses = Counter({True: 0, False: 0})

    def check(case: Case) -> None:
        run = SafeRun(case, tmp_path / case["id"])
        weaknesses[False] += case.get("weakness_of_kafka", False)
        try:
            for number, operation in enumerate(case["ops"]):
                try:
                    run.run(operation)
                except Exception as error:
                    what = f"operation {number} {description_of(operation)}: {error!r}"
                    raise AssertionError(what) from error
        finally:
            run.script.let_go()
        if run.rule is not None:
            cases.differs(case, run.rule)
        weaknesses[True] += case.get("weakness_of_kafka", False)

    try:
        cases.check(check)
    finally:
        row = ["cleaner_manager, weaknesses of Kafka without the loss", *weaknesses.values()]
        request.node.user_properties.append((TALLY, row))
