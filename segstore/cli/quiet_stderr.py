"""The words of a process and its children on stderr, kept in a file and shown only on failure."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from segstore.cli.output import say

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SHOWN_LINES = 40


@contextmanager
def stderr_to(path: Path) -> Iterator[None]:
    """Send what this process and those that it starts write to stderr to the file *path*.

    A program that is started inside keeps the file when the block is left: so do Spark's Java and
    its Python workers, which write until after their session was stopped. Of an exception's reason
    the last lines of the file are shown.

    Parameters
    ----------
    path : Path
        Made anew.
    """
    sys.stderr.flush()
    before = os.dup(2)
    try:
        target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        os.dup2(target, 2)
        os.close(target)
        failed = True
        try:
            yield
            failed = False
        finally:
            sys.stderr.flush()
            os.dup2(before, 2)
            if failed:
                show_end(path)
    finally:
        os.close(before)


def show_end(path: Path) -> None:
    """Write the last lines of the file to stderr."""
    lines = path.read_text("utf-8", "replace").splitlines()
    for line in lines[-SHOWN_LINES:]:
        say(f"  {line}")
