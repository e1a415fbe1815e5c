"""Fixtures of this folder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.log_kit import clock, new_log
from tests.small_disk import small_disk
from tests.unit.log.damaged_logs import build
from tests.vectors.vector_files import read_folder, vectors_folder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.unit.log.damaged_logs import LogDirectory

__all__ = ["clock", "new_log", "small_disk"]


@pytest.fixture
def vectors(pytestconfig: pytest.Config) -> Callable[[str], list[dict[str, Any]]]:
    """Return the vectors of one file, by name without suffix; skip where they are not to be had."""

    def load(stem: str) -> list[dict[str, Any]]:
        folder = vectors_folder(pytestconfig)
        if folder is None:
            pytest.skip("needs --vectors DIR")
        return read_folder(folder, stem)

    return load


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> LogDirectory:
    """A log that was not closed, nothing of it known to be synced; to be copied."""
    return build(tmp_path_factory.mktemp("crashed") / "orders-0")


@pytest.fixture
def log_directory(crashed: LogDirectory, tmp_path: Path) -> LogDirectory:
    return crashed.copy(tmp_path / "orders-0")
