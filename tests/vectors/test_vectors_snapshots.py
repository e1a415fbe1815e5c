"""Producer snapshots, intact and damaged [format.md 14]."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from segstore.errors import CorruptSnapshotError
from segstore.log.producers.producer_snapshot import format_snapshot, parse_snapshot
from tests.fuzz.mutations import outcome
from tests.vectors.kafka_errors import check_refusal
from tests.vectors.producer_description import describe_producer, describe_producers, producer_from

if TYPE_CHECKING:
    from tests.vectors.vector_files import Case

HEADER_BYTES = 10
ENTRY_BYTES = 46


def rows_of(data: bytes) -> list[bytes]:
    """The header without its checksum, and the entries as a set: their order means nothing."""
    cuts = range(HEADER_BYTES, len(data), ENTRY_BYTES)
    return [data[:2] + data[6:HEADER_BYTES], *sorted(data[cut : cut + ENTRY_BYTES] for cut in cuts)]


def check_snapshot(case: Case) -> None:
    data, expected = base64.b64decode(case["bytes"]), case["read"]
    if isinstance(expected, dict):
        check_refusal(
            expected.get("error", expected), lambda: parse_snapshot(data, exact_size=False)
        )
    else:
        read = parse_snapshot(data, exact_size=False)
        assert [describe_producer(entry) for entry in read] == expected
    if case["about"].endswith("intact"):
        written = format_snapshot(producer_from(entry) for entry in case["entries_written"])
        assert rows_of(written) == rows_of(data)
        again = describe_producers(parse_snapshot(written))
        assert again == sorted(expected, key=lambda producer: producer["producer_id"])
    else:
        check_exact_size(data)


def check_exact_size(data: bytes) -> None:
    """[DUR-97] Our own rule takes nothing that Kafka refuses, and nothing behind the end."""
    entries, error = outcome(lambda: parse_snapshot(data), CorruptSnapshotError)
    if error is None:
        assert len(data) == HEADER_BYTES + ENTRY_BYTES * len(entries)
    else:
        assert None not in {error.position, error.found, error.expected}


def test_snapshots(vectors):
    """[PSM-53, PSM-54] Kafka: ProducerStateManager.writeSnapshot, readSnapshot."""
    vectors("snapshots").check(check_snapshot)
