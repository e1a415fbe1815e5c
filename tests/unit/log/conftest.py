"""Fixtures of this folder."""

from tests.log_kit import clock, new_log
from tests.small_disk import small_disk

__all__ = ["clock", "new_log", "small_disk"]
