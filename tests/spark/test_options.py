"""Options beyond those that the connector was asked about: hostile texts, patterns, paths."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark")

from segstore.spark.conditions import ConnectorOptionError
from segstore.spark.java_pattern import compile_java_pattern
from segstore.spark.json_options import OFFSETS_EXAMPLE, parse_assignment, parse_partition_values
from segstore.spark.options import parse_options

BASE = {"path": "logs", "subscribe": "orders"}


@given(st.text(alphabet='{}[]",:0123456789.eE+-ntruefalsIy \n', max_size=60) | st.text(max_size=40))
def test_any_text_is_an_assignment_or_an_option_error(text):
    """Nothing else comes out, least of all a RecursionError or an OverflowError."""
    for parse in (
        parse_assignment,
        lambda t: parse_partition_values("startingOffsets", t, OFFSETS_EXAMPLE),
    ):
        try:
            parsed = parse(text)
        except ConnectorOptionError as error:
            assert text in str(error)  # noqa: PT017 - most texts raise, some do not
        else:
            assert all(-(2**31) <= partition < 2**31 for _, partition in parsed)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"t":' * 100_000,
        '{"t":[' + "9" * 5000 + "]}",
        '{"t":[1e999]}',
        '{"t":[NaN]}',
        '{"t":[Infinity]}',
    ],
)
def test_absurd_json_is_an_option_error(text):
    with pytest.raises(ConnectorOptionError):
        parse_assignment(text)


@given(
    st.dictionaries(
        st.sampled_from(
            [
                "assign",
                "endingOffsets",
                "failOnDataLoss",
                "includeHeaders",
                "minPartitions",
                "onDamage",
                "startingOffsets",
                "startingTimestamp",
                "subscribePattern",
            ]
        ),
        st.text(max_size=20),
    )
)
def test_any_values_are_options_or_an_option_error(values):
    try:
        options = parse_options(BASE | values)
    except ConnectorOptionError:
        return
    assert options.path == "logs"


@pytest.mark.parametrize(
    ("pattern", "reads", "reads_not"),
    [
        (r"\Qa.b\E", "a.b", "aXb"),
        (r"^(?<name>or)\k<name>$", "oror", "or"),
        (r"^\p{Lower}+\z", "orders", "Orders"),
        (r"^[\p{Digit}_]+$", "1_2", "a"),
        (r"[a-z]++-x", "ab-x", "AB-x"),
        (r"^\w+$", "a_1", "a-b"),
    ],
)
def test_java_patterns_mean_what_java_means(pattern, reads, reads_not):
    compiled = compile_java_pattern(pattern)

    assert compiled.search(reads)
    assert not compiled.search(reads_not)


@pytest.mark.parametrize(
    "pattern", ["[a-z&&[^b]]", "[a[b]]", "[]a]", r"\p{IsLatin}", r"\R", "(", "a{2,1}", "[a-"]
)
def test_what_python_would_read_otherwise_is_refused(pattern):
    with pytest.raises(ConnectorOptionError, match="subscribePattern"):
        compile_java_pattern(pattern)


@pytest.mark.parametrize(
    ("given_path", "path"),
    [("/a/b", "/a/b"), ("file:///a/b%20c", "/a/b c"), ("file:/a/b", "/a/b"), ("a:b", "a:b")],
)
def test_a_path_may_be_a_file_url(given_path, path):
    assert parse_options(BASE | {"path": given_path}).path == path


@pytest.mark.parametrize(
    ("text", "size"), [("7", 7), ("128m", 128 << 20), ("2 KB", 2048), ("1G", 1 << 30), ("5b", 5)]
)
def test_bytes_are_spelt_as_in_sparks_settings(text, size):
    assert parse_options(BASE | {"maxBytesPerPartition": text}).max_bytes_per_partition == size


def test_a_missing_path_is_told_after_everything_else():
    with pytest.raises(ConnectorOptionError, match="'path' must be specified"):
        parse_options({"subscribe": "orders"})
    with pytest.raises(ConnectorOptionError, match="One of the following options"):
        parse_options({})


def test_what_is_ignored_is_said():
    """A moved query keeps its broker options; they do nothing here."""
    options = parse_options(
        BASE
        | {
            "Kafka.Bootstrap.Servers": "broker:9092",
            "kafka.security.protocol": "SSL",
            "maxOffsetsPerTrigger": "5",
            "groupIdPrefix": "mine",
        }
    )

    assert len(options.warnings) == 3
    assert "kafka.bootstrap.servers" in options.warnings[0]
    assert "kafka.security.protocol" in options.warnings[1]
    assert "maxOffsetsPerTrigger" in options.warnings[2]


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("assign", '{"orders":0}', "[0,1]"),
        ("endingOffsets", "earliest", "latest"),
        ("endingOffsets", "newest", '"0":23'),
        ("endingOffsetsByTimestamp", "now", '"0": 123456789'),
        ("endingTimestamp", "now", "milliseconds since 1970"),
        ("failOnDataLoss", "maybe", "true or false"),
        ("onDamage", "ignore", "raise or skip"),
        ("maxBytesPerPartition", "0", "134217728 or 128m"),
        ("maxBytesPerPartition", "1.5g", "134217728 or 128m"),
        ("maxBytesPerPartition", "9999999999999999999g", "134217728 or 128m"),
        ("includeHeaders", "1", "true or false"),
        ("kafka.isolation.level", "committed", "read_uncommitted"),
        ("maxRecordsPerPartition", "x", "whole number"),
        ("maxRecordsPerPartition", "0", "1 or more"),
        ("minPartitions", " 2 ", "whole number"),
        ("partitionsPerTask", "0", "1 or more"),
        ("partitionsPerTask", "1.5", "whole number"),
        ("minPartitions", "3000000000", "32 bits"),
        ("startingOffsets", "latest", "earliest"),
        ("startingOffsets", '{"orders":{"0":-1}}', "an offset"),
        ("startingOffsetsByTimestamp", "[]", '"0": 123456789'),
        ("startingOffsetsByTimestampStrategy", "never", "error or latest"),
        ("startingTimestamp", "yesterday", "milliseconds since 1970"),
    ],
)
def test_a_wrong_value_is_told_with_the_name_of_its_option(name, value, expected):
    """As the documentation writes it, before the connector's words; and what would be right."""
    choice = {} if name == "assign" else {"subscribe": "orders"}
    with pytest.raises(ConnectorOptionError) as caught:
        parse_options({"path": "logs"} | choice | {name.lower(): value})

    plain, _, connectors = str(caught.value).partition(" Spark's Kafka source says: ")
    assert plain.startswith(f"option {name} is ")
    assert expected in plain
    assert connectors
    assert caught.value.found
    assert expected in caught.value.expected


def test_the_ranges_of_a_task_have_no_limit_in_bytes():
    with pytest.raises(ConnectorOptionError, match="set maxRecordsPerPartition"):
        parse_options(BASE | {"partitionsPerTask": "4", "maxBytesPerPartition": "1m"})


def test_an_option_error_does_not_repeat_a_long_value_twice():
    with pytest.raises(ConnectorOptionError) as caught:
        parse_options(BASE | {"minPartitions": "9" * 5000})

    assert len(caught.value.found) < 300
