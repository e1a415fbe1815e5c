"""Directories that a real broker wrote.

What is in a case, what the broker said about it, what is covered so far.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

CLEAN_STOP = "clean shutdown"
"""``stop`` of the cases whose directories must be read exactly."""

LEGACY = "legacy"
SCRIPT = "append"
RECOVERED = "_after_recovery"
"""Of the folder that a restarted broker left, which wrote ``records/`` while it ran."""
DUMPED_RECORD = re.compile(rb"^\| offset: (\d+) ", re.MULTILINE)
DECODERS = {
    "__consumer_offsets": ["--offsets-decoder"],
    "__transaction_state": ["--transaction-log-decoder"],
    "__cluster_metadata": ["--cluster-metadata-decoder"],
}


@dataclass(frozen=True)
class GoldenPartition:
    """One partition directory of one case."""

    case_directory: Path
    name: str
    suffix: str = ""
    """Of the folders: ``_continued`` is what a broker made of a legacy directory by appending."""

    @property
    def case(self) -> str:
        return self.case_directory.name

    @property
    def topic(self) -> str:
        return self.name.rpartition("-")[0]

    @property
    def data(self) -> Path:
        return self.case_directory / f"data{self.suffix}"

    @property
    def directory(self) -> Path:
        return self.data / self.name

    @property
    def dumps(self) -> Path:
        """Folder of the texts of kafka-dump-log."""
        return self.case_directory / f"dump{self.suffix}" / self.name

    @cached_property
    def hidden_offsets(self) -> list[int]:
        """Offsets of records that do not follow the one before them, as Kafka's dump shows them.

        The header of their batch counts them, and no reader sees them.
        """
        hidden, highest = [], -1
        for file in sorted(self.dumps.glob("*.log.txt")):
            for found in DUMPED_RECORD.finditer(file.read_bytes()):
                offset = int(found[1])
                if offset <= highest:
                    hidden.append(offset)
                highest = max(highest, offset)
        return hidden

    @property
    def expected(self) -> dict[str, Any]:
        """The files as Kafka's own classes described them."""
        described = self.description[f"expected_data{self.suffix}"]["partitions"]
        return described.get(self.name, {})

    @property
    def loaded(self) -> dict[str, Any]:
        """What Kafka's loader was given, and what it answered."""
        return self.description["expected_data_after_load"]["partitions"][self.name]

    @property
    def loaded_directory(self) -> Path:
        """As Kafka's loader left it."""
        return self.case_directory / "data_after_load" / self.name

    @property
    def was_clean(self) -> bool:
        """Whether the loader was told of a clean stop."""
        return bool(self.description["expected_data_after_load"]["last_shutdown_clean"])

    @property
    def broker(self) -> dict[str, Any] | None:
        """The offsets that the broker had, None where it was not asked."""
        return self.description[f"broker{self.suffix}"].get(self.name)

    @property
    def is_whole(self) -> bool:
        """Whether the broker, or the tool that built the directory, ended cleanly."""
        return self.description["stop"] == CLEAN_STOP or self.description["family"] == LEGACY

    @property
    def topic_configs(self) -> dict[str, str]:
        """Settings that the topic was given."""
        configs: dict[str, str] = self.description["topics"].get(self.topic, {}).get("configs", {})
        return configs

    @property
    def dump_options(self) -> list[str]:
        """Options of the case's dumps: contents, or the decoder of an internal topic."""
        return DECODERS.get(self.topic, ["--deep-iteration", "--print-data-log"])

    @cached_property
    def description(self) -> dict[str, Any]:
        return json.loads((self.case_directory / "case.json").read_text())

    def setting(self, topic_key: str, broker_key: str, default: int) -> int:
        """A topic setting as the broker used it.

        The topic's own, else the broker's, else Kafka's default.
        """
        return int(
            self.topic_configs.get(
                topic_key, self.description["broker_configs"].get(broker_key, default)
            )
        )

    @property
    def records_file(self) -> Path:
        return self.case_directory / f"records{self.suffix}" / f"{self.name}.jsonl"

    @property
    def committed_records_file(self) -> Path:
        return self.case_directory / f"records{self.suffix}" / f"{self.name}.read_committed.jsonl"

    @cached_property
    def timestamp_answers(self) -> list[dict[str, Any]]:
        """ListOffsets answers of the broker, for both levels of isolation."""
        return self._answers("offsets_for_times.json")

    @cached_property
    def fetches(self) -> list[dict[str, Any]]:
        """Fetch answers of the broker, those with records."""
        return [fetch for fetch in self._answers("fetches.json") if fetch["error"] == "NONE"]

    @cached_property
    def epoch_end_offsets(self) -> list[dict[str, Any]]:
        """OffsetsForLeaderEpoch answers of the broker, those without an error."""
        return [one for one in self._answers("epoch_end_offsets.json") if one["error"] == "NONE"]

    def _answers(self, name: str) -> list[dict[str, Any]]:
        file = self.case_directory / f"records{self.suffix.removeprefix(RECOVERED)}" / name
        return json.loads(file.read_text()).get(self.name, []) if file.exists() else []

    @cached_property
    def leader_epoch_starts(self) -> list[int]:
        """First offsets of the leader epochs: where the broker was restarted."""
        return [start for _, start in self.expected.get("leader_epochs", [])]

    @cached_property
    def epoch_begun_after_the_answers(self) -> int | None:
        """The epoch of a restart that came after ``records/`` was read, when there was one.

        It begins at the log end; the directory knows it, the broker that was asked did not.
        """
        epochs = self.expected.get("leader_epochs", [])
        restarted_later = (
            "restarted once after records/ had been read" in self.description["description"]
        )
        if restarted_later and epochs and epochs[-1][1] == self.expected["log_end_offset"]:
            return int(epochs[-1][0])
        return None

    def __str__(self) -> str:
        return f"{self.case}{self.suffix}/{self.name}"


