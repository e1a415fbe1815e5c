"""Runs under ``LD_PRELOAD``: writers are killed, and what they had not synced is taken back.

``python -m tests.crash.lossy_driver FOLDER DURABILITY ROUNDS SEED``; test_lossy_disk.py starts it.
"""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import segstore
from tests.crash.kill_history import APPEND, DELETE, FULL_BYTES, ROLL, TRUNCATE, fresh_logs
from tests.crash.kill_writers import SETTINGS, Writer
from tests.crash.killed_process import Teller, run_until_killed
from tests.crash.lossy_disk import settle, take_back

if TYPE_CHECKING:
    from collections.abc import Callable

FLUSH = b"f"
SYNCED = {APPEND: 80, ROLL: 8, TRUNCATE: 6, DELETE: 6}
FLUSHED = {APPEND: 90, ROLL: 10}


def write_on(path: Path, durability: str, seed: int) -> Callable[[Teller], None]:
    """Take steps; where appends are not synced, flush now and then and tell how far."""

    def work(tell: Teller) -> None:
        with segstore.open(path, durability=durability, **SETTINGS) as log:
            writer = Writer(log, tell, seed)
            while True:
                writer.take_steps(SYNCED if durability == "sync" else FLUSHED, 5)
                tell.done(FLUSH, log.flush() if durability == "none" else log.durable_offset)

    return work


def run(folder: Path, durability: str, rounds: int, chooser: random.Random) -> None:
    """Kill, lose, look; all that was told to be durable must be there, in order, once."""
    journal = Path(os.environ["LOSSY_JOURNAL"])
    logs = fresh_logs(folder)
    path, history = next(logs)
    durable = lost = 0
    for number in range(rounds):
        notes = run_until_killed(
            write_on(path, durability, chooser.getrandbits(40)), chooser, number
        )
        ends = [note.first for note in notes if note.step == FLUSH]
        history.take([note for note in notes if note.step != FLUSH])
        durable = max([durable, *ends])
        if durability != "sync":
            history.lose_tail(durable)
        lost += take_back(folder, journal, chooser)
        if path.exists() or durability == "sync":
            log = segstore.open(path, **SETTINGS)
            history.adopt(log, after_power_loss=True)
            log.close() if chooser.random() < 0.5 else log.close_quietly()
            settle(journal)
            if sum(file.stat().st_size for file in path.iterdir()) > FULL_BYTES:
                path, history = next(logs)
                durable = 0
                settle(journal)
    assert lost, "nothing could ever be lost"
    print(f"{lost} changes that could be lost in {rounds} rounds")


if __name__ == "__main__":
    run(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), random.Random(int(sys.argv[4])))
