"""Settings of topics: given, changed and taken back; kept in ``topics.json``."""

from __future__ import annotations

import shutil
import time
import uuid
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore.config.log_config import LogConfig
from segstore.config.topic_config import NOT_DELETING
from segstore.config.topic_keys import TOPIC_KEYS
from segstore.errors import (
    ArgumentTypeError,
    ClosedError,
    CorruptCheckpointError,
    IllegalArgumentError,
    InvalidConfigurationError,
    LogReadOnlyError,
    RecordTooLargeError,
    UnknownTopicOrPartitionError,
)
from segstore.log.files.topics_file import TOPICS_FILE
from segstore.log.unified_log import UnifiedLog
from segstore.manager.topic_description import SettingSource

if TYPE_CHECKING:
    from pathlib import Path

WEEK_MS = 7 * 24 * 3600 * 1000


def setting(manager, topic: str, name: str):
    found = {one.name: one for one in manager.describe_topic(topic).settings}
    return found[name].value, found[name].source


def test_a_topic_keeps_what_it_was_given(tmp_path: Path):
    """[CFG-50] The settings outlive the process, and each log of the topic goes by them."""
    with segstore.open_dir(tmp_path) as logs:
        logs.create_topic("orders", 2, config={"retention.ms": WEEK_MS, "segment.bytes": "2097152"})
        assert logs.log("orders", 1).config.segment_bytes == 2097152
    with segstore.open_dir(tmp_path) as logs:
        assert logs.log("orders", 0).config.retention_ms == WEEK_MS
        assert setting(logs, "orders", "retention.ms") == (WEEK_MS, SettingSource.TOPIC)
    with segstore.open_dir(tmp_path, read_only=True) as logs:
        assert setting(logs, "orders", "segment.bytes") == (2097152, SettingSource.TOPIC)
        with pytest.raises(LogReadOnlyError):
            logs.alter_topic("orders", {"retention.ms": 1})


def test_a_change_reaches_logs_that_are_open(tmp_path: Path):
    """[CFG-54] The others stay as they are; None takes one back."""
    with segstore.open_dir(tmp_path) as logs:
        logs.create_topic("orders", config={"retention.ms": WEEK_MS, "max.message.bytes": 1000})
        log = logs.log("orders", 0)
        logs.alter_topic("orders", {"retention.bytes": 10_000, "max.message.bytes": None})
        assert (log.config.retention_bytes, log.config.retention_ms) == (10_000, WEEK_MS)
        assert log.config.max_message_bytes == TOPIC_KEYS["max.message.bytes"].default
        log.append([(None, bytes(2000))])


def test_other_defaults_reach_all_logs(tmp_path: Path):
    """[MGR-97] Open ones at once, others when they are opened; what a topic was given stays."""
    paths = [tmp_path / "a", tmp_path / "b"]
    with segstore.open_dir(paths, segment_ms=1000, max_message_bytes=2000) as logs:
        logs.create_topic("orders", 3, directories={0: paths[0], 1: paths[1], 2: paths[1]})
        logs.create_topic("clicks", config={"max.message.bytes": 3000})
        found = [logs.log("orders", 0), logs.log("orders", 1), logs.log("clicks", 0)]
        assert [log.config.max_message_bytes for log in found] == [2000, 2000, 3000]

        logs.reconfigure_default_log_config(max_message_bytes=500, file_delete_delay_ms=7)
        found.append(logs.log("orders", 2))
        assert [log.config.max_message_bytes for log in found] == [500, 500, 3000, 500]
        assert {log.config.segment_ms for log in found} == {WEEK_MS}
        assert setting(logs, "orders", "max.message.bytes") == (500, SettingSource.DIRECTORY)
        assert setting(logs, "orders", "segment.ms") == (WEEK_MS, SettingSource.DEFAULT)
        with pytest.raises(RecordTooLargeError):
            found[0].append([(None, bytes(600))])
    with segstore.open_dir(paths, segment_ms=1000) as logs:
        assert logs.log("orders", 0).config.segment_ms == 1000


def test_defaults_that_cannot_be_change_nothing(tmp_path: Path):
    """[MGR-97]"""
    with segstore.open_dir(tmp_path, segment_ms=1000) as logs:
        logs.create_topic("orders")
        for wrong in ({"segment_ms": 0}, {"segment_size": 5}, {"durability": "none"}):
            with pytest.raises(IllegalArgumentError):
                logs.reconfigure_default_log_config(**wrong)
        assert logs.log("orders", 0).config.segment_ms == 1000
    with segstore.open_dir(tmp_path, read_only=True) as logs, pytest.raises(LogReadOnlyError):
        logs.reconfigure_default_log_config(segment_ms=5)


