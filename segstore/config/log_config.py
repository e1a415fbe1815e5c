"""Settings of one log, in Kafka's keys.

``segment.bytes`` is the field ``segment_bytes``, with the same default.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypedDict

from segstore.config.config_key import LIMITS, ConfigKey, ConfigType, ConfigValue
from segstore.config.topic_keys import (
    MAX_DECOMPRESSED_MESSAGE_BYTES,
    NO_LIMIT,
    SAME_AS_LOCAL,
    SAME_AS_TOTAL,
    TOPIC_KEYS,
)
from segstore.errors import ArgumentTypeError, IllegalArgumentError
from segstore.number_limits import MAX_INT, MAX_LONG

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_NARROWER: Final = {
    "internal_segment_bytes": (1, MAX_INT),  # Kafka: any
    "retention_bytes": (-1, MAX_LONG),  # Kafka: any, and a negative one is no limit
    "max_decompressed_batch_bytes": (1, MAX_INT),
    "max_record_bytes": (1, MAX_INT),
}
"""Bounds that are not those of Kafka's key."""
_MAY_BE_NONE: Final = frozenset({"segment_ms", "retention_ms", "internal_segment_bytes"})

_KEYS: Final = {
    **TOPIC_KEYS,
    **{
        name: ConfigKey(name, ConfigType.INT, None, "Not Kafka's: a bound on decompression.")
        for name in ("max.decompressed.batch.bytes", "max.record.bytes")
    },
}

CompressionType: TypeAlias = Literal["producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"]


