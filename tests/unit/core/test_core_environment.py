"""The environment that is handed in: the system's, or one whose wall clock is set [DUR-10]."""

from __future__ import annotations

import gc
import time

import pytest

from segstore import _core
from segstore._core import Directory, Environment
from segstore.errors import IllegalStateError
from segstore.log.files.partition_path import open_parent_directory, open_partition_directory
from segstore.records.compression import codec_table


def new_segment(directory: Directory, base_offset: int = 0) -> _core.LogSegment:
    context = _core.SegmentContext(directory, codec_table(), writable=True)
    return _core.LogSegment(context, base_offset, create=True)


def test_the_clocks_of_the_system():
    environment = Environment()

    assert abs(environment.wall_clock_ms - time.time() * 1000) < 60_000
    assert environment.monotonic_ns() <= environment.monotonic_ns()
    with pytest.raises(IllegalStateError):
        environment.wall_clock_ms = 5


def test_a_wall_clock_stands_still_until_it_is_set():
    environment = Environment.with_wall_clock(1_000)
    assert environment.wall_clock_ms == 1_000

    environment.wall_clock_ms += 7

    assert environment.wall_clock_ms == 1_007
    assert environment.monotonic_ns() <= _core.monotonic_ns()


def test_a_directory_has_the_clocks_of_its_environment(tmp_path):
    environment = Environment.with_wall_clock(1_000)
    directory = Directory(str(tmp_path), environment)

    assert directory.environment is environment
    assert directory.wall_clock_ms() == 1_000
    assert directory.monotonic_ns() <= _core.monotonic_ns()
    assert abs(Directory(str(tmp_path)).wall_clock_ms() - time.time() * 1000) < 60_000


def test_a_segment_is_created_at_the_time_of_the_environment(tmp_path):
    """Kafka ``LogSegment.created`` of a ``MockTime``."""
    environment = Environment.with_wall_clock(1_000)
    directory = Directory(str(tmp_path), environment)
    first = new_segment(directory)
    environment.wall_clock_ms = 5_000
    second = new_segment(directory, 10)

    assert first.created_ms == 1_000
    assert second.created_ms == 5_000


def test_what_a_directory_made_keeps_its_environment(tmp_path):
    """Nobody else holds it any more; descriptors are closed through it."""
    directory = Directory(str(tmp_path), Environment.with_wall_clock(1_000))
    lock = directory.lock(".lock", exclusive=True)
    file = _core.DataFile(directory, "data", create=True)
    index = _core.OffsetIndex(directory, "0.index", 0, max_size_bytes=80)
    segment = new_segment(directory)
    directory.close()
    del directory
    gc.collect()

    file.write(0, b"abc")
    index.append(3, 4)
    lock.release()

    assert (file.size, index.entries(), lock.held) == (3, [(3, 4)], False)
    assert segment.created_ms == 1_000


def test_the_directories_of_a_partition_take_an_environment(tmp_path):
    environment = Environment.with_wall_clock(1_000)
    path = str(tmp_path / "deep" / "topic-0")

    directory, _ = open_partition_directory(path, read_only=False, environment=environment)
    parent = open_parent_directory(path, environment)

    assert directory.environment is environment
    assert parent is not None
    assert parent.environment is environment
