"""A clean marker whose removal was not durable came back after a power cut [DUR-24].

A process unlinked the marker and was killed before it synced the directory. The next writer found
no marker and synced nothing, so its changes could become durable before the removal did.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from segstore._core import Directory, FileBarrier
from segstore.log.files.checkpoints import CLEAN_SHUTDOWN_MARKER
from segstore.manager.owned_log_directory import OwnedLogDirectory
from segstore.types import TopicPartition
from tests.crash.crash_script import PATH
from tests.crash.test_changes_after_a_clean_stop import ABOVE, BROKERS, OURS, stopped

if TYPE_CHECKING:
    from segstore._core import SimulatedDisk
    from tests.crash.crash_script import Settings


def is_marked(disk: SimulatedDisk, path: str) -> bool:
    return Directory(path, disk).exists(CLEAN_SHUTDOWN_MARKER)


def killed_after_the_unlink(settings: Settings, path: str) -> SimulatedDisk:
    """Return what another process sees: the marker is gone, and its directory was not synced."""
    disk = stopped(settings).disk
    log, opened = settings.open(disk), disk.effects
    log.append([(None, b"value")])
    log.close_quietly()
    images = (disk.crash_image(e, fate="killed") for e in range(opened, disk.effects + 1))
    return next(image for image in images if not is_marked(image, path))


@pytest.mark.parametrize(
    ("settings", "path"), [(OURS, PATH), (BROKERS, ABOVE)], ids=["ours", "a brokers"]
)
def test_the_first_change_makes_a_removal_durable_that_another_process_began(
    settings: Settings, path: str
):
    """[DUR-24] The marker is durably gone before a byte of the log changes."""
    disk = killed_after_the_unlink(settings, path)
    log = settings.open(disk)
    log.append([(None, b"value")])
    log.close_quietly()

    assert not is_marked(disk.crash_image(disk.effects, fate="lost"), path)


def test_the_owner_of_a_log_directory_syncs_it_once():
    """[DUR-24] The first change of any of its logs removes the marker for all of them."""
    disk = killed_after_the_unlink(BROKERS, ABOVE)
    owned = OwnedLogDirectory(Directory(ABOVE, disk))
    owned.checkpoints.begin_change(TopicPartition("topic", 0))
    once = disk.effects
    owned.checkpoints.begin_change(TopicPartition("topic", 1))
    owned.release()

    assert disk.effects == once
    assert not is_marked(disk.crash_image(once, fate="lost"), ABOVE)


def test_a_marker_that_comes_back_would_be_seen():
    """[DUR-24] The scene is the one that it claims to be."""
    disk = stopped(BROKERS).disk
    directory, before = Directory(ABOVE, disk), disk.effects
    directory.unlink(CLEAN_SHUTDOWN_MARKER)
    disk = disk.crash_image(before + 1, fate="killed")
    assert not is_marked(disk, ABOVE)

    Directory(PATH, disk).create_file("made", b"", FileBarrier.CLEAN_MARKER)
    assert is_marked(disk.crash_image(disk.effects, fate="lost"), ABOVE)
