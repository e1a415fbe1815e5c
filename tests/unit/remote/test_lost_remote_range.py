"""Records at a URL that are deleted while a task reads: told, and never a loss that is none."""

from __future__ import annotations

import shutil

import pytest

pytest.importorskip("pyspark.sql.datasource")

import segstore
from segstore.spark.conditions import ConnectorConditionError
from segstore.spark.mapped_ranges import options_of_call
from segstore.spark.range_reader import RangeReader
from segstore.spark.schema import columns_of, connector_schema
from segstore.tables.offset_ranges import OffsetRange
from tests.kits.remote_directories import upload

WHOLE = OffsetRange("orders", 0, 0, 2000)


@pytest.fixture
def url(directory):
    return upload(directory)


def reader_of(url, tmp_path, *, fail):
    options = {"spoolDirectory": str(tmp_path / "spool"), "failOnDataLoss": fail}
    return RangeReader(
        options_of_call(url, options), columns_of(connector_schema(include_headers=False))
    )


def offsets_of(batches):
    return [offset for batch in batches for offset in batch.column("offset").to_pylist()]


def delete_below(directory, url, offset):
    with segstore.open(directory / "orders-0", durability="none", file_delete_delay_ms=0) as log:
        log.delete_records(offset)
        log.delete_old_segments()
    upload(directory, url)


def test_a_query_that_must_not_lose_data_says_what_is_gone(directory, url, tmp_path):
    batches = reader_of(url, tmp_path, fail=True).read_range(WHOLE)
    assert offsets_of([next(batches)]) == [*range(100)]
    delete_below(directory, url, 550)

    with pytest.raises(ConnectorConditionError, match=r"KAFKA_DATA_LOSS.*\[550, ") as caught:
        list(batches)
    assert caught.value.condition == "KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE"


def test_another_query_goes_on_and_says_what_it_left_out(directory, url, tmp_path):
    batches = reader_of(url, tmp_path, fail=False).read_range(WHOLE)
    first = offsets_of([next(batches)])
    delete_below(directory, url, 550)

    with pytest.warns(UserWarning, match="orders-0.*550"):
        assert first + offsets_of(batches) == [*range(100), *range(550, 2000)]


def test_what_was_read_before_it_went_is_no_loss(directory, url, tmp_path):
    batches = reader_of(url, tmp_path, fail=True).read_range(WHOLE)
    first = offsets_of([next(batches)])
    delete_below(directory, url, 100)

    assert first + offsets_of(batches) == [*range(2000)]


def test_nor_is_it_when_the_partition_is_looked_at_again(directory, url, tmp_path):
    """A writer went on, so the last segment is another object than the one that was listed."""
    batches = reader_of(url, tmp_path, fail=True).read_range(WHOLE)
    first = offsets_of([next(batches)])
    with segstore.open(directory / "orders-0", durability="none") as log:
        log.append([(b"key", b"one more")])
    delete_below(directory, url, 100)

    assert first + offsets_of(batches) == [*range(2000)]


@pytest.mark.parametrize("fail", [True, False])
def test_a_spool_that_was_cleaned_up_is_made_again(url, tmp_path, fail):
    """By whatever cleans temporary folders, between two tasks of a worker that lives for long."""
    reader = reader_of(url, tmp_path, fail=fail)
    assert offsets_of(reader.read_range(WHOLE)) == [*range(2000)]
    shutil.rmtree(tmp_path / "spool")

    assert offsets_of(reader.read_range(WHOLE)) == [*range(2000)]


@pytest.mark.parametrize("fail", [True, False])
def test_a_url_with_nothing_is_no_deleted_partition(directory, url, tmp_path, fail):
    reader = reader_of(url, tmp_path, fail=fail)
    shutil.rmtree(directory / "orders-0")
    upload(directory, url)

    with pytest.raises(FileNotFoundError):
        list(reader.read_range(WHOLE))
