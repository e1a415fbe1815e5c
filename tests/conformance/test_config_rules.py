"""Settings as the rules say them, key by key: type, default, range, the broker's names [CFG-*].

The tables are written by hand from the rules. A value at each bound is taken, one beyond it is
refused.
"""

from __future__ import annotations

import sys
from typing import Any, Final, NamedTuple

import pytest

from segstore import LogConfig
from segstore.config.broker_config import BrokerConfig, topic_properties_of
from segstore.config.broker_keys import BROKER_KEYS
from segstore.config.config_key import ConfigType
from segstore.config.topic_keys import TOPIC_KEYS
from segstore.config.topic_properties import check_properties
from segstore.errors import IllegalArgumentError

MAX: Final = 2**63 - 1
MAX_INT: Final = 2**31 - 1
INT_BEYOND: Final = (-(2**31) - 1, 2**31)
LONG_BEYOND: Final = (-(2**63) - 1, 2**63)
BOOLEANS: Final = ("true", "false", "TRUE")
NO_BOOLEANS: Final = ("0", "yes", "")
WEEK: Final = 604_800_000
HOUR: Final = 3_600_000


class Row(NamedTuple):
    """One key of a topic: what its rule says.

    ``broker`` has the broker's keys in the order of their priority.
    """

    rule: str
    name: str
    type: str
    default: Any
    taken: tuple[Any, ...]
    refused: tuple[Any, ...]
    broker: tuple[str, ...] = ()


def at_least(low: int, type_name: str) -> tuple[tuple[int, ...], tuple[Any, ...]]:
    """Return what a number from *low* on takes and refuses: each bound, and one beyond it."""
    most = MAX_INT if type_name == "int" else MAX
    return (low, most), (low - 1, most + 1, "1.5", "many", "")


