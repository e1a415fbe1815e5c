"""One segment of a tiered bucket: any plain range of it, and its indexes [RDB, IXO].

Only the chunks of a range are fetched, neighbours by one request. A store that fails, or an object
that changed, is an error of that read and names the object [DUR-144, RDB-5].
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from segstore.errors import (
    CodecError,
    CorruptCheckpointError,
    CorruptLogError,
    LimitExceededError,
    UnsupportedFormatError,
)
from segstore.log.files.checkpoints import parse_leader_epoch_checkpoint
from segstore.remote.local_folder import LocalFolder
from segstore.remote.tiered.chunk_cipher import OVERHEAD_BYTES
from segstore.remote.tiered.segment_manifest import (
    INDEX_NAMES,
    MAX_MANIFEST_BYTES,
    parse_manifest,
)
from segstore.remote.tiered.zstd_chunk import undo_zstd

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Self

    from segstore.remote.remote_file import RemoteFile, RemoteStore
    from segstore.remote.tiered.chunk_cipher import ChunkCipher
    from segstore.remote.tiered.chunk_index import Chunk
    from segstore.remote.tiered.key_ring import KeyRing
    from segstore.remote.tiered.segment_manifest import SegmentManifest
    from segstore.types import EpochEntry

IndexName = Literal["offset", "timestamp", "producerSnapshot", "leaderEpoch", "transaction"]

LOOKED_UP_INDEXES: Final[Mapping[str, Literal["offset", "timestamp"]]] = {
    "index": "offset",
    "timeindex": "timestamp",
}
"""By the suffixes of the broker's files: those that find a batch."""

FETCH_BYTES: Final = 16 * 1024 * 1024
"""Stored bytes of one request, or of one chunk where that is larger."""
FETCH_CHUNKS: Final = 65536
"""Chunks of one request: a bucket of strangers may have chunks of one byte."""


class SegmentFiles(NamedTuple):
    """The objects of a segment, as they were listed.

    Attributes
    ----------
    log : RemoteFile
        The records.
    indexes : mapping of str to RemoteFile
        The object that holds each index, by the names of `INDEX_NAMES`.
    manifest : RemoteFile
        The one that describes it.
    """

    log: RemoteFile
    indexes: Mapping[str, RemoteFile]
    manifest: RemoteFile

    @classmethod
    def of_three(cls, log: RemoteFile, indexes: RemoteFile, manifest: RemoteFile) -> Self:
        """Return those of a copy whose indexes are one object [BKT-1, IXO-1]."""
        return cls(log, dict.fromkeys(INDEX_NAMES, indexes), manifest)

    @property
    def distinct(self) -> list[RemoteFile]:
        """Each object once."""
        return list(dict.fromkeys((self.log, *self.indexes.values(), self.manifest)))


def read_manifest(
    store: RemoteStore, file: RemoteFile, log_bytes: int | None = None
) -> SegmentManifest:
    """Fetch and parse a manifest.

    Parameters
    ----------
    store, file : RemoteStore, RemoteFile
        The object, and where it is.
    log_bytes : int or None
        Size of the segment's ``.log`` object, if it is known.

    Raises
    ------
    LimitExceededError
        It is larger than a manifest can be; found by its listed size.
    CorruptCheckpointError, UnsupportedFormatError, CodecError
        As `parse_manifest`.
    LogTruncatedError, LogNotFoundError, LogPermissionError, ReadIOError
        As `RemoteStore.read_range`.
    """
    where = f"{store.url}/{file.path}"
    if file.size_bytes > MAX_MANIFEST_BYTES:
        raise LimitExceededError(
            "the manifest is too large",
            file=where,
            found=f"{file.size_bytes} bytes",
            expected=f"at most {MAX_MANIFEST_BYTES} bytes",
        )
    data = bytes(store.read_range(file, 0, file.size_bytes))
    return parse_manifest(data, where, log_bytes)


