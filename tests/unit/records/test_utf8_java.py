"""Text as Java reads bytes, which a dump must print [format.md 18.2]."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segstore.records.utf8_java import decode_utf8

REPLACED = "\ufffd"


@pytest.mark.parametrize(
    ("data", "replacements"),
    [
        pytest.param(b"\x80", 1, id="lone continuation"),
        pytest.param(b"\xc0\xaf", 2, id="overlong of two bytes"),
        pytest.param(b"\xc3", 1, id="two-byte lead at the end"),
        pytest.param(b"\xe0\x9f\x80", 3, id="overlong of three bytes"),
        pytest.param(b"\xe2\x28", 1, id="three-byte lead, bad second"),
        pytest.param(b"\xe2\x82\x28", 1, id="bad third: two bytes at once"),
        pytest.param(b"\xe2\x82", 1, id="three bytes cut by the end"),
        pytest.param(b"\xed\xa0\x80", 1, id="a whole surrogate"),
        pytest.param(b"\xed\xa0", 1, id="a surrogate cut by the end"),
        pytest.param(b"\xf0\x8f\x80\x80", 4, id="overlong of four bytes"),
        pytest.param(b"\xf4\x90\x80\x80", 4, id="above U+10FFFF"),
        pytest.param(b"\xf0\x9f\x98", 1, id="four bytes cut by the end"),
        pytest.param(b"\xf0\x9f\x98\x28", 1, id="bad fourth: three bytes at once"),
        pytest.param(b"\xf0\x9f\x28", 1, id="bad third of four: two bytes at once"),
        pytest.param(b"\xf5\x80\x80\x80", 4, id="lead above F4"),
        pytest.param(b"\xf8\x88\x80\x80\x80", 5, id="five-byte lead"),
        pytest.param(b"\xff", 1, id="FF"),
    ],
)
def test_malformed_input_has_as_many_replacements_as_in_java(data: bytes, replacements: int):
    """[format.md 18.2] What follows is read again from the byte behind the replacement."""
    text = decode_utf8(data + b"(x")

    assert text.count(REPLACED) == replacements
    assert decode_utf8(data).count(REPLACED) == replacements
    assert text.endswith("(x")


@given(st.text())
def test_valid_text_is_unchanged(text: str):
    """Surrogates are no valid text."""
    data = text.encode("utf-8", "surrogatepass")
    if not any("\ud800" <= character <= "\udfff" for character in text):
        assert decode_utf8(data) == text


@given(st.binary(max_size=40))
def test_any_bytes_have_a_text(data: bytes):
    """No byte is lost silently: without replacements the text encodes to the input."""
    text = decode_utf8(data)

    if REPLACED not in text:
        assert text.encode() == data
