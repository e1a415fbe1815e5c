"""The image of a metadata log is Kafka's own: of real brokers' directories, and of random records.

[RAFT-20…RAFT-23, RAFT-47, RAFT-48, format.md 6.4, 16.3]
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING

import pytest

from segstore.log.files.metadata_image_reader import read_metadata_image
from tests.interop.kafka_metadata import KafkaMetadata, tree_of
from tests.interop.random_metadata import SCHEMAS, RandomMetadata

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROUNDS = 12
BATCHES = 40


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaMetadata]:
    with KafkaMetadata() as process:
        yield process


def test_random_records_lead_to_kafkas_image(kafka: KafkaMetadata, tmp_path: Path):
    """All record types in all versions, over several segments; transactions that end both ways."""
    seen: Counter[tuple[int, int]] = Counter()
    for seed in range(ROUNDS):
        directory = tmp_path / f"log-{seed}" / "__cluster_metadata-0"
        directory.mkdir(parents=True)
        made, end = RandomMetadata(Random(seed)), 0
        for _ in range(3):
            batches = [made.batch() for _ in range(BATCHES)]
            seen.update((row[0], row[1]) for batch in batches for row in batch)
            end = kafka.append(directory, batches, segment=end, next_offset=end)

        image = read_metadata_image(directory.parent)

        assert tree_of(image) == kafka.image(directory), seed
        assert image.end_offset == end
        assert image.unknown_records == {}
        assert (image.open_transaction_offset is not None) == made.is_in_transaction
    assert {*seen} == {
        (schema.key, version)
        for schema in SCHEMAS.values()
        for version in range(schema.versions.first, schema.versions.last + 1)
    }
