"""A clean log directory of several partitions: the first that is opened consumed the marker.

The others then looked unclean and were recovered, each time [DUR-24, DUR-65].
"""

from __future__ import annotations

import shutil

import pytest

import segstore
from segstore.errors import CorruptLogError, SegstoreError

MARKER = ".kafka_cleanshutdown"


@pytest.fixture
def brokers_directory(tmp_path):
    """Three partitions as a broker leaves them: one marker above, none of our files inside."""
    with segstore.open_dir(tmp_path / "logs", durability="none") as manager:
        manager.create_topic("orders", 3)
        for number in range(3):
            manager.append("orders", [(None, b"value")] * 5, partition=number)
    for path in (tmp_path / "logs").glob("orders-*"):
        for name in (MARKER, ".segstore", ".lock", "recovery-point-offset-checkpoint"):
            (path / name).unlink()
    (tmp_path / "logs" / ".lock").unlink()
    return tmp_path / "logs"


def test_every_partition_of_a_clean_directory_is_opened_as_clean(brokers_directory):
    with segstore.open_dir(brokers_directory) as manager:
        assert not (brokers_directory / MARKER).exists()
        reports = [manager.log("orders", number).report for number in range(3)]

        assert [report.clean for report in reports] == [True] * 3
        assert [report.scanned_bytes for report in reports] == [0] * 3


def test_a_log_that_was_dropped_is_not_clean_when_the_same_manager_opens_it_again(
    brokers_directory,
):
    """The directory's marker speaks of the time before it was opened."""
    with segstore.open_dir(brokers_directory) as manager:
        manager.log("orders", 0).append([(None, b"more")])
        manager.log("orders", 0).close_quietly()

        assert not manager.log("orders", 0).report.clean
        assert manager.log("orders", 1).report.clean
    assert (brokers_directory / MARKER).exists()


def test_a_dropped_log_keeps_the_directory_unclean(brokers_directory):
    with segstore.open_dir(brokers_directory) as manager:
        manager.log("orders", 0).append([(None, b"more")])
        manager.log("orders", 0).close_quietly()

    assert not (brokers_directory / MARKER).exists()


def test_a_log_that_could_not_be_opened_keeps_the_directory_unclean(brokers_directory):
    """A broker that trusts the marker would never look at it."""
    (log_file,) = (brokers_directory / "orders-0").glob("*.log")
    log_file.write_bytes(log_file.read_bytes()[:-1])

    with segstore.open_dir(brokers_directory) as manager:
        with pytest.raises(CorruptLogError):
            manager.log("orders", 0)
        assert manager.log("orders", 1).report.clean

    assert not (brokers_directory / MARKER).exists()


def test_a_manager_that_died_leaves_every_partition_unclean(brokers_directory, tmp_path):
    manager = segstore.open_dir(brokers_directory)
    manager.log("orders", 0)
    image = tmp_path / "image"
    shutil.copytree(brokers_directory, image)
    manager.close()

    with segstore.open_dir(image) as manager:
        assert [manager.log("orders", n).report.clean for n in range(3)] == [False] * 3


def test_a_partition_that_vanishes_does_not_break_close(brokers_directory):
    with segstore.open_dir(brokers_directory) as manager:
        manager.log("orders", 0).close()
        shutil.rmtree(brokers_directory / "orders-0")
        with pytest.raises(SegstoreError):
            manager.log("orders", 0)

    assert (brokers_directory / MARKER).exists()
