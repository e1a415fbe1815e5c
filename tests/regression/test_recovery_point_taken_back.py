"""A sync that began earlier wrote its recovery point behind that of a later one."""

from __future__ import annotations

from pathlib import Path

import segstore


def recovery_point(log: segstore.UnifiedLog) -> int:
    line = (Path(log.path) / "recovery-point-offset-checkpoint").read_text().splitlines()[2]
    return int(line.split()[2])


def test_the_recovery_point_on_disk_only_rises_between_truncations(tmp_path, monkeypatch):
    """[DUR-16, DUR-21] else the loss of what was synced goes unnoticed."""
    with segstore.open(tmp_path / "t-0") as log:
        log.append([(None, b"a")])
        log.roll()
        log.append([(None, b"b")])
        flusher, local_log = log._flusher, log._local_log
        note = local_log.note_transaction_indexes

        def note_beside_another(*arguments, **how):
            monkeypatch.undo()
            log.append([(None, b"c")])
            flusher.write_recovery_point()
            note(*arguments, **how)

        monkeypatch.setattr(local_log, "note_transaction_indexes", note_beside_another)
        flusher.write_recovery_point()
        assert (recovery_point(log), log.durable_offset) == (3, 3)
        log.truncate_to(1)
        assert recovery_point(log) == 1
