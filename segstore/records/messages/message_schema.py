"""The compact form of Kafka's message definitions, read into `MessageSchema` objects.

A message is a line with its name, its id (``key``), its versions and those that are flexible; its
fields follow, indented, in the order of the bytes and of the JSON::

    Name key=1 versions=0-4 flexible=4+
      offset int64
      leaderEpoch int32 3+
      owner Owner?
        name string
      members []Member
      metadata string? 4+ #0=null
      struct Member
        memberId string

A field is ``name type [versions] [#tag[=default]]``: ``[]`` an array, ``?`` nullable, ``#`` a
tagged field, which is printed only where it differs from its default (zero or empty if none is
named). A type that is no primitive has its fields below it, or in a ``struct`` of the message.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from segstore._core import MessageField, MessageSchema

LAST_VERSION: Final = 32767
PRIMITIVES: Final = frozenset(
    {
        "bool",
        "bytes",
        "float64",
        "int16",
        "int32",
        "int64",
        "int8",
        "string",
        "uint16",
        "uint32",
        "uuid",
    }
)
ZERO_UUID: Final = UUID(int=0)
_ZEROS: Final = {"bool": False, "string": "", "bytes": b"", "uuid": ZERO_UUID, "float64": 0.0}
_INDENT: Final = 2


@dataclass(frozen=True, slots=True)
class Versions:
    """A range of versions, both ends included."""

    first: int
    last: int

    @classmethod
    def parse(cls, text: str) -> Versions:
        """Read ``3``, ``0-4`` or ``2+``."""
        if text.endswith("+"):
            return cls(int(text[:-1]), LAST_VERSION)
        first, _, last = text.partition("-")
        return cls(int(first), int(last or first))

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last


ALL_VERSIONS: Final = Versions(-32768, LAST_VERSION)
NO_VERSIONS: Final = Versions(1, 0)


@dataclass(slots=True)
class _Line:
    words: list[str]
    below: list[_Line]


def parse_schemas(text: str) -> dict[str, MessageSchema]:
    """Read all messages of a table by their names."""
    return {line.words[0]: _schema(line) for line in _tree(text)}


def _tree(text: str) -> list[_Line]:
    open_lists: list[list[_Line]] = [[]]
    for raw in filter(None, text.splitlines()):
        level = (len(raw) - len(raw.lstrip())) // _INDENT
        line = _Line(raw.split(), [])
        del open_lists[level + 1 :]
        open_lists[level].append(line)
        open_lists.append(line.below)
    return open_lists[0]


def _schema(line: _Line) -> MessageSchema:
    settings = dict(word.split("=") for word in line.words[1:])
    structs = {child.words[1]: child for child in line.below if child.words[0] == "struct"}
    return MessageSchema(
        line.words[0],
        int(settings.get("key", "-1")),
        Versions.parse(settings["versions"]),
        Versions.parse(settings["flexible"]) if "flexible" in settings else NO_VERSIONS,
        _fields(line, structs),
    )


def _fields(line: _Line, structs: dict[str, _Line]) -> tuple[MessageField, ...]:
    return tuple(_field(child, structs) for child in line.below if child.words[0] != "struct")


def _field(line: _Line, structs: dict[str, _Line]) -> MessageField:
    name, kind, *more = line.words
    is_nullable = kind.endswith("?")
    is_array = kind.startswith("[]")
    kind = kind.removesuffix("?").removeprefix("[]")
    versions, tag, default = ALL_VERSIONS, None, None
    for word in more:
        tagged = re.fullmatch(r"#(\d+)(?:=(\S+))?", word)
        if tagged is None:
            versions = Versions.parse(word)
            continue
        tag = int(tagged[1])
        default = tagged[2]
    fields = None
    if kind not in PRIMITIVES:
        fields = _fields(line if line.below else structs[kind], structs)
    return MessageField(
        name,
        kind,
        is_array=is_array,
        is_nullable=is_nullable,
        versions=versions,
        tag=tag,
        default=_default(default, kind, fields, is_array=is_array),
        fields=fields,
    )


def _default(
    text: str | None, kind: str, fields: tuple[MessageField, ...] | None, *, is_array: bool
) -> object:
    """Return the default that *text* names; None = what Kafka gives a field without one."""
    if text is not None:
        return None if text == "null" else int(text)
    if is_array:
        return []
    if fields is not None:
        return {child.name: child.default for child in fields if child.tag is None}
    return _ZEROS.get(kind, 0)
