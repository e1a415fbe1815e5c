"""A log on a file system whose locks and syncs may not hold."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import segstore.log.log_opener as opener
from segstore.errors import IllegalArgumentError
from tests.kits.log_kit import offsets


@pytest.fixture
def on_a_network(monkeypatch):
    """Let directories say that they are on a network file system: there is none to test with."""
    check = opener.check_file_system

    def check_there(directory, *, allowed):
        there = SimpleNamespace(path=directory.path, is_network_file_system=lambda: True)
        check(there, allowed=allowed)

    monkeypatch.setattr(opener, "check_file_system", check_there)


@pytest.mark.usefixtures("on_a_network")
@pytest.mark.parametrize("recovery", ["safe", "kafka"])
def test_a_network_file_system(new_log, tmp_path, recovery):
    """[DUR-72] is refused for writing, unless that is wanted; reading is no matter."""
    path = tmp_path / "topic-0"
    with pytest.raises(IllegalArgumentError, match="allow_network_fs") as caught:
        new_log(recovery=recovery)
    assert caught.value.file == str(path)
    assert list(path.iterdir()) == []  # not a file was made, no lock is held
    log = new_log(recovery=recovery, allow_network_fs=True)
    log.append([(None, b"v")])
    log.close()
    assert offsets(new_log(recovery=recovery, read_only=True)) == [0]
