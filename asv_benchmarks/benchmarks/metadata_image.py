"""The image of a metadata log of a million records, beside Kafka's image loader.

Topics with their partitions and settings, then changes of leaders and in-sync replicas: these are
most of what a controller writes.
"""

from __future__ import annotations

import random
import uuid
from functools import cache
from typing import TYPE_CHECKING, Any

from segstore.log.files.metadata_image_reader import read_metadata_image

from .common import PROFILE, SEED, Cost, _Comparison, cost_of
from .kafka_peer import from_tests, kafka_log

if TYPE_CHECKING:
    from collections.abc import Iterator

TOPICS = 10 if PROFILE.rounds == 1 else 2_000
RECORDS_PER_TOPIC = 500
PARTITIONS = 20
BATCH_RECORDS = 200
BROKERS = 6
DIRECTORIES = [uuid.UUID(int=number << 64 | number) for number in range(101, 101 + BROKERS)]
REPLICAS = [[(first + one) % BROKERS for one in range(3)] for first in range(BROKERS)]
MARK = uuid.UUID(int=2**120 - 1)
"""In the place of a topic's id, the one thing in which the records of two topics differ."""


class ApplyMetadataRecords(_Comparison):
    """Speed over that of Kafka: ``MetadataBatchLoader`` with what reads and checks the batches.

    Both read one segment of the page cache, check each CRC, read each record and apply it; the
    image is there at the end. One thread of each; Java's collector and compiler count for nothing.
    """

    warm_up_rounds = 3

    def setup(self) -> None:
        self.set_up_ours()
        kafka_log()

    def set_up_ours(self) -> None:
        self.make_scratch()
        self.segment = self.path / f"{0:020}.log"
        batch_of = from_tests("kits.metadata_kit").metadata_batch
        records = [*cluster(), *(one for number in range(TOPICS) for one in topic(number))]
        self.records_count = len(records)
        with self.segment.open("wb") as file:
            for offset in range(0, len(records), BATCH_RECORDS):
                file.write(batch_of(offset, records[offset : offset + BATCH_RECORDS]))

    def ours(self) -> Cost:
        return cost_of(self._read_image)

    def _read_image(self) -> float:
        image = read_metadata_image(self.path)
        assert image.end_offset == self.records_count
        assert len(image.topics) == TOPICS
        return image.end_offset

    def theirs(self) -> Cost:
        cpu, wall, records = kafka_log().measure("image", self.segment)
        assert records == self.records_count
        return Cost(cpu / records, wall / records)


def record(kind: str, /, **fields: Any) -> bytes:
    """The value of a record."""
    value: bytes = from_tests("kits.metadata_kit").metadata_record(kind, **fields)
    return value


def cluster() -> Iterator[bytes]:
    """Yield what comes before the topics."""
    yield record("FeatureLevelRecord", name="metadata.version", featureLevel=30)
    for broker in range(BROKERS):
        listener = {"name": "A", "host": "localhost", "port": 9092, "securityProtocol": 0}
        yield record(
            "RegisterBrokerRecord",
            brokerId=broker,
            brokerEpoch=broker,
            incarnationId=DIRECTORIES[broker],
            endPoints=[listener],
            logDirs=[DIRECTORIES[broker]],
        )


def partition(number: int) -> bytes:
    """The record that makes a partition."""
    replicas = REPLICAS[number % BROKERS]
    return record(
        "PartitionRecord",
        partitionId=number,
        topicId=MARK,
        replicas=replicas,
        isr=replicas,
        leader=replicas[0],
        directories=[DIRECTORIES[one] for one in replicas],
    )


def change(number: int, in_sync: int, **more: int) -> bytes:
    """A record that changes a partition, and perhaps its leader."""
    isr = REPLICAS[number % BROKERS][:in_sync]
    return record("PartitionChangeRecord", partitionId=number, topicId=MARK, isr=isr, **more)


@cache
def templates() -> tuple[list[bytes], list[bytes]]:
    """Records that make partitions, and that change them, with another topic id."""
    numbers = range(PARTITIONS)
    changes = [change(number, in_sync) for number in numbers for in_sync in (1, 2, 3)]
    changes += [
        change(number, 3, leader=leader)
        for number in numbers
        for leader in REPLICAS[number % BROKERS]
    ]
    return [partition(number) for number in numbers], changes


def topic(number: int) -> Iterator[bytes]:
    """Yield the records of a topic: what makes it, and changes by chance."""
    made, changes = templates()
    topic_id, name = uuid.UUID(int=(number + 1000) << 64 | number), f"topic-{number}"
    yield record("TopicRecord", name=name, topicId=topic_id)
    yield record(
        "ConfigRecord", resourceType=2, resourceName=name, name="retention.ms", value=str(number)
    )
    changed = random.Random(SEED + number).choices(changes, k=RECORDS_PER_TOPIC - 2 - PARTITIONS)
    for one in (*made, *changed):
        yield one.replace(MARK.bytes, topic_id.bytes)
