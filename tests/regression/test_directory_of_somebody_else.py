"""A directory of photographs became a log, where `.lock` or `lost+found` lay beside them.

Its name ended in a number, and one file in it was one that a log may have, too [DUR-98].
"""

from __future__ import annotations

import pytest

import segstore
from segstore.cli import main

FOREIGN = ["img.jpg", "notes.txt"]


@pytest.fixture(params=[".lock", "lost+found", None])
def path(request, tmp_path):
    path = tmp_path / "holiday-2024"
    path.mkdir()
    for name in FOREIGN:
        (path / name).write_bytes(b"x")
    if request.param == "lost+found":
        (path / request.param).mkdir()
    elif request.param:
        (path / request.param).touch()
    return path


def test_no_open_writes_there(path):
    before = sorted(path.iterdir())
    for settings in ({}, {"read_only": True}):
        with pytest.raises(segstore.NotALogError):
            segstore.open(path, **settings)
    with pytest.raises(segstore.NotALogError):
        segstore.salvage(path, path.parent / "out" / "a-0")
    assert sorted(path.iterdir()) == before


@pytest.mark.parametrize("command", ["verify", "recover", "ls", "inspect"])
@pytest.mark.parametrize("of_parent", [False, True])
def test_no_command_takes_it_for_a_log(path, command, of_parent, capsys):
    before = sorted(path.iterdir())
    code = main([command, str(path.parent if of_parent else path)])
    said = capsys.readouterr()
    assert code != 0 or "holiday" not in said.out
    assert "clean" not in said.out
    assert sorted(path.iterdir()) == before


@pytest.mark.parametrize("name", ["leader-epoch-checkpoint", ".segstore", f"{3:020d}.index"])
def test_what_was_a_log_is_one(path, name):
    """[LDR-26] It lost its ``.log`` files, and kept another of a log."""
    (path / name).touch()
    with segstore.open(path) as log:
        assert log.append([(None, b"x")]).base_offset == 0
    assert sorted(set(FOREIGN) & {file.name for file in path.iterdir()}) == sorted(FOREIGN)
