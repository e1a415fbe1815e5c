"""Scripts over a pool of logs and the manager of their cleaner, run with segstore."""

from __future__ import annotations

import base64
import math
import threading
import time
from typing import TYPE_CHECKING, Any

from segstore._core import Directory
from segstore.errors import SegstoreError
from segstore.log.files.checkpoints import CLEANER_OFFSET_CHECKPOINT
from segstore.log.files.partition_directory import parse_directory_name
from segstore.log.log_dir_failure_channel import LogDirFailureChannel
from segstore.manager.cleaner_config import CleanerConfig
from segstore.manager.log_cleaner import LogCleaner
from segstore.manager.log_cleaner_manager import ABORTED, LogCleanerManager
from segstore.manager.log_to_clean import LogToClean
from segstore.manager.maintenance_report import Findings
from segstore.manager.throttler import Throttler
from tests.kits.mock_time import MockTime
from tests.vectors.log_script import LogScript

if TYPE_CHECKING:
    from pathlib import Path

    from segstore import UnifiedLog
    from segstore.log.cleaning.cleaner_stats import CleanerStats
    from segstore.log.files.profile import Profile
    from segstore.types import TopicPartition
    from tests.vectors.vector_files import Case

NOT_ARGUMENTS = {
    *("op", "result", "error", "files", "logs", "cleaner_checkpoints", "cleaning_states"),
    *("uncleanable", "tasks_run", "candidates", "calls_that_returned", "waits"),
    *("reported_offline", "log", "depends_on_hash_order"),
}
STATS = (
    *("bytes_read", "bytes_written", "map_messages_read", "messages_read"),
    *("invalid_messages_read", "messages_written", "buffer_utilization"),
)
OF_A_LOG = {
    *("append_as_leader", "roll", "update_high_watermark", "maybe_increment_log_start_offset"),
    *("truncate_to", "update_config"),
}
WAIT_SECONDS = 30.0


