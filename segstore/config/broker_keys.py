"""The settings of a broker that a log directory goes by: its own, and the defaults of its topics.

Source: [CFG-52, CFG-60…CFG-81, CFG-84, CFG-85], Kafka's ``KafkaConfig``, ``CleanerConfig`` and
``MetadataLogConfig`` of 4.4.0.
"""

from __future__ import annotations

import sys
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from segstore.config.config_key import ConfigKey, ConfigType
from segstore.config.remote_log_keys import REMOTE_LOG_KEYS
from segstore.config.topic_keys import TOPIC_KEYS
from segstore.number_limits import MAX_LONG

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_HOUR_MS: Final = 3600 * 1000
_MINUTE_MS: Final = 60 * 1000

_boolean = partial(ConfigKey, type=ConfigType.BOOLEAN)
_int = partial(ConfigKey, type=ConfigType.INT)
_long = partial(ConfigKey, type=ConfigType.LONG)
_double = partial(ConfigKey, type=ConfigType.DOUBLE)
_list = partial(ConfigKey, type=ConfigType.LIST)

UNIT_MS: Final[Mapping[str, int]] = {
    "log.retention.minutes": _MINUTE_MS,
    "log.retention.hours": _HOUR_MS,
    "log.roll.hours": _HOUR_MS,
    "log.roll.jitter.hours": _HOUR_MS,
}
"""Milliseconds in one of a key that counts something else."""

# What differs from the topic's key: a broker's own type, or a default that another key has.
_UNLIKE_TOPIC: Final = (
    _long(
        name="log.flush.interval.ms",
        default=None,
        documentation="A log that was not synced for this long, in ms, is synced.",
    ),
    _long(
        name="log.flush.scheduler.interval.ms",
        default=MAX_LONG,
        documentation="How often background work looks for logs to sync, in ms.",
    ),
    _int(
        name="log.retention.hours",
        default=168,
        documentation="Age in hours at which a segment is deleted; -1 is no limit.",
    ),
    _int(
        name="log.retention.minutes",
        default=None,
        documentation="Age in minutes at which a segment is deleted; -1 is no limit.",
    ),
    _long(
        name="log.retention.ms",
        default=None,
        documentation="Age in ms at which a segment is deleted; -1 is no limit.",
    ),
    _int(
        name="log.roll.hours",
        default=168,
        low=1,
        documentation="Age in hours at which an append begins another segment.",
    ),
    _int(
        name="log.roll.jitter.hours",
        default=0,
        low=0,
        documentation="Up to this much, in hours, is taken off the age, at random.",
    ),
    _long(
        name="log.roll.jitter.ms",
        default=None,
        documentation="Up to this much, in ms, is taken off the age, at random.",
    ),
    _long(
        name="log.roll.ms",
        default=None,
        documentation="Age in ms at which an append begins another segment.",
    ),
)

