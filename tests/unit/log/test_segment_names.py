"""What a segment says of itself."""

from __future__ import annotations


def test_repr_names_the_file_and_its_size(new_log):
    (segment,) = new_log().segments()
    assert repr(segment) == f"<Segment {0:020d}.log, 0 bytes>"
