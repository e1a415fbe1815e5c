"""A metadata log and its snapshot may hold any bytes: an image, or an error that says where.

[DUR-85, DUR-103, RAFT-47, RAFT-48]
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from segstore.errors import CorruptLogError
from segstore.log.files.metadata_image import MetadataImage
from segstore.log.files.metadata_image_reader import read_metadata_image
from tests.fuzz.mutations import anything_like, outcome
from tests.interop.message_writer import framed_values
from tests.kits.metadata_kit import (
    SCHEMAS,
    metadata_batch,
    snapshot_bytes,
    topic_records,
    write_metadata_log,
    write_snapshot,
)

if TYPE_CHECKING:
    import pytest

RECORDS = framed_values(SCHEMAS, Random(30), 2)
LOG = metadata_batch(2, topic_records("clicks")) + metadata_batch(4, topic_records("orders"))
SNAPSHOT = snapshot_bytes([topic_records()])


def check(folder: str) -> None:
    image, error = outcome(lambda: read_metadata_image(folder), CorruptLogError)

    assert isinstance(image, MetadataImage) or (error.file and error.found and error.expected)


@given(anything_like(st.just(LOG)))
def test_any_log(tmp_path_factory: pytest.TempPathFactory, log: bytes):
    directory = write_metadata_log(tmp_path_factory.mktemp("log"), {2: log})
    write_snapshot(directory, 2, SNAPSHOT)

    check(str(directory))


@given(anything_like(st.just(SNAPSHOT)))
def test_any_snapshot(tmp_path_factory: pytest.TempPathFactory, snapshot: bytes):
    directory = write_metadata_log(tmp_path_factory.mktemp("log"), {2: LOG})
    write_snapshot(directory, 2, snapshot)

    check(str(directory))


@given(st.lists(anything_like(st.sampled_from(RECORDS)), max_size=4))
def test_any_records(tmp_path_factory: pytest.TempPathFactory, records: list[bytes]):
    """With right checksums."""
    values = [*topic_records(), *records]
    directory = write_metadata_log(tmp_path_factory.mktemp("log"), {0: metadata_batch(0, values)})

    check(str(directory))
