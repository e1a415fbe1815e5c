"""JSON objects of the rows of a frame: what Python's own reader gives back is what was there."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from segstore.errors import IllegalArgumentError
from segstore.records.json_rows import check_json_type, json_objects

NOON = dt.datetime(2024, 1, 31, 12, 0, 0, 123000, dt.UTC)


def texts_of(array: pa.Array) -> list[str]:
    """What stands for each cell."""
    check_json_type("a", array.type)
    return [row[len('{"a":') : -1] for row in json_objects({"a": array}, len(array)).to_pylist()]


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (pa.array([True, False, None]), ["true", "false", "null"]),
        (pa.array([-5, None, 7], pa.int8()), ["-5", "null", "7"]),
        (pa.array([2**64 - 1], pa.uint64()), ["18446744073709551615"]),
        (pa.array([1.0, -0.0, 0.1, 1e300, None]), ["1.0", "-0.0", "0.1", "1e+300", "null"]),
        (pa.array([0.1], pa.float32()), ["0.1"]),
        (pa.array([Decimal("12.50"), Decimal("0.00")]), ["12.50", "0.00"]),
        (
            pa.array(["ü", 'a"b\\', "\n\x00\x1f\x7f", ""]),
            ['"ü"', r'"a\"b\\"', '"\\n\\u0000\\u001f\x7f"', '""'],
        ),
        (pa.array(["a"], pa.string_view()), ['"a"']),
        (pa.array(["x", None, "x"]).dictionary_encode(), ['"x"', "null", '"x"']),
        (
            pa.DictionaryArray.from_arrays([1, None, 0], pa.array(["x", "y"], pa.string_view())),
            ['"y"', "null", '"x"'],
        ),
        (pa.array([dt.date(2024, 1, 31)]), ['"2024-01-31"']),
        (pa.array([dt.time(1, 2, 3, 4)]), ['"01:02:03.000004"']),
        (pa.array([NOON], pa.timestamp("ms", "UTC")), ['"2024-01-31T12:00:00.123Z"']),
        (pa.array([NOON], pa.timestamp("us", "Asia/Tokyo")), ['"2024-01-31T12:00:00.123000Z"']),
        (pa.array([NOON.replace(tzinfo=None)], pa.timestamp("s")), ['"2024-01-31T12:00:00"']),
        (pa.nulls(2), ["null", "null"]),
        (pa.array([[1, None], [], None]), ["[1,null]", "[]", "null"]),
        (pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int8(), 2)), ["[1,2]", "null", "[3,4]"]),
        (pa.array([[1], [2, 3], None], pa.list_view(pa.int8())), ["[1]", "[2,3]", "null"]),
        (
            pa.array([{"b": 1, "c": ["x"]}, None, {"b": None, "c": None}]),
            ['{"b":1,"c":["x"]}', "null", '{"b":null,"c":null}'],
        ),
        (pa.array([{}], pa.struct([])), ["{}"]),
    ],
    ids=lambda part: str(part.type) if isinstance(part, pa.Array) else "",
)
def test_each_type_has_one_text(array, expected):
    assert texts_of(array) == expected
    assert texts_of(array[1:]) == expected[1:]


def test_fields_stand_in_the_order_of_their_columns():
    rows = json_objects({'b "c"': pa.array([1]), "a": pa.array(["x"])}, 1)

    assert rows.to_pylist() == ['{"b \\"c\\"":1,"a":"x"}']
    assert json_objects({}, 2).to_pylist() == ["{}", "{}"]


@pytest.mark.parametrize(
    ("kind", "name", "hint"),
    [
        (pa.binary(), "a", "text first"),
        (pa.duration("ms"), "a", "number first"),
        (pa.map_(pa.string(), pa.int8()), "a", "list of structs"),
        (pa.struct([("b", pa.large_binary())]), "a.b", "text first"),
        (pa.list_(pa.binary_view()), "a[]", "text first"),
        (pa.dictionary(pa.int8(), pa.binary()), "a", "text first"),
        (
            pa.dictionary(pa.int8(), pa.list_(pa.struct([("b", pa.string_view())]))),
            "a",
            "decode the dictionary first",
        ),
    ],
    ids=str,
)
def test_types_without_a_text_are_refused_by_name(kind, name, hint):
    with pytest.raises(IllegalArgumentError) as caught:
        check_json_type("a", kind)

    assert f"column {name} has the Arrow type" in caught.value.message
    assert hint in caught.value.message


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_numbers_that_json_has_not_are_refused_with_their_row(value):
    with pytest.raises(IllegalArgumentError, match=r"row 12: column a holds (nan|-?inf)"):
        json_objects({"a": pa.array([1.0, None, value])}, 3, first_row=10)
    nested = pa.array([[{"b": 1.0}, {"b": 2.0}], None, [], [{"b": value}]])
    with pytest.raises(IllegalArgumentError, match=r"row 12: column a\[\]\.b holds"):
        json_objects({"a": nested[1:]}, 3, first_row=10)


@pytest.mark.parametrize(
    ("kind", "number", "good"),
    [
        (pa.date32(), 2**31 - 1, [-719_528, 2_932_896]),
        (pa.date32(), -(2**31), [0]),
        (pa.date32(), 2_932_897, [0]),
        (pa.date32(), -719_529, [0]),
        (pa.date64(), 2**62, [0]),
        (pa.timestamp("s"), -(2**62), [-62_167_219_200, 253_402_300_799]),
        (pa.timestamp("s"), 253_402_300_800, [0]),
        (pa.timestamp("ms"), 2**62, [253_402_300_799_999]),
        (pa.timestamp("us", "Asia/Tokyo"), 2**63 - 1, [0]),
        (pa.time32("s"), 86_400, [0, 86_399]),
        (pa.time64("ns"), -1, [86_399_999_999_999]),
    ],
    ids=str,
)
def test_times_that_have_no_text_are_refused_with_their_row(kind, number, good):
    width = pa.int32() if kind.bit_width == 32 else pa.int64()
    whole = pa.array([*good, None], width).view(kind)
    assert len(texts_of(whole)) == len(good) + 1

    bad = pa.array([0, None, number, number], width).view(kind)
    with pytest.raises(IllegalArgumentError) as caught:
        json_objects({"a": bad}, 4, first_row=10)
    assert caught.value.message.startswith(f"row 12: column a holds {number} as a {kind}, which")

    lists = pa.ListArray.from_arrays([0, 1, 1, 3], bad[:3])
    with pytest.raises(IllegalArgumentError, match=rf"row 2: column a\[\] holds {number} as a"):
        json_objects({"a": lists}, 3)


def test_extreme_nanoseconds_have_a_text():
    far = pa.array([2**63 - 1, -(2**63)], pa.timestamp("ns"))

    assert texts_of(far) == ['"2262-04-11T23:47:16.854775807"', '"1677-09-21T00:12:43.145224192"']


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
def test_text_that_is_no_utf8_is_refused_with_its_row(kind):
    bad = pa.array([b"ok", None, b"a\xff", b"\xed\xa0\x80"])
    text = bad.view(pa.string()).cast(kind)

    with pytest.raises(IllegalArgumentError, match=r"row 12: column a holds .*, which is no UTF-8"):
        json_objects({"a": text}, 4, first_row=10)
    encoded = pa.DictionaryArray.from_arrays([0, 2], text)
    with pytest.raises(IllegalArgumentError, match=r"row 1: column a holds .*, which is no UTF-8"):
        json_objects({"a": encoded}, 2)


def test_equal_field_names_of_a_struct_are_refused():
    inner = pa.struct([("x", pa.int8()), ("y", pa.int8()), ("x", pa.int8())])

    with pytest.raises(IllegalArgumentError) as caught:
        check_json_type("a", pa.list_(inner))

    assert "column a[] has two fields named x" in caught.value.message


VALUES = st.none() | st.fixed_dictionaries(
    {
        "text": st.none() | st.text(),
        "number": st.none() | st.floats(allow_nan=False, allow_infinity=False),
        "whole": st.none() | st.integers(-(2**63), 2**63 - 1),
        "yes": st.none() | st.booleans(),
        "many": st.none() | st.lists(st.none() | st.text()),
    }
)
KIND = pa.struct(
    [
        ("text", pa.string()),
        ("number", pa.float64()),
        ("whole", pa.int64()),
        ("yes", pa.bool_()),
        ("many", pa.list_(pa.string())),
    ]
)


@given(st.lists(VALUES, max_size=20), st.integers(0, 3))
def test_any_row_is_read_back_as_it_was(rows, start):
    """The oracle is Python's own JSON reader."""
    array = pa.array(rows, KIND)[start:]

    assert [json.loads(text) for text in texts_of(array)] == rows[start:]
