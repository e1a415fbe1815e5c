"""A stream with wrong options: its error is the last thing said, not one of Spark's own."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark.sql.datasource")

from segstore.spark.conditions import ConnectorOptionError
from segstore.spark.datasource import SegstoreDataSource
from segstore.spark.schema import connector_schema


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"endingOffsets": "latest"}, "a stream has no end"),
        ({"kind": "segments"}, "kind=segments"),
    ],
)
def test_the_first_call_says_it(tmp_path, options, said):
    source = SegstoreDataSource({"path": str(tmp_path), "subscribe": "t", **options})
    reader = source.streamReader(connector_schema(include_headers=False))
    for call in (reader.initialOffset, reader.latestOffset, lambda: reader.partitions({}, {})):
        with pytest.raises(ConnectorOptionError, match=said):
            call()
    reader.stop()
