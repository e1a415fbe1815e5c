"""The topics of a tiered bucket, read without a broker; ``segstore.open_bucket``."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from segstore.errors import LogNotFoundError
from segstore.remote.local_folder import LocalFolder
from segstore.remote.remote_logs import RemoteLogs, RemoteSettings
from segstore.remote.stores import open_store
from segstore.remote.tiered.key_ring import KeyRing
from segstore.remote.tiered.segment_states import read_segment_states
from segstore.remote.tiered.tiered_store import TieredStore
from segstore.remote.urls import is_url
from segstore.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from uuid import UUID

    from segstore.log.unified_log import Log
    from segstore.remote.tiered.segment_states import Directories
    from segstore.remote.tiered.tiered_partition import LeftOut


def open_bucket(  # noqa: PLR0913 - keywords of users
    url: str | os.PathLike[str],
    *,
    keys: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    key_prefix: str = "",
    remote_log_metadata: Directories | None = None,
    spool_directory: str | None = None,
    spool_max_bytes: int | None = None,
    **settings: str,
) -> Bucket:
    """Open a bucket that brokers with Aiven's tiered storage plug-in have written.

    Parameters
    ----------
    url : str or path
        ``s3://bucket/prefix``, a URL of another store, or a folder. It names what holds the
        folders of the topics.
    keys : path, mapping of str to path, or None
        Private RSA keys of an encrypted bucket. A folder with files ``<key id>.private.pem``. Or
        the PEM file of each key id; ``"env:NAME"`` reads that environment variable. None: the
        variable ``SEGSTORE_TIERED_KEYS``, a folder or ``id=file,id=file``.
    key_prefix : str
        The end of ``rsm.config.key.prefix`` after its last ``/``, which is not part of *url*.
    remote_log_metadata : path, sequence of paths, or None
        Log directories of brokers with the topic ``__remote_log_metadata``, or its partitions'
        directories. Then only copies that Kafka had finished and was not deleting are read. They
        are read once, here. None: all complete copies are read.
    spool_directory : str or None
        Takes decrypted segments that are read. None: a private folder of this user, in that for
        temporary files.
    spool_max_bytes : int or None
        Limit of its size. None: 10 GiB.
    **settings : str
        Of the store: ``endpoint="…"``, ``access_key_id="…"``; else those of the environment.

    Returns
    -------
    Bucket
        Nothing was listed yet.

    Raises
    ------
    ImportError
        ``segstore[remote]`` is not installed, or what the scheme needs.
    IllegalArgumentError, LogNotFoundError
        A setting is unknown, or a folder does not exist.
    CorruptLogError, UnsupportedFormatError
        A record of ``__remote_log_metadata`` cannot be read.
    """
    path = os.fspath(url)
    if not is_url(path) and not Path(path).is_dir():
        raise LogNotFoundError(
            "there is no such folder", file=path, found="no folder", expected="a bucket's folder"
        )
    store = open_store(path, settings) if is_url(path) else LocalFolder(path)
    states = None if remote_log_metadata is None else read_segment_states(remote_log_metadata)
    shown = TieredStore(store, KeyRing(keys), key_prefix, states)
    return Bucket(shown, RemoteSettings(settings, spool_directory, spool_max_bytes))


class Bucket:
    """Topics and partitions of a tiered bucket; from `open_bucket`.

    Attributes
    ----------
    url : str
        Without secrets.
    """

    def __init__(self, store: TieredStore, settings: RemoteSettings) -> None:
        self.url = store.url
        self._store = store
        self._logs = RemoteLogs(store.url, settings, store)

    def __repr__(self) -> str:
        return f"Bucket({self.url!r})"

    def topics(self) -> list[str]:
        """Return the topics of which the bucket holds something, sorted."""
        return list(self._store.topic_ids())

    def topic_ids(self, topic: str) -> list[UUID]:
        """Return the ids of a topic. More than one: the topic was deleted and created again.

        `open` reads the id with the latest copy.
        """
        return self._store.topic_ids().get(topic, [])

    def partitions(self) -> list[TopicPartition]:
        """Return the partitions of which the bucket holds something, sorted.

        A partition without a copied segment is not in the bucket.
        """
        return self._store.partitions()

    def left_out(self, topic: str, partition: int) -> list[LeftOut]:
        """Return the segments of a partition that are not read, each with the reason."""
        found = self._store.partition(TopicPartition(topic, partition))
        return [] if found is None else list(found.left_out)

    @contextmanager
    def open(self, topic: str, partition: int) -> Iterator[Log]:
        """Open one partition as a read-only log, as the bucket is now.

        The log begins where it began when its newest segment was copied. It ends with that segment.
        All of its segments are fetched into the spool, decrypted and decompressed.

        Yields
        ------
        Log
            Closed at the end of the block.

        Raises
        ------
        LogNotFoundError
            The bucket holds no complete segment of the partition.
        CorruptLogError
            A segment is damaged, or records are missing between two segments.
        EncryptionKeyError, ImportError
            A private key, or ``segstore[tiered]``, is missing.
        LogTruncatedError, LogPermissionError, ReadIOError
            The store fails, or segments were deleted again and again during the open.
        LimitExceededError
            The log is larger than the spool.
        """
        topic_partition = TopicPartition(topic, partition)
        with self._logs.open_whole(topic_partition) as log:
            yield log
