"""A reader of committed data stumbled over a segment that its writer had cut and rolled."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import segstore

if TYPE_CHECKING:
    from pathlib import Path


def test_the_batches_that_were_walked_are_gone(tmp_path: Path):
    """[DUR-77] The range [0, 138) is not inside the segment's 69 bytes."""
    path = tmp_path / "t-0"
    with (
        segstore.open(path, durability="none") as writer,
        segstore.open(path, read_only=True) as reader,
    ):
        writer.append([(None, b"a")])
        writer.append([(None, b"b")])
        reader.refresh()
        assert reader.last_stable_offset == 2
        writer.truncate_to(1)
        writer.roll()
        writer.append([(None, b"c")])
        with suppress(segstore.LogTruncatedError):
            reader.refresh()
        assert reader.last_stable_offset == 2
        assert [one.value for one in reader.scan(isolation="read_committed")] == [b"a", b"c"]
