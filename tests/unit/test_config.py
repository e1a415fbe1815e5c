"""LogConfig: Kafka's keys, defaults and bounds."""

from __future__ import annotations

import dataclasses

import pytest

from segstore import LogConfig
from segstore.errors import IllegalArgumentError
from segstore.number_limits import MAX_INT, MAX_LONG


def test_defaults_are_those_of_kafka():
    """engine.md 0: constants and defaults [DIFF-16, DIFF-20]."""
    config = LogConfig()
    assert (config.segment_bytes, config.roll_bytes) == (1073741824, 1073741824)
    assert (config.segment_ms, config.segment_jitter_ms) == (604800000, 0)
    assert (config.segment_index_bytes, config.index_interval_bytes) == (10485760, 4096)
    assert config.max_message_bytes == 1048588
    assert config.message_timestamp_type == "CreateTime"
    assert config.message_timestamp_before_max_ms == MAX_LONG
    assert config.message_timestamp_after_max_ms == 3600000
    assert config.compression_type == "producer"
    assert (config.compression_gzip_level, config.compression_lz4_level) == (-1, 9)
    assert config.compression_zstd_level == 3
    assert (config.cleanup_policy, config.retention_ms, config.retention_bytes) == (
        "delete",
        604800000,
        -1,
    )
    assert (config.file_delete_delay_ms, config.preallocate) == (60000, False)
    assert (config.flush_messages, config.flush_ms) == (MAX_LONG, MAX_LONG)


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("segment_bytes", 1048576, MAX_INT),
        ("segment_ms", 1, MAX_LONG),
        ("segment_index_bytes", 4, MAX_INT),
        ("index_interval_bytes", 0, MAX_INT),
        ("max_message_bytes", 0, MAX_INT),
        ("flush_messages", 1, MAX_LONG),
        ("flush_ms", 0, MAX_LONG),
        ("compression_lz4_level", 1, 17),
        ("compression_zstd_level", -131072, 22),
        ("retention_ms", -1, MAX_LONG),
        ("file_delete_delay_ms", 0, MAX_LONG),
    ],
)
def test_bounds(name, low, high):
    """The bounds themselves are legal, one beyond is not."""
    for value in (low, high):
        assert getattr(LogConfig(**{name: value}), name) == value
    for value in (low - 1, high + 1, 1.5, "1", True):
        with pytest.raises(IllegalArgumentError, match=name) as caught:
            LogConfig(**{name: value})
        assert caught.value.found == repr(value)
        assert caught.value.expected == f"{low} to {high}"


def test_the_hidden_segment_size_has_no_lower_bound():
    """[DIFF-16] internal.segment.bytes replaces segment.bytes."""
    assert LogConfig(internal_segment_bytes=14).roll_bytes == 14


@pytest.mark.parametrize("value", [0, -1, 2**31, "x", True, 1.5])
def test_a_hidden_segment_size_that_cannot_be_is_refused(value):
    """[DUR-97] a file has at most 2^31 - 1 bytes."""
    with pytest.raises(IllegalArgumentError, match="internal_segment_bytes"):
        LogConfig(internal_segment_bytes=value)


@pytest.mark.parametrize(
    "wrong",
    [
        {"compression_type": "brotli"},
        {"message_timestamp_type": "now"},
        {"cleanup_policy": "forget"},
        {"cleanup_policy": None},
        {"preallocate": "yes"},
    ],
)
def test_a_value_that_is_no_choice_is_refused(wrong):
    """A setting that nobody understands must not be silently something else."""
    (name,) = wrong
    with pytest.raises(IllegalArgumentError, match=name):
        LogConfig(**wrong)


@pytest.mark.parametrize(
    "policy", ["delete", "compact", "compact,delete", "delete,compact", "delete, compact", ""]
)
def test_policies(policy):
    """[DIFF-14] an empty policy is legal."""
    assert LogConfig(cleanup_policy=policy).cleanup_policy == policy


def test_never_is_none():
    assert LogConfig(segment_ms=None).roll_ms == MAX_LONG


def test_an_unknown_setting_is_named_with_those_that_exist():
    with pytest.raises(IllegalArgumentError, match="segment_size") as caught:
        LogConfig().with_changes(segment_size=5)
    assert "segment_bytes" in caught.value.expected


def test_properties_of_a_topic():
    config = LogConfig.from_properties(
        {
            "segment.bytes": "2097152",
            "retention.ms": "-1",
            "preallocate": "true",
            "cleanup.policy": "compact",
            "min.insync.replicas": "2",
        }
    )
    assert config == LogConfig(
        segment_bytes=2097152, retention_ms=None, preallocate=True, cleanup_policy="compact"
    )
    with pytest.raises(IllegalArgumentError, match=r"segment\.ms"):
        LogConfig.from_properties({"segment.ms": "soon"})


def test_a_config_is_a_value():
    config = LogConfig()
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.segment_ms = 1
    assert config.with_changes() == config


def test_a_gzip_level_of_0_is_none():
    """Kafka takes 1 to 9, and -1 for the default."""
    with pytest.raises(IllegalArgumentError, match="compression_gzip_level"):
        LogConfig(compression_gzip_level=0)
