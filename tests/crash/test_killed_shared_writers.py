"""Kills where several processes write one directory with ``shared=True`` [DUR-1, DUR-24, DUR-65].

They append to partitions in turn and at once, give some of them back, maintain the directory, and
make and delete topics. After each kill, by readers beside those that are alive: every record that
was acknowledged is there, once, offsets have no gap, and each partition is locked by exactly the
process that has it open.
"""

from __future__ import annotations

import random
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import segstore
from segstore.errors import LogLockedError
from segstore.log.files.partition_lock import check_no_writer
from tests.crash.kill_history import APPEND, tag_of, value_of
from tests.crash.kill_writers import APPENDER, ROLLER, Writer
from tests.crash.killed_process import MOMENT_SECONDS, PATIENCE_SECONDS, Note, Teller, Victim

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

OPEN, CLOSE, MAINTAIN, CREATE, DELETE = b"P", b"C", b"M", b"N", b"X"
KEPT, SHORT = "kept", "short"
PROCESSES = 2
FEW_KILLS = 20
SETTINGS = {
    "internal_segment_bytes": 4000,
    "index_interval_bytes": 300,
    "segment_ms": None,
    "file_delete_delay_ms": 5,
    "durability": "none",  # a kill loses nothing that the kernel has
}


class Partition:
    """What is known of one partition: its records, and the process that has it open."""

    def __init__(self, topic: str, number: int, path: Path) -> None:
        self.topic = topic
        self.number = number
        self.path = path / f"{topic}-{number}"
        self.begun: set[tuple[int, int]] = set()
        self.acked: set[tuple[int, int]] = set()
        self.found: set[tuple[int, int]] = set()

    def take(self, note: Note) -> None:
        rows = {(note.first + i, note.third) for i in range(note.second)}
        self.begun |= rows
        self.acked |= rows if note.is_done else set()

    def check_records(self, logs: segstore.LogManager) -> None:
        """Compare what a reader finds with what was acknowledged before."""
        before = {*self.acked}
        log = logs.log(self.topic, self.number)
        log.refresh()
        rows = log.scan().tuples()
        start = log.log_start_offset
        assert self.topic == SHORT or start == 0
        found = {(row[0], tag_of(row[3])) for row in rows}
        assert [row[0] for row in rows] == [*range(start, start + len(rows))]
        assert {one for one in before if one[0] >= start} <= found, self.path
        assert all(value_of(tag_of(row[3]), row[0]) == row[3] for row in rows)
        self.found = found

    def is_locked(self) -> bool:
        """Whether a process has it open for writing."""
        try:
            check_no_writer(str(self.path))
        except LogLockedError:
            return True
        return False


class Running(NamedTuple):
    """A process, and the partitions that it surely has open, and those that it may have."""

    victim: Victim
    has: set[int]
    may_have: set[int]


def test_processes_that_share_a_directory(tmp_path: Path, chooser: random.Random, kills: int):
    """[DUR-65] Nothing is lost, nothing is there twice, and no lock has a false owner."""
    count = 48 if kills > FEW_KILLS else 6
    with segstore.open_dir(tmp_path, shared=True, **SETTINGS) as logs:
        logs.create_topic(KEPT, count)
        logs.create_topic(SHORT, 2, config={"retention.bytes": 6000})
    names = [*((KEPT, n) for n in range(count)), *((SHORT, n) for n in range(2))]
    scene = Scene([Partition(*name, tmp_path) for name in names])
    for kill in range(kills):
        while len(scene.running) < PROCESSES:
            work = write(tmp_path, scene.partitions, chooser.getrandbits(40))
            scene.running.append(Running(Victim(work), set(), set()))
        for one in scene.running:
            one.victim.wait(PATIENCE_SECONDS, until_notes=(1, 3, 30)[kill % 3])
            one.victim.wait(5 * MOMENT_SECONDS * chooser.random())
        is_for_all = kill % 8 == 7 or kill == kills - 1
        for one in [*scene.running] if is_for_all else [chooser.choice(scene.running)]:
            scene.take_notes(one, one.victim.kill())
            scene.running.remove(one)
        scene.check_locks()
        with segstore.open_dir(tmp_path, read_only=True) as logs:
            scene.check(logs)
        if is_for_all:
            check_after_recovery(tmp_path, scene)
    found = sum(len(one.found) for one in scene.partitions)
    print(f"{kills} kills, {found} records in {len(names)} partitions, {scene.steps}")
    assert found


