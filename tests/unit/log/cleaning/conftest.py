"""Fixtures of this folder."""

from __future__ import annotations

from tests.kits.log_kit import clock, new_log, scheduler

__all__ = ["clock", "new_log", "scheduler"]
