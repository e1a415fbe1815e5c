"""A directory where a file of the log should be: the open said "not a log directory" of the file.

Which file it is, and what stands there, is all that who has to repair it needs to know.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import segstore
from segstore.errors import NotALogError

FIRST = "00000000000000000000"
FILES = [
    f"{FIRST}.log",
    f"{FIRST}.index",
    f"{FIRST}.timeindex",
    f"{FIRST}.log.swap",
    "00000000000000000003.log",
    "00000000000000000005.snapshot",
    ".lock",
    ".segstore",
    ".segstore.sync-failed",
    ".kafka_cleanshutdown",
    "partition.metadata",
]
CHECKPOINTS = ["leader-epoch-checkpoint", "recovery-point-offset-checkpoint"]
NOT_FOR_READING = {f"{FIRST}.log", ".segstore", "partition.metadata", f"{FIRST}.log.swap"}


@pytest.fixture(params=["close", "close_quietly"])
def stopped(request, new_log):
    log = new_log()
    log.append([(None, b"value")] * 3)
    log.flush()
    getattr(log, request.param)()
    return Path(log.path)


@pytest.mark.parametrize("name", FILES)
def test_the_open_names_it_and_says_what_it_is(stopped, name):
    """[DUR-99] what stands there is left as it is."""
    (stopped / name).unlink(missing_ok=True)
    (stopped / name).mkdir()
    for read_only in (False, True) if name in NOT_FOR_READING else (False,):
        with pytest.raises(NotALogError) as caught:
            segstore.open(stopped, read_only=read_only)
        check_names(caught.value, stopped / name)


def check_names(error: NotALogError, path: Path) -> None:
    assert error.file == str(path)
    assert (error.found, error.expected) == ("a directory", "a regular file")
    assert "not a log directory" not in str(error)
    assert str(error).count("a directory") == 1
    assert path.is_dir()


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_a_file_that_is_written_anew_is_named_and_not_what_would_take_its_place(stopped, name):
    """[DUR-21] it may be lost; but who writes it must say that he cannot."""
    (stopped / name).unlink(missing_ok=True)
    (stopped / name).mkdir()
    with pytest.raises(NotALogError) as caught:
        open_and_append(stopped)
    check_names(caught.value, stopped / name)


def open_and_append(path: Path) -> None:
    with segstore.open(path) as log:
        log.append([(None, b"value")])


def test_a_link_in_its_place(stopped, tmp_path):
    """[DUR-99] none is followed, and the open says so."""
    log_file = stopped / f"{FIRST}.log"
    log_file.rename(tmp_path / "elsewhere")
    log_file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(NotALogError) as caught:
        segstore.open(stopped)
    assert caught.value.file == str(log_file)
    assert caught.value.expected == "a regular file"
