"""One partition of a bucket: its complete segments, what was left out and why, and the plan."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from segstore.errors import (
    CodecError,
    CorruptCheckpointError,
    CorruptLogError,
    CorruptSnapshotError,
    IllegalArgumentError,
    LimitExceededError,
    LogNotFoundError,
    LogTruncatedError,
    SegstoreError,
    UnsupportedFormatError,
)
from segstore.log.files.partition_metadata_file import topic_id_text
from segstore.log.producers.producer_snapshot import open_transactions
from segstore.remote.tiered.manifest_cache import ManifestCache
from segstore.remote.tiered.object_key import (
    LOG,
    MANIFEST,
    OLD_SUFFIXES,
    SUFFIXES,
    ObjectKey,
    parse_object_key,
    parse_topic_folder,
)
from segstore.remote.tiered.partition_plan import (
    PartitionPlan,
    extended_lineage,
    newest_segment,
    plan_partition,
)
from segstore.remote.tiered.segment_manifest import check_key
from segstore.remote.tiered.tiered_segment import SegmentFiles, TieredSegment, read_manifest
from segstore.remote.tiered.topic_choice import LatestCopy

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Mapping
    from typing import TypeAlias
    from uuid import UUID

    from segstore.remote.remote_file import BucketStore, RemoteFile
    from segstore.remote.tiered.key_ring import KeyRing
    from segstore.remote.tiered.segment_manifest import CopiedSegment
    from segstore.remote.tiered.segment_states import SegmentStates
    from segstore.types import EpochEntry

    _Copy: TypeAlias = tuple[ObjectKey, dict[str, RemoteFile]]

_ReadT = TypeVar("_ReadT")

WINDOW_COPIES: Final = 256
"""Of segments whose manifests are asked for at once; a bucket may hold a million objects."""
_START_OFFSET: Final = re.compile(r"([0-9]{20})-")
MOST_LEFT_OUT: Final = 10_000
"""Copies that are told one by one; of more only how many they are."""
LEFT_OUT = (
    CodecError,
    CorruptCheckpointError,
    CorruptLogError,
    CorruptSnapshotError,
    LimitExceededError,
    UnsupportedFormatError,
)
"""What is wrong with one segment alone; an error of the store is an error of the listing."""


class LeftOut(NamedTuple):
    """A segment that cannot be read.

    Attributes
    ----------
    main_key : str
        Of its objects.
    reason : SegstoreError
        Objects are missing, or contradict each other.
    """

    main_key: str
    reason: SegstoreError

    @property
    def text(self) -> str:
        """The reason as a sentence that names the segment."""
        said = str(self.reason)
        return said if self.main_key in said else f"{self.main_key}: {said}"


@dataclass(frozen=True)
class TieredPartition:
    """The segments of one partition, as they were listed once [SEL-14].

    Attributes
    ----------
    segments : tuple of TieredSegment
        Complete ones, by their start offsets [SEL-1].
    left_out : tuple of LeftOut
        All others.
    topic_note : str or None
        What an open says of the choice among several topic ids [SEL-12].
    sound_manifests : mapping of str to CopiedSegment
        By main keys: what manifests say of segments in `left_out` that have another damage.
    """

    segments: tuple[TieredSegment, ...]
    left_out: tuple[LeftOut, ...]
    topic_note: str | None = None
    sound_manifests: Mapping[str, CopiedSegment] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether it holds nothing but copies that were not finished, or are being deleted."""
        return not self.segments and all(
            isinstance(one.reason, LogNotFoundError) for one in self.left_out
        )

    def unreadable(self, where: str) -> LogNotFoundError:
        """Return the error of who wants the partition *where*, which has no segment to read."""
        return LogNotFoundError(
            "no segment of the partition can be read",
            file=where,
            found=f"{len(self.left_out)} that are left out; the first: {self.left_out[0].reason}",
            expected="a complete segment at least",
        )

    @cached_property
    def newest(self) -> TieredSegment:
        """The segment whose leader epoch index counts [SEL-3]."""
        return newest_segment(self.segments)

    @cached_property
    def lineage(self) -> tuple[EpochEntry, ...]:
        """The newest leader's epochs; the first start was the log start then [SEL-3, SEL-9]."""
        return checked_lineage(self.newest)

    @cached_property
    def whole_lineage(self) -> tuple[EpochEntry, ...]:
        """`lineage`, extended below the log start by the indexes of all segments [SEL-9]."""
        return extended_lineage(self.lineage, map(checked_lineage, self.segments))

    @property
    def damaged(self) -> list[LeftOut]:
        """Those of `left_out` that hold records of the log, or held them; others were not finished.

        Whatever ``__remote_log_metadata`` says nothing of is not finished either [SEL-13].
        """
        unfinished = (LogNotFoundError, IllegalArgumentError)
        return [one for one in self.left_out if not isinstance(one.reason, unfinished)]

    def notes(self) -> tuple[str, ...]:
        """Return what an open says: of the topic id, and of `damaged`."""
        damaged = (f"a segment is not read: {one.reason}" for one in self.damaged)
        return (*([] if self.topic_note is None else [self.topic_note]), *damaged)

    def check_ends(
        self,
        plan: PartitionPlan[TieredSegment],
        start_offset: int,
        way_on: str,
        *,
        end_is_known: bool = False,
    ) -> None:
        """Raise CorruptLogError where a damaged segment may have the first or the last records.

        Between two segments such records are a gap [SEL-8]; before and behind all of them nothing
        else would tell [DUR-142].

        Parameters
        ----------
        plan : PartitionPlan
            Of these segments.
        start_offset : int
            Where the log begins if nothing is missing.
        way_on : str
            What reads the records that are there.
        end_is_known : bool
            Something else says where the plan ends.
        """
        for one in self.damaged:
            start, missing = _start_offset(one.main_key), getattr(one.reason, "missing", None)
            if start is None:
                continue
            # Notes of Kafka's that are older than the bucket name segments that retention deleted.
            if start_offset < plan.start_offset > start and missing is None:
                place = f"before offset {plan.start_offset}, where the others begin"
            elif not end_is_known and self._may_follow(one, start, plan.end_offset):
                place = f"from offset {plan.end_offset} on, where the others end"
            else:
                continue
            raise CorruptLogError(
                f"a segment that cannot be read may hold the records {place}; {way_on}."
                f" {one.reason.message}",
                file=one.reason.file,
                position=one.reason.position,
                found=one.reason.found,
                expected=one.reason.expected,
            ) from one.reason

    def _may_follow(self, damaged: LeftOut, start: int, end: int) -> bool:
        """Whether the log may go on with the damaged copy, which begins at *start*."""
        if start <= self.newest.start_offset:
            return False
        metadata = self.sound_manifests.get(damaged.main_key)
        if metadata is None or metadata.end_offset >= end:
            return True
        # A later leader may have begun another history within the records that are here.
        return metadata.leader_epochs[-1].epoch > self.newest.leader_epochs[-1].epoch

    def plan(self, start_offset: int | None = None) -> PartitionPlan[TieredSegment]:
        """Return which segment gives which records.

        Parameters
        ----------
        start_offset : int or None
            Where to begin; below the log start the lineage is extended downwards [SEL-9]. None:
            that log start.
        """
        lineage = self.lineage
        if start_offset is not None and start_offset < lineage[0].start_offset:
            lineage = self.whole_lineage
        return plan_partition(self.segments, lineage, start_offset)

    def stable_end_offset(self) -> int:
        """Return up to where the bucket says which transactions were aborted [SEL-11].

        Errors are those of `TieredSegment.read_index` and of a damaged snapshot.
        """
        snapshot = self.newest.read_index("producerSnapshot") or b""
        transactions = open_transactions(snapshot)
        if transactions is None:
            raise CorruptSnapshotError(
                "the producer snapshot cannot be read, so which transactions are open is unknown",
                file=self.newest.log_name,
                found=f"{len(snapshot)} bytes",
                expected="a producer snapshot with its CRC",
            )
        return min([self.newest.end_offset + 1, *transactions.values()])