class Scene:
    """The partitions, the processes that are alive, and the topics that they have made."""

    def __init__(self, partitions: list[Partition]) -> None:
        self.partitions = partitions
        self.running: list[Running] = []
        self.made: set[int] = set()
        self.may_be_deleted: set[int] = set()
        self.steps: dict[bytes, int] = {}

    def take_notes(self, running: Running, notes: list[Note]) -> None:
        for note in notes:
            if note.is_done:
                self.steps[note.step] = self.steps.get(note.step, 0) + 1
            if note.step == APPEND:
                self.partitions[note.where].take(note)
            elif note.step == OPEN:
                running.may_have.add(note.where)
                if note.is_done:
                    running.has.add(note.where)
            elif note.step == CLOSE:
                running.has.discard(note.where)
                if note.is_done:
                    running.may_have.discard(note.where)
            elif note.step == CREATE and note.is_done:
                self.made.add(note.first)
            elif note.step == DELETE:
                self.may_be_deleted.add(note.first)

    def check_locks(self) -> None:
        """Each partition is locked while a process has it open, and by no process that is dead."""
        for one in self.running:
            self.take_notes(one, one.victim.told())
        has = set().union(*(one.has for one in self.running))
        may_have = set().union(*(one.may_have for one in self.running))
        locked = {n for n, one in enumerate(self.partitions) if one.is_locked()}
        opened, closed = set[int](), set[int]()  # since then
        for one in self.running:
            notes = one.victim.told()
            opened |= {note.where for note in notes if note.step == OPEN}
            closed |= {note.where for note in notes if note.step == CLOSE}
            self.take_notes(one, notes)
        assert has - closed <= locked
        # a pass of the maintenance has those open for a moment that have a limit
        unexpected = locked - may_have - opened
        assert not {n for n in unexpected if self.partitions[n].topic == KEPT}

    def check(self, logs: segstore.LogManager) -> None:
        made, there = {*self.made}, {*logs.topics()}
        for one in self.partitions:
            one.check_records(logs)
        for one in self.running:  # what it has begun to delete may be gone
            self.take_notes(one, one.victim.told())
        if not self.running:  # all that was begun is known
            assert all(one.found <= one.begun for one in self.partitions)
        assert {f"new-{one}" for one in made - self.may_be_deleted} <= there


def check_after_recovery(path: Path, scene: Scene) -> None:
    """Open all for writing: the records stay, and what is half made or deleted goes."""
    with segstore.open_dir(path, shared=True, **SETTINGS) as logs:
        for one in scene.partitions:
            log = logs.log_to_write(one.topic, one.number)
            assert log.verify().ok, str(log.verify())
            one.check_records(logs)
        made = {name: numbers for name, numbers in logs.topics().items() if name[:4] == "new-"}
        assert all(numbers == [0, 1] for numbers in made.values())


def write(path: Path, partitions: list[Partition], seed: int) -> Callable[[Teller], None]:
    """Append here and there, give partitions back, maintain, make and delete topics."""

    def work(tell: Teller) -> None:
        chooser, turn = random.Random(seed), 0
        while True:
            with segstore.open_dir(path, shared=True, **SETTINGS) as logs:
                for _ in range(60):
                    turn += 1
                    step = chooser.choices([APPEND, CLOSE, MAINTAIN, CREATE], [60, 25, 2, 2])[0]
                    if step == MAINTAIN:
                        logs.maintain(now=time.time_ns() // 1_000_000 + 10**6 * turn)
                        tell.done(MAINTAIN)
                    elif step == CREATE:
                        make_and_delete(logs, tell, seed + turn)
                    else:
                        where = chooser.randrange(len(partitions))
                        take_turn(logs, partitions[where], tell.at(where), seed + turn, step)
                for where in range(len(partitions)):  # the close gives all back
                    tell.at(where).begin(CLOSE)
            for where in range(len(partitions)):
                tell.at(where).done(CLOSE)

    return work


def take_turn(
    logs: segstore.LogManager, partition: Partition, tell: Teller, seed: int, step: bytes
) -> None:
    name = partition.topic, partition.number
    if step == CLOSE:
        tell.begin(CLOSE)
        logs.close_log(*name)
        tell.done(CLOSE)
        return
    tell.begin(OPEN)
    try:
        log = logs.log_to_write(*name)
    except LogLockedError:
        tell.done(CLOSE)
        return
    tell.done(OPEN)
    Writer(log, tell, seed).take_steps(ROLLER if seed % 3 else APPENDER, 4)


def make_and_delete(logs: segstore.LogManager, tell: Teller, number: int) -> None:
    logs.create_topic(f"new-{number}", 2)
    tell.done(CREATE, number)
    if number % 4:
        tell.begin(DELETE, number)
        with suppress(LogLockedError):  # the other process looks after its partitions now
            logs.delete_topic(f"new-{number}")
