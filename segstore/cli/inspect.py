"""``segstore inspect``: everything about one partition, as text or JSON; nothing is written."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

from segstore.cli.output import Progress, count_of, human_bytes, human_time, print_table, write_line
from segstore.cli.partition_paths import (
    add_as_argument,
    add_partition_arguments,
    read_as,
    selected_partitions,
)
from segstore.cli.shown_times import shown_times
from segstore.cli.transaction_text import transaction_fields, transaction_text
from segstore.errors import SegstoreError
from segstore.types import CODEC_MASK, CONTROL_FLAG, TRANSACTIONAL_FLAG

if TYPE_CHECKING:
    import argparse

    from numpy.typing import NDArray

    from segstore._core import Directory
    from segstore.log.local.missing_records import MissingRecords
    from segstore.records.records_count import RecordsCounts


COLUMNS = ("BASE OFFSET", "LAST", "BATCHES", "RECORDS", "BYTES", "LATEST", "INDEX", "TIMEINDEX")


def register(parser: argparse.ArgumentParser) -> None:
    """Describe the command and its arguments."""
    parser.description = (
        "Show the parts of a partition: segments with their indexes, batches by "
        "codec, checkpoints, leader epochs, markers, open transactions. Reads the headers of all "
        "batches. A BASE OFFSET with a ! marks a damaged segment; its row shows what could be "
        "read. Exit code 1 when the partition is damaged or lacks records."
    )
    add_partition_arguments(parser)
    add_as_argument(parser)
    parser.add_argument("--json", action="store_true", help="as JSON, one object a partition")
    parser.add_argument("-q", dest="quiet", action="store_true", help="no progress on stderr")


def run(arguments: argparse.Namespace) -> int:
    """Inspect the selected partitions; 1 when one is damaged, lacks records or cannot be read."""
    code = 0
    with Progress(quiet=arguments.quiet) as progress:
        for path in selected_partitions(arguments.path, arguments.topic, arguments.partition):
            facts = inspect_partition(path, progress, arguments.as_)
            if arguments.json:
                write_line(json.dumps(facts, indent=2))
            else:
                _print(facts)
            code = 1 if _is_damaged(facts) else code
    return code


def _is_damaged(facts: dict[str, Any]) -> bool:
    return bool(
        facts["damage"] or facts["missing"] or any(one["damage"] for one in facts["segments"])
    )


def inspect_partition(path: str, progress: Progress, as_: str | None = None) -> dict[str, Any]:
    """Collect the facts about the partition at *path* as plain values."""
    import segstore
    import segstore._core as _core
    from segstore.log.check.partition_state import read_state
    from segstore.log.files.checksum_sidecar import sidecar_base_offset
    from segstore.log.files.partition_directory import segment_files
    from segstore.log.findings.finding_text import finding_line
    from segstore.log.recovery.quarantined_file import quarantine_names, quarantined_files
    from segstore.records.compression import codec_table

    directory = _core.Directory(path)
    try:
        names = directory.names()
        files = segment_files(names)
        sidecars = [name for name in names if sidecar_base_offset(name) is not None]
        bases = _core.SegmentListing(names).base_offsets("log")
        state = read_state(directory, as_=read_as(as_))
        context = _core.SegmentContext(directory, codec_table(), writable=False)
        tallies = Tallies()
        segments = []
        unreadable = [finding_line(finding) for finding in state.findings]
        start = max(bases[0] if bases else 0, state.log_start_offset or 0)
        for number, base in enumerate(bases, start=1):
            following = bases[number] if number < len(bases) else None
            facts = _segment(directory, context, base, tallies)
            if facts["damage"] is None and following is not None and following > start:
                facts["damage"] = _damage_of_sealed(facts, following)
            segments.append(facts)
            progress(path, number, len(bases))
        quarantined = quarantined_files(directory, context, bases, start)
    finally:
        directory.close()
    end = (segments[-1]["next_offset"] or segments[-1]["base_offset"]) if segments else 0
    stable = None
    transactions: list[dict[str, Any]] = []
    damage: str | None = None
    missing: list[MissingRecords] = []
    try:
        with segstore.open(path, read_only=True, as_=as_) as log:
            damage, missing = log.report.damage or shown_times(log).damage, log.missing_records()
            end = log.log_end_offset
            stable = log.last_stable_offset
            transactions = [transaction_fields(one) for one in log.open_transactions()]
    except SegstoreError as error:
        damage = damage or str(error)
    return {
        "path": path,
        "topic": None if state.topic_partition is None else state.topic_partition.topic,
        "partition": None if state.topic_partition is None else state.topic_partition.partition,
        "topic_id": state.topic_id,
        "log_start_offset": start,
        "log_end_offset": end,
        "last_stable_offset": stable,
        "open_transactions": transactions,
        "recovery_point": state.recovery_point,
        "clean_shutdown_markers": state.clean_markers,
        "size_bytes": sum(segment["size_bytes"] for segment in segments),
        **tallies.to_dict(),
        "leader_epochs": [list(entry) for entry in state.epochs],
        "contiguous_from": None if state.log_state is None else state.log_state.contiguous_from,
        "epochs_ordered_from": None
        if state.log_state is None
        else state.log_state.epochs_ordered_from,
        "producer_snapshots": [f.name for f in files if f.kind == "snapshot" and not f.suffix],
        "checksum_sidecars": sidecars,
        "transaction_indexes": [f.name for f in files if f.kind == "txnindex" and not f.suffix],
        "quarantined": [file._asdict() for file in quarantined],
        "other_files": sorted(
            {*names} - {f.name for f in files} - {*quarantine_names(names), *sidecars}
        ),
        "leftovers": [f.name for f in files if f.suffix],
        "unreadable": unreadable,
        "damage": damage,
        "missing": [one._asdict() for one in missing],
        "segments": segments,
    }


class Tallies:
    """Counts over all batches of a partition."""

    def __init__(self) -> None:
        self.batches: Counter[str] = Counter()
        self.records: Counter[str] = Counter()
        self.size_bytes: Counter[str] = Counter()
        self.uncounted = 0
        self.transactional = 0
        self.control = 0

    def add(self, rows: NDArray[Any], found: RecordsCounts) -> None:
        """Count the batches of one segment's header table."""
        from segstore.types import Codec

        codecs = rows["attributes"] & CODEC_MASK
        for codec in Codec:
            chosen = codecs == codec
            if not chosen.any():
                continue
            name = codec.name.lower()
            self.batches[name] += int(chosen.sum())
            self.records[name] += int(found.counts[chosen].sum())
            self.size_bytes[name] += int(rows["size_bytes"][chosen].sum())
        self.uncounted += len(found.uncounted)
        self.transactional += int(((rows["attributes"] & TRANSACTIONAL_FLAG) != 0).sum())
        self.control += int(((rows["attributes"] & CONTROL_FLAG) != 0).sum())

    def to_dict(self) -> dict[str, Any]:
        """Return the counts as plain values."""
        return {
            "batches": self.batches.total(),
            "records": self.records.total(),
            "uncounted_batches": self.uncounted,
            "transactional_batches": self.transactional,
            "control_batches": self.control,
            "codecs": {
                name: {
                    "batches": count,
                    "records": self.records[name],
                    "size_bytes": self.size_bytes[name],
                }
                for name, count in self.batches.items()
            },
        }