def checked_lineage(segment: TieredSegment) -> tuple[EpochEntry, ...]:
    """Return the lineage of a segment, which must have the segment's own leader epochs [SEL-3].

    The leader epoch index of a plain bucket has no checksum; the manifest says a part of it again.
    A broker reads that part first: the log start may have risen into the segment since.

    Raises
    ------
    CorruptCheckpointError
        They differ.
    SegstoreError
        As `TieredSegment.lineage`.
    """
    lineage, end = segment.lineage(), segment.end_offset
    start = max(segment.start_offset, lineage[0].start_offset)
    # An epoch without records has the start of the next one: the dict keeps that one.
    own = {max(one.start_offset, start): one.epoch for one in segment.leader_epochs}
    found = {max(one.start_offset, start): one.epoch for one in lineage if one.start_offset <= end}
    if found and found != own:
        raise CorruptCheckpointError(
            "the leader epoch index contradicts the manifest: one of both was changed",
            file=segment.index_name("leaderEpoch"),
            position=segment.manifest.indexes["leaderEpoch"].position,
            found=_epochs_text(found),
            expected=f"{_epochs_text(own)}, in offsets {start} to {end}",
        )
    return lineage


def _epochs_text(epochs: dict[int, int]) -> str:
    return ", ".join(f"epoch {epoch} from offset {start}" for start, epoch in epochs.items())


