"""A check took a failed call for a fact: a file that could not be looked at had 0 bytes.

[DUR-6, DUR-33] So one EIO made records missing, and want of memory a transaction index wrong.
"""

from __future__ import annotations

import errno

import pytest

from segstore._core import Directory, SimulatedDisk
from segstore.errors import LogPermissionError, ReadIOError, ResourceError
from segstore.log.check.partition_check import check_directory
from segstore.log.findings.finding import FindingCode
from tests.crash.crash_check import Crash
from tests.crash.crash_script import PATH
from tests.crash.failing_scenarios_of_opens import (
    SEGMENTS,
    TRANSACTIONS,
    WITH_SIDECARS,
    closed,
    left_by,
)

UNREADABLE = {FindingCode.FILE_UNREADABLE, FindingCode.DIRECTORY_UNREADABLE}
KINDS = (*TRANSACTIONS, "roll", *SEGMENTS, "flush", ("background", 0))


@pytest.fixture(scope="module", params=[left_by, closed])
def disk(request: pytest.FixtureRequest) -> SimulatedDisk:
    """A log with all that a check reads: segments, transactions, snapshots, sidecars."""
    return request.param(*KINDS, settings=WITH_SIDECARS)


def checked(disk: SimulatedDisk) -> set[FindingCode]:
    directory = Directory(PATH, environment=disk)
    try:
        return {finding.code for finding in check_directory(directory).findings}
    finally:
        directory.close()


@pytest.mark.parametrize("os_error", [errno.EIO, errno.ENOMEM, errno.EACCES])
def test_a_call_that_fails_in_a_check_is_no_fact_about_the_log(disk: SimulatedDisk, os_error: int):
    """[DUR-6, DUR-33] Each call once: the file cannot be read, or the check raises."""
    found, wrong = 0, []
    for nth in range(1, 2000):
        image = Crash(disk.effects, "killed").image(disk)
        if nth == 1:
            assert checked(image) == set()
        before = image.calls()
        image.fail(None, nth, os_error)
        try:
            codes = checked(image)
        except (LogPermissionError, ReadIOError, ResourceError):
            codes = set()
        wrong += [(nth, code) for code in codes - UNREADABLE]
        found += bool(codes)
        if image.calls() - before < nth:
            break
    assert wrong == []
    assert found > 20 or os_error == errno.ENOMEM