def _segment(directory: Directory, context: Any, base: int, tallies: Tallies) -> dict[str, Any]:
    """Return the facts about one segment."""
    from segstore.log.files.partition_directory import file_name

    facts: dict[str, Any] = {
        "base_offset": base,
        "last_offset": None,
        "next_offset": None,
        "size_bytes": 0,
        "valid_bytes": None,
        "scan_stopped": None,
        "modified_ms": None,
        "batches": None,
        "records": None,
        "max_timestamp": None,
        "leader_epochs": [],
        "damage": None,
    }
    try:
        info = directory.info(file_name(base, "log"))
        facts |= {"size_bytes": info.size, "modified_ms": info.modified_ms}
        facts |= _batches(directory, context, base, tallies)
    except SegstoreError as error:
        facts["damage"] = error.text_within(directory.path)
    for kind, entry_bytes in (("index", 8), ("timeindex", 12), ("txnindex", 34)):
        name = file_name(base, kind)
        if directory.exists(name):
            size = directory.info(name).size
            facts[kind] = {"size_bytes": size, "entries": size // entry_bytes}
        else:
            facts[kind] = None
    return facts


def _batches(directory: Directory, context: Any, base: int, tallies: Tallies) -> dict[str, Any]:
    import segstore._core as _core
    from segstore.log.files.partition_directory import file_name
    from segstore.records.compression import codec_table
    from segstore.records.records_count import count_records

    segment = _core.LogSegment(context, base)
    try:
        rows, scan = segment.scan(check_crc=False, expected_offset=base)
    finally:
        segment.close()
    name = file_name(base, "log")
    found = count_records(rows, partial(directory.read_range, name), codec_table())
    tallies.add(rows, found)
    return {
        "last_offset": scan.next_offset - 1 if len(rows) else None,
        "next_offset": scan.next_offset,
        "valid_bytes": scan.valid_bytes,
        "scan_stopped": scan.stop,
        "batches": len(rows),
        "records": found.total,
        "max_timestamp": scan.max_timestamp if len(rows) else None,
        "leader_epochs": sorted({int(epoch) for epoch in rows["partition_leader_epoch"]}),
    }


def _damage_of_sealed(facts: dict[str, Any], following: int) -> str | None:
    name = f"{facts['base_offset']:020}.log"
    if facts["valid_bytes"] < facts["size_bytes"]:
        return f"{name}: bytes {facts['valid_bytes']} to {facts['size_bytes']} are no batches"
    if facts["next_offset"] > following:
        return (
            f"{name}: offsets up to {facts['next_offset'] - 1}, and the next segment begins at"
            f" {following}"
        )
    return None


def _print(facts: dict[str, Any]) -> None:
    from segstore.log.local.missing_records import MissingRecords
    from segstore.log.recovery.quarantined_file import QuarantinedFile

    write_line(f"{facts['path']}: offsets {facts['log_start_offset']} to {facts['log_end_offset']}")
    codecs = ", ".join(
        f"{name} {codec['batches']} ({human_bytes(codec['size_bytes'])})"
        for name, codec in facts["codecs"].items()
    )
    segments = count_of(len(facts["segments"]), "segment")
    uncounted = count_of(facts["uncounted_batches"], "batch", "batches")
    lines = {
        "topic id": facts["topic_id"],
        "size": f"{human_bytes(facts['size_bytes'])} in {segments}",
        "records": f"{facts['records']} in {count_of(facts['batches'], 'batch', 'batches')}",
        "not counted": f"{uncounted}, cannot be decoded" if facts["uncounted_batches"] else None,
        "batches by codec": codecs,
        "transactional": facts["transactional_batches"] or None,
        "control batches": facts["control_batches"] or None,
        "last stable offset": facts["last_stable_offset"],
        "recovery point": facts["recovery_point"],
        "clean shutdown": ", ".join(facts["clean_shutdown_markers"]) or "no marker",
        "leader epochs": ", ".join(
            f"{epoch} from {start}" for epoch, start in facts["leader_epochs"]
        ),
        "snapshots": ", ".join(facts["producer_snapshots"]),
        "damage": facts["damage"],
        "missing": "; ".join(str(MissingRecords(**one)) for one in facts["missing"]),
        "leftovers": ", ".join(facts["leftovers"]),
        "unreadable": "; ".join(facts["unreadable"]),
    }
    for title, value in lines.items():
        if value not in {None, ""}:
            write_line(f"  {title}: {value}")
    for transaction in facts["open_transactions"]:
        write_line(f"  open transaction: {transaction_text(transaction, facts['path'])}")
    for file in facts["quarantined"]:
        write_line(f"  quarantine: {QuarantinedFile(**file)}")
    for segment in facts["segments"]:
        if segment["damage"] is not None:
            write_line(f"  damaged segment: {segment['damage']}")
    print_table(COLUMNS, map(_row, facts["segments"]))
    if _is_damaged(facts):
        command = f"`segstore verify {shlex.quote(facts['path'])}`"
        write_line(f"to do: {command} says which records cannot be read, and how to go on")


def _row(segment: dict[str, Any]) -> tuple[str, ...]:
    return (
        f"{segment['base_offset']}{'' if segment['damage'] is None else '!'}",
        *(
            "-" if segment[name] is None else str(segment[name])
            for name in ("last_offset", "batches", "records")
        ),
        human_bytes(segment["size_bytes"]),
        human_time(segment["max_timestamp"]),
        *(
            "-" if segment[kind] is None else str(segment[kind]["entries"])
            for kind in ("index", "timeindex")
        ),
    )
