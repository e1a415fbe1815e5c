"""A flipped bit in a base offset was a measure: a log that "ended" at offset 4611686018427387913.

No CRC covers the first eight bytes of a batch. What they say is no offset that was lost [DUR-50].
"""

from __future__ import annotations

import shutil

import pytest

import segstore
from segstore.log.check.partition_check import check_partition
from segstore.log.findings.finding import Records

FLIPS = [(0, 0x80), (0, 0x40), (1, 0x01), (4, 0x01)]


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """Records 0 to 9 in segments 0, 3, 6, 9."""
    path = tmp_path_factory.mktemp("flips") / "a-0"
    with segstore.open(path) as log:
        for number in range(10):
            log.append([(b"k", b"%d" % number)])
            if number % 3 == 2:
                log.roll()
    return path


@pytest.fixture(params=["closed", "unclean"])
def path(request, original, tmp_path):
    path = tmp_path / "a-0"
    shutil.copytree(original, path)
    if request.param == "unclean":
        (path / ".kafka_cleanshutdown").unlink()
    return path


def _flip(path, base, byte, mask) -> None:
    file = path / f"{base:020d}.log"
    content = bytearray(file.read_bytes())
    content[byte] ^= mask
    file.write_bytes(content)


@pytest.mark.parametrize(("byte", "mask"), FLIPS)
@pytest.mark.parametrize("base", [0, 3, 9])
def test_the_finding_names_what_cannot_be_read(path, base, byte, mask):
    """[DUR-7] The batches behind it are whole, and say what its base offset should be."""
    _flip(path, base, byte, mask)
    check = check_partition(str(path))
    (finding,) = [one for one in check.findings if one.file == f"{base:020d}.log"]
    assert finding.records == Records.UNREADABLE
    assert finding.lost == ((base, base),)
    assert finding.first_offset == base
    assert check.log_end_offset <= 10


@pytest.mark.parametrize(("byte", "mask"), FLIPS)
@pytest.mark.parametrize("base", [0, 3, 6, 9])
def test_a_reader_does_not_end_there(path, base, byte, mask):
    """[DUR-51] The batches before it say what its base offset should be."""
    _flip(path, base, byte, mask)
    with segstore.open(path, read_only=True) as log:
        assert log.log_end_offset == (9 if base == 9 else 10)
        assert not log.verify().ok
