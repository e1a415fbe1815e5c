"""The option ``path``: how a log directory at a URL, or a tiered bucket, is reached and read."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from segstore.errors import IllegalArgumentError
from segstore.remote.remote_logs import RemoteSettings
from segstore.remote.tiered.key_ring import absolute_place, places_of_keys
from segstore.remote.tiered.tiered_store import TieredReading
from segstore.remote.urls import is_url, shown_url
from segstore.spark.conditions import ConnectorOptionError, option_error
from segstore.spark.option_values import boolean, byte_size

if TYPE_CHECKING:
    from collections.abc import Mapping

REMOTE_PREFIX: Final = "remote."
"""Of the options that go to the library that reads a URL."""


LAYOUTS: Final = ("directory", "tiered")


@dataclass(frozen=True, slots=True)
class TieredLayout:
    """How a tiered bucket is read; travels in plans, and holds no key.

    Attributes
    ----------
    key_prefix : str
        See `open_bucket`.
    folder_of_keys : str or None
        Absolute.
    key_files : tuple of (str, str)
        Key ids, each with an absolute path or ``env:NAME``. None of both: each process asks its
        environment.
    allow_gaps, below_log_start : bool
        See `open_bucket`.
    """

    key_prefix: str = ""
    folder_of_keys: str | None = None
    key_files: tuple[tuple[str, str], ...] = ()
    allow_gaps: bool = False
    below_log_start: bool = False

    @property
    def keys(self) -> str | dict[str, str] | None:
        """The argument of `KeyRing`."""
        return self.folder_of_keys or dict(self.key_files) or None

    @property
    def reading(self) -> TieredReading:
        """What of the bucket is read."""
        return TieredReading(
            self.allow_gaps, self.below_log_start, gap_option="the option allowGaps"
        )


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
    if tiered_layout(options) is not None:
        raise ConnectorOptionError(
            f"{what} a log directory: a tiered bucket is only read",
            found=path,
            expected="a log directory, without the option layout",
        )
    return os.path.abspath(path)  # noqa: PTH100 - links stay as they are


def tiered_layout(options: Mapping[str, str]) -> TieredLayout | None:
    """Return the options of a tiered bucket, None where ``layout`` is that of a log directory.

    Raises
    ------
    ConnectorOptionError
        An unknown layout, keys of what is no bucket, or keys themselves in place of their files.
    """
    layout = options.get("layout", LAYOUTS[0])
    if layout.lower() not in LAYOUTS:
        raise option_error("layout", layout, " or ".join(LAYOUTS), f"Unknown value {layout}")
    if layout.lower() == LAYOUTS[0]:
        for name in ("keys", "keyPrefix", "allowGaps", "belowLogStart"):
            if name.lower() in options:
                raise ConnectorOptionError(
                    f"option {name} is for a tiered bucket: set the option layout too",
                    found=name,
                    expected="layout=tiered",
                )
        return None
    given = options.get("keys")
    try:
        keys = None if not given else places_of_keys(given, "option keys")
    except IllegalArgumentError as error:
        raise ConnectorOptionError(
            "option keys names files of private keys, or environment variables: no key itself",
            found=error.found,
            expected=f"{error.expected}, id=env:NAME",
        ) from None
    folder: str | None = None
    files: tuple[tuple[str, str], ...] = ()
    if isinstance(keys, dict):
        files = tuple((key_id, absolute_place(place)) for key_id, place in keys.items())
    elif keys is not None:
        folder = absolute_place(keys)
    return TieredLayout(
        options.get("keyprefix", ""),
        folder,
        files,
        boolean(options, "allowGaps", default=False),
        boolean(options, "belowLogStart", default=False),
    )


def remote_settings(options: Mapping[str, str]) -> RemoteSettings:
    """Return the options of a log directory at a URL."""
    store = {
        name.removeprefix(REMOTE_PREFIX): value
        for name, value in options.items()
        if name.startswith(REMOTE_PREFIX)
    }
    spool = options.get("spooldirectory")
    return RemoteSettings(store, spool or None, byte_size(options, "spoolMaxBytes"))
