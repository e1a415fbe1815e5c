"""The damaged directories of the loader's vectors, opened with the safe profile.

No record that Kafka keeps is missing, unless a rule of durability.md takes it out, which is named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import segstore
from segstore._core import scan_batches
from segstore.errors import CorruptLogError
from segstore.log.files.checkpoints import (
    CLEAN_SHUTDOWN_MARKER,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    format_offset_checkpoint,
)
from segstore.types import TopicPartition
from tests.kits.directory_files import expected_files, files_of, write_files

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from tests.vectors.vector_files import Case, Cases

REFUSED = "DUR-51, DUR-54: refused, with every record in place"
ENDS = "DUR-50, DUR-54: the log ends at the first bad batch, the rest is in quarantine"
BEYOND = "DUR-8, DUR-21: opened, where Kafka fails"
START = "DUR-21: a log start above the end of a cleanly closed log is not believed"
GAP = "DUR-19: segments below the log start go, and the log begins at its first batch"
MORE = "DUR-50: more is kept"


def batches_of(
    files: Mapping[str, bytes],
    suffixes: tuple[str, ...] = (".log",),
    *,
    readable_only: bool = False,
) -> dict[bytes, tuple[int, int]]:
    """Every batch of the ``.log`` files, with its base and its last offset.

    With *readable_only* not those below the base offset of their segment: no offset finds them.
    """
    found = {}
    for name, data in files.items():
        if name.endswith(suffixes):
            headers, _ = scan_batches(data, check_crc=False)
            rows = headers[["position", "size_bytes", "base_offset", "last_offset"]]
            for position, size, base_offset, last_offset in rows.tolist():
                if readable_only and base_offset < int(name.partition(".")[0]):
                    continue
                found[data[position : position + size]] = base_offset, last_offset
    return found


def first_missing(
    kept: dict[bytes, tuple[int, int]],
    there: dict[bytes, tuple[int, int]],
    log_start_offset: int,
) -> int | None:
    """Base offset of the first batch that is not there; below the log start none is [DUR-18]."""
    return min(
        (
            base_offset
            for batch, (base_offset, last_offset) in kept.items()
            if last_offset >= log_start_offset and batch not in there
        ),
        default=None,
    )


def open_safely(case: Case, folder: Path) -> segstore.UnifiedLog:
    """Open in a log directory with a broker's checkpoints and marker."""
    partition = TopicPartition("topic", 0)
    for name, offset in (
        (RECOVERY_POINT_CHECKPOINT, case["recovery_point"]),
        (LOG_START_OFFSET_CHECKPOINT, case["log_start_offset"]),
    ):
        (folder.parent / name).write_bytes(format_offset_checkpoint({partition: offset}))
    if case["clean_shutdown"]:
        (folder.parent / CLEAN_SHUTDOWN_MARKER).touch()
    settings = case["config"]["log_config"]
    return segstore.open(
        folder,
        internal_segment_bytes=int(settings["internal.segment.bytes"]),
        segment_index_bytes=int(settings["segment.index.bytes"]),
        index_interval_bytes=int(settings["index.interval.bytes"]),
        preallocate=settings.get("preallocate") == "true",
        durability="none",
    )


def difference(case: Case, folder: Path) -> str | None:
    """Compare one case; the rule by which it differs from Kafka."""
    write_files(folder, case["input_files"])
    expected = expected_files(case["files"], files_of(folder))
    kept = batches_of(expected, readable_only=True) if "state" in case else {}
    try:
        log = open_safely(case, folder)
    except CorruptLogError:
        there = batches_of(files_of(folder), (".log", ".log.swap", ".quarantine-1"))
        assert first_missing(kept, there, case["log_start_offset"]) is None
        return REFUSED
    with log:
        report = log.report
        start, end = log.log_start_offset, log.log_end_offset
    if "state" not in case:
        return BEYOND
    kafka_start, kafka_end = (case["state"][key] for key in ("log_start_offset", "log_end_offset"))
    missing = first_missing(kept, batches_of(files_of(folder)), kafka_start)
    if missing is not None or (end < kafka_end and start == kafka_start):
        assert report.truncated_from_offset is not None
        assert report.truncated_from_offset <= end
        set_aside = batches_of(files_of(folder), (".log", ".quarantine-1"))
        assert first_missing(kept, set_aside, kafka_start) is None
        # where no batch is missing, Kafka's log ends higher by an empty segment only
        assert missing is None or report.quarantined or report.set_aside
        return ENDS
    if start > kafka_start:  # no batch is missing: there is none between the two
        return GAP
    if start != kafka_start:
        assert any("is ignored" in warning for warning in report.warnings)
        return START
    return MORE if end > kafka_end else None


def test_the_loaders_inputs_with_the_safe_profile(vectors: Callable[..., Cases], tmp_path: Path):
    """[DUR-50..DUR-55, DUR-64, LDR-30] No record that Kafka keeps is lost without a rule."""
    cases = vectors("loader", "loader, safe")

    def compare(case: Case) -> None:
        if case["directory"] != "topic-0":
            return  # marked for deletion: no log to open
        rule = difference(case, tmp_path / case["id"] / case["directory"])
        if rule is not None:
            cases.differs(case, rule)

    cases.check(compare)
