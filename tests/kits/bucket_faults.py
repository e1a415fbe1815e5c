"""Stores that fail: errors, delays, cuts, throttling, stale listings, objects that vanish.

What happens to a request is drawn from the seed, the request and how often it was made, so that a
schedule is the same whatever the threads do.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from segstore.errors import LogPermissionError, ReadIOError
from segstore.remote.local_folder import LocalFolder
from segstore.remote.remote_file import Folder, changed_error, vanished_error
from tests.kits.s3_server import MODIFIED, served, tag_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from segstore.remote.remote_file import RemoteFile
    from tests.kits.s3_server import Handler

CHANCES = (0.01, 0.03, 0.1, 0.2)
STALL_S = 0.7
TIMEOUT = "500ms"
OF_FOLDERS = ("error", "refused", "gone", "changed", "delay", "stale", "missing", "flipped")
OF_HTTP = (
    "error",
    "throttled",
    "refused",
    "dropped",
    "cut",
    "short",
    "stalled",
    "gone",
    "changed",
    "delay",
    "stale",
    "missing",
    "flipped",
)


@dataclass(frozen=True)
class Kinds:
    """Which faults a schedule has, and how often."""

    chance: float
    names: tuple[str, ...]


def kinds_of(seed: int, choice: tuple[str, ...], *, without: tuple[str, ...] = ()) -> Kinds:
    """Draw one to four kinds of *choice*."""
    random = Random(f"kinds {seed}")
    left = [name for name in choice if name not in without]
    return Kinds(random.choice(CHANCES), tuple(random.sample(left, random.randint(1, 4))))


class Faults:
    """Draws what happens to each request.

    Attributes
    ----------
    hidden : set of str
        Objects that were deleted meanwhile, by their keys.
    seen : Counter
        Faults that happened, by kind.
    requests : Counter
        How often each request was made.
    is_on : bool
        False: nothing fails any more, and what was deleted is there again.
    """

    def __init__(self, seed: int, kinds: Kinds) -> None:
        self.seed, self.kinds = seed, kinds
        self.hidden: set[str] = set()
        self.seen: Counter[str] = Counter()
        self.requests: Counter[str] = Counter()
        self.is_on = True
        self._lock = threading.Lock()

    def end(self) -> None:
        """Let the store heal."""
        self.is_on = False
        self.hidden.clear()

    def draw(self, request: str, fitting: tuple[str, ...]) -> tuple[str | None, Random]:
        """Return what happens to *request*, one of *fitting* or nothing; and dice for it."""
        with self._lock:
            self.requests[request] += 1
            dice = Random(f"{self.seed} {request} {self.requests[request]}")
            names = [name for name in self.kinds.names if name in fitting]
            if not self.is_on or not names or dice.random() >= self.kinds.chance:
                return None, dice
            kind = dice.choice(names)
            self.seen[kind] += 1
            return kind, dice

    def listed(self, keys: list[str], kind: str | None, dice: Random) -> set[str]:
        """Return the keys that a listing shows: an old one, one that lacks some, or all."""
        there = {key for key in keys if key not in self.hidden}
        if kind == "stale":
            return set(keys)
        if kind == "missing":
            return {key for key in sorted(there) if dice.random() < 0.9}
        return there


LISTING = (
    "error",
    "throttled",
    "refused",
    "dropped",
    "cut",
    "stalled",
    "delay",
    "stale",
    "missing",
)
READING = tuple(name for name in OF_HTTP if name not in {"stale", "missing"})


class FaultyFolder(LocalFolder):
    """A folder whose calls fail."""

    def __init__(self, path: str, faults: Faults) -> None:
        super().__init__(path)
        self._faults = faults

    def list_folder(self, folder: str) -> Folder:
        """List, or fail."""
        kind, dice = self._faults.draw(f"list {folder}", LISTING)
        self._fail(kind, dice, folder)
        found = super().list_folder(folder)
        shown = self._faults.listed([one.path for one in found.files.values()], kind, dice)
        files = {name: file for name, file in found.files.items() if file.path in shown}
        return Folder(files, found.folders)

    def iter_files(self, folder: str) -> Iterator[RemoteFile]:
        """List, or fail."""
        yield from self.list_folder(folder).files.values()

    def read_range(self, file: RemoteFile, start: int, end: int) -> bytes:
        """Read, or fail."""
        kind, dice = self._faults.draw(f"read {file.path} {start} {end}", READING)
        self._fail(kind, dice, file.path)
        if kind == "gone":
            self._faults.hidden.add(file.path)
        if file.path in self._faults.hidden:
            raise vanished_error(self.url, file)
        if kind == "changed":
            raise changed_error(self.url, file, "another file")
        data = super().read_range(file, start, end)
        return flipped(data, dice) if kind == "flipped" and may_flip(file.path) else data

    def _fail(self, kind: str | None, dice: Random, path: str) -> None:
        where = f"{self.url}/{path}"
        if kind == "error":
            raise ReadIOError("the file cannot be read: Input/output error", file=where)
        if kind == "refused":
            raise LogPermissionError("the file cannot be read: Permission denied", file=where)
        if kind == "delay":
            time.sleep(dice.random() * 0.01)


def may_flip(key: str) -> bool:
    """Whether a changed byte has to be noticed: nothing proves a manifest."""
    return not key.endswith(".rsm-manifest")


def flipped(data: bytes, dice: Random) -> bytes:
    """Change one bit."""
    if not data:
        return data
    at = dice.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << dice.randrange(8)]) + data[at + 1 :]


class FaultyHandling:
    """What a store over HTTP does to its requests; `Store.fault`."""

    def __init__(self, faults: Faults, objects: dict[str, bytes]) -> None:
        self._faults, self._objects = faults, objects

    def __call__(self, handler: Handler, key: str) -> bool:
        """Answer in its own way and return True, or leave it to the handler."""
        faults = self._faults
        request = f"{handler.path} {handler.headers.get('Range', '')}"
        kind, dice = faults.draw(request, READING if key else LISTING)
        if kind in _ANSWERS:
            status, code = _ANSWERS[kind]
            handler.answer(status, f"<Error><Code>{code}</Code></Error>".encode())
            return True
        if kind in {"dropped", "cut", "short"}:
            self._cut(handler, key, kind)
            return True
        if kind in {"stalled", "delay"}:
            time.sleep(STALL_S if kind == "stalled" else dice.random() * 0.02)
        if not key:
            prefix = parse_qs(urlsplit(handler.path).query).get("prefix", [""])[0]
            shown = faults.listed(list(self._objects), kind, dice)
            handler.list(prefix, {name: self._objects[name] for name in shown})
            return True
        if kind == "gone":
            faults.hidden.add(key)
        if key in faults.hidden:
            handler.answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
            return True
        if kind == "flipped" and may_flip(key):
            part, headers = self._part(handler, key)
            handler.answer(206, flipped(part, dice), **headers)
            return True
        return False

    def _part(self, handler: Handler, key: str) -> tuple[bytes, dict[str, str]]:
        data = self._objects[key]
        first, _, last = handler.headers["Range"].removeprefix("bytes=").partition("-")
        part = data[int(first) : int(last) + 1]
        content = f"bytes {first}-{int(first) + len(part) - 1}/{len(data)}"
        return part, {"Content_Range": content, "ETag": tag_of(data), **MODIFIED}

    def _cut(self, handler: Handler, key: str, kind: str) -> None:
        """Close the connection at once, in the middle of an answer, or after half of it."""
        handler.close_connection = True
        if kind == "dropped" or not key or key not in self._objects:
            return
        part, headers = self._part(handler, key)
        handler.send_response(206)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        half = part[: len(part) // 2]
        handler.send_header("Content-Length", str(len(part if kind == "cut" else half)))
        handler.end_headers()
        handler.wfile.write(half)


_ANSWERS = {
    "error": (500, "InternalError"),
    "throttled": (503, "SlowDown"),
    "refused": (403, "AccessDenied"),
    "changed": (412, "PreconditionFailed"),
}


@contextmanager
def faulty_s3(bucket: Path, faults: Faults) -> Iterator[dict[str, str]]:
    """Serve what is in *bucket* among faults; gives the settings of the store."""
    with served() as store:
        store.put(bucket, "tiered")
        store.fault = FaultyHandling(faults, store.objects)
        yield {**store.settings, "timeout": TIMEOUT, "max_retries": "1", "retry_timeout": "5"}


def faulty_folders(faults: Faults) -> Callable[[str], LocalFolder]:
    """Return what takes the place of `LocalFolder`."""
    return lambda path: FaultyFolder(path, faults)
