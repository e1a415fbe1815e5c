"""``meta.properties`` of a broker's log directory: which cluster, node and directory it belongs to.

Source: [MGR-9, format.md 15.3]; Kafka ``MetaProperties``, Java ``Properties.load``.
"""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID

from segstore.errors import CorruptCheckpointError, LimitExceededError, LogNotFoundError
from segstore.log.files.checkpoints import MAX_MARKER_BYTES, META_PROPERTIES
from segstore.number_limits import MAX_INT

if TYPE_CHECKING:
    from segstore._core import Directory

_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_BLANKS: Final = " \t\f"
_ENTRY: Final = re.compile(
    rf"((?:\\.|[^\\=:{_BLANKS}])*)[{_BLANKS}]*[=:]?[{_BLANKS}]*(.*)", re.DOTALL
)
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|[^u])", re.DOTALL)
_CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,10}", re.ASCII)
_ID: Final = re.compile(r"[A-Za-z0-9_-]{22}(?:==)?", re.ASCII)


class MetaProperties(NamedTuple):
    """What the file says (Kafka ``MetaProperties``)."""

    version: int
    """0, or 1: then it names a cluster and a node."""
    cluster_id: str | None
    node_id: int | None
    directory_id: UUID | None
    """None of a directory that an older Kafka has formatted."""
    data: bytes
    """The file as it is: to write these bytes back also keeps what this reader does not know."""


def parse_meta_properties(data: bytes) -> MetaProperties:
    """Return what the file says; other keys are passed over.

    Raises
    ------
    CorruptCheckpointError
        Where Kafka's reader refuses the content.
    """
    properties = _properties(data.decode("latin-1"))
    version = _integer("version", properties.get("version", "0").strip())
    if version not in {0, 1}:
        raise _malformed("version", str(version), "0 or 1")
    node_key = "node.id" if version else "broker.id"
    for key in ("cluster.id", "node.id") if version else ():
        if key not in properties:
            raise _malformed(key, "nothing", "a value, as version 1 has")
    node = properties.get(node_key)
    directory = properties.get("directory.id")
    if directory is not None and not _ID.fullmatch(directory):
        raise _malformed("directory.id", repr(directory[:80]), "a uuid in base64")
    return MetaProperties(
        version,
        properties.get("cluster.id"),
        None if node is None else _integer(node_key, node),
        None
        if directory is None
        else UUID(bytes=base64.urlsafe_b64decode(f"{directory.rstrip('=')}==")),
        data,
    )


def read_meta_properties(directory: Directory) -> MetaProperties | None:
    """Return what the file of a log directory says, None without one.

    Raises
    ------
    CorruptCheckpointError
        The file is too large for one, or cannot be read as one.
    """
    try:
        return parse_meta_properties(directory.read_file(META_PROPERTIES, MAX_MARKER_BYTES))
    except LogNotFoundError:
        return None
    except CorruptCheckpointError as error:
        error.file = f"{directory.path}/{META_PROPERTIES}"
        raise
    except LimitExceededError as error:
        raise CorruptCheckpointError(
            error.message, file=error.file, found=error.found, expected=error.expected
        ) from None


def _properties(text: str) -> dict[str, str]:
    """Return the keys and values of a file, as Java reads it; the last one of a key counts."""
    found = {}
    lines = iter(_LINE_END.split(text))
    for natural in lines:
        line = natural.lstrip(_BLANKS)
        if not line or line[0] in "#!":
            continue
        while (len(line) - len(line.rstrip("\\"))) % 2:
            line = line[:-1] + next(lines, "").lstrip(_BLANKS)
        entry = _ENTRY.fullmatch(line)
        if entry is not None:  # a pattern that fits every line
            found[_unescaped(entry[1])] = _unescaped(entry[2])
    return found


def _unescaped(text: str) -> str:
    if re.search(r"(?<!\\)(?:\\\\)*\\u(?![0-9a-fA-F]{4})", text):
        raise _malformed("a value", repr(text[:80]), r"four digits after each \u")
    return _ESCAPE.sub(_character, text)


def _character(escape: re.Match[str]) -> str:
    name = escape[1]
    return chr(int(name[1:], 16)) if len(name) > 1 else _CONTROLS.get(name, name)


def _integer(key: str, text: str) -> int:
    if not _INTEGER.fullmatch(text) or not -MAX_INT - 1 <= int(text) <= MAX_INT:
        raise _malformed(key, repr(text[:80]), "an integer")
    return int(text)


def _malformed(key: str, found: str, expected: str) -> CorruptCheckpointError:
    return CorruptCheckpointError(
        f"{key} is {found}, not {expected}", file=META_PROPERTIES, found=found, expected=expected
    )
