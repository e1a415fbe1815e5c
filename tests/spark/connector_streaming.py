"""What Spark's own Kafka connector did in streams over the golden directories."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from tests.spark.connector_answers import read_answers

if TYPE_CHECKING:
    from pathlib import Path

MADE_BY_HAND = (
    "Spark does not tell a source in Python where its checkpoint is, so a file of initial "
    "offsets made by hand is not found; a start that is looked up again is the same"
)
NOTHING_TO_READ = (
    "Spark runs the first batch of a source in Python also where there is nothing to read from"
)
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
        """Why the answer is deliberately another one, and not compared; None = it is compared."""
        checkpoint = self.runs[0].get("checkpoint_in", {})
        if "sources/0/0" in checkpoint and "commits/0" not in checkpoint:
            return MADE_BY_HAND
        return NOTHING_TO_READ if all(map(_has_nothing_to_read, self.runs)) else None

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

    def options_for(self, data: Path, run: dict[str, Any]) -> dict[str, str]:
        """The options of *run*, with the log directory *data* in the place of the broker."""
        options = {k: v for k, v in run["options"].items() if k != "kafka.bootstrap.servers"}
        return {**options, "path": str(data), "connectorCompatible": "true"}


def _has_nothing_to_read(run: dict[str, Any]) -> bool:
    """Whether the run ended well without knowing a single partition."""
    ends = [progress["source"]["endOffset"] for progress in run.get("progress", ())]
    return not run.get("batches") and run.get("error") is None and not any(ends)


@cache
def streams(folder: str | None) -> tuple[Stream, ...]:
    """Every recorded stream."""
    return tuple(Stream(**line) for line in read_answers(folder, "streaming"))
