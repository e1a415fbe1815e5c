"""The scripts of raft_log with the safe profile: better outcomes where Kafka loses metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from segstore.errors import CorruptLogError, SegstoreError, UnexpectedAppendOffsetError
from segstore.log.files.profile import Profile
from segstore.raft.records_snapshot import RecordsSnapshotReader
from segstore.types import Isolation
from tests.vectors.raft_script import RaftScript

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.vectors.vector_files import Case, Cases


class Step(NamedTuple):
    """What an operation came to."""

    op: str
    result: Any
    expected: Any
    state: Case | None
    incomplete: tuple[str, ...]


def play(case: Case, path: Path) -> Iterator[Step]:
    """Run a script as far as the log can be opened; errors are results."""
    script = RaftScript(case, path / "__cluster_metadata-0", Profile.SAFE)
    try:
        for operation in case["ops"]:
            try:
                result = script.do(operation)
            except SegstoreError as error:
                result = error
            log = script.log
            state = None if log is None else script.state()
            incomplete = () if log is None else log.incomplete_snapshots
            expected = operation.get("result", operation.get("error"))
            if log is not None:
                check_promises(script)
            yield Step(operation["op"], result, expected, state, incomplete)
            if operation["op"] == "open" and log is None:
                return
    finally:
        script.let_go()


def check_promises(script: RaftScript) -> None:
    """[DUR-145] What is below the log start is in a whole snapshot; the rest can be read."""
    log = script.opened
    start, end = log.start_offset, log.end_offset.message_offset
    latest = log.latest_snapshot()
    if start > 0 and not script.lost_snapshots:
        assert latest is not None
        assert latest.snapshot_id.offset >= start
        assert sum(1 for _ in RecordsSnapshotReader(latest)) >= 2
    offset = start
    while offset < end:
        headers = log.read(offset, Isolation.LOG_END).headers
        assert headers["base_offset"][0] == offset or offset == start
        offset = int(headers["last_offset"][-1]) + 1
    assert offset == end


@pytest.fixture
def better(vectors: Callable[[str, str], Cases], tmp_path: Path) -> Callable[[str], list[Step]]:
    """Play the case whose ``about`` begins with these words."""

    def steps(about: str) -> list[Step]:
        (case,) = (one for one in vectors("raft_log", "raft_log better") if about in one["about"])
        assert case["better"]
        return list(play(case, tmp_path))

    return steps


def test_a_snapshot_without_content_does_not_replace_the_log(better: Callable[[str], list[Step]]):
    """[RAFT-23, RAFT-30, DUR-145] Kafka goes by its name, and empties the log."""
    last_open = [one for one in better("an empty snapshot file") if one.op == "open"][-1]

    assert last_open.state is not None
    assert last_open.state["start_offset"] == 0
    assert last_open.state["end_offset"]["offset"] == 14
    assert last_open.state["snapshots"] == []
    assert last_open.incomplete == ("00000000000000000005-0000000009.checkpoint",)


def test_a_snapshot_that_is_cut_is_refused_where_it_is_all_there_is(
    better: Callable[[str], list[Step]],
):
    """[RAFT-31, RAFT-48, DUR-145] Kafka opens, and reads a short snapshot."""
    last = better("the only snapshot is cut")[-1]

    assert last.op == "open"
    assert isinstance(last.result, CorruptLogError)
    assert last.result.missing == (0, 10)
    assert "00000000000000000010-0000000001.checkpoint" in str(last.result)


def test_a_snapshot_whose_file_is_missing_does_not_stop_cleaning(
    better: Callable[[str], list[Step]],
):
    """[RAFT-28, RAFT-38] Kafka ends with a ConcurrentModificationException."""
    last = better("the file of a known snapshot is missing")[-1]

    assert last.op == "maybe_clean"
    assert last.result is True
    assert last.state is not None
    assert last.state["snapshots"] == [[12, 1]]
    assert last.state["start_offset"] == 12


def test_a_metadata_log_has_no_holes(better: Callable[[str], list[Step]]):
    """[RAFT-4, RAFT-5] Kafka refuses smaller offsets alone."""
    steps = better("leaves a hole")
    refused = [one for one in steps if isinstance(one.result, UnexpectedAppendOffsetError)]

    assert [one.expected for one in refused] == [{"first_offset": 19, "last_offset": 20}]
    assert refused[0].state is not None
    assert refused[0].state["end_offset"]["offset"] == 14


def test_the_log_begins_where_it_began_before(better: Callable[[str], list[Step]]):
    """[RAFT-36] Kafka begins at the first segment again."""
    steps = better("the start offset lies inside a segment")
    starts = [one.state["start_offset"] for one in steps if one.op == "open" and one.state]

    assert starts == [0, 8]


def test_no_script_breaks_a_promise(vectors: Callable[[str, str], Cases], tmp_path: Path):
    """[DUR-145] Whatever the order of operations, crashes and changed files."""
    cases = vectors("raft_log", "raft_log safe")

    def compare(case: Case) -> None:
        for _ in play(case, tmp_path / case["id"]):
            pass

    cases.check(compare)
