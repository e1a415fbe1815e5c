"""The core's own tests ask what a disk does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def tmp_path(disk_path: Path) -> Path:
    """A folder on the disk: the core is what reads and writes it."""
    return disk_path
