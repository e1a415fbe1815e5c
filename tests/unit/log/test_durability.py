"""The durable modes: what is written, and what flush.messages and flush.ms add [DUR-3]."""

from __future__ import annotations

import pytest

from segstore import LogConfig
from segstore.errors import IllegalArgumentError
from segstore.log.durability import Durability
from segstore.number_limits import MAX_LONG


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("none", Durability()),
        ("sync", Durability(sync=True)),
        ("messages=1", Durability(messages=1)),
        ("messages=9223372036854775807", Durability(messages=MAX_LONG)),
        ("seconds=0.5", Durability(seconds=0.5)),
        ("seconds=1e-3", Durability(seconds=0.001)),
    ],
)
def test_a_mode_is_read(text, expected):
    """[DUR-3]"""
    assert Durability.parse(text) == expected


@pytest.mark.parametrize("mode", ["none", "sync", "messages=1000", "seconds=0.5"])
def test_a_mode_is_printed_as_it_is_read(mode):
    """[DUR-3]"""
    assert str(Durability.parse(mode)) == mode


@pytest.mark.parametrize(
    "text",
    [
        *("", "None", "SYNC", "sync=", "sync=1", "none=0", "messages", "messages=", "messages=0"),
        *("messages=-1", "messages=1.5", "messages=9223372036854775808", "seconds", "seconds="),
        *("seconds=0", "seconds=-1", "seconds=nan", "seconds=inf", "seconds=x", "minutes=1"),
        *(None, 1, True, b"sync"),
    ],
)
def test_everything_else_is_refused(text):
    """[DUR-3] the error names what was found and what is expected."""
    with pytest.raises(IllegalArgumentError) as caught:
        Durability.parse(text)
    assert caught.value.found == repr(text)
    assert "messages=N" in caught.value.expected


@pytest.mark.parametrize(
    ("mode", "settings", "expected"),
    [
        ("none", {}, "none"),
        ("none", {"flush_messages": 10}, "messages=10"),
        ("messages=5", {"flush_messages": 10}, "messages=5"),
        ("messages=50", {"flush_messages": 10}, "messages=10"),
        ("none", {"flush_ms": 250}, "seconds=0.25"),
        ("seconds=1", {"flush_ms": 250}, "seconds=0.25"),
        ("seconds=0.1", {"flush_ms": 250}, "seconds=0.1"),
        ("none", {"flush_ms": 0}, "seconds=0.001"),
        ("sync", {"flush_messages": 10, "flush_ms": 250}, "sync"),
    ],
)
def test_of_mode_and_topic_settings_the_stricter_holds(mode, settings, expected):
    """[APP-17, FLU-4] flush.messages, flush.ms."""
    assert str(Durability.parse(mode).with_flush_settings(LogConfig(**settings))) == expected
