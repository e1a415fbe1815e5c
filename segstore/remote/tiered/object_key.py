"""Keys of a tiered bucket's objects: ``<prefix><topic>-<topic id>/<partition>/…`` [BKT].

A copied segment is three objects with one main key [BKT-1]. A prefix may end without ``/`` and may
hold any character, so a key alone does not say where its topic begins [BKT-2, BKT-4]: a key is
parsed from the right, and what stands before the topic id stays in one piece, the ``head``.
"""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID

from segstore.errors import InvalidTopicError
from segstore.log.files.partition_directory import check_topic
from segstore.log.files.partition_metadata_file import topic_id_text
from segstore.number_limits import MAX_INT, MAX_LONG

if TYPE_CHECKING:
    from typing import Literal

LOG, INDEXES, MANIFEST = "log", "indexes", "rsm-manifest"
SUFFIXES: Final = (LOG, INDEXES, MANIFEST)
OLD_SUFFIXES: Final = ("index", "timeindex", "snapshot", "txnindex", "leader-epoch-checkpoint")
"""Of builds before 2023-10-10, which wrote one object for each index [VER-3]."""

_ID = r"[A-Za-z0-9_-]{22}"
_FOLDER = re.compile(rf"(?P<head>.+)-(?P<topic_id>{_ID})", re.DOTALL)
_KEY = re.compile(
    rf"(?P<main>{_FOLDER.pattern}/(?P<partition>0|[1-9][0-9]{{0,9}})"
    rf"/(?P<start_offset>\d{{20}})-(?P<segment_id>{_ID}))"
    rf"\.(?P<suffix>{'|'.join((*SUFFIXES, *OLD_SUFFIXES))})",
    re.DOTALL,
)
"""The 20 digits are those of the broker's locale [BKT-3]: ``\\d`` and ``int`` take all."""


class TopicFolder(NamedTuple):
    """The folder of one topic id.

    Attributes
    ----------
    head : str
        Prefix and topic.
    topic_id : UUID
        Another one after the topic was deleted and created again [BKT-11].
    """

    head: str
    topic_id: UUID

    def topic_after(self, prefix: str) -> str | None:
        """Return the topic, None where the folder does not begin with *prefix* and a topic."""
        topic = self.head.removeprefix(prefix)
        if len(topic) + len(prefix) != len(self.head):
            return None
        try:
            return check_topic(topic)
        except InvalidTopicError:
            return None


class ObjectKey(NamedTuple):
    """The key of one object of a segment.

    Attributes
    ----------
    main_key : str
        Without ``.`` and suffix: that of all three objects.
    folder : TopicFolder
        Prefix, topic and topic id.
    partition, start_offset : int
        Of the segment.
    segment_id : UUID
        Kafka's id of this copy.
    suffix : str
        One of `SUFFIXES`, or of `OLD_SUFFIXES`.
    """

    main_key: str
    folder: TopicFolder
    partition: int
    start_offset: int
    segment_id: UUID
    suffix: str

    @property
    def is_of_old_build(self) -> bool:
        """Whether only a build before 2023-10-10 wrote such an object [VER-3]."""
        return self.suffix in OLD_SUFFIXES


def parse_object_key(key: str) -> ObjectKey | None:
    """Return the parts of *key*; None: the plug-in did not write this object [BKT-3, BKT-4]."""
    match = _KEY.fullmatch(key)
    if match is None:
        return None
    topic_id, segment_id = parse_kafka_id(match["topic_id"]), parse_kafka_id(match["segment_id"])
    partition, start_offset = int(match["partition"]), int(match["start_offset"])
    if topic_id is None or segment_id is None or partition > MAX_INT or start_offset > MAX_LONG:
        return None
    folder = TopicFolder(match["head"], topic_id)
    return ObjectKey(match["main"], folder, partition, start_offset, segment_id, match["suffix"])


def parse_topic_folder(name: str) -> TopicFolder | None:
    """Return the parts of the folder of a topic, a name without ``/`` behind it, else None.

    The name may be a whole key's beginning, with a prefix that holds ``/`` [BKT-5].
    """
    match = _FOLDER.fullmatch(name)
    topic_id = None if match is None else parse_kafka_id(match["topic_id"])
    return None if match is None or topic_id is None else TopicFolder(match["head"], topic_id)


def format_main_key(  # noqa: PLR0913 - the parts of a key
    prefix: str, topic: str, topic_id: UUID, partition: int, start_offset: int, segment_id: UUID
) -> str:
    """Return the key of a segment's objects without ``.`` and suffix [BKT-2, BKT-3]."""
    folder = format_partition_folder(prefix, topic, topic_id, partition)
    return f"{folder}{start_offset:020}-{topic_id_text(segment_id)}"


def format_partition_folder(prefix: str, topic: str, topic_id: UUID, partition: int) -> str:
    """Return what a listing of one partition asks for: with ``/``, or 1 would find 10 [BKT-5]."""
    return f"{prefix}{check_topic(topic)}-{topic_id_text(topic_id)}/{partition}/"


def object_key(main_key: str, suffix: Literal["log", "indexes", "rsm-manifest"]) -> str:
    """Return the key of one of the three objects [BKT-1]."""
    return f"{main_key}.{suffix}"


def parse_kafka_id(text: str) -> UUID | None:
    """Return the 16 bytes of 22 characters of URL-safe Base64, None for others.

    The last character has 4 bits of the id; Kafka writes zeros in its other two.
    """
    if re.fullmatch(_ID, text) is None:
        return None
    found = UUID(bytes=base64.urlsafe_b64decode(f"{text}=="))
    return found if topic_id_text(found) == text else None
