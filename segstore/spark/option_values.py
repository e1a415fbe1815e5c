"""Numbers, booleans and durations as the connector's options spell them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from segstore.spark.conditions import option_error

if TYPE_CHECKING:
    from collections.abc import Mapping

_JAVA_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}")
_DURATION: Final = re.compile(r"\s*(-?[0-9]{1,18})\s*([a-z]*)\s*")
_BYTES: Final = re.compile(r"\s*([0-9]{1,19})\s*([bkmgtp]?)b?\s*")
_BYTE_SHIFTS: Final = {"": 0, "b": 0, "k": 10, "m": 20, "g": 30, "t": 40, "p": 50}
"""Units of Spark's ``JavaUtils.byteStringAs``."""
_MILLISECONDS: Final = {
    "us": 0.001,
    "ms": 1,
    "s": 1000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}
"""Units of Spark's ``JavaUtils.timeStringAs``."""


def java_integer(text: str, *, bits: int) -> int | None:
    """Java's ``toInt`` and ``toLong``: no blanks, no underscores; None = it is none."""
    if _JAVA_INTEGER.fullmatch(text) and -(1 << (bits - 1)) <= int(text) < 1 << (bits - 1):
        return int(text)
    return None


def integer(options: Mapping[str, str], name: str, *, bits: int) -> int:
    """Return the option *name*, which is there, as a whole number of *bits* bits."""
    text = options[name.lower()]
    number = java_integer(text, bits=bits)
    if number is None:
        expected = f"a whole number of {bits} bits"
        raise option_error(name, text, expected, f'For input string: "{text}"')
    return number


def positive(options: Mapping[str, str], name: str, shown: str, *, bits: int) -> int | None:
    """Return the option *name* as a number of 1 or more; None = it is not there."""
    if name.lower() not in options:
        return None
    number = integer(options, name, bits=bits)
    if number <= 0:
        raise option_error(name, options[name.lower()], "1 or more", f"{shown} must be positive")
    return number


def byte_size(options: Mapping[str, str], name: str) -> int | None:
    """A number of bytes, 1 or more, in Spark's form, such as ``128m``; None = it is not there."""
    text = options.get(name.lower())
    if text is None:
        return None
    match = _BYTES.fullmatch(text.lower())
    size = int(match[1]) << _BYTE_SHIFTS[match[2]] if match else 0
    if not 0 < size < 1 << 63:
        raise option_error(
            name,
            text,
            "bytes, 1 or more, as 134217728 or 128m",
            "Size must be specified as bytes (b), kibibytes (k), mebibytes (m), gibibytes (g), "
            f"tebibytes (t), or pebibytes(p). Failed to parse byte string: {text}",
        )
    return size


def boolean(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    """Return the option *name*: ``true`` or ``false`` in any case, nothing else."""
    text = options.get(name.lower())
    if text is None:
        return default
    if text.lower() not in {"true", "false"}:
        raise option_error(name, text, "true or false", f'For input string: "{text}"')
    return text.lower() == "true"


def milliseconds(options: Mapping[str, str], name: str, *, default: str) -> int:
    """A duration in Spark's form, such as ``15m``; a number without a unit is in ms."""
    text = options.get(name.lower(), default)
    match = _DURATION.fullmatch(text.lower())
    if match is None or (match[2] or "ms") not in _MILLISECONDS:
        units = ", ".join(_MILLISECONDS)
        raise option_error(
            name,
            text,
            f"a whole number with one of the units {units}",
            f"Time must be specified as seconds (s), milliseconds (ms), microseconds (us), "
            f"minutes (m or min), hour (h), or day (d). Failed to parse time string: {text}",
        )
    return int(int(match[1]) * _MILLISECONDS[match[2] or "ms"])
