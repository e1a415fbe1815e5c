"""``__remote_log_metadata`` of a log directory, where it is not as it was made here."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore.errors import IllegalStateError

if TYPE_CHECKING:
    from pathlib import Path

METADATA = "__remote_log_metadata"
TIERED = {"remote.storage.enable": "true", "local.retention.bytes": "0"}
VALUES = [b"v0", b"v1", b"v2"]


def opened(tmp_path: Path, **options):
    return segstore.open_dir(tmp_path / "data", remote=tmp_path / "tier", **options)


def fill(logs, partition: int = 0, count: int = 3) -> None:
    log = logs.log("orders", partition)
    for _ in range(count):
        logs.append("orders", [(None, b"v%d" % log.log_end_offset)], partition=partition)
        log.roll()


def values(logs, partition: int = 0) -> list[bytes]:
    return [record.value for record in logs.log("orders", partition).scan(0)]


# ---- some of its partitions ----------------------------------------------------------------------


@pytest.fixture
def used(tmp_path: Path) -> list[int]:
    """Copies of four partitions, noted in a topic of eight; those that have events."""
    with opened(tmp_path) as logs:
        logs.create_topic(METADATA, 8)
        logs.create_topic("orders", 4, config=TIERED)
        for partition in range(4):
            fill(logs, partition)
        assert logs.maintain().failed == ()
        return [one for one in range(8) if logs.log(METADATA, one).log_end_offset]


@pytest.mark.parametrize("by", ["topics.json", "the highest number"])
def test_the_topic_has_as_many_partitions_as_it_was_made_with(tmp_path: Path, used, by):
    """[TIER-21] Events are found by that number, not by that of the partitions that are here."""
    for partition in {*range(7)} - {*used}:
        shutil.rmtree(tmp_path / "data" / f"{METADATA}-{partition}")
    if by == "the highest number":
        (tmp_path / "data" / "topics.json").unlink()
    with opened(tmp_path, config=TIERED) as logs:
        assert [values(logs, one) for one in range(4)] == [VALUES] * 4
        fill(logs, 0, count=1)
        report = logs.maintain()
        assert (report.failed, len(report.copied)) == ((), 1)


def test_a_partition_that_is_elsewhere_is_named(tmp_path: Path, used):
    """[TIER-21] Whether something is remote is not known: that is no end of the log."""
    (tmp_path / "data" / f"{METADATA}-{used[0]}").rename(tmp_path / "elsewhere")
    missing = f"{METADATA}-{used[0]} is not in this log directory"
    with opened(tmp_path) as logs:
        errors = {}
        for partition in range(4):
            try:
                assert values(logs, partition) == VALUES
            except IllegalStateError as error:
                errors[partition] = str(error)
        assert errors
        assert all(missing in text for text in errors.values())
        for partition in range(4):
            fill(logs, partition, count=1)
        report = logs.maintain()
        assert {one.topic_partition.partition for one in report.failed} == errors.keys()
        assert all(missing in str(one.error) for one in report.failed)
        assert len(report.copied) == 4 - len(errors)
        for partition in errors:
            log = logs.log("orders", partition)
            assert log.local_log_start_offset == 3, "what is here stays"
            with pytest.raises(IllegalStateError, match=missing):
                log.fetch_offset_by_timestamp(0)
        with pytest.raises(IllegalStateError, match=missing):
            logs.delete_topic("orders")
    (tmp_path / "elsewhere").rename(tmp_path / "data" / f"{METADATA}-{used[0]}")
    with opened(tmp_path) as logs:
        assert logs.maintain().failed == ()
        assert [values(logs, one) for one in range(4)] == [[*VALUES, b"v3"]] * 4


# ---- nobody else changes it ----------------------------------------------------------------------


@pytest.mark.parametrize("with_remote", [True, False])
def test_nobody_else_changes_what_is_noted(tmp_path: Path, with_remote):
    """[TIER-21] Without it, the only copy of records would not be found."""
    with opened(tmp_path) as logs:
        logs.create_topic("orders", config=TIERED)
        fill(logs)
        assert logs.maintain().failed == ()
    with opened(tmp_path) if with_remote else segstore.open_dir(tmp_path / "data") as logs:
        for change in (
            lambda: logs.delete_topic(METADATA),
            lambda: logs.delete_partition(METADATA, 0),
            lambda: logs.alter_topic(METADATA, {"retention.ms": "1"}),
            lambda: logs.alter_topic(METADATA, partitions=2),
            lambda: logs.append(METADATA, [(None, b"hello")]),
            lambda: logs.append(METADATA, [(None, b"hello")], partition=0),
        ):
            with pytest.raises(IllegalStateError, match="holds what of this log directory"):
                change()
    with opened(tmp_path) as logs:
        assert values(logs) == VALUES
        assert logs.maintain().failed == ()


def test_it_is_kept_after_the_last_tiered_topic(tmp_path: Path):
    """[TIER-24] It says which remote parts are deleted."""
    with opened(tmp_path) as logs:
        logs.create_topic("orders", config=TIERED)
        fill(logs)
        logs.maintain()
        logs.delete_topic("orders")
        with pytest.raises(IllegalStateError, match="holds what of this log directory"):
            logs.delete_topic(METADATA)


def test_before_it_says_anything_it_is_a_topic_like_others(tmp_path: Path):
    """[TIER-21] So its number of partitions can be chosen, and chosen again."""
    with opened(tmp_path) as logs:
        logs.create_topic(METADATA, 3)
        logs.alter_topic(METADATA, partitions=5)
        logs.delete_topic(METADATA)
        logs.create_topic(METADATA, 2)
        logs.create_topic("orders", config=TIERED)
        with pytest.raises(IllegalStateError, match="holds what of this log directory"):
            logs.delete_topic(METADATA)
        fill(logs)
        assert logs.maintain().failed == ()
        assert sum(logs.log(METADATA, one).log_end_offset for one in range(2)) == 6
        assert values(logs) == VALUES


def test_after_the_first_tiered_topic_it_is_made_by_the_first_copy(tmp_path: Path):
    """[TIER-21] Its number of partitions is known by then: none is looked for elsewhere."""
    with opened(tmp_path) as logs:
        logs.create_topic("orders", config=TIERED)
        with pytest.raises(IllegalStateError, match="holds what of this log directory"):
            logs.create_topic(METADATA, 5)
        fill(logs)
        assert logs.maintain().failed == ()
        assert values(logs) == VALUES
