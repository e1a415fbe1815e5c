"""Recovery that is killed again and again, at any moment, finds what the first one would [DUR-56].

``test_killed_open.py`` ends an open at each of its lines; here a real SIGKILL ends one of several.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import segstore
from tests.crash.kill_history import fresh_logs
from tests.crash.kill_writers import SETTINGS
from tests.crash.killed_process import OPENED, Teller, run_until_killed
from tests.kits.log_kit import batch

if TYPE_CHECKING:
    import random
    from collections.abc import Callable
    from pathlib import Path

FULL_RECORDS = 900


def test_a_killed_recovery_begins_again(tmp_path: Path, chooser: random.Random, kills: int):
    """[DUR-52, DUR-56, DUR-57] Nothing is lost of a log that was never closed."""
    logs = fresh_logs(tmp_path)
    path, _ = next(logs)
    end = opened = 0
    while kills > 0:
        if end > FULL_RECORDS:
            path, _ = next(logs)
            end = 0
        end = grow(path, end, chooser)
        damage(path, chooser)
        for _ in range(min(kills, chooser.randint(1, 4))):
            notes = run_until_killed(open_again_and_again(path), chooser, kills)
            kills -= 1
            opened += len(notes)
            assert {note.first for note in notes} <= {end}

        with segstore.open(path, **SETTINGS) as log:
            assert [int(value) for _, _, _, value in log.scan().tuples()] == list(range(end))
            assert log.verify().ok, str(log.verify())
    assert opened


def grow(path: Path, end: int, chooser: random.Random) -> int:
    """Append each offset as a value, in several segments, and stop without a word."""
    log = segstore.open(path, durability="none", **SETTINGS)
    for _ in range(chooser.randint(1, 30)):
        assert log.log_end_offset == end
        count = chooser.choice([1, 1, 5, 40])
        log.append([(None, b"%d" % (end + i)) for i in range(count)])
        end += count
        if chooser.random() < 0.1:
            log.roll()
    log.close_quietly()
    return end


def damage(path: Path, chooser: random.Random) -> None:
    """What a crash may leave: part of a batch, indexes that are gone or wrong, no checkpoint."""
    last = max(path.glob("*.log"))
    kind = chooser.randrange(5)
    if kind == 0:
        torn = batch([(None, b"never acknowledged" * 5)], base_offset=10**6)
        with last.open("ab") as file:
            file.write(torn[: chooser.randrange(1, len(torn))])
    elif kind == 1:
        chooser.choice([*path.glob("*.index"), *path.glob("*.timeindex")]).unlink()
    elif kind == 2:
        chooser.choice(list(path.glob("*.index"))).write_bytes(bytes(range(1, 41)))
    elif kind == 3:
        (path / "recovery-point-offset-checkpoint").unlink(missing_ok=True)


def open_again_and_again(path: Path) -> Callable[[Teller], None]:
    """Recover, tell the end, let go, and so on."""

    def work(tell: Teller) -> None:
        while True:
            log = segstore.open(path, durability="none", **SETTINGS)
            tell.done(OPENED, log.log_end_offset)
            log.close_quietly()

    return work
