"""The settings of a broker's remote storage.

They are read, checked and documented. `directory_config.REMOTE_KEYS` are those that a log directory
goes by: it has no Java class to load, and no threads of its own for the tasks.

Source: [CFG-81, CFG-86], Kafka's ``RemoteLogManagerConfig`` of 4.4.0.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from segstore.config.config_key import ConfigKey, ConfigType
from segstore.number_limits import MAX_LONG

_int = partial(ConfigKey, type=ConfigType.INT, low=1)
_long = partial(ConfigKey, type=ConfigType.LONG, low=1)
_string = partial(ConfigKey, type=ConfigType.STRING)

_METADATA_MANAGER: Final = (
    "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager"
)

REMOTE_LOG_KEYS: Final = (
    _int(
        name="remote.fetch.max.wait.ms",
        default=500,
        documentation="How long, in ms, a read waits for remote storage.",
    ),
    _long(
        name="remote.list.offsets.request.timeout.ms",
        default=30000,
        documentation="How long, in ms, a search by timestamp waits for remote storage.",
    ),
    _long(
        name="remote.log.index.file.cache.total.size.bytes",
        default=1024 * 1024 * 1024,
        documentation="Bytes on disk of indexes that were fetched from remote storage.",
    ),
    _long(
        name="remote.log.index.file.cache.ttl.ms",
        default=15 * 60 * 1000,
        low=-1,
        is_internal=True,
        documentation="A fetched index that was not used for this long, in ms, is removed. 0 and"
        " -1 are no limit.",
    ),
    _long(
        name="remote.log.manager.copy.max.bytes.per.second",
        default=MAX_LONG,
        documentation="Bytes that are copied to remote storage in a second.",
    ),
    _int(
        name="remote.log.manager.copy.quota.window.num",
        default=11,
        documentation="Number of samples that the limit of copying is measured by.",
    ),
    _int(
        name="remote.log.manager.copy.quota.window.size.seconds",
        default=1,
        documentation="Length in seconds of a sample of the limit of copying.",
    ),
    _int(
        name="remote.log.manager.copier.thread.pool.size",
        default=10,
        documentation="Threads that copy segments to remote storage.",
    ),
    _int(
        name="remote.log.manager.expiration.thread.pool.size",
        default=10,
        documentation="Threads that delete expired segments in remote storage.",
    ),
    _long(
        name="remote.log.manager.fetch.max.bytes.per.second",
        default=MAX_LONG,
        documentation="Bytes that are read from remote storage in a second.",
    ),
    _int(
        name="remote.log.manager.fetch.quota.window.num",
        default=11,
        documentation="Number of samples that the limit of reading is measured by.",
    ),
    _int(
        name="remote.log.manager.fetch.quota.window.size.seconds",
        default=1,
        documentation="Length in seconds of a sample of the limit of reading.",
    ),
    _int(
        name="remote.log.manager.follower.thread.pool.size",
        default=2,
        documentation="Threads that follow what leaders have copied.",
    ),
    _long(
        name="remote.log.manager.task.interval.ms",
        default=30000,
        documentation="How often, in ms, segments to copy and to delete are looked for.",
    ),
    _long(
        name="remote.log.manager.task.retry.backoff.max.ms",
        default=30000,
        documentation="Longest wait, in ms, after a failure of remote storage.",
    ),
    _long(
        name="remote.log.manager.task.retry.backoff.ms",
        default=500,
        documentation="First wait, in ms, after a failure of remote storage; each next one is"
        " longer.",
    ),
    ConfigKey(
        name="remote.log.manager.task.retry.jitter",
        type=ConfigType.DOUBLE,
        default=0.2,
        low=0,
        high=0.5,
        documentation="Share of a wait after a failure that is added or taken off at random.",
    ),
    _int(
        name="remote.log.manager.thread.pool.size",
        default=2,
        documentation="Threads that follow what leaders have copied, where"
        " remote.log.manager.follower.thread.pool.size is not set. Deprecated.",
    ),
    _int(
        name="remote.log.metadata.custom.metadata.max.bytes",
        default=128,
        low=0,
        documentation="Largest size in bytes of what a plugin notes for a segment.",
    ),
    _string(
        name="remote.log.metadata.manager.class.name",
        default=_METADATA_MANAGER,
        must_not_be_empty=True,
        documentation="Java class of the plugin that knows the segments in remote storage.",
    ),
    _string(
        name="remote.log.metadata.manager.class.path",
        default=None,
        documentation="Java class path of the plugin that knows the segments.",
    ),
    _string(
        name="remote.log.metadata.manager.impl.prefix",
        default="rlmm.config.",
        must_not_be_empty=True,
        documentation="Settings that begin so are passed to the plugin that knows the segments.",
    ),
    _string(
        name="remote.log.metadata.manager.listener.name",
        default=None,
        must_not_be_empty=True,
        documentation="Listener of the broker that the plugin that knows the segments connects to.",
    ),
    _int(
        name="remote.log.reader.max.pending.tasks",
        default=100,
        documentation="Reads of remote storage that may wait for a thread.",
    ),
    _int(
        name="remote.log.reader.threads",
        default=10,
        documentation="Threads that read remote storage.",
    ),
    _string(
        name="remote.log.storage.manager.class.name",
        default=None,
        must_not_be_empty=True,
        documentation="Java class of the plugin that copies segments to remote storage.",
    ),
    _string(
        name="remote.log.storage.manager.class.path",
        default=None,
        documentation="Java class path of the plugin that copies segments.",
    ),
    _string(
        name="remote.log.storage.manager.impl.prefix",
        default="rsm.config.",
        must_not_be_empty=True,
        documentation="Settings that begin so are passed to the plugin that copies segments.",
    ),
    ConfigKey(
        name="remote.log.storage.system.enable",
        type=ConfigType.BOOLEAN,
        default=False,
        documentation="There is remote storage, so that topics may be tiered.",
    ),
)