class LogSettings(TypedDict, total=False):
    """The fields of `LogConfig` as keyword arguments of `open` and `open_dir`."""

    segment_bytes: int
    internal_segment_bytes: int | None
    segment_ms: int | None
    segment_jitter_ms: int
    segment_index_bytes: int
    index_interval_bytes: int
    max_message_bytes: int
    message_timestamp_type: Literal["CreateTime", "LogAppendTime"]
    message_timestamp_before_max_ms: int
    message_timestamp_after_max_ms: int
    compression_type: CompressionType
    compression_gzip_level: int
    compression_lz4_level: int
    compression_zstd_level: int
    cleanup_policy: str
    delete_retention_ms: int
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int
    min_cleanable_dirty_ratio: float
    flush_messages: int
    flush_ms: int
    retention_ms: int | None
    retention_bytes: int
    file_delete_delay_ms: int
    preallocate: bool
    remote_storage_enable: bool
    remote_log_copy_disable: bool
    remote_log_delete_on_disable: bool
    local_retention_ms: int
    local_retention_bytes: int
    remote_copy_lag_ms: int
    remote_copy_lag_bytes: int
    max_decompressed_message_bytes: int
    max_decompressed_batch_bytes: int
    max_record_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """Settings of one log (Kafka ``LogConfig``).

    Names, defaults and bounds are Kafka's topic configuration.

    ``segment_bytes`` is at least 1 MiB, as in Kafka. ``internal_segment_bytes``, Kafka's hidden
    key, replaces it when set and has no lower bound. ``segment_ms=None`` and ``retention_ms=None``
    mean "never" (Kafka: 2^63-1 and -1); ``retention_ms=-1`` does too.
    """

    segment_bytes: int = 1024 * 1024 * 1024
    internal_segment_bytes: int | None = None
    segment_ms: int | None = 7 * 24 * 3600 * 1000
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 * 1024 * 1024
    index_interval_bytes: int = 4096
    max_message_bytes: int = 1024 * 1024 + 12
    message_timestamp_type: str = "CreateTime"
    message_timestamp_before_max_ms: int = MAX_LONG
    message_timestamp_after_max_ms: int = 3600 * 1000
    compression_type: str = "producer"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    cleanup_policy: str = "delete"
    delete_retention_ms: int = 24 * 3600 * 1000
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = MAX_LONG
    min_cleanable_dirty_ratio: float = 0.5
    flush_messages: int = MAX_LONG
    flush_ms: int = MAX_LONG
    retention_ms: int | None = 7 * 24 * 3600 * 1000
    retention_bytes: int = -1
    file_delete_delay_ms: int = 60000
    preallocate: bool = False
    remote_storage_enable: bool = False
    remote_log_copy_disable: bool = False
    remote_log_delete_on_disable: bool = False
    local_retention_ms: int = SAME_AS_TOTAL
    local_retention_bytes: int = SAME_AS_TOTAL
    remote_copy_lag_ms: int = 0
    remote_copy_lag_bytes: int = SAME_AS_LOCAL
    max_decompressed_message_bytes: int = MAX_DECOMPRESSED_MESSAGE_BYTES
    max_decompressed_batch_bytes: int = 256 * 1024 * 1024
    """Not Kafka's: bound on one batch after decompression [DUR-92]."""
    max_record_bytes: int = 64 * 1024 * 1024
    """Not Kafka's: bound on one record of a compressed batch [DUR-92]."""

    def __post_init__(self) -> None:
        for name, (low, high) in _BOUNDS.items():
            value = getattr(self, name)
            if value is None and name in _MAY_BE_NONE:
                continue
            if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
                raise IllegalArgumentError(
                    f"{name} must be an integer from {low} to {high}, not {value!r}",
                    found=repr(value),
                    expected=f"{low} to {high}",
                )
        for name, choices in _CHOICES.items():
            self._check_choice(name, choices)
        self._check_policy()
        ratio: object = self.min_cleanable_dirty_ratio
        if isinstance(ratio, bool) or not isinstance(ratio, int | float) or not 0 <= ratio <= 1:
            raise IllegalArgumentError(
                f"min_cleanable_dirty_ratio must be a number from 0 to 1, not {ratio!r}",
                found=repr(ratio),
                expected="0 to 1",
            )
        if self.compression_gzip_level == 0:
            raise IllegalArgumentError(
                "compression_gzip_level must be -1 or 1 to 9, not 0",
                found="0",
                expected="-1, or 1 to 9",
            )

    def _check_choice(self, name: str, choices: tuple[str | bool, ...]) -> None:
        value = getattr(self, name)
        if value not in choices or type(value) is not type(choices[0]):
            expected = ", ".join(map(str, choices))
            raise IllegalArgumentError(
                f"{name} must be one of {expected}, not {value!r}",
                found=repr(value),
                expected=expected,
            )

    def _check_policy(self) -> None:
        policy: object = self.cleanup_policy
        if not isinstance(policy, str) or not self.cleanup_policies <= {"delete", "compact"}:
            raise IllegalArgumentError(
                f"cleanup_policy must be delete, compact, both or empty, not {policy!r}",
                found=repr(policy),
                expected="delete, compact, or both with a comma between",
            )

    def check_local_retention(self) -> None:
        """Check that the local limits of a tiered log fit the total ones [CFG-44, CFG-45].

        As in Kafka, only logs with tiered storage are checked, not each `LogConfig`.

        Raises
        ------
        IllegalArgumentError
            A local limit is above the total one; or it differs although nothing is copied.
        """
        if not self.remote_storage_enable:
            return
        total_ms = NO_LIMIT if self.retention_ms is None else self.retention_ms
        for name, local, total in (
            ("retention_bytes", self.local_retention_bytes, self.retention_bytes),
            ("retention_ms", self.local_retention_ms, total_ms),
        ):
            if local in {SAME_AS_TOTAL, total}:
                continue
            if self.remote_log_copy_disable:
                expected = f"-2, or {total} as {name}: nothing is copied"
            elif total != NO_LIMIT and not 0 <= local <= total:
                expected = f"-2, or 0 to {total} as {name}"
            else:
                continue
            raise IllegalArgumentError(
                f"local_{name} cannot be {local} where {name} is {total}",
                found=str(local),
                expected=expected,
            )

    @property
    def local_ms(self) -> int | None:
        """Age in ms at which uploaded segments are deleted here; None or -1 = never [RET-8]."""
        local = self.local_retention_ms
        return self.retention_ms if local == SAME_AS_TOTAL else local

    @property
    def local_bytes(self) -> int:
        """Size in bytes above which uploaded segments are deleted here; -1 = no limit [RET-8]."""
        local = self.local_retention_bytes
        return self.retention_bytes if local == SAME_AS_TOTAL else local

    @property
    def copy_lag_ms(self) -> int | None:
        """Age in ms at which sealed segments are copied; None or -1 = none by age [CFG-53]."""
        lag = self.remote_copy_lag_ms
        return self.local_ms if lag == SAME_AS_LOCAL else lag

    @property
    def copy_lag_bytes(self) -> int:
        """Bytes of later records at which sealed segments are copied; -1 = none so [CFG-53]."""
        lag = self.remote_copy_lag_bytes
        return self.local_bytes if lag == SAME_AS_LOCAL else lag

    @property
    def cleanup_policies(self) -> frozenset[str]:
        """The parts of ``cleanup_policy``."""
        parts = (part.strip() for part in self.cleanup_policy.split(","))
        return frozenset(part for part in parts if part)

    @property
    def is_limited(self) -> bool:
        """Whether retention deletes by size or by age [RTN-2].

        Where nothing of it is set, the safe profile has the policy ``delete`` without a limit.
        """
        has_age = self.retention_ms is not None and self.retention_ms >= 0
        return "delete" in self.cleanup_policies and (has_age or self.retention_bytes >= 0)

    @property
    def roll_bytes(self) -> int:
        """Size in bytes at which a segment is full.

        ``internal_segment_bytes`` where set, else ``segment_bytes``.
        """
        return (
            self.segment_bytes
            if self.internal_segment_bytes is None
            else self.internal_segment_bytes
        )

    @property
    def roll_ms(self) -> int:
        """Age in ms at which a segment rolls; 2^63-1 when it never does.

        A log that is compacted has its records in a sealed segment in time for that [CFG-13m].
        """
        longest = MAX_LONG if self.segment_ms is None else self.segment_ms
        if "compact" in self.cleanup_policies:
            return min(longest, self.max_compaction_lag_ms)
        return longest

    def with_changes(self, **changes: Any) -> LogConfig:
        """Return a copy with these fields changed; return the object itself for no change.

        Raises
        ------
        IllegalArgumentError
            A setting is unknown, or a value is out of range.
        """
        if not changes:
            return self
        known = {field.name for field in fields(self)}
        refuse_unknown(changes, known)
        return replace(self, **changes)

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> LogConfig:
        """Return the settings for Kafka's topic properties (``segment.bytes`` = ``"1048576"``).

        Unknown keys are ignored.

        Raises
        ------
        IllegalArgumentError
            A value is not a number where one is needed, or out of range.
        ArgumentTypeError
            *properties* is not a mapping.
        """
        if not hasattr(properties, "items"):
            raise ArgumentTypeError(
                f"properties must be a mapping, not {properties!r}"[:200],
                found=type(properties).__name__,
                expected="a mapping of Kafka's keys to their values",
            )
        known = {key_name(field.name) for field in fields(cls)}
        given = {name: text for name, text in properties.items() if name in known}
        return cls.from_values({name: _KEYS[name].parse(text) for name, text in given.items()})

    def to_values(self) -> dict[str, ConfigValue]:
        """Return the value of each key that a log goes by; the inverse of `from_values`."""
        return {
            key_name(field.name): _key_value(field.name, getattr(self, field.name))
            for field in fields(self)
        }

    def with_properties(self, properties: Mapping[str, str]) -> LogConfig:
        """Return a copy with what a topic was given; keys that no log goes by are ignored.

        Raises
        ------
        IllegalArgumentError
            A value has another type than its key, or is out of range.
        """
        known = {name: key for name, key in _KEYS.items() if name in properties}
        given = {name: key.parse(properties[name]) for name, key in known.items()}
        return self.from_values({**self.to_values(), **given}) if given else self

    @classmethod
    def from_values(cls, values: Mapping[str, ConfigValue]) -> LogConfig:
        """Return the settings for the values of a topic's keys; others are ignored.

        Raises
        ------
        IllegalArgumentError
            A value is out of range.
        """
        names = {key_name(field.name): field.name for field in fields(cls)}
        found = {names[name]: value for name, value in values.items() if name in names}
        return cls(**{name: _field_value(name, value) for name, value in found.items()})


