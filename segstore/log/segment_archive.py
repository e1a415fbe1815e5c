"""A tar archive of segments, read where its members lie: nothing is unpacked.

So no name in the archive becomes a path. A compressed archive is decompressed first, piece by
piece, into a temporary file that has no name and goes with the process. Before a member is
decompressed, the size in its header is compared with the room that there is: a small archive may
hold more than any disk does. Not a byte is stored of what comes after the end of the archive.
"""

from __future__ import annotations

import errno
import importlib
import os
import tarfile
import tempfile
from contextlib import ExitStack
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple, cast

from segstore.errors import (
    ClosedError,
    CorruptLogError,
    DiskFullError,
    LimitExceededError,
    LogNotFoundError,
    NotALogError,
    ReadIOError,
    SegstoreError,
    WriteError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ARCHIVE_SUFFIXES: Final = (".tar", ".tar.gz", ".tgz", ".tar.zst", ".tar.xz", ".tar.bz2")
_BLOCK_BYTES: Final = 512
_PIECE_BYTES: Final = 1024 * 1024
_MAX_HEADER_BYTES: Final = 1024 * 1024
_MOST_MEMBERS: Final = 1_000_000
"""Those without content cost memory only, some hundred bytes each."""
_FREE_PART: Final = 20
_MOST_FREE_BYTES: Final = 1024**3
"""A 20th of a file system for temporary files stays free for others, at most 1 GiB."""
_WAY_OUT: Final = "`tar -xf` unpacks what is whole, and `segstore cat` reads the directory"
_STORE_FILES: Final = "`tar --dereference --hard-dereference -cf` stores files instead of links"
_FORMATS: Final = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\xfd7zXZ\x00": "xz",
    b"BZh": "bzip2",
}
"""Compressions by their first bytes."""


class Member(NamedTuple):
    """Where the content of a member lies in the archive."""

    position: int
    size_bytes: int


def is_archive(path: str) -> bool:
    """Whether *path* has the name of a tar archive."""
    return path.lower().endswith(ARCHIVE_SUFFIXES)


def without_suffix(name: str) -> str:
    """Return the name of an archive without what makes it one."""
    suffixes = [one for one in ARCHIVE_SUFFIXES if name.lower().endswith(one)]
    return name[: -len(suffixes[0])] if suffixes else name


