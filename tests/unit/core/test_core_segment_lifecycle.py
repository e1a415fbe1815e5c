"""A segment's life from Python: closing under readers, threads, forks [SEG-*]."""

from __future__ import annotations

import threading
import time

import pytest

from segstore._core import Barrier, Directory
from segstore.errors import (
    ClosedError,
    ForkedHandleError,
)
from tests.kits.core_inputs import TIME
from tests.kits.segment_inputs import Segment, append, context_of, offsets
from tests.unit.core.test_core_directory import in_child


def test_a_closed_segment_says_so(segment):
    append(segment, 3)
    segment.close()
    segment.close()
    segment.close_quietly()

    assert segment.closed
    assert segment.base_offset == 0
    for call in (
        lambda: segment.flush(Barrier.APPENDED_RECORDS),
        segment.read_next_offset,
        segment.scan,
        segment.offset_index_entries,
        lambda: segment.size_bytes,
        lambda: segment.unflushed_records,
        lambda: segment.read(0, 1, 1, True),
    ):
        with pytest.raises(ClosedError):
            call()


def test_a_segment_without_close_is_closed_by_its_end(directory, descriptors_below):
    segment = Segment(context_of(directory), 0, create=True)
    append(segment, 3)
    assert descriptors_below() > 0
    del segment
    assert descriptors_below() == 0


def test_segments_keep_a_closed_directory_open(directory):
    context = context_of(directory)
    segment = Segment(context, 0, create=True)
    directory.close()

    append(segment, 3)
    assert segment.read_next_offset() == (3, True)
    segment.close()
    with pytest.raises(ClosedError):
        Segment(context, 10, create=True)


def test_a_segment_is_a_small_object(segment):
    import sys

    assert sys.getsizeof(segment) <= 120
    with pytest.raises(AttributeError):
        segment.anything = 1


def test_readers_beside_a_writer_see_whole_batches_in_order(directory):
    """[CON-4]: the size is published behind the bytes."""
    segment = Segment(context_of(directory, max_index_bytes=100_000), 0, create=True)
    append(segment, 2)
    done = threading.Event()
    failures: list[object] = []

    def read() -> None:
        while not done.is_set():
            try:
                size = segment.size_bytes
                found = offsets(segment.read(0, 10**6, size, True))
                if found != list(range(len(found))) or len(found) % 2:
                    failures.append(found)
                segment.find_offset_by_timestamp(TIME + 10**9, 0)
                segment.translate_offset(found[-1])
            except BaseException as error:  # noqa: BLE001 - shown below
                failures.append(error)
                return

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for start in range(2, 800, 2):
        append(segment, 2, start=start)
    done.set()
    for thread in threads:
        thread.join()
    segment.close()

    assert failures == []


def test_closing_under_readers_seals_at_once_and_lets_them_finish(tmp_path):
    """What is written at a close is written by the closer, under its lock [CON-4]."""
    failures: list[BaseException] = []
    reads: list[int] = []

    def read(segment: Segment, size: int) -> None:
        try:
            while True:
                reads.append(len(offsets(segment.read(0, size, size, True))))
        except ClosedError:
            pass
        except BaseException as error:  # noqa: BLE001 - shown below
            failures.append(error)

    for round_number in range(15):
        path = tmp_path / str(round_number)
        directory = Directory(str(path), create=True)
        segment = Segment(context_of(directory), 0, create=True)
        for start in range(0, 300, 100):
            append(segment, 100, start=start, size=500)
        threads = [
            threading.Thread(target=read, args=(segment, segment.size_bytes)) for _ in range(3)
        ]
        for thread in threads:
            thread.start()
        while not reads:
            time.sleep(0.001)
        segment.close()
        trimmed = (path / "00000000000000000000.timeindex").stat().st_size
        for thread in threads:
            thread.join()
        assert 0 < trimmed < 1000 // 12 * 12
        directory.close()
        del segment

    assert failures == []
    assert set(reads) == {300}


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_can_neither_use_nor_harm_a_segment(directory):
    """[DUR-68]"""
    segment = Segment(context_of(directory), 0, create=True)
    append(segment, 3)
    held = [segment]

    def use() -> bool:
        refused = 0
        calls = (
            segment.close,
            lambda: segment.flush(Barrier.APPENDED_RECORDS),
            lambda: append(segment, 1, start=3),
            lambda: segment.size_bytes,
            lambda: segment.truncate_to(0),
        )
        for call in calls:
            try:
                call()
            except ForkedHandleError:
                refused += 1
        held.clear()
        return refused == len(calls)

    assert in_child(use) == 0
    append(segment, 3, start=3)
    assert segment.read_next_offset() == (6, True)
    assert (
        directory.info("00000000000000000000.index").size > 0
    )  # still at its full size: nobody trimmed it
    segment.close()
