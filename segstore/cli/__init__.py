"""The ``segstore`` command: one file a command, the engine imported only by the command that runs.

Exit codes: 0 clean, 1 findings or an error, 2 wrong usage (also a path that is not there), 130
after Ctrl-C, 141 when the reader of our output went away. The last two come without a word; after
Ctrl-C ``append`` and ``recover`` say what they did. ``dump`` without files is 1, as Kafka's tool
has it.
"""

from __future__ import annotations

import argparse
import os
import sys
from importlib import import_module
from keyword import iskeyword
from typing import TYPE_CHECKING

from segstore import __version__
from segstore.cli.output import UsageError, begin_command, say
from segstore.errors import (
    IllegalArgumentError,
    InvalidTopicError,
    LogNotFoundError,
    NotALogError,
    SegstoreError,
    UnknownTopicOrPartitionError,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]

EXIT_CLEAN = 0
EXIT_FINDINGS = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141

COMMANDS = {
    "append": "append lines of stdin as records",
    "cat": "print records",
    "tail": "print the last records, follow with -f",
    "dump": "print log, index and state files as kafka-dump-log does",
    "ls": "list topics and partitions",
    "topics": "create, alter, describe, delete and list topics",
    "retain": "delete what retention does not keep, or show it",
    "compact": "keep the last record of each key, or show the gain",
    "inspect": "show segments, indexes, codecs, checkpoints",
    "metadata": "show topics, settings and brokers of a metadata log",
    "verify": "check every batch, index and checkpoint",
    "scrub": "check the sealed segments from the disk itself, slowly",
    "recover": "repair what a crash left, report what was done",
    "move": "move partitions to another log directory",
    "maintain": "delete what retention does not keep, write checkpoints, until Ctrl-C",
    "abort-transaction": "end an open transaction that hangs",
    "export": "write records to Parquet files, to be read or restored",
    "import": "restore logs from exported Parquet files",
    "restore-bucket": "write partitions of a tiered bucket as a broker's directories",
    "salvage": "copy what is left of a damaged log into a new one",
    "pipeline": "run real data through logs on Spark, kill the driver, compare the totals",
    "demo": "write, kill, recover and query a log of real data",
}
"""Name and summary; the module of that name (`module_of`) has ``register`` and ``run``."""

USAGE_ERRORS = (
    UsageError,
    IllegalArgumentError,
    InvalidTopicError,
    LogNotFoundError,
    NotALogError,
    UnknownTopicOrPartitionError,
)
"""What the user typed does not fit: a finding about a log is never one of these."""


def module_of(command: str) -> str:
    """Return the name of the module of *command*: no word of Python is one."""
    return f"{command}_" if iskeyword(command) else command.replace("-", "_")


def build_parser(argv: Sequence[str]) -> argparse.ArgumentParser:
    """Build the parser; of the commands, only the one that *argv* names is imported."""
    parser = argparse.ArgumentParser(
        prog="segstore",
        description="Apache Kafka's partition logs, without Kafka: write, read, inspect, repair.",
        epilog="Exit codes: 0 clean, 1 findings or an error, 2 usage, 130 after Ctrl-C, 141 when "
        "the reader of the output went away.",
    )
    parser.add_argument("--version", action="version", version=f"segstore {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, summary in COMMANDS.items():
        command = commands.add_parser(name, help=summary)
        if name in argv:
            module = import_module(f"segstore.cli.{module_of(name)}")
            module.register(command)
            command.set_defaults(run=module.run)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments without the program's name; by default those of the process.

    Returns
    -------
    int
        The exit code; nothing but a bug leaves this function as an exception.
    """
    typed = sys.argv[1:] if argv is None else argv
    try:
        arguments = build_parser(typed).parse_args(typed)
    except SystemExit as leaving:  # argparse has said what is wrong, or printed the help
        return leaving.code if isinstance(leaving.code, int) else EXIT_USAGE
    begin_command()
    try:
        code: int = arguments.run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # what is still buffered would fail again when the interpreter flushes it at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_BROKEN_PIPE
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except USAGE_ERRORS as error:
        say(f"segstore: {error}")
        return EXIT_USAGE
    except (SegstoreError, OSError) as error:
        sys.stdout.flush()
        say(f"segstore: {type(error).__name__}: {error}")
        return EXIT_FINDINGS
    return code
