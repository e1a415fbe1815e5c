"""A sync of names beside a roll counted the name of a segment that was not made yet.

No later sync brought it to stable storage: appends to that segment were acknowledged, and a power
cut took them.
"""

from __future__ import annotations

import threading

from segstore._core import SimulatedDisk
from segstore.log.local import local_log
from tests.crash.crash_script import Settings
from tests.kits.log_kit import PATIENCE_SECONDS

DURABLE = Settings("sync")  # and no background, which syncs names, too


def test_a_recovery_point_that_is_written_while_a_segment_is_made(monkeypatch):
    """[DUR-3, DUR-11, DUR-13]"""
    disk = SimulatedDisk()
    log = DURABLE.open(disk)
    log.append([(None, b"before")])
    real, started, write = local_log.Segment, [], log._flusher.write_recovery_point
    write()  # else the next one would sync names, too

    def make(*arguments, **options):
        started.append(threading.Thread(target=write))
        started[-1].start()
        started[-1].join(0.2)  # before the name is there, if nothing holds it up
        return real(*arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(local_log, "Segment", make)
        log.roll()
    started[0].join(PATIENCE_SECONDS)
    assert not started[0].is_alive()
    info = log.append([(None, b"acknowledged")])
    assert info.durable_offset == 2
    image = disk.crash_image(disk.effects, fate="lost")
    log.close()

    with DURABLE.open(image) as found:
        assert [record.value for record in found] == [b"before", b"acknowledged"]