TOPIC_TABLE: Final = (
    Row(
        "[CFG-1]",
        "segment.bytes",
        "int",
        1073741824,
        *at_least(1048576, "int"),
        ("log.segment.bytes",),
    ),
    Row(
        "[CFG-2]",
        "segment.ms",
        "long",
        WEEK,
        *at_least(1, "long"),
        ("log.roll.ms", "log.roll.hours"),
    ),
    Row(
        "[CFG-3]",
        *("segment.jitter.ms", "long", 0, *at_least(0, "long")),
        ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ),
    Row(
        "[CFG-4]",
        "segment.index.bytes",
        "int",
        10485760,
        *at_least(4, "int"),
        ("log.index.size.max.bytes",),
    ),
    Row(
        "[CFG-5]",
        "flush.messages",
        "long",
        MAX,
        *at_least(1, "long"),
        ("log.flush.interval.messages",),
    ),
    Row(
        "[CFG-6]",
        *("flush.ms", "long", MAX, *at_least(0, "long")),
        ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    ),
    Row(
        "[CFG-7]",
        "retention.bytes",
        "long",
        -1,
        (-(2**63), -1, MAX),
        LONG_BEYOND,
        ("log.retention.bytes",),
    ),
    Row(
        "[CFG-8]",
        *("retention.ms", "long", WEEK, *at_least(-1, "long")),
        ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    ),
    Row(
        "[CFG-9]", "max.message.bytes", "int", 1048588, *at_least(0, "int"), ("message.max.bytes",)
    ),
    Row(
        "[CFG-10]",
        "index.interval.bytes",
        "int",
        4096,
        *at_least(0, "int"),
        ("log.index.interval.bytes",),
    ),
    Row(
        "[CFG-11]",
        *("delete.retention.ms", "long", 86400000, *at_least(0, "long")),
        ("log.cleaner.delete.retention.ms",),
    ),
    Row(
        "[CFG-12]",
        *("min.compaction.lag.ms", "long", 0, *at_least(0, "long")),
        ("log.cleaner.min.compaction.lag.ms",),
    ),
    Row(
        "[CFG-13]",
        *("max.compaction.lag.ms", "long", MAX, *at_least(1, "long")),
        ("log.cleaner.max.compaction.lag.ms",),
    ),
    Row(
        "[CFG-14]",
        *("file.delete.delay.ms", "long", 60000, *at_least(0, "long")),
        ("log.segment.delete.delay.ms",),
    ),
    Row(
        "[CFG-15]",
        *("min.cleanable.dirty.ratio", "double", 0.5, (0, 1, "0.25"), ("-0.01", "1.01", "half")),
        ("log.cleaner.min.cleanable.ratio",),
    ),
    Row(
        "[CFG-16]",
        *("cleanup.policy", "list", ("delete",)),
        *(("compact", "delete", "compact, delete", ""), ("Delete", "forget", "delete,", "a,,b")),
        ("log.cleanup.policy",),
    ),
    Row(
        "[CFG-17]",
        *("unclean.leader.election.enable", "boolean", False, BOOLEANS, NO_BOOLEANS),
        ("unclean.leader.election.enable",),
    ),
    Row("[CFG-18]", "min.insync.replicas", "int", 1, *at_least(1, "int"), ("min.insync.replicas",)),
    Row(
        "[CFG-19]",
        *("compression.type", "string", "producer"),
        ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        *(("none", "ZSTD", ""), ("compression.type",)),
    ),
    Row(
        "[CFG-20]",
        *("compression.gzip.level", "int", -1, (-1, 1, 9), (-2, 0, 10)),
        ("compression.gzip.level",),
    ),
    Row(
        "[CFG-21]", "compression.lz4.level", "int", 9, (1, 17), (0, 18), ("compression.lz4.level",)
    ),
    Row(
        "[CFG-22]",
        *("compression.zstd.level", "int", 3, (-131072, 0, 22), (-131073, 23)),
        ("compression.zstd.level",),
    ),
    Row("[CFG-23]", "preallocate", "boolean", False, BOOLEANS, NO_BOOLEANS, ("log.preallocate",)),
    Row(
        "[CFG-24]",
        *("message.timestamp.type", "string", "CreateTime", ("CreateTime", "LogAppendTime")),
        *(("createtime", "NoTimestampType", ""), ("log.message.timestamp.type",)),
    ),
    Row(
        "[CFG-25]",
        *("message.timestamp.before.max.ms", "long", MAX, *at_least(0, "long")),
        ("log.message.timestamp.before.max.ms",),
    ),
    Row(
        "[CFG-26]",
        *("message.timestamp.after.max.ms", "long", HOUR, *at_least(0, "long")),
        ("log.message.timestamp.after.max.ms",),
    ),
    Row(
        "[CFG-27]",
        *("leader.replication.throttled.replicas", "list", ()),
        *(("", "*", "0:1", "0:1, 2:3", "0:1,,"), ("0", "0:", ":1", "0 :1", "*,0:1", "-1:0")),
    ),
    Row(
        "[CFG-28]",
        *("follower.replication.throttled.replicas", "list", ()),
        *(("", "*", "0:1", "0:1, 2:3", "0:1,,"), ("0", "0:", ":1", "0 :1", "*,0:1", "-1:0")),
    ),
    Row("[CFG-29]", "remote.storage.enable", "boolean", False, BOOLEANS, NO_BOOLEANS),
    Row(
        "[CFG-30]",
        "local.retention.ms",
        "long",
        -2,
        *at_least(-2, "long"),
        ("log.local.retention.ms",),
    ),
    Row(
        "[CFG-31]",
        *("local.retention.bytes", "long", -2, *at_least(-2, "long")),
        ("log.local.retention.bytes",),
    ),
    Row("[CFG-32]", "remote.log.copy.disable", "boolean", False, BOOLEANS, NO_BOOLEANS),
    Row("[CFG-33]", "remote.log.delete.on.disable", "boolean", False, BOOLEANS, NO_BOOLEANS),
    Row(
        "[CFG-34]",
        "remote.copy.lag.ms",
        "long",
        0,
        *at_least(-1, "long"),
        ("log.remote.copy.lag.ms",),
    ),
    Row(
        "[CFG-35]",
        *("remote.copy.lag.bytes", "long", -1, *at_least(-1, "long")),
        ("log.remote.copy.lag.bytes",),
    ),
    Row("[CFG-36]", "internal.segment.bytes", "int", None, (-(2**31), 1, MAX_INT), INT_BEYOND),
    Row(
        "[CFG-82]",
        *("max.decompressed.message.bytes", "int", 2147483639, (1, 2147483639), (0, 2147483640)),
        ("max.decompressed.message.bytes",),
    ),
    Row("[CFG-83]", "errors.deadletterqueue.group.enable", "boolean", False, BOOLEANS, NO_BOOLEANS),
)
BY_NAME: Final = pytest.mark.parametrize("row", TOPIC_TABLE, ids=lambda row: row.name)

