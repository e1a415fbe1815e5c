"""An import of an export that was killed made a log with a hole, and said that all was well.

When the export was finished later, the second import was refused: the records of the hole could
never come in.
"""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark")

import segstore
from segstore.errors import CorruptLogError
from segstore.spark.mapped_ranges import options_of_call
from segstore.spark.open_logs import OPEN_LOGS
from segstore.spark.parquet_export import ExportTask
from segstore.spark.parquet_files import exported_files, file_name_of
from segstore.spark.parquet_import import PartitionImport, import_partition
from segstore.spark.ranges import OffsetRange
from segstore.types import Codec

FIRST, MIDDLE, LAST = (OffsetRange("t", 0, start, start + 100) for start in (0, 100, 200))


@pytest.fixture
def export(tmp_path):
    """An export of three files, of which the middle one is not there yet; and what writes it."""
    with segstore.open(tmp_path / "data" / "t-0", durability="none") as log:
        log.append([(None, b"%d" % number) for number in range(300)])
    (tmp_path / "files").mkdir()
    options = options_of_call(str(tmp_path / "data"), {"subscribe": "t"})
    task = ExportTask(options, str(tmp_path / "files"), "zstd")
    task(FIRST)
    task(LAST)
    yield task
    OPEN_LOGS.close()


def work_of(folder, **given):
    files = tuple(exported_files(str(folder / "files")))
    return PartitionImport(files, str(folder / "back" / "t-0"), Codec.NONE, **given)


def test_a_missing_file_is_refused_and_comes_in_later(export, tmp_path):
    with pytest.raises(CorruptLogError, match="offsets 100 to 199 are in no file") as refused:
        import_partition(work_of(tmp_path))

    assert file_name_of(FIRST) in str(refused.value)
    assert Path(refused.value.file).name == file_name_of(LAST)
    assert not (tmp_path / "back").exists()

    export(MIDDLE)
    assert import_partition(work_of(tmp_path)) == {"records": 300, "log_end_offset": 300}


@pytest.mark.usefixtures("export")
def test_a_gap_may_be_wanted(tmp_path):
    found = import_partition(work_of(tmp_path, allow_gaps=True))

    assert found == {"records": 200, "log_end_offset": 300}
    with segstore.open(tmp_path / "back" / "t-0", read_only=True) as log:
        assert [record.offset for record in log] == [*range(100), *range(200, 300)]


@pytest.mark.usefixtures("export")
def test_files_of_two_isolations_are_no_export(tmp_path):
    """Only the first file of the folder was looked at, and only by an export."""
    options = options_of_call(
        str(tmp_path / "data"), {"subscribe": "t", "isolation.level": "read_committed"}
    )
    ExportTask(options, str(tmp_path / "files"), "zstd")(MIDDLE)

    with pytest.raises(CorruptLogError, match=r"isolation\.level read_committed") as refused:
        import_partition(work_of(tmp_path))
    assert Path(refused.value.file).name == file_name_of(MIDDLE)
