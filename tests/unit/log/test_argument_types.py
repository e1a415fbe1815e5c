"""Arguments of a wrong type are segstore's errors, say what was found, and nothing is done."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

import segstore
from tests.kits.log_kit import TIME, batch


def refused(call, expected):
    """*call* raises an error that is both a ValueError and a TypeError."""
    with pytest.raises(
        segstore.ArgumentTypeError, match=r"must be|bytes or None|must give"
    ) as caught:
        call()
    error = caught.value
    assert isinstance(error, segstore.IllegalArgumentError)
    assert isinstance(error, ValueError)
    assert isinstance(error, TypeError)
    assert error.found is not None
    assert expected in error.expected


def out_of_range(call, expected):
    """*call* raises segstore's error for a number of the right type that does not fit."""
    with pytest.raises(segstore.IllegalArgumentError) as caught:
        call()
    assert not isinstance(caught.value, TypeError)
    assert caught.value.found is not None
    assert expected in caught.value.expected


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
        (lambda log: log.scan(columns=5), "a sequence of names"),
        (lambda log: log.to_arrow(columns=5), "a sequence of names"),
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
    out_of_range(lambda: log.truncate_to(10**5000), "to 9223372036854775807")  # Python writes none


def test_leader_epochs(new_log):
    """Of batches that are fine: nothing is appended."""
    log = new_log()
    good = batch([(b"k", b"v")], epoch=3)
    for append in (log.append_as_leader, log.append_as_follower):
        for wrong in ("a", 1.5, b"3"):
            refused(lambda wrong=wrong, append=append: append(good, leader_epoch=wrong), "integer")
        for wrong in (2**40, -(2**40), 10**30):
            out_of_range(
                lambda wrong=wrong, append=append: append(good, leader_epoch=wrong), " to "
            )
    out_of_range(lambda: log.append_as_leader(good, leader_epoch=-1), "0 or more")
    assert log.log_end_offset == 0
    log.append_as_leader(good, leader_epoch=np.int64(2**31 - 1))
    assert log.log_end_offset == 1


@pytest.mark.parametrize(
    ("field", "most"),
    [
        ("offset", 2**63 - 1),
        ("timestamp", 2**63 - 1),
        ("leader_epoch", 2**31 - 1),
        ("partition", 2**31 - 1),
        ("timestamp_type", 127),
    ],
)
def test_numbers_of_records(field, most):
    for wrong in (most + 1, -most - 2, 10**30):
        out_of_range(lambda wrong=wrong: segstore.Record(**{field: wrong}), f"to {most}")
    for wrong in ("1", 1.5, b"1"):
        with pytest.raises(TypeError) as caught:
            segstore.Record(**{field: wrong})
        assert isinstance(caught.value, segstore.SegstoreError)
        assert caught.value.found == type(wrong).__name__
    assert getattr(segstore.Record(**{field: np.int64(1)}), field) == 1
    assert getattr(segstore.Record(**{field: most}), field) == most


def test_texts_of_records():
    for wrong in (5, None, b"topic"):
        refused(lambda wrong=wrong: segstore.Record(topic=wrong), "text")
    with pytest.raises(segstore.RecordTypeError) as caught:
        segstore.Record(headers=5)
    assert (caught.value.found, "pairs" in caught.value.expected) == ("int", True)


def test_batches_in_memory():
    for wrong in ("x", 5, None):
        refused(lambda wrong=wrong: segstore.MemoryRecords(wrong), "bytes")
    released = memoryview(b"abc")
    released.release()
    for wrong in (released, memoryview(bytes(100))[::2]):
        out_of_range(lambda wrong=wrong: segstore.MemoryRecords(wrong), "bytes")


@pytest.mark.parametrize("wrong", [None, 5, b"whole", ["whole"]])
def test_iterations(wrong):
    one = next(segstore.MemoryRecords(batch([(b"k", b"v")])).batches())
    refused(lambda: one.raw_records(wrong), "streaming, whole, skip_key_value")
    with pytest.raises(segstore.IllegalArgumentError, match="streaming, whole, skip_key_value"):
        one.raw_records("fast")


class Foreign:
    """Says that it has Arrow data and gives something else."""

    def __init__(self, given, *, as_array=False):
        setattr(self, "__arrow_c_array__" if as_array else "__arrow_c_stream__", lambda: given)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (Foreign("rubbish"), "arrow_array_stream"),
        (Foreign(None), "arrow_array_stream"),
        (Foreign(pa.schema([]).__arrow_c_schema__()), "arrow_array_stream"),
        (Foreign(("rubbish", 5), as_array=True), "arrow_schema"),
        (Foreign((pa.schema([]).__arrow_c_schema__(), 5), as_array=True), "arrow_array"),
        (Foreign("rubbish", as_array=True), "a pair of capsules"),
        (Foreign(5, as_array=True), "a pair of capsules"),
    ],
)
def test_arrow_data_that_is_none(new_log, tmp_path, data, expected):
    log = new_log()
    refused(lambda: log.append(data), expected)
    assert log.log_end_offset == 0
    with segstore.open_dir(tmp_path / "all") as manager:
        manager.create_topic("t", 2)
        with pytest.raises(segstore.IllegalArgumentError, match="Arrow data cannot be read"):
            manager.append("t", data)


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [("x", "a frame"), (1.5, "an integer"), (dt.date(2024, 1, 1), "an integer")],
)
def test_timestamps(new_log, timestamp, expected):
    log = new_log()
    refused(lambda: log.append([(b"k", b"v")], timestamp=timestamp), expected)
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
    stepped = memoryview(b"abcd")[::2]
    assert segstore.partition_for_key(stepped, 3) == segstore.partition_for_key(b"ac", 3)


@pytest.mark.parametrize(
    ("field", "wrong", "expected"),
    [
        ("producer_id_expiration_ms", "x", "an integer"),
        ("producer_id_expiration_ms", None, "an integer"),
        ("producer_id_expiration_ms", True, "an integer"),
        ("producer_id_expiration_ms", 1.5, "an integer"),
        ("transaction_verification_enabled", "no", "True or False"),
        ("transaction_verification_enabled", 1, "True or False"),
    ],
)
def test_producer_config(field, wrong, expected):
    """[PSM-36] Also of one that is in use: each use reads the current value."""
    refused(lambda: segstore.ProducerStateManagerConfig(**{field: wrong}), expected)
    config = segstore.ProducerStateManagerConfig()
    refused(lambda: setattr(config, field, wrong), expected)
    assert config == segstore.ProducerStateManagerConfig()


@pytest.mark.parametrize("wrong", [-1, 0, 2**63])
def test_expiration_of_producers(wrong):
    """Kafka's ``producer.id.expiration.ms`` is 1 at least."""
    out_of_range(lambda: segstore.ProducerStateManagerConfig(wrong), "")
    config = segstore.ProducerStateManagerConfig(1)
    out_of_range(lambda: setattr(config, "producer_id_expiration_ms", wrong), "")
    assert config.producer_id_expiration_ms == 1
