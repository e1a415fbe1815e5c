"""Remote parts of golden directories: folders that have ``remote/kafka-tiered-storage``.

Their schema is that of golden directories; no case is named.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import segstore
from segstore.remote.local_folder import LocalFolder
from segstore.remote.storage.segment_files import STORAGE_FOLDER
from segstore.remote.tiered.key_ring import KeyRing
from segstore.remote.tiered.local_tiered_layout import LocalTieredLayout
from segstore.remote.tiered.tiered_store import TieredStore

if TYPE_CHECKING:
    from pathlib import Path

    from segstore.types import TopicPartition

REMOTE = "remote"


@dataclass(frozen=True)
class TieredCase:
    """A remote storage as a broker left it, and what the broker served of the whole log.

    Attributes
    ----------
    directory : path
        Of the case.
    remote : str
        ``remote``, or ``remote_<when>`` of the same topic at another time.
    is_last : bool
        It is the one that the broker's answers are of.
    """

    directory: Path
    remote: str
    is_last: bool

    def __str__(self) -> str:
        return f"{self.directory.name}-{self.remote}"

    @property
    def storage(self) -> Path:
        """The folder of the storage."""
        return self.directory / self.remote / STORAGE_FOLDER

    @property
    def store(self) -> TieredStore:
        """The storage, shown as a log directory."""
        folder = LocalFolder(self.storage)
        return TieredStore(folder, LocalTieredLayout(folder, KeyRing({}), None))

    def opened(self, spool: Path, **options: Any) -> segstore.Bucket:
        """Open the storage."""
        return segstore.open_bucket(self.storage, spool_directory=str(spool), **options)

    @cached_property
    def said(self) -> dict[str, Any]:
        """What ``case.json`` says."""
        return self._json("case.json")

    @property
    def expected(self) -> dict[str, Any]:
        """The partitions that it says are in this storage, by their folders."""
        partitions: dict[str, Any] = self.said[f"expected_{self.remote}"]["partitions"]
        return partitions

    @cached_property
    def copies(self) -> dict[str, dict[str, Any]]:
        """What the broker published of each copy, by segment id."""
        events = self._json("records/remote_log_metadata.json")
        return {
            event["segment_id"]: event
            for topic in events
            if topic.startswith("__")
            for event in events[topic]
            if event["type"] == "RemoteLogSegmentMetadata"
        }

    def listed_by_kafka(self, partition: TopicPartition) -> list[dict[str, Any]]:
        """What Kafka's own store of the metadata lists at the end, none where it has none."""
        found: list[dict[str, Any]] = self._json("records/remote_log_metadata.json").get(
            f"segments of {partition}", []
        )
        return found

    def answers(self, kind: str, partition: str) -> list[dict[str, Any]]:
        """What the broker answered: ``fetches``, ``offsets_for_times``, ``epoch_end_offsets``."""
        found: list[dict[str, Any]] = self._json(f"records/{kind}.json").get(partition, [])
        return found

    def _json(self, name: str) -> Any:
        return json.loads((self.directory / name).read_text(encoding="utf-8"))


def tiered_cases(root: Path) -> list[TieredCase]:
    """Return the storages in a folder of cases."""
    found = []
    for directory in sorted(root.iterdir()):
        names = sorted(one.name for one in directory.glob(f"{REMOTE}*") if one.is_dir())
        if (directory / "case.json").is_file():
            found += [TieredCase(directory, name, name == names[-1]) for name in names]
    return found
