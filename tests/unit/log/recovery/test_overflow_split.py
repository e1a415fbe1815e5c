"""Segments whose offsets outgrew their base, met on the way to an index [LOC-25, LDR-31, DUR-97].

A recovery meets them itself: tests/conformance/test_kafka_log_loader_splits.py.
"""

from __future__ import annotations

import pytest

from segstore._core import Directory, SegmentContext
from segstore.errors import CorruptLogError
from segstore.log.files.partition_directory import file_name
from segstore.log.local.segment import Segment
from segstore.log.local.segments import Segments
from segstore.log.recovery.overflow_split import has_overflow, split_overflowed_segment
from segstore.records.compression import codec_table
from tests.crash.crash_script import PATH, Settings
from tests.kits.directory_kit import disk_with, far_record, name_of
from tests.kits.log_kit import offsets
from tests.kits.overflow_kit import (
    BASES,
    MAX_INT,
    OVERFLOWED,
    SPLIT_BASE,
    bases,
    keys,
    sample_batches,
    write_overflowed_log,
)
from tests.kits.records_kit import build

LAST = BASES[-1]
LOG_END = LAST + MAX_INT


@pytest.fixture
def folder(tmp_path):
    """Of a log that a broker has closed cleanly."""
    (tmp_path / ".kafka_cleanshutdown").touch()
    return tmp_path / "orders-0"


def without_index(folder, base_offset):
    file_name_of_index = file_name(base_offset, "index")
    (folder / file_name_of_index).unlink()


def one_batch(offset):
    return build([(offset, 0, b"%d" % offset, b"")])


@pytest.mark.parametrize("is_active", [False, True], ids=["sealed", "active"])
def test_a_clean_log_with_a_lost_index_is_split(folder, new_log, is_active):
    """[LDR-31, DUR-8, DUR-97] No index can be made for it: no record goes, and the log goes on."""
    written = write_overflowed_log(folder)
    end, last = LOG_END, []
    if is_active:
        (folder / file_name(LAST, "log")).unlink()
        written, end = keys(folder), SPLIT_BASE - 1 + MAX_INT
    else:
        last = [LAST]
    without_index(folder, OVERFLOWED)

    log = new_log(folder)

    assert log.report.clean
    assert (bases(folder), log.log_end_offset) == ([0, OVERFLOWED, SPLIT_BASE, *last], end)
    assert any(
        f"{file_name(OVERFLOWED, 'log')} held offsets that do not fit its base offset: it was split"
        " into 2 segments" in warning
        for warning in log.report.warnings
    )
    assert keys(folder) == written
    assert log.append([(b"next", None)]).base_offset == end
    log.close()
    again = new_log(folder)
    assert [record.key for record in again] == [*written, b"next"]
    assert again.verify().ok


def test_good_batches_behind_the_overflow_have_to_ascend(folder, new_log):
    """[DUR-51, LDR-31] Else they are no batches of this log: damage, and nothing is split."""
    write_overflowed_log(folder)
    file = folder / file_name(OVERFLOWED, "log")
    file.write_bytes(file.read_bytes() + one_batch(SPLIT_BASE))
    without_index(folder, OVERFLOWED)
    before = {path.name: path.read_bytes() for path in folder.glob("*.log")}

    with pytest.raises(CorruptLogError, match="cannot be indexed"):
        new_log(folder)

    assert {path.name: path.read_bytes() for path in folder.glob("*.log*")} == before


def test_an_incomplete_batch_behind_the_overflow_is_not_split_away(folder, new_log):
    """[DUR-51, LOC-25] All of the file consists of batches, or it stays as it is."""
    write_overflowed_log(folder)
    file = folder / file_name(OVERFLOWED, "log")
    file.write_bytes(file.read_bytes() + sample_batches(2 * MAX_INT + 100)[:-1])
    without_index(folder, OVERFLOWED)
    before = {path.name: path.read_bytes() for path in folder.glob("*.log")}

    with pytest.raises(CorruptLogError, match="cannot be indexed"):
        new_log(folder)

    assert {path.name: path.read_bytes() for path in folder.glob("*.log*")} == before


FAR = 2**31
GOES_BACK = [FAR + 20, 10, 5, FAR + 30]
"""Offsets of one segment, each too far from the one before, or below it."""


