"""Manifests that were read, for the next listing of the same objects [RDB-3]."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore.remote.remote_file import RemoteFile
    from segstore.remote.tiered.segment_manifest import SegmentManifest

MOST_BYTES: Final = 16 * 1024 * 1024
"""Of the manifests that are kept, as they are stored, and 8 for each chunk."""
_CHUNK_BYTES: Final = 8


class ManifestCache:
    """Manifests by the objects they were read from; the latest used ones are kept.

    An object is known by its path, size and identity: what was changed since is read again.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[RemoteFile, ...], tuple[SegmentManifest, int]] = OrderedDict()
        self._kept_bytes = 0

    def read(
        self, files: tuple[RemoteFile, ...], read: Callable[[], SegmentManifest]
    ) -> SegmentManifest:
        """Return the manifest of *files*, from *read* where it is not kept.

        Parameters
        ----------
        files : tuple of RemoteFile
            What *read* reads. Nothing is kept where the store tells no identity of one of them.
        read : callable
            Its errors are raised, and not kept.
        """
        with self._lock:
            known = self._kept.get(files)
            if known is not None:
                self._kept.move_to_end(files)
                return known[0]
        manifest = read()
        if all(file.identity is not None for file in files):
            self._keep(files, manifest)
        return manifest

    def _keep(self, files: tuple[RemoteFile, ...], manifest: SegmentManifest) -> None:
        index = manifest.chunk_index
        chunks = index.original_file_size // index.original_chunk_size
        size = files[-1].size_bytes + _CHUNK_BYTES * chunks
        with self._lock:
            if files in self._kept:  # another thread read it meanwhile
                return
            self._kept[files] = manifest, size
            self._kept_bytes += size
            while self._kept_bytes > MOST_BYTES:
                _, (_, size) = self._kept.popitem(last=False)
                self._kept_bytes -= size