def _field_value(name: str, value: Any) -> Any:
    """Return what a field has for the value of its key."""
    if isinstance(value, tuple):
        return ",".join(value)
    if name == "retention_ms" and value == NO_LIMIT:
        return None
    return max(value, NO_LIMIT) if name == "retention_bytes" else value


def _key_value(field_name: str, value: Any) -> ConfigValue:
    """Return what a key has for the value of its field."""
    if field_name == "cleanup_policy":
        return tuple(one for one in ("delete", "compact") if one in value)
    if value is None and field_name == "retention_ms":
        return NO_LIMIT
    return MAX_LONG if value is None and field_name == "segment_ms" else value


def _bounds() -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield the bounds of each field that has a whole number."""
    for field in fields(LogConfig):
        key = _KEYS[key_name(field.name)]
        if field.name in _NARROWER:
            yield field.name, _NARROWER[field.name]
        elif key.type in LIMITS:
            low, high = LIMITS[key.type]
            least = key.low if key.also is None else min(key.low or 0, key.also)
            most = key.high
            yield (
                field.name,
                (low if least is None else int(least), high if most is None else int(most)),
            )


def _choices() -> Iterator[tuple[str, tuple[str | bool, ...]]]:
    """Yield what each field may have that has no number."""
    for field in fields(LogConfig):
        key = _KEYS[key_name(field.name)]
        if key.type is ConfigType.BOOLEAN:
            yield field.name, (False, True)
        elif key.type is ConfigType.STRING:
            yield field.name, key.choices


def key_name(field_name: str) -> str:
    """Return Kafka's key of a field of `LogConfig`."""
    return field_name.replace("_", ".")


def refuse_unknown(names: Iterable[str], known: Iterable[str]) -> None:
    """Refuse those of *names* that are not *known*, and say which was meant."""
    known = set(known)
    unknown = sorted(set(names) - known)
    if unknown:
        expected = ", ".join(meant for name in unknown for meant in _likeliest(name, known))
        raise IllegalArgumentError(
            f"no such setting: {', '.join(unknown)}",
            found=", ".join(unknown),
            expected=expected or ", ".join(sorted(known)),
        )


def _likeliest(name: str, known: Iterable[str]) -> list[str]:
    """Return the setting that *name*, perhaps Kafka's spelling, is but for a letter; else others.

    Those begin with the same word.
    """
    names = {one.replace("_", ""): one for one in known}
    words = name.lower().replace(".", "_").replace("-", "_")
    close = difflib.get_close_matches(words.replace("_", ""), names, n=1, cutoff=0.85)
    if close:
        return [names[close[0]]]
    return sorted(one for one in known if one.split("_")[0] == words.split("_")[0])


_BOUNDS: Final = dict(_bounds())
_CHOICES: Final = dict(_choices())
