"""The settings that a topic was given, as text: read, checked against each other, shown.

Source: [CFG-37, CFG-38, CFG-41…CFG-47, CFG-50, CFG-51], Kafka's ``LogConfig.validate``.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from segstore.config.config_key import ConfigType, ConfigValue, parsed
from segstore.config.topic_keys import NO_LIMIT, SAME_AS_TOTAL, TOPIC_KEYS
from segstore.errors import (
    ArgumentTypeError,
    IllegalArgumentError,
    InvalidConfigurationError,
)

TIERED: Final = "remote.storage.enable"
POLICY: Final = "cleanup.policy"
DELETE_ON_DISABLE: Final = "remote.log.delete.on.disable"
_MOST_NEAR_NAMES: Final = 5


def default_values() -> dict[str, ConfigValue]:
    """Return Kafka's value of every key where nothing is set."""
    return {name: key.default for name, key in TOPIC_KEYS.items()}


def values_of(
    properties: Mapping[str, str], defaults: Mapping[str, ConfigValue] | None = None
) -> dict[str, ConfigValue]:
    """Return the value of every key: that of *properties*, else the default [CFG-50].

    Unknown keys are left out [CFG-37].

    Parameters
    ----------
    properties : mapping of str to str
        What the topic was given.
    defaults : mapping or None
        A value for every key; None = Kafka's.

    Raises
    ------
    IllegalArgumentError
        A value has another type than its key, or is out of range.
    """
    base = default_values() if defaults is None else defaults
    return {**base, **parsed(TOPIC_KEYS, properties)}


def properties_of(config: Mapping[str, object]) -> dict[str, str | None]:
    """Return *config* as text, as Kafka's tools take it.

    Parameters
    ----------
    config : mapping of str to str, int, float, bool or None
        Values of Kafka's keys; None = take the setting back.

    Raises
    ------
    ArgumentTypeError
        It is no mapping, a key is no text, or a value is of another type.
    """
    if not isinstance(config, Mapping):
        raise ArgumentTypeError(
            f"config must be a mapping, not {config!r}"[:200],
            found=type(config).__name__,
            expected="a mapping of Kafka's keys to their values",
        )
    return {_key_text(name): _value_text(name, value) for name, value in config.items()}


def _key_text(name: object) -> str:
    if not isinstance(name, str):
        raise ArgumentTypeError(
            f"the key {name!r} of a setting is no text"[:200],
            found=type(name).__name__,
            expected="one of Kafka's keys, such as retention.ms",
        )
    return name


def _value_text(name: str, value: object) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str | int | float):
        raise ArgumentTypeError(
            f"{name} cannot be {value!r}"[:200],
            found=type(value).__name__,
            expected="a text, a number, True, False or None",
        )
    return str(value)


def check_properties(properties: Mapping[str, str]) -> dict[str, ConfigValue]:
    """Check what a topic is to be given, by itself; return the value of every key.

    Raises
    ------
    InvalidConfigurationError
        A key is unknown, or two values contradict each other.
    IllegalArgumentError
        A value has another type than its key, or is out of range.
    """
    refuse_unknown_keys(properties)
    values = values_of(properties)
    check_lags(values)
    return values


def check_change(
    properties: Mapping[str, str],
    existing: Mapping[str, str],
    defaults: Mapping[str, ConfigValue],
    *,
    is_tiered_system_on: bool,
) -> dict[str, ConfigValue]:
    """Check what a topic is to be given instead of *existing*; return the value of every key.

    Parameters
    ----------
    properties, existing : mapping of str to str
        All that the topic is to be given, and all that it was given.
    defaults : mapping
        The log directory's value for every key.
    is_tiered_system_on : bool
        There is remote storage.

    Raises
    ------
    InvalidConfigurationError
        A key is unknown, or two values contradict each other.
    IllegalArgumentError
        A value has another type than its key, or is out of range; or tiered storage does not go
        with it.
    """
    refuse_unknown_keys(properties)
    values = values_of(properties, defaults)
    check_lags(values)
    if values[TIERED]:
        _check_tiered(values, is_tiered_system_on=is_tiered_system_on)
    elif existing.get(TIERED, "").strip().lower() == "true" and not values[DELETE_ON_DISABLE]:
        raise InvalidConfigurationError(
            f"{TIERED} cannot be switched off while {DELETE_ON_DISABLE} is false: the records in"
            " remote storage would be lost to readers and kept",
            found=f"{TIERED}=false",
            expected=f"{DELETE_ON_DISABLE}=true beside it",
        )
    return values


