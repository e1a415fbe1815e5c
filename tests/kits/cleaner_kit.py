"""What stands in for parts of the cleaner in tests."""

from __future__ import annotations

from typing import Any

from segstore import _core


class SmallDestinations:
    """Stands in for `SegmentCleaner`: a destination takes few bytes."""

    def __init__(self, *arguments: Any) -> None:
        self._core = _core.SegmentCleaner(*arguments)

    def begin_pass(self, **how: int) -> None:
        self._core.begin_pass(**how, destination_bytes=300)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._core, name)
