"""Records of internal topics may hold any bytes: ``dump`` prints something about each.

[DUR-85, DUR-87, DUR-103, DUR-105, format.md 18.2]
"""

from __future__ import annotations

import json
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segstore._core import (
    FramedMessages,
    MessageError,
    MessageReader,
    MessageSchema,
    RawRecord,
)
from segstore.cli.decoders.record_decoder import DECODERS, StringDecoder
from segstore.errors import InvalidRecordError
from segstore.records.messages import (
    coordinator_messages,
    group_messages,
    metadata_messages,
    remote_log_messages,
)
from segstore.records.messages.message_schema import parse_schemas
from tests.fuzz.mutations import anything_like, outcome
from tests.interop.message_writer import (
    MessageWriter,
    coordinator_records,
    framed_values,
    versions_of,
)

EACH = 1
MOST_TEXT = 60  # characters that a byte of a message can make, names of fields included
LEAST_TEXT = 2000
MOST_OF_AN_ERROR = 500

COORDINATORS = {
    "offsets_decoder": group_messages.GROUP_MESSAGES,
    "transaction_log_decoder": coordinator_messages.TRANSACTION_MESSAGES,
    "share_group_state_decoder": coordinator_messages.SHARE_MESSAGES,
}
FRAMED = {
    "cluster_metadata_decoder": metadata_messages.METADATA_MESSAGES,
    "remote_log_metadata_decoder": remote_log_messages.REMOTE_LOG_MESSAGES,
}
SCHEMAS = {
    name: parse_schemas(table)
    for name, table in {
        **COORDINATORS,
        **FRAMED,
        "consumer protocol": coordinator_messages.PROTOCOL_MESSAGES,
        "control records": metadata_messages.CONTROL_MESSAGES,
    }.items()
}
DECODER = {name: make() for name, make in DECODERS.items()}

good_records = {name: coordinator_records(SCHEMAS[name], Random(4), EACH) for name in COORDINATORS}
good_values = {name: framed_values(SCHEMAS[name], Random(4), EACH) for name in FRAMED}


def record(key: bytes | None, value: bytes | None) -> RawRecord:
    return RawRecord(7, 0, -1, key, value, (), 0)


def check_texts(texts: tuple[str | None, str | None], size: int) -> None:
    """Texts, in proportion to what was read: nothing is made of a claimed size."""
    for text in texts:
        assert text is None or (
            isinstance(text, str) and len(text) <= LEAST_TEXT + MOST_TEXT * size
        )


def test_every_decoder_is_looked_at():
    assert set(COORDINATORS) | set(FRAMED) == set(DECODERS)


@pytest.mark.parametrize("name", COORDINATORS)
@given(data=st.data())
def test_keys_and_values_of_coordinators(name: str, data: st.DataObject):
    """Good, changed and any; key and value need not belong together."""
    keys = st.sampled_from([key for key, _ in good_records[name] if key is not None])
    values = st.sampled_from([value for _, value in good_records[name] if value is not None])
    key = data.draw(st.one_of(keys, anything_like(keys)))
    value = data.draw(st.none() | anything_like(values))

    texts = DECODER[name].decode(record(key, value))

    check_texts(texts, len(key) + len(value or b""))
    assert texts[0] is not None
    if texts[0].startswith("{"):
        assert json.loads(texts[0])["type"] == str(int.from_bytes(key[:2], signed=True))
        assert texts[1] == "<DELETE>" or json.loads(texts[1]).keys() == {"version", "data"}


@pytest.mark.parametrize("name", COORDINATORS)
@given(value=st.none() | st.binary(max_size=40))
def test_a_record_without_key_is_refused(name: str, value: bytes | None):
    with pytest.raises(InvalidRecordError, match="offset 7"):
        DECODER[name].decode(record(None, value))


@pytest.mark.parametrize("name", FRAMED)
@given(data=st.data())
def test_framed_values(name: str, data: st.DataObject):
    value = data.draw(st.none() | anything_like(st.sampled_from(good_values[name])))

    texts = DECODER[name].decode(record(None, value))

    check_texts(texts, len(value or b""))
    assert texts[0] is None
    assert texts[1] is not None
    if value is not None and name == "cluster_metadata_decoder" and texts[1].startswith("{"):
        message = FramedMessages(SCHEMAS[name].values()).read(value)
        assert json.loads(texts[1])["version"] == message.version


@given(st.none() | st.binary(max_size=100), st.none() | st.binary(max_size=100))
def test_strings(key: bytes | None, value: bytes | None):
    """As Java decodes them; `fuzz_utf8_java.c` compares the characters."""
    texts = StringDecoder().decode(record(key, value))

    for text, given_bytes in zip(texts, (key, value), strict=True):
        assert (text is None) == (given_bytes is None)
        assert text is None or len(text) <= len(given_bytes or b"")
    if key is not None and key.isascii():
        assert texts[0] == key.decode()


@given(
    st.sampled_from([schema for table in SCHEMAS.values() for schema in table.values()]),
    st.integers(-3, 6) | st.integers(-(2**15), 2**15 - 1),
    st.data(),
)
def test_any_message_in_any_version(schema: MessageSchema, version: int, data: st.DataObject):
    """[DUR-85, DUR-87] Good, changed and any bytes; also in versions that no broker writes."""
    good = [MessageWriter(Random(4), schema, one).message() for one in versions_of(schema)]
    content = data.draw(st.binary(max_size=300) | anything_like(st.sampled_from(good)))
    reader = MessageReader(content)
    tree, error = outcome(lambda: reader.message(schema, version), MessageError)

    assert isinstance(tree, dict) if error is None else 0 < len(str(error)) < MOST_OF_AN_ERROR
    assert 0 <= reader.remaining <= len(content)


@pytest.mark.parametrize(
    "claim", [b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\x0f", b"\x80\x80\x80\x80\x08"]
)
@pytest.mark.parametrize("name", FRAMED)
def test_a_claimed_size_takes_neither_time_nor_memory(name: str, claim: bytes):
    """[DUR-87, DUR-88] A number of tags, elements or bytes, claimed at each place."""
    for value in good_values[name]:
        for at in range(len(value)):
            texts = DECODER[name].decode(record(None, value[:at] + claim + value[at:]))
            check_texts(texts, len(value))
