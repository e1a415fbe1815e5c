"""Asking a function in a fork of this process, which may crash there or never end."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import traceback
from resource import RLIMIT_CPU, setrlimit
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

WAITS = 10  # so many times the seconds of CPU on the clock, on a machine that does other things
_MOST_BYTES = 65536
_TELLS, _FAILS = b"=", b"!"


def told_by_fork(function: Callable[[], str], cpu_seconds: int) -> str | None:
    """Return what *function* returns in a fork; None when that crashes, or takes too long.

    Raises
    ------
    RuntimeError
        It raised something.
    """
    answer, end = os.pipe()
    child = os.fork()
    if child == 0:
        _tell(function, cpu_seconds, end)
    os.close(end)
    try:
        there, _, _ = select.select([answer], [], [], WAITS * cpu_seconds)
        told = os.read(answer, _MOST_BYTES) if there else b""
    finally:
        os.close(answer)
        with contextlib.suppress(ProcessLookupError):  # and all that it has started
            os.killpg(child, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):  # before it has a group of its own
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    if told.startswith(_FAILS):
        raise RuntimeError(told[1:].decode())
    return told[1:].decode() if told else None


def _tell(function: Callable[[], str], cpu_seconds: int, end: int) -> None:
    """Do not return."""
    try:
        os.setsid()
        setrlimit(RLIMIT_CPU, (cpu_seconds, cpu_seconds))
        nowhere = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nowhere, descriptor)
        os.write(end, _TELLS + function().encode())
    except BaseException:  # noqa: BLE001 - told to who asked
        os.write(end, _FAILS + traceback.format_exc().encode()[-_MOST_BYTES + 1 :])
    finally:
        os._exit(0)
