"""The options of a write: those of Spark's Kafka sink, of Kafka's producer, and of the directory.

Options of the producer are taken with ``kafka.`` before their name, as the connector wants them,
and without. Names are case-insensitive.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from segstore.config.log_config import LogConfig
from segstore.log.files.partition_directory import check_topic
from segstore.spark.conditions import ConnectorOptionError, option_error
from segstore.spark.directory_option import local_directory_path
from segstore.spark.option_names import misspelt_options
from segstore.spark.option_values import boolean, integer, positive
from segstore.types import Codec

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_BATCH_BYTES: Final = 256 * 1024
DEFAULT_REQUEST_BYTES: Final = 1024 * 1024
DEFAULT_LOCK_TIMEOUT_MS: Final = 60_000

_REFUSED: Final = {
    "key.serializer": (
        "Kafka option 'key.serializer' is not supported as keys are serialized with "
        "ByteArraySerializer."
    ),
    "value.serializer": (
        "Kafka option 'value.serializer' is not supported as value are serialized with "
        "ByteArraySerializer."
    ),
}
_PRODUCER: Final = frozenset(
    {
        "batch.size",
        "compression.type",
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.zstd.level",
        "max.request.size",
        "partitioner.ignore.keys",
    }
)
_OF_THE_LOG: Final = ("segment.bytes", "segment.ms", "max.message.bytes", "index.interval.bytes")
"""Settings of a topic that decide how it is written; a directory does not keep them."""

_KNOWN: Final = (
    "path",
    "topic",
    "numPartitions",
    "txnAppId",
    "txnVersion",
    "lockTimeoutMs",
    "allowNetworkFs",
    "checkpointLocation",
    *sorted(_PRODUCER),
    *_OF_THE_LOG,
)


@dataclass(frozen=True, slots=True)
class Transaction:
    """Which write this is, so that a repetition is recognised.

    Attributes
    ----------
    application_id : str
        Of the streaming query, or the option ``txnAppId``.
    version : int
        The id of the micro-batch, or the option ``txnVersion``; it ascends.
    """

    application_id: str
    version: int


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """The options of one write, checked.

    Attributes
    ----------
    path : str
        The log directory, absolute.
    topic : str or None
        For all rows; None = the column says it.
    partitions_count : int or None
        ``numPartitions``: a topic that is missing is made with so many.
    batch_bytes : int
        A batch of records is finished when it is so large before compression.
    max_request_bytes : int
        Of one record, as a producer refuses it.
    codec : Codec
        Of the batches.
    ignore_keys : bool
        Records with a key are spread as those without.
    lock_timeout_ms : int
        How long a commit waits while another writer has the directory.
    allow_network_fs : bool
        ``allowNetworkFs``: write although locks and syncs may not hold there.
    application_id : str or None
        ``txnAppId``.
    version : int or None
        ``txnVersion``, of a batch write.
    config : LogConfig
        For the logs that are written.
    """

    path: str
    topic: str | None
    partitions_count: int | None = None
    batch_bytes: int = DEFAULT_BATCH_BYTES
    max_request_bytes: int = DEFAULT_REQUEST_BYTES
    codec: Codec = Codec.NONE
    ignore_keys: bool = False
    lock_timeout_ms: int = DEFAULT_LOCK_TIMEOUT_MS
    allow_network_fs: bool = False
    application_id: str | None = None
    version: int | None = None
    config: LogConfig = field(default_factory=LogConfig)
    warnings: tuple[str, ...] = field(default=(), compare=False)


def parse_sink_options(given: Mapping[str, str]) -> SinkOptions:
    """Check the options of a write.

    Parameters
    ----------
    given : mapping of str to str
        As Spark hands them over; names in any case.

    Raises
    ------
    ConnectorOptionError
        In the connector's words where it has some.
    InvalidTopicError
        The option ``topic`` is no topic's name.
    """
    options = {name.lower(): value for name, value in given.items()}
    for name, message in _REFUSED.items():
        if f"kafka.{name}" in options:
            raise ConnectorOptionError(message, found=f"kafka.{name}")
    path = local_directory_path(options, "writing needs")
    topic = options["topic"].strip() if "topic" in options else None
    producer = _producer_options(options)
    codec, config = _codec_and_config(options, producer)
    batch_bytes = positive(producer, "batch.size", "batch.size", bits=32) or DEFAULT_BATCH_BYTES
    if topic is not None:
        check_topic(topic)
    return SinkOptions(
        path=path,
        topic=topic,
        partitions_count=positive(options, "numPartitions", "numPartitions", bits=31),
        batch_bytes=min(batch_bytes, config.max_message_bytes, config.roll_bytes),
        max_request_bytes=positive(producer, "max.request.size", "max.request.size", bits=32)
        or DEFAULT_REQUEST_BYTES,
        codec=codec,
        ignore_keys=boolean(producer, "partitioner.ignore.keys", default=False),
        lock_timeout_ms=_lock_timeout_ms(options),
        allow_network_fs=boolean(options, "allowNetworkFs", default=False),
        application_id=_application_id(options),
        version=integer(options, "txnVersion", bits=64) if "txnversion" in options else None,
        config=config,
        warnings=_warnings(options),
    )


def _producer_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return the producer's options by their own names; the one without ``kafka.`` wins."""
    found = {}
    for name in _PRODUCER:
        text = options.get(name, options.get(f"kafka.{name}"))
        if text is not None:
            found[name] = text.strip()
    return found


def _codec_and_config(
    options: Mapping[str, str], producer: Mapping[str, str]
) -> tuple[Codec, LogConfig]:
    codec_name = producer.get("compression.type", "none")
    names = [codec.name.lower() for codec in Codec]
    if codec_name not in names:
        raise option_error(
            "compression.type",
            codec_name,
            ", ".join(names),
            f"Invalid value {codec_name} for configuration compression.type: String must be one "
            f"of: {', '.join(names)}",
        )
    properties = {name: options[name].strip() for name in _OF_THE_LOG if name in options}
    levels = {name: text for name, text in producer.items() if name.endswith(".level")}
    config = LogConfig.from_properties({**properties, **levels})
    return Codec[codec_name.upper()], config


def _lock_timeout_ms(options: Mapping[str, str]) -> int:
    if "locktimeoutms" not in options:
        return DEFAULT_LOCK_TIMEOUT_MS
    timeout = integer(options, "lockTimeoutMs", bits=64)
    if timeout < 0:
        raise option_error(
            "lockTimeoutMs", str(timeout), "0 or more", "lockTimeoutMs must not be negative"
        )
    return timeout


def _application_id(options: Mapping[str, str]) -> str | None:
    application_id = options.get("txnappid")
    if application_id is not None and not application_id.strip():
        raise ConnectorOptionError(
            "option txnAppId is empty: it names the writer", found=repr(application_id)
        )
    return application_id


def _warnings(options: Mapping[str, str]) -> tuple[str, ...]:
    found = []
    if "kafka.bootstrap.servers" in options:
        found.append(
            "option kafka.bootstrap.servers is ignored: records are written to the directory in "
            "'path'"
        )
    ignored = [
        name
        for name in sorted(options)
        if name.startswith("kafka.")
        and name != "kafka.bootstrap.servers"
        and name.removeprefix("kafka.") not in _PRODUCER
    ]
    if ignored:
        found.append(f"options of Kafka's producer are ignored: {', '.join(ignored)}")
    found += misspelt_options(options, _KNOWN)
    return tuple(found)
