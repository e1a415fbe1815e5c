"""What Spark's own Kafka connector did in streams over the golden directories."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from tests.spark.connector_answers import read_answers

if TYPE_CHECKING:
    from pathlib import Path

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


MIN_OFFSETS = (
    "availableNow reads all there is, there a rest below minOffsetsPerTrigger is left unread"
)


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

    @property
    def compatible_only(self) -> str | None:
        """Why a user gets the recorded answer only with ``connectorCompatible``; None = always."""
        limited = any(
            "minOffsetsPerTrigger" in run["options"] and "availableNow" in run["trigger"]
            for run in self.runs
        )
        return MIN_OFFSETS if limited else None

    @property
    def is_about_first_batch(self) -> bool:
        """Whether a limit of a run's first batch is what matters: none is read, or one again."""
        limits = [run["options"].get("maxOffsetsPerTrigger", "1") for run in self.runs]
        return any(limit == "0" or limit.startswith("-") for limit in limits) or any(
            "removed_before" in run for run in self.runs
        )

    def options_for(self, golden: Path, run: dict[str, Any]) -> dict[str, str]:
        """The options of *run*, with the case's directory in the place of the broker."""
        options = {k: v for k, v in run["options"].items() if k != "kafka.bootstrap.servers"}
        path = str(golden / self.case / "data")
        return {**options, "path": path, "connectorCompatible": "true"}


@cache
def streams(folder: str | None) -> tuple[Stream, ...]:
    """Every recorded stream."""
    return tuple(Stream(**line) for line in read_answers(folder, "streaming"))
