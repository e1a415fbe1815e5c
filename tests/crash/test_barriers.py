"""Each barrier is needed: without it some crash takes what was promised, or makes work [DUR-110].

The syncs of one name are taken out of a run after the fact: the disk is asked what a crash leaves
if they had done nothing. csrc/io/barrier.h says what each is for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from segstore._core import BARRIERS, Barrier, DataFile, Directory, FileBarrier, SimulatedDisk
from segstore.errors import ArgumentTypeError
from segstore.manager import topic_registry
from tests.crash.barrier_scenes import SCENES
from tests.crash.barrier_scenes_of_cleaner import compacted
from tests.crash.barrier_scenes_of_directories import deleted_topic, made_topic, moved_partition
from tests.crash.crash_check import Crash, distinct

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.crash.barrier_scene import Scene

NAMES = [text.name for text in BARRIERS]


def test_every_barrier_has_a_scene_and_every_scene_a_barrier():
    """[DUR-110]"""
    assert sorted(SCENES) == sorted(NAMES)


@pytest.mark.parametrize("barrier", [text.name for text in BARRIERS if text.is_promise])
def test_without_it_a_crash_breaks_a_promise(barrier: str):
    """[DUR-110] The mutant: its syncs do nothing."""
    scene = SCENES[barrier]()

    assert scene.syncs(barrier), "the scene does not come to it"
    assert scene.is_missed(barrier)


@pytest.mark.parametrize("barrier", [text.name for text in BARRIERS if not text.is_promise])
def test_without_it_the_next_open_has_more_to_do(barrier: str):
    """[DUR-110] No promise is broken: it is shown what it saves."""
    scene = SCENES[barrier]()

    assert scene.syncs(barrier), "the scene does not come to it"
    assert scene.saves_work(barrier)


@pytest.mark.parametrize("barrier", NAMES)
def test_with_all_of_them_every_promise_is_kept(barrier: str, one_in: Callable[[int], int]):
    """[DUR-110] The check itself: the same crashes, all syncs done."""
    scene = SCENES[barrier]()
    for effects in range(min(scene.syncs(barrier)), scene.disk.effects + 1, one_in(31)):
        scene.check(Crash(effects, "lost"))
        scene.check(Crash(effects, "seed", effects))


def check_every_crash(scene: Scene, step: int, *fates: str) -> None:
    """Look at each *step*-th crash point with these fates, and with five draws of what is lost."""
    for effects in range(0, scene.disk.effects + 1, step):
        drawn = [Crash(effects, "seed", seed) for seed in range(5)]
        for crash in distinct([*drawn, *(Crash(effects, fate) for fate in fates)], scene.disk):
            scene.check(crash)


def test_the_deletion_of_a_topic_needs_its_barrier(one_in: Callable[[int], int]):
    """[DUR-110, MGR-63] A crash leaves the topic whole or not at all, unless it is taken out."""
    scene = deleted_topic()
    check_every_crash(scene, one_in(31), "lost", "killed")
    assert scene.is_missed("DOOMED_DIRECTORY")


def test_a_topic_of_many_partitions_is_made_whole_or_not_at_all(
    monkeypatch, one_in: Callable[[int], int]
):
    """[DUR-110, DUR-11] Over several rounds of writes and syncs, at any crash point."""
    monkeypatch.setattr(topic_registry, "_ROUND", 2)
    scene = made_topic(5)
    check_every_crash(scene, one_in(31), "lost", "kept", "killed")
    for barrier in ("TOPICS_NAME", "NEW_DIRECTORY", "PARTITION_METADATA_CONTENT"):
        assert scene.is_missed(barrier)


def test_a_move_leaves_one_live_directory(one_in: Callable[[int], int]):
    """[DUR-110, DUR-127] With all records, at any crash point, unless a barrier is taken out."""
    scene = moved_partition()
    check_every_crash(scene, one_in(31), "lost", "kept", "killed")
    for barrier in ("RENAMED_DIRECTORY", "DOOMED_DIRECTORY", "TOPICS_NAME"):
        assert scene.is_missed(barrier)


def test_a_compaction_leaves_a_value_of_each_key(one_in: Callable[[int], int]):
    """[DUR-110, DUR-126, CLN-110] And no deleted key comes back, unless a barrier is taken out.

    What a pass goes by is on stable storage before what it takes away is gone.
    """
    scene = compacted()
    check_every_crash(scene, one_in(73), "lost", "kept", "killed")
    for barrier in ("APPENDED_RECORDS", "REPLACING_RECORDS", "REPLACING_COMMIT"):
        assert scene.is_missed(barrier)


def test_no_sync_goes_without_a_name():
    """[DUR-110] What is no barrier is refused, and nothing is synced."""
    disk = SimulatedDisk()
    directory = Directory("/", disk)
    with DataFile(directory, "a", create=True) as file:
        begun = disk.effects
        for no_barrier in (None, "LOG_START", 0, FileBarrier.LOG_START):
            with pytest.raises(ArgumentTypeError, match="named by a Barrier"):
                file.sync(no_barrier)
            with pytest.raises(ArgumentTypeError, match="named by a Barrier"):
                directory.sync(no_barrier)
        with pytest.raises(ArgumentTypeError, match="named by a FileBarrier"):
            directory.write_file_atomically("b", b"", Barrier.APPENDED_RECORDS)
    assert disk.effects == begun


def test_the_two_kinds_are_all_of_the_list():
    """[DUR-110] A FileBarrier stands for two in a row."""
    pairs = {f"{one.name}_CONTENT": int(one) for one in FileBarrier}
    pairs |= {f"{one.name}_NAME": int(one) + 1 for one in FileBarrier}
    assert {name: number for number, name in enumerate(NAMES)} == {
        **{one.name: int(one) for one in Barrier},
        **pairs,
    }
