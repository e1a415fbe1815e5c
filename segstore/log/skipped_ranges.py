"""A warning of what a query has left out as damaged."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from segstore.log.recovery.salvage_report import LostRange

_NAMED: Final = 3
"""So many of the ranges that are left out a warning names."""


def warn_of_skipped(ranges: Iterable[LostRange]) -> None:
    """Warn of what a query has left out whose result has no `LogScan.skipped`."""
    found = [*ranges]
    if found:
        count = "1 range" if len(found) == 1 else f"{len(found)} ranges"
        warnings.warn(
            f"the query leaves out {count} of offsets: {'; '.join(map(str, found[:_NAMED]))};"
            " after a pass over a scan, its `skipped` lists them all",
            stacklevel=3,
        )
