"""Topics that are made where something of the name is left, while calls fail [DUR-111, DUR-121]."""

from __future__ import annotations

from contextlib import closing, suppress
from functools import partial
from typing import TYPE_CHECKING

from segstore._core import Directory
from segstore.errors import AlreadyExistsError
from segstore.log.files.checkpoints import PARTITION_METADATA
from segstore.log.files.topics_file import (
    TOPICS_FILE,
    TopicState,
    format_topics,
    read_topics,
)
from segstore.log.files.tree_removal import remove_trees
from segstore.manager.log_manager import LogManager
from segstore.number_limits import MAX_LONG
from tests.crash.barrier_scene import new_disk
from tests.crash.crash_model import Found
from tests.crash.crash_script import Settings, make_log_directory
from tests.crash.failing_scenarios_of_damage import changed
from tests.crash.failing_scenarios_of_managers import (
    ELSEWHERE,
    LOGS,
    TWO,
    Managed,
    close_all,
    found_in,
    going_on,
    living_on,
)
from tests.crash.failing_trial import Trial, opening
from tests.kits.directory_kit import RECOVERY_POINT

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore._core import SimulatedDisk

LINES_OF_OTHERS = 300
"""That many make a checkpoint which is kept parsed."""


# ---- one partition -------------------------------------------------------------------------------


def log_directory(lines: list[str]) -> SimulatedDisk:
    """Return a broker's log directory without a partition; these lines are in its checkpoint."""
    disk = new_disk()
    make_log_directory(disk)
    content = "\n".join(["0", str(len(lines)), *lines, ""]).encode()
    return changed(disk, RECOVERY_POINT, lambda _: content, "/data").crash_image(fate="kept")


def making_a_partition(lines: list[str]) -> Trial:
    """Whatever fails, the new log begins at offset 0."""
    settings = Settings("none", in_log_directory=True)
    return opening(log_directory(lines), settings, Found(0, 0, ()))


# ---- a topic of a manager ------------------------------------------------------------------------


def create_again(managed: Managed) -> None:
    """Make the topic, and fill it."""
    with living_on(managed.disk):
        manager = managed.manager()
        with suppress(AlreadyExistsError):
            manager.create_topic("topic", 2)
        managed.append(manager)
        manager.close()


def creating_where_it_was(**settings: object) -> Trial:
    """Its directories were removed; what is said of them elsewhere is left."""
    first = Managed(new_disk(), **settings)
    first.begin()
    with closing(Directory(LOGS, first.disk)) as directory:
        remove_trees(directory, ["topic-0", "topic-1"])
        directory.unlink(TOPICS_FILE)
    managed = Managed(first.disk.crash_image(fate="kept"), **settings)
    return Trial(managed.disk, partial(create_again, managed), managed.check)


def create_an_empty_one(managed: Managed) -> None:
    with living_on(managed.disk):
        manager = managed.manager()
        manager.create_topic("topic", 2)
        manager.close()


def settling(fill: Callable[[Managed], None], then: Callable[[Managed], None]) -> Trial:
    """A process was killed before it could say that the topic is made."""
    first = Managed(new_disk())
    fill(first)
    with closing(Directory(LOGS, first.disk)) as directory:
        made = read_topics(directory)["topic"]._replace(state=TopicState.CREATING)
    content = format_topics({"topic": made})
    image = changed(first.disk, TOPICS_FILE, lambda _: content, LOGS)
    managed = Managed(image.crash_image(fate="kept"))
    managed.acknowledged = first.acknowledged
    return Trial(managed.disk, partial(then, managed), managed.check)


# ---- topics that are deleted, or get partitions --------------------------------------------------


def check_deleted(managed: Managed, made: list[tuple[int, bytes]]) -> str:
    """Look at the images: the topic is there with the records that were *made*, or none is."""
    with living_on(managed.disk):
        outcome = close_all(managed.open)
    for fate in ("killed", "lost", "seed"):
        image = managed.disk.crash_image(fate=fate)
        with living_on(image):
            manager = managed.manager()
            assert sorted(found_in(manager)) in (sorted(made), [])
            assert manager.topics().get("topic", [0, 1]) in ([0, 1], [0, 1, 2, 3])
            manager._directories[0].deleted.delete_due(MAX_LONG)
            manager.close()
        names = Directory(LOGS, image).names()
        assert not [name for name in names if name.endswith("-delete")]
    return outcome


def changing(act: Callable[[LogManager], None], **settings: object) -> Trial:
    """A topic without an id in one of its partitions, whose logs are open, is changed."""
    first = Managed(new_disk(), **settings)
    first.begin()
    with closing(Directory(f"{LOGS}/topic-0", first.disk)) as directory:
        directory.unlink(PARTITION_METADATA)
    managed = Managed(first.disk.crash_image(fate="kept"), **settings)

    def run() -> None:
        with living_on(managed.disk):
            manager = managed.manager()
            manager.log("topic", 1)
            act(manager)
            manager.close()

    return Trial(managed.disk, run, lambda _: check_deleted(managed, first.acknowledged))


def delete(manager: LogManager) -> None:
    manager.delete_topic("topic")


