"""Random operations on metadata logs: what each answers, and what there is after it."""

from __future__ import annotations

import base64
import re
from collections import Counter
from typing import TYPE_CHECKING

from segstore.errors import SegstoreError
from segstore.log.files.profile import Profile
from tests.kits.directory_files import check_files, content, files_of
from tests.vectors.kafka_errors import expected_classes
from tests.vectors.raft_script import RaftScript

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from tests.vectors.vector_files import Case, Cases

PREALLOCATED_BYTES = 10485756
RANDOM = re.compile(r"(?<=-)[0-9]+(?=\.checkpoint\.part$)")


class FileIsGoneError(Exception):
    """Kafka goes on with a file that it has open, and we know what the directory has [RAFT-28]."""


def sizes_of(path: Path) -> Counter[tuple[str, int]]:
    """Names and sizes of all files; the random part of a name is left out."""
    files = ((RANDOM.sub("<random>", one.name), one.stat().st_size) for one in path.iterdir())
    return Counter(files)


def expected_sizes(files: Mapping[str, int]) -> Counter[tuple[str, int]]:
    """As `sizes_of`, of what the vectors have: they number names that would be the same."""
    return Counter((name.partition("#")[0], size) for name, size in files.items())


def check(case: Case, path: Path) -> None:
    """Run one script; every difference names its operation.

    Raises
    ------
    FileIsGoneError
        From there on nothing can be compared.
    """
    script = RaftScript(case, path, Profile.KAFKA)
    sizes: dict[str, int] = {}
    try:
        for number, operation in enumerate(case["ops"]):
            if operation.get("inconsistent"):
                return
            try:
                check_operation(script, operation)
                sizes = operation.get("files", sizes)
                if operation["op"] == "file":
                    sizes = {
                        name: size for name, size in sizes.items() if name != operation["name"]
                    }
                    if operation["what"] == "write":
                        sizes[operation["name"]] = len(base64.b64decode(operation["data"]))
                if operation["op"] != "crash":
                    found, wanted = sizes_of(path), expected_sizes(sizes)
                    assert found == wanted, f"found {found - wanted}, expected {wanted - found}"
            except Exception as error:
                if script.lost_snapshots:
                    raise FileIsGoneError from error
                hidden = {"records", "state", "files", "content", "data"}
                shown = {key: value for key, value in operation.items() if key not in hidden}
                what = f"operation {number} {shown}: {type(error).__name__} {error}"
                raise AssertionError(what) from error
        check_final_files(path, case["final_files"])
    finally:
        script.let_go()


def check_final_files(path: Path, described: Mapping[str, Case]) -> None:
    """Compare all bytes, but of unfinished snapshots, whose names are random."""
    found = {name: data for name, data in files_of(path).items() if not name.endswith(".part")}
    expected = {name: content(entry) for name, entry in described.items() if "<random>" not in name}
    found = {  # of an index that is preallocated the vectors have the size alone
        name: data
        for name, data in found.items()
        if name in expected or len(data) < PREALLOCATED_BYTES
    }
    assert sorted(found) == sorted(expected), found.keys() ^ expected.keys()
    check_files(found, expected)


def check_operation(script: RaftScript, operation: Case) -> None:
    error = operation.get("error")
    try:
        result = script.do(operation)
    except SegstoreError as raised:
        if error is None or not isinstance(raised, expected_classes(error)):
            raise
    else:
        assert error is None, f"Kafka refuses: {error}"
        expected = operation.get("result")
        assert result == expected, f"result {result}, expected {expected}"
    if "state" in operation:
        state, expected = script.state(), operation["state"]
        different = {
            key: (state[key], expected[key])
            for key in expected
            if state[key] != expected[key] and not isinstance(expected[key], dict | None)
        }
        assert not different, f"(found, expected): {different}"


def test_raft_log(vectors: Callable[[str], Cases], tmp_path: Path):
    """[RAFT-1..RAFT-41]"""
    cases = vectors("raft_log")

    def compare(case: Case) -> None:
        try:
            check(case, tmp_path / case["id"] / "__cluster_metadata-0")
        except FileIsGoneError:
            cases.differs(case, "a snapshot whose file is gone is forgotten at once")

    cases.check(compare)
