"""Settings of one log, in Kafka's keys.

``segment.bytes`` is the field ``segment_bytes``, with the same default.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypedDict

from segstore.errors import ArgumentTypeError, IllegalArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MAX_SHORT: Final = 2**15 - 1
MAX_INT: Final = 2**31 - 1
MAX_LONG: Final = 2**63 - 1
MIN_LONG: Final = -(2**63)

COMPRESSION_TYPES: Final = ("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd")

SAME_AS_TOTAL: Final = -2
"""A limit of the local part of a tiered log that is the one of the whole log."""
NO_LIMIT: Final = -1

_BOUNDS: Final[dict[str, tuple[int, int]]] = {
    "segment_bytes": (1024 * 1024, MAX_INT),
    "internal_segment_bytes": (1, MAX_INT),
    "segment_ms": (1, MAX_LONG),
    "segment_jitter_ms": (0, MAX_LONG),
    "segment_index_bytes": (4, MAX_INT),
    "index_interval_bytes": (0, MAX_INT),
    "max_message_bytes": (0, MAX_INT),
    "message_timestamp_before_max_ms": (0, MAX_LONG),
    "message_timestamp_after_max_ms": (0, MAX_LONG),
    "compression_gzip_level": (-1, 9),
    "compression_lz4_level": (1, 17),
    "compression_zstd_level": (-131072, 22),
    "flush_messages": (1, MAX_LONG),
    "flush_ms": (0, MAX_LONG),
    "retention_ms": (-1, MAX_LONG),
    "retention_bytes": (-1, MAX_LONG),
    "file_delete_delay_ms": (0, MAX_LONG),
    "local_retention_ms": (-2, MAX_LONG),
    "local_retention_bytes": (-2, MAX_LONG),
    "max_decompressed_batch_bytes": (1, MAX_INT),
    "max_record_bytes": (1, MAX_INT),
}
_FLAGS: Final = (
    "preallocate",
    "remote_storage_enable",
    "remote_log_copy_disable",
    "remote_log_delete_on_disable",
)
_MAY_BE_NONE: Final = frozenset({"segment_ms", "retention_ms", "internal_segment_bytes"})


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
        self._check_choice("compression_type", COMPRESSION_TYPES)
        self._check_choice("message_timestamp_type", ("CreateTime", "LogAppendTime"))
        for name in _FLAGS:
            self._check_choice(name, (False, True))
        self._check_policy()
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
    def cleanup_policies(self) -> frozenset[str]:
        """The parts of ``cleanup_policy``."""
        parts = (part.strip() for part in self.cleanup_policy.split(","))
        return frozenset(part for part in parts if part)

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
        """Age in ms at which a segment rolls; 2^63-1 when it never does."""
        return MAX_LONG if self.segment_ms is None else self.segment_ms

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
        kinds = {field.name: str(field.type) for field in fields(cls)}
        changes: dict[str, Any] = {}
        for key, text in properties.items():
            name = key.replace(".", "_").replace("-", "_")
            kind = kinds.get(name)
            if kind is None:
                continue
            if kind == "bool":
                changes[name] = text.strip().lower() == "true"
            elif kind == "str":
                changes[name] = text
            else:
                changes[name] = _integer(key, text)
        if changes.get("retention_ms") == -1:
            changes["retention_ms"] = None
        return cls(**changes)


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


def _integer(key: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise IllegalArgumentError(
            f"{key} must be an integer, not {text!r}", found=repr(text), expected="an integer"
        ) from None