def test_one_log_that_does_not_take_new_defaults_keeps_no_other(tmp_path: Path, monkeypatch):
    """[MGR-97] The error names what the others have."""
    with segstore.open_dir(tmp_path) as logs:
        for name in ("a", "b", "c"):
            logs.create_topic(name)
        found = [logs.log(name, 0) for name in ("a", "b", "c")]
        update = UnifiedLog.update_config

        def fail(log: UnifiedLog, config: segstore.LogConfig) -> segstore.LogConfig:
            if log is found[1]:
                raise IllegalArgumentError("no")
            return update(log, config)

        monkeypatch.setattr(UnifiedLog, "update_config", fail)
        with pytest.raises(IllegalArgumentError) as caught:
            logs.reconfigure_default_log_config(segment_ms=5)
        assert [log.config.segment_ms for log in found] == [5, WEEK_MS, 5]
        assert "b-0 goes by them after its next open" in caught.value.__notes__[0]


def test_new_defaults_delete_in_the_next_run(tmp_path: Path):
    """[MGR-97, RTN-12] A log that is not open goes by the new settings too."""
    now = time.time_ns() // 1_000_000
    with segstore.open_dir(tmp_path) as logs:
        logs.create_topic("orders", 2)
        for number in range(2):
            log = logs.log("orders", number)
            log.append([(now - WEEK_MS, None, b"old")])
            log.roll()
    with segstore.open_dir(tmp_path) as logs:
        log = logs.log("orders", 0)
        assert logs.maintain(now).deleted == ()
        logs.reconfigure_default_log_config(retention_ms=1000)
        deleted = logs.maintain(now + 600_000).deleted
        assert sorted(one.topic_partition.partition for one in deleted) == [0, 1]
        assert log.log_start_offset == 1


def test_the_delay_of_deleted_partitions_is_that_of_now(tmp_path: Path):
    """[MGR-66, MGR-97] It counts for those too that wait already."""
    with segstore.open_dir(tmp_path, file_delete_delay_ms=WEEK_MS) as logs:
        logs.create_topic("orders")
        logs.delete_topic("orders")
        soon = time.time_ns() // 1_000_000 + 600_000
        assert logs.maintain(soon).removed == ()
        logs.reconfigure_default_log_config(file_delete_delay_ms=1000)
        assert len(logs.maintain(soon + 600_000).removed) == 1


def test_nothing_deletes_by_default(tmp_path: Path):
    """[RTN-2] DESIGN D16: in the safe profile these are not set, and shown so."""
    with segstore.open_dir(tmp_path, segment_ms=1000) as logs:
        logs.create_topic("orders")
        for name in NOT_DELETING:
            assert setting(logs, "orders", name) == (None, SettingSource.NOT_SET)
        assert setting(logs, "orders", "segment.ms") == (1000, SettingSource.DIRECTORY)
        assert setting(logs, "orders", "preallocate") == (False, SettingSource.DEFAULT)
    with segstore.open_dir(tmp_path, recovery="kafka") as logs:
        assert setting(logs, "orders", "retention.ms") == (WEEK_MS, SettingSource.DEFAULT)


def test_a_topic_of_a_broker_is_given_settings(tmp_path: Path):
    """[MGR-95] ``topics.json`` names it from then on, with the id of its partitions."""
    with segstore.open(tmp_path / "orders-0"), segstore.open(tmp_path / "orders-1"):
        pass
    with segstore.open_dir(tmp_path) as logs:
        described = logs.alter_topic("orders", {"cleanup.policy": "compact"})
        assert described.partitions == (0, 1)
        assert logs.log("orders", 1).config.cleanup_policy == "compact"
    with segstore.open_dir(tmp_path) as logs:
        assert logs.describe_topic("orders").topic_id is None
        assert setting(logs, "orders", "cleanup.policy") == (("compact",), SettingSource.TOPIC)


