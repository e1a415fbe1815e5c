"""What a close gave back late, and what an open that failed left behind.

What was read kept the directory open after the log's close; that a directory for the state cannot
be made was noticed when the partition's had been.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import pytest

import segstore

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asks /proc")


def open_below(path: Path) -> list[str]:
    """Files and directories below *path* that this process has open."""
    targets = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # that of this listing itself
            targets.append(str(descriptor.readlink()))
    return [target for target in targets if target.startswith(str(path))]


@pytest.mark.parametrize(
    "settings", [{}, {"read_only": True}, {"recovery": "kafka"}], ids=["safe", "reader", "kafka"]
)
def test_nothing_is_open_after_a_close(tmp_path, settings):
    """Whoever keeps a fetch, a slice, a scan or the closed log itself."""
    path = tmp_path / "a-0"
    with segstore.open(path) as log:
        for _ in range(3):
            log.append([(b"k", b"v")])
            log.roll()
    log = segstore.open(path, **settings)
    kept = [log.read(0, 100), log.slice(1, 100), log.scan(), log.segments()]
    assert open_below(path)

    log.close()

    assert open_below(tmp_path) == []
    assert [record.value for record in kept[0]] == [b"v"]
    with pytest.raises(segstore.ClosedError):
        list(kept[1])


def test_nothing_is_open_after_the_close_of_a_manager(tmp_path):
    with segstore.open_dir(tmp_path / "all") as logs:
        logs.create_topic("t", 2)
        logs.append("t", [(b"k", b"v")])
        kept = logs.log("t", 0).slice(0, 100)
        assert open_below(tmp_path)
    assert open_below(tmp_path) == []
    assert kept.size_bytes >= 0


@pytest.mark.parametrize("opened", [segstore.open, segstore.open_dir])
def test_a_state_directory_that_cannot_be_made_leaves_nothing_behind(tmp_path, opened):
    (tmp_path / "file").touch()
    with pytest.raises(segstore.SegstoreError):
        opened(tmp_path / "a-0", recovery="kafka", state_dir=tmp_path / "file" / "state")
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("opened", [segstore.open, segstore.open_dir])
def test_the_first_open_makes_both_directories(tmp_path, opened):
    """The one for the state may be beside the first partition, or be it."""
    name = "a-0" if opened is segstore.open else "all"
    path = tmp_path / "new" / name
    opened(path, recovery="kafka", state_dir=tmp_path / "new" / "state").close()
    assert {"state", name} == {file.name for file in path.parent.iterdir()}
