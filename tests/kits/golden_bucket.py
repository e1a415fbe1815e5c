"""Golden buckets: any folder whose cases have ``case.json`` and ``bucket``; no case is named."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from segstore.remote.bucket import Bucket, open_bucket
from segstore.remote.local_folder import LocalFolder
from segstore.remote.stores import open_store
from segstore.remote.tiered.key_ring import KeyRing
from segstore.remote.tiered.object_key import SUFFIXES
from segstore.remote.tiered.tiered_segment import SegmentFiles, TieredSegment, read_manifest
from segstore.remote.urls import is_url

if TYPE_CHECKING:
    from pathlib import Path

    from segstore.remote.remote_file import RemoteStore


@dataclass(frozen=True)
class BucketCase:
    """One case: a bucket, and what Kafka and the plug-in said of it."""

    directory: Path

    def __str__(self) -> str:
        return self.directory.name

    @cached_property
    def said(self) -> dict[str, Any]:
        """What ``case.json`` says."""
        return json.loads((self.directory / "case.json").read_text(encoding="utf-8"))

    @cached_property
    def range_reads(self) -> list[dict[str, Any]]:
        """Ranges that the plug-in read."""
        return json.loads((self.directory / "range_reads.json").read_text(encoding="utf-8"))

    @cached_property
    def keys(self) -> KeyRing:
        """The case's ring; empty where nothing is encrypted."""
        folder = self.directory / "keys"
        return KeyRing(folder if folder.is_dir() else {})

    @property
    def store(self) -> RemoteStore:
        """The bucket, as the folder that it is here."""
        return LocalFolder(self.directory / "bucket")

    @property
    def complete_segments(self) -> list[dict[str, Any]]:
        """What is said of the segments that have all three objects, whole."""
        return [segment for segment in self.said["segments"] if segment["complete"]]

    def segment(self, main_key: str, store: RemoteStore | None = None) -> TieredSegment:
        """Open one segment of the bucket, or of a copy of it."""
        store = store or self.store
        files = segment_files(store, main_key)
        return TieredSegment(store, files, read_manifest(store, files.manifest), self.keys)


@dataclass(frozen=True)
class BucketPlace:
    """Where the bucket of a case lies: in a folder, or in a store.

    Attributes
    ----------
    case : BucketCase
        Whose it is.
    url : str
        Of the bucket itself, without the key prefix.
    settings : mapping of str to str
        How the store is reached.
    """

    case: BucketCase
    url: str
    settings: dict[str, str]

    @property
    def store(self) -> RemoteStore:
        """The bucket itself."""
        return open_store(self.url, self.settings) if is_url(self.url) else LocalFolder(self.url)

    def segment(self, main_key: str) -> TieredSegment:
        """Open one segment."""
        return self.case.segment(main_key, self.store)

    def open(self, spool: Path, **options: Any) -> Bucket:
        """Open the bucket as a user does: folders of the prefix belong into the URL."""
        folder, _, prefix = self.case.said["key_prefix"].rpartition("/")
        keys = self.case.directory / "keys"
        return open_bucket(
            f"{self.url}/{folder}".rstrip("/"),
            keys=keys if keys.is_dir() else {},
            key_prefix=prefix,
            spool_directory=str(spool),
            **self.settings,
            **options,
        )


def segment_files(store: RemoteStore, main_key: str) -> SegmentFiles:
    """Return the three objects of a segment as they are listed."""
    folder, _, name = main_key.rpartition("/")
    files = store.list_folder(folder).files
    return SegmentFiles.of_three(*(files[f"{name}.{suffix}"] for suffix in SUFFIXES))


def bucket_cases(root: Path) -> list[BucketCase]:
    """Return the cases of a folder."""
    cases = [BucketCase(path) for path in sorted(root.iterdir()) if (path / "bucket").is_dir()]
    return [case for case in cases if (case.directory / "case.json").is_file()]


def sha256(data: bytes) -> str:
    """Return the digest as the cases have it."""
    return hashlib.sha256(data).hexdigest()
