"""Fixtures of this folder."""

from tests.kits.log_kit import new_log

__all__ = ["new_log"]
