"""A log start that cannot be read: "everything is checked again", "the next open builds it anew".

It is nowhere else unless the log was closed cleanly: records that were deleted show again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import segstore
from segstore import cli
from segstore.log.check.partition_check import check_partition
from segstore.log.findings.finding import Action, FindingCode

if TYPE_CHECKING:
    from pathlib import Path

CHECKPOINT = "log-start-offset-checkpoint"
LOG_START = 6


@pytest.fixture(params=["close", "close_quietly"])
def stopped(request, new_log, tmp_path) -> tuple[Path, bool]:
    """Two segments of four records, of which six were deleted; and whether it was closed."""
    log = new_log()
    for number in range(8):
        if number == 4:
            log.roll()
        log.append([(None, b"value %d" % number)])
    log.flush()
    log.delete_records(LOG_START)
    getattr(log, request.param)()
    path = tmp_path / "topic-0"
    data = bytearray((path / CHECKPOINT).read_bytes())
    data[0] ^= 0x40
    (path / CHECKPOINT).write_bytes(data)
    return path, request.param == "close"


def test_what_it_means_and_what_to_do(stopped, capsys):
    """[DUR-21, DUR-65] What verify says is what the open then does."""
    path, was_closed = stopped
    (finding,) = check_partition(str(path)).findings
    code = cli.main(["recover", "--dry-run", "-q", str(path)])
    out = capsys.readouterr().out

    assert finding.file == CHECKPOINT
    assert f"[{finding.code}]" in out
    assert (finding.repaired, code) == (True, 0)  # the file can be read then
    if was_closed:
        assert (finding.code, finding.action) == (FindingCode.CHECKPOINT_CORRUPT, Action.RECOVER)
        assert finding.expected == f"the log start {LOG_START}, as in .kafka_cleanshutdown"
    else:
        assert finding.code == FindingCode.LOG_START_UNKNOWN
        assert (finding.action, finding.expected) == (
            Action.RESTORE_FIRST,
            "an integer up to 2147483647",
        )
    with segstore.open(path) as log:
        assert log.log_start_offset == (LOG_START if was_closed else 4)


def test_that_of_the_log_directory(new_log, tmp_path):
    """[DUR-21] The partition has its own: that one stays true."""
    log = new_log()
    log.append([(None, b"x")] * 8)
    log.flush()
    log.delete_records(LOG_START)
    log.close_quietly()
    (tmp_path / CHECKPOINT).write_text("what is this\n")

    (finding,) = check_partition(str(tmp_path / "topic-0")).findings

    assert finding.file == f"../{CHECKPOINT}"
    assert finding.expected == f"the log start {LOG_START}, as in {CHECKPOINT}"


@pytest.mark.parametrize("above", [4, LOG_START, 7])
def test_that_of_the_log_directory_for_the_own(stopped, above):
    """[DUR-21, DUR-65] Of the marker and the checkpoint above the greater one counts."""
    path, was_closed = stopped
    (path.parent / CHECKPOINT).write_text(f"0\n1\ntopic 0 {above}\n")
    start = max(above, LOG_START) if was_closed else above
    where = ".kafka_cleanshutdown" if was_closed and above <= LOG_START else f"../{CHECKPOINT}"

    check = check_partition(str(path))

    (finding,) = check.findings
    assert finding.expected == f"the log start {start}, as in {where}"
    may_be_older = not was_closed
    assert (finding.code == FindingCode.LOG_START_UNKNOWN) is may_be_older
    assert (finding.action == Action.RESTORE_FIRST) is may_be_older
    assert check.log_start_offset == start
    with segstore.open(path) as log:
        assert log.log_start_offset == start
