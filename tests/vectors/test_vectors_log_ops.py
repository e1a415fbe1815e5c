"""Random operations on whole logs: what each answers, and what there is after it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segstore.errors import RecordBatchTooLargeError, SegstoreError
from segstore.log.files.profile import Profile
from tests.kits.directory_files import check_files, content, files_of
from tests.vectors.kafka_errors import expected_classes
from tests.vectors.log_script import LogScript

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.vectors.vector_files import Case, Cases


class RollsElsewhereError(Exception):
    """What a codec of another release compresses to another size fills segments otherwise."""


def check(case: Case, path: Path) -> None:
    """Run one script; every difference names its operation.

    Raises
    ------
    RollsElsewhereError
        From there on nothing can be compared.
    """
    script = LogScript(case, path, Profile.KAFKA)
    sizes: dict[str, int] = {}
    try:
        for number, operation in enumerate(case["ops"]):
            try:
                check_operation(script, operation)
                if operation.get("inconsistent"):
                    return
                sizes = operation.get("files", sizes)
                if operation["op"] != "crash":
                    found = {name: len(data) for name, data in files_of(path).items()}
                    different = {
                        name: (found.get(name), sizes.get(name))
                        for name in found.keys() | sizes.keys()
                        if found.get(name) != sizes.get(name)
                        and (script.is_exact or name not in found or name not in sizes)
                    }
                    assert not different, f"sizes (found, expected): {different}"
            except RollsElsewhereError:
                raise
            except Exception as error:
                hidden = {"records", "state", "files"}
                shown = {key: value for key, value in operation.items() if key not in hidden}
                what = f"operation {number} {shown}: {type(error).__name__} {error}"
                raise AssertionError(what) from error
        if case["exact_bytes"]:
            expected = {name: content(entry) for name, entry in case["final_files"].items()}
            check_files(files_of(path), expected)
    finally:
        script.let_go()


def check_operation(script: LogScript, operation: Case) -> None:
    error = operation.get("error")
    try:
        result = script.do(operation)
    except SegstoreError as raised:
        if error is None and not script.is_exact and isinstance(raised, RecordBatchTooLargeError):
            raise RollsElsewhereError from raised
        if error is None or not isinstance(raised, expected_classes(error)):
            raise
    else:
        if error is not None and not script.is_exact and "TooLarge" in error["class"]:
            raise RollsElsewhereError
        assert error is None, f"Kafka refuses: {error}"
        by_size = operation["op"] == "delete_old_segments" and result != operation["result"]
        check_result(result, operation.get("result"), by_size=by_size, exact=script.is_exact)
    if "state" in operation and not operation.get("inconsistent"):
        state, expected = script.state(), operation["state"]
        expected = dict(expected)
        expected["producers"] = sorted(expected["producers"], key=lambda one: one["producer_id"])
        if not script.is_exact:
            bases = [[one["base_offset"] for one in s["segments"]] for s in (state, expected)]
            if state["size"] != expected["size"] and bases[0] != bases[1]:
                raise RollsElsewhereError
            for one in (state, expected):
                one["segments"] = [segment | {"size": None} for segment in one["segments"]]
                del one["size"]
        different = {
            key: (state[key], expected[key]) for key in expected if state[key] != expected[key]
        }
        assert not different, f"(found, expected): {different}"


SIZES = {"size", "sha256", "position", "complete_batches", "first_entry_incomplete"}


def check_result(found: Any, expected: Any, *, by_size: bool, exact: bool) -> None:
    """Compare what our answer has with Kafka's; what was compressed anew has other sizes."""
    if by_size and not exact:
        raise RollsElsewhereError
    if isinstance(found, dict) and isinstance(expected, dict):
        expected = {key: expected[key] for key in found}
        if not exact:
            found, expected = without_sizes(found), without_sizes(expected)
    assert found == expected, f"result {found}, expected {expected}"


def without_sizes(result: Case) -> Case:
    """Leave out of an answer what depends on how well a codec compresses."""
    return {
        key: without_sizes(value) if isinstance(value, dict) else value
        for key, value in result.items()
        if key not in SIZES
    }


def test_log_ops(vectors: Callable[[str], Cases], tmp_path: Path):
    """[APP-*, HW-*, LSO-*, LST-*, RD-*, TS-*, ROL-*, FLU-*, TRU-*, RET-*, CLO-1]."""
    cases = vectors("log_ops")

    def compare(case: Case) -> None:
        try:
            check(case, tmp_path / case["id"] / "topic-0")
        except RollsElsewhereError:
            cases.differs(case, "compressed anew to another size: equal up to another roll")

    cases.check(compare)
