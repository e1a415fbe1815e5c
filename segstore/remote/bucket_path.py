"""From a path or URL to the tiered bucket that it names, or to one of its partitions.

A bucket is known by what is in it: folders ``<topic>-<topic id>``. No log directory has such names.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from segstore.log.files.partition_directory import (
    is_partition_directory_name,
    parse_directory_name,
)
from segstore.remote.urls import is_url, normal_url

if TYPE_CHECKING:
    from segstore.remote.bucket import Bucket
    from segstore.types import TopicPartition


def find_bucket(path: str, **options: Any) -> tuple[Bucket, TopicPartition | None] | None:
    """Return the bucket that *path* names, None where it holds no topics as buckets have them.

    Parameters
    ----------
    path : str
        A folder or URL of a bucket; or that, and a partition as ``<topic>-<number>``.
    **options
        As for `open_bucket`.

    Returns
    -------
    tuple of Bucket and TopicPartition or None, or None
        The partition is not looked for.

    Raises
    ------
    SegstoreError, ImportError
        As `open_bucket`, or the store cannot be listed.
    """
    whole = _bucket(path, options)
    if whole is not None:
        return whole, None
    above, _, name = (normal_url(path) if is_url(path) else os.path.normpath(path)).rpartition("/")
    if above.endswith(":/") or not is_partition_directory_name(name):
        return None
    bucket = _bucket(above or ("/" if path.startswith("/") else "."), options)
    return None if bucket is None else (bucket, parse_directory_name(name))


def _bucket(path: str, options: dict[str, Any]) -> Bucket | None:
    if not is_url(path) and not _holds_topics(path):
        return None
    from segstore.remote.bucket import open_bucket

    bucket = open_bucket(path, **options)
    return bucket if not is_url(path) or bucket.topics() else None


def _holds_topics(path: str) -> bool:
    """Whether a local directory has folders of topics as buckets have them."""
    try:
        with os.scandir(path) as entries:
            names = [entry.name for entry in entries if "-" in entry.name and entry.is_dir()]
    except OSError:
        return False  # told by who opens it
    if not names:
        return False
    from segstore.remote.tiered.object_key import parse_topic_folder

    return any(parse_topic_folder(name) is not None for name in names)
