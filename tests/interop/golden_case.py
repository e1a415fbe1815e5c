"""Directories that a real broker wrote.

What is in a case, what the broker said about it, what is covered so far.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

CLEAN_STOP = "clean shutdown"
"""``stop`` of the cases whose directories must be read exactly."""

NOT_YET_COVERED_FAMILIES = {
    "legacy": "legacy message formats",
    "unclean": "outcomes of recovery",
}
NOT_YET_COVERED_CASES = {"foreign-encoders": "foreign encoders"}


@dataclass(frozen=True)
class GoldenPartition:
    """One partition directory of one case."""

    case_directory: Path
    name: str

    @property
    def case(self) -> str:
        return self.case_directory.name

    @property
    def topic(self) -> str:
        return self.name.rpartition("-")[0]

    @property
    def data(self) -> Path:
        return self.case_directory / "data"

    @property
    def directory(self) -> Path:
        return self.data / self.name

    @property
    def is_internal(self) -> bool:
        """Internal topics are dumped with decoders, a later issue."""
        return self.topic.startswith("__")

    @cached_property
    def description(self) -> dict[str, Any]:
        return json.loads((self.case_directory / "case.json").read_text())

    def setting(self, topic_key: str, broker_key: str, default: int) -> int:
        """A topic setting as the broker used it.

        The topic's own, else the broker's, else Kafka's default.
        """
        topic = self.description["topics"].get(self.topic, {}).get("configs", {})
        return int(
            topic.get(topic_key, self.description["broker_configs"].get(broker_key, default))
        )

    @property
    def records_file(self) -> Path:
        return self.case_directory / "records" / f"{self.name}.jsonl"

    @cached_property
    def timestamp_answers(self) -> list[dict[str, Any]]:
        """ListOffsets answers of the broker; those under read_committed are a later issue."""
        file = self.case_directory / "records" / "offsets_for_times.json"
        answers = json.loads(file.read_text()).get(self.name, []) if file.exists() else []
        return [answer for answer in answers if answer["isolation"] == "read_uncommitted"]

    @cached_property
    def leader_epoch_starts(self) -> list[int]:
        """First offsets of the leader epochs: where the broker was restarted."""
        expected = self.description["expected_data"]["partitions"].get(self.name, {})
        return [start for _, start in expected.get("leader_epochs", [])]

    @cached_property
    def epoch_begun_after_the_answers(self) -> int | None:
        """The epoch of a restart that came after ``records/`` was read, when there was one.

        It begins at the log end; the directory knows it, the broker that was asked did not.
        """
        expected = self.description["expected_data"]["partitions"].get(self.name, {})
        epochs = expected.get("leader_epochs", [])
        restarted_later = (
            "restarted once after records/ had been read" in self.description["description"]
        )
        if restarted_later and epochs and epochs[-1][1] == expected["log_end_offset"]:
            return int(epochs[-1][0])
        return None

    def __str__(self) -> str:
        return f"{self.case}/{self.name}"


def covered_partitions(root: Path) -> tuple[list[GoldenPartition], list[str]]:
    """Return the partitions under *root* that must be equal.

    Also a line for each case that a later issue covers.
    """
    partitions: list[GoldenPartition] = []
    later: list[str] = []
    for case_file in sorted(root.glob("*/case.json")):
        directory = case_file.parent
        case = json.loads(case_file.read_text())
        reason = NOT_YET_COVERED_CASES.get(directory.name) or NOT_YET_COVERED_FAMILIES.get(
            case["family"]
        )
        if reason is None and case["stop"] != CLEAN_STOP:
            reason = NOT_YET_COVERED_FAMILIES["unclean"]
        if reason is not None:
            later.append(f"{directory.name}: {reason}")
            continue
        partitions += [
            GoldenPartition(directory, entry.name)
            for entry in sorted((directory / "data").iterdir())
            if entry.is_dir() and not entry.name.endswith("-delete")
        ]
    return partitions, later
