"""Kafka's LogConfigTest."""

from __future__ import annotations

import pytest

from segstore import LogConfig
from segstore.config.broker_config import BrokerConfig
from segstore.config.config_key import ConfigType
from segstore.config.topic_keys import TOPIC_KEYS
from segstore.config.topic_properties import check_properties, overridden_text
from segstore.errors import IllegalArgumentError
from segstore.log.open_options import open_options
from tests.kits.log_kit import new_log
from tests.kits.remote_kit import TIERED, RemoteRecords

__all__ = ["new_log"]

FLAGS = ("remote_storage_enable", "remote_log_copy_disable", "remote_log_delete_on_disable")


def test_local_log_retention_derived_default_props():
    """[CFG-53, CFG-30, CFG-31] LogConfigTest.testLocalLogRetentionDerivedDefaultProps."""
    config = LogConfig()
    assert (config.local_retention_ms, config.local_retention_bytes) == (-2, -2)
    assert (config.local_ms, config.local_bytes) == (604800000, -1)
    assert LogConfig(retention_ms=None).local_ms is None
    config = LogConfig(local_retention_ms=5, local_retention_bytes=7)
    assert (config.local_ms, config.local_bytes) == (5, 7)


@pytest.mark.parametrize(
    ("local_ms", "local_bytes", "total_bytes", "total_ms", "named"),
    [
        (-3, 10, 2, 500, "local_retention_ms"),
        (500, -3, 2, 1000, "local_retention_bytes"),
        (2000, 2, 100, 1000, "local_retention_ms"),
        (500, 200, 100, 1000, "local_retention_bytes"),
        (-1, 200, 100, 1000, "local_retention_bytes"),
        (2000, -1, 100, 1000, "local_retention_bytes"),
        (-1, 100, 100, 1000, "local_retention_ms"),
    ],
)
def test_invalid_local_log_retention_props(local_ms, local_bytes, total_bytes, total_ms, named):
    """[CFG-44] LogConfigTest.testInvalidLocalLogRetentionProps."""
    settings = {
        "local_retention_ms": local_ms,
        "local_retention_bytes": local_bytes,
        "retention_bytes": total_bytes,
        "retention_ms": total_ms,
    }
    with pytest.raises(IllegalArgumentError, match=named) as caught:
        open_options(remote_log_reader=RemoteRecords(), **TIERED, **settings)
    assert caught.value.found in {str(local_ms), str(local_bytes)}
    if min(local_ms, local_bytes) > -3:  # nothing is wrong with them where nothing is remote
        LogConfig(**settings).check_local_retention()
        open_options(**TIERED, **settings)


@pytest.mark.parametrize(
    ("local", "total"), [(-2, 100), (0, 100), (100, 100), (-1, -1), (10**9, -1), (-2, -1)]
)
def test_local_limits_that_fit(local, total):
    """[CFG-44]"""
    LogConfig(
        **TIERED,
        local_retention_ms=local,
        local_retention_bytes=local,
        retention_ms=None if total == -1 else total,
        retention_bytes=total,
    ).check_local_retention()


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"retention_bytes": 100, "local_retention_bytes": 50}, "local_retention_bytes"),
        ({"retention_ms": 100, "local_retention_ms": 50}, "local_retention_ms"),
        ({"local_retention_bytes": 50}, "local_retention_bytes"),
        ({"retention_ms": 100, "local_retention_ms": 100}, None),
        ({"retention_bytes": 100, "local_retention_bytes": -2}, None),
        ({"retention_ms": None, "local_retention_ms": -1}, None),
    ],
)
def test_limits_without_copying(settings, named):
    """[CFG-45] the local ones are the total ones."""
    config = LogConfig(**TIERED, remote_log_copy_disable=True, **settings)
    if named is None:
        config.check_local_retention()
        return
    with pytest.raises(IllegalArgumentError, match=named):
        config.check_local_retention()


def test_topic_creation_with_invalid_retention_size(new_log):
    """[CFG-44] LogConfigTest.testTopicCreationWithInvalidRetentionSize."""
    limits = {"retention_bytes": 128, "local_retention_bytes": 512}
    with pytest.raises(IllegalArgumentError, match="local_retention_bytes cannot be 512"):
        new_log(remote_log_reader=RemoteRecords(), **TIERED, **limits)
    log = new_log(remote_log_reader=RemoteRecords(), **limits)
    with pytest.raises(IllegalArgumentError, match="local_retention_bytes cannot be 512"):
        log.update_config(log.config.with_changes(**TIERED))
    assert not log.config.remote_storage_enable


def test_disable_remote_log_storage(new_log):
    """[CFG-33m, CFG-46] LogConfigTest.testDisableRemoteLogStorage."""
    log = new_log(remote_log_reader=RemoteRecords(), **TIERED)
    off = log.config.with_changes(remote_storage_enable=False)
    with pytest.raises(IllegalArgumentError, match="remote_log_delete_on_disable") as caught:
        log.update_config(off)
    assert caught.value.file == log.path
    assert log.remote_log_enabled
    log.update_config(off.with_changes(remote_log_delete_on_disable=True))
    assert not log.remote_log_enabled
    log.update_config(off)
    log.update_config(LogConfig())


