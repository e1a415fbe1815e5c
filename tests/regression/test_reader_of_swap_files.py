"""A reader of a log whose compaction was interrupted: some segments are ``.swap`` files still.

Where the last one was, every read failed: the log had been cut by its writer. And a refresh forgot
all that was in such files.
"""

from __future__ import annotations

from functools import partial

import pytest

import segstore
from segstore.log.log_environment import LogEnvironment
from segstore.log.log_opener import open_partition
from segstore.log.open_options import open_options
from tests.crash.crash_script import PATH, ManualScheduler
from tests.kits.directory_kit import RECOVERY_POINT, disk_with, name_of, records, recovery_point

swap_of = partial(name_of, ending="log.swap")
HALF_RENAMED = {
    swap_of(0): records(0, 3),
    name_of(3): records(3, 6),
    swap_of(6): records(6, 9),
    name_of(9): records(9, 10),
}
ONE_MADE_TWO = {
    name_of(0): records(0, 6),
    swap_of(0): records(0, 3),
    swap_of(3): records(3, 6),
    name_of(6): records(6, 9),
}
LAST = {name_of(0): records(0, 3), swap_of(3): records(3, 6)}
LAST_BESIDE_THE_OLD = {**LAST, name_of(3): records(3, 9)}


def open_log(disk, *, read_only):
    log_environment = LogEnvironment(environment=disk, background=lambda *_: ManualScheduler())
    return open_partition(PATH, open_options(read_only=read_only, segment_ms=None), log_environment)


def offsets_in(log):
    return [record.offset for record in log.scan()]


@pytest.mark.parametrize(
    "files",
    [HALF_RENAMED, ONE_MADE_TWO, LAST, LAST_BESIDE_THE_OLD],
    ids=["half renamed", "one made two", "the last", "the last, beside the old one"],
)
def test_a_reader_of_swap_files_sees_what_a_writer_will(files):
    """[DUR-71, DUR-77] Before that comes, and behind it."""
    first = max(map(int, (name[:20] for name in files)))
    disk = disk_with({**files, RECOVERY_POINT: recovery_point(first)})
    twin = open_log(disk.crash_image(fate="kept"), read_only=False)
    expected = offsets_in(twin)
    twin.close()

    reader = open_log(disk, read_only=True)
    assert offsets_in(reader) == expected
    reader.refresh()
    assert offsets_in(reader) == expected
    with open_log(disk, read_only=False) as writer:
        assert offsets_in(reader) == expected
        assert offsets_in(writer) == expected
        writer.append([(None, b"more")])
        assert reader.refresh() == expected[-1] + 2
        assert offsets_in(reader) == [*expected, expected[-1] + 1]
        assert not any(segment.suffix for segment in reader.segments())
        assert writer.truncate_to(expected[-1])
        with pytest.raises(segstore.LogTruncatedError):
            reader.refresh()
        assert offsets_in(reader) == expected[:-1]
    reader.close()
