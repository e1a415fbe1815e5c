"""Managers that end without a clean stop."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from segstore import LogManager


def close_logs_quietly(manager: LogManager) -> None:
    """End all open logs of a manager without a write, as a kill does."""
    for directory in manager._directories:
        for log in directory.logs.by_name.values():
            log.close_quietly()


def abandon(manager: LogManager) -> None:
    """Leave everything as a kill does, and let go of locks and descriptors."""
    close_logs_quietly(manager)
    manager._release()