IN_UNITS: Final = {
    "log.retention.minutes": 60_000,
    "log.retention.hours": HOUR,
    "log.roll.hours": HOUR,
    "log.roll.jitter.hours": HOUR,
}
"""Milliseconds in one of a broker's key that counts something else."""


def test_the_keys_of_a_topic_are_those_of_the_rules():
    """[CFG-1..CFG-36, CFG-82, CFG-83] No key more, none less, and by name."""
    assert [*TOPIC_KEYS] == sorted(row.name for row in TOPIC_TABLE)


@BY_NAME
def test_a_key_of_a_topic(row: Row):
    """[CFG-1..CFG-36, CFG-39, CFG-82, CFG-83] Its type, default, range and documentation."""
    key = TOPIC_KEYS[row.name]
    assert (key.type, key.default) == (ConfigType(row.type), row.default)
    assert key.is_internal is row.name.startswith("internal.")
    assert key.documentation.endswith(".")
    for value in row.taken:
        check_properties(beside(row.name, value))
    for value in row.refused:
        with pytest.raises(IllegalArgumentError) as caught:
            check_properties({row.name: str(value)})
        assert row.name in str(caught.value)
        assert caught.value.found == repr(str(value).strip())


def beside(name: str, value: object) -> dict[str, str]:
    """Return a setting with what must go with it [CFG-38]."""
    others = {"min.compaction.lag.ms": {"max.compaction.lag.ms": str(MAX)}}
    return {**others.get(name, {}), name: str(value)}


@BY_NAME
def test_a_log_goes_by_its_topics_key(row: Row):
    """[CFG-1..CFG-36, CFG-82] A field of `LogConfig` has the key's default, and takes its values.

    Kafka takes any number for ``internal.segment.bytes``; a file here has 1 byte or more [DUR-97].
    """
    if row.name not in LogConfig().to_values():
        assert row.name in NOT_OF_LOGS
        return
    assert LogConfig().to_values()[row.name] == row.default
    for value in row.taken:
        if row.name != "internal.segment.bytes" or value > 0:
            LogConfig.from_properties({row.name: str(value)})
    for value in row.refused:
        with pytest.raises(IllegalArgumentError, match=row.name):
            LogConfig.from_properties({row.name: str(value)})


NOT_OF_LOGS: Final = {
    *("unclean.leader.election.enable", "min.insync.replicas"),
    *("leader.replication.throttled.replicas", "follower.replication.throttled.replicas"),
    *("remote.copy.lag.ms", "remote.copy.lag.bytes", "errors.deadletterqueue.group.enable"),
}
"""They are stored with a topic, and have no effect on a log here."""


