"""Kafka's LogConfigTest: the settings of remote storage."""

from __future__ import annotations

import pytest

from segstore import LogConfig
from segstore.errors import IllegalArgumentError
from segstore.log.open_options import open_options
from tests.kits.log_kit import new_log
from tests.kits.remote_kit import TIERED, RemoteRecords

__all__ = ["new_log"]

FLAGS = ("remote_storage_enable", "remote_log_copy_disable", "remote_log_delete_on_disable")


def test_local_log_retention_derived_default_props():
    """[CFG-30, CFG-31] LogConfigTest.testLocalLogRetentionDerivedDefaultProps."""
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
        open_options(remote_offset_reader=RemoteRecords(), **TIERED, **settings)
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
        new_log(remote_offset_reader=RemoteRecords(), **TIERED, **limits)
    log = new_log(remote_offset_reader=RemoteRecords(), **limits)
    with pytest.raises(IllegalArgumentError, match="local_retention_bytes cannot be 512"):
        log.update_config(log.config.with_changes(**TIERED))
    assert not log.config.remote_storage_enable


def test_disable_remote_log_storage(new_log):
    """[CFG-46] LogConfigTest.testDisableRemoteLogStorage."""
    log = new_log(remote_offset_reader=RemoteRecords(), **TIERED)
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