class TieredSegment:
    """A segment whose three objects are there.

    Parameters
    ----------
    store : RemoteStore
        Of the bucket.
    files : SegmentFiles
        The objects.
    manifest : SegmentManifest
        The parsed one of *files*.
    keys : KeyRing
        For an encrypted segment.

    Raises
    ------
    CorruptLogError
        An object has another size than the manifest says [MAN-5, IXO-1].
    """

    def __init__(
        self, store: RemoteStore, files: SegmentFiles, manifest: SegmentManifest, keys: KeyRing
    ) -> None:
        self.manifest = manifest
        self._store, self._files, self._keys = store, files, keys
        self._cipher: ChunkCipher | None = None
        self._check_size(files.log, manifest.chunk_index.stored_file_size)
        sizes: dict[RemoteFile, int] = {}
        for name, place in manifest.indexes.items():
            file = files.indexes[name]
            sizes[file] = sizes.get(file, 0) + place.size
        for file, size in sizes.items():
            self._check_size(file, size)

    @property
    def size_bytes(self) -> int:
        """Size of the plain segment."""
        return self.manifest.chunk_index.original_file_size

    @property
    def start_offset(self) -> int:
        """The first offset, by its key."""
        return self.manifest.metadata.start_offset

    @property
    def end_offset(self) -> int:
        """The last offset: inclusive."""
        return self.manifest.metadata.end_offset

    @property
    def leader_epochs(self) -> tuple[EpochEntry, ...]:
        """Each leader epoch with its first offset in this segment [MAN-8]."""
        return self.manifest.metadata.leader_epochs

    @property
    def identity(self) -> str | None:
        """Another one is another segment; None: the store does not tell."""
        tags = [file.identity for file in self._files.distinct]
        return None if None in tags else " ".join(map(str, (self._files.log.path, *tags)))

    @property
    def modified_ns(self) -> int | None:
        """When ``.log`` was written, in ns since 1970."""
        return self._files.log.modified_ns

    @property
    def log_name(self) -> str:
        """The object that holds the records, for people."""
        return self._name(self._files.log)

    def index_name(self, name: IndexName) -> str:
        """Return the object that holds an index, for people."""
        return self._name(self._files.indexes[name])

    def read(self, start: int, end: int) -> bytes | memoryview:
        """Return plain bytes ``[start, end)`` of the segment; *end* is cut to its size [RDB-1].

        Errors are those of `pieces`.
        """
        parts = list(self.pieces(start, end))
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def read_into(self, start: int, target: memoryview) -> bool:
        """Fill *target* with plain bytes from *start* on; False where a folder does not have them.

        Errors are those of `pieces`.
        """
        if self.manifest.is_transformed or not isinstance(self._store, LocalFolder):
            return False
        self._store.read_into(self._files.log, start, target)
        return True

    def pieces(self, start: int, end: int) -> Iterator[bytes | memoryview]:
        """Yield plain bytes ``[start, end)`` of the segment, one piece after another [RDB-1].

        Raises
        ------
        CorruptLogError
            A chunk was changed, or is not what the manifest says.
        EncryptionKeyError, ImportError
            The segment is encrypted, and its key or ``segstore[tiered]`` is missing.
        LogTruncatedError, LogNotFoundError, LogPermissionError, ReadIOError
            As `RemoteStore.read_range`; an object that is gone was deleted after the listing.
        """
        if not self.manifest.is_transformed:  # CHK-2: the bytes lie there as they are
            end = min(end, self.size_bytes)
            for at in range(max(start, 0), end, FETCH_BYTES):
                yield self._store.read_range(self._files.log, at, min(at + FETCH_BYTES, end))
            return
        for run in _runs(self.manifest.chunk_index.chunks(start, end)):
            first, last = run[0], run[-1]
            stored = memoryview(
                self._store.read_range(
                    self._files.log, first.stored_position, last.stored_position + last.stored_bytes
                )
            )
            for chunk in run:
                at = chunk.stored_position - first.stored_position
                plain = self._undo(chunk, stored[at : at + chunk.stored_bytes])
                low = max(start - chunk.plain_position, 0)
                high = min(end - chunk.plain_position, chunk.plain_bytes)
                yield plain[low:high]

    def read_index(self, name: IndexName) -> bytes | None:
        """Return the broker's file of one index, None where it had none [IXO-2, IXO-3].

        Raises
        ------
        CorruptLogError, EncryptionKeyError, ImportError
            As `pieces`.
        LogTruncatedError, LogNotFoundError, LogPermissionError, ReadIOError
            As `RemoteStore.read_range`.
        """
        place = self.manifest.indexes.get(name)
        if place is None:
            return None
        if not place.size:
            return b""
        file = self._files.indexes[name]
        stored = self._store.read_range(file, place.position, place.position + place.size)
        return bytes(self._decrypted(stored, file, place.position))

    def index_bytes(self, name: IndexName) -> int:
        """Return the size of what `read_index` gives, by the manifest alone [IXO-2]."""
        place = self.manifest.indexes.get(name)
        if place is None or not place.size or self.manifest.encryption is None:
            return 0 if place is None else place.size
        return place.size - OVERHEAD_BYTES

    def lineage(self) -> tuple[EpochEntry, ...]:
        """Return the lineage of the leader that copied the segment [IXO-4].

        Raises
        ------
        CorruptCheckpointError
            The leader epoch index cannot be read, or does not ascend.
        CorruptLogError, EncryptionKeyError, ImportError, …
            As `read_index`.
        """
        file = self.index_name("leaderEpoch")
        try:
            entries = parse_leader_epoch_checkpoint(self.read_index("leaderEpoch") or b"0\n0\n")
        except CorruptCheckpointError as error:
            error.file = file  # not that of a directory
            raise
        if not entries:
            raise CorruptCheckpointError(
                "the leader epoch index is empty",
                file=file,
                found="no leader epoch",
                expected="at least the leader epoch of the segment",
            )
        before = None
        for entry in entries:
            if min(entry) < 0 or (
                before is not None
                and (entry.epoch <= before.epoch or entry.start_offset < before.start_offset)
            ):
                raise CorruptCheckpointError(
                    "the entries of the leader epoch index do not ascend",
                    file=file,
                    position=self.manifest.indexes["leaderEpoch"].position,
                    found=f"{tuple(entry)} after {before and tuple(before)}",
                    expected="greater epochs and offsets",
                )
            before = entry
        return tuple(entries)

    def _undo(self, chunk: Chunk, stored: memoryview) -> bytes | memoryview:
        file, position = self._name(self._files.log), chunk.stored_position
        data = self._decrypted(stored, self._files.log, position)
        if self.manifest.is_compressed:
            try:
                data = undo_zstd(data, chunk.plain_bytes)
            except (CodecError, LimitExceededError, UnsupportedFormatError) as error:
                raise CorruptLogError(
                    f"chunk {chunk.number} cannot be decompressed: {error.message}",
                    file=file,
                    position=position,
                    found=error.found,
                    expected=f"a zstd frame of {chunk.plain_bytes} bytes",
                ) from error
        if len(data) != chunk.plain_bytes:
            raise CorruptLogError(
                f"chunk {chunk.number} has another size than the manifest says",
                file=file,
                position=position,
                found=f"{len(data)} plain bytes",
                expected=f"{chunk.plain_bytes} plain bytes",
            )
        return data

    def _decrypted(
        self, stored: bytes | memoryview, file: RemoteFile, position: int
    ) -> bytes | memoryview:
        encryption = self.manifest.encryption
        if encryption is None:
            return stored
        if self._cipher is None:
            self._cipher = self._keys.cipher(encryption, self._name(self._files.manifest))
        return self._cipher.decrypt(stored, self._name(file), position)

    def _check_size(self, file: RemoteFile, expected: int) -> None:
        if file.size_bytes != expected:
            raise CorruptLogError(
                "the object has another size than its manifest says: it was cut or changed",
                file=self._name(file),
                found=f"{file.size_bytes} bytes",
                expected=f"{expected} bytes",
            )

    def _name(self, file: RemoteFile) -> str:
        return f"{self._store.url}/{file.path}"


def _runs(chunks: Iterator[Chunk]) -> Iterator[list[Chunk]]:
    """Yield neighbours that one request fetches, without making a list of all."""
    run: list[Chunk] = []
    size = 0
    for chunk in chunks:
        if run and (size + chunk.stored_bytes > FETCH_BYTES or len(run) == FETCH_CHUNKS):
            yield run
            run, size = [], 0
        run.append(chunk)
        size += chunk.stored_bytes
    if run:
        yield run
