"""What a dump is asked for and what it collects for its end, in the words of kafka-dump-log."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from segstore.cli.java_text import hash_map_order
from segstore.cli.output import say

if TYPE_CHECKING:
    from segstore.cli.decoders.record_decoder import RecordDecoder

MAX_INT = 2**31 - 1


def absolute_path(path: str) -> str:
    """Return *path* as Java's ``getAbsolutePath`` does: nothing is resolved or left out."""
    return os.path.join(os.getcwd(), path)  # noqa: PTH109, PTH118 - pathlib would tidy it up


@dataclass(frozen=True, slots=True)
class DumpOptions:
    """What to print of a file, in the words of kafka-dump-log's options [format.md 18.1]."""

    decoder: RecordDecoder | None = None
    """None: keys and payloads are not printed."""
    deep: bool = False
    verify_index_only: bool = False
    index_sanity_check: bool = False
    skip_record_metadata: bool = False
    max_message_size: int = 5242880
    max_bytes: int = MAX_INT


@dataclass(slots=True)
class IndexFindings:
    """What the check of a time index against its log noted, in the order of the file."""

    path: str
    mismatches: list[tuple[int, int]] = field(default_factory=list)
    out_of_order: list[tuple[int, int]] = field(default_factory=list)
    not_found: list[tuple[int, int]] = field(default_factory=list)


@dataclass(slots=True)
class Findings:
    """What the dump of all files noted; printed at the end, on stderr [format.md 18.6]."""

    offset_mismatches: dict[str, dict[int, int]] = field(default_factory=dict)
    """Path of an index to {entry's offset: last offset of the batch found}."""
    time_indexes: list[IndexFindings] = field(default_factory=list)
    non_consecutive: dict[str, dict[int, int]] = field(default_factory=dict)
    """Path of a log to {offset: offset that follows it}."""


def print_findings(findings: Findings) -> None:  # noqa: C901 - five lists, one loop each
    """Print what was collected, on stderr, in Kafka's order [format.md 18.6]."""
    for path in hash_map_order(findings.offset_mismatches):
        say(f"Mismatches in :{path}")
        for offset, found in sorted(findings.offset_mismatches[path].items(), reverse=True):
            say(f"  Index offset: {offset}, log offset: {found}")
    by_path = {index.path: index for index in findings.time_indexes}
    for path in hash_map_order(path for path, index in by_path.items() if index.mismatches):
        say(f"Found timestamp mismatch in :{path}")
        for expected, found in by_path[path].mismatches:
            say(f"  Index timestamp: {expected}, log timestamp: {found}")
    for path in hash_map_order(path for path, index in by_path.items() if index.out_of_order):
        say(f"Found out of order timestamp in :{path}")
        for timestamp, previous in by_path[path].out_of_order:
            say(f"  Index timestamp: {timestamp}, Previously indexed timestamp: {previous}")
    for path in hash_map_order(path for path, index in by_path.items() if index.not_found):
        say(f"The following indexed offsets are not found in :{path}")
        for offset, found in by_path[path].not_found:
            say(f"Indexed offset: {offset}, found log offset: {found}")
    for path in hash_map_order(findings.non_consecutive):
        say(f"Non-consecutive offsets in {path}")
        for offset, following in sorted(findings.non_consecutive[path].items()):
            say(f"  {offset} is followed by {following}")
