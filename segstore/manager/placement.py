"""In which log directory a new partition goes [MGR-77, MGR-78]; Kafka ``nextLogDirs``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segstore.arguments import integer
from segstore.errors import IllegalArgumentError, LogDirectoryOfflineError

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from segstore.manager.log_directory import LogDirectory


class Placement:
    """The directories with the fewest logs come first; equal ones in their configured order.

    Parameters
    ----------
    directories : sequence of LogDirectory
        In their configured order.
    find : callable
        Returns the directory of a path that a user names.

    Attributes
    ----------
    cordoned : frozenset of LogDirectory
        They get no new partition, unless a user names them.
    """

    def __init__(
        self,
        directories: Sequence[LogDirectory],
        find: Callable[[str | os.PathLike[str]], LogDirectory],
    ) -> None:
        self._directories = directories
        self._find = find
        self.cordoned: frozenset[LogDirectory] = frozenset()

    def next_directories(self) -> list[LogDirectory]:
        """Return the directories in the order in which a new partition may go there.

        A single one counts, cordoned or not. Where all are cordoned, the first one alone does.
        """
        live = [one for one in self._directories if one.error is None]
        if len(live) < 2:  # noqa: PLR2004 - no choice
            return live
        counts = {one: one.count_of_logs() for one in live if one not in self.cordoned}
        return sorted(counts, key=counts.__getitem__) if counts else live[:1]

    def of(
        self, numbers: Iterable[int], named: Mapping[int, str | os.PathLike[str]]
    ) -> dict[LogDirectory, list[int]]:
        """Return where new partitions of a topic go.

        Parameters
        ----------
        numbers : iterable of int
            The new partitions.
        named : mapping of int to path
            What a user has chosen.

        Raises
        ------
        IllegalArgumentError
            A path is none of the directories, or a number none of the partitions.
        LogDirectoryOfflineError
            No directory takes changes, or the chosen one does not.
        """
        new = [*numbers]
        chosen = {integer("directories", one): self._find(path) for one, path in named.items()}
        for number, one in chosen.items():
            one.check_writable()
            if number not in new:
                raise IllegalArgumentError(
                    f"directories= names partition {number}, which is not made",
                    found=str(number),
                    expected=f"one of {new}",
                )
        candidates = self.next_directories()
        if not candidates:
            raise LogDirectoryOfflineError(
                "no log directory takes a new partition: all of them have failed",
                file=self._directories[0].path,
            ) from self._directories[0].error
        in_order = [one for one in self._directories if one in candidates]
        counts = {one: one.count_of_logs() if len(in_order) > 1 else 0 for one in in_order}
        placed: dict[LogDirectory, list[int]] = {}
        for number in new:
            one = chosen.get(number) or min(in_order, key=counts.__getitem__)
            placed.setdefault(one, []).append(number)
            counts[one] = counts.get(one, 0) + 1
        return {one: placed[one] for one in self._directories if one in placed}
