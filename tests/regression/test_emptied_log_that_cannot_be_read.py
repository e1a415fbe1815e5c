"""A read that failed made an empty log one that had lost its beginning.

Whether it holds a record decides that; where the disk did not say, it counted as one that does:
the error named missing records, and no failed call. A single failing call was enough.
"""

from __future__ import annotations

import errno
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from segstore.errors import CorruptLogError, SegstoreError
from tests.crash.failing_scenarios_of_damage import epochs
from tests.crash.failing_scenarios_of_opens import SETTINGS
from tests.crash.failing_watcher import place_of
from tests.kits.directory_kit import disk_with, name_of

if TYPE_CHECKING:
    from segstore._core import SimulatedDisk


def fail_where_it_is_asked(disk: SimulatedDisk) -> None:
    """Let the first call fail that is made to see whether there is a record."""

    def watch(call: str, _name: str) -> None:
        place = place_of(sys._getframe(1))
        if place is not None and place.function == "Survey.end_of":
            disk.watch(None)
            disk.fail(call, 1, errno.EIO)

    disk.watch(watch)


def test_the_failed_read_is_told():
    """[DUR-6, DUR-33, DUR-54] And once the disk gives it out, the log is opened."""
    disk = disk_with({name_of(9): b"", **epochs()})
    fail_where_it_is_asked(disk)

    with pytest.raises(SegstoreError) as caught:
        SETTINGS.open(disk)
    assert not isinstance(caught.value, CorruptLogError)
    assert caught.value.os_error == errno.EIO
    with closing(SETTINGS.open(disk)) as log:
        assert log.log_end_offset == 9
