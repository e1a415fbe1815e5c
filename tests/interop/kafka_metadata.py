"""Kafka's classes of the metadata log as a process: they write logs, and say what logs mean."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any, Self
from uuid import UUID

from segstore.log.files.partition_metadata_file import topic_id_text
from tests.interop.kafka_classes import JAVA_SOURCES, java_command
from tests.kits.short_java import OPTIONS

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from segstore.log.files.metadata_image import MetadataImage
    from tests.interop.random_metadata import Row

EPOCH = 3
TIMESTAMP = 1_700_000_000_000


class KafkaMetadata:
    """The process; it is alive within a ``with``."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            java_command(*OPTIONS.split(), str(JAVA_SOURCES / "ImageOfMetadata.java")),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.communicate(timeout=30)

    def append(
        self,
        directory: Path,
        batches: list[list[Row]],
        *,
        segment: int = 0,
        next_offset: int = 0,
        epoch: int = EPOCH,
    ) -> int:
        """Append batches to a segment of the metadata log; returns the next offset."""
        rows = [{"epoch": epoch, "timestamp": TIMESTAMP, "records": one} for one in batches]
        answer = self._ask(
            "batches", directory, batches=rows, segment=segment, next_offset=next_offset
        )
        return int(answer["next_offset"])

    def take_snapshot(  # noqa: PLR0913 - what a snapshot has
        self,
        directory: Path,
        offset: int,
        *,
        epoch: int = EPOCH,
        kraft_version: int = 0,
        voters: tuple[int, ...] = (),
        batch_bytes: int = 1024,
        snapshot: str | None = None,
    ) -> Path:
        """Write a snapshot of what the directory says."""
        self._ask(
            "snapshot",
            directory,
            offset=offset,
            epoch=epoch,
            timestamp=TIMESTAMP,
            kraft_version=kraft_version,
            voters=voters,
            batch_bytes=batch_bytes,
            snapshot=snapshot,
        )
        return directory / f"{offset:020}-{epoch:010}.checkpoint"

    def image(
        self, directory: Path, snapshot: str | None = None, at: int | None = None
    ) -> dict[str, Any]:
        """Return what Kafka's image of a directory says, of all records or of those below *at*."""
        image: dict[str, Any] = self._ask("show", directory, snapshot=snapshot, at=at)["image"]
        for broker in image["brokers"].values():
            broker["directories"].sort()
        return image

    def meta_properties(self, directory: Path) -> str:
        """Return what the file of a log directory says; an AssertionError where Kafka refuses."""
        return str(self._ask("properties", directory)["properties"])

    def _ask(self, do: str, directory: Path, **request: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        line = json.dumps({"do": do, "directory": str(directory), **request})
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        assert "error" not in answer, answer["error"]
        return answer


def tree_of(image: MetadataImage) -> dict[str, Any]:
    """Return an image as `KafkaMetadata.image` does."""
    brokers = {str(number): one._asdict() for number, one in image.brokers.items()}
    for broker in brokers.values():
        del broker["broker_id"]
        broker["directories"] = sorted(map(topic_id_text, broker["directories"]))
    controllers = {str(number): one._asdict() for number, one in image.controllers.items()}
    for controller in controllers.values():
        del controller["controller_id"]
    tree = {
        "metadata_version": image.metadata_version,
        "features": image.features,
        "brokers": brokers,
        "controllers": controllers,
        "topics": {
            name: {
                "topic_id": topic.topic_id,
                "partitions": {str(n): one._asdict() for n, one in topic.partitions.items()},
            }
            for name, topic in image.topics.items()
        },
        "configs": {f"{one.type} {one.name}": values for one, values in image.configs.items()},
        "client_quotas": {
            f"{{{', '.join(f'{kind}={_or_null(name)}' for kind, name in entity)}}}": values
            for entity, values in image.client_quotas.items()
        },
        "next_producer_id": image.next_producer_id,
        "access_control_entries": {
            topic_id_text(one): entry for one, entry in image.access_control_entries.items()
        },
        "scram_iterations": {
            f"{user} {mechanism}": iterations
            for (user, mechanism), iterations in image.scram_iterations.items()
        },
        "delegation_tokens": {one: token[1:] for one, token in image.delegation_tokens.items()},
    }
    return _plain(tree)


def _or_null(name: str | None) -> str:
    return "null" if name is None else name


def _plain(value: Any) -> Any:
    if isinstance(value, UUID):
        return topic_id_text(value)
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    if hasattr(value, "items"):
        return {name: _plain(one) for name, one in value.items()}
    return value
