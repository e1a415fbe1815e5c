"""Fixtures of this folder."""

import pytest

import segstore
from tests.kits.log_kit import clock, new_log

__all__ = ["clock", "new_log"]


@pytest.fixture
def manager(tmp_path):
    """Yield one of a topic with two partitions, both open, with a record in each."""
    with segstore.open_dir(tmp_path / "logs", durability="none") as manager:
        manager.create_topic("t", 2)
        for number in range(2):
            manager.append("t", [(b"key", b"value")], partition=number)
        yield manager
