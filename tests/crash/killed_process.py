"""A process that is killed with SIGKILL at a random moment, and what it told until then.

A child of this process, which is warm: a cycle costs milliseconds. It tells by a pipe, before each
step what it begins, and behind it that this is done. What was told is not lost: the kernel has it.
"""

from __future__ import annotations

import os
import select
import signal
import struct
import time
import traceback
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

NOTE = struct.Struct(">cB?qqq")
OPENED = b"o"
MOMENT_SECONDS = 0.01
PATIENCE_SECONDS = 60


class Note(NamedTuple):
    """What a child tells: a step, where, whether that is done; numbers of the step's own."""

    step: bytes
    where: int
    is_done: bool
    first: int
    second: int
    third: int


class Teller:
    """The child's end; its threads may share it, for a note is one small write."""

    def __init__(self, pipe: int, where: int = 0) -> None:
        self._pipe = pipe
        self._where = where

    def at(self, where: int) -> Teller:
        """Return one for another log, or another thread."""
        return Teller(self._pipe, where)

    def begin(self, step: bytes, first: int = 0, second: int = 0, third: int = 0) -> None:
        """Tell what comes now: after a kill it may have happened, or not."""
        os.write(self._pipe, NOTE.pack(step, self._where, False, first, second, third))

    def done(self, step: bytes, first: int = 0, second: int = 0, third: int = 0) -> None:
        """Acknowledge: it must be there from now on."""
        os.write(self._pipe, NOTE.pack(step, self._where, True, first, second, third))


class Victim:
    """A forked child at *work*, until `kill`."""

    def __init__(self, work: Callable[[Teller], None]) -> None:
        self._told, child_end = os.pipe()
        self._received = bytearray()
        self._process = os.fork()
        if self._process == 0:  # the child never returns from here
            os.close(self._told)
            _work_to_the_end(work, child_end)
        os.close(child_end)

    def wait(self, seconds: float, *, until_notes: int = 10**9) -> bool:
        """Collect notes for that long, or until there are so many; True if there are any."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            ready, _, _ = select.select([self._told], [], [], left)
            if ready:
                data = os.read(self._told, 65536)
                if not data:
                    break
                self._received += data
            if len(self._received) >= until_notes * NOTE.size:
                break
        return bool(self._received)

    def take_notes(self) -> list[Note]:
        """Return what it told since the last time."""
        whole = len(self._received) // NOTE.size * NOTE.size
        taken = bytes(self._received[:whole])
        del self._received[:whole]
        return [Note(*one) for one in NOTE.iter_unpack(taken)]

    def told(self) -> list[Note]:
        """Return what it told until this call, and since the last time."""
        while select.select([self._told], [], [], 0)[0]:
            data = os.read(self._told, 65536)
            if not data:
                break
            self._received += data
        return self.take_notes()

    def kill(self) -> list[Note]:
        """End it now; returns what it told."""
        os.kill(self._process, signal.SIGKILL)
        while data := os.read(self._told, 65536):
            self._received += data
        os.close(self._told)
        _, status = os.waitpid(self._process, 0)
        assert os.WIFSIGNALED(status), f"the child ended by itself with status {status}"
        return self.take_notes()


def run_until_killed(
    work: Callable[[Teller], None], chooser: random.Random, number: int
) -> list[Note]:
    """Let a child work and kill it within 10 ms: of its fork, its first note, or its third.

    By turns, as *number* says: on a slow machine, too, some are killed among their steps, and not
    all of them while they open and recover.
    """
    victim = Victim(work)
    until_notes = (0, 1, 3)[number % 3]
    if until_notes:
        assert victim.wait(PATIENCE_SECONDS, until_notes=until_notes), "it told nothing"
    victim.wait(MOMENT_SECONDS * chooser.random())
    return victim.kill()


def _work_to_the_end(work: Callable[[Teller], None], pipe: int) -> None:
    status = 1
    try:
        work(Teller(pipe))
        status = 0
    except BaseException:  # noqa: BLE001 - told here: nobody else will hear of it
        traceback.print_exc()
    finally:
        os._exit(status)