@BY_NAME
def test_the_brokers_names_of_a_topics_key(row: Row):
    """[CFG-1..CFG-36, CFG-52, CFG-82, CFG-83] The first that is set wins; units become ms."""
    assert TOPIC_KEYS[row.name].synonyms == row.broker
    given = {name: str(number) for number, name in enumerate(reversed(row.broker), 1)}
    if not row.broker or not isinstance(row.default, int) or isinstance(row.default, bool):
        return
    if row.name == "segment.bytes":
        given = {name: str(1048576 + int(value)) for name, value in given.items()}
    if row.name == "segment.index.bytes":
        given = {name: str(4 + int(value)) for name, value in given.items()}
    for strongest in row.broker:
        expected = str(int(given[strongest]) * IN_UNITS.get(strongest, 1))
        assert topic_properties_of(given)[row.name] == expected
        del given[strongest]
    assert topic_properties_of(given) == {}


@BY_NAME
def test_a_broker_that_is_given_nothing(row: Row):
    """[CFG-52] Its topics have Kafka's defaults."""
    assert BrokerConfig.from_properties({}).topic_defaults[row.name] == row.default


# ---- the broker's own ----------------------------------------------------------------------------


class BrokerRow(NamedTuple):
    """One key of a broker: what its rule says."""

    rule: str
    name: str
    type: str
    default: Any
    taken: tuple[Any, ...]
    refused: tuple[Any, ...]


ANY_LONG: Final = ((-(2**63), MAX), LONG_BEYOND)
ANY_INT: Final = ((-(2**31), MAX_INT), INT_BEYOND)
ANY_TEXT: Final = (("", "some.Class"), ())
SOME_TEXT: Final = (("some.Class",), ("", " "))

BROKER_TABLE: Final = (
    BrokerRow("[CFG-60]", "log.dirs", "list", None, ("/a", "/a,/b"), ("", "/a,,/b")),
    BrokerRow("[CFG-60]", "log.dir", "list", ("/tmp/kafka-logs",), ("/a", "/a,/b"), ("",)),
    BrokerRow("[CFG-61]", "num.recovery.threads.per.data.dir", "int", 2, *at_least(1, "int")),
    BrokerRow("[CFG-62]", "log.retention.check.interval.ms", "long", 300000, *at_least(1, "long")),
    # a negative one is no flush.ms [CFG-49]
    BrokerRow("[CFG-63]", "log.flush.scheduler.interval.ms", "long", MAX, (0, MAX), LONG_BEYOND),
    BrokerRow(
        "[CFG-64]", "log.flush.offset.checkpoint.interval.ms", "int", 60000, *at_least(0, "int")
    ),
    BrokerRow(
        "[CFG-65]",
        "log.flush.start.offset.checkpoint.interval.ms",
        "int",
        60000,
        *at_least(0, "int"),
    ),
    BrokerRow("[CFG-66]", "log.initial.task.delay.ms", "long", 30000, *at_least(0, "long")),
    BrokerRow("[CFG-67]", "log.dir.failure.timeout.ms", "long", 30000, *at_least(1, "long")),
    BrokerRow("[CFG-68]", "replica.high.watermark.checkpoint.interval.ms", "long", 5000, *ANY_LONG),
    BrokerRow("[CFG-69]", "log.cleaner.enable", "boolean", True, BOOLEANS, NO_BOOLEANS),
    # without a thread there is no memory for each [CFG-49]
    BrokerRow("[CFG-70]", "log.cleaner.threads", "int", 1, (1, 127), (-1, 2**31)),
    BrokerRow(
        "[CFG-71]",
        *("log.cleaner.io.max.bytes.per.second", "double", sys.float_info.max),
        *((-1, "1e300", 0), ("fast", "")),
    ),
    BrokerRow(
        "[CFG-72]",
        "log.cleaner.dedupe.buffer.size",
        "long",
        134217728,
        (1048577, MAX),
        (1048576, 2**63),
    ),
    BrokerRow("[CFG-73]", "log.cleaner.io.buffer.size", "int", 524288, *at_least(0, "int")),
    BrokerRow(
        "[CFG-74]", "log.cleaner.io.buffer.load.factor", "double", 0.9, ("-1", "0.5", "2"), ("all",)
    ),
    BrokerRow("[CFG-75]", "log.cleaner.backoff.ms", "long", 15000, *at_least(0, "long")),
    BrokerRow("[CFG-76]", "producer.id.expiration.ms", "int", 86400000, *at_least(1, "int")),
    BrokerRow(
        "[CFG-77]", "producer.id.expiration.check.interval.ms", "int", 600000, *at_least(1, "int")
    ),
    BrokerRow("[CFG-78]", "transaction.max.timeout.ms", "int", 900000, *at_least(1, "int")),
    BrokerRow(
        "[CFG-79]", "metadata.log.segment.bytes", "int", 1073741824, *at_least(8388608, "int")
    ),
    BrokerRow("[CFG-79]", "metadata.log.segment.ms", "long", WEEK, *ANY_LONG),
    BrokerRow("[CFG-79]", "metadata.max.retention.bytes", "long", 104857600, *ANY_LONG),
    BrokerRow("[CFG-79]", "metadata.max.retention.ms", "long", WEEK, *ANY_LONG),
    BrokerRow(
        "[CFG-79]",
        *("metadata.log.max.record.bytes.between.snapshots", "long", 20971520),
        *at_least(1, "long"),
    ),
    BrokerRow(
        "[CFG-79]", "metadata.log.max.snapshot.interval.ms", "long", HOUR, *at_least(0, "long")
    ),
    BrokerRow("[CFG-80]", "internal.metadata.log.segment.bytes", "int", None, *ANY_INT),
    BrokerRow("[CFG-80]", "internal.metadata.max.batch.size.in.bytes", "int", 8388608, *ANY_INT),
    BrokerRow("[CFG-80]", "internal.metadata.delete.delay.millis", "long", 60000, *ANY_LONG),
    BrokerRow(
        "[CFG-84]",
        "cordoned.log.dirs",
        "list",
        (),
        ("", "*", "/tmp/kafka-logs"),
        ("/other", "*,/other", ","),
    ),
    BrokerRow(
        "[CFG-85]",
        "transaction.partition.verification.enable",
        "boolean",
        True,
        BOOLEANS,
        NO_BOOLEANS,
    ),
)

