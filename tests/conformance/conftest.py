"""Fixtures of this folder."""

from tests.kits.log_kit import clock, new_log, scheduler

__all__ = ["clock", "new_log", "scheduler"]