@pytest.mark.parametrize("name", FLAGS)
def test_flags(name):
    """[CFG-29, CFG-32, CFG-33] LogConfigTest.testValidRemoteLogCopyDisabled,
    LogConfigTest.testValidRemoteLogDeleteOnDisable.
    """
    assert getattr(LogConfig(), name) is False
    for value in (True, False):
        text = {name.replace("_", "."): str(value).lower()}
        assert getattr(LogConfig.from_properties(text), name) is value
    for value in ("remove", "0", 1, None):
        with pytest.raises(IllegalArgumentError, match=name):
            LogConfig(**{name: value})


def test_kafka_config_to_props():
    """[CFG-52] LogConfigTest.testKafkaConfigToProps; hours become ms, and go by names."""
    config = BrokerConfig.from_properties(
        {
            "log.roll.hours": "2",
            "log.roll.jitter.hours": "2",
            "log.retention.hours": "960",
            "log.local.retention.ms": "2592000000",
            "log.local.retention.bytes": "4294967296",
        }
    )
    found = config.topic_defaults
    assert (found["segment.ms"], found["segment.jitter.ms"]) == (7_200_000, 7_200_000)
    assert found["retention.ms"] == 3_456_000_000
    assert found["local.retention.ms"] == 2_592_000_000
    assert found["local.retention.bytes"] == 4_294_967_296


@pytest.mark.parametrize("name", sorted(TOPIC_KEYS))
def test_from_props_invalid(name):
    """LogConfigTest.testFromPropsInvalid."""
    others = {
        "cleanup.policy": ("true", "foobar"),
        "internal.segment.bytes": ("not_a_number",),
        "min.cleanable.dirty.ratio": ("not_a_number", "-0.1", "1.2"),
        "min.insync.replicas": ("not_a_number", "0", "-1"),
        "local.retention.ms": ("not_a_number", "-3"),
        "local.retention.bytes": ("not_a_number", "-3"),
        "remote.copy.lag.ms": ("not_a_number", "-2"),
        "remote.copy.lag.bytes": ("not_a_number", "-2"),
        "retention.ms": ("not_a_number",),
        "retention.bytes": ("not_a_number",),
        "compression.gzip.level": ("not_a_number", "-2"),
        "compression.lz4.level": ("not_a_number", "-1"),
        "compression.zstd.level": ("not_a_number", "-0.1"),
        "remote.log.copy.disable": ("remove", "0"),
        "remote.log.delete.on.disable": ("remove", "0"),
    }
    key = TOPIC_KEYS[name]
    bad = others.get(name, ("not_a_number", "-1"))
    if key.type is ConfigType.BOOLEAN and name not in others:
        bad = ("not a boolean",)
    for text in bad:
        with pytest.raises(IllegalArgumentError):
            check_properties({name: text})


THROTTLED = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")


@pytest.mark.parametrize("name", THROTTLED)
def test_throttled_replicas(name):
    """[CFG-40] LogConfigTest.shouldValidateThrottledReplicasConfig."""
    for text in (
        *("*", "* ", "", " ", "100:10", "100:10,12:10", "100:10,12:10,15:1"),
        *("100:10,12:10,15:1  ", "100:0,"),
    ):
        check_properties({name: text})
    for text in (
        *("100", "100:", "100:0,10", "100:0,10:", "100:0,10:   ", "100 :0,10:   "),
        *("100: 0,10:   ", "100:0,10 :   ", "*,100:10", "* ,100:10"),
    ):
        with pytest.raises(IllegalArgumentError):
            check_properties({name: text})


def test_overridden_configs_as_loggable_string():
    """[CFG-51] LogConfigTest.testOverriddenConfigsAsLoggableString."""
    given = {
        "unknown.topic.password.config": "aaaaa",
        "min.insync.replicas": "2",
        "ssl.truststore.password": "sometrustpasswrd",
        "retention.bytes": "100",
    }
    assert overridden_text(given) == (
        "{min.insync.replicas=2, retention.bytes=100, ssl.truststore.password=(redacted),"
        " unknown.topic.password.config=(redacted)}"
    )


@pytest.mark.parametrize("is_on", [True, False])
def test_validate_broker_log_configs(is_on):
    """[CFG-44, CFG-48] LogConfigTest.testValidateBrokerLogConfigs."""
    given = {
        "remote.log.storage.system.enable": str(is_on).lower(),
        "log.retention.bytes": "1024",
        "log.local.retention.bytes": "2048",
    }
    if is_on:
        with pytest.raises(IllegalArgumentError, match="local"):
            BrokerConfig.from_properties(given)
    else:
        assert BrokerConfig.from_properties(given).topic_defaults["retention.bytes"] == 1024