REMOTE: Final = "remote.log.manager"
TOPIC_BASED: Final = (
    "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager"
)
REMOTE_TABLE: Final = (
    BrokerRow(
        "[CFG-81, CFG-86]",
        "remote.log.storage.system.enable",
        "boolean",
        False,
        BOOLEANS,
        NO_BOOLEANS,
    ),
    BrokerRow(
        "[CFG-81, CFG-86]", "remote.log.storage.manager.class.name", "string", None, *SOME_TEXT
    ),
    BrokerRow(
        "[CFG-81, CFG-86]", "remote.log.storage.manager.class.path", "string", None, *ANY_TEXT
    ),
    BrokerRow(
        "[CFG-81, CFG-86]",
        "remote.log.storage.manager.impl.prefix",
        "string",
        "rsm.config.",
        *SOME_TEXT,
    ),
    BrokerRow(
        "[CFG-81, CFG-86]",
        "remote.log.metadata.manager.class.name",
        "string",
        TOPIC_BASED,
        *SOME_TEXT,
    ),
    BrokerRow(
        "[CFG-81, CFG-86]", "remote.log.metadata.manager.class.path", "string", None, *ANY_TEXT
    ),
    BrokerRow(
        "[CFG-81, CFG-86]",
        "remote.log.metadata.manager.impl.prefix",
        "string",
        "rlmm.config.",
        *SOME_TEXT,
    ),
    BrokerRow(
        "[CFG-81, CFG-86]", "remote.log.metadata.manager.listener.name", "string", None, *SOME_TEXT
    ),
    BrokerRow(
        "[CFG-81, CFG-86]",
        "remote.log.metadata.custom.metadata.max.bytes",
        "int",
        128,
        *at_least(0, "int"),
    ),
    BrokerRow(
        "[CFG-81, CFG-86]",
        *("remote.log.index.file.cache.total.size.bytes", "long", 1073741824),
        *at_least(1, "long"),
    ),
    BrokerRow(
        "[CFG-81, CFG-86]",
        "remote.log.index.file.cache.ttl.ms",
        "long",
        900000,
        *at_least(-1, "long"),
    ),
    BrokerRow("[CFG-81, CFG-86]", f"{REMOTE}.thread.pool.size", "int", 2, *at_least(1, "int")),
    BrokerRow(
        "[CFG-81, CFG-86]", f"{REMOTE}.copier.thread.pool.size", "int", 10, *at_least(1, "int")
    ),
    BrokerRow(
        "[CFG-81, CFG-86]", f"{REMOTE}.expiration.thread.pool.size", "int", 10, *at_least(1, "int")
    ),
    BrokerRow(
        "[CFG-81, CFG-86]", f"{REMOTE}.follower.thread.pool.size", "int", 2, *at_least(1, "int")
    ),
    BrokerRow(
        "[CFG-81, CFG-86]", f"{REMOTE}.task.interval.ms", "long", 30000, *at_least(1, "long")
    ),
    BrokerRow(
        "[CFG-81, CFG-86]", f"{REMOTE}.task.retry.backoff.ms", "long", 500, *at_least(1, "long")
    ),
    BrokerRow(
        "[CFG-81, CFG-86]",
        f"{REMOTE}.task.retry.backoff.max.ms",
        "long",
        30000,
        *at_least(1, "long"),
    ),
    BrokerRow(
        "[CFG-81, CFG-86]",
        f"{REMOTE}.task.retry.jitter",
        "double",
        0.2,
        (0, "0.5"),
        ("-0.1", "0.51"),
    ),
    BrokerRow("[CFG-81, CFG-86]", "remote.log.reader.threads", "int", 10, *at_least(1, "int")),
    BrokerRow(
        "[CFG-81, CFG-86]", "remote.log.reader.max.pending.tasks", "int", 100, *at_least(1, "int")
    ),
    BrokerRow(
        "[CFG-81, CFG-86]", f"{REMOTE}.copy.max.bytes.per.second", "long", MAX, *at_least(1, "long")
    ),
    BrokerRow(
        "[CFG-81, CFG-86]",
        f"{REMOTE}.fetch.max.bytes.per.second",
        "long",
        MAX,
        *at_least(1, "long"),
    ),
    BrokerRow(
        "[CFG-81, CFG-86]", f"{REMOTE}.copy.quota.window.num", "int", 11, *at_least(1, "int")
    ),
    BrokerRow(
        "[CFG-81, CFG-86]", f"{REMOTE}.fetch.quota.window.num", "int", 11, *at_least(1, "int")
    ),
    BrokerRow(
        "[CFG-81, CFG-86]",
        f"{REMOTE}.copy.quota.window.size.seconds",
        "int",
        1,
        *at_least(1, "int"),
    ),
    BrokerRow(
        "[CFG-81, CFG-86]",
        f"{REMOTE}.fetch.quota.window.size.seconds",
        "int",
        1,
        *at_least(1, "int"),
    ),
    BrokerRow("[CFG-81, CFG-86]", "remote.fetch.max.wait.ms", "int", 500, *at_least(1, "int")),
    BrokerRow(
        "[CFG-81, CFG-86]",
        "remote.list.offsets.request.timeout.ms",
        "long",
        30000,
        *at_least(1, "long"),
    ),
)
INTERNAL: Final = {
    "internal.metadata.delete.delay.millis",
    "internal.metadata.log.segment.bytes",
    "internal.metadata.max.batch.size.in.bytes",
    "log.initial.task.delay.ms",
    "remote.log.index.file.cache.ttl.ms",
}


