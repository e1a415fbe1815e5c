"""A remote store that fails, and of which a crash may find more or less than was acknowledged.

What it has acknowledged is durable. A call may fail without an effect, after its effect, or with a
part of what was put; or its effect may come after it has failed.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from segstore.errors import (
    RemoteResourceNotFoundError,
    RemoteStorageError,
    RetriableRemoteStorageError,
)
from segstore.remote.storage.source_file import read_pieces

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable, Iterator, Mapping

    from segstore._core import SimulatedDisk

_PIECE_BYTES = 4096


class Change(NamedTuple):
    """What became of an object.

    Attributes
    ----------
    effects : int
        Of the disk that is crashed with the store, before it.
    key : str
        Which object.
    content : bytes or None
        What it holds from then on; None: it is gone.
    """

    effects: int
    key: str
    content: bytes | None


class SimulatedRemoteStore:
    """A `WritableStore` in memory.

    Parameters
    ----------
    disk : SimulatedDisk
        Where the files are that are put; it is crashed with the store.
    chance : random.Random or None
        What fails, of so many calls as `fault_rate` says; None: nothing does.
    objects : mapping of str to bytes
        What is there at first.
    """

    url = "simulated://store"

    def __init__(
        self,
        disk: SimulatedDisk,
        chance: random.Random | None = None,
        objects: Mapping[str, bytes] = {},
        *,
        fault_rate: float = 0.1,
    ) -> None:
        self.objects = dict(objects)
        self.changes: list[Change] = []
        self.faults = 0
        self._first = dict(objects)
        self._disk, self._chance, self._fault_rate = disk, chance, fault_rate
        self._late: list[tuple[str, bytes | None]] = []

    # ---- what the storage asks for ---------------------------------------------------------------

    def put(self, folder: str, files: Mapping[str, str | bytes]) -> None:
        """Put objects, one after the other; see `WritableStore`."""
        for name, content in files.items():
            if isinstance(content, str):
                data = b"".join(read_pieces(content, _PIECE_BYTES, self._disk))
            else:
                data = content
            self._change(f"{folder}/{name}", data)

    def get(self, folder: str, name: str, start: int, end: int) -> bytes:
        """Return a part of an object; see `WritableStore`."""
        return self.get_whole(folder, name)[start:end]

    def open_folder(self, folder: str) -> None:
        """Return None: objects are no files; see `WritableStore`."""

    def close(self) -> None:
        """Hold nothing."""

    def get_whole(self, folder: str, name: str) -> bytes:
        """Return an object; see `WritableStore`."""
        key = f"{folder}/{name}"
        if self._draws_a_fault():
            raise self._error(key)
        found = self.objects.get(key)
        if found is None:
            raise RemoteResourceNotFoundError("there is no such object", file=f"{self.url}/{key}")
        return found

    def delete(self, folder: str, names: Iterable[str]) -> None:
        """Delete objects; see `WritableStore`."""
        for name in names:
            self._change(f"{folder}/{name}", None)

    # ---- what becomes of it ----------------------------------------------------------------------

    def _change(self, key: str, content: bytes | None) -> None:
        if not self._draws_a_fault():
            self._apply(key, content)
            self._apply_late()
            return
        assert self._chance is not None
        match self._chance.choice(["before", "after", "late", "cut"]):
            case "after":
                self._apply(key, content)
            case "late":
                self._late.append((key, content))
            case "cut" if content is not None:
                self._apply(key, content[: self._chance.randint(0, len(content))])
        raise self._error(key)

    def _apply(self, key: str, content: bytes | None) -> None:
        self.changes.append(Change(self._disk.effects, key, content))
        _set(self.objects, key, content)

    def _apply_late(self) -> None:
        """Let requests that were given up reach the store after a later one."""
        late, self._late = self._late, []
        for key, content in late:
            self._apply(key, content)

    def _draws_a_fault(self) -> bool:
        return self._chance is not None and self._chance.random() < self._fault_rate

    def _error(self, key: str) -> RemoteStorageError:
        assert self._chance is not None
        self.faults += 1
        kind = self._chance.choice([RemoteStorageError, RetriableRemoteStorageError])
        return kind("the simulated store failed", file=f"{self.url}/{key}")

    @contextmanager
    def without_faults(self) -> Iterator[None]:
        """Answer all calls while the block lasts."""
        chance, self._chance = self._chance, None
        try:
            yield
        finally:
            self._chance = chance

    # ---- crashes ---------------------------------------------------------------------------------

    def after_crash(
        self, effects: int, disk: SimulatedDisk, chance: random.Random
    ) -> SimulatedRemoteStore:
        """Return the store as a crash of the disk after so many effects finds it.

        Of the changes between that effect and the next, any first ones were made. The one after
        them may be there as a part of what was put.
        """
        before = [one for one in self.changes if one.effects < effects]
        within = [one for one in self.changes if one.effects == effects]
        made = chance.randint(0, len(within))
        objects = dict(self._first)
        for change in (*before, *within[:made]):
            _set(objects, change.key, change.content)
        if made < len(within) and chance.random() < 0.5:
            key, content = within[made].key, within[made].content
            if content is not None:
                objects[key] = content[: chance.randint(0, len(content))]
        return SimulatedRemoteStore(disk, None, objects)


def _set(objects: dict[str, bytes], key: str, content: bytes | None) -> None:
    if content is None:
        objects.pop(key, None)
    else:
        objects[key] = content
