"""Files that wait to be unlinked: each once, by its task or before it [LOC-20]."""

from __future__ import annotations

import weakref
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from segstore._core import Directory
from segstore.log.local.delayed_deletion import DelayedDeletion
from tests.kits.log_kit import Scheduler

if TYPE_CHECKING:
    from pathlib import Path


class Unlink:
    """Counts its calls; a segment with open files would be kept as this one is."""

    def __init__(self, calls: list[str]) -> None:
        self._calls = calls

    def __call__(self) -> None:
        self._calls.append("unlinked")


@pytest.mark.parametrize("when", ["at a close", "by the task"])
def test_what_was_unlinked_is_not_kept(tmp_path: Path, when: str):
    """[LOC-20] A task that is due later keeps no descriptor of a deleted segment open."""
    scheduler = Scheduler()
    calls: list[str] = []
    with closing(Directory(str(tmp_path))) as directory:
        deletion = DelayedDeletion(directory, scheduler)
        unlink = Unlink(calls)
        kept = weakref.ref(unlink)
        deletion.unlink_later(unlink, 60)
        del unlink
        assert kept() is not None
        if when == "at a close":
            deletion.unlink_now()
            assert kept() is None
        scheduler.sleep(60_000)
    assert kept() is None
    assert calls == ["unlinked"]
