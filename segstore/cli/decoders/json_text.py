"""JSON as Kafka's tools print it: the text of Jackson's nodes, byte for byte."""

from __future__ import annotations

import base64
import math
import re
from typing import Any
from uuid import UUID

from segstore.log.files.partition_metadata_file import topic_id_text

_SPECIAL = re.compile(r'[\x00-\x1f"\\]')
_ESCAPES = {
    '"': '\\"',
    "\\": "\\\\",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
}

SMALLEST_PLAIN = 1e-3
LARGEST_PLAIN = 1e7


def json_text(value: Any) -> str:  # noqa: PLR0911 - one a type
    """Return a tree of dicts, lists and values as JSON; bytes and uuids are base64."""
    match value:
        case str():
            return _quoted(value)
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            text = double_text(value)
            return text if math.isfinite(value) else f'"{text}"'
        case bytes():
            return f'"{base64.b64encode(value).decode()}"'
        case UUID():
            return f'"{topic_id_text(value)}"'
        case dict():
            return f"{{{','.join(f'{_quoted(name)}:{json_text(v)}' for name, v in value.items())}}}"
        case _:
            return f"[{','.join(map(json_text, value))}]"


def _quoted(text: str) -> str:
    return f'"{_SPECIAL.sub(_escaped, text)}"'


def _escaped(match: re.Match[str]) -> str:
    character = match[0]
    return _ESCAPES.get(character) or f"\\u{ord(character):04X}"


def double_text(value: float) -> str:
    """Return a number as Java's ``Double.toString`` does."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or SMALLEST_PLAIN <= abs(value) < LARGEST_PLAIN:
        return repr(value)
    mantissa, _, exponent = f"{value!r}".partition("e")
    sign = "-" if mantissa.startswith("-") else ""
    whole, _, fraction = mantissa.removeprefix("-").partition(".")
    power = int(exponent or "0") + len(whole) - 1
    digits = (whole + fraction).rstrip("0")
    leading = len(digits) - len(digits.lstrip("0"))
    digits = digits[leading:]
    power -= leading
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{power}"
