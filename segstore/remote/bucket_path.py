"""From a path or URL to the tiered bucket that it names, or to one of its partitions.

A bucket is known by what is in it: folders ``<topic>-<topic id>``, or ``kafka-tiered-storage``. No
log directory has such names.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from segstore.log.files.partition_directory import (
    is_partition_directory_name,
    parse_directory_name,
)
from segstore.remote.remote_logs import RemoteSettings
from segstore.remote.storage.segment_files import STORAGE_FOLDER
from segstore.remote.tiered.tiered_store import AS_THE_LOG, TieredReading
from segstore.remote.urls import is_url, normal_url

if TYPE_CHECKING:
    from segstore.remote.bucket import Bucket
    from segstore.remote.tiered.segment_states import Directories
    from segstore.types import TopicPartition


def find_bucket(  # noqa: PLR0913 - those of open_bucket
    path: str,
    *,
    keys: str | None = None,
    key_prefix: str = "",
    remote_log_metadata: Directories | None = None,
    local: Directories | None = None,
    reading: TieredReading = AS_THE_LOG,
) -> tuple[Bucket, TopicPartition | None] | None:
    """Return the bucket that *path* names, None where it holds no topics as buckets have them.

    Parameters
    ----------
    path : str
        A folder or URL of a bucket; or that, and a partition as ``<topic>-<number>``.
    keys, key_prefix, remote_log_metadata, local
        As for `open_bucket`.
    reading : TieredReading
        What of the bucket is read.

    Returns
    -------
    tuple of Bucket and TopicPartition or None, or None
        The partition is not looked for.

    Raises
    ------
    SegstoreError, ImportError
        As `open_bucket`, or the store cannot be listed.
    """

    def bucket_at(url: str) -> Bucket | None:
        if not is_url(url) and not _holds_topics(url):
            from segstore.remote.tiered.other_layouts import folder_above_topics

            if not os.path.isdir(url) or folder_above_topics(os.path.abspath(url)) is None:  # noqa: PTH100, PTH112 - strings, and no link is followed
                return None  # else the bucket names the folder that is meant
        from segstore.remote.bucket import Bucket, open_tiered_store

        store = open_tiered_store(url, keys, key_prefix, remote_log_metadata, {}, local, reading)
        bucket = Bucket(store, RemoteSettings())
        return bucket if not is_url(url) or bucket.topics() else None

    whole = bucket_at(path)
    if whole is not None:
        return whole, None
    above, _, name = (normal_url(path) if is_url(path) else os.path.normpath(path)).rpartition("/")
    if above.endswith(":/") or not is_partition_directory_name(name):
        return None
    bucket = bucket_at(above or ("/" if path.startswith("/") else "."))
    return None if bucket is None else (bucket, parse_directory_name(name))


def _holds_topics(path: str) -> bool:
    """Whether a local directory has folders of topics as buckets have them."""
    try:
        with os.scandir(path) as entries:
            names = [entry.name for entry in entries if "-" in entry.name and entry.is_dir()]
    except OSError:
        return False  # told by who opens it
    if not names:
        return False
    if STORAGE_FOLDER in names:
        return not any(map(is_partition_directory_name, names))
    from segstore.remote.tiered.object_key import parse_topic_folder

    return any(parse_topic_folder(name) is not None for name in names)