def _start_offset(main_key: str) -> int | None:
    """Return the start offset in the name of a segment, None of more than one segment."""
    match = _START_OFFSET.match(main_key.rpartition("/")[2])
    return None if match is None else int(match[1])


def list_partition(  # noqa: PLR0913 - where it lies, and what is known of it
    store: BucketStore,
    folder: str,
    keys: KeyRing,
    topic: str | None = None,
    states: SegmentStates | None = None,
    manifests: ManifestCache | None = None,
) -> TieredPartition:
    """List one partition and read its manifests, each by one request [RDB-3, SEL-1].

    Parameters
    ----------
    store : BucketStore
        Of the bucket.
    folder : str
        ``<topic>-<topic id>/<partition>`` below the store.
    keys : KeyRing
        For encrypted segments.
    topic : str or None
        That the manifests must name; None: any that the folder ends with.
    states : SegmentStates or None
        Only segments that are finished by them are read [SEL-13]; None: all complete ones.
    manifests : ManifestCache or None
        What earlier listings read; None: each manifest is read.

    Raises
    ------
    LogTruncatedError, LogNotFoundError, LogPermissionError, ReadIOError
        The store cannot be listed or read, or a manifest vanished meanwhile.
    """
    cache = ManifestCache() if manifests is None else manifests
    sound: dict[str, CopiedSegment] = {}

    def opened(one: _Copy) -> TieredSegment | LeftOut:
        key, files = one
        where = f"{store.url}/{key.main_key}"
        missing = [suffix for suffix in SUFFIXES if suffix not in files]
        if missing:
            return LeftOut(key.main_key, _incomplete(where, missing, list(files)))
        refused = None if states is None else states.why_not_read(key, where)
        if refused is not None:
            return LeftOut(key.main_key, refused)
        three = SegmentFiles.of_three(*(files[suffix] for suffix in SUFFIXES))
        try:
            read = partial(read_manifest, store, three.manifest, three.log.size_bytes)
            manifest = cache.read((three.manifest,), read)
            check_key(manifest, key, f"{where}.{MANIFEST}", topic)
        except LEFT_OUT as error:
            return LeftOut(key.main_key, error)
        try:
            return TieredSegment(store, three, manifest, keys)
        except LEFT_OUT as error:
            if len(sound) < MOST_LEFT_OUT:
                sound[key.main_key] = manifest.metadata
            return LeftOut(key.main_key, error)

    found = _over_copies(store, folder, partial(_Found, store.requests_at_once, opened))
    left_out = found.left_out
    if found.more_count:
        left_out.append(LeftOut(folder, _too_many(f"{store.url}/{folder}", found.more_count)))
    if states is not None:
        head, _, partition = folder.rpartition("/")
        topic_folder = parse_topic_folder(head)
        if topic_folder is not None:
            partition_id = topic_folder.topic_id, int(partition)
            left_out += not_listed(states, store.url, folder, *partition_id, found.segment_ids)
    return TieredPartition(tuple(found.segments), tuple(left_out), sound_manifests=sound)


def newest_copy(
    store: BucketStore,
    folder: str,
    states: SegmentStates | None,
    manifests: ManifestCache,
) -> LatestCopy | None:
    """Return when the complete copy with the greatest start offset was made; None: there is none.

    Only its manifest is read. Parameters are those of `list_partition`.

    Raises
    ------
    LogPermissionError, ReadIOError
        The store cannot be listed.
    LogNotFoundError, LogTruncatedError
        The manifest vanished, or was changed, since it was listed.
    """

    def is_read(one: _Copy) -> bool:
        key, files = one
        is_whole = all(suffix in files for suffix in SUFFIXES)
        return is_whole and (states is None or states.why_not_read(key, key.main_key) is None)

    def order(one: _Copy) -> tuple[int, int]:
        key, files = one
        return key.start_offset, files[MANIFEST].modified_ns or 0

    def newest_of(copies: Iterator[_Copy]) -> _Copy | None:
        return max(filter(is_read, copies), key=order, default=None)

    newest = _over_copies(store, folder, newest_of)
    if newest is None:
        return None
    file, log = (newest[1][suffix] for suffix in (MANIFEST, LOG))
    modified_ms = None if file.modified_ns is None else file.modified_ns // 1_000_000
    try:
        manifest = manifests.read((file,), partial(read_manifest, store, file, log.size_bytes))
    except (LogNotFoundError, LogTruncatedError):
        raise  # the next listing tells [SEL-14]
    except SegstoreError as error:
        return LatestCopy(None, modified_ms, error)
    return LatestCopy(manifest.metadata.event_timestamp_ms, modified_ms)


