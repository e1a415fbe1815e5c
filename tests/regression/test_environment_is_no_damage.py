"""An open that could not read a sealed segment, for want of a descriptor, called it damaged.

[DUR-6, DUR-31, DUR-33] It sent its user to a salvage. And leader epochs that were being made anew
ended where a read failed, and were written like that.
"""

from __future__ import annotations

import errno

import pytest

from segstore._core import Directory, SimulatedDisk
from segstore.errors import CorruptLogError, SegstoreError
from tests.crash.crash_check import Crash
from tests.crash.crash_script import PATH, Settings
from tests.kits.log_kit import singleton

EPOCHS = 6
SETTINGS = Settings(segment_bytes=150)


def a_record(epoch: int) -> bytes:
    return singleton(b"%d" % epoch, timestamp=0)


@pytest.fixture(params=["closed", "killed"])
def disk(request) -> SimulatedDisk:
    """A log of several segments and epochs, without the file of the epochs."""
    disk = SimulatedDisk()
    log = SETTINGS.open(disk)
    for epoch in range(EPOCHS):
        log.append_as_leader(a_record(epoch), leader_epoch=epoch)
        log.append_as_leader(a_record(epoch), leader_epoch=epoch)
    assert len(log.segments()) > 3
    log.flush()
    log.close() if request.param == "closed" else log.close_quietly()
    directory = Directory(PATH, environment=disk)
    directory.unlink("leader-epoch-checkpoint")
    directory.close()
    return disk


def found_in(disk: SimulatedDisk) -> tuple[list[bytes], list[int]]:
    """Values, and where each epoch begins."""
    log = SETTINGS.open(disk)
    values = [value for _, _, _, value in log.scan().tuples()]
    epochs = [entry.start_offset for entry in log._epochs.entries]
    log.close_quietly()
    return values, epochs


@pytest.mark.parametrize("os_error", [errno.EMFILE, errno.EIO, errno.EACCES])
def test_a_call_that_fails_while_a_log_opens_is_no_damage(disk, os_error):
    """[DUR-6, DUR-31, DUR-33] Each call once: it is told as what it is, and the next open is."""
    expected = [b"%d" % (number // 2) for number in range(2 * EPOCHS)], list(range(0, 12, 2))
    assert found_in(Crash(disk.effects, "killed").image(disk)) == expected
    refused = 0
    for nth in range(1, 1000):
        image = Crash(disk.effects, "killed").image(disk)
        image.fail(None, nth, os_error)
        before = image.calls()
        try:
            SETTINGS.open(image).close_quietly()
        except CorruptLogError as error:
            pytest.fail(f"call {nth} failed, and that is damage: {error}")
        except SegstoreError:
            refused += 1
        if image.calls() - before < nth:
            break
        image.fail(None, 0, 0)
        assert found_in(image) == expected, f"call {nth} failed"
    assert refused > 5
