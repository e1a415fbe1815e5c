"""Kills where several processes, logs or threads are at work: who is left sees nothing torn.

[DUR-1..DUR-3, DUR-15, DUR-65, DUR-75..DUR-81]
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore.errors import LogLockedError, LogNotFoundError, NotALogError
from tests.crash.kill_history import APPEND, FULL_BYTES, KillHistory, fresh_logs, tag_of, value_of
from tests.crash.kill_writers import ALL, APPENDER, ROLLER, SETTINGS, Writer, write_on
from tests.crash.killed_process import (
    MOMENT_SECONDS,
    PATIENCE_SECONDS,
    Note,
    Teller,
    Victim,
    run_until_killed,
)

if TYPE_CHECKING:
    import random
    from collections.abc import Callable
    from pathlib import Path

    from segstore import LogManager

CREATE, SEEN = b"C", b"Z"
PARTITIONS = 3
CONTENDERS = 3
THREADS = 4
POLL_SECONDS = 0.0005


def test_many_logs_of_one_killed_manager(tmp_path: Path, chooser: random.Random, kills: int):
    """[DUR-1..DUR-5] Several partitions change in turn; topics that were made are there."""
    with segstore.open_dir(tmp_path / "logs") as manager:
        manager.create_topic("topic", PARTITIONS)
    histories = [KillHistory() for _ in range(PARTITIONS)]
    created: set[str] = set()
    for kill in range(kills):
        notes = run_until_killed(
            manage(tmp_path / "logs", chooser.getrandbits(40), len(created)), chooser, kill
        )
        for partition, history in enumerate(histories):
            mine = [one for one in notes if one.where == partition and one.step != CREATE]
            history.take(mine)
        created |= {f"new-{one.first}" for one in notes if one.step == CREATE and one.is_done}
        if kill % 3 == 0:
            continue
        with segstore.open_dir(tmp_path / "logs", **SETTINGS) as manager:
            check_manager(manager, histories, created)


def check_manager(manager: LogManager, histories: list[KillHistory], created: set[str]) -> None:
    for partition, history in enumerate(histories):
        log = manager.log("topic", partition)
        history.adopt(log)
        assert log.verify().ok, str(log.verify())
    topics = manager.topics()
    assert all(topics[name] == [0, 1] for name in created)
    for partition in range(PARTITIONS):
        log = manager.log("topic", partition)
        if log.verify().size_bytes > FULL_BYTES:
            log.truncate_fully_and_start_at(0)
            histories[partition] = KillHistory()


def manage(path: Path, seed: int, number: int) -> Callable[[Teller], None]:
    """Change one partition after the other; now and then a new topic, or a clean stop."""

    def work(tell: Teller) -> None:
        fresh = number
        while True:
            with segstore.open_dir(path, **SETTINGS) as manager:
                logs = [manager.log("topic", partition) for partition in range(PARTITIONS)]
                writers = [
                    Writer(log, tell.at(partition), seed) for partition, log in enumerate(logs)
                ]
                for turn in range(40):
                    writers[turn % PARTITIONS].take_steps(ALL, 3)
                while f"new-{fresh}" in manager.topics():
                    fresh += 1
                tell.begin(CREATE, fresh)
                manager.create_topic(f"new-{fresh}", 2)
                tell.done(CREATE, fresh)

    return work


def test_writers_that_wait_for_the_lock_of_a_killed_one(
    tmp_path: Path, chooser: random.Random, kills: int
):
    """[DUR-1, DUR-65] One writes at a time; whoever comes after a kill finds all of it."""
    logs = fresh_logs(tmp_path)
    path, _ = next(logs)
    acked, begun = set(), set()
    wrote = 0
    contenders: list[Victim] = []
    for kill in range(kills):
        while len(contenders) < CONTENDERS:
            contenders.append(Victim(contend(path, chooser.getrandbits(40))))
        for contender in contenders:
            contender.wait(MOMENT_SECONDS * chooser.random())
        is_last = kill == kills - 1 or kill % 8 == 7
        victims = contenders if is_last else [chooser.choice(contenders)]
        contenders = [one for one in contenders if one not in victims]
        for note in [note for victim in victims for note in victim.kill()]:
            rows = {(note.first + i, note.third) for i in range(note.second)}
            if note.step == APPEND:
                begun |= rows
                acked |= rows if note.is_done else set()
        if is_last:
            wrote += len(acked)
            if check_contended(path, acked, begun) > FULL_BYTES:
                path, _ = next(logs)
                acked, begun = set(), set()
    assert wrote


def check_contended(path: Path, acked: set[tuple[int, int]], begun: set[tuple[int, int]]) -> int:
    """Compare the offsets and writers of all records; returns the size in bytes."""
    with segstore.open(path, **SETTINGS) as log:
        rows = log.scan().tuples()
        report = log.verify()
    assert report.ok, str(report)
    assert [row[0] for row in rows] == list(range(len(rows)))
    found = {(row[0], tag_of(row[3])) for row in rows}
    assert acked <= found <= begun
    assert all(value_of(tag_of(row[3]), row[0]) == row[3] for row in rows)
    return report.size_bytes


def contend(path: Path, seed: int) -> Callable[[Teller], None]:
    """Try to be the writer; once it is, write a little, and let go in one way or another."""

    def work(tell: Teller) -> None:
        turn = 0
        while True:
            try:
                log = segstore.open(path, durability="none", **SETTINGS)
            except LogLockedError:
                time.sleep(POLL_SECONDS)
                continue
            turn += 1
            Writer(log, tell, seed + turn).take_steps(ROLLER, 8)
            log.close() if turn % 2 else log.close_quietly()

    return work


def test_threads_of_a_killed_writer(tmp_path: Path, chooser: random.Random, kills: int):
    """[DUR-15] Group commit: threads share syncs; acked records of each are there in its order."""
    path = tmp_path / "threads-0"
    for kill in range(kills):
        notes = run_until_killed(write_in_threads(path), chooser, kill)
        with segstore.open(path, **SETTINGS) as log:
            rows = [(key[0], int(value)) for _, _, key, value in log.scan().tuples()]
            log.delete_records(-1)
        assert len(set(rows)) == len(rows)
        assert {(note.where, note.first) for note in notes if note.is_done} <= set(rows)
        for thread in range(THREADS):
            numbers = [number for key, number in rows if key == thread]
            assert numbers == sorted(numbers)


def write_in_threads(path: Path) -> Callable[[Teller], None]:
    """Append numbers from several threads at once; a batch each, synced together."""

    def work(tell: Teller) -> None:
        log = segstore.open(path, durability="sync", **SETTINGS)

        def append(thread: int, tell: Teller) -> None:
            for number in range(10**9):
                log.append([(bytes([thread]), b"%d" % number)])
                tell.done(APPEND, number)

        threads = [
            threading.Thread(target=append, args=(thread, tell.at(thread)))
            for thread in range(THREADS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return work


@pytest.mark.parametrize("isolation", ["log_end", "durable"])
def test_what_another_process_read_stays(
    isolation: str, tmp_path: Path, chooser: random.Random, kills: int
):
    """[DUR-75, DUR-76, DUR-81] A reader beside the writers sees nothing that is not there later."""
    logs = fresh_logs(tmp_path)
    path, history = next(logs)
    reader = Victim(follow(path, isolation))
    read_count = 0
    for kill in itertools.count():
        if kill >= kills and (read_count or history.rows):  # the first ones may not have written
            break
        weights = chooser.choice([APPENDER, ROLLER])
        durability = chooser.choice(["none", "seconds=0.01", "sync"])
        history.take(
            run_until_killed(
                write_on(path, durability, chooser.getrandbits(40), weights), chooser, kill
            )
        )
        with segstore.open(path, **SETTINGS) as log:
            history.adopt(log)
            size = log.verify().size_bytes
        read_count += check_seen(reader.take_notes() if reader.wait(0.001) else [], history)
        if size > FULL_BYTES or chooser.random() < 0.2:
            read_count += check_seen(reader.kill(), history)
            if size > FULL_BYTES:
                path, history = next(logs)
            reader = Victim(follow(path, isolation))
    if not read_count:  # few kills, and a slow machine
        assert reader.wait(PATIENCE_SECONDS, until_notes=1)
    assert read_count + check_seen(reader.kill(), history) > 0


def check_seen(notes: list[Note], history: KillHistory) -> int:
    """Check what a reader told; returns how many records that were."""
    rows = dict(history.rows)
    for note in notes:
        assert rows.get(note.first) == value_of(note.second, note.first), note
    return len(notes)


def follow(path: Path, isolation: str) -> Callable[[Teller], None]:
    """Tell each record once, as it comes; the log may not be there yet."""

    def work(tell: Teller) -> None:
        parent = os.getppid()
        log = None
        while log is None:
            try:
                log = segstore.open(path, read_only=True)
            except (LogNotFoundError, NotALogError):
                time.sleep(POLL_SECONDS)
            assert os.getppid() == parent
        offset = 0
        while os.getppid() == parent:
            log.refresh()
            rows = log.scan(offset, isolation=isolation).tuples()
            for found, _, _, value in rows:
                tell.done(SEEN, found, tag_of(value))
            offset += len(rows)
            time.sleep(POLL_SECONDS)

    return work