_OWN: Final = (
    _list(
        name="cordoned.log.dirs",
        default=(),
        documentation="Log directories that get no new partition; * is all of them.",
    ),
    _long(
        name="internal.metadata.delete.delay.millis",
        default=60000,
        is_internal=True,
        documentation="Time in ms between the renaming of a deleted file of the metadata log and"
        " its removal.",
    ),
    _int(
        name="internal.metadata.log.segment.bytes",
        default=None,
        is_internal=True,
        documentation="Replaces metadata.log.segment.bytes, without its lower bound. For tests.",
    ),
    _int(
        name="internal.metadata.max.batch.size.in.bytes",
        default=8 * 1024 * 1024,
        is_internal=True,
        documentation="Size in bytes of the largest batch of the metadata log.",
    ),
    _long(
        name="log.cleaner.backoff.ms",
        default=15000,
        low=0,
        documentation="How long, in ms, compaction waits where no log is due.",
    ),
    _long(
        name="log.cleaner.dedupe.buffer.size",
        default=134217728,
        documentation="Bytes of memory for keys, in all threads of compaction.",
    ),
    _boolean(
        name="log.cleaner.enable",
        default=True,
        documentation="Logs with the policy compact are compacted.",
    ),
    _double(
        name="log.cleaner.io.buffer.load.factor",
        default=0.9,
        documentation="Share of the memory for keys that is used.",
    ),
    _int(
        name="log.cleaner.io.buffer.size",
        default=524288,
        low=0,
        documentation="Bytes of the buffers for reads and writes, in all threads of compaction.",
    ),
    _double(
        name="log.cleaner.io.max.bytes.per.second",
        default=sys.float_info.max,
        documentation="Bytes that compaction may read and write in a second.",
    ),
    _int(
        name="log.cleaner.threads",
        default=1,
        low=0,
        documentation="Threads of compaction.",
    ),
    _list(
        name="log.dir",
        default=("/tmp/kafka-logs",),  # noqa: S108 - Kafka's default, as it is
        must_not_be_empty=True,
        documentation="Log directories, where log.dirs is not set.",
    ),
    _long(
        name="log.dir.failure.timeout.ms",
        default=30000,
        low=1,
        documentation="How long, in ms, a broker tries to report a directory that failed.",
    ),
    _list(
        name="log.dirs",
        default=None,
        must_not_be_empty=True,
        documentation="Log directories.",
    ),
    _int(
        name="log.flush.offset.checkpoint.interval.ms",
        default=60000,
        low=0,
        documentation="How often, in ms, the recovery points are written.",
    ),
    _int(
        name="log.flush.start.offset.checkpoint.interval.ms",
        default=60000,
        low=0,
        documentation="How often, in ms, the log start offsets are written.",
    ),
    _long(
        name="log.initial.task.delay.ms",
        default=30000,
        low=0,
        is_internal=True,
        documentation="How long, in ms, background work waits before it begins.",
    ),
    _long(
        name="log.retention.check.interval.ms",
        default=300000,
        low=1,
        documentation="How often, in ms, background work looks for segments to delete.",
    ),
    _long(
        name="metadata.log.max.record.bytes.between.snapshots",
        default=20 * 1024 * 1024,
        low=1,
        documentation="A snapshot of the metadata is due after this many bytes of records.",
    ),
    _long(
        name="metadata.log.max.snapshot.interval.ms",
        default=3600 * 1000,
        low=0,
        documentation="A snapshot of the metadata is due after this long, in ms; 0 is never.",
    ),
    _int(
        name="metadata.log.segment.bytes",
        default=1024 * 1024 * 1024,
        low=8 * 1024 * 1024,
        documentation="Size in bytes at which an append begins another segment of the metadata"
        " log.",
    ),
    _long(
        name="metadata.log.segment.ms",
        default=7 * 24 * _HOUR_MS,
        documentation="Age in ms at which an append begins another segment of the metadata log.",
    ),
    _long(
        name="metadata.max.retention.bytes",
        default=100 * 1024 * 1024,
        documentation="Limit in bytes of the metadata log and its snapshots.",
    ),
    _long(
        name="metadata.max.retention.ms",
        default=7 * 24 * _HOUR_MS,
        documentation="Age in ms at which a snapshot of the metadata is deleted, but for the last.",
    ),
    _int(
        name="num.recovery.threads.per.data.dir",
        default=2,
        low=1,
        documentation="Threads that open, recover and close the logs of one directory.",
    ),
    _int(
        name="producer.id.expiration.check.interval.ms",
        default=600000,
        low=1,
        documentation="How often, in ms, background work looks for producers that are silent.",
    ),
    _int(
        name="producer.id.expiration.ms",
        default=86400000,
        low=1,
        documentation="A producer that is silent for this long, in ms, is forgotten.",
    ),
    _long(
        name="replica.high.watermark.checkpoint.interval.ms",
        default=5000,
        documentation="How often, in ms, the high watermarks are written.",
    ),
    _int(
        name="transaction.max.timeout.ms",
        default=900000,
        low=1,
        documentation="Longest time, in ms, that a transaction may stay open.",
    ),
    _boolean(
        name="transaction.partition.verification.enable",
        default=True,
        documentation="A transaction is verified before its first append.",
    ),
)


def _of_topics() -> Iterator[ConfigKey]:
    """Yield the keys that give the default of a topic's, with its type, range and default."""
    unlike = {key.name for key in _UNLIKE_TOPIC}
    for key in TOPIC_KEYS.values():
        for name in key.synonyms:
            if name not in unlike:
                yield key._replace(name=name, synonyms=())


BROKER_KEYS: Final[Mapping[str, ConfigKey]] = MappingProxyType(
    {key.name: key for key in sorted((*_of_topics(), *_UNLIKE_TOPIC, *_OWN, *REMOTE_LOG_KEYS))}
)
"""All of them by name, ascending."""
