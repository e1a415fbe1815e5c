"""Logs that our cleaner has cleaned, loaded and cleaned on by Kafka's own classes [D1, CLN-*]."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any, Final

import segstore
from segstore.log.cleaning.cleaner import Cleaner
from segstore.log.files.checkpoints import (
    LOG_START_OFFSET_CHECKPOINT,
    LOG_STATE,
    RECOVERY_POINT_CHECKPOINT,
)
from segstore.log.files.profile import Profile
from tests.interop.kafka_loader import KafkaLoader
from tests.interop.random_script import RandomScript, checkpointed
from tests.interop.test_kafka_loads_ours import digest_of_records

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BYTES_OF_AN_ENTRY: Final = 24


class RandomCleanedScript(RandomScript):
    """The like for a log of few keys, of which passes of the cleaner are operations too.

    Attributes
    ----------
    first_dirty_offset : int
        Where the last pass ended.
    passes : int
        How many there were.
    cleaned_on : bool
        Whether Kafka found something dirty at the end.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        super().__init__(folder, seed)
        pick = self._rng.choice
        self.ending = pick(("closed", "killed"))
        self.settings["segment_index_bytes"] = 4096
        self.settings["cleanup_policy"] = pick(("compact", "compact,delete"))
        self.settings["delete_retention_ms"] = pick((0, 1_000, 60_000))
        self.first_dirty_offset = 0
        self.passes = 0
        self.cleaned_on = False
        self._decided_offset = 0
        self._keys = pick((2, 5, 12, 200))

    @property
    def now_ms(self) -> int:
        """The time of passes: not long after the last record."""
        return self._time + 5_000

    @property
    def cleaner_settings(self) -> dict[str, int]:
        """Memory of a cleaner by chance."""
        pick = self._rng.choice
        return {
            "offset_map_bytes": BYTES_OF_AN_ENTRY * pick((6, 12, 40, 1000)),
            "io_buffer_bytes": pick((64, 200, 1000, 65_536)),
        }

    def make_dirty(self, log: segstore.UnifiedLog) -> str:
        """Let there be something to clean; returns the digest of all records."""
        for _ in range(8):
            self._end_transaction()
        self._append()
        self._roll()
        return digest_of_records(log)

    def _operations(self) -> dict[Callable[[], object], int]:
        return {**super()._operations(), self._clean: 10}

    def _clean(self) -> None:
        cleaner = Cleaner(profile=self._rng.choice([*Profile]), **self.cleaner_settings)
        self._clamp()
        self._decided_offset = self._log.last_stable_offset
        stats = self._log.clean(cleaner, self.first_dirty_offset, now_ms=self.now_ms)
        self.first_dirty_offset = stats.end_offset
        self.passes += 1

    def _clamp(self) -> None:
        """A log that was truncated or whose start moved is dirty from another offset on."""
        first, end = self._log.log_start_offset, self._log.log_end_offset
        self.first_dirty_offset = min(max(self.first_dirty_offset, first), end)

    def _truncate(self) -> None:
        """Not what a pass went by: consumers saw it, and a broker truncates none of that."""
        end = self._log.log_end_offset
        if self._decided_offset < end:
            self._log.truncate_to(max(self._decided_offset, end - self._rng.choice((1, 5, 20))))

    def _truncate_fully(self) -> None:
        super()._truncate_fully()
        self._clamp()

    def _delete_records(self) -> None:
        if "delete" in self.settings["cleanup_policy"]:
            first, end = self._log.log_start_offset, self._log.last_stable_offset
            self._log.delete_records(self._rng.randint(first, end))
            self._clamp()

    def _record(self) -> segstore.Record:
        made = super()._record()
        return segstore.Record(
            key=b"k%d" % self._rng.randrange(self._keys),
            value=made.value,
            headers=made.headers,
            timestamp=made.timestamp,
        )


def load_and_clean(kafka: KafkaLoader, script: RandomCleanedScript) -> None:
    """Kafka loads what the script wrote and cleans it on; segstore does the same with a copy."""
    script.directory.parent.mkdir()
    written = script.run(script.make_dirty)
    directory = script.directory
    copy = directory.parent / "copy" / directory.name
    shutil.copytree(directory, copy)
    memory = script.cleaner_settings

    found = kafka.load(
        directory,
        clean=script.is_clean,
        log_start_offset=checkpointed(directory, LOG_START_OFFSET_CHECKPOINT),
        recovery_point=checkpointed(directory, RECOVERY_POINT_CHECKPOINT),
        config=script.kafka_config,
        cleaning={"first_dirty_offset": script.first_dirty_offset, "now": script.now_ms, **memory},
    )

    told = found["cleaned"]
    settings: dict[str, Any] = {"durability": "none", "segment_ms": None, **script.settings}
    with segstore.open(copy, **settings) as log:
        loaded = digest_of_records(log)
        if "end_offset" in told:
            cleaner = Cleaner(profile=Profile.KAFKA, **memory)
            stats = log.clean(cleaner, script.first_dirty_offset, now_ms=script.now_ms)
            assert stats.end_offset == told["end_offset"]
        cleaned = digest_of_records(log)
    assert found["records_sha256"] == loaded == written
    assert told["records_sha256"] == cleaned
    script.cleaned_on = "end_offset" in told
    (directory / LOG_STATE).unlink(missing_ok=True)  # it says where there was no gap before
    with segstore.open(directory, **settings) as log:
        assert digest_of_records(log) == told["records_sha256"]


def test_kafka_cleans_on_what_our_cleaner_has_cleaned(
    tmp_path: Path, few_or_many: Callable[[int, int], int]
):
    """[CLN-55, CLN-62, CLN-70, CLN-80, CLN-84, CLN-97, DUR-126]

    Random scripts append, end transactions, truncate and clean, in either profile. Kafka's load has
    the same records, and its pass over them ends where ours does and leaves the same batches.
    """
    cleaned_on = 0
    with KafkaLoader() as kafka:
        for seed in range(few_or_many(12, 100)):
            script = RandomCleanedScript(tmp_path / str(seed), seed)
            try:
                load_and_clean(kafka, script)
            except Exception as error:
                error.add_note(f"seed {seed}, {script.ending}, {script.settings}")
                raise
            shutil.rmtree(script.directory.parent)
            cleaned_on += script.passes > 0 and script.cleaned_on
    assert cleaned_on > few_or_many(5, 50)
