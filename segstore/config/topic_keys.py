"""Every setting of a topic, with the keys of a broker that give its default.

Source: [CFG-1…CFG-36, CFG-52, CFG-82, CFG-83], Kafka's ``LogConfig`` and
``ServerTopicConfigSynonyms`` of 4.4.0.
"""

from __future__ import annotations

from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from segstore.config.config_key import ConfigKey, ConfigType
from segstore.number_limits import MAX_LONG

if TYPE_CHECKING:
    from collections.abc import Mapping

COMPRESSION_TYPES: Final = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
SAME_AS_TOTAL: Final = -2
"""A limit of the local part of a tiered log that is the one of the whole log."""
NO_LIMIT: Final = -1
SAME_AS_LOCAL: Final = -1
"""A lag before segments are copied that is the limit of the local part."""

MAX_DECOMPRESSED_MESSAGE_BYTES: Final = 2**31 - 9
"""The largest array of a Java machine: no record of a broker is larger."""

_DAY: Final = 24 * 3600 * 1000

_boolean = partial(ConfigKey, type=ConfigType.BOOLEAN)
_int = partial(ConfigKey, type=ConfigType.INT)
_long = partial(ConfigKey, type=ConfigType.LONG)
_string = partial(ConfigKey, type=ConfigType.STRING)
_list = partial(ConfigKey, type=ConfigType.LIST)

