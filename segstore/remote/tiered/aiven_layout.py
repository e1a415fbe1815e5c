"""Where a bucket of Aiven's plug-in has its topics, partitions and segments [BKT]."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from segstore.errors import LogNotFoundError
from segstore.log.files.partition_metadata_file import topic_id_text
from segstore.number_limits import MAX_INT
from segstore.remote.storage.segment_files import STORAGE_FOLDER
from segstore.remote.tiered.local_tiered_layout import is_of_local_tiered_storage
from segstore.remote.tiered.manifest_cache import ManifestCache
from segstore.remote.tiered.object_key import parse_topic_folder
from segstore.remote.tiered.other_layouts import no_topics_error
from segstore.remote.tiered.tiered_partition import (
    TieredPartition,
    list_partition,
    newest_copy,
)
from segstore.remote.tiered.topic_choice import latest_of

if TYPE_CHECKING:
    from uuid import UUID

    from segstore.remote.remote_file import BucketStore
    from segstore.remote.tiered.key_ring import KeyRing
    from segstore.remote.tiered.segment_states import SegmentStates
    from segstore.remote.tiered.topic_choice import LatestCopy

_PARTITION: Final = re.compile(r"0|[1-9][0-9]{0,9}")


class AivenLayout:
    """The layout with manifests.

    Parameters
    ----------
    bucket : BucketStore
        The bucket, or a folder of it.
    keys : KeyRing
        For encrypted segments.
    key_prefix : str
        What stands before the topics in the keys and is not part of the URL [BKT-2].
    states : SegmentStates or None
        Which segments count [SEL-13]; None: all complete ones.
    """

    def __init__(
        self, bucket: BucketStore, keys: KeyRing, key_prefix: str, states: SegmentStates | None
    ) -> None:
        self._bucket, self._keys, self._prefix = bucket, keys, key_prefix
        self._states = states
        self._manifests = ManifestCache()

    def topic_ids(self) -> dict[str, list[UUID]]:
        """Return the topics with the ids under which the bucket holds something, sorted.

        Raises
        ------
        LogNotFoundError, UnsupportedFormatError
            The bucket holds something, and no topic.
        """
        found: dict[str, list[UUID]] = {}
        root = self._bucket.list_folder("")
        for name in root.folders:
            folder = parse_topic_folder(name)
            topic = None if folder is None else folder.topic_after(self._prefix)
            if folder is not None and topic is not None:
                found.setdefault(topic, []).append(folder.topic_id)
        if not found and (root.folders or root.files):
            raise no_topics_error(self._bucket, root, self._prefix)
        return {topic: sorted(found[topic]) for topic in sorted(found)}

    def partitions_of(self, topic: str, topic_id: UUID) -> list[int]:
        """Return the partitions of which something was copied, sorted [BKT-5].

        Raises
        ------
        LogNotFoundError
            Their segments lie as ``LocalTieredStorage`` puts them.
        """
        folder = self._folder(topic, topic_id)
        listed = self._bucket.list_folder(folder)
        numbers = (int(name) for name in listed.folders if _PARTITION.fullmatch(name))
        found = sorted(number for number in numbers if number <= MAX_INT)
        if not found and any(map(is_of_local_tiered_storage, listed.files)):
            raise LogNotFoundError(
                "the segments lie as Kafka's LocalTieredStorage puts them: name its folder"
                f" {STORAGE_FOLDER}, as it was, to read them",
                file=f"{self._bucket.url}/{folder}",
                found="segments beside each other",
                expected="folders of partitions",
            )
        return found

    def partition(self, topic: str, topic_id: UUID, number: int) -> TieredPartition:
        """Return the segments of a partition; empty when nothing is there.

        Errors are those of `list_partition`.
        """
        folder = f"{self._folder(topic, topic_id)}/{number}"
        return list_partition(
            self._bucket, folder, self._keys, topic, self._states, self._manifests
        )

    def latest_copy(self, topic: str, topic_id: UUID) -> LatestCopy | None:
        """Return when the latest copy of a topic id was made, None where it has no complete one.

        Errors are those of `partitions_of` and `newest_copy`.
        """
        folder = self._folder(topic, topic_id)
        return latest_of(
            newest_copy(self._bucket, f"{folder}/{number}", self._states, self._manifests)
            for number in self.partitions_of(topic, topic_id)
        )

    def _folder(self, topic: str, topic_id: UUID) -> str:
        return f"{self._prefix}{topic}-{topic_id_text(topic_id)}"