def describe_one_of_others(manager: LogManager) -> None:
    """No file names its topic; its partitions have the id, or one of them."""
    manager._directories[0].directory.unlink(TOPICS_FILE)
    manager._directories[0].registry._file = None
    manager.describe_topic("topic")
    manager.alter_topic("topic", {"retention.ms": 5})
    manager.delete_topic("topic")


def delete_what_another_removes(manager: LogManager) -> None:
    manager.delete_topic("topic")
    remove_trees(manager._directories[0].directory, [*manager._directories[0].deleted.waiting][:1])
    manager._directories[0].deleted.delete_due(MAX_LONG)


def delete_and_create(manager: LogManager) -> None:
    manager.delete_topic("topic")
    manager._directories[0].deleted.delete_due(MAX_LONG)
    manager.create_topic("topic", 2)


def add_partitions(manager: LogManager) -> None:
    manager.alter_topic("topic", {"retention.ms": 5}, partitions=4)
    manager.describe_topic("topic")


def deleting_where_it_was(state: TopicState, adding: int = 0) -> Trial:
    """A process was killed in the middle: the next open for writing does the rest."""
    first = Managed(new_disk())
    first.begin()
    with closing(Directory(LOGS, first.disk)) as directory:
        made = read_topics(directory)["topic"]._replace(state=state, adding=adding)
    content = format_topics({"topic": made})
    image = changed(first.disk, TOPICS_FILE, lambda _: content, LOGS).crash_image(fate="kept")
    with closing(Directory(LOGS, image)) as directory:
        if adding:
            directory.make_directory("topic-2")
        directory.make_directory("other-0.0123456789abcdef0123456789abcdef-delete")
    managed = Managed(image.crash_image(fate="kept"))

    def run() -> None:
        with living_on(managed.disk):
            managed.manager().close()

    return Trial(managed.disk, run, lambda _: check_deleted(managed, first.acknowledged))


# ---- several log directories ---------------------------------------------------------------------


def check_whole(managed: Managed) -> str:
    """Look at the images: a topic is there in both directories, or in none."""
    with living_on(managed.disk):
        outcome = close_all(managed.open)
    for fate in ("killed", "lost", "seed"):
        image = managed.disk.crash_image(fate=fate)
        with living_on(image):
            manager = LogManager(TWO, **managed.settings)
            assert manager.offline_directories() == {}
            assert manager.topics() in ({}, {"topic": [0, 1]}, {"topic": [1]})
            for one in manager.partitions():
                manager.log(*one)
            manager.close()
    return outcome


def over_two_directories(act: Callable[[LogManager], None]) -> Trial:
    """A topic over two directories is made and changed; or one directory is offline, or failed."""
    managed = Managed(new_disk())

    def run() -> None:
        with living_on(managed.disk):
            manager = LogManager(TWO, **managed.settings)
            managed.open.append(manager)
            manager.create_topic("topic", 2)
            act(manager)
            manager.close()

    return Trial(managed.disk, run, lambda _: check_whole(managed))


def set_aside(manager: LogManager) -> None:
    manager.set_aside_partition("topic", 0)
    manager.unopened_directories()


def look_at_directories(manager: LogManager) -> None:
    manager.topics()
    for directory in manager._directories:
        assert directory.directory_id is None


TOPIC_SCENARIOS: dict[str, Callable[[], Trial]] = {
    "a partition of a name that has lines above": lambda: making_a_partition(["topic 0 7"]),
    "a partition below a large checkpoint": lambda: making_a_partition(
        [f"another-topic {number} 7" for number in range(LINES_OF_OTHERS)]
    ),
    "a topic that is there": lambda: going_on(create_again),
    "a topic whose directories are gone": creating_where_it_was,
    "a topic whose directories are gone, with state elsewhere": partial(
        creating_where_it_was, **ELSEWHERE
    ),
    "a topic half made": lambda: settling(create_an_empty_one, create_again),
    "a topic half made that was used": lambda: settling(Managed.begin, Managed.go_on),
    "a topic that is deleted": lambda: changing(delete),
    "a topic that is deleted, with state elsewhere": lambda: changing(delete, **ELSEWHERE),
    "a topic that is deleted and made again": lambda: changing(delete_and_create),
    "a topic that is deleted, and no file names it": lambda: changing(describe_one_of_others),
    "a topic that is deleted, and its directories": lambda: changing(delete_what_another_removes),
    "a topic that gets partitions": lambda: changing(add_partitions),
    "a topic half deleted": lambda: deleting_where_it_was(TopicState.DELETING),
    "a partition of two directories that is set aside": lambda: over_two_directories(set_aside),
    "two directories that are looked at": lambda: over_two_directories(look_at_directories),
    "a topic of two directories that is deleted": lambda: over_two_directories(delete),
    "a topic of two directories that gets settings": lambda: over_two_directories(
        lambda manager: manager.alter_topic("topic", {"retention.ms": 5}) and None
    ),
    "a topic that got a part of its new partitions": lambda: deleting_where_it_was(
        TopicState.LIVE, 1
    ),
}