_KEYS: Final = (
    _list(
        name="cleanup.policy",
        default=("delete",),
        choices=("compact", "delete"),
        documentation="What happens to old segments: delete removes them, compact keeps the last"
        " value of each key. Both and neither are allowed.",
        synonyms=("log.cleanup.policy",),
    ),
    _int(
        name="compression.gzip.level",
        default=-1,
        low=1,
        high=9,
        also=-1,
        documentation="Level of gzip where an append compresses; -1 is gzip's own default.",
        synonyms=("compression.gzip.level",),
    ),
    _int(
        name="compression.lz4.level",
        default=9,
        low=1,
        high=17,
        documentation="Level of lz4 where an append compresses.",
        synonyms=("compression.lz4.level",),
    ),
    _string(
        name="compression.type",
        default="producer",
        choices=COMPRESSION_TYPES,
        documentation="Codec of stored batches; producer keeps the one that a batch came with.",
        synonyms=("compression.type",),
    ),
    _int(
        name="compression.zstd.level",
        default=3,
        low=-131072,
        high=22,
        documentation="Level of zstd where an append compresses.",
        synonyms=("compression.zstd.level",),
    ),
    _long(
        name="delete.retention.ms",
        default=_DAY,
        low=0,
        documentation="Time in ms for which compaction keeps a tombstone, or the marker of a"
        " transaction without records.",
        synonyms=("log.cleaner.delete.retention.ms",),
    ),
    _boolean(
        name="errors.deadletterqueue.group.enable",
        default=False,
        documentation="Whether share groups may use the topic as a dead letter queue. It is"
        " stored, and has no effect here.",
    ),
    _long(
        name="file.delete.delay.ms",
        default=60000,
        low=0,
        documentation="Time in ms between the renaming of a deleted file and its removal.",
        synonyms=("log.segment.delete.delay.ms",),
    ),
    _long(
        name="flush.messages",
        default=MAX_LONG,
        low=1,
        documentation="An append syncs the log when it has this many records that are not synced.",
        synonyms=("log.flush.interval.messages",),
    ),
    _long(
        name="flush.ms",
        default=MAX_LONG,
        low=0,
        documentation="Background work syncs a log that was not synced for this long, in ms.",
        synonyms=("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    ),
    _list(
        name="follower.replication.throttled.replicas",
        default=(),
        is_replicas=True,
        documentation="Replicas whose fetches a broker slows down. It is stored, and has no effect"
        " here.",
    ),
    _int(
        name="index.interval.bytes",
        default=4096,
        low=0,
        documentation="An index gets an entry after this many bytes of batches.",
        synonyms=("log.index.interval.bytes",),
    ),
    _int(
        name="internal.segment.bytes",
        default=None,
        documentation="Replaces segment.bytes, without its lower bound. For tests.",
        is_internal=True,
    ),
    _list(
        name="leader.replication.throttled.replicas",
        default=(),
        is_replicas=True,
        documentation="Replicas for which a leader slows down. It is stored, and has no effect"
        " here.",
    ),
    _long(
        name="local.retention.bytes",
        default=SAME_AS_TOTAL,
        low=-2,
        documentation="Limit in bytes of the local part of a tiered log; -2 is retention.bytes,"
        " -1 no limit.",
        synonyms=("log.local.retention.bytes",),
    ),
    _long(
        name="local.retention.ms",
        default=SAME_AS_TOTAL,
        low=-2,
        documentation="Limit in ms of the age of the local part of a tiered log; -2 is"
        " retention.ms, -1 no limit.",
        synonyms=("log.local.retention.ms",),
    ),
    _long(
        name="max.compaction.lag.ms",
        default=MAX_LONG,
        low=1,
        documentation="A record that was not compacted for this long, in ms, makes its log due.",
        synonyms=("log.cleaner.max.compaction.lag.ms",),
    ),
    _int(
        name="max.decompressed.message.bytes",
        default=MAX_DECOMPRESSED_MESSAGE_BYTES,
        low=1,
        high=MAX_DECOMPRESSED_MESSAGE_BYTES,
        documentation="Size in bytes of the largest record of a compressed batch that an append"
        " takes.",
        synonyms=("max.decompressed.message.bytes",),
    ),
    _int(
        name="max.message.bytes",
        default=1024 * 1024 + 12,
        low=0,
        documentation="Size in bytes of the largest batch that an append takes.",
        synonyms=("message.max.bytes",),
    ),
    _long(
        name="message.timestamp.after.max.ms",
        default=3600 * 1000,
        low=0,
        documentation="An append refuses a record that is this much later than now, in ms.",
        synonyms=("log.message.timestamp.after.max.ms",),
    ),
    _long(
        name="message.timestamp.before.max.ms",
        default=MAX_LONG,
        low=0,
        documentation="An append refuses a record that is this much earlier than now, in ms.",
        synonyms=("log.message.timestamp.before.max.ms",),
    ),
    _string(
        name="message.timestamp.type",
        default="CreateTime",
        choices=("CreateTime", "LogAppendTime"),
        documentation="Whether records keep their own time or get the time of the append.",
        synonyms=("log.message.timestamp.type",),
    ),
    ConfigKey(
        name="min.cleanable.dirty.ratio",
        type=ConfigType.DOUBLE,
        default=0.5,
        low=0,
        high=1,
        documentation="A log is compacted when more than this share of its bytes was not yet.",
        synonyms=("log.cleaner.min.cleanable.ratio",),
    ),
    _long(
        name="min.compaction.lag.ms",
        default=0,
        low=0,
        documentation="Records that are younger than this, in ms, are not compacted.",
        synonyms=("log.cleaner.min.compaction.lag.ms",),
    ),
    _int(
        name="min.insync.replicas",
        default=1,
        low=1,
        documentation="Replicas that must have a record before a broker acknowledges it. It is"
        " stored, and has no effect here.",
        synonyms=("min.insync.replicas",),
    ),
    _boolean(
        name="preallocate",
        default=False,
        documentation="A new .log file gets its full size at once.",
        synonyms=("log.preallocate",),
    ),
    _long(
        name="remote.copy.lag.bytes",
        default=NO_LIMIT,
        low=-1,
        documentation="A tiered log copies a segment when more than this many bytes follow it; -1"
        " is the limit of the local part.",
        synonyms=("log.remote.copy.lag.bytes",),
    ),
    _long(
        name="remote.copy.lag.ms",
        default=0,
        low=-1,
        documentation="A tiered log copies a segment when it is older than this, in ms; -1 is the"
        " limit of the local part.",
        synonyms=("log.remote.copy.lag.ms",),
    ),
    _boolean(
        name="remote.log.copy.disable",
        default=False,
        documentation="A tiered log copies no more segments; those that it copied are read.",
    ),
    _boolean(
        name="remote.log.delete.on.disable",
        default=False,
        documentation="Tiered storage may be switched off, which deletes the remote part.",
    ),
    _boolean(
        name="remote.storage.enable",
        default=False,
        documentation="The log is tiered: its sealed segments are copied to remote storage.",
    ),
    _long(
        name="retention.bytes",
        default=NO_LIMIT,
        documentation="Limit in bytes of a partition: older segments are deleted. -1 is no limit.",
        synonyms=("log.retention.bytes",),
    ),
    _long(
        name="retention.ms",
        default=7 * _DAY,
        low=-1,
        documentation="Age in ms of a segment's latest record at which the segment is deleted. -1"
        " is no limit.",
        synonyms=("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    ),
    _int(
        name="segment.bytes",
        default=1024 * 1024 * 1024,
        low=1024 * 1024,
        documentation="Size in bytes at which an append begins another segment.",
        synonyms=("log.segment.bytes",),
    ),
    _int(
        name="segment.index.bytes",
        default=10 * 1024 * 1024,
        low=4,
        documentation="Largest size in bytes of an index; a full one ends its segment.",
        synonyms=("log.index.size.max.bytes",),
    ),
    _long(
        name="segment.jitter.ms",
        default=0,
        low=0,
        documentation="Up to this much, in ms, is taken off segment.ms at random, so that not all"
        " logs begin another segment at once.",
        synonyms=("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ),
    _long(
        name="segment.ms",
        default=7 * _DAY,
        low=1,
        documentation="Age in ms at which an append begins another segment.",
        synonyms=("log.roll.ms", "log.roll.hours"),
    ),
    _boolean(
        name="unclean.leader.election.enable",
        default=False,
        documentation="Whether a replica that lacks records may lead. It is stored, and has no"
        " effect here.",
        synonyms=("unclean.leader.election.enable",),
    ),
)

TOPIC_KEYS: Final[Mapping[str, ConfigKey]] = MappingProxyType({key.name: key for key in _KEYS})
"""All of them by name, ascending."""
