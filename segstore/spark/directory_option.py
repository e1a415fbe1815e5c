"""The option ``path``, and how a log directory at a URL is reached."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from segstore.remote.remote_logs import RemoteSettings
from segstore.remote.urls import is_url, shown_url
from segstore.spark.conditions import ConnectorOptionError
from segstore.spark.option_values import byte_size

if TYPE_CHECKING:
    from collections.abc import Mapping

REMOTE_PREFIX: Final = "remote."
"""Of the options that go to the library that reads a URL."""


def log_directory_path(options: Mapping[str, str]) -> str:
    """Return the option ``path``, a URL ``file:`` as a path; *options* by lower-case name."""
    path = options.get("path", "")
    if path.startswith("file:"):
        path = unquote(urlsplit(path).path)
    if not path:
        raise ConnectorOptionError(
            "Option 'path' must be specified: the log directory that holds the directories "
            "<topic>-<partition>",
            found="no path",
            expected="a directory",
        )
    return path


def local_directory_path(options: Mapping[str, str], what: str) -> str:
    """Return `log_directory_path` as an absolute path; *what* is done there needs a local disk."""
    path = log_directory_path(options)
    if is_url(path):
        raise ConnectorOptionError(
            f"{what} a log directory on a local disk: a URL is for reading records, batches and "
            "metadata",
            found=shown_url(path),
            expected="a path",
        )
    return os.path.abspath(path)  # noqa: PTH100 - links stay as they are


def remote_settings(options: Mapping[str, str]) -> RemoteSettings:
    """Return the options of a log directory at a URL."""
    store = {
        name.removeprefix(REMOTE_PREFIX): value
        for name, value in options.items()
        if name.startswith(REMOTE_PREFIX)
    }
    spool = options.get("spooldirectory")
    return RemoteSettings(store, spool or None, byte_size(options, "spoolMaxBytes"))
