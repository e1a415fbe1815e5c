"""Files of a partition directory in the vectors: written for a test, compared after it."""

from __future__ import annotations

import base64
import zlib
from typing import TYPE_CHECKING

import pytest

from segstore.errors import CorruptSnapshotError
from segstore.log.producers.producer_snapshot import parse_snapshot
from tests.vectors.producer_description import describe_producers

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Any

    from tests.vectors.vector_files import Case

Described = dict[str, "Any"]


def content(entry: Case) -> bytes:
    """Bytes of a file as the vectors give them."""
    return zlib.decompress(base64.b64decode(entry["data"]))


def write_files(folder: Path, files: Mapping[str, Case]) -> None:
    """Make *folder* with those files."""
    folder.mkdir(parents=True)
    for name, entry in files.items():
        (folder / name).write_bytes(content(entry))


def files_of(folder: Path) -> dict[str, bytes]:
    """Every file with its bytes."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def expected_files(described: Mapping[str, Case], before: Mapping[str, bytes]) -> dict[str, bytes]:
    """Bytes of the files that Kafka left; only those that it changed are given."""
    return {
        name: content(entry) if "data" in entry else before[name]
        for name, entry in described.items()
    }


def check_files(found: Mapping[str, bytes], expected: Mapping[str, bytes]) -> None:
    """Compare names and bytes; producers in a snapshot have no order."""
    assert sorted(found) == sorted(expected)
    for name, data in expected.items():
        if found[name] != data and _snapshot(found[name]) != _snapshot(data):
            pytest.fail(f"{name}: {len(found[name])} bytes differ from Kafka's {len(data)}")


def _snapshot(data: bytes) -> list[Described] | bytes:
    try:
        return describe_producers(parse_snapshot(data))
    except CorruptSnapshotError:
        return data
