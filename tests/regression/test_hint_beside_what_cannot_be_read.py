"""An open of what is not there said of a directory that may not be read that it is not there."""

from __future__ import annotations

import errno

import pytest

from segstore.errors import LogNotFoundError
from tests.crash.barrier_scene import open_log
from tests.crash.crash_script import PATH
from tests.kits.directory_kit import disk_with

WORDS = "nor the one above it"
NOTHING_THERE = (errno.ENOENT, errno.ENOTDIR)


@pytest.mark.parametrize(
    ("os_error", "said"), [(errno.EACCES, []), *((one, [WORDS]) for one in NOTHING_THERE)]
)
def test_only_what_is_not_there_is_said_not_to_be(os_error: int, said: list[str]):
    """[DUR-7] A directory may let in who knows the name, and yet list nothing."""
    disk = disk_with({})
    disk.fail("open_directory", 2, os_error)

    with pytest.raises(LogNotFoundError, match="there is no such directory") as caught:
        open_log(disk, f"{PATH}1", read_only=True)

    assert [words for words in [WORDS] if words in str(caught.value)] == said
