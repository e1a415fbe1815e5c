"""Neither the checkpoint of epochs nor a ``.log`` could be read: an open lost the epochs for good.

It took what was no file any more for damage, which others report, and wrote the epochs down that it
had found until then: none.
"""

from __future__ import annotations

import errno

import pytest

from segstore._core import Directory
from segstore.errors import NotALogError
from tests.crash.barrier_scene import operations
from tests.crash.crash_script import PATH, Settings, run_script

CHECKPOINT = "leader-epoch-checkpoint"


def test_epochs_are_kept_where_the_records_cannot_be_read():
    """[DUR-6, DUR-21]"""
    disk = run_script(operations(("append", 2), "close"), Settings()).disk
    Settings().open(disk).close()
    epochs = Directory(PATH, disk).read_file(CHECKPOINT)

    def fail_from_there_on(call: str, name: str) -> None:
        if call == "read_at" and name == CHECKPOINT:
            disk.fail(call, 1, errno.EISDIR, for_ever=True)

    disk.watch(fail_from_there_on)
    with pytest.raises(NotALogError):
        Settings().open(disk)
    disk.watch(None)
    disk.fail("read_at", 0, 0)

    assert Directory(PATH, disk).read_file(CHECKPOINT) == epochs