def whole_partitions(root: Path) -> list[GoldenPartition]:
    """Return the partitions under *root* that must be read exactly; others have to be loaded."""
    partitions: list[GoldenPartition] = []
    for case_file in sorted(root.glob("*/case.json")):
        directory = case_file.parent
        case = json.loads(case_file.read_text())
        if case["family"] != LEGACY and case["stop"] != CLEAN_STOP:
            continue
        for suffix in ("", "_continued") if case["family"] == LEGACY else ("",):
            partitions += [
                GoldenPartition(directory, entry.name, suffix)
                for entry in sorted((directory / f"data{suffix}").iterdir())
                if entry.is_dir() and not entry.name.endswith("-delete")
            ]
    return partitions


def served_partitions(root: Path) -> list[GoldenPartition]:
    """Return the partitions under *root* whose broker answered requests, as it left them."""
    partitions: list[GoldenPartition] = []
    for case_file in sorted(root.glob("*/case.json")):
        directory = case_file.parent
        case = json.loads(case_file.read_text())
        suffixes = [""] if case["stop"] == CLEAN_STOP else [RECOVERED]
        suffixes += ["_continued"] if case["family"] == LEGACY else []
        partitions += [
            GoldenPartition(directory, entry.name, suffix)
            for suffix in suffixes
            for entry in sorted((directory / f"data{suffix}").iterdir())
            if entry.is_dir() and not entry.name.endswith("-delete")
        ]
    return partitions


def loaded_partitions(root: Path) -> list[GoldenPartition]:
    """Return the partitions that Kafka's loader was run on, damaged ones for the most part."""
    return [
        GoldenPartition(case_file.parent, name)
        for case_file in sorted(root.glob("*/case.json"))
        for name in json.loads(case_file.read_text())
        .get("expected_data_after_load", {})
        .get("partitions", ())
    ]


def compacted_partitions(root: Path) -> list[GoldenPartition]:
    """Partitions that a broker compacted, and whose records it served then, however it stopped."""
    return [
        one
        for one in (*whole_partitions(root), *loaded_partitions(root))
        if "compact" in one.topic_configs.get("cleanup.policy", "") and one.records_file.exists()
    ]


def script_cases(root: Path) -> list[Path]:
    """Return the cases under *root* whose requests, sent again in order, give their files."""
    return [
        case_file.parent
        for case_file in sorted(root.glob("*/case.json"))
        if json.loads(case_file.read_text())["family"] == SCRIPT
    ]


def dumped_partitions(root: Path) -> list[GoldenPartition]:
    """Return every partition that kafka-dump-log was run on, damaged and recovered ones too."""
    return [
        GoldenPartition(dumps.parent, folder.name, dumps.name.removeprefix("dump"))
        for dumps in sorted(root.glob("*/dump*"))
        for folder in sorted(dumps.iterdir())
        if folder.is_dir()
    ]
