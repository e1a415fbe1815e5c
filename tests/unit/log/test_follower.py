"""A reader that looks again at a log which another handle writes [DUR-75..DUR-78]."""

from __future__ import annotations

import contextlib
import gc
import shutil

import pytest

import segstore
from segstore.errors import LogTruncatedError, OffsetOutOfRangeError
from tests.kits.damaged_logs import SETTINGS, TIME, append_bytes


@pytest.fixture
def pair(tmp_path):
    """A writer with some segments, and a reader that has seen them."""
    path = tmp_path / "orders-0"
    with segstore.open(path, durability="none", **SETTINGS) as writer:
        append(writer, 40)
        with segstore.open(path, read_only=True) as reader:
            yield writer, reader


def append(writer, count, word=b"value"):
    """Each record is later than the one before: which one is the latest is no matter of luck."""
    for _ in range(count):
        offset = writer.log_end_offset
        writer.append([(TIME + offset, None, word + b"-%d" % offset * 20)])


def rows(log):
    return [(offset, value) for offset, _, _, value in log.scan().tuples()]


def test_new_bytes_and_new_segments_are_seen(pair):
    """[DUR-75] The oracle is the writer's own view; nothing is seen before `refresh`."""
    writer, reader = pair
    for count in (1, 3, 30, 0, 60):
        before = reader.log_end_offset
        append(writer, count)

        assert reader.log_end_offset == before
        assert reader.refresh() == writer.log_end_offset
        assert rows(reader) == rows(writer)
    assert len(reader.segments()) == len(writer.segments())


def test_a_roll_and_an_empty_segment_are_no_news(pair):
    """[DUR-78]"""
    writer, reader = pair
    writer.roll()

    assert reader.refresh() == writer.log_end_offset
    assert rows(reader) == rows(writer)
    append(writer, 1)
    reader.refresh()
    assert rows(reader) == rows(writer)


def test_the_log_start_follows(pair):
    """[DUR-78] Deleted segments go; what was open can be read on."""
    writer, reader = pair
    scan = iter(reader.scan())
    first = next(scan)
    writer.delete_records(30)

    assert first.offset == 0
    reader.refresh()
    assert reader.log_start_offset == 30
    assert rows(reader) == rows(writer)
    with pytest.raises(OffsetOutOfRangeError):
        reader.read(0, 1000)


@pytest.mark.parametrize("offset", [0, 1, 16, 17, 18, 35, 39])
def test_a_truncation_is_told_once_and_then_the_shorter_log_is_there(pair, offset):
    """[DUR-77]"""
    writer, reader = pair
    writer.truncate_to(offset)

    with pytest.raises(LogTruncatedError, match=f"ends at {offset} now, it was read to 40"):
        reader.refresh()
    assert reader.log_end_offset == offset
    assert rows(reader) == rows(writer)
    append(writer, 50, b"other")
    assert reader.refresh() == writer.log_end_offset
    assert rows(reader) == rows(writer)


@pytest.mark.parametrize("offset", [1, 16, 17, 18, 25, 31, 35])
@pytest.mark.parametrize("count", [1, 12, 20, 60])
def test_a_truncation_that_was_written_over_is_noticed(pair, offset, count):
    """[DUR-77] Between two looks: cut, and appended to, with segments at other offsets."""
    writer, reader = pair
    writer.truncate_to(offset)
    append(writer, count, b"something other")

    with contextlib.suppress(LogTruncatedError):
        reader.refresh()
    reader.refresh()

    assert reader.log_end_offset == writer.log_end_offset
    assert rows(reader) == rows(writer)


READS = {
    "read": lambda log: log.read(38, 1000),
    "slice": lambda log: log.slice(38, 1000),
    "scan": rows,
    "timestamp": lambda log: log.fetch_offset_by_timestamp(segstore.SpecialTimestamp.MAX),
    "committed": lambda log: log.read(38, 1000, "read_committed"),
}


@pytest.mark.parametrize("way", READS)
def test_what_is_read_beside_a_truncation_is_not_called_damage(pair, way):
    """[DUR-77] By whichever way: the bytes are gone, the log was cut and is whole."""
    writer, reader = pair
    writer.truncate_to(35)

    with pytest.raises(LogTruncatedError):
        READS[way](reader)


def test_the_latest_record_below_a_truncation_is_found_beside_it(tmp_path):
    """[TS-3, DUR-77] What was cut is not read for it: the answer is that of the shorter log."""
    path = tmp_path / "orders-0"
    with segstore.open(path, durability="none", **SETTINGS) as writer:
        writer.append([(TIME + 100, None, b"the latest")])
        append(writer, 39)
        with segstore.open(path, read_only=True) as reader:
            writer.truncate_to(35)
            answers = [
                log.fetch_offset_by_timestamp(segstore.SpecialTimestamp.MAX)
                for log in (reader, writer)
            ]
    assert [(one.offset, one.timestamp) for one in answers] == [(0, TIME + 100)] * 2


