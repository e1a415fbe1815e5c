"""A simulated disk in place of the system's directories, for modules that open these by path."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING
from unittest import mock

from tests.crash.manual_scheduler import ManualScheduler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

    from segstore import UnifiedLog
    from segstore._core import SimulatedDisk
    from segstore.log.log_environment import LogEnvironment


@contextlib.contextmanager
def directories_on(
    disk: SimulatedDisk,
    calls: dict[ModuleType, tuple[Callable[..., object], ...]],
    opens: tuple[ModuleType, Callable[..., UnifiedLog]],
) -> Iterator[None]:
    """Let modules find *disk*.

    Parameters
    ----------
    disk : SimulatedDisk
        Where everything lies.
    calls : dict
        By module, what it calls that takes an ``environment``.
    opens : tuple
        A module, and the function by which it opens logs.
    """
    module, open_log = opens

    def open_there(path: str, options: object, log_environment: LogEnvironment) -> UnifiedLog:
        there = log_environment._replace(environment=disk, background=lambda *_: ManualScheduler())
        return open_log(path, options, there)

    with contextlib.ExitStack() as stack:
        for caller, functions in calls.items():
            for function in functions:
                there = partial(function, environment=disk)
                stack.enter_context(mock.patch.object(caller, function.__name__, there))
        stack.enter_context(mock.patch.object(module, open_log.__name__, open_there))
        yield
