"""Topics that are made where something of the name is left, while calls fail [DUR-111, DUR-121]."""

from __future__ import annotations

from contextlib import closing, suppress
from functools import partial
from typing import TYPE_CHECKING

from segstore._core import Directory
from segstore.errors import AlreadyExistsError
from segstore.log.files.topics_file import (
    TOPICS_FILE,
    TopicState,
    format_topics,
    read_topics,
)
from segstore.log.files.tree_removal import remove_trees
from tests.crash.barrier_scene import new_disk
from tests.crash.crash_model import Found
from tests.crash.crash_script import Settings, make_log_directory
from tests.crash.failing_scenarios_of_damage import changed
from tests.crash.failing_scenarios_of_managers import (
    ELSEWHERE,
    LOGS,
    Managed,
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
}
