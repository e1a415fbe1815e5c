"""One partition's log at a URL, for a program without Spark."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from segstore.errors import IllegalArgumentError
from segstore.log.files.partition_directory import parse_directory_name
from segstore.remote.remote_logs import RemoteLogs, RemoteSettings
from segstore.remote.urls import is_url, normal_url, shown_url

if TYPE_CHECKING:
    from collections.abc import Iterator

    from segstore.log.unified_log import Log


@contextmanager
def open_url(
    url: str,
    *,
    spool_directory: str | None = None,
    spool_max_bytes: int | None = None,
    **settings: str,
) -> Iterator[Log]:
    """Open the log at *url* as it is now, for reading only; all of its files are fetched.

    Parameters
    ----------
    url : str
        ``s3://bucket/logs/orders-0``: a partition's directory.
    spool_directory : str or None
        Where its files go, shared by the processes of this machine; None: a folder of the user in
        that for temporary files.
    spool_max_bytes : int or None
        Of all files there; None: 10 GiB.
    **settings : str
        Of the store: ``endpoint="…"``, ``access_key_id="…"``; else those of the environment.

    Yields
    ------
    Log
        Closed, and its files free to be evicted, at the end of the block.

    Raises
    ------
    ImportError
        ``segstore[remote]`` is not installed, or what the scheme needs.
    IllegalArgumentError, NotALogError, LogNotFoundError, LogPermissionError, ReadIOError
        This is no URL of a partition, or it cannot be read.
    LimitExceededError
        The log is larger than the spool.
    """
    if not is_url(url):
        raise IllegalArgumentError(
            "this is no URL: segstore.open opens paths",
            found=shown_url(url),
            expected="s3://bucket/logs/orders-0, or another scheme",
        )
    directory, _, name = normal_url(url).rpartition("/")
    topic_partition = parse_directory_name(name)
    logs = RemoteLogs(directory, RemoteSettings(settings, spool_directory, spool_max_bytes))
    with logs.open_whole(topic_partition) as log:
        yield log
