"""Log directories that our `LogManager` wrote, loaded by Kafka's own ``LogManager``."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

from segstore.log.files.checkpoints import LEADER_EPOCH_CHECKPOINT
from segstore.log.files.partition_metadata_file import topic_id_text
from tests.interop.kafka_loader import KafkaLoader
from tests.interop.random_directory import RandomDirectory
from tests.interop.test_kafka_loads_ours import digest_of_records, state

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from segstore import UnifiedLog


def state_of_managed(log: UnifiedLog) -> dict[str, Any]:
    """As `state`, with what a manager knows besides."""
    assert log.topic_id is not None
    return {**state(log), "topic_id": topic_id_text(log.topic_id)}


def run_and_compare(kafka: KafkaLoader, script: RandomDirectory, copy: Path) -> None:
    """Write a directory; Kafka starts over it, and segstore over a copy."""
    written = script.run(digest_of_records)
    shutil.copytree(script.directory, copy)

    topics = sorted({one.topic for one in script.partitions})
    found = kafka.load_directory(script.directory, topics, script.kafka_config)

    assert found.keys() == written.keys()
    with script.open(copy) as logs:
        ours = {str(one): state_of_managed(logs.log(*one)) for one in logs.partitions()}
        reports = [logs.log(*one).report for one in logs.partitions()]
        assert all(report.clean for report in reports) or not script.is_closed
    assert ours.keys() == written.keys()
    for name, told in found.items():
        for producer in told["producers"]:
            producer["batches"] = [batch[:4] for batch in producer["batches"][-1:]]
        # what lies below the log start goes at our open
        first = ours[name]["segments"][0][0]
        told["segments"] = [segment for segment in told["segments"] if segment[0] >= first]
        assert {key: told[key] for key in ours[name]} == ours[name], name
        assert told["records_sha256"] == written[name]
        if script.is_closed:
            assert told["recovery_point"] == told["log_end_offset"]
            # only room in the indexes of the active segment, and epochs that are written again
            active = f"{told['segments'][-1][0]:020d}"
            changed = {file for file in told["changed_files"] if not file.endswith(".snapshot")}
            allowed = {f"{active}.index", f"{active}.timeindex", LEADER_EPOCH_CHECKPOINT}
            assert changed <= allowed, (name, changed)


def test_kafkas_log_manager_starts_over_what_random_managers_wrote(
    tmp_path: Path, few_or_many: Callable[[int, int], int]
):
    """[MGR-17, MGR-20, MGR-21, MGR-45, MGR-46, MGR-52, CKP-20, DUR-24, DUR-121]

    Topics are created, altered and deleted, logs are written, and maintenance runs. After a close
    Kafka recovers nothing. After a kill its recovery and ours have one result: the same records,
    offsets, epochs, producers and topic ids.
    """
    with KafkaLoader() as kafka:
        for seed in range(few_or_many(15, 100)):
            script = RandomDirectory(tmp_path / str(seed), seed)
            try:
                run_and_compare(kafka, script, tmp_path / f"{seed}-copy")
            except Exception as error:
                error.add_note(f"seed {seed}, closed: {script.is_closed}, {script.settings}")
                raise
            shutil.rmtree(script.directory)
            shutil.rmtree(tmp_path / f"{seed}-copy")
