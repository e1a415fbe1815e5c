"""Records as text: kcat's ``-f`` and ``-J``, and JSON lines that hold every byte.

A format is compiled once into a function from record to bytes; what a record holds is written as
it is, without a decoding.
"""

from __future__ import annotations

import json
import re
import struct
from base64 import b64encode
from typing import TYPE_CHECKING, Any

from segstore.cli.output import UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from segstore._core import Record

    Formatter = Callable[[Record], bytes]

TIMESTAMP_TYPES = {-1: "NoTimestampType", 0: "CreateTime", 1: "LogAppendTime"}
KCAT_TIMESTAMP_TYPES = {-1: "unknown", 0: "create", 1: "logappend"}

_ESCAPE = re.compile(rb"\\(?:x([0-9a-fA-F]{1,2})|([0-7]{1,3})|(.))", re.DOTALL)
_NAMED_ESCAPES = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"\\": b"\\"}


def add_format_arguments(parser: argparse.ArgumentParser, *flags: str) -> None:
    """Add the output options of ``cat`` and ``tail``; *flags* are short names of ``--template``."""
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument(
        *flags,
        "--template",
        dest="format_text",
        metavar="FORMAT",
        help="%%s value %%S its size %%R size as 4 bytes %%k key %%K its size %%T timestamp "
        "%%h headers %%t topic %%p partition %%o offset %%%% percent, \\n \\t \\r \\xHH",
    )
    kinds.add_argument(
        "-J", dest="json", action="store_true", help="a JSON object a record, as kcat"
    )
    kinds.add_argument(
        "--format",
        choices=("values", "jsonl", "kcat-json"),
        help="jsonl: every field, keys, values and header values in base64 (default: values)",
    )
    parser.add_argument(
        "-K", dest="key_delimiter", metavar="DELIM", help="print the key and DELIM first"
    )
    parser.add_argument(
        "-D", dest="delimiter", default="\\n", metavar="DELIM", help="printed after each record"
    )
    parser.add_argument("-Z", dest="null_text", action="store_true", help="print null as NULL")


def formatter_of(arguments: argparse.Namespace) -> Formatter:
    """Choose the function from record to bytes that the arguments ask for."""
    if arguments.format == "jsonl":
        return format_jsonl
    if arguments.json or arguments.format == "kcat-json":
        return format_kcat_json
    null = b"NULL" if arguments.null_text else b""
    if arguments.format_text is not None:
        return compile_format(arguments.format_text, null)
    delimiter = unescape(arguments.delimiter)
    if arguments.key_delimiter is None:
        return lambda record: (null if record.value is None else record.value) + delimiter
    return compile_format("%k", null, [unescape(arguments.key_delimiter), "%s", delimiter])


def format_jsonl(record: Record) -> bytes:
    """All fields of a record as a JSON object, in one line; bytes in base64, null is null."""
    epoch = record.leader_epoch
    if record.headers:
        pairs = (
            f"[{json.dumps(name, ensure_ascii=False)},{_base64(value)}]"
            for name, value in record.headers
        )
        headers = f"[{','.join(pairs)}]"
    else:
        headers = "[]"
    return (
        f'{{"offset":{record.offset},"timestamp":{record.timestamp},'
        f'"timestampType":"{TIMESTAMP_TYPES[record.timestamp_type]}",'
        f'"leaderEpoch":{"null" if epoch < 0 else epoch},'
        f'"key":{_base64(record.key)},"value":{_base64(record.value)},"headers":{headers}}}\n'
    ).encode("utf-8", "surrogatepass")


def _base64(data: bytes | None) -> str:
    return "null" if data is None else f'"{b64encode(data).decode()}"'


def format_kcat_json(record: Record) -> bytes:
    """Kcat's envelope: texts, with U+FFFD where bytes are no UTF-8."""
    fields: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "tstype": KCAT_TIMESTAMP_TYPES[record.timestamp_type],
        "ts": record.timestamp,
    }
    if record.headers:
        fields["headers"] = [
            text for name, value in record.headers for text in (name, _text(value))
        ]
    fields["key"] = _text(record.key)
    fields["payload"] = _text(record.value)
    return f"{json.dumps(fields, ensure_ascii=False, separators=(',', ':'))}\n".encode(
        "utf-8", "replace"
    )


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "replace")


def _header_text(record: Record, null: bytes) -> bytes:
    del null  # kcat writes a null header value as NULL, with or without -Z
    return b",".join(
        name.encode("utf-8", "surrogatepass") + b"=" + (b"NULL" if value is None else value)
        for name, value in record.headers
    )


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)


TOKENS: dict[str, Callable[[Record, bytes], bytes]] = {
    "s": lambda record, null: null if record.value is None else record.value,
    "S": lambda record, _: b"%d" % _size(record.value),
    "R": lambda record, _: struct.pack(">i", _size(record.value)),
    "k": lambda record, null: null if record.key is None else record.key,
    "K": lambda record, _: b"%d" % _size(record.key),
    "T": lambda record, _: b"%d" % (-1 if record.timestamp is None else record.timestamp),
    "h": _header_text,
    "t": lambda record, _: record.topic.encode(),
    "p": lambda record, _: b"%d" % record.partition,
    "o": lambda record, _: b"%d" % record.offset,
}


def compile_format(text: str, null: bytes, more: list[str | bytes] | None = None) -> Formatter:
    """Compile a kcat format.

    Parameters
    ----------
    text : str
        Literals, ``%`` tokens and backslash escapes.
    null : bytes
        Printed for a null key or value.
    more : list, optional
        Further pieces: ``%`` tokens as text, literals as finished bytes.

    Raises
    ------
    UsageError
        An unknown token.
    """
    pieces: list[bytes | Callable[[Record, bytes], bytes]] = []
    for part in [*re.split(r"(%.?)", text, flags=re.DOTALL), *(more or [])]:
        if isinstance(part, bytes):
            pieces.append(part)
        elif part == "%%":
            pieces.append(b"%")
        elif part.startswith("%"):
            token = TOKENS.get(part[1:])
            if token is None:
                raise UsageError(f"-f: {part!r} is no token; there are %{' %'.join(TOKENS)} %%")
            pieces.append(token)
        elif part:
            pieces.append(unescape(part))
    return lambda record: b"".join(
        piece if isinstance(piece, bytes) else piece(record, null) for piece in pieces
    )


def unescape(text: str) -> bytes:
    r"""Return the bytes of a delimiter or literal: ``\n``, ``\t``, ``\r``, ``\xHH``, ``\OOO``."""

    def replacement(match: re.Match[bytes]) -> bytes:
        hexadecimal, octal, other = match.groups()
        if hexadecimal:
            return bytes([int(hexadecimal, 16)])
        if octal:
            return bytes([int(octal, 8) & 0xFF])
        return _NAMED_ESCAPES.get(other, b"\\" + other)

    return _ESCAPE.sub(replacement, text.encode("utf-8", "surrogateescape"))
