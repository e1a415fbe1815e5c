"""A crash in a full truncation could leave a directory that was taken for no partition [DUR-55].

No ``.log`` was left in it, but the temporary file of a producer snapshot. Found by tests/crash: its
random script 103304.
"""

from __future__ import annotations

import pytest

import segstore


def test_it_is_a_file_of_ours(new_log, tmp_path):
    path = tmp_path / "topic-0"
    path.mkdir()
    (path / f"{5:020d}.snapshot.tmp").write_bytes(b"half")

    log = new_log(path)

    assert log.log_end_offset == 0
    assert not list(path.glob("*.tmp"))


@pytest.mark.parametrize("name", ["5.snapshot.tmp", f"{5:020d}.snapshot.tmp.txt", "snapshot.tmp"])
def test_other_files_are_not(new_log, tmp_path, name):
    path = tmp_path / "topic-0"
    path.mkdir()
    (path / name).write_bytes(b"")

    with pytest.raises(segstore.NotALogError, match=r"holds no \.log file"):
        new_log(path)
