"""Fixtures of this folder."""

from tests.log_kit import clock, new_log

__all__ = ["clock", "new_log"]
