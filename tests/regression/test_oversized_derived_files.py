"""A derived file too large to be one: a clean open for writing failed on an oversized index.

[DUR-8] A derived file never stops an open: it is rebuilt or bypassed, and the report says so. What
else of the kind was looked for: each file of a partition directory but the ``.log``, in logs that
were closed cleanly and in killed ones, opened for reading and for writing. The clean marker,
``.segstore`` and ``partition.metadata`` stopped each open too; the indexes of sealed segments
stopped the truncation, the append and the roll behind them. Snapshots, checkpoints and checksum
files were right. `verify` and `inspect` ended with an error at an index above 2^31 - 1 bytes, and
at a snapshot, a checkpoint or a ``.segstore`` above 64 MiB; and so did the check behind `recover`.
"""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import pytest

import segstore
from segstore import cli
from segstore.log.check.partition_check import check_partition
from segstore.types import SpecialTimestamp
from tests.kits.log_kit import TIME

RECORDS = 20
TOPIC_ID = uuid.UUID(int=7)
TOO_LARGE = 3 << 30  # sparse: above 2^31 - 1, the most bytes of a mapping
ABOVE_THE_INDEX_LIMIT = 70 << 20  # above 64 MiB, which an index that is read has at most [DUR-102]
CLEAN_MARKER = ".kafka_cleanshutdown"
SEALED, ACTIVE = "0" * 20, f"{18:020}"


@pytest.fixture(params=["close", "close_quietly"])
def stopped(request, new_log):
    """Four segments, the files of each; closed cleanly or killed."""
    log = new_log(internal_segment_bytes=20000, topic_id=TOPIC_ID, checksum_sidecar=True)
    for number in range(RECORDS):
        log.append([(TIME + number, None, b"x" * 3000)])
    log.flush()
    log.segments()[0].find_max_timestamp()
    getattr(log, request.param)()
    return Path(log.path)


def derived_files(path: Path) -> list[str]:
    names = sorted(file.name for file in path.iterdir())
    return [name for name in names if not name.endswith((".log", ".lock"))]


def records(log: segstore.UnifiedLog) -> list[int]:
    return [record.timestamp - TIME for record in log.read(0)]


@pytest.mark.parametrize("size", [ABOVE_THE_INDEX_LIMIT, TOO_LARGE])
def test_every_derived_file(stopped, size):
    """[DUR-8, DUR-97] each in turn: for reading, then for writing with an append and a close."""
    for name in derived_files(stopped):
        if not (stopped / name).exists():
            continue  # the open before has removed what it does not need
        os.truncate(stopped / name, size)
        with segstore.open(stopped, read_only=True) as log:
            assert records(log)[:RECORDS] == list(range(RECORDS)), name
        with segstore.open(stopped, internal_segment_bytes=20000) as log:
            end = log.log_end_offset
            assert records(log) == list(range(end)), name
            assert log.append([(TIME + end, None, b"more")]).base_offset == end, name
        with segstore.open(stopped) as log:
            assert log.report.clean, name
            assert records(log) == list(range(end + 1)), name


@pytest.mark.parametrize("kind", ["index", "timeindex"])
@pytest.mark.parametrize("size", [TOO_LARGE])
def test_the_index_of_the_active_segment_is_rebuilt_and_reported(stopped, kind, size):
    """[DUR-52, DUR-58] the file is what it was before."""
    name = f"{ACTIVE}.{kind}"
    segstore.open(stopped).close()
    before = (stopped / name).read_bytes()
    os.truncate(stopped / name, size)

    with segstore.open(stopped) as log:
        assert name in log.report.rebuilt
        assert log.fetch_offset_by_timestamp(SpecialTimestamp.MAX).offset == RECORDS - 1
    assert (stopped / name).read_bytes() == before


@pytest.mark.parametrize("kind", ["index", "timeindex"])
def test_the_index_of_a_sealed_segment_is_rebuilt_at_the_latest_by_the_close(stopped, kind):
    """[DUR-25] after a clean close only its first use finds it."""
    name = f"{SEALED}.{kind}"
    segstore.open(stopped).close()
    before = (stopped / name).read_bytes()
    assert before
    os.truncate(stopped / name, TOO_LARGE)

    with segstore.open(stopped) as log:
        assert [log.offset_for_timestamp(TIME + number) for number in range(6)] == list(range(6))
    assert (stopped / name).read_bytes() == before


@pytest.mark.parametrize("kind", ["index", "timeindex"])
def test_a_truncation_into_a_segment_with_such_an_index(stopped, kind):
    """[DUR-25] appends, full indexes and the next roll ask for the index as well."""
    segstore.open(stopped).close()
    os.truncate(stopped / f"{SEALED}.{kind}", TOO_LARGE)

    with segstore.open(stopped, internal_segment_bytes=20000) as log:
        log.truncate_to(3)
        for number in range(3, 12):
            log.append([(TIME + number, None, b"x" * 3000)])
        assert records(log) == list(range(12))
        assert len(log.segments()) > 1
    with segstore.open(stopped) as log:
        assert records(log) == list(range(12))


def test_what_the_command_line_says_of_each(stopped, capsys):
    """[DUR-8, DUR-53, DUR-65] a finding that names it, no error; what is left behind is right."""
    segstore.open(stopped).close()  # what a killed log lacks
    log_start = stopped / "log-start-offset-checkpoint"
    log_start.write_bytes(b"0\n0\n")
    for name in derived_files(stopped):
        if not (stopped / name).exists():
            continue  # recover has removed the checksums of what is not as it was
        os.truncate(stopped / name, TOO_LARGE)
        found = check_partition(str(stopped)).findings
        told = [finding.file for finding in found]
        assert told == [name] * (name != CLEAN_MARKER), name  # an open reads more then
        assert cli.main(["inspect", str(stopped)]) == 0, name
        if found and not found[0].repaired:
            (stopped / name).unlink()  # as the advice is
        assert cli.main(["recover", str(stopped)]) == 0, name
        assert check_partition(str(stopped)).findings == [], name
    assert "LimitExceededError" not in capsys.readouterr().err
