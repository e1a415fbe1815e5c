"""``meta.properties``, as Java reads it; tests/interop compares with Kafka's own reader."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segstore._core import Directory
from segstore.errors import CorruptCheckpointError
from segstore.log.files.checkpoints import MAX_MARKER_BYTES
from segstore.log.files.meta_properties import parse_meta_properties, read_meta_properties
from tests.fuzz.mutations import outcome

if TYPE_CHECKING:
    from pathlib import Path

KAFKAS = b"""#
#Sat Nov 21 09:30:56 UTC 2026
node.id=1
directory.id=iVFYOAYh_RjKhLKvF1gyUw
version=1
cluster.id=GoldJC2t207XloCseQ2fnA
"""
DIRECTORY_ID = UUID("89515838-0621-fd18-ca84-b2af17583253")


def test_a_file_of_kafka(tmp_path: Path):
    """[format.md 15.3] Its bytes are kept: a later Kafka may have other keys."""
    (tmp_path / "meta.properties").write_bytes(KAFKAS + b"later=1\n")

    with closing(Directory(str(tmp_path))) as directory:
        found = read_meta_properties(directory)

    assert found == (1, "GoldJC2t207XloCseQ2fnA", 1, DIRECTORY_ID, KAFKAS + b"later=1\n")


def test_a_directory_without_the_file(tmp_path: Path):
    """[MGR-9] It has no ids."""
    with closing(Directory(str(tmp_path))) as directory:
        assert read_meta_properties(directory) is None


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", (0, None, None, None)),
        (b"broker.id=7\ncluster.id=a\n", (0, "a", 7, None)),
        (b"version=0\nbroker.id = +7", (0, None, 7, None)),
        (b"version: 1 \r\n  cluster.id  \\\r\n   a\\ b\r\nnode.id\t3", (1, "a b", 3, None)),
        (b"cluster.id=a\\:\\=\\u00fc\\n\\q\xe4\n!x=y\\\nbroker.id=1", (0, "a:=ü\nqä", 1, None)),
        (b"cluster.id=a\\", (0, "a", None, None)),
        (b"cluster\\.id=a\ncluster.id=b\\\\\nversion=0", (0, "b\\", None, None)),
        (b"version=1\nnode.id=1\ncluster.id", (1, "", 1, None)),
    ],
)
def test_properties_are_read_as_java_reads_them(data: bytes, expected: tuple[object, ...]):
    """[format.md 15.3] Escapes, comments, lines that go on, any separator; the last key counts."""
    assert parse_meta_properties(data) == (*expected, data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"version=2", "version is 2, not 0 or 1"),
        (b"version=x", "version is 'x', not an integer"),
        (b"version=1\nnode.id=1", "cluster.id is nothing"),
        (b"version=1\ncluster.id=a", "node.id is nothing"),
        (b"broker.id=99999999999", "broker.id is '99999999999'"),
        (b"directory.id=abc", "directory.id is 'abc', not a uuid in base64"),
        (b"cluster.id=\\u12", r"four digits after each \\u"),
    ],
)
def test_what_kafka_refuses_is_refused(tmp_path: Path, data: bytes, message: str):
    (tmp_path / "meta.properties").write_bytes(data)

    with (
        closing(Directory(str(tmp_path))) as directory,
        pytest.raises(CorruptCheckpointError, match=message) as caught,
    ):
        read_meta_properties(directory)
    assert caught.value.file == str(tmp_path / "meta.properties")


def test_a_file_that_is_too_large_is_refused(tmp_path: Path):
    (tmp_path / "meta.properties").write_bytes(b"#" * (MAX_MARKER_BYTES + 1))

    with closing(Directory(str(tmp_path))) as directory, pytest.raises(CorruptCheckpointError):
        read_meta_properties(directory)


@given(st.binary(max_size=60) | st.text("\\=: \n\r\tu0aversiond.#!", max_size=60).map(str.encode))
def test_any_bytes_are_read_or_refused(data: bytes):
    found, error = outcome(lambda: parse_meta_properties(data), CorruptCheckpointError)

    assert error is not None or found.data == data