class _NotInOrderError(Exception):
    """A listing does not ascend."""


class _Found:
    """What came of the copies of segments in a folder; no more of them is kept."""

    def __init__(
        self,
        threads: int,
        opened: Callable[[_Copy], TieredSegment | LeftOut],
        copies: Iterator[_Copy],
    ) -> None:
        self.segments: list[TieredSegment] = []
        self.left_out: list[LeftOut] = []
        self.more_count = 0
        self.segment_ids: set[UUID] = set()
        with ThreadPoolExecutor(threads) as pool:
            while window := list(islice(copies, WINDOW_COPIES)):
                self.segment_ids.update(key.segment_id for key, _ in window)
                for one in pool.map(opened, window):
                    if isinstance(one, TieredSegment):
                        self.segments.append(one)
                    elif len(self.left_out) < MOST_LEFT_OUT:
                        self.left_out.append(one)
                    else:
                        self.more_count += 1
        self.segments.sort(key=lambda one: one.manifest.metadata.start_offset)


def _over_copies(
    store: BucketStore, folder: str, read: Callable[[Iterator[_Copy]], _ReadT]
) -> _ReadT:
    """Return what *read* makes of the copies in a folder; called again if the listing is mixed."""
    try:
        return read(_copies_in_order(store, folder))
    except _NotInOrderError:
        return read(_copies(store, folder))


def _copies_in_order(store: BucketStore, folder: str) -> Iterator[_Copy]:
    """Yield the objects of each copy of a segment, which follow each other in the listing.

    Raises
    ------
    _NotInOrderError
        The store lists in another order.
    """
    last = ""
    copy: _Copy | None = None
    for file in store.iter_files(folder):
        if file.path < last:
            raise _NotInOrderError
        last, key = file.path, parse_object_key(file.path)
        if key is None:
            continue
        if copy is None or copy[0].main_key != key.main_key:
            if copy is not None:
                yield copy
            copy = key._replace(suffix=""), {}
        copy[1][key.suffix] = file
    if copy is not None:
        yield copy


def _copies(store: BucketStore, folder: str) -> Iterator[_Copy]:
    """Yield the same from a listing in any order, which is kept for that."""
    copies: dict[ObjectKey, dict[str, RemoteFile]] = {}
    for file in store.iter_files(folder):
        key = parse_object_key(file.path)
        if key is not None:
            copies.setdefault(key._replace(suffix=""), {})[key.suffix] = file
    yield from sorted(copies.items(), key=lambda one: one[0].main_key)


def _too_many(where: str, count: int) -> LimitExceededError:
    return LimitExceededError(
        f"{count} more copies of segments are not read; each has a reason like those before",
        file=where,
        found=f"{MOST_LEFT_OUT + count} copies that are not read",
        expected=f"at most {MOST_LEFT_OUT}, to be told one by one",
    )


def not_listed(  # noqa: PLR0913 - which partition, and where it lies
    states: SegmentStates,
    url: str,
    folder: str,
    topic_id: UUID,
    partition: int,
    listed: Container[UUID],
) -> Iterator[LeftOut]:
    """Yield the copies that Kafka had finished, by *states*, and of which nothing is *listed*.

    Parameters
    ----------
    url, folder : str
        Of the bucket, and of the partition below it.
    topic_id, partition : UUID, int
        Which partition that is.
    listed : container of UUID
        Ids of the segments of which the folder has objects.
    """
    for copy, error in states.not_listed(topic_id, partition, listed):
        main_key = f"{folder}/{copy.start_offset:020}-{topic_id_text(copy.segment_id.id)}"
        yield LeftOut(main_key, error.locate(f"{url}/{main_key}"))


def _incomplete(where: str, missing: list[str], there: list[str]) -> SegstoreError:
    if any(suffix in OLD_SUFFIXES for suffix in there):
        return UnsupportedFormatError(
            "the segment is of a build of the plug-in from before 2023-10-10: its records are not"
            " read",
            file=where,
            found=", ".join(f".{suffix}" for suffix in there),
            expected=", ".join(f".{suffix}" for suffix in SUFFIXES),
        )
    lacks = " and no ".join(f".{suffix}" for suffix in missing)
    what = "an unfinished copy" if MANIFEST in missing else "a deletion that was not finished"
    if MANIFEST not in missing and LOG not in missing:
        what = "a copy or a deletion that was not finished"
    return LogNotFoundError(
        f"the records of the segment are not read, because it has no {lacks}: {what},"
        " or another process has deleted it",
        file=where,
        found=", ".join(f".{suffix}" for suffix in there),
        expected=", ".join(f".{suffix}" for suffix in SUFFIXES),
    )
