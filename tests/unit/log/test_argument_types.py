"""Arguments of a wrong type are segstore's errors, say what was found, and nothing is done."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pytest

import segstore
from tests.log_kit import TIME


def refused(call, expected):
    """*call* raises an error that is both a ValueError and a TypeError."""
    with pytest.raises(segstore.ArgumentTypeError, match=r"must be|bytes or None") as caught:
        call()
    error = caught.value
    assert isinstance(error, segstore.IllegalArgumentError)
    assert isinstance(error, ValueError)
    assert isinstance(error, TypeError)
    assert error.found is not None
    assert expected in error.expected


@pytest.mark.parametrize("path", [5, None, 1.5])
def test_paths(path):
    refused(lambda: segstore.open(path), "a path")
    refused(lambda: segstore.open_dir(path), "a path")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"config": {"segment_bytes": 1}}, "LogConfig"),
        ({"read_only": "yes"}, "True or False"),
        ({"allow_network_fs": 1}, "True or False"),
        ({"progress": 5}, "a function"),
    ],
)
def test_open(tmp_path, arguments, expected):
    refused(lambda: segstore.open(tmp_path / "a-0", **arguments), expected)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda log: log.read("1", 5), "an integer"),
        (lambda log: log.read(0, 5, min_one_message="no"), "True or False"),
        (lambda log: log.scan(check_crcs="no"), "True or False"),
        (lambda log: log.tail(0, timeout="x"), "seconds"),
        (lambda log: log.tail(0, poll_interval=None), "seconds"),
        (lambda log: log.verify(progress=5), "a function"),
    ],
)
def test_reading(new_log, call, expected):
    log = new_log()
    refused(lambda: call(log), expected)


def test_isolation(new_log):
    log = new_log()
    for call in (lambda: log.read(0, 5, "foo"), lambda: log.scan(isolation=3)):
        with pytest.raises(segstore.IllegalArgumentError, match="log_end, high_watermark, dur"):
            call()


def test_integers_of_64_bits(new_log):
    log = new_log()
    for call in (log.truncate_to, log.offset_for_timestamp, log.delete_records, log.tail):
        with pytest.raises(segstore.IllegalArgumentError, match="64 bits"):
            call(2**70)


@pytest.mark.parametrize("timestamp", ["x", 1.5, dt.datetime(2024, 1, 1, tzinfo=dt.UTC)])
def test_timestamps(new_log, timestamp):
    log = new_log()
    refused(lambda: log.append([(b"k", b"v")], timestamp=timestamp), "an integer")
    assert log.log_end_offset == 0
    log.append([(b"k", b"v")], timestamp=np.int64(TIME))
    assert next(iter(log)).timestamp == TIME


def test_manager(tmp_path):
    with segstore.open_dir(tmp_path) as manager:
        refused(lambda: manager.create_topic("z", "3"), "an integer")
        manager.create_topic("z")
        refused(lambda: manager.log("z", "0"), "an integer")
        assert manager.log("z", np.int64(0)).log_end_offset == 0
        for name in (5, None):
            with pytest.raises(segstore.InvalidTopicError):
                manager.create_topic(name)
    refused(lambda: segstore.open_dir(tmp_path, read_only="yes"), "True or False")


def test_partition_for_key():
    refused(lambda: segstore.partition_for_key("k1", 3), "bytes or None")
    for count in ("3", 0, None):
        with pytest.raises(segstore.IllegalArgumentError):
            segstore.partition_for_key(b"k1", count)
