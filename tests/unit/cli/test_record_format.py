"""Records as text: kcat's formats and JSON lines."""

from __future__ import annotations

import json

import pytest

from segstore._core import Record
from segstore.cli.output import UsageError
from segstore.cli.record_format import (
    compile_format,
    format_jsonl,
    format_kcat_json,
    unescape,
)

RECORD = Record(
    key=b"k",
    value=b"v\xff",
    headers=[("h", b"1"), ("\u00fc", None)],
    timestamp=1700000000000,
    offset=42,
    timestamp_type=0,
    leader_epoch=3,
    topic="orders",
    partition=7,
)
NULLS = Record(timestamp=-1, offset=0, topic="orders", partition=0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%t-%p:%o\\n", b"orders-7:42\n"),
        ("%k=%s", b"k=v\xff"),
        ("%K %S", b"1 2"),
        ("%R", b"\x00\x00\x00\x02"),
        ("%T", b"1700000000000"),
        ("%h", b"h=1,\xc3\xbc=NULL"),
        ("100%% \\x41\\t", b"100% A\t"),
        ("", b""),
    ],
)
def test_format_tokens_are_kcats(text: str, expected: bytes):
    """Bytes are written as they are."""
    assert compile_format(text, b"")(RECORD) == expected


def test_null_is_empty_or_a_word():
    """``-Z``; a null has the size -1."""
    assert compile_format("[%k|%s|%S]", b"")(NULLS) == b"[||-1]"
    assert compile_format("[%k|%s|%h]", b"NULL")(NULLS) == b"[NULL|NULL|]"


@pytest.mark.parametrize("text", ["%z", "ends in %"])
def test_an_unknown_token_is_refused(text: str):
    """The message names the ones there are."""
    with pytest.raises(UsageError, match="%s"):
        compile_format(text, b"")


def test_jsonl_holds_every_field():
    """The text of golden records/*.jsonl; base64, null is null."""
    assert format_jsonl(RECORD).decode() == (
        '{"offset":42,"timestamp":1700000000000,"timestampType":"CreateTime","leaderEpoch":3,'
        '"key":"aw==","value":"dv8=","headers":[["h","MQ=="],["\u00fc",null]]}\n'
    )
    assert json.loads(format_jsonl(NULLS)) == {
        "offset": 0,
        "timestamp": -1,
        "timestampType": "CreateTime",
        "leaderEpoch": None,
        "key": None,
        "value": None,
        "headers": [],
    }


def test_kcat_json_is_the_envelope_of_kcat():
    """``-J``; bytes that are no UTF-8 become U+FFFD."""
    fields = json.loads(format_kcat_json(RECORD))

    assert fields == {
        "topic": "orders",
        "partition": 7,
        "offset": 42,
        "tstype": "create",
        "ts": 1700000000000,
        "headers": ["h", "1", "\u00fc", None],
        "key": "k",
        "payload": "v\ufffd",
    }
    assert "headers" not in json.loads(format_kcat_json(NULLS))


@pytest.mark.parametrize(
    ("text", "expected"),
    [("\\n\\t\\r\\\\", b"\n\t\r\\"), ("\\x0a\\101", b"\nA"), ("\\q", b"\\q"), ("é", "é".encode())],
)
def test_escapes(text: str, expected: bytes):
    """Unknown escapes stay as they are."""
    assert unescape(text) == expected
