"""Kafka's own ``UnifiedLog`` and ``LogManager`` as a process that tells what it found."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any, Self

from tests.interop.kafka_classes import JAVA_SOURCES, java_command
from tests.kits.short_java import OPTIONS

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType


class KafkaLoader:
    """The process; one directory in, one answer out. Every log is closed cleanly again."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            java_command(*OPTIONS.split(), str(JAVA_SOURCES / "LoadWithKafka.java")),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.communicate(timeout=30)

    def load(  # noqa: PLR0913 - what a broker gives a log
        self,
        directory: Path,
        *,
        clean: bool,
        log_start_offset: int,
        recovery_point: int,
        config: dict[str, str],
        reads: list[int] | None = None,
        cleaning: dict[str, int] | None = None,
    ) -> dict[str, Any]:
        """Have Kafka open and close a partition; a broker gives it what the checkpoints say.

        With *reads*, it tells the base offset of the first batch that a read at each returns, -1
        for none, and makes no digest of all records. With *cleaning* (``first_dirty_offset``,
        ``now``, ``offset_map_bytes``, ``io_buffer_bytes``), a pass of Kafka's ``Cleaner`` follows,
        and ``cleaned`` is what it left.
        """
        request: dict[str, Any] = {
            "directory": str(directory),
            "clean": clean,
            "log_start_offset": log_start_offset,
            "recovery_point": recovery_point,
            "config": config,
        }
        if reads is not None:
            request["reads"] = reads
        if cleaning is not None:
            request["cleaning"] = cleaning
        return self._ask(request)

    def load_directory(
        self, log_dir: Path, topics: list[str], config: dict[str, str]
    ) -> dict[str, dict[str, Any]]:
        """Have Kafka's ``LogManager`` start over a log directory and stop; return its logs by name.

        *config* are the settings of all *topics*.
        """
        request = {"log_dir": str(log_dir), "topics": topics, "config": config}
        found: dict[str, dict[str, Any]] = self._ask(request)["logs"]
        return found

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        assert "error" not in answer, answer["error"]
        return answer
