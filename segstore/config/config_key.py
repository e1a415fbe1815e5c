"""A setting as Kafka defines it: its name, type, default and range, and how its text is read.

Source: [CFG-39, CFG-40, CFG-55], Kafka's ``ConfigDef``.
"""

from __future__ import annotations

import logging
import re
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from segstore.errors import IllegalArgumentError
from segstore.number_limits import MAX_INT, MAX_LONG, MIN_INT, MIN_LONG

if TYPE_CHECKING:
    from collections.abc import Mapping

ConfigValue: TypeAlias = bool | int | float | str | tuple[str, ...] | None
"""A list is a tuple; None stands for a key without a default that was not set."""

_log = logging.getLogger(__name__)
_WHOLE: Final = re.compile(r"[+-]?[0-9]+")
_DECIMAL: Final = re.compile(
    r"[+-]?(NaN|Infinity|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?)"
)
_REPLICA: Final = re.compile(r"([0-9]+:[0-9]+)?")


class ConfigType(Enum):
    """The types of settings (Kafka ``ConfigDef.Type``)."""

    BOOLEAN = "boolean"
    INT = "int"
    LONG = "long"
    DOUBLE = "double"
    STRING = "string"
    LIST = "list"


LIMITS: Final = {
    ConfigType.INT: (MIN_INT, MAX_INT),
    ConfigType.LONG: (MIN_LONG, MAX_LONG),
}


class ConfigKey(NamedTuple):
    """One setting.

    Attributes
    ----------
    name : str
        Kafka's key.
    type : ConfigType
        Its type.
    default : bool, int, float, str, tuple or None
        The value where nothing is set; None = there is none.
    documentation : str
        What it does, in one sentence.
    low, high : int, float or None
        Bounds of a number, both allowed; None = those of the type.
    also : int or None
        A number below the bounds that is allowed.
    choices : tuple of str
        What a text, or each element of a list, may be; empty = anything.
    is_replicas : bool
        The list names replicas, as ``partition:broker`` or ``*``.
    must_not_be_empty : bool
        An empty text or list is refused.
    synonyms : tuple of str
        Keys of a broker that give a topic's default, the strongest first.
    is_internal : bool
        Kafka does not list it among the public ones.
    """

    name: str
    type: ConfigType
    default: ConfigValue
    documentation: str
    low: float | None = None
    high: float | None = None
    also: int | None = None
    choices: tuple[str, ...] = ()
    is_replicas: bool = False
    must_not_be_empty: bool = False
    synonyms: tuple[str, ...] = ()
    is_internal: bool = False

    def parse(self, text: str) -> ConfigValue:
        """Return the value that *text* stands for.

        Raises
        ------
        IllegalArgumentError
            The text has another type, or the value is out of range (Kafka ``ConfigException``).
        """
        text = text.strip()
        if self.type is ConfigType.BOOLEAN:
            return self._boolean(text)
        if self.type is ConfigType.LIST:
            return self._list(text)
        if self.type is ConfigType.STRING:
            if self.must_not_be_empty and not text:
                raise self._refusal(text, "a text that is not empty")
            self._check_choice(text)
            return text
        return self._number(text)

    @property
    def valid_values(self) -> str:
        """What is allowed, in words."""
        if self.is_replicas:
            return "pairs partition:broker with commas between, or *"
        if self.type is ConfigType.BOOLEAN:
            return "true or false"
        if self.choices:
            each = ", ".join(self.choices)
            return f"any of {each}" if self.type is ConfigType.LIST else f"one of {each}"
        if self.low is None and self.high is None:
            return f"any {self.type.value}"
        allowed = f"{self.low} or more" if self.high is None else f"{self.low} to {self.high}"
        return allowed if self.also is None else f"{self.also}, or {allowed}"

    def _boolean(self, text: str) -> bool:
        if text.lower() not in {"true", "false"}:
            raise self._refusal(text)
        return text.lower() == "true"

    def _number(self, text: str) -> float:
        value: float
        if self.type is ConfigType.DOUBLE:
            if _DECIMAL.fullmatch(text) is None:
                raise self._refusal(text, "a number")
            value = float(text.rstrip("fFdD") if text[-1] in "fFdD" else text)
        else:
            low, high = LIMITS[self.type]
            if _WHOLE.fullmatch(text) is None or not low <= (value := int(text)) <= high:
                low = low if self.low is None else int(self.low)
                high = high if self.high is None else int(self.high)
                also = "" if self.also is None else f"{self.also}, or "
                raise self._refusal(text, f"{also}a whole number from {low} to {high}")
        is_low = self.low is not None and value < self.low and value != self.also
        if is_low or (self.high is not None and value > self.high):
            raise self._refusal(text)
        return value

    def _list(self, text: str) -> tuple[str, ...]:
        elements = tuple(one.strip() for one in text.split(",")) if text else ()
        if self.is_replicas:
            is_all = "".join(elements) == "*"
            if not is_all and not all(_REPLICA.fullmatch(one) for one in elements):
                raise self._refusal(text)
            return elements
        unlike = tuple(dict.fromkeys(elements))
        if len(unlike) < len(elements):
            _log.warning("%s = %s: what is there twice counts once", self.name, text)
        if "" in unlike or (self.must_not_be_empty and not unlike):
            raise self._refusal(text, "elements that are not empty, with commas between")
        for one in unlike:
            self._check_choice(one)
        return unlike

    def _check_choice(self, text: str) -> None:
        if self.choices and text not in self.choices:
            raise self._refusal(text)

    def _refusal(self, text: str, expected: str | None = None) -> IllegalArgumentError:
        expected = self.valid_values if expected is None else expected
        return IllegalArgumentError(
            f"{self.name} cannot be {text!r}: it must be {expected}",
            found=repr(text),
            expected=expected,
        )


def parsed(keys: Mapping[str, ConfigKey], properties: Mapping[str, str]) -> dict[str, ConfigValue]:
    """Return the values of those *properties* that *keys* has, in the order of *keys*.

    Raises
    ------
    IllegalArgumentError
        A value has another type than its key, or is out of range.
    """
    return {name: key.parse(properties[name]) for name, key in keys.items() if name in properties}
