"""The packed choice of vectors: small, and with lines of every file that has a test."""

from __future__ import annotations

from tests.vectors.pack_vectors import PACK_LIMIT_BYTES, covered_stems
from tests.vectors.vector_files import PACK, file_stems, read_pack


def test_the_pack_stays_small():
    """It is in every clone."""
    assert PACK.stat().st_size <= PACK_LIMIT_BYTES


def test_the_pack_holds_lines_of_every_covered_file():
    """A machine without the whole folder tests what every file is about."""
    assert set(file_stems(None)) == covered_stems()
    for stem in file_stems(None):
        identifiers = [case["id"] for case in read_pack(stem)]
        assert len(identifiers) == len(set(identifiers)) > 20  # offset_map: others are long