class SegmentArchive:
    """The regular files in a tar archive, by name; it answers as a `Directory` does.

    Parameters
    ----------
    path : str
        Absolute path of the archive: plain, or compressed by gzip or zstd, whatever its name says.

    Attributes
    ----------
    path : str
        For messages.
    members : dict of str to Member
        Of two of one name, the later one, as tar unpacks them.

    Raises
    ------
    LogNotFoundError, ReadIOError
        There is no such file, or it cannot be read.
    NotALogError
        It is no tar archive, or compressed in another way.
    CorruptLogError
        It was cut, or is damaged: the error names member and byte.
    DiskFullError, WriteError
        There is no room for what it decompresses to. Nothing of it is left.
    LimitExceededError
        It has more than a million members.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.members: dict[str, Member] = {}
        try:
            with ExitStack() as stack:
                self._file: IO[bytes] = stack.enter_context(open(path, "rb", buffering=0))  # noqa: PTH123
                self._packed = self._decompressed(stack)
                self._find_members()
                self._close = stack.pop_all().close
        except SegstoreError:
            raise
        except FileNotFoundError as error:
            raise LogNotFoundError("there is no such file", file=path) from error
        except OSError as error:
            raise ReadIOError(
                "the archive cannot be read", file=path, os_error=error.errno or errno.EIO
            ) from error

    def _decompressed(self, stack: ExitStack) -> _Decompressed | None:
        """Put a temporary file in the place of a compressed archive; return what fills it."""
        start = os.pread(self._file.fileno(), _BLOCK_BYTES, 0)
        kind = next((kind for magic, kind in _FORMATS.items() if start.startswith(magic)), None)
        if kind is None:
            return None
        packed, damage = _decompressor(kind, self._file, self.path)
        self._file = stack.enter_context(_temporary_file())
        return _Decompressed(self.path, packed, damage, self._file)

    def _reach(self, position: int, what: str = "the next header") -> None:
        """Have the content up to a byte of it, as far as there is so much."""
        if self._packed is not None:
            self._packed.reach(position, what)

    @property
    def _size_bytes(self) -> int:
        return os.fstat(self._file.fileno()).st_size

    def _find_members(self) -> None:
        last: tarfile.TarInfo | None = None
        problem: Exception | None = None
        try:
            for number, (one, reached) in enumerate(self._headers()):
                if number == _MOST_MEMBERS:
                    raise LimitExceededError(
                        "the archive has too many members: unpack it, and read the directory",
                        file=self.path,
                        position=one.offset,
                        found=f"more than {_MOST_MEMBERS} members",
                        expected=f"at most {_MOST_MEMBERS} members",
                    )
                last = one
                self._reach(reached, f"the member {one.name}")
                if one.isreg() and not one.issparse() and reached > self._size_bytes:
                    break
                self._note(one)
            else:
                if self._packed is not None:
                    self._packed.finish()
                if self._problem is None:
                    return
        except (tarfile.TarError, OverflowError, EOFError) as error:
            if last is None and self._problem is None:
                raise NotALogError(
                    f"this is no tar archive: {error}",
                    file=self.path,
                    position=0,
                    found=f"{self._size_bytes} bytes that are none",
                    expected="a tar archive",
                ) from error
            problem = error
        problem = self._problem or problem
        raise self._cut(last, self._size_bytes, problem) from problem

    @property
    def _problem(self) -> Exception | None:
        """What ended the decompression before its time."""
        return None if self._packed is None else self._packed.problem

    def _headers(self) -> Iterator[tuple[tarfile.TarInfo, int]]:
        """Yield the members, each with the byte where the next one begins.

        Raises
        ------
        tarfile.TarError, OverflowError, EOFError
            A header is damaged, or the archive does not end with its end mark.
        """
        reached = 0
        try:
            self._file.seek(0)
            headers = cast("IO[bytes]", _Headers(self._file, self._reach))
            with tarfile.open(fileobj=headers, mode="r:") as archive:
                for one in archive:
                    if archive.offset <= reached or one.size < 0:
                        raise tarfile.ReadError("a length leads backwards")
                    reached = archive.offset
                    yield one, reached
        except ValueError as error:  # numbers in headers
            raise tarfile.ReadError(str(error)) from error
        except RecursionError as error:  # tarfile calls itself for the header of a long name
            raise tarfile.ReadError("too many headers are about one member") from error
        self._reach(reached + _BLOCK_BYTES)
        end = os.pread(self._file.fileno(), _BLOCK_BYTES, reached)
        if len(end) < _BLOCK_BYTES or end.strip(b"\0"):
            raise tarfile.ReadError("neither a member nor the end mark of the archive follows")

    def _note(self, one: tarfile.TarInfo) -> None:
        name = one.name.removeprefix("./")
        target = self.members.get(one.linkname.removeprefix("./")) if one.islnk() else None
        if target is not None:  # a second name of a file that came before
            self.members[name] = target
        elif one.isreg() and not one.issparse():
            self.members[name] = Member(one.offset_data, one.size)
        elif name.endswith(".log") and not one.isdir():
            raise NotALogError(
                f"the archive has no records of the member {one.name}:"
                f" {_WAY_OUT if one.issparse() else _STORE_FILES}",
                file=self.path,
                position=one.offset,
                found=_kind_of(one),
                expected="a regular file that is not sparse",
            )

    def _cut(
        self, last: tarfile.TarInfo | None, size: int, problem: Exception | None
    ) -> CorruptLogError:
        """Say in which member the archive ends, or after which it goes on no more."""
        why = "" if problem is None else f" ({str(problem) or type(problem).__name__})"
        where, end = "at its beginning", 0
        if last is not None:
            end = last.offset_data + last.size
            where = f"after the member {last.name}"
            if end > size:
                where = f"inside the member {last.name}, at byte {size - last.offset_data}"
        return CorruptLogError(
            f"the archive was cut or is damaged {where}{why}; {_WAY_OUT}",
            file=self.path,
            position=min(end, size),
            found=f"{size} bytes of members",
            expected=f"at least {end} bytes, and the end mark of the archive",
        )

    # ---- as a directory --------------------------------------------------------------------------

    def read_range(self, name: str, position: int, size: int) -> bytes:
        """Return up to *size* bytes of the member *name* from *position* on.

        Raises
        ------
        ClosedError, ReadIOError
            The archive is closed, or cannot be read.
        """
        member = self.members[name]
        wanted = max(0, min(size, member.size_bytes - position))
        try:
            return os.pread(self._file.fileno(), wanted, member.position + position)
        except ValueError as error:  # of fileno()
            raise ClosedError("the archive is closed", file=self.path) from error
        except OSError as error:
            raise ReadIOError(
                "the archive cannot be read",
                file=self.path,
                position=member.position + position,
                os_error=error.errno or errno.EIO,
            ) from error

    def read_file(self, name: str, max_bytes: int) -> bytes:
        """Return a small member whole."""
        if name not in self.members:
            raise LogNotFoundError("the archive has no such member", file=f"{self.path}/{name}")
        size = self.members[name].size_bytes
        if size > max_bytes:
            raise LimitExceededError(
                "the member is too large",
                file=f"{self.path}/{name}",
                found=f"{size} bytes",
                expected=f"at most {max_bytes} bytes",
            )
        return self.read_range(name, 0, size)

    def close(self) -> None:
        """Close the archive; what was decompressed is gone."""
        self._close()


def _kind_of(member: tarfile.TarInfo) -> str:
    if member.issym():
        return f"a symbolic link to {member.linkname}"
    if member.islnk():
        return f"a hard link to {member.linkname}, which is not before it in the archive"
    if member.issparse():
        return "a sparse file"
    return f"a member of type {member.type.decode('ascii', 'replace')}"


class _Headers:
    """What `tarfile` reads of the archive: headers, whose lengths may be wrong."""

    def __init__(self, file: IO[bytes], reach: Callable[[int], None]) -> None:
        self._file = file
        self._reach = reach
        self.seek, self.tell = file.seek, file.tell

    def read(self, size: int) -> bytes:
        if not 0 <= size <= _MAX_HEADER_BYTES:
            raise tarfile.ReadError(f"a header of {size} bytes")
        self._reach(self.tell() + size)
        return self._file.read(size)


class _Decompressed:
    """What a compressed archive has in it, in a temporary file as far as it was asked for.

    Attributes
    ----------
    size_bytes : int
        So much is there.
    problem : Exception or None
        Why it does not go on.
    """

    def __init__(
        self, path: str, packed: Any, damage: tuple[type[Exception], ...], file: IO[bytes]
    ) -> None:
        self.size_bytes = 0
        self.problem: Exception | None = None
        self._path, self._packed, self._damage, self._file = path, packed, damage, file
        self._is_at_end = False

    def reach(self, position: int, what: str) -> None:
        """Decompress up to a byte of the content, or to where that ends.

        Raises
        ------
        DiskFullError, WriteError
            There is no room for so much.
        """
        if position <= self.size_bytes or self._is_at_end:
            return
        self._check_room(position - self.size_bytes, what)
        while self.size_bytes < position and (piece := self._next_piece()):
            _write(self._file, piece, self.size_bytes)
            self.size_bytes += len(piece)

    def finish(self) -> None:
        """Decompress the rest to check it; no byte of it is kept."""
        while self._next_piece():
            pass

    def _next_piece(self) -> bytes:
        piece = b""
        try:
            piece = self._packed.read1(_PIECE_BYTES)  # all that comes before a damaged place
        except self._damage as error:
            self.problem = error
        if not piece:
            self._is_at_end = True
            if self.problem is None and self.size_bytes == 0:  # a cut file may seem to be empty
                self.problem = EOFError("nothing of it can be decompressed")
        return piece

    def _check_room(self, size_bytes: int, what: str) -> None:
        disk = os.fstatvfs(self._file.fileno())
        kept = min(_MOST_FREE_BYTES, disk.f_blocks * disk.f_frsize // _FREE_PART)
        free = disk.f_bavail * disk.f_frsize
        if size_bytes > free - kept:
            raise DiskFullError(
                f"{what} of the archive {self._path} cannot be decompressed here, and nothing of"
                " the archive was kept: the environment variable TMPDIR names another folder for"
                " temporary files",
                file=tempfile.gettempdir(),
                found=f"{free} bytes that are free",
                expected=f"{size_bytes} bytes, and {kept} that stay free for others",
                os_error=errno.ENOSPC,
            )


def _decompressor(kind: str, file: IO[bytes], path: str) -> tuple[Any, tuple[type[Exception], ...]]:
    """Return what reads the content of *file*, and what its damage is raised as."""
    if kind == "gzip":
        import gzip
        import zlib

        return gzip.GzipFile(fileobj=file), (EOFError, gzip.BadGzipFile, zlib.error)
    if kind == "zstd":
        return _zstd(file)
    raise NotALogError(
        f"the archive is compressed by {kind}: decompress it first, `{kind} -dk FILE` does",
        file=path,
        found=kind,
        expected="gzip, zstd, or no compression",
    )


def _zstd(file: IO[bytes]) -> tuple[Any, tuple[type[Exception], ...]]:
    try:  # Python 3.14
        module: Any = importlib.import_module("compression.zstd")
    except ImportError:
        module = importlib.import_module("zstandard")
        reader = module.ZstdDecompressor().stream_reader(file, read_across_frames=True)
        return reader, (module.ZstdError,)
    return module.ZstdFile(file), (EOFError, module.ZstdError)


def _temporary_file() -> IO[bytes]:
    try:
        return tempfile.TemporaryFile(buffering=0)
    except OSError as error:
        raise _no_room(error) from error


def _write(file: IO[bytes], piece: bytes, position: int) -> None:
    view = memoryview(piece)
    try:
        while view:
            written = os.pwrite(file.fileno(), view, position)
            view, position = view[written:], position + written
    except OSError as error:
        raise _no_room(error) from error


def _no_room(error: OSError) -> DiskFullError | WriteError:
    """Name the folder, and what moves it."""
    kind = DiskFullError if error.errno in {errno.ENOSPC, errno.EDQUOT} else WriteError
    return kind(
        "the archive cannot be decompressed here: the environment variable TMPDIR names another "
        "folder for temporary files",
        file=tempfile.gettempdir(),
        os_error=error.errno,
    )