def test_the_keys_of_a_broker_are_those_of_the_rules():
    """[CFG-52, CFG-60..CFG-81, CFG-84, CFG-85] Its own, and those that topics take over."""
    of_topics = {name for row in TOPIC_TABLE for name in row.broker}
    own = {row.name for row in (*BROKER_TABLE, *REMOTE_TABLE)}
    assert [*BROKER_KEYS] == sorted(own | of_topics)
    assert {name for name, key in BROKER_KEYS.items() if key.is_internal} == INTERNAL


@pytest.mark.parametrize("row", [*BROKER_TABLE, *REMOTE_TABLE], ids=lambda row: row.name)
def test_a_key_of_a_broker(row: BrokerRow):
    """[CFG-60..CFG-81, CFG-84..CFG-86] Its type, default, range and documentation."""
    key = BROKER_KEYS[row.name]
    assert (key.type, key.default) == (ConfigType(row.type), row.default)
    assert key.documentation.endswith(".")
    assert BrokerConfig.from_properties({}).values[row.name] == row.default
    for value in row.taken:
        given = BrokerConfig.from_properties({row.name: str(value)}).values[row.name]
        assert given == key.parse(str(value))
    for value in row.refused:
        with pytest.raises(IllegalArgumentError, match=row.name):
            BrokerConfig.from_properties({row.name: str(value)})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, ("/tmp/kafka-logs",)),
        ({"log.dir": "/a,/b"}, ("/a", "/b")),
        ({"log.dir": "/a", "log.dirs": "/b, /c, /b"}, ("/b", "/c")),
    ],
)
def test_the_log_directories(given, expected):
    """[CFG-55, CFG-60] ``log.dirs`` wins; a directory that is there twice counts once."""
    assert BrokerConfig.from_properties(given).log_dirs == expected


