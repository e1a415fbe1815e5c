"""What all commands share: bytes to stdout, words to stderr, progress, tables."""

from __future__ import annotations

import logging
import sys
import time
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import TracebackType

    from segstore.log.lone_segment import LoneSegment
    from segstore.log.unified_log import Log

PLAIN_PROGRESS_SECONDS = 2.0
"""A plain progress line comes at most this often, the first after as long: short work is silent."""

KIBIBYTE = 1024


class UsageError(Exception):
    """What was typed does not fit together; the command exits with code 2."""


_said: set[str] = set()
_names: dict[str, str] = {}


def begin_command() -> None:
    """Let what the library logs reach stderr as the command's own lines do; begin with none."""
    _said.clear()
    _names.clear()
    logging.lastResort = _SaidByLibrary(logging.WARNING)


class _SaidByLibrary(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        say(record.getMessage())


def name_shown(path: str, name: str) -> None:
    """Let `say` call what lies at *path* by another *name*: it is a copy of what was named."""
    _names[path] = name


def say(text: str) -> None:
    """Write a line to stderr, after everything that was written to stdout so far."""
    for path, name in _names.items():
        text = text.replace(path, name)
    if "topics.json" in text:
        text = _with_way_out_once(text)
    sys.stdout.flush()
    sys.stderr.buffer.write(f"{text}\n".encode("utf-8", "backslashreplace"))
    sys.stderr.buffer.flush()


def _with_way_out_once(text: str) -> str:
    """Shorten what was said: a damaged file is the reason of many failures in one command."""
    from segstore.log.files.topics_file import WAY_OUT

    if WAY_OUT in _said:
        return text.replace(WAY_OUT, "see above")
    if WAY_OUT in text:
        _said.add(WAY_OUT)
    return text


def say_warnings(log: Log | LoneSegment, *, quiet: bool = False) -> None:
    """Say on stderr what an open to read has found, but for damage, which whoever meets it says."""
    if quiet:
        return
    damage = log.report.damage or ""
    for text in log.report.warnings:
        if text not in damage:
            say(f"segstore: {log.path}: {text}")


def write(data: bytes) -> None:
    """Write bytes to stdout: what a log holds is no text of the terminal's encoding."""
    sys.stdout.buffer.write(data)


def write_line(text: str) -> None:
    """Write a line of text to stdout as UTF-8."""
    write(f"{text}\n".encode("utf-8", "backslashreplace"))


def count_of(count: int, noun: str, plural: str | None = None) -> str:
    """Return ``1 record``, ``2 records``."""
    return f"{count} {noun if count == 1 else plural or noun + 's'}"


def human_bytes(size_bytes: int) -> str:
    """Return a size as a short text: ``17 B``, ``4.0 KiB``, ``1.2 GiB``."""
    if size_bytes < KIBIBYTE:
        return f"{size_bytes} B"
    size, unit = size_bytes / KIBIBYTE, "KiB"
    for larger in ("MiB", "GiB", "TiB"):
        if size < KIBIBYTE:
            break
        size, unit = size / KIBIBYTE, larger
    return f"{size:.1f} {unit}"


def human_time(timestamp: int | None) -> str:
    """Return milliseconds since the epoch as UTC text, ``-`` for none; any int64 has a text."""
    if timestamp is None or timestamp < 0:
        return "-"
    from datetime import UTC, datetime, timedelta

    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=timestamp)
    except OverflowError:
        return f"{timestamp} ms"
    return moment.isoformat(sep=" ", timespec="milliseconds").removesuffix("+00:00") + "Z"


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table to stdout; columns of cells that begin with a digit stand to the right."""
    cells = [list(row) for row in rows]
    numeric = [
        bool(cells) and all(row[n][:1].isdigit() or row[n] == "-" for row in cells)
        for n in range(len(columns))
    ]
    if sys.stdout.isatty() and _print_with_rich(columns, cells, numeric):
        return
    lines = [list(columns), *cells]
    widths = [max(len(line[n]) for line in lines) for n in range(len(columns))]
    for line in lines:
        aligned = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, numeric, strict=True)
        )
        write_line("  ".join(aligned).rstrip())


def _print_with_rich(columns: Sequence[str], rows: list[list[str]], numeric: list[bool]) -> bool:
    try:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text
    except ImportError:
        return False
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name, right in zip(columns, numeric, strict=True):
        table.add_column(name, justify="right" if right else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    sys.stdout.flush()
    Console().print(table)
    return True


class Progress:
    """Progress of long work on stderr: a bar by rich on a terminal, else a plain line now and then.

    Calling it is the ``progress`` callback of the engine: ``progress(label, done, total)``, in any
    unit; it costs almost nothing.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._next_line = time.monotonic() + PLAIN_PROGRESS_SECONDS
        self._bar: Any = None
        self._tasks: dict[str, Any] = {}
        if not quiet and sys.stderr.isatty():
            self._bar = _rich_bar()

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, label: str, done: int, total: int) -> None:
        """Show that *done* of *total* of the work *label* is done."""
        if self._quiet:
            return
        if self._bar is not None:
            if label not in self._tasks:
                self._tasks[label] = self._bar.add_task(label, total=total)
            self._bar.update(self._tasks[label], completed=done, total=total)
            return
        now = time.monotonic()
        if now >= self._next_line:
            self._next_line = now + PLAIN_PROGRESS_SECONDS
            say(f"{label}: {100 * done // max(total, 1)} %")


def _rich_bar() -> Any:
    try:
        from rich.console import Console
        from rich.progress import Progress as RichProgress
    except ImportError:
        return None
    return RichProgress(console=Console(stderr=True), transient=True)