def overridden_text(properties: Mapping[str, str]) -> str:
    """Return *properties* as a line for a log: ``{key=value, …}`` by key [CFG-51].

    A value of an unknown key may be secret, and is not shown.
    """
    return (
        "{" + ", ".join(f"{name}={_shown(name, properties)}" for name in sorted(properties)) + "}"
    )


def _shown(name: str, properties: Mapping[str, str]) -> str:
    key = TOPIC_KEYS.get(name)
    if key is None:
        return "(redacted)"
    return f'"{properties[name]}"' if key.type is ConfigType.STRING else properties[name]


def refuse_unknown_keys(names: Iterable[str]) -> None:
    """Check that a topic can be given settings of these names.

    Raises
    ------
    InvalidConfigurationError
        One is unknown.
    """
    refuse_keys_outside(TOPIC_KEYS, names, "a topic")


def refuse_keys_outside(known: Collection[str], names: Iterable[str], owner: str) -> None:
    """Check that *owner* can be given settings of these names.

    Raises
    ------
    InvalidConfigurationError
        One is not *known*. Its ``expected`` has the nearest names, or all where none is near.
    """
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, _MOST_NEAR_NAMES)
            raise InvalidConfigurationError(
                f"no such setting of {owner}: {name}",
                found=name,
                expected=", ".join(near or sorted(known)),
            )


def check_lags(values: Mapping[str, Any]) -> None:
    """Check that compaction may begin before it must [CFG-38].

    Raises
    ------
    InvalidConfigurationError
        It may not.
    """
    least, most = values["min.compaction.lag.ms"], values["max.compaction.lag.ms"]
    if least > most:
        raise InvalidConfigurationError(
            f"min.compaction.lag.ms is {least}, above max.compaction.lag.ms, which is {most}",
            found=str(least),
            expected=f"{most} or less",
        )


def _check_tiered(values: Mapping[str, Any], *, is_tiered_system_on: bool) -> None:
    if not is_tiered_system_on:  # [CFG-42]
        raise IllegalArgumentError(
            f"{TIERED} cannot be true: there is no remote storage",
            found="true",
            expected="false, or remote.log.storage.system.enable=true for the log directory",
        )
    if values[POLICY] not in {(), ("delete",)}:  # [CFG-43]
        raise IllegalArgumentError(
            f"{POLICY} cannot be {','.join(values[POLICY])} where {TIERED} is true",
            found=",".join(values[POLICY]),
            expected="delete, or nothing",
        )
    check_local_limits(values)
    _check_copy_lags(values)
    if values["remote.log.copy.disable"]:
        for unit in ("bytes", "ms"):
            _check_nothing_is_copied(values, unit)


def check_local_limits(values: Mapping[str, Any], prefix: str = "") -> None:
    """Check that the limits of the local part lie within those of the whole log [CFG-44].

    Parameters
    ----------
    values : mapping
        The value of every key.
    prefix : str
        Of the keys in an error: ``log.`` for those of a broker.

    Raises
    ------
    IllegalArgumentError
        One does not.
    """
    for unit in ("bytes", "ms"):
        local, total = values[f"local.retention.{unit}"], values[f"retention.{unit}"]
        has_limit = total > NO_LIMIT if unit == "bytes" else total != NO_LIMIT
        if has_limit and local != SAME_AS_TOTAL and not 0 <= local <= total:
            raise IllegalArgumentError(
                f"{prefix}local.retention.{unit} cannot be {local} where {prefix}retention.{unit}"
                f" is {total}",
                found=str(local),
                expected=f"-2, or 0 to {total}",
            )


def _check_copy_lags(values: Mapping[str, Any]) -> None:
    """Segments are copied before the local part loses them [CFG-47]."""
    for unit in ("bytes", "ms"):
        lag, local = values[f"remote.copy.lag.{unit}"], values[f"local.retention.{unit}"]
        limit = values[f"retention.{unit}"] if local == SAME_AS_TOTAL else local
        if 0 <= limit < lag:
            raise IllegalArgumentError(
                f"remote.copy.lag.{unit} cannot be {lag} where the limit of the local part is"
                f" {limit}",
                found=str(lag),
                expected=f"-1, or 0 to {limit}",
            )


def _check_nothing_is_copied(values: Mapping[str, Any], unit: str) -> None:
    """Local limits are those of the whole log where nothing is copied [CFG-45]."""
    local, total = values[f"local.retention.{unit}"], values[f"retention.{unit}"]
    if local not in {SAME_AS_TOTAL, total}:
        raise InvalidConfigurationError(
            f"local.retention.{unit} cannot be {local} where remote.log.copy.disable is true and"
            f" retention.{unit} is {total}",
            found=str(local),
            expected=f"-2, or {total}",
        )
