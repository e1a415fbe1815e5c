"""What a metadata log says to arguments that are none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from segstore.errors import ArgumentTypeError, IllegalArgumentError, InvalidConfigurationError
from segstore.raft import open_metadata_log
from tests.kits.raft_kit import append, open_raft

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from segstore.raft.metadata_log import MetadataLog

CALLS: dict[str, Callable[[MetadataLog], object]] = {
    "records": lambda log: log.append_as_leader(5, 1),
    "the records of a follower": lambda log: log.append_as_follower("records", 1),
    "epoch": lambda log: log.append_as_leader(b"records", "1"),
    "the epoch of a follower": lambda log: log.append_as_follower(b"records", None),
    "end": lambda log: log.truncate_to_end_offset((1, 1)),
    "snapshot_id": lambda log: log.create_new_snapshot((1, 1)),
    "snapshot_id of a leader": lambda log: log.create_new_snapshot_unchecked((1, 1)),
    "snapshot_id to read": lambda log: log.read_snapshot(1),
    "snapshot_id to begin with": lambda log: log.delete_before_snapshot((1, 1)),
}


@pytest.mark.parametrize("what", CALLS)
def test_an_argument_of_another_type_is_named(tmp_path: Path, what: str):
    """[RAFT-4, RAFT-5, RAFT-15, RAFT-25, RAFT-28, RAFT-35] Nothing changes."""
    with open_raft(tmp_path, "safe") as log:
        append(log, 3, 1)
        with pytest.raises(ArgumentTypeError):
            CALLS[what](log)
        assert log.end_offset.message_offset == 3


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("metadata.log.segment.byte", "metadata.log.segment.bytes"),
        ("metadata.max.retention.hours", "metadata.max.retention.ms"),
    ],
)
def test_a_mistyped_setting_is_no_setting(tmp_path: Path, key: str, expected: str):
    """[RAFT-2] It would be left out without a word."""
    with pytest.raises(IllegalArgumentError, match=key) as caught:
        open_metadata_log(tmp_path / "__cluster_metadata-0", {key: "1048576"})
    assert caught.value.expected == expected


def test_settings_of_other_parts_are_left_out(tmp_path: Path):
    """[RAFT-2] A broker's file has them all."""
    properties = {"metadata.log.dir": "/data", "metadata.max.idle.interval.ms": "500", "a": "b"}
    open_metadata_log(tmp_path / "__cluster_metadata-0", properties).close()


@pytest.mark.parametrize("value", ["-1", " -1 ", -1])
def test_no_retention_of_records_is_what_a_metadata_log_has(tmp_path: Path, value: Any):
    """[RAFT-41] Kafka takes the blanks away before it reads a number."""
    open_metadata_log(tmp_path / "__cluster_metadata-0", {"retention.ms": value}).close()


@pytest.mark.parametrize("value", ["1000", "a week"])
def test_a_metadata_log_has_no_retention_of_records(tmp_path: Path, value: Any):
    """[RAFT-41] Whatever the value is."""
    with pytest.raises(InvalidConfigurationError, match=r"metadata.max.retention.ms"):
        open_metadata_log(tmp_path / "__cluster_metadata-0", {"retention.ms": value})
