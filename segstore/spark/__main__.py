"""``python -m segstore.spark COMMAND …``: jobs over many partitions; ``spark-submit`` takes it too.

``spark-submit "$(python -m segstore.spark --file)" verify data``: with the master and the settings
that ``spark-submit`` was given. Exit codes are those of ``segstore``: 0 clean, 1 findings or
errors, 2 usage, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

MAINTENANCE: Final = frozenset({"compact", "retain", "maintain"})
EXIT_CLEAN, EXIT_FINDINGS, EXIT_USAGE, EXIT_INTERRUPTED = 0, 1, 2, 130
SECONDS_BETWEEN_LINES: Final = 2.0
_KEYWORDS: Final = frozenset(
    {"state", "progress", "path", "now", "memory_bytes", "lock_timeout", "min_dirty_ratio"}
)
"""Of the functions, beside the options of a read."""

COMMANDS: Final = {
    "verify": "check every batch and index entry",
    "recover": "repair what a crash left",
    "stats": "count records, batches and bytes, by batch headers",
    "plan-compaction": "say what compaction by key would leave; changes nothing",
    "compact": "keep the last record of each key, in compacted topics",
    "retain": "delete the segments that the limits of topics do not keep",
    "maintain": "retain, then compact, where the settings of topics say that it is due",
    "export": "write records to Parquet, with offsets, timestamps and headers",
    "import": "make logs of an export",
}


def build_parser() -> argparse.ArgumentParser:
    """Build the parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="segstore.spark",
        description="Jobs over many partitions, on Spark. Each may be repeated, and goes on with "
        "what is not done.",
    )
    parser.add_argument("--file", action="store_true", help="print the file for spark-submit")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command")
    for name, summary in COMMANDS.items():
        command = commands.add_parser(name, help=summary, description=summary)
        if name == "import":
            command.add_argument("source", metavar="EXPORT", help="folder of Parquet files")
            command.add_argument(
                "--allow-gaps", action="store_true", help="files may be missing between others"
            )
        if name in MAINTENANCE:
            command.add_argument("path", metavar="PATH", nargs="+", help="a log directory")
            command.add_argument(
                "--wait",
                dest="lock_timeout",
                type=float,
                metavar="SECONDS",
                help="how long to wait for a partition that another process writes",
            )
        else:
            command.add_argument("path", metavar="PATH", help="the log directory")
        if name == "compact":
            command.add_argument(
                "--min-dirty-ratio", type=float, metavar="RATIO", help="only what has more, 0 to 1"
            )
        if name == "export":
            command.add_argument("target", metavar="EXPORT", help="folder for Parquet files")
        if name in {"export", "import"}:
            command.add_argument("--compression", metavar="NAME", help="of files, or of batches")
        if name in {"verify", "stats", "plan-compaction"}:
            command.add_argument("--state", metavar="DIR", help="folder that keeps results")
        if name != "import":
            command.add_argument(
                "--option",
                action="append",
                default=[],
                metavar="NAME=VALUE",
                help="as of format('segstore'): subscribe=orders",
            )
        command.add_argument("--json", action="store_true", help="the report as one JSON object")
        command.add_argument("-q", dest="quiet", action="store_true", help="no progress on stderr")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    parser = build_parser()
    try:
        arguments = parser.parse_args(argv)
    except SystemExit as leaving:  # argparse has said what is wrong, or printed the help
        return leaving.code if isinstance(leaving.code, int) else EXIT_USAGE
    if arguments.file:
        print(Path(__file__).resolve())  # noqa: T201 - what was asked for
        return EXIT_CLEAN
    if arguments.command is None:
        parser.print_usage(sys.stderr)
        return EXIT_USAGE
    try:
        return _run(arguments)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def _run(arguments: argparse.Namespace) -> int:
    from segstore.errors import IllegalArgumentError, LogNotFoundError, NotALogError, SegstoreError

    try:
        options = dict(_name_and_value(text) for text in getattr(arguments, "option", ()))
        report = _report_of(arguments, options)
    except (IllegalArgumentError, LogNotFoundError, NotALogError) as error:
        _say(f"segstore.spark: {error}")
        return EXIT_USAGE
    except (SegstoreError, OSError) as error:
        _say(f"segstore.spark: {type(error).__name__}: {error}")
        return EXIT_FINDINGS
    print(json.dumps(report.to_dict()) if arguments.json else report)  # noqa: T201
    locked = sum(bool(one.get("is_locked")) for one in report.results.values())
    if locked:
        _say(
            f"segstore.spark: {locked} of {len(report.items)} partitions were left alone: other"
            " processes have them open for writing"
        )
    return EXIT_CLEAN if report.ok else EXIT_FINDINGS


def _report_of(arguments: argparse.Namespace, options: dict[str, str]) -> Any:
    from segstore.spark.session import session

    spark = session(f"segstore {arguments.command}")
    from segstore.spark import jobs  # behind the session, which finds what PySpark needs

    given: dict[str, Any] = {"progress": None if arguments.quiet else ProgressLines(), **options}
    for name in ("state", "compression", "lock_timeout", "min_dirty_ratio"):
        if getattr(arguments, name, None) is not None:
            given[name] = getattr(arguments, name)
    if getattr(arguments, "allow_gaps", False):
        given["allow_gaps"] = True
    paths = [getattr(arguments, name, None) for name in ("source", "path", "target")]
    return jobs.COMMANDS[arguments.command](spark, *(one for one in paths if one), **given)


def _name_and_value(text: str) -> tuple[str, str]:
    from segstore.errors import IllegalArgumentError

    name, found, value = text.partition("=")
    if not found or not name or name.lower() in _KEYWORDS:
        raise IllegalArgumentError(
            f"--option {text}: this is no option of a read",
            found=text,
            expected="NAME=VALUE, as subscribe=orders",
        )
    return name, value


class ProgressLines:
    """A line on stderr now and then; short work is silent."""

    def __init__(self) -> None:
        self._next = time.monotonic() + SECONDS_BETWEEN_LINES

    def __call__(self, name: str, done: int, total: int) -> None:
        """Tell that *done* of *total* is done."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + SECONDS_BETWEEN_LINES
            _say(f"{name}: {done} of {total}")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201


if __name__ == "__main__":
    here = Path(__file__).resolve()
    if sys.path and Path(sys.path[0]).resolve() == here.parent:  # run as a file, by spark-submit
        sys.path[0] = str(here.parents[2])
    sys.exit(main())
