"""Kafka's LogCleanerTest, as far as it is about one pass, with Kafka's profile."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

from segstore.errors import CorruptRecordError, LogCleaningAbortedError, UnsupportedFormatError
from segstore.log.cleaning.cleaner import Cleaner
from segstore.log.cleaning.segment_groups import group_segments_by_size
from segstore.log.files.checkpoints import CLEAN_SHUTDOWN_MARKER
from segstore.log.files.partition_directory import file_name
from segstore.log.files.profile import Profile
from segstore.number_limits import MAX_INT
from tests.kits.log_kit import TIME, bases, batch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from segstore import UnifiedLog
    from segstore.log.cleaning.cleaner_stats import CleanerStats

    NewLog = Callable[..., UnifiedLog]

COMPACT: dict[str, Any] = {
    "recovery": Profile.KAFKA,
    "cleanup_policy": "compact",
    "internal_segment_bytes": 1024,
    "segment_index_bytes": 1024,
}
MAP_BYTES = 24 * 1000
NEVER = 2**62


def put(log: UnifiedLog, key: int | None, value: int | None, timestamp: int = TIME) -> None:
    """Append a batch of one record."""
    texts = [None if each is None else b"%d" % each for each in (key, value)]
    log.append_as_leader(batch([tuple(texts)], timestamp=timestamp), 0)


def log_of(new_log: NewLog, folder: Path, segments: dict[int, list[int]]) -> UnifiedLog:
    """A log whose segments, by base offset, have a record at each of these offsets."""
    folder.mkdir()
    (folder.parent / CLEAN_SHUTDOWN_MARKER).touch()
    for base, found in segments.items():
        data = [batch([(b"k", b"v")], base_offset=offset, epoch=0) for offset in found]
        (folder / file_name(base, "log")).write_bytes(b"".join(data))
    log = new_log(folder, **COMPACT)
    assert bases(log) == [*segments]
    return log


def fill(log: UnifiedLog, segments: int, first_key: int = 0) -> int:
    """Append records of ascending keys until there are so many segments; return the next key."""
    key = first_key
    while len(log.segments()) < segments:
        put(log, key, key)
        key += 1
    return key


def clean(
    log: UnifiedLog, first: int = 0, limit: int | None = None, now: int = TIME, **how: Any
) -> CleanerStats:
    """One pass."""
    log.update_high_watermark(log.log_end_offset)
    cleaner = Cleaner(**{"offset_map_bytes": MAP_BYTES, "profile": Profile.KAFKA} | how)
    return log.clean(cleaner, first, limit, now_ms=now)


def keys(log: UnifiedLog) -> list[int]:
    """The keys of records that have a value."""
    return [
        int(record.key)
        for data in log.scan().batches()
        for record in data
        if not data.is_control and record.key is not None and record.value is not None
    ]


def offsets(log: UnifiedLog) -> list[int]:
    """Of all records, those of markers too."""
    return [record.offset for data in log.scan().batches() for record in data]


def size_of(log: UnifiedLog) -> int:
    return sum(segment.size_bytes for segment in log.segments())


def groups(log: UnifiedLog, limit: int, max_bytes: int = MAX_INT, max_index: int = MAX_INT) -> Any:
    """The base offsets of the groups of what lies below *limit*."""
    segments = log._local_log.segments.values(0, limit)
    found = group_segments_by_size(segments, max_bytes, max_index, limit)
    return [[segment.base_offset for segment in group] for group in found]


# ---- what is kept --------------------------------------------------------------------------------


def test_clean_segments(new_log: NewLog):
    """[CLN-71, CLN-84, CLN-121] LogCleanerTest.testCleanSegments.

    There the map is made by hand; here newer records of the same keys are in it.
    """
    log = new_log(**COMPACT)
    next_key = fill(log, 4)
    superseded = [1, 3, 5, 7, 9]
    log.roll()
    for key in superseded:
        put(log, key, -key)
    log.roll()
    size = size_of(log)
    stats = clean(log)

    first = [key for key in range(next_key) if key not in superseded]
    assert keys(log) == [*first, *superseded]
    assert stats.bytes_read == size
    assert stats.messages_read - stats.messages_written == len(superseded)


def test_cleaning_with_deletes(new_log: NewLog):
    """[CLN-84, CLN-85] LogCleanerTest.testCleaningWithDeletes."""
    log = new_log(**COMPACT)
    end = fill(log, 2)
    for key in range(0, end, 2):
        put(log, key, None)
    fill(log, 4, first_key=end)
    clean(log)

    assert not {key for key in keys(log) if key < end and key % 2 == 0}
    assert {key for key in keys(log) if key < end} == set(range(1, end, 2))


def test_log_cleaner_stats(new_log: NewLog):
    """[CLN-57, CLN-121, CLN-122] LogCleanerTest.testLogCleanerStats."""
    log = new_log(**COMPACT)
    for key in (0, 1, 0, 1, 0):
        put(log, key, key)
    log.roll()
    size = size_of(log)
    stats = clean(log, 2, offset_map_bytes=4 * 24, load_factor=0.75)

    assert stats.end_offset == 5
    assert stats.messages_read == 5
    assert stats.bytes_read == size
    assert stats.messages_written == 2
    assert stats.bytes_written == size_of(log)
    assert stats.invalid_messages_read == 0


def test_partial_segment_clean(new_log: NewLog):
    """[CLN-57, CLN-61, CLN-62] LogCleanerTest.testPartialSegmentClean.

    The map has room for one key.
    """
    log = new_log(**COMPACT)
    for key in (0, 1, 0, 1, 0):
        put(log, key, key)
    log.roll()
    for first, kept in ((2, [1, 2, 3, 4]), (3, [2, 3, 4]), (4, [3, 4])):
        clean(log, first, offset_map_bytes=2 * 24, load_factor=0.75)
        assert offsets(log) == kept
        assert keys(log) == [offset % 2 for offset in kept]


def test_size_trimmed_for_preallocated_and_compacted_topic(new_log: NewLog, tmp_path: Path):
    """[CLN-76] LogCleanerTest.testSizeTrimmedForPreallocatedAndCompactedTopic; KAFKA-5431."""
    log = new_log(**COMPACT, preallocate=True)
    for key in (0, 1, 0, 1, 0):
        put(log, key, key)
    log.roll()
    clean(log, 2, offset_map_bytes=2 * 24)

    file = tmp_path / "topic-0" / file_name(0, "log")
    assert file.stat().st_size == log.segments()[0].size_bytes < 1024


def test_cleaning_with_unkeyed_messages(new_log: NewLog):
    """[CLN-58, CLN-84] LogCleanerTest.testCleaningWithUnkeyedMessages."""
    log = new_log(**COMPACT | {"cleanup_policy": "delete"})
    unkeyed = 0
    while len(log.segments()) < 2:
        put(log, None, unkeyed)
        unkeyed += 1
    unkeyed_bytes = size_of(log)
    fill(log, 3)
    log.roll()
    size = size_of(log)
    stats = clean(log)

    assert [record for record in log.scan() if record.key is None] == []
    assert size_of(log) == size - unkeyed_bytes
    assert stats.invalid_messages_read == unkeyed


def test_clean_tombstone(new_log: NewLog):
    """[CLN-85, CLN-87] LogCleanerTest.testCleanTombstone, KAFKA-4529: not by its timestamp."""
    day = 24 * 3600 * 1000
    log = new_log(**COMPACT, delete_retention_ms=day)
    put(log, 0, 0, TIME + day + 10_000)
    log.roll()
    clean(log)
    put(log, 0, None, TIME - day - 10_000)
    log.roll()
    clean(log, 1)
    assert [(record.offset, record.value) for record in log.scan()] == [(1, None)]
    put(log, 1, 1)
    log.roll()
    clean(log, 2)

    assert [(record.offset, record.value) for record in log.scan()] == [(1, None), (2, b"1")]


def test_cleaning_beyond_missing_offsets(new_log: NewLog, tmp_path: Path):
    """[CLN-60, CLN-62] LogCleanerTest.testCleaningBeyondMissingOffsets."""
    near = {0: [*range(10)], 11: [11]}
    assert clean(log_of(new_log, tmp_path / "near-0", near)).end_offset == 11
    far = {0: [*range(10)], 15: [*range(15, 25)], 30: [30]}
    assert clean(log_of(new_log, tmp_path / "far-0", far)).end_offset == 30


def test_clean_segments_retaining_last_empty_batch(new_log: NewLog):
    """[CLN-82] LogCleanerTest.testCleanSegmentsRetainingLastEmptyBatch.

    It ends below the active segment. Here its record goes because it has no key.
    """
    log = new_log(**COMPACT | {"cleanup_policy": "delete"})
    put(log, 0, 0)
    log.roll()
    put(log, None, 0)
    put(log, None, 0)
    log.roll()
    clean(log)

    assert len(log.segments()) == 2
    empty = [data.last_offset for data in log.scan().batches() if not list(data)]
    assert empty == [log.segments()[-1].base_offset - 1]


def test_clean_segments_with_abort(new_log: NewLog, tmp_path: Path):
    """[CLN-19, CLN-77] LogCleanerTest.testCleanSegmentsWithAbort."""

    def check_done() -> None:
        raise LogCleaningAbortedError("it is to end")

    log = new_log(**COMPACT)
    fill(log, 4)
    with pytest.raises(LogCleaningAbortedError):
        clean(log, check_done=check_done)
    assert not [*(tmp_path / "topic-0").glob("*.cleaned")]


# ---- damage --------------------------------------------------------------------------------------


def test_message_larger_than_max_message_size_with_corrupt_header(new_log: NewLog, tmp_path: Path):
    """[CLN-102] LogCleanerTest.testMessageLargerThanMaxMessageSizeWithCorruptHeader."""
    log = large_message_log(new_log)
    with (tmp_path / "topic-0" / file_name(0, "log")).open("r+b") as file:
        file.seek(16)
        file.write(b"\xff")
    with pytest.raises(UnsupportedFormatError, match="magic -1"):
        clean(log, io_buffer_bytes=1024)


def test_corrupt_message_size_larger_than_bytes_available(new_log: NewLog, tmp_path: Path):
    """[CLN-102] LogCleanerTest.testCorruptMessageSizeLargerThanBytesAvailable."""
    log = large_message_log(new_log)
    with (tmp_path / "topic-0" / file_name(0, "log")).open("r+b") as file:
        file.truncate(1024)
    with pytest.raises(CorruptRecordError):
        clean(log, io_buffer_bytes=1024)


def large_message_log(new_log: NewLog) -> UnifiedLog:
    """A log whose messages are larger than the buffer, one segment of which is sealed."""
    log = new_log(**COMPACT | {"internal_segment_bytes": 16 * 1024})
    while len(log.segments()) < 2:
        log.append_as_leader(batch([(b"k", bytes(4096))]), 0)
    return log


# ---- groups --------------------------------------------------------------------------------------


def test_segment_grouping(new_log: NewLog):
    """[CLN-65, CLN-66, CLN-69] LogCleanerTest.testSegmentGrouping."""
    log = new_log(**COMPACT | {"internal_segment_bytes": 300, "index_interval_bytes": 1})
    while len(log.segments()) < 10:
        log.append_as_leader(batch([(b"hello", b"hello")]), 0)
    segments, all_bases, end = log.segments(), bases(log), log.log_end_offset

    assert groups(log, end) == [all_bases]
    assert groups(log, end, max_bytes=1) == [[base] for base in all_bases]
    assert groups(log, end, max_index=1) == [[base] for base in all_bases]
    limits = (
        {"max_bytes": sum(one.size_bytes for one in segments[:3]) + 1},
        {"max_index": sum(max(one.index_bytes()) for one in segments[:3]) + 1},
    )
    for limit in limits:
        found = groups(log, end, **limit)
        assert [base for group in found for base in group] == all_bases
        assert {len(group) for group in found[:-1]} == {3}


def test_segment_grouping_with_sparse_offsets(new_log: NewLog, tmp_path: Path):
    """[CLN-67] LogCleanerTest.testSegmentGroupingWithSparseOffsets: as far as an index reaches."""
    for last, count in ((MAX_INT, 1), (MAX_INT + 1, 2)):
        found = {0: [0, 1], 2: [2, last], last + 1: []}
        log = log_of(new_log, tmp_path / f"last{last}-0", found)
        assert len(groups(log, last + 1)) == count
    more = {0: [0, 1], 2: [2, MAX_INT + 1]}
    more |= {MAX_INT + 2 + number: [MAX_INT + 2 + number] for number in range(4)}
    log = log_of(new_log, tmp_path / "more-0", more)
    found = groups(log, log.log_end_offset)
    assert [base for group in found for base in group] == [*more]
    assert all(more[group[-1]][-1] - group[0] <= MAX_INT for group in found)


def test_segment_grouping_following_load_of_zero_index(new_log: NewLog, tmp_path: Path):
    """[CLN-67] LogCleanerTest.testSegmentGroupingFollowingLoadOfZeroIndex.

    The indexes are empty: how far a segment goes, the base offset of the next one says.
    """
    middle = MAX_INT // 2
    log = log_of(
        new_log, tmp_path / "zero-0", {0: [0, 1], middle: [middle, MAX_INT + 1], MAX_INT + 2: []}
    )
    assert groups(log, MAX_INT + 2) == [[0], [middle]]


def test_segment_grouping_with_sparse_offsets_and_empty_segments(new_log: NewLog, tmp_path: Path):
    """[CLN-67, CLN-71] LogCleanerTest.testSegmentGroupingWithSparseOffsetsAndEmptySegments."""
    far = MAX_INT + 1
    found = {number * far: [number * far, (number + 1) * far - 1] for number in range(3)}
    log = log_of(new_log, tmp_path / "far-0", found | {3 * far: [3 * far]})
    limit = 3 * far
    assert len(groups(log, limit)) == 3
    clean(log)
    assert len(log.segments()) == 4
    assert log.segments()[0].size_bytes == 0
    assert len(groups(log, limit)) == 2
    clean(log)

    assert len(log.segments()) == 3


# ---- the map -------------------------------------------------------------------------------------


def test_build_offset_map(new_log: NewLog):
    """[CLN-45, CLN-55, CLN-59, CLN-60] LogCleanerTest.testBuildOffsetMap."""
    log = new_log(**COMPACT)
    for key in range(500):
        put(log, key, key)
    log.roll()
    log.update_high_watermark(log.log_end_offset)
    found = bases(log)
    for first, end in ((0, found[1]), (found[1], found[3]), (found[3], found[-1])):
        cleaner = Cleaner(offset_map_bytes=MAP_BYTES, profile=Profile.KAFKA)
        stats = log.clean(cleaner, first, end, now_ms=TIME)
        numbers = cleaner.offset_map
        assert stats.end_offset == numbers.latest_offset + 1 == end
        assert numbers.size == stats.map_messages_read == end - first
        assert [numbers.get(b"%d" % key) for key in range(first, end)] == [*range(first, end)]
        assert numbers.get(b"%d" % (first - 1)) == numbers.get(b"%d" % end) == -1


# ---- splits and crashes --------------------------------------------------------------------------


def test_recovery_after_crash(new_log: NewLog, tmp_path: Path):
    """[CLN-113, CLN-114, CLN-115] LogCleanerTest.testRecoveryAfterCrash.

    Every state that a stop within a swap can leave.
    """
    settings = COMPACT | {"internal_segment_bytes": 300, "index_interval_bytes": 1}
    made = tmp_path / "made-0"
    log = new_log(made, **settings)
    while len(log.segments()) < 10:
        put(log, log.log_end_offset % 8, log.log_end_offset)
    all_keys = keys(log)
    log.close()
    cleaned_path = tmp_path / "cleaned-0"
    shutil.copytree(made, cleaned_path)
    log = new_log(cleaned_path, **settings, file_delete_delay_ms=0)
    clean(log)
    cleaned_keys, segments = keys(log), bases(log)
    log.close()
    assert len(cleaned_keys) < len(all_keys)
    old = {file.name: file.read_bytes() for file in made.iterdir()}
    new = {file.name: file.read_bytes() for file in cleaned_path.iterdir()}
    kinds = ("log", "index", "timeindex")
    outputs = [file_name(base, kind) for base in segments[:-1] for kind in kinds]
    outputs = [name for name in outputs if name in new]
    logs = [name for name in outputs if name.endswith(".log")]
    kept_old = {name: data for name, data in old.items() if name not in outputs}
    gone = {f"{name}.deleted": old[name] for name in old if name.endswith(kinds)}
    states = [
        (all_keys, old | {f"{name}.cleaned": new[name] for name in outputs}),
        (
            all_keys,
            old
            | {f"{name}.cleaned": new[name] for name in outputs if name not in logs[-1:]}
            | {f"{name}.swap": new[name] for name in logs[-1:]},
        ),
        (cleaned_keys, old | {f"{name}.swap": new[name] for name in outputs}),
        (cleaned_keys, new | {f"{name}.swap": new[name] for name in outputs} | gone),
        (cleaned_keys, new | {f"{n}.swap": new[n] for n in outputs if n.endswith("timeindex")}),
        (cleaned_keys, new | gone),
    ]
    assert kept_old
    for number, (expected, files) in enumerate(states):
        folder = tmp_path / f"state{number}-0"
        folder.mkdir()
        for name, data in files.items():
            (folder / name).write_bytes(data)
        with new_log(folder, **settings) as found:
            assert keys(found) == expected, number
