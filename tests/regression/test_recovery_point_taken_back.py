"""A sync that began earlier wrote its recovery point behind that of a later one."""

from __future__ import annotations

from pathlib import Path

import segstore
from segstore.log.flusher import Flusher


def recovery_point(log: segstore.UnifiedLog) -> int:
    line = (Path(log.path) / "recovery-point-offset-checkpoint").read_text().splitlines()[2]
    return int(line.split()[2])


def test_the_recovery_point_on_disk_only_rises_between_truncations(tmp_path, monkeypatch):
    """[DUR-16, DUR-21] else the loss of what was synced goes unnoticed."""
    with segstore.open(tmp_path / "t-0") as log:
        log.append([(None, b"a")])
        log.roll()
        log.append([(None, b"b")])
        flusher = log._flusher
        sync_names = Flusher.sync_names

        def sync_beside_another(self, version):
            monkeypatch.undo()
            log.append([(None, b"c")])
            flusher.write_recovery_point()
            sync_names(self, version)

        monkeypatch.setattr(Flusher, "sync_names", sync_beside_another)
        flusher.write_recovery_point()
        assert (recovery_point(log), log.durable_offset) == (3, 3)
        log.truncate_to(1)
        assert recovery_point(log) == 1
