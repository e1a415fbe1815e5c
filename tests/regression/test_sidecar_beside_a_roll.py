"""A roll between the sync of a log and the look at what was sealed, by another thread.

The segment that it sealed got a durable checksum sidecar, and its own bytes were in the cache of
the kernel: behind a power cut a good log was called damaged.
"""

from __future__ import annotations

from segstore._core import Directory, SimulatedDisk
from segstore.log.files.checksum_sidecar import sidecar_name
from tests.crash.crash_script import PATH, START_MS, Settings


def test_a_segment_that_is_sealed_behind_the_sync_gets_no_sidecar_yet(monkeypatch):
    """[DUR-60] It comes when all of it is on stable storage."""
    disk = SimulatedDisk()
    disk.wall_clock_ms = START_MS
    log = Settings().open(disk)
    log.append([(None, b"a")] * 3)
    log.roll()
    log.append([(None, b"b")] * 3)
    real = log._flusher.flush

    def flush():
        durable_offset = real()
        log.append([(None, b"c" * 100)] * 3)
        log.roll()
        log.append([(None, b"d")])
        return durable_offset

    with monkeypatch.context() as patched:
        patched.setattr(log._flusher, "flush", flush)
        assert log.write_checksum_sidecars().written == 1

    directory = Directory(PATH, disk.crash_image(fate="lost"))
    assert directory.exists(sidecar_name(0))
    assert not directory.exists(sidecar_name(3))
    assert log.write_checksum_sidecars() == (1, 1, [])
    log.close()
    with Settings().open(disk.crash_image(fate="lost")) as again:
        assert again.verify().ok
        assert again.log_end_offset == 10
