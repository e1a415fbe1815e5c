"""What passes of Kafka's `Cleaner` left of given logs [CLN-45..CLN-122]."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from segstore.log.files.profile import Profile
from tests.kits.directory_files import check_files, content, expected_files, files_of
from tests.vectors.batch_description import without
from tests.vectors.cleaner_script import CleanerScript
from tests.vectors.test_vectors_log_ops import check_operation

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.vectors.vector_files import Case, Cases

STATS = (
    "bytes_read",
    "map_messages_read",
    "messages_read",
    "invalid_messages_read",
    "messages_written",
)
RECOMPRESSED = ("size", "crc")


def check_round(script: CleanerScript, entry: Case) -> None:
    """Do what a round of the case does; compare what its pass gives, and what it leaves."""
    for operation in entry["ops"]:
        check_operation(script, operation)
    script.set_file_times(entry["segment_mtime_ms"])
    files_before = {name: content(file) for name, file in entry["files_before"].items()}
    assert sorted(files_of(script.path)) == sorted(files_before)
    if script.is_exact:
        assert (
            script.groups(entry["first_uncleanable_offset"])
            == (entry["groups_up_to_first_uncleanable"])
        )
    expected = entry["result"]
    stats = script.clean(entry)
    script.time.run_due()
    assert stats.end_offset == expected["end_offset"]
    assert script.cleaner.offset_map.size == expected["map_size"]
    assert script.cleaner.offset_map.latest_offset == expected["map_latest_offset"]
    assert stats.buffer_utilization == pytest.approx(expected["stats"]["buffer_utilization"])
    for name in STATS:
        if script.is_exact or name != "bytes_read":
            assert getattr(stats, name) == expected["stats"][name], name
    new_bytes = () if script.is_exact else RECOMPRESSED
    found = [without(one["batches"], *new_bytes) for one in script.segments()]
    assert found == [without(one["batches"], *new_bytes) for one in entry["segments_after"]]
    check_files_after(script, entry, files_before)
    script.do_advance_time({"ms": entry["then_advance_time_ms"]})


def check_files_after(script: CleanerScript, entry: Case, files_before: dict[str, bytes]) -> None:
    expected = expected_files(entry["files_after"], files_before)
    found = files_of(script.path)
    if script.is_exact:
        check_files(found, expected)
    assert sorted(found) == sorted(expected)


def check(case: Case, path: Path) -> None:
    script = CleanerScript(case, path, Profile.KAFKA)
    try:
        for number, entry in enumerate(case["rounds"]):
            try:
                check_round(script, entry)
            except Exception as error:
                what = f"round {number}: {type(error).__name__} {error}"
                raise AssertionError(what) from error
    finally:
        script.let_go()


def test_cleaner(vectors: Callable[[str], Cases], tmp_path: Path):
    """[CLN-45..CLN-122]; Kafka: Cleaner.clean."""
    vectors("cleaner").check(lambda case: check(case, tmp_path / case["id"] / "topic-0"))
