"""Texts that say what is wrong with a damaged log, and how to recover its records."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

from segstore.errors import CorruptLogError, SegstoreError

if TYPE_CHECKING:
    from collections.abc import Sequence

WAY_BACK: Final = (
    "to put them back, copy these files as <base offset>.log into an empty directory elsewhere"
    " with the partition's name, and run `segstore salvage` on it; join files with the same base"
    " offset into one .log, in the order of the offsets that `segstore verify` lists"
)
"""Not into the log: its log start and its clean shutdown marker describe what came after them."""

MOST_NAMES: Final = 5
"""So many files a sentence names; of more their rule."""


def salvage_hint(path: str) -> str:
    """Name the command that saves what is left of the log at *path*, as it is typed."""
    return (
        f"`segstore salvage {shlex.quote(path)} TARGET`, or recovery='salvage' with target= of"
        " segstore.open, copies what can be proven of it into a new log"
    )


def recovery_advice(path: str) -> str:
    """Say how to read the records of a log that an open for writing refuses."""
    return f"read_only=True opens the log as it is, and {salvage_hint(path)}"


def way_on(path: str, first_offset: int, offset: int | None, *, committed: bool = False) -> str:
    """Say where a reader of the log or file at *path* goes on after damage, and how.

    Parameters
    ----------
    first_offset : int
        Of those that cannot be read.
    offset : int or None
        Of the next whole batch; None = there is none.
    committed : bool
        A reader of committed data cannot begin there: it would not know what is aborted.
    """
    if offset is None:
        return "no whole batch follows"
    found = f"the next readable offset is {offset}"
    command = f"`segstore cat --skip-damaged {shlex.quote(path)}`"
    if not committed:
        begin = f"`segstore cat -o {offset} {shlex.quote(path)}`, or scan({offset}), begins there"
        command = f"{begin}; {command}"
        if offset > first_offset:  # else bytes that are no batch hide none
            found = f"{_offsets(first_offset, offset)} cannot be read; {found}"
    return (
        f"{found}: {command}, or scan(on_damage='skip'), leaves out what is damaged and says what"
        " that was"
    )


def _range(first_offset: int, next_offset: int) -> str:
    last_offset = next_offset - 1
    return str(first_offset) if last_offset == first_offset else f"{first_offset} to {last_offset}"


def _offsets(first_offset: int, next_offset: int) -> str:
    is_one = next_offset - 1 == first_offset
    return f"offset{'' if is_one else 's'} {_range(first_offset, next_offset)}"


def corrupt_log(error: SegstoreError, what: str) -> CorruptLogError:
    """Return what *error*, met where no record was asked for, says of the log: *what* is added."""
    return CorruptLogError(
        f"{error.message}; {what}",
        file=error.file,
        position=error.position,
        found=error.found,
        expected=error.expected,
    )


def missing_records(first_offset: int, next_offset: int) -> str:
    """Say that the records from *first_offset* to below *next_offset* are missing."""
    return missing_runs([(first_offset, next_offset)])


def unread_records(first_offset: int, next_offset: int, file: str) -> str:
    """Say that *file* has these records beyond the base offset of a later segment."""
    return (
        f"{_offsets(first_offset, next_offset)} cannot be read: {file} has records there, but a"
        " later segment begins before them"
    )


def missing_runs(runs: Sequence[tuple[int, int]]) -> str:
    """Do as `missing_records`, for the first offset and the next one of several runs."""
    names = [_range(first, end) for first, end in runs]
    if names == [str(runs[0][0])]:
        return f"record {names[0]} is missing"
    return f"records {', '.join(names)} are missing"


def restart_warning(log_start_offset: int, names: Sequence[str], lost: str = "") -> str:
    """Say that a log begins again, where the old one is, and how to put it back.

    *lost* says which quarantine files are gone.
    """
    warning = f"the log start {log_start_offset} lies above the end: the log begins again there"
    if names:
        warning += (
            f", and its old records are in quarantine: {listed(names)}; if this log start is wrong,"
            f" {WAY_BACK}"
        )
    return f"{warning}; {lost}" if lost else warning


def listed(words: Sequence[str]) -> str:
    """Return *words* as a sentence has them; of many the first, and how many more."""
    if len(words) > MOST_NAMES:
        return f"{words[0]} and {len(words) - 1} more"
    return " and ".join(part for part in (", ".join(words[:-1]), *words[-1:]) if part)
