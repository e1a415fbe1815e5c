"""KRaft's control records, both ways [format.md 6.3, 19.7]."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segstore._core import iterate_raw_records
from segstore.errors import IllegalArgumentError, InvalidRecordError, UnsupportedFormatError
from segstore.records.compression import codec_table
from segstore.records.control_batch import build_kraft_batch
from segstore.records.kraft_record import (
    Endpoint,
    KRaftVersion,
    KRaftVoter,
    KRaftVoters,
    LeaderChange,
    LeaderChangeVoter,
    SnapshotFooter,
    SnapshotHeader,
    encode_kraft_value,
    parse_kraft_record,
)

TIME = 1_700_000_000_000
HEADER = "0020000000000000018bcfe568000000018bcfe56800ffffffffffffffffffffffffffff00000001"

EXAMPLES = {
    "leader change": (
        build_kraft_batch(
            983,
            TIME,
            20,
            LeaderChange(1, [LeaderChangeVoter(2), LeaderChangeVoter(3)], [LeaderChangeVoter(2)]),
        ),
        (
            f"00000000000003d700000054000000140273b4ec6f{HEADER}"
            "4400000008000000023000000000000103000000020000000003000200000002000000"
        ),
    ),
    "snapshot header": (
        build_kraft_batch(0, TIME, 1, SnapshotHeader(TIME)),
        (
            f"0000000000000000000000470000000102c7ac7804{HEADER}"
            "2a00000008000000031600000000018bcfe568000000"
        ),
    ),
    "snapshot footer": (
        build_kraft_batch(0, TIME, 1, SnapshotFooter()),
        f"00000000000000000000003f00000001028f6608e6{HEADER}1a00000008000000040600000000",
    ),
    "kraft version": (
        build_kraft_batch(0, TIME, 1, KRaftVersion(1)),
        f"0000000000000000000000410000000102a89c5586{HEADER}1e00000008000000050a000000010000",
    ),
    "voters": (
        build_kraft_batch(
            0,
            TIME,
            1,
            KRaftVoters(
                [
                    KRaftVoter(
                        1,
                        UUID(bytes=bytes(range(16))),
                        [Endpoint("CONTROLLER", "localhost", 9093)],
                        0,
                        1,
                    )
                ]
            ),
        ),
        (
            f"000000000000000000000074000000010214d13413{HEADER}820100000008000000066e00000200000001"
            "000102030405060708090a0b0c0d0e0f020b434f4e54524f4c4c45520a6c6f63616c686f7374238500000000"
            "0100000000"
        ),
    ),
}

int16s = st.integers(0, 2**15 - 1)
int32s = st.integers(-(2**31), 2**31 - 1)
texts = st.text(st.characters(codec="utf-8"), max_size=150)
voters = st.lists(int32s.map(LeaderChangeVoter), max_size=3)
values = st.one_of(
    st.builds(LeaderChange, int32s, voters, voters, int16s),
    st.builds(SnapshotHeader, st.integers(-(2**63), 2**63 - 1), int16s),
    st.builds(SnapshotFooter, int16s),
    st.builds(KRaftVersion, int16s, int16s),
    st.builds(
        KRaftVoters,
        st.lists(
            st.builds(
                KRaftVoter,
                int32s,
                st.uuids(allow_nil=True),
                st.lists(st.builds(Endpoint, texts, texts, st.integers(0, 2**16 - 1)), max_size=3),
                int16s,
                int16s,
            ),
            max_size=3,
        ),
        int16s,
    ),
)


def key_of(kind: int) -> bytes:
    return bytes((0, 0, 0, kind))


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_worked_examples_come_out(name: str):
    """[format.md 19.7]"""
    built, expected = EXAMPLES[name]

    assert built.hex() == expected


@given(values)
def test_what_is_written_is_read(value):
    """[format.md 6.3] Decode after encode."""
    kind, content = encode_kraft_value(value)

    assert parse_kraft_record(key_of(kind), content) == value


@given(st.sampled_from([2, 3, 4, 5, 6]), st.binary(max_size=80))
def test_any_bytes_are_a_value_or_refused(kind: int, content: bytes):
    """[DUR-85, DUR-87]"""
    try:
        value = parse_kraft_record(key_of(kind), content)
    except InvalidRecordError:
        return
    again = encode_kraft_value(value)[1]
    assert parse_kraft_record(key_of(kind), again) == value


@given(values, st.data())
def test_cut_values_are_refused(value, data):
    kind, content = encode_kraft_value(value)
    cut = data.draw(st.integers(0, len(content) - 1))

    with pytest.raises(InvalidRecordError):
        parse_kraft_record(key_of(kind), content[:cut])


def test_a_leader_change_has_no_directory_ids():
    """Kafka reads and writes version 0 of it, whatever version it says."""
    value = LeaderChange(1, [LeaderChangeVoter(2)], [], 1)
    with_directory = LeaderChange(1, [LeaderChangeVoter(2, UUID(int=77))])

    kind, content = encode_kraft_value(value)

    assert content.hex() == "0001000000010200000002000100"
    assert parse_kraft_record(key_of(kind), content) == value
    with pytest.raises(UnsupportedFormatError):
        encode_kraft_value(with_directory)


def test_tagged_fields_of_later_versions_are_skipped():
    """[format.md 2.3]"""
    content = b"\0\0" + b"\0\1" + b"\2" + b"\0\3abc" + b"\5\1x"

    assert parse_kraft_record(key_of(5), content) == KRaftVersion(1)


@pytest.mark.parametrize(
    ("key", "value", "error"),
    [
        (key_of(1), b"\0\0\0\0\0\7", IllegalArgumentError),
        (key_of(7), b"\0\0", IllegalArgumentError),
        (b"\0\0\0", b"\0\0", InvalidRecordError),
        (key_of(4), None, InvalidRecordError),
        (key_of(4), b"\xff\xff\0", InvalidRecordError),
        (key_of(2), b"\0\0\0\0\0\1\0", InvalidRecordError),
        (key_of(2), b"\0\0\0\0\0\1\xff\xff\xff\xff\x0f", InvalidRecordError),
    ],
)
def test_what_is_no_kraft_record_is_refused(key: bytes, value: bytes | None, error):
    """[DUR-96] Kafka: ControlRecordUtilsTest.testInvalidControlRecordType."""
    with pytest.raises(error):
        parse_kraft_record(key, value)


def test_a_leader_change_needs_an_epoch():
    """[format.md 10]"""
    with pytest.raises(IllegalArgumentError):
        build_kraft_batch(0, TIME, -1, LeaderChange(1))


def test_the_batch_holds_one_control_record():
    (record,) = iterate_raw_records(EXAMPLES["kraft version"][0], codec_table(), check_crc=True)

    assert parse_kraft_record(record.key, record.value) == KRaftVersion(1)
