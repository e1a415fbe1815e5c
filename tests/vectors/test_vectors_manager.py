"""Scripts of managers: each operation is compared, up to the first that needs what is not built."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from segstore.errors import LogNotFoundError, LogReadOnlyError, SegstoreError
from segstore.log.files.checkpoints import CLEAN_SHUTDOWN_MARKER
from segstore.log.files.partition_directory import parse_directory_name
from tests.vectors.conftest import TALLY
from tests.vectors.kafka_errors import expected_classes
from tests.vectors.manager_script import (
    GONE,
    ManagerScript,
    NotYetError,
    OtherwiseError,
    PassedOverError,
    description_of,
    without_random_names,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

    from tests.vectors.vector_files import Case, Cases

ENDS = {"shutdown", "crash"}
FUTURE = " future"


class Expected:
    """What Kafka shows after each operation: only the changes are in the vectors."""

    def __init__(self, case: Case) -> None:
        self.logs: dict[str, Case] = {}
        self.configs: dict[str, Case] = {}
        self.checkpoints: dict[str, Any] = {}
        self.moving: set[tuple[str, str]] = set()
        """Log directories and the partitions that have, or had, a future log there."""
        self.sizes = {
            name: entry["size"]
            for name, entry in case["input_files"].items()
            if not name.endswith("/")
        }

    @staticmethod
    def _take_changes(known: dict[str, Any], changes: Case) -> None:
        for name, described in changes.items():
            if described is None:
                known.pop(name, None)
            elif not name.endswith(FUTURE):
                known[name] = described

    def take(self, operation: Case) -> None:
        for name, size in operation.get("files", {}).items():
            if size is None:
                self.sizes.pop(name, None)
            elif not name.endswith("/"):
                self.sizes[name] = size
        for name, log in operation.get("logs", {}).items():
            if name.endswith(FUTURE) and log is not None:
                self.moving.add((log["dir"].partition("/")[0], name.removesuffix(FUTURE)))
        changes = ("logs", "log_configs", "checkpoints")
        for known, key in zip((self.logs, self.configs, self.checkpoints), changes, strict=True):
            self._take_changes(known, operation.get(key, {}))
        if operation["op"] in ENDS:
            self.logs.clear()
        for name in [*self.configs]:
            if name not in self.logs:
                del self.configs[name]

    def settled(self, checkpoints: dict[str, str]) -> dict[str, str]:
        """Leave out the lines of future logs [MGR-79], and their count."""
        if not self.moving:
            return checkpoints
        found = {}
        for name, text in checkpoints.items():
            log_dir = name.partition("/")[0]
            moving = {partition for there, partition in self.moving if there == log_dir}
            lines = text.splitlines()[2:]
            kept = [one for one in lines if "-".join(one.split(" ")[:2]) not in moving]
            found[name] = text if name.endswith(CLEAN_SHUTDOWN_MARKER) else "\n".join(kept)
        return found

    def compared_sizes(self, sizes: dict[str, int]) -> dict[str, int]:
        """Leave out the directories of future logs, and those in which one was deleted.

        And files that Kafka finds no more when it wants to delete them: their directory has another
        name by then [DUR-132].
        """
        suffixes = ("-delete/", "-stray/")
        names = [f"{there}/{one}{suffix}" for there, one in self.moving for suffix in suffixes]
        return {
            name: size
            for name, size in sizes.items()
            if "-future/" not in name
            and not f"{name}/".startswith(tuple(names))
            and not (name.endswith(".deleted") and any(suffix in name for suffix in suffixes))
        }

    @property
    def files(self) -> dict[str, int]:
        """The sizes of files in directories of log directories."""
        there = {name: size for name, size in self.sizes.items() if name.count("/") > 1}
        return self.compared_sizes(without_random_names(there))


def run(case: Case, root: Path, done: Counter[str]) -> None:
    """Run one script; every difference names its operation.

    Raises
    ------
    NotYetError, OtherwiseError
        From there on nothing can be compared.
    """
    script, expected = ManagerScript(case, root), Expected(case)
    try:
        for number, operation in enumerate(case["ops"]):
            if operation.get("depends_on_hash_order"):
                return
            script.note_queue(operation.get("waiting_for_deletion", []))
            expected.take(operation)
            try:
                compare(script, operation, expected)
            except PassedOverError:
                continue
            except (NotYetError, OtherwiseError):
                raise
            except Exception as error:
                what = f"operation {number} {description_of(operation)}: {error!r}"
                raise AssertionError(what) from error
            done[operation["op"]] += 1
    finally:
        script.let_go()


def compare(script: ManagerScript, operation: Case, expected: Expected) -> None:
    compare_answer(script, operation)
    if operation.get("error", {}).get("class") != "Halted":  # the end of the script
        compare_state(script, operation, expected)


def compare_answer(script: ManagerScript, operation: Case) -> None:
    error = operation.get("error", {"class": None})
    if error["class"] == "InvalidOffsetException":
        raise OtherwiseError("an index that has more than its file [DUR-53]")
    try:
        result = script.do(operation)
    except SegstoreError as raised:
        if isinstance(raised, LogNotFoundError) and operation.get("reported_offline"):
            raise OtherwiseError(GONE) from None
        if isinstance(raised, LogReadOnlyError) and operation["op"] == "update_topic_config":
            raise OtherwiseError("settings where a directory has failed [DUR-128]") from None
        if error["class"] is None:
            raise
        if error["class"] != "Halted" and not isinstance(raised, expected_classes(error)):
            raise
    else:
        assert "error" not in operation, f"Kafka refuses: {error}"
        compare_fields("result", result, operation.get("result"))


def compare_state(script: ManagerScript, operation: Case, expected: Expected) -> None:
    try:
        compare_fields("logs", script.describe_logs(), expected.logs, all_of_them=True)
        checkpoints = expected.settled(script.describe_checkpoints())
        compare_fields("", checkpoints, expected.settled(expected.checkpoints), all_of_them=True)
    except AssertionError:
        script.require_same_checkpoints(operation)
        raise
    for name, config in expected.configs.items():
        values = script.logs[parse_directory_name(name)].config.to_values()
        found = {key: as_ours(values[key]) for key in config.keys() & values.keys()}
        try:
            compare_fields(name, found, {key: as_ours(value) for key, value in config.items()})
        except AssertionError:
            script.require_same_settings(parse_directory_name(name), config["overridden"])
            raise
    found_files = expected.compared_sizes(script.describe_files())
    files = script.comparable(expected.files)
    different = {
        name: (found_files.get(name), files.get(name))
        for name in found_files.keys() | files.keys()
        if found_files.get(name) != files.get(name)
        and name.partition("/")[0] in script.live_dirs()  # the others are left alone [MGR-72]
    }
    if different:
        script.require_same_files()
    assert not different, f"sizes (found, expected): {different}"


def as_ours(value: Any) -> Any:
    return tuple(sorted(value)) if isinstance(value, list | tuple) else value


def compare_fields(what: str, found: Any, expected: Any, *, all_of_them: bool = False) -> None:
    """Compare what our answer has with Kafka's."""
    if not isinstance(found, dict) or not isinstance(expected, dict):
        assert found is None or found == expected, f"{what} {found}, expected {expected}"
        return
    if all_of_them:
        assert found.keys() == expected.keys(), f"{what}: {[*found]}, expected {[*expected]}"
    for key, value in found.items():
        if isinstance(value, dict):
            compare_fields(f"{what} {key}", value, expected[key])
        else:
            there = f"{what} {key}"
            assert value == expected[key], f"{there}: {value}, expected {expected[key]}"


def test_manager(vectors: Callable[[str], Cases], tmp_path: Path, request: pytest.FixtureRequest):
    """[MGR-20, MGR-52, MGR-60…MGR-69, MGR-75, MGR-81, MGR-85…MGR-87, MGR-96, MGR-97, RTN-1]

    What is done otherwise here ends a script, by a rule that is printed. A future log is a copy of
    bytes here [MGR-79, DUR-127]: what a script does with one is passed over.
    """
    cases = vectors("manager", "manager, without a difference up to what is not built yet")
    done: Counter[str] = Counter()
    there: Counter[str] = Counter({"whole scripts": len(cases)})

    def check(case: Case) -> None:
        there.update(operation["op"] for operation in case["ops"])
        try:
            run(case, tmp_path / case["id"], done)
            done["whole scripts"] += 1
        except NotYetError as reason:
            cases.differs(case, f"not built yet: {reason}")
        except OtherwiseError as reason:
            cases.differs(case, str(reason))

    try:
        cases.check(check)
    finally:
        for name, count in sorted(there.items()):
            row = [f"manager, {name}", done[name], count]
            request.node.user_properties.append((TALLY, row))
