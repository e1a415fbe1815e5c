"""The logs of a directory at a URL: where they begin and end, and their records, part by part."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from segstore.errors import LogNotFoundError, LogTruncatedError
from segstore.log.files.partition_metadata_file import check_same_topic
from segstore.remote.remote_directory import RemoteDirectory
from segstore.remote.spool import Spool
from segstore.remote.stores import open_store
from segstore.types import SpecialTimestamp

if TYPE_CHECKING:
    import uuid
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from segstore.log.unified_log import Log
    from segstore.remote.remote_file import RemoteStore
    from segstore.remote.remote_partition import RemotePart, RemotePartition
    from segstore.types import Isolation, TopicPartition

_LOOKS: Final = 4
"""Listings of a partition that is changed while it is read, before that is an error."""

_Opened = TypeVar("_Opened")


@dataclass(frozen=True, slots=True)
class RemoteSettings:
    """How a store is reached, and where its files go; travels pickled, and shows no value.

    Attributes
    ----------
    store : mapping of str to str
        Names and values for the store's library: credentials, endpoints, time-outs.
    spool_directory : str or None
        See `Spool`.
    spool_max_bytes : int or None
        See `Spool`.
    """

    store: Mapping[str, str] = field(default_factory=dict, repr=False)
    spool_directory: str | None = None
    spool_max_bytes: int | None = None


class RemoteBounds(NamedTuple):
    """What planning asks of a log.

    Attributes
    ----------
    start_offset, end_offset : int
        Of the records that may be seen: end exclusive.
    segments : tuple of (int, int)
        Base offset and bytes of each segment, ascending.
    damage : str or None
        Why the log is known to lack records; files are named as in its directory.
    topic_id : uuid.UUID or None
        The id in ``partition.metadata``.
    """

    start_offset: int
    end_offset: int
    segments: tuple[tuple[int, int], ...]
    damage: str | None = None
    topic_id: uuid.UUID | None = None


class RemoteLogs:
    """The log directory at a URL.

    Parameters
    ----------
    url : str
        Of the directory that holds the directories ``<topic>-<partition>``.
    settings : RemoteSettings
        How it is reached.
    store : RemoteStore or None
        Shows a log directory that does not lie at *url* as it is; None: the one at *url*.

    Raises
    ------
    ImportError, IllegalArgumentError, LogPermissionError
        As `open_store` and `Spool`.
    """

    def __init__(
        self, url: str, settings: RemoteSettings, store: RemoteStore | None = None
    ) -> None:
        self._store = open_store(url, settings.store) if store is None else store
        spool = Spool(settings.spool_directory, settings.spool_max_bytes)
        self._directory = RemoteDirectory(self._store, spool)
        self._listed: dict[TopicPartition, RemotePartition] = {}
        self._partitions: dict[TopicPartition, RemotePartition] = {}
        self._bounds: dict[tuple[TopicPartition, Isolation], tuple[object, RemoteBounds]] = {}

    def check(self) -> None:
        """Raise LogNotFoundError or NotALogError when this is no log directory."""
        self._directory.check()

    def partitions(
        self, is_meant: Callable[[TopicPartition], bool] = lambda _: True
    ) -> list[TopicPartition]:
        """Return the partitions that hold a log, sorted.

        Parameters
        ----------
        is_meant : callable
            Which of them are read; the others are not looked into, and may hold nothing.
        """
        listed = self._directory.partitions(is_meant)
        self._listed = {key: one for key, one in listed.items() if one is not None}
        known, bounds = self._partitions.copy(), self._bounds.copy()  # other threads add to them
        self._partitions = {key: one for key, one in known.items() if key in listed}
        self._bounds = {key: one for key, one in bounds.items() if key[0] in listed}
        return list(listed)

    def url_of(self, topic_partition: TopicPartition) -> str:
        """Return the URL of a partition, for people."""
        return self._directory.url_of(topic_partition)

    def bounds(self, topic_partition: TopicPartition, isolation: Isolation) -> RemoteBounds:
        """Return where the visible records of a log begin and end now.

        The same listing gives the same answer, without another look.
        """
        key = topic_partition, isolation

        def end_of(partition: RemotePartition) -> AbstractContextManager[RemoteBounds]:
            known = self._bounds.get(key)
            if known is not None and known[0] == partition.identity:
                return nullcontext(known[1])
            return _bounds_of(partition, isolation)

        listed = self._listed.pop(topic_partition, None)
        with self._opened(topic_partition, end_of, listed) as (partition, bounds):
            self._bounds[key] = partition.identity, bounds
            return bounds

    @contextmanager
    def open_whole(self, topic_partition: TopicPartition) -> Iterator[Log]:
        """Open the whole log as it is now; all of its files are fetched."""
        with self._opened(topic_partition, lambda partition: partition.open_whole()) as (_, log):
            yield log

    def parts(  # noqa: PLR0913 - a range, and what has to be true of it
        self,
        topic_partition: TopicPartition,
        from_offset: int,
        until_offset: int,
        isolation: Isolation,
        check: Callable[[RemoteBounds], None],
        topic_id: uuid.UUID | None = None,
    ) -> Iterator[tuple[RemotePart, int]]:
        """Yield logs that together hold the visible records of a range, with where to begin each.

        A log is closed, and its files may be evicted, when the next one is asked for.

        Parameters
        ----------
        topic_partition : TopicPartition
            Whose.
        from_offset, until_offset : int
            The range, as it was planned: what it holds was visible then.
        isolation : Isolation
            Which records are visible.
        check : callable
            Told where the log begins and ends as soon as either lies inside the range; may raise.
        topic_id : uuid.UUID or None
            Of the topic that was planned; None = it had none, and any will do.

        Raises
        ------
        InconsistentTopicIdError
            The topic was deleted and made again since.
        """
        offset, partition = from_offset, None
        while offset < until_offset:

            def part_at(
                partition: RemotePartition, begin: int = offset
            ) -> AbstractContextManager[RemotePart | None]:
                start = max(begin, partition.facts.log_start_offset)
                if start >= until_offset:
                    return nullcontext(None)
                return partition.open_part(start, until_offset, isolation)

            with self._opened(topic_partition, part_at, partition) as (partition, part):
                check_same_topic(self.url_of(topic_partition), topic_id, partition.facts.topic_id)
                start = partition.facts.log_start_offset
                if part is None:
                    check(RemoteBounds(start, start, ()))
                    return
                visible = part.log.fetch_offset_by_timestamp(
                    SpecialTimestamp.LATEST, part.isolation
                ).offset
                is_short = visible < part.end_offset
                is_hidden = is_short and part.log.log_end_offset >= part.end_offset
                damage = part.log.report.damage_in(part.log.path)
                if start > offset or (is_short and not is_hidden):
                    check(RemoteBounds(start, visible if is_short else until_offset, (), damage))
                offset = max(offset, start)
                end = part.end_offset if is_hidden else min(part.end_offset, visible)
                if offset < end:
                    yield part._replace(end_offset=end), offset
                if is_hidden:  # unless damage that hides it was told by who read up to there
                    check(
                        RemoteBounds(start, visible, (), part.log.report.damage_in(part.log.path))
                    )
                if is_short:
                    return
                offset = part.end_offset

    @contextmanager
    def _opened(
        self,
        topic_partition: TopicPartition,
        open_it: Callable[[RemotePartition], AbstractContextManager[_Opened]],
        listed: RemotePartition | None = None,
    ) -> Iterator[tuple[RemotePartition, _Opened]]:
        """List a partition and open something of it; again when it was changed meanwhile.

        As for a local reader beside a writer that deletes, the next look is another [DUR-77].
        """
        with ExitStack() as stack:
            for attempt in range(_LOOKS):
                partition = self._known(listed or self._directory.partition(topic_partition))
                listed = None
                try:
                    partition.check_not_lost()
                    opened = stack.enter_context(open_it(partition))
                    break
                except (LogTruncatedError, LogNotFoundError):
                    if attempt == _LOOKS - 1:
                        raise
            yield partition, opened

    def _known(self, listed: RemotePartition) -> RemotePartition:
        """Return the one that was listed before when it is the same: it has read small files."""
        known = self._partitions.get(listed.topic_partition)
        if known is None or known.identity != listed.identity:
            known = self._partitions[listed.topic_partition] = listed
        return known


@contextmanager
def _bounds_of(partition: RemotePartition, isolation: Isolation) -> Iterator[RemoteBounds]:
    with partition.open_end(isolation) as log:
        end = log.fetch_offset_by_timestamp(SpecialTimestamp.LATEST, isolation).offset
        start, damage = partition.facts.log_start_offset, log.report.damage_in(log.path)
    segments = tuple((base, partition.size_of(base)) for base in partition.base_offsets)
    topic_id = partition.facts.topic_id
    yield RemoteBounds(start, max(end, start), segments, damage, topic_id)