@pytest.mark.parametrize("kafka_profile", [True, False], ids=["kafka", "safe"])
@pytest.mark.parametrize("is_known", [True, False])
def test_where_base_offsets_go_back_a_broker_forgets_a_segment(tmp_path, kafka_profile, is_known):
    """[LOC-26] The new one that took the name of the old one, but is not the first; it stays."""
    for base in (10, 3 * FAR):
        (tmp_path / file_name(base, "log")).touch()
    (tmp_path / file_name(10, "log")).write_bytes(b"".join(map(one_batch, GOES_BACK)))
    directory = Directory(str(tmp_path))
    context = SegmentContext(directory, codec_table(), writable=True, kafka_profile=kafka_profile)
    old, other = Segment(context, 10), Segment(context, 3 * FAR)
    known = Segments([old, other] if is_known else [other])

    done = split_overflowed_segment(old, known, directory, context)

    found = [segment.base_offset for segment in done.segments]
    forgotten = [10] if kafka_profile and is_known else []
    assert found == [base for base in sorted([*GOES_BACK, 3 * FAR]) if base not in forgotten]
    assert done.taken_out == ((old,) if is_known else ())
    assert done.vanished == ()
    for base in GOES_BACK:
        assert (tmp_path / file_name(base, "log")).read_bytes() == one_batch(base)
    assert not {*tmp_path.glob("*.swap"), *tmp_path.glob("*.cleaned")}
    for segment in (*done.segments, *done.taken_out):
        segment.close_quietly()


def test_the_indexes_of_what_was_split_are_on_the_disk():
    """[DUR-20, DUR-52] With the records, before the old segment goes."""
    settings = Settings(segment_bytes=100_000, interval_bytes=1)
    batches = [far_record(base + number) for base in (0, FAR + 10) for number in range(4)]
    disk = disk_with({name_of(0): b"".join(batches)})
    log = settings.open(disk)
    assert [segment.base_offset for segment in log.segments()] == [0, FAR + 10]
    sealed = [file_name(0, kind) for kind in ("index", "timeindex")]
    there = [Directory(PATH, disk).read_file(name) for name in sealed]
    log.close_quietly()

    after = Directory(PATH, disk.crash_image(fate="lost"))
    assert [after.read_file(name) for name in sealed] == there
    assert all(content.strip(bytes(1)) for content in there)
    with settings.open(disk.crash_image(fate="lost")) as found:
        assert offsets(found.scan()) == [*range(4), *range(FAR + 10, FAR + 14)]


@pytest.mark.parametrize("offsets_there", [[], [7], [7, 7 + MAX_INT], [7, 8 + MAX_INT]])
def test_what_does_not_fit_is_the_last_offset(tmp_path, offsets_there):
    """[LDR-31] An empty segment has none."""
    (tmp_path / file_name(7, "log")).write_bytes(b"".join(map(one_batch, offsets_there)))
    context = SegmentContext(Directory(str(tmp_path)), codec_table(), writable=True)
    segment = Segment(context, 7)

    assert has_overflow(segment) is (offsets_there[-1:] == [8 + MAX_INT])
    segment.close_quietly()


def test_what_an_earlier_split_left_is_in_nobodys_way(tmp_path):
    """[LOC-25, DUR-55] A ``.cleaned`` file of a segment that is to be made goes first."""
    (tmp_path / file_name(0, "log")).write_bytes(one_batch(0) + one_batch(FAR))
    for base in (0, FAR):
        for kind in ("log", "index", "timeindex", "txnindex"):
            (tmp_path / f"{file_name(base, kind)}.cleaned").write_bytes(b"of before")
    directory = Directory(str(tmp_path))
    context = SegmentContext(directory, codec_table(), writable=True)
    old = Segment(context, 0)

    done = split_overflowed_segment(old, Segments([old]), directory, context)

    assert [segment.base_offset for segment in done.segments] == [0, FAR]
    assert (tmp_path / file_name(FAR, "log")).read_bytes() == one_batch(FAR)
    assert [path.name for path in tmp_path.iterdir() if path.read_bytes() == b"of before"] == []
    for segment in (*done.segments, *done.taken_out):
        segment.close_quietly()
