"""For each barrier of csrc/io/barrier.h a run that needs it [DUR-110]."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.crash.barrier_scene import LAZY, SYNCED, leaving, script, working
from tests.crash.barrier_scenes_of_directories import DIRECTORY_SCENES
from tests.crash.barrier_scenes_of_opens import OPEN_SCENES
from tests.crash.crash_script import Settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.crash.barrier_scene import Scene

APPEND: Final = ("append", 2)
PREALLOCATED: Final = LAZY._replace(preallocate=True)
# Entries that are in the file at once, so that they can be ahead of the records.
SMALL_INDEXES: Final = Settings("none", segment_bytes=100_000, interval_bytes=1, index_mode="mmap")
THREE_SYNCED: Final = (APPEND, "roll", "background", APPEND, "roll", "background", ("append", 3))
THREE_SEGMENTS: Final = (APPEND, "roll", APPEND, "roll", APPEND)

SCRIPT_SCENES: dict[str, Callable[[], Scene]] = {
    "APPENDED_RECORDS": lambda: script(SYNCED, APPEND),
    "APPENDED_NAMES": lambda: script(LAZY, APPEND, "flush", "roll", APPEND, "flush"),
    "CLOSED_RECORDS": lambda: working(PREALLOCATED, APPEND, "close"),
    "INDEXES": lambda: working(SMALL_INDEXES, APPEND, APPEND, "roll", APPEND, "close"),
    "TRUNCATION_KEEPS": lambda: script(LAZY, APPEND, "roll", APPEND, APPEND, ("truncate_to", 4)),
    "TRUNCATION_NAMES": lambda: script(
        SYNCED, *THREE_SYNCED, ("truncate_to", 5), APPEND, ("truncate_to", 2)
    ),
    "TRUNCATION_CUT": lambda: script(
        LAZY, APPEND, APPEND, "flush", ("truncate_to", 2), APPEND, APPEND
    ),
    "EMPTYING_HIGHER": lambda: script(SYNCED, *THREE_SEGMENTS, ("truncate_fully_and_start_at", 0)),
    "EMPTYING_FIRST": lambda: script(SYNCED, APPEND, APPEND, ("truncate_fully_and_start_at", 3)),
    "EMPTYING_CREATED": lambda: script(
        SYNCED, APPEND, ("truncate_fully_and_start_at", 9), ("truncate_fully_and_start_at", 12)
    ),
    "DELETION_NAMES": lambda: leaving((".log",), SYNCED, *THREE_SEGMENTS, ("delete_records", 4)),
    "RECOVERY_RECORDS": lambda: script(LAZY, APPEND, "kill"),
    "TRANSACTION_INDEX": lambda: working(
        LAZY, ("transactional", 1), ("abort", 1), "roll", "background", APPEND, "flush"
    ),
    "TRANSACTION_INDEX_NAME": lambda: working(
        LAZY, ("transactional", 1), ("abort", 1), "roll", APPEND, "kill", APPEND
    ),
    "RECOVERY_POINT_NAME": lambda: script(LAZY, APPEND, APPEND, "flush", ("truncate_to", 2)),
    "LOG_START_CONTENT": lambda: script(SYNCED, APPEND, APPEND, ("delete_records", 2)),
    "LOG_STATE_CONTENT": lambda: script(LAZY, APPEND, APPEND, "roll", APPEND),
    "LOG_STATE_NAME": lambda: script(
        SYNCED, APPEND, APPEND, ("delete_records", 2), ("truncate_fully_and_start_at", 1)
    ),
    "CLEAN_MARKER_CONTENT": lambda: working(LAZY, APPEND, "close"),
    "CLEAN_MARKER_NAME": lambda: working(LAZY, APPEND, "close"),
    "CLEAN_MARKER_GONE": lambda: script(SMALL_INDEXES, APPEND, "close", APPEND, APPEND),
    "NEW_DIRECTORY": lambda: script(SYNCED, APPEND),
}

SCENES: dict[str, Callable[[], Scene]] = {**SCRIPT_SCENES, **OPEN_SCENES, **DIRECTORY_SCENES}
