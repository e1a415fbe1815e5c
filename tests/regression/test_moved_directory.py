"""`mv orders-0 other-0`, or a copy restored under another name, brought deleted records back."""

from __future__ import annotations

import pytest

import segstore


@pytest.fixture
def moved(tmp_path):
    """Nine records, of which five were deleted, in a directory that a shell has renamed."""
    with segstore.open(tmp_path / "orders-0") as log:
        for number in range(9):
            log.append([(None, b"%d" % number)])
        log.delete_records(5)
    (tmp_path / "orders-0").rename(tmp_path / "other-0")
    return tmp_path / "other-0"


@pytest.mark.parametrize("read_only", [True, False])
def test_what_was_deleted_stays_deleted(moved, read_only):
    """[DUR-5, DUR-19] The lines beside the segments are about these very segments."""
    with segstore.open(moved, read_only=read_only) as log:
        assert log.log_start_offset == 5
        assert [record.value for record in log] == [b"5", b"6", b"7", b"8"]
        assert "is of orders-0: the directory was renamed" in "\n".join(log.report.warnings)
    with segstore.open(moved) as log:
        log.append([(None, b"9")])
    with segstore.open(moved) as again:
        assert again.log_start_offset == 5
        assert again.report.warnings == []


def test_what_the_recovery_point_says_holds_too(moved):
    """[DUR-51] Below it nothing may be lost: damage there is no torn tail."""
    (moved / ".kafka_cleanshutdown").unlink()
    file = moved / f"{0:020d}.log"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)

    with pytest.raises(segstore.CorruptLogError):
        segstore.open(moved)
