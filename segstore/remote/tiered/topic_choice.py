"""Which of several topic ids a topic has that was deleted and created again [SEL-12].

The bucket does not tell. The id with the latest copy is taken, and who opens the topic is told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from segstore.log.files.partition_metadata_file import topic_id_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from uuid import UUID

    from segstore.errors import SegstoreError


class LatestCopy(NamedTuple):
    """When the newest complete copy of a partition, or of a topic id, was made.

    Attributes
    ----------
    event_ms : int or None
        By its manifest, in ms since 1970; None: that cannot be read.
    modified_ms : int or None
        By the store; None: it does not tell.
    error : SegstoreError or None
        Why the manifest cannot be read.
    """

    event_ms: int | None
    modified_ms: int | None
    error: SegstoreError | None = None


class TopicChoice(NamedTuple):
    """The topic id that is read, and what who opens the topic is told; None: nothing."""

    topic_id: UUID
    note: str | None = None


def latest_of(copies: Iterable[LatestCopy | None]) -> LatestCopy | None:
    """Return the latest copy of a topic id by those of its partitions; None: it has none."""
    found = [one for one in copies if one is not None]
    if not found:
        return None
    return LatestCopy(
        max((one.event_ms for one in found if one.event_ms is not None), default=None),
        max((one.modified_ms for one in found if one.modified_ms is not None), default=None),
        next((one.error for one in found if one.error is not None), None),
    )


def choose_topic_id(topic: str, latest: Mapping[UUID, LatestCopy | None]) -> TopicChoice:
    """Return the id with the latest copy.

    Where no manifest of an id can be read, the store's own times count: an error of an older id
    hides no topic, and one of the current id does not bring the older one back.

    Raises
    ------
    SegstoreError
        The one of such an id, where the store tells no times.
    """
    complete = {topic_id: copy for topic_id, copy in latest.items() if copy is not None}
    unknown = [copy for copy in complete.values() if copy.event_ms is None]
    for copy in unknown:
        if copy.error is not None and any(one.modified_ms is None for one in complete.values()):
            raise copy.error

    def made_ms(topic_id: UUID) -> int:
        copy = complete.get(topic_id)
        time = None if copy is None else copy.modified_ms if unknown else copy.event_ms
        return -1 if time is None else time

    chosen = max(latest, key=made_ms)
    others = [
        f"{topic_id_text(topic_id)} ({_what_it_has(copy)})"
        for topic_id, copy in latest.items()
        if topic_id != chosen
    ]
    return TopicChoice(
        chosen,
        f"topic {topic} was deleted and created again: the topic id {topic_id_text(chosen)} is"
        f" read, which has the latest copy, and not {', '.join(others)}",
    )


def _what_it_has(copy: LatestCopy | None) -> str:
    if copy is None:
        return "it has no complete copy, and may be the newest one"
    if copy.event_ms is None:
        return f"its newest manifest cannot be read: {copy.error}"
    return "older"
