"""A repair of a cleanly closed log removed the markers while the recovery point was an old one.

A broker went on with the log and stopped cleanly; our own recovery point stayed where it was. After
a crash within the repair, damage of synced records was taken for a torn tail, and cut [DUR-6].
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from segstore._core import Directory, FileBarrier
from segstore.errors import CorruptLogError
from segstore.log.files.checkpoints import (
    CLEAN_SHUTDOWN_MARKER,
    RECOVERY_POINT_CHECKPOINT,
    format_offset_checkpoint,
)
from segstore.types import TopicPartition
from tests.crash.crash_model import Operation
from tests.crash.crash_script import PATH, Settings, run_script
from tests.crash.test_changes_after_a_clean_stop import ABOVE, SCRIPT

if TYPE_CHECKING:
    from segstore._core import SimulatedDisk

SETTINGS = Settings(in_log_directory=True, durability="sync")
OLD_POINT, END = 3, 13
DAMAGED = f"{6:020d}"


def stopped_by_a_broker(what: str) -> SimulatedDisk:
    """Return a log that a broker closed at `END`, and that the next open has to repair."""
    disk = run_script([*SCRIPT, Operation("close")], SETTINGS).disk
    directory, above = Directory(PATH, disk), Directory(ABOVE, disk)
    partition = TopicPartition("topic", 0)
    for place, point in ((directory, OLD_POINT), (above, END)):
        content = format_offset_checkpoint({partition: point})
        place.write_file_atomically(RECOVERY_POINT_CHECKPOINT, content, FileBarrier.RECOVERY_POINT)
    above.create_file(CLEAN_SHUTDOWN_MARKER, b"", FileBarrier.CLEAN_MARKER)
    directory.unlink(CLEAN_SHUTDOWN_MARKER)
    if what == "a lost index":
        directory.unlink(f"{DAMAGED}.index")
    if what == "a swap file":
        data = directory.read_file(f"{0:020d}.log")
        directory.create_file(f"{0:020d}.log.swap", data, FileBarrier.CLEAN_MARKER)
    directory.create_file("made", b"", FileBarrier.CLEAN_MARKER)  # the names are synced
    directory.unlink("made")
    return disk


def damage(disk: SimulatedDisk) -> None:
    """Change a record between the old recovery point and the end."""
    directory, name = Directory(PATH, disk), f"{DAMAGED}.log"
    data = bytearray(directory.read_file(name))
    data[-20] ^= 1
    directory.create_file(name, bytes(data), FileBarrier.CLEAN_MARKER)


@pytest.mark.parametrize(
    ("what", "index_mode"),
    [("a lost index", "heap"), ("a swap file", "heap"), ("nothing", "mmap")],
)
def test_a_crash_within_the_repair_makes_no_tail_of_synced_records(what: str, index_mode: str):
    """[DUR-6, DUR-24, DUR-63] Without markers, the recovery point has to say what is durable."""
    disk = stopped_by_a_broker(what)
    begin, settings = disk.effects, SETTINGS._replace(index_mode=index_mode)
    log = settings.open(disk)
    assert log.log_end_offset == END
    log.close_quietly()

    unmarked = 0
    for effects in range(begin, disk.effects + 1):
        image = disk.crash_image(effects, fate="lost")
        if Directory(ABOVE, image).exists(CLEAN_SHUTDOWN_MARKER):
            continue
        unmarked += 1
        damage(image)
        with contextlib.suppress(CorruptLogError):  # an open reads no record below the point
            log = settings.open(image)
            log.close_quietly()
            assert (log.log_end_offset, log.report.truncated_bytes) == (END, 0)
    assert unmarked
