"""What Spark's own Kafka connector did in streams over the golden directories."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

RECORDED = Path(__file__).parent / "connector_streaming.jsonl.gz"

OTHERWISE = {
    "stream-from-hand-made-batch-planned-only": (
        "Spark does not tell a source in Python where its checkpoint is, so a file of initial "
        "offsets made by hand is not found; a start that is looked up again is the same"
    ),
    "stream-pattern-none": (
        "Spark runs the first batch of a source in Python also where there is nothing to read from"
    ),
}
"""Entries that are deliberately answered otherwise (id without the case), and why."""


@dataclass(frozen=True)
class Stream:
    """One streaming query, run once or several times with one checkpoint."""

    id: str
    case: str
    runs: list[dict[str, Any]]

    @property
    def left_out(self) -> str | None:
        """Why the answer is not compared; None = it is."""
        return OTHERWISE.get(self.id.removeprefix(f"{self.case}/"))

    def options_for(self, golden: Path, run: dict[str, Any]) -> dict[str, str]:
        """The options of *run*, with the case's directory in the place of the broker."""
        options = {k: v for k, v in run["options"].items() if k != "kafka.bootstrap.servers"}
        return {**options, "path": str(golden / self.case / "data")}


@cache
def streams() -> tuple[Stream, ...]:
    """Every recorded stream."""
    with gzip.open(RECORDED, "rt", encoding="utf-8") as lines:
        return tuple(Stream(**json.loads(line)) for line in lines)
