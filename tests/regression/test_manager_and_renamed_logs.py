"""A log that `UnifiedLog.rename_dir` moved stayed known to its manager by the old name.

Appends to the old name went to the new one without a word, and the new name was "already open".
"""

from __future__ import annotations

import pytest

import segstore

GONE = segstore.UnknownTopicOrPartitionError


def test_a_renamed_log_goes_by_its_new_name(tmp_path):
    """[REN-1, DUR-65]"""
    with segstore.open_dir(tmp_path / "logs") as manager:
        manager.create_topic("x")
        log = manager.log("x", 0)
        log.rename_dir("y-0")
        with pytest.raises(GONE):
            manager.append("x", [(None, b"lost")], partition=0)
        with pytest.raises(GONE):
            manager.log("x", 0)
        assert manager.log("y", 0) is log
        manager.append("y", [(None, b"1")])
        manager.create_topic("x")
        manager.append("x", [(None, b"2")])
        assert manager.topics() == {"x": [0], "y": [0]}
    with segstore.open_dir(tmp_path / "logs") as manager:
        for topic, value in (("x", b"2"), ("y", b"1")):
            assert manager.log(topic, 0).report.clean
            assert [record.value for record in manager.log(topic, 0)] == [value]


def test_two_logs_that_changed_names(tmp_path):
    """[REN-1]"""
    with segstore.open_dir(tmp_path / "logs") as manager:
        manager.create_topic("x", partitions=2)
        first, second = manager.log("x", 0), manager.log("x", 1)
        first.rename_dir("z-0")
        second.rename_dir("x-0")
        first.rename_dir("x-1")
        assert (manager.log("x", 0), manager.log("x", 1)) == (second, first)


def test_a_log_renamed_for_deletion_is_nobodys(tmp_path):
    """[REN-1] It is closed with the manager all the same."""
    with segstore.open_dir(tmp_path / "logs") as manager:
        manager.create_topic("x")
        log = manager.log("x", 0)
        log.rename_dir(f"x-0.{'0' * 32}-delete", reinitialize=False)
        with pytest.raises(GONE):
            manager.log("x", 0)
        assert not log.closed
    assert log.closed