class CleanerManagerScript:
    """Logs, a manager and one cleaner thread that are driven by the operations of one case."""

    def __init__(self, case: Case, root: Path, profile: Profile) -> None:
        config = self.config = case["config"]
        self.root = root
        self.profile = profile
        self.time = MockTime(config["time"])
        self.failures = LogDirFailureChannel()
        self.scripts: dict[str, LogScript] = {}
        self.pool: dict[TopicPartition, UnifiedLog] = {}
        self.grabbed: dict[TopicPartition, LogToClean] = {}
        self.waiting: dict[str, threading.Thread] = {}
        self.errors: list[Exception] = []
        self.last_stats: CleanerStats | None = None
        for name in config["log_dirs"]:
            (root / name).mkdir(parents=True)
        self.directories = {
            str(root / name): Directory(str(root / name), self.time.environment)
            for name in config["log_dirs"]
        }
        for one in config["logs"]:
            self._open_log(one)
        self.time.run_due()
        self.cleaner_manager = LogCleanerManager(
            self.directories, self.pool, profile, self.failures
        )
        given = config["cleaner"]
        self.cleaner = LogCleaner(
            CleanerConfig(
                threads=given["threads"],
                dedupe_buffer_size=given["dedupe_buffer_size"],
                dedupe_buffer_load_factor=given["dedupe_buffer_load_factor"],
                io_buffer_size=given["io_buffer_size"],
                backoff_ms=given["backoff_ms"],
            ),
            self.cleaner_manager,
            profile,
            Throttler(math.inf, time.monotonic_ns),
            self.failures,
            lambda _, log, *__: log.delete_old_segments(),
            lambda: self.time.now_ms,
            lambda: self.time.now_ms,
        )

    def _open_log(self, described: Case) -> None:
        config = {**self.config, "log_config": described["log_config"]}
        config["transaction_verification"] = False
        path = self.root / described["dir"] / described["log"]
        script = LogScript({"config": config, "exact_bytes": True}, path, self.profile)
        script.time, script.failures = self.time, self.failures
        script.do_open({"log_start_offset": 0, "recovery_point": 0, "clean_shutdown": True})
        self.scripts[described["log"]] = script
        self.pool[parse_directory_name(described["log"])] = script.opened

    def path_of(self, log_dir: str) -> str:
        return str(self.root / log_dir)

    def log_of(self, operation: Case) -> UnifiedLog:
        return self.scripts[operation["log"]].opened

    def do(self, operation: Case) -> Any:
        """Do one operation, and then what is due; returns its result as the vectors have it."""
        arguments = {key: value for key, value in operation.items() if key not in NOT_ARGUMENTS}
        name = operation["op"]
        try:
            if name in OF_A_LOG:
                if operation.get("origin") == "COORDINATOR":
                    arguments["transaction_version"] = 0
                return self.scripts[operation["log"]].do({"op": name, **arguments})
            if operation.get("waits"):
                return self._do_in_a_thread(name, operation)
            return getattr(self, f"do_{name}")(operation)
        finally:
            self.time.run_due()
            for call in operation.get("calls_that_returned", ()):
                thread = self.waiting.pop(call)
                thread.join(WAIT_SECONDS)
                assert not thread.is_alive(), f"{call} waits yet"

    def _do_in_a_thread(self, name: str, operation: Case) -> None:
        def run() -> None:
            try:
                getattr(self, f"do_{name}")(operation)
            except Exception as error:  # noqa: BLE001 - looked at below
                self.errors.append(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        self.waiting[f"{name} {operation['log']}"] = thread
        partition = parse_directory_name(operation["log"])
        deadline = time.monotonic() + WAIT_SECONDS
        while self.cleaner_manager.cleaning_state(partition) != ABORTED and thread.is_alive():
            assert time.monotonic() < deadline
            time.sleep(0.0005)

    # ---- the choice ------------------------------------------------------------------------------

    def candidates(self) -> Any:
        """Return the numbers of every log that may be chosen; None where they cannot be said."""
        manager = self.cleaner_manager
        states, marked = manager.cleaning_states(), manager.uncleanable_partitions()
        try:
            known = manager.all_cleaner_checkpoints()
            return [
                self._describe_candidate(log, known.get(one))
                for one, log in sorted(self.pool.items())
                if "compact" in log.config.cleanup_policies
                and one not in states
                and one not in marked.get(log.path.rpartition("/")[0], ())
            ]
        except SegstoreError:
            return None

    def _describe_candidate(self, log: UnifiedLog, last_clean: int | None) -> Case:
        compaction = log._compaction()
        first, limit, _ = compaction.cleanable_offsets(last_clean, self.time.now_ms)
        found = LogToClean(
            log,
            first,
            *compaction.calculate_cleanable_bytes(first, limit),
            compaction.max_compaction_delay(first, self.time.now_ms),
            0,
        )
        is_empty = found.total_bytes == 0
        return {
            "log": str(log.topic_partition),
            "first_dirty_offset": first,
            "first_uncleanable_offset": found.first_uncleanable_offset,
            "clean_bytes": found.clean_bytes,
            "cleanable_bytes": found.cleanable_bytes,
            "cleanable_ratio": None if is_empty else found.cleanable_ratio,
            "compaction_delay_ms": found.compaction_delay_ms,
            "eligible": not is_empty and found.is_eligible,
        }

    def _describe_choice(self) -> Case:
        *numbers, max_dirty_ratio = self.cleaner_manager.pre_clean_stats
        names = ("max_compaction_delay_ms", "delayed_partitions", "cleanable_partitions")
        return {
            "pre_clean_stats": dict(zip(names, numbers, strict=True)),
            "max_dirty_ratio": max_dirty_ratio,
        }

    def do_grab_filthiest_compacted_log(self, _: Case) -> Case:
        found = self.cleaner_manager.grab_filthiest_compacted_log(self.time.now_ms)
        described = None
        if found is not None:
            self.grabbed[found.topic_partition] = found
            described = {
                "log": str(found.topic_partition),
                "first_dirty_offset": found.first_dirty_offset,
                "first_uncleanable_offset": found.first_uncleanable_offset,
                "clean_bytes": found.clean_bytes,
                "cleanable_bytes": found.cleanable_bytes,
                "cleanable_ratio": found.cleanable_ratio,
                "need_compaction_now": found.need_compaction_now,
            }
        return {"log_to_clean": described, **self._describe_choice()}

    def do_done_cleaning(self, operation: Case) -> None:
        partition = parse_directory_name(operation["log"])
        log_dir = self.path_of(operation["dir"])
        self.cleaner_manager.done_cleaning(partition, log_dir, operation["end_offset"])

    def do_clean_grabbed(self, operation: Case) -> Case:
        to_clean = self.grabbed.pop(parse_directory_name(operation["log"]))
        stats = self.cleaner.clean_log(to_clean)
        return {"stats": describe_stats(stats)}

    def do_cleaner_iteration(self, _: Case) -> Case:
        findings = Findings()
        is_picked = self.cleaner.try_clean_filthiest_log(self.time.now_ms, findings)
        stats = describe_stats(findings.cleaned[0].stats) if findings.cleaned else None
        return {"cleaned": is_picked, "stats": stats, **self._describe_choice()}

    def do_cleanable_offsets(self, operation: Case) -> Case:
        compaction = self.log_of(operation)._compaction()
        found = compaction.cleanable_offsets(operation["last_clean_offset"], operation["now"])
        return found._asdict()

    def do_calculate_cleanable_bytes(self, operation: Case) -> Case:
        limit, _, cleanable = (
            self.log_of(operation)
            ._compaction()
            .calculate_cleanable_bytes(
                operation["first_dirty_offset"], operation["uncleanable_offset"]
            )
        )
        return {"first_uncleanable_offset": limit, "cleanable_bytes": cleanable}

    def do_max_compaction_delay(self, operation: Case) -> int:
        compaction = self.log_of(operation)._compaction()
        return compaction.max_compaction_delay(operation["first_dirty_offset"], operation["now"])

    # ---- states ----------------------------------------------------------------------------------

    def do_abort_and_pause_cleaning(self, operation: Case) -> None:
        partition = parse_directory_name(operation["log"])
        self.cleaner_manager.abort_and_pause_cleaning(partition)

    def do_abort_cleaning(self, operation: Case) -> None:
        self.cleaner_manager.abort_cleaning(parse_directory_name(operation["log"]))

    def do_resume_cleaning(self, operation: Case) -> None:
        self.cleaner_manager.resume_cleaning([parse_directory_name(operation["log"])])

    def do_check_cleaning_aborted(self, operation: Case) -> None:
        partition = parse_directory_name(operation["log"])
        self.cleaner_manager.check_cleaning_aborted(partition)

    def do_deletable_logs(self, _: Case) -> list[str]:
        return sorted(str(one) for one, _ in self.cleaner_manager.deletable_logs())

    def do_done_deleting(self, operation: Case) -> None:
        partitions = map(parse_directory_name, operation["partitions"])
        self.cleaner_manager.done_deleting(partitions)

    def do_pause_cleaning_for_non_compacted_partitions(self, _: Case) -> list[str]:
        found = self.cleaner_manager.pause_cleaning_for_non_compacted_partitions()
        return sorted(str(one) for one, _ in found)

    # ---- checkpoints and marks -------------------------------------------------------------------

    def do_update_checkpoints(self, operation: Case) -> None:
        update, remove = operation["update"], operation["remove"]
        self.cleaner_manager.update_checkpoints(
            self.path_of(operation["dir"]),
            update=None if update is None else (parse_directory_name(update[0]), update[1]),
            remove=None if remove is None else parse_directory_name(remove),
        )

    def do_alter_checkpoint_dir(self, operation: Case) -> None:
        self.cleaner_manager.alter_checkpoint_dir(
            parse_directory_name(operation["log"]),
            self.path_of(operation["from"]),
            self.path_of(operation["to"]),
        )

    def do_maybe_truncate_checkpoint(self, operation: Case) -> None:
        self.cleaner_manager.maybe_truncate_checkpoint(
            self.path_of(operation["dir"]),
            parse_directory_name(operation["log"]),
            operation["offset"],
        )

    def do_handle_log_dir_failure(self, operation: Case) -> None:
        self.cleaner_manager.handle_log_dir_failure(self.path_of(operation["dir"]))

    def do_mark_partition_uncleanable(self, operation: Case) -> None:
        log_dir = self.path_of(operation["dir"])
        partition = parse_directory_name(operation["log"])
        self.cleaner_manager.mark_partition_uncleanable(log_dir, partition)

    def do_maintain_uncleanable_partitions(self, _: Case) -> None:
        self.cleaner_manager.maintain_uncleanable_partitions()

    def do_all_cleaner_checkpoints(self, _: Case) -> Case:
        found = self.cleaner_manager.all_cleaner_checkpoints()
        return {str(one): offset for one, offset in found.items()}

    # ---- the script's own changes ----------------------------------------------------------------

    def do_remove_log(self, operation: Case) -> None:
        self.pool.pop(parse_directory_name(operation["log"]), None)

    def do_add_log(self, operation: Case) -> None:
        self.pool[parse_directory_name(operation["log"])] = self.log_of(operation)

    def do_write_cleaner_checkpoint(self, operation: Case) -> None:
        path = self.root / operation["dir"] / CLEANER_OFFSET_CHECKPOINT
        path.write_bytes(base64.b64decode(operation["data"]))

    def do_flip_bit(self, operation: Case) -> None:
        with (self.root / operation["path"]).open("r+b") as file:
            file.seek(operation["position"])
            (byte,) = file.read(1)
            file.seek(operation["position"])
            file.write(bytes([byte ^ 1 << operation["bit"]]))

    def do_advance_time(self, operation: Case) -> int:
        self.time.sleep(operation["ms"])
        return self.time.now_ms

    # ---- what can be seen ------------------------------------------------------------------------

    def offline_dirs(self) -> list[str]:
        names = self.config["log_dirs"]
        return [one for one in names if self.failures.has_offline_log_dir(self.path_of(one))]

    def describe_logs(self) -> Case:
        return {name: describe_log(script.opened) for name, script in self.scripts.items()}

    def describe_checkpoints(self) -> Case:
        found = {}
        for name in self.config["log_dirs"]:
            path = self.root / name / CLEANER_OFFSET_CHECKPOINT
            first, second, *lines = [*path.read_text().splitlines(), "", ""]
            found[name] = "\n".join(
                [first, second, *sorted(line for line in lines if line)]
            ).strip()
        return found

    def describe_states(self) -> Case:
        states = self.cleaner_manager.cleaning_states()
        return {str(one): str(state) for one, state in states.items()}

    def describe_uncleanable(self) -> Case:
        marked = self.cleaner_manager.uncleanable_partitions()
        return {
            log_dir.rpartition("/")[2]: sorted(map(str, ones)) for log_dir, ones in marked.items()
        }

    def let_go(self) -> None:
        """End a case, also in its middle."""
        for one, state in self.cleaner_manager.cleaning_states().items():
            if state == ABORTED:
                self.cleaner_manager.done_deleting([one])
        for script in self.scripts.values():
            script.let_go()
        for directory in self.directories.values():
            directory.close()


def describe_log(log: UnifiedLog) -> Case:
    return {
        "log_start_offset": log.log_start_offset,
        "log_end_offset": log.log_end_offset,
        "high_watermark": log.high_watermark,
        "last_stable_offset": log.last_stable_offset,
        "segments": [[one.base_offset, one.size_bytes] for one in log.segments()],
    }


def describe_stats(stats: CleanerStats | None) -> Case | None:
    return None if stats is None else {name: getattr(stats, name) for name in STATS}