@pytest.mark.parametrize(
    ("given", "setting", "expected"),
    [
        ({"log.roll.ms": "1"}, "segment.ms", 1),
        ({"log.roll.ms": "0"}, None, "log.roll.ms"),
        ({"log.roll.hours": "0"}, None, "log.roll.hours"),
        ({"log.roll.jitter.ms": "0"}, "segment.jitter.ms", 0),
        ({"log.roll.jitter.ms": "-1"}, None, "log.roll.jitter.ms"),
        ({"log.roll.jitter.hours": "-1"}, None, "log.roll.jitter.hours"),
        ({"log.retention.ms": "1"}, "retention.ms", 1),
        ({"log.retention.ms": "0"}, None, "log.retention.ms"),
        ({"log.retention.minutes": "0"}, None, "log.retention.ms"),
        ({"log.retention.hours": "0"}, None, "log.retention.ms"),
        ({"log.retention.ms": "-7"}, "retention.ms", -1),
        ({"log.retention.minutes": "-7"}, "retention.ms", -1),
        ({"log.retention.hours": "-7"}, "retention.ms", -1),
        ({"log.flush.interval.ms": "0"}, "flush.ms", 0),
        ({"log.flush.interval.ms": "-1"}, None, "log.flush.interval.ms"),
        ({"log.flush.scheduler.interval.ms": "-1"}, None, "log.flush.interval.ms"),
        ({"log.flush.interval.ms": "5", "log.flush.scheduler.interval.ms": "-1"}, "flush.ms", 5),
        ({"log.dirs": " "}, None, "log.dirs"),
        ({"log.cleaner.threads": "0"}, None, "log.cleaner.threads"),
        ({"log.cleaner.threads": "128"}, None, "log.cleaner.dedupe.buffer.size"),
        # the type of another key comes first, what is cordoned last
        ({"log.roll.ms": "0", "num.recovery.threads.per.data.dir": "x"}, None, "num.recovery"),
        ({"log.roll.ms": "0", "cordoned.log.dirs": "/other"}, None, "log.roll.ms"),
    ],
)
def test_what_no_range_of_a_brokers_key_says(given, setting, expected):
    """[CFG-49]"""
    if setting is not None:
        assert BrokerConfig.from_properties(given).topic_defaults[setting] == expected
        return
    with pytest.raises(IllegalArgumentError, match=expected):
        BrokerConfig.from_properties(given)
