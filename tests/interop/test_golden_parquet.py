"""A broker's logs to Parquet and back: the restored ones answer as they did."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

import segstore
from segstore.errors import CorruptLogError, CorruptRecordError, NotALogError
from segstore.log.files.partition_directory import is_partition_directory_name
from tests.kits.same_logs import check_same_logs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from segstore import Log


def logs_in(golden: Path) -> Iterator[tuple[Path, Log]]:
    """Every partition that can be read to its end, of every folder of every case."""
    for path in sorted(golden.glob("*/data*/*")):
        if not (path.is_dir() and is_partition_directory_name(path.name)):
            continue
        try:
            log = segstore.open(path, read_only=True)
        except (NotALogError, CorruptLogError):
            continue
        with log:
            if log.report.damage is None:
                yield path, log


def test_every_log_comes_back_from_a_file(
    golden: Path, tmp_path: Path, check_compared: Callable[..., None]
):
    """Records at their offsets, headers, times, gaps, markers, committed view, epochs, batches."""
    compared = 0
    for path, log in logs_in(golden):
        file, back = tmp_path / "out.parquet", tmp_path / path.name
        try:
            report = segstore.export_parquet(log, file, verify=True)
        except CorruptRecordError:  # of a case with a flipped bit
            assert [*tmp_path.iterdir()] == []
            continue
        (done,) = segstore.import_parquet(file, back, verify=True)
        with segstore.open(back, read_only=True) as restored:
            check_same_logs(log, restored)
        assert (
            report.records == done.records == pq.read_metadata(file).num_rows == log.scan().count()
        )
        file.unlink()
        shutil.rmtree(back)
        compared += 1
    check_compared(compared, at_least=20)


def test_a_committed_export_of_every_log_keeps_its_records_and_its_ends(
    golden: Path, tmp_path: Path, check_compared: Callable[..., None]
):
    """The log ended after its last record, one offset early where a marker was last."""
    compared = 0
    for path, log in logs_in(golden):
        file, back = tmp_path / "out.parquet", tmp_path / path.name
        try:
            segstore.export_parquet(log, file, isolation="read_committed")
        except CorruptRecordError:  # of a case with a flipped bit
            continue
        segstore.import_parquet(file, back, verify=True)
        with segstore.open(back, read_only=True) as restored:
            assert restored.log_start_offset == log.log_start_offset
            assert restored.log_end_offset == log.last_stable_offset
            expected, found = (
                [(one.offset, one.key, one.value) for one in scan]
                for scan in (log.scan(isolation="read_committed"), restored.scan())
            )
            assert found == expected, path
        file.unlink()
        shutil.rmtree(back)
        compared += 1
    check_compared(compared, at_least=20)