def test_a_log_that_restarts_is_told(pair):
    """[DUR-77]"""
    writer, reader = pair
    writer.truncate_fully_and_start_at(7)

    with pytest.raises(LogTruncatedError):
        reader.refresh()
    append(writer, 3)
    reader.refresh()
    assert rows(reader) == rows(writer)
    assert reader.log_start_offset == 7


def test_a_batch_that_is_being_written_is_the_end_for_now(pair, tmp_path):
    """[DUR-76] Each length of it; when it is whole it is there."""
    writer, _ = pair
    image = tmp_path / "image" / "orders-0"
    assert writer._background.wait_until_idle()  # else a checkpoint is renamed under the copy
    shutil.copytree(writer.path, image)
    append(writer, 1)
    active = f"{writer.segments()[-1].base_offset:020d}.log"
    with segstore.open(image, read_only=True) as follower:
        whole = (tmp_path / "orders-0" / active).read_bytes()
        seen = (image / active).read_bytes()
        for size in range(len(seen) + 1, len(whole)):
            append_bytes(image / active, whole[size - 1 : size])
            if size % 5 == 0:
                assert follower.refresh() == 40
        append_bytes(image / active, whole[-1:])

        assert follower.refresh() == 41
        assert rows(follower) == rows(writer)


def test_the_durable_end_is_the_writers_recovery_point(pair, monkeypatch):
    """[DUR-81] No sync behind a roll comes in between."""
    writer, reader = pair
    monkeypatch.setattr(writer._flusher, "segment_was_sealed", lambda *_: None)
    writer.flush()
    append(writer, 5)

    reader.refresh()

    assert (reader.durable_offset, reader.log_end_offset) == (40, 45)
    assert len(reader.scan(isolation=segstore.Isolation.DURABLE).tuples()) == 40


def test_a_reader_outlives_the_writer(pair):
    """[DUR-71] Closed, opened again, appended to: the same handle follows."""
    writer, reader = pair
    writer.close()
    assert reader.refresh() == 40

    with segstore.open(writer.path, durability="none", **SETTINGS) as again:
        append(again, 30)
        assert reader.refresh() == 70
        assert rows(reader) == rows(again)


@pytest.mark.parametrize("is_flushed", [False, True])
def test_zeros_of_a_preallocated_segment_are_not_read(tmp_path, is_flushed):
    """[DUR-75] Behind a batch that was cut whole: offsets without records, then an empty segment.

    The reader begins its walk through the transactions at the recovery point, or at a snapshot.
    """
    path = tmp_path / "orders-0"
    with segstore.open(path, durability="none", preallocate=True, **SETTINGS) as writer:
        writer.append([(None, b"value")] * 4)
        if is_flushed:
            writer.flush()
        writer.truncate_to(3)
        writer.roll()
        with segstore.open(path, read_only=True) as reader:
            assert reader.last_stable_offset == 3
            assert list(reader.scan(isolation="read_committed")) == []
            assert list(reader.read(3, 100, "durable")) == []


USES = {
    "nothing": lambda _: None,
    "refresh": lambda log: log.refresh(),
    "read": lambda log: [*log.read(0)],
    "slice": lambda log: [*log.slice(0, 100)],
    "scan": lambda log: [*log.scan()],
    "committed": lambda log: [*log.scan(isolation="read_committed")],
    "time": lambda log: [log.offset_for_timestamp(one) for one in (TIME, TIME)],
    "tail": lambda log: [*log.tail(0, timeout=0)],
}


@pytest.mark.parametrize("use", USES)
def test_a_log_that_is_dropped_closes_its_files_at_once(tmp_path, descriptors_below, use):
    """[DUR-75] None of its parts refers back to another one that refers to it.

    Until the collector came, a reader had the files of all logs that it had dropped, as of topics
    that were deleted.
    """
    path = tmp_path / "orders-0"
    with segstore.open(path, durability="none", **SETTINGS) as writer:
        append(writer, 40)
    gc.disable()
    try:
        reader = segstore.open(path, read_only=True)
        USES[use](reader)
        assert descriptors_below() > 0
        del reader
        assert descriptors_below() == 0
    finally:
        gc.enable()


def test_a_scan_of_a_dropped_log_goes_on_in_what_a_compaction_made(tmp_path):
    """[DUR-77] It takes over the new segments where the ones that it knows are gone."""

    def fill(count, keys):
        for number in range(count):
            writer.append([(TIME, b"%d" % (number % keys), b"value %d " % number * 20)])
        writer.roll()

    settings = SETTINGS | {"cleanup_policy": "compact"}
    with segstore.open(tmp_path / "orders-0", durability="none", **settings) as writer:
        fill(100, keys=30)
        reader = segstore.open(tmp_path / "orders-0", read_only=True)
        writer.compact()
        reader.refresh()  # of the new segments it has no file open
        records = iter(reader.scan())
        del reader
        found = [next(records).offset]
        fill(60, keys=10)
        writer.compact()
        assert writer._background.wait_until_idle()
        left = {one.offset for one in writer.scan(end_offset=100)}
        found += [one.offset for one in records]
    assert len(left) == 20
    assert left <= {*found}
    assert found == sorted({*found})
