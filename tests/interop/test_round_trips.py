"""Any list of records -> our bytes -> Kafka's own classes -> Kafka's bytes -> our records.

All equal [D1].
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import segstore
from segstore._core import BatchOptions, encode_records, iterate_raw_records, iterate_records
from segstore.records.compression import codec_table
from segstore.types import Codec
from tests.interop.round_trip import KafkaRecord, RoundTrip

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy as np

    from tests.interop.round_trip import Answer

MAX_LONG = 2**63 - 1
MAX_TIMESTAMP = MAX_LONG - 1
"""Behind a record without timestamp, -1, the delta of the largest long would not fit 64 bits."""
MAX_INT = 2**31 - 1
WHOLE = 2**30

TIMESTAMPS = (
    st.sampled_from([-1, 0, 1, MAX_TIMESTAMP])
    | st.integers(1_700_000_000_000, 1_700_000_100_000)
    | st.integers(0, MAX_TIMESTAMP)
)
DATA = st.none() | st.binary(max_size=40) | st.integers(0, 70_000).map(lambda n: b"x" * n)
HEADERS = st.lists(
    st.tuples(
        st.text(st.characters(exclude_categories=["Cs"]), max_size=10),
        st.none() | st.binary(max_size=10),
    ),
    max_size=3,
)
RECORDS = st.lists(
    st.builds(segstore.Record, key=DATA, value=DATA, headers=HEADERS, timestamp=TIMESTAMPS),
    min_size=1,
    max_size=12,
)
PRODUCERS = st.none() | st.tuples(
    st.integers(0, MAX_LONG), st.integers(0, 2**15 - 1), st.integers(0, MAX_INT), st.booleans()
)
BATCHES = st.tuples(
    RECORDS,
    st.sampled_from(list(Codec)),
    st.integers(0, 2**62),
    st.integers(-1, MAX_INT),
    PRODUCERS,
)


@pytest.fixture(scope="module")
def kafka() -> Iterator[RoundTrip]:
    """Kafka's classes, started once."""
    with RoundTrip() as process:
        yield process


def test_records_survive_the_way_to_kafka_and_back(
    kafka: RoundTrip, few_or_many: Callable[[int, int], int]
) -> None:
    """[format.md 4, 5, 8, 10] Fields of batch and records.

    Uncompressed bytes are Kafka's to the last.
    """

    @settings(
        max_examples=few_or_many(500, 4000),
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(BATCHES)
    def every_batch(drawn: tuple) -> None:
        check_round_trip(kafka, drawn)

    every_batch()


def check_round_trip(kafka: RoundTrip, drawn: tuple) -> None:
    records, codec, base_offset, epoch, producer = drawn
    options = {"codec": int(codec), "base_offset": base_offset, "partition_leader_epoch": epoch}
    if producer is not None:
        names = ("producer_id", "producer_epoch", "base_sequence", "transactional")
        options |= dict(zip(names, producer, strict=True))
    built = encode_records(records, BatchOptions(**options), codec_table(), 0, WHOLE)
    assert len(built.headers) == 1

    answer = kafka.ask(bytes(built))

    check_batch(answer, built.headers[0])
    assert [row[1:2] + row[3:] for row in answer.records] == [
        (record.timestamp, record.key, record.value, tuple(record.headers)) for record in records
    ]
    assert [row.offset - base_offset for row in answer.records] == list(range(len(records)))
    for data in (bytes(built), answer.built_by_kafka):
        assert [
            KafkaRecord(*row[:5], headers_of(row.headers))
            for row in iterate_raw_records(data, codec_table(), check_crc=True)
        ] == answer.records
        assert [record.value for record in iterate_records(data, codec_table())] == [
            record.value for record in records
        ]
    if codec is Codec.NONE:
        assert bytes(built) == answer.built_by_kafka


def check_batch(answer: Answer, header: np.void) -> None:
    batch = answer.batch
    for name in (
        "magic",
        "base_offset",
        "last_offset",
        "max_timestamp",
        "producer_id",
        "producer_epoch",
        "base_sequence",
        "partition_leader_epoch",
        "records_count",
    ):
        assert getattr(batch, name) == header[name], name
    assert batch.codec == header["attributes"] & 7
    assert batch.is_transactional == header["attributes"] >> 4 & 1
    assert batch.last_sequence == answer.records[-1].sequence


def headers_of(raw: tuple[tuple[bytes, bytes | None], ...]) -> tuple[tuple[str, bytes | None], ...]:
    return tuple((name.decode(), value) for name, value in raw)
