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
    for parse in (parse_assignment, lambda t: parse_partition_values(t, OFFSETS_EXAMPLE)):
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