@pytest.mark.parametrize(
    ("config", "error"),
    [
        ({"retention": 5}, InvalidConfigurationError),
        ({"retention": None}, InvalidConfigurationError),
        ({"min.compaction.lag.ms": 6, "max.compaction.lag.ms": 5}, InvalidConfigurationError),
        ({"remote.storage.enable": True}, IllegalArgumentError),
        ({"segment.bytes": 14}, IllegalArgumentError),
        ({"preallocate": "yes"}, IllegalArgumentError),
        ({"retention.ms": [1]}, ArgumentTypeError),
        ({5: "retention.ms"}, ArgumentTypeError),
        ([("retention.ms", 1)], ArgumentTypeError),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(tmp_path: Path, config, error):
    """[CFG-37, CFG-38, CFG-39, CFG-42]"""
    with segstore.open_dir(tmp_path) as logs:
        with pytest.raises(error):
            logs.create_topic("orders", config=config)
        assert logs.topics() == {}
        logs.create_topic("orders")
        before = (tmp_path / TOPICS_FILE).read_bytes()
        with pytest.raises(error):
            logs.alter_topic("orders", config)
        assert (tmp_path / TOPICS_FILE).read_bytes() == before


def test_a_setting_of_a_later_version_can_be_taken_back(tmp_path: Path, monkeypatch):
    """[CFG-50] One that is not set too, if it is known; both change nothing else."""
    with segstore.open_dir(tmp_path) as logs:
        with monkeypatch.context() as later:
            keys = {**TOPIC_KEYS, "later": TOPIC_KEYS["preallocate"]}
            later.setattr("segstore.config.topic_properties.TOPIC_KEYS", keys)
            logs.create_topic("orders", config={"later": True, "retention.ms": 5})
        with pytest.raises(InvalidConfigurationError, match="later"):
            logs.alter_topic("orders", {"retention.ms": 6})
        logs.alter_topic("orders", {"later": None, "retention.bytes": None})
        logs.alter_topic("orders", {"retention.ms": 6})
        assert setting(logs, "orders", "retention.ms") == (6, SettingSource.TOPIC)


def test_no_such_topic(tmp_path: Path):
    with segstore.open_dir(tmp_path) as logs:
        for call in (lambda: logs.alter_topic("a", {}), lambda: logs.describe_topic("a")):
            with pytest.raises(UnknownTopicOrPartitionError, match="create_topic"):
                call()


def test_a_damaged_file_is_never_guessed(tmp_path: Path):
    """[DUR-11] A change is refused; logs open, and nobody says what their settings are."""
    with segstore.open_dir(tmp_path) as logs:
        logs.create_topic("orders", config={"retention.ms": 1})
    file = tmp_path / TOPICS_FILE
    file.write_bytes(file.read_bytes().replace(b'"retention.ms":"1"', b'"retention.ms":"2"'))
    with segstore.open_dir(tmp_path) as logs:
        logs.log("orders", 0).append([(None, b"a")])
        for call in (lambda: logs.alter_topic("orders", {}), lambda: logs.describe_topic("orders")):
            with pytest.raises(CorruptCheckpointError, match="checksum"):
                call()


# ---- a log that is opened alone ------------------------------------------------------------------


def test_a_log_that_is_opened_alone_has_the_settings_of_its_topic(tmp_path: Path):
    """[CFG-50, DUR-128] What its caller sets comes first."""
    given = {"retention.ms": WEEK_MS, "segment.bytes": 2097152, "flush.messages": 7}
    with segstore.open_dir(tmp_path) as logs:
        logs.create_topic("orders", config=given)
    path = tmp_path / "orders-0"
    with segstore.open(path, durability="none") as log:
        assert (log.config.retention_ms, log.config.segment_bytes) == (WEEK_MS, 2097152)
        assert log.config.retention_bytes == -1
        assert log.durability.messages == 7
    with segstore.open(path, segment_bytes=3_000_000, config=LogConfig(retention_ms=9)) as log:
        assert (log.config.retention_ms, log.config.segment_bytes) == (9, 3_000_000)
        assert log.config.flush_messages == 7
    with segstore.open(path, read_only=True) as log:
        assert log.config.retention_ms == WEEK_MS


def test_a_log_of_a_topic_that_has_no_limit_deletes_nothing(tmp_path: Path):
    """[DUR-128, RTN-2] DESIGN D16: no default deletes, also where a log is opened alone."""
    with segstore.open_dir(tmp_path) as logs:
        logs.create_topic("orders")
        assert logs.log("orders", 0).config.retention_ms is None
    with segstore.open(tmp_path / "orders-0") as log:
        log.append([(1, None, b"of 1970")])
        log.roll()
        assert log.config.retention_ms is None
        assert log.delete_old_segments() == []
    with segstore.open(tmp_path / "orders-0", recovery="kafka") as log:
        assert log.config.retention_ms == WEEK_MS


def test_a_damaged_file_is_a_warning_and_deletes_nothing(tmp_path: Path):
    """[DUR-128] Appends and reads go on; what the caller sets counts."""
    with segstore.open_dir(tmp_path) as logs:
        logs.create_topic("orders", config={"retention.ms": 1})
    (tmp_path / TOPICS_FILE).write_bytes(b"?")
    with segstore.open(tmp_path / "orders-0") as log:
        assert "the settings of topic 'orders' are unknown" in log.report.warnings[0]
        assert log.config.retention_ms is None
        log.append([(None, b"a")])
    with segstore.open(tmp_path / "orders-0", retention_ms=5) as log:
        assert log.config.retention_ms == 5
    with segstore.open(tmp_path / "orders-0", read_only=True) as log:
        assert "are unknown" in log.report.warnings[0]


def test_what_the_directory_is_opened_with_counts_also_where_it_is_the_default(tmp_path: Path):
    """[CFG-52] ``open_dir(retention_ms=a week)`` keeps a week."""
    with segstore.open_dir(tmp_path, retention_ms=WEEK_MS) as logs:
        logs.create_topic("orders")
        assert setting(logs, "orders", "retention.ms") == (WEEK_MS, SettingSource.DIRECTORY)
        assert logs.log("orders", 0).config.retention_ms == WEEK_MS


def made_again(path: Path) -> uuid.UUID:
    """Make a topic with settings, and by other means its only partition again; return the id."""
    with segstore.open_dir(path) as logs:
        logs.create_topic("t", config={"retention.ms": 1})
    shutil.rmtree(path / "t-0")
    topic_id = uuid.uuid4()
    with segstore.open(path / "t-0", topic_id=topic_id, internal_segment_bytes=300) as log:
        for _ in range(4):
            log.append([(1, None, bytes(100))])
    return topic_id


def test_settings_of_an_older_topic_do_not_count(tmp_path: Path):
    """[DUR-120, DUR-128] Its id is another: they would delete the records of the new one."""
    topic_id = made_again(tmp_path)
    with segstore.open_dir(tmp_path) as logs:
        assert logs.describe_topic("t").topic_id == topic_id
        assert setting(logs, "t", "retention.ms") == (None, SettingSource.NOT_SET)
        assert logs.maintain().deleted == ()
        assert logs.log("t", 0).delete_old_segments() == []
    with segstore.open(tmp_path / "t-0") as log:
        assert log.config.retention_ms is None
        assert any("with another id" in one for one in log.report.warnings)


def test_a_topic_that_was_made_again_gets_settings_of_its_own(tmp_path: Path):
    """[MGR-96] And partitions with its own id, so that it can be deleted as a whole."""
    topic_id = made_again(tmp_path)
    with segstore.open_dir(tmp_path) as logs:
        described = logs.alter_topic("t", {"retention.bytes": 10**9}, partitions=2)
        assert described.topic_id == topic_id
        assert setting(logs, "t", "retention.ms") == (None, SettingSource.NOT_SET)
        assert setting(logs, "t", "retention.bytes") == (10**9, SettingSource.TOPIC)
        assert {logs.log("t", number).topic_id for number in (0, 1)} == {topic_id}
        logs.delete_topic("t")
        assert logs.topics() == {}


@pytest.mark.parametrize("error", [ClosedError("closed"), LogReadOnlyError("it has failed")])
def test_a_log_that_cannot_take_settings_keeps_no_other_from_them(
    tmp_path: Path, monkeypatch, error: segstore.SegstoreError
):
    """[MGR-95] The others would go on deleting by a limit that was taken back."""
    with segstore.open_dir(tmp_path) as logs:
        logs.create_topic("orders", 3, config={"retention.ms": WEEK_MS})
        open_logs = [logs.log("orders", number) for number in range(3)]
        real = UnifiedLog.update_config

        def update(log: UnifiedLog, config: LogConfig) -> LogConfig:
            if log is open_logs[0]:
                raise error
            return real(log, config)

        monkeypatch.setattr(UnifiedLog, "update_config", update)
        if isinstance(error, ClosedError):
            logs.alter_topic("orders", {"retention.ms": -1})
        else:
            with pytest.raises(LogReadOnlyError) as raised:
                logs.alter_topic("orders", {"retention.ms": -1})
            assert "orders-0 goes by them after its next open" in raised.value.__notes__[-1]
        assert [log.config.retention_ms for log in open_logs[1:]] == [None, None]
        assert setting(logs, "orders", "retention.ms") == (-1, SettingSource.TOPIC)


def test_logs_with_equal_settings_share_them(tmp_path: Path):
    """[CFG-50] They are worked out once, and not for each log that is opened."""
    with segstore.open_dir(tmp_path) as logs:
        logs.create_topic("a", 2, config={"retention.ms": WEEK_MS})
        logs.create_topic("b", config={"retention.ms": WEEK_MS})
        logs.create_topic("c", config={"retention.ms": 1})
        first = logs.log("a", 0).config
        assert logs.log("a", 1).config is first
        assert logs.log("b", 0).config is first
        assert logs.log("c", 0).config is not first


def test_a_topic_is_deleted_while_it_is_described(tmp_path: Path, monkeypatch):
    with segstore.open_dir(tmp_path) as logs:
        logs.create_topic("orders")
        look = logs._numbers_of

        def look_and_delete(topic: str):
            numbers = look(topic)
            logs.delete_topic(topic)
            return numbers

        monkeypatch.setattr(logs, "_numbers_of", look_and_delete)
        with pytest.raises(UnknownTopicOrPartitionError, match="no topic 'orders'"):
            logs.describe_topic("orders")
