"""What is done with logs while calls fail: each door of the engine, by name [DUR-111]."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from segstore.log.flusher import _MAX_SEALED_WAITING as MAX_SEALED_WAITING
from tests.crash.barrier_scene import operations
from tests.crash.crash_script import Settings
from tests.crash.failing_scenarios_of_checks import CHECK_SCENARIOS
from tests.crash.failing_scenarios_of_cleaner import CLEANER_SCENARIOS
from tests.crash.failing_scenarios_of_damage import DAMAGE_SCENARIOS
from tests.crash.failing_scenarios_of_doors import DOOR_SCENARIOS
from tests.crash.failing_scenarios_of_ends import END_SCENARIOS
from tests.crash.failing_scenarios_of_fetched_logs import FETCHED_SCENARIOS
from tests.crash.failing_scenarios_of_kafka_profile import KAFKA_SCENARIOS
from tests.crash.failing_scenarios_of_managers import MANAGER_SCENARIOS
from tests.crash.failing_scenarios_of_metadata import METADATA_SCENARIOS
from tests.crash.failing_scenarios_of_missing_records import MISSING_RECORD_SCENARIOS
from tests.crash.failing_scenarios_of_moves import MOVE_SCENARIOS
from tests.crash.failing_scenarios_of_opens import OPEN_SCENARIOS
from tests.crash.failing_scenarios_of_paths import PATH_SCENARIOS
from tests.crash.failing_scenarios_of_rare_opens import RARE_OPEN_SCENARIOS
from tests.crash.failing_scenarios_of_rare_turns import RARE_TURN_SCENARIOS
from tests.crash.failing_scenarios_of_readers import READER_SCENARIOS
from tests.crash.failing_scenarios_of_remote_storage import REMOTE_STORAGE_SCENARIOS
from tests.crash.failing_scenarios_of_topics import TOPIC_SCENARIOS
from tests.crash.failing_scenarios_of_ways_on import WAY_ON_SCENARIOS
from tests.crash.failing_trial import script
from tests.crash.remote_copies import copying

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.crash.failing_trial import Trial

LAZY: Final = Settings("none")
SYNCED: Final = Settings("sync")
COUNTED: Final = Settings("messages=3")
IN_LOG_DIRECTORY: Final = LAZY._replace(in_log_directory=True)
PREALLOCATED: Final = LAZY._replace(preallocate=True)
WITH_SIDECARS: Final = LAZY._replace(checksum_sidecar=True)
DENSE: Final = Settings("none", interval_bytes=1, index_bytes=24)

APPEND: Final = ("append", 2)
BACKGROUND: Final = ("background", 3600)
SEGMENTS: Final = (APPEND, "roll", APPEND, "roll", APPEND)
TRANSACTIONS: Final = (
    ("transactional", 1),
    ("abort", 1),
    "roll",
    ("transactional", 2),
    ("commit", 2),
    ("idempotent", 3),
)


def _scripts() -> dict[str, tuple[Settings, tuple, tuple]]:
    """By name: how the log is opened, what works, and what may fail."""
    scripts: dict[str, tuple[Settings, tuple, tuple]] = {}
    every = {
        "append": (APPEND, APPEND),
        "flush": (APPEND, "flush"),
        "roll": ("roll", BACKGROUND, APPEND),
        "truncate": (("truncate_to", 3), APPEND),
        "truncate below": (("truncate_to", 1),),
        "empty": (("truncate_fully_and_start_at", 2), APPEND),
        "empty and go on": (("truncate_fully_and_start_at", 9), APPEND),
        "delete records": (("delete_records", 3), BACKGROUND),
        "close": ("close", APPEND),
        "kill": ("kill", APPEND),
        "epoch": ("new_epoch", APPEND, "flush"),
        "producers": (("idempotent", 3), ("transactional", 1), ("abort", 1), "flush", "close"),
        "roll with producers": (("idempotent", 3), "roll", BACKGROUND, ("delete_records", 5)),
    }
    for name, steps in every.items():
        for kind, settings in (("lazy", LAZY), ("synced", SYNCED), ("dense", DENSE)):
            scripts[f"{name}, {kind}"] = (settings, SEGMENTS, steps)
    for kind, settings in (
        ("counted", COUNTED),
        ("in a log directory", IN_LOG_DIRECTORY),
        ("preallocated", PREALLOCATED),
        ("with sidecars", WITH_SIDECARS),
    ):
        for name in ("append", "roll", "truncate", "delete records", "close"):
            scripts[f"{name}, {kind}"] = (settings, SEGMENTS, every[name])
    for name in ("truncate", "truncate below", "empty", "delete records"):
        prelude = (*SEGMENTS, ("background", 0))
        scripts[f"{name}, with sidecars that are there"] = (WITH_SIDECARS, prelude, every[name])
    for name in ("flush", "roll", "truncate", "truncate below", "empty", "delete records", "kill"):
        scripts[f"{name}, with transactions"] = (LAZY, (*TRANSACTIONS, APPEND), every[name])
    rolls = (APPEND, "roll") * MAX_SEALED_WAITING
    scripts["one roll too many for the thread"] = (LAZY, rolls, (APPEND, "roll", BACKGROUND))
    return scripts


def _script(settings: Settings, prelude: tuple, steps: tuple) -> Trial:
    return script(settings, operations(*prelude), operations(*steps))


SCENARIOS: dict[str, Callable[[], Trial]] = {
    **{name: partial(_script, *made) for name, made in _scripts().items()},
    **OPEN_SCENARIOS,
    **DOOR_SCENARIOS,
    **END_SCENARIOS,
    **DAMAGE_SCENARIOS,
    **FETCHED_SCENARIOS,
    **KAFKA_SCENARIOS,
    **PATH_SCENARIOS,
    **READER_SCENARIOS,
    **MANAGER_SCENARIOS,
    **RARE_OPEN_SCENARIOS,
    **RARE_TURN_SCENARIOS,
    **TOPIC_SCENARIOS,
    **REMOTE_STORAGE_SCENARIOS,
    **MOVE_SCENARIOS,
    **METADATA_SCENARIOS,
    "copies in a remote folder": copying,
    **MISSING_RECORD_SCENARIOS,
    **CHECK_SCENARIOS,
    **WAY_ON_SCENARIOS,
    **CLEANER_SCENARIOS,
}
