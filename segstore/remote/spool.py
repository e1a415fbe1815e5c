"""Files of remote directories on the local disk, shared by the processes of a machine.

A file lies under the hash of its URL, size and identity: one that was changed is another one. It is
written under another name, of its full length from the start, and renamed when it is whole. Logs
are opened on hard links (`SpoolView`), so a file is in use as long as it has more than one name:
who makes room removes those that were not used for longest, and none in use.

Of a file that is not wanted whole, blocks lie here, each with its CRC behind it. Who reads one has
it in memory, so it can go at any time; and where it cannot be kept, it is fetched again. Of blocks
that a scan fetches, a file of notes says at first only that they were: a byte each.

FILES  ``objects/<hash>``, a file, a block or notes; ``objects/<hash>.<random>.part``, locked by its
writer, but for a block's; ``views/…``, see there; ``locks/…``: one process at a time fetches a
file, or makes room.
``locks/room`` holds how many bytes there are at most, so that not every block needs a look at all.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import struct
import tempfile
import time
import uuid
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from segstore._core import FileLock, crc32c
from segstore.errors import DiskFullError, LimitExceededError, ReadIOError, WriteError
from segstore.remote.private_folder import make_private_folder
from segstore.remote.spool_view import SpoolView, remove_left_views

if TYPE_CHECKING:
    from collections.abc import Iterator

    from segstore.remote.remote_file import FileReader, RemoteFile

DEFAULT_MAX_BYTES: Final = 10 * 1024**3
_PART: Final = ".part"
_CRC: Final = struct.Struct(">I")
_USED: Final = struct.Struct(">q")
_ROOM: Final = "room"
_SHARE: Final = 16
"""One part of so many is freed at once when blocks need room."""


def default_directory() -> str:
    """Return the spool of this user on this machine."""
    return os.path.join(tempfile.gettempdir(), f"segstore-spool-{os.geteuid()}")  # noqa: PTH118


class Spool:
    """A folder for files of remote directories; any number of processes use it at once.

    Parameters
    ----------
    directory : str or None
        Made when it is not there; this user's alone, and no symbolic link. None:
        ``segstore-spool-<user id>`` in the folder for temporary files.
    max_bytes : int or None
        How many bytes of files it holds at most; None: 10 GiB.

    Raises
    ------
    LogPermissionError
        The folder cannot be used, or another user could change what is in it.
    """

    def __init__(self, directory: str | None = None, max_bytes: int | None = None) -> None:
        self.directory = Path(directory or default_directory())
        self.max_bytes = max_bytes or DEFAULT_MAX_BYTES
        self._objects = self.directory / "objects"
        self._locks = self.directory / "locks"
        self._make_folders()

    def _make_folders(self) -> None:
        for folder in (self.directory, self._objects, self._locks, self.directory / "views"):
            make_private_folder(folder)

    def new_view(self) -> SpoolView:
        """Return an empty folder of links; to be closed."""
        with self._locked(_ROOM):
            return SpoolView(self.directory / "views")

    def link(self, store: FileReader, file: RemoteFile, target: Path) -> None:
        """Make *target* a name of *file*, as it was listed; it is fetched when it is not here.

        Raises
        ------
        LimitExceededError
            There is no room for it beside what is in use.
        LogTruncatedError, LogNotFoundError, LogPermissionError, ReadIOError
            As `FileReader.read`; nothing is left of it.
        """
        key = _key(store, file)
        place = self._objects / key
        try:
            _link(place, target)
        except FileNotFoundError:
            self._fetch_once(store, file, place, target)
        used = time.time_ns()
        modified = used if file.modified_ns is None else file.modified_ns
        os.utime(target, ns=(used, modified))

    def read_block(
        self, reader: FileReader, file: RemoteFile, number: int, size_bytes: int
    ) -> bytes | None:
        """Return a block of *file*, as it was listed; None when it is not here."""
        if file.identity is None:
            return None
        try:
            descriptor = os.open(self._block_place(reader, file, number), os.O_RDONLY)
        except OSError:
            return None
        try:
            data = _read_up_to(descriptor, size_bytes + _CRC.size + 1)
            os.utime(descriptor)
        except OSError:
            return None
        finally:
            os.close(descriptor)
        block, crc = data[:size_bytes], data[size_bytes:]
        return block if crc == _CRC.pack(crc32c(block)) else None  # not whole after a crash

    def keep_block(
        self, reader: FileReader, file: RemoteFile, number: int, block: bytes | memoryview
    ) -> None:
        """Keep a block of *file*, if it can be kept."""
        if file.identity is None:
            return
        place = self._block_place(reader, file, number)
        part = place.with_name(f"{place.name}.{uuid.uuid4().hex}{_PART}")
        try:
            if not self._has_room_for_block(len(block) + _CRC.size):
                return
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            descriptor = os.open(part, flags, 0o400)  # of several processes: nobody writes to it
            try:
                _write_all(descriptor, block)
                _write_all(descriptor, _CRC.pack(crc32c(block)))
            finally:
                os.close(descriptor)
            part.rename(place)
        except OSError:  # no room on the disk, say, or who made room took the part: it goes without
            with suppress(OSError):
                part.unlink()

    def note_fetched(self, reader: FileReader, file: RemoteFile, first: int, last: int) -> bool:
        """Note that blocks of *file* are fetched; return whether one of them was before.

        False, too, where nothing can be noted.
        """
        if file.identity is None:
            return False
        notes = self._objects / _key(reader, file, f"{file.block_bytes} {file.block_phase} notes")
        try:
            descriptor = os.open(notes, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                before = os.pread(descriptor, last + 1 - first, first)
                os.pwrite(descriptor, b"\1" * (last + 1 - first), first)
                os.utime(descriptor)
            finally:
                os.close(descriptor)
        except OSError:
            return False
        return any(before)

    def _block_place(self, reader: FileReader, file: RemoteFile, number: int) -> Path:
        where = f"{file.block_bytes} {file.block_phase} {number}"
        return self._objects / _key(reader, file, where)

    def _has_room_for_block(self, size_bytes: int) -> bool:
        with self._locked(_ROOM) as room:
            known = os.pread(room, _USED.size, 0)
            used = _USED.unpack(known)[0] if len(known) == _USED.size else self.max_bytes
            if used + size_bytes > self.max_bytes:
                least = min(self.max_bytes // _SHARE, self.max_bytes - size_bytes)
                used = self._make_room(max(size_bytes, least))
            has_room = used + size_bytes <= self.max_bytes
            self._note_used(room, used + size_bytes if has_room else used)
        return has_room

    def _note_used(self, room: int, used_bytes: int) -> None:
        os.pwrite(room, _USED.pack(used_bytes), 0)

    def _fetch_once(self, store: FileReader, file: RemoteFile, place: Path, target: Path) -> None:
        """Fetch it, or wait for who does; the lock goes with the last who needs it."""
        lock = self._locks / place.name
        while True:
            with self._locked(lock.name) as descriptor:
                if not _is_named(descriptor, lock):
                    continue  # who had it has removed it
                try:
                    _link(place, target)
                except FileNotFoundError:
                    self._fetch(store, file, place, target)
                finally:
                    lock.unlink()
                return

    def _fetch(self, store: FileReader, file: RemoteFile, place: Path, target: Path) -> None:
        part = place.with_name(f"{place.name}.{uuid.uuid4().hex}{_PART}")
        with self._locked(_ROOM) as room:
            used = self._make_room(file.size_bytes)
            if used + file.size_bytes > self.max_bytes:
                raise self._no_room(store, file, used)
            self._note_used(room, used + file.size_bytes)
            writing = FileLock.open_flock(part, os.O_RDWR | os.O_CREAT | os.O_EXCL)
            descriptor = writing.fileno()
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                os.ftruncate(descriptor, file.size_bytes)
            except BaseException:
                writing.release()
                part.unlink()
                raise
        try:
            with os.fdopen(descriptor, "r+b", buffering=0, closefd=False) as stream:

                def write(data: bytes | memoryview) -> None:
                    with _writing(part):
                        _write_all(stream.fileno(), data)

                store.read(file, write)
                _check_whole(stream.tell(), store, file)
                if file.identity is not None:
                    with _writing(part):
                        os.fsync(stream.fileno())  # its name says it is whole, after a crash too
                os.fchmod(stream.fileno(), 0o400)  # of many names: nobody writes to it
                _link(part, target)
                if file.identity is not None:  # else nobody can tell whether it is still the same
                    part.rename(place)
        finally:
            writing.release()
            with suppress(FileNotFoundError):
                part.unlink()

    def _make_room(self, size_bytes: int) -> int:
        """Remove what is not in use until *size_bytes* fit in; return how many bytes are left."""
        held = self._held()
        used = sum(status.st_size for _, status in held)
        if used + size_bytes <= self.max_bytes:
            return used
        remove_left_views(self.directory / "views")
        held = self._held()
        used = sum(status.st_size for _, status in held)
        by_use = sorted(
            (status.st_atime_ns, entry, status.st_size)
            for entry, status in held
            if status.st_nlink == 1 and not _is_being_written(entry)
        )
        for _, entry, size in by_use:
            if used + size_bytes <= self.max_bytes:
                break
            with suppress(FileNotFoundError):
                Path(entry).unlink()
            used -= size
        return used

    def _no_room(self, store: FileReader, file: RemoteFile, used: int) -> LimitExceededError:
        return LimitExceededError(
            "the spool of remote storage has no room for the file beside what is being read:"
            " raise the option spoolMaxBytes",
            file=f"{store.url}/{file.path}",
            found=f"{used} bytes in use in {self.directory}, {file.size_bytes} more",
            expected=f"at most {self.max_bytes} bytes",
        )

    def _held(self) -> list[tuple[str, os.stat_result]]:
        held = []
        with os.scandir(self._objects) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):
                    held.append((entry.path, entry.stat()))
        return held

    @contextmanager
    def _locked(self, name: str) -> Iterator[int]:
        try:
            lock = FileLock.open_flock(self._locks / name, os.O_RDWR | os.O_CREAT)
        except FileNotFoundError:  # somebody has cleaned up while nothing of it was open
            self._make_folders()
            lock = FileLock.open_flock(self._locks / name, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(lock.fileno(), fcntl.LOCK_EX)
            yield lock.fileno()
        finally:
            lock.release()


def _key(store: FileReader, file: RemoteFile, block: str = "") -> str:
    identity = file.identity or uuid.uuid4().hex
    parts = [store.key, file.path, str(file.size_bytes), identity, *([block] if block else [])]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _is_named(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _link(file: Path, target: Path) -> None:
    try:
        os.link(file, target)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise WriteError(
            "the spool of remote storage needs a file system with hard links: name another place by"
            f" the option spoolDirectory ({error.strerror})",
            file=str(target),
            os_error=error.errno,
        ) from error


def _read_up_to(descriptor: int, size_bytes: int) -> bytes:
    """Return the file's bytes, or so many of them."""
    parts = []
    while size_bytes > 0 and (part := os.read(descriptor, size_bytes)):
        parts.append(part)
        size_bytes -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _write_all(descriptor: int, data: bytes | memoryview) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]


@contextmanager
def _writing(part: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        kind = DiskFullError if error.errno in {errno.ENOSPC, errno.EDQUOT} else WriteError
        raise kind(
            f"the spool of remote storage cannot be written: {error.strerror}",
            file=str(part),
            os_error=error.errno,
        ) from error


def _check_whole(written: int, store: FileReader, file: RemoteFile) -> None:
    if written != file.size_bytes:
        raise ReadIOError(
            "the file has another size than the store listed",
            file=f"{store.url}/{file.path}",
            found=f"{written} bytes",
            expected=f"{file.size_bytes} bytes",
        )


def _is_being_written(path: str) -> bool:
    """Whether a file that is not whole yet has a writer; else its writer died."""
    if not path.endswith(_PART):
        return False
    try:
        lock = FileLock.open_flock(path, os.O_RDONLY)  # nobody may write to one that is nearly done
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(lock.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        lock.release()
    return False
