"""Directories in S3, Google Cloud Storage and Azure, by ``obstore``.

Ranges of S3 come by `RangeClient` where they can.
"""

from __future__ import annotations

import os
import re
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from segstore.errors import (
    ForkedHandleError,
    IllegalArgumentError,
    LogNotFoundError,
    LogPermissionError,
    ReadIOError,
    SegstoreError,
)
from segstore.remote.range_client import SIGNED_SECONDS, RangeClient, is_plain, timeout_of
from segstore.remote.remote_file import (
    Folder,
    RemoteFile,
    changed_error,
    folder_of,
    vanished_error,
)
from segstore.remote.urls import place_key, secrets_in, shown_url, without_secrets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

PART_BYTES: Final = 16 * 1024 * 1024
"""Of one request: each has the library's time-out, 30 s unless it is set."""

PAGE_OBJECTS: Final = 1000
"""Of a listing that is gone through: as many as a page of S3 has."""
_CLIENT: Final = frozenset(
    {
        "allow_http",
        "allow_invalid_certificates",
        "connect_timeout",
        "http1_only",
        "http2_only",
        "pool_idle_timeout",
        "pool_max_idle_per_host",
        "proxy_ca_certificate",
        "proxy_excludes",
        "proxy_url",
        "root_certificate",
        "timeout",
        "user_agent",
    }
)
"""Settings of the HTTP client; all others but those of retries are the store's."""
_MAX_RETRIES, _RETRY_TIMEOUT = "max_retries", "retry_timeout"
_REFUSED = re.compile(r"status code: 40[13]\b")
_NOT_THERE = re.compile(r"status code: 404\b")
"""A listing's errors are all of one class."""
_FIRST_LINE: Final = "\n\nDebug source"
_TRUE: Final = {"1", "true", "on", "yes", "y"}
_NO_REQUEST: Final = "builder error"
"""All that the library says of a request that its settings forbid."""


class ObjectStore:
    """A directory in an object store; what fails for a moment is tried again by the library.

    Parameters
    ----------
    url : str
        ``s3://bucket/logs``; ``gs``, ``az``, ``abfss`` and so on.
    settings : mapping of str to str
        ``obstore``'s names: ``access_key_id``, ``endpoint``; of its client, such as ``timeout``;
        ``max_retries`` and ``retry_timeout`` (seconds). What is not here comes from the
        environment.

    Raises
    ------
    IllegalArgumentError
        A setting that the store does not know.
    """

    requests_at_once = 8
    has_checkpoints = True

    def __init__(self, url: str, settings: Mapping[str, str]) -> None:
        from obstore import store

        self.url, self.key = shown_url(url), place_key(url, settings)
        refuse_in_fork(self.url)
        self._secrets = secrets_in(settings)
        client = {name: value for name, value in settings.items() if name in _CLIENT}
        retries = {_MAX_RETRIES, _RETRY_TIMEOUT}
        config = {
            name: value
            for name, value in settings.items()
            if name not in client and name not in retries
        }
        self._store: Any
        try:
            open_url: Any = store.from_url
            self._store = open_url(
                url,
                config=config,
                client_options=client or None,
                retry_config=_retry_config(settings),
            )
        except SegstoreError:
            raise
        except Exception as error:  # noqa: BLE001 - the library's own, and they show settings
            raise IllegalArgumentError(
                f"the store cannot be opened: {self._error_text(error)}",
                file=self.url,
                found=", ".join(sorted(settings)) or "no settings",
                expected="a URL and settings that obstore takes",
            ) from None
        self._ranges: RangeClient | None = None
        timeout = timeout_of(client)
        # Google's and Azure's libraries may ask the network for a signature
        if isinstance(self._store, store.S3Store) and is_plain(settings, client) and timeout:
            takes_http = str(client.get("allow_http")).lower() in _TRUE
            self._ranges = RangeClient(
                partial(_signed, self._store), timeout, takes_http=takes_http
            )

    def list_folder(self, folder: str) -> Folder:
        """Return what is in *folder*; one that is not there is empty."""
        refuse_in_fork(self.url)
        try:
            found = self._store.list_with_delimiter(folder or None)
        except Exception as error:  # noqa: BLE001 - see _error
            raise self._error(error, folder) from None
        files = [_listed(one) for one in found["objects"]]
        folders = [str(name).rstrip("/").rpartition("/")[2] for name in found["common_prefixes"]]
        return folder_of(self.url, files, folders)

    def iter_files(self, folder: str) -> Iterator[RemoteFile]:
        """Yield the files in *folder*, a page of the listing at a time."""
        refuse_in_fork(self.url)
        depth = folder.count("/") + 1 if folder else 0
        try:
            pages = iter(self._store.list(folder or None, chunk_size=PAGE_OBJECTS))
        except Exception as error:  # noqa: BLE001 - see _error
            raise self._error(error, folder) from None
        while True:
            try:
                page = next(pages, None)
            except Exception as error:  # noqa: BLE001 - see _error
                raise self._error(error, folder) from None
            if page is None:
                return
            yield from (_listed(one) for one in page if str(one["path"]).count("/") == depth)

    def read(self, file: RemoteFile, write: Callable[[bytes | memoryview], object]) -> None:
        """Hand all bytes of *file*, as it was listed, to *write*, a request for each 16 MiB."""
        for start in range(0, file.size_bytes, PART_BYTES):
            end = min(start + PART_BYTES, file.size_bytes)
            write(self._read_part(file, start, end))

    def read_range(self, file: RemoteFile, start: int, end: int) -> bytes | memoryview:
        """Return bytes ``[start, end)`` of *file*, by one request for each 16 MiB."""
        if 0 < end - start <= PART_BYTES:
            return self._read_part(file, start, end)
        return b"".join(
            self._read_part(file, at, min(at + PART_BYTES, end))
            for at in range(start, end, PART_BYTES)
        )

    def _read_part(self, file: RemoteFile, start: int, end: int) -> memoryview:
        refuse_in_fork(self.url)
        is_tag = file.identity is not None and file.identity.endswith('"')
        if is_tag and self._ranges is not None:
            found = self._ranges.read_range(file, start, end)
            if found is not None:
                return found
        options = {"range": (start, end), **({"if_match": file.identity} if is_tag else {})}
        try:
            answer = self._store.get(file.path, options=options)
            meta, data = answer.meta, memoryview(answer.bytes())
        except FileNotFoundError:
            raise vanished_error(self.url, file) from None
        except Exception as error:  # noqa: BLE001 - see _error
            if type(error).__name__ == "PreconditionError" or "416 Range" in str(error):
                raise changed_error(self.url, file, "another file") from None
            raise self._error(error, file.path) from None
        identity = meta["e_tag"] or str(meta["last_modified"])
        if meta["size"] != file.size_bytes or identity != file.identity:
            raise changed_error(self.url, file, f"{meta['size']} bytes, identity {identity}")
        if len(data) != end - start:
            raise ReadIOError(
                "the store's answer ended early",
                file=f"{self.url}/{file.path}",
                position=start + len(data),
                found=f"{len(data)} bytes",
                expected=f"{end - start} bytes from {start} on",
            )
        return data

    def _error(self, error: Exception, path: str) -> SegstoreError:
        """Return one of ours that says the same, without secrets."""
        where = f"{self.url}/{path}".rstrip("/")
        name, told = type(error).__name__, self._error_text(error)
        if name in {"PermissionDeniedError", "UnauthenticatedError"} or _REFUSED.search(told):
            return LogPermissionError(f"the store refuses it: {told}", file=where)
        if isinstance(error, FileNotFoundError) or _NOT_THERE.search(told):
            return LogNotFoundError(f"the store has no such place: {told}", file=where)
        return ReadIOError(f"the store cannot be read: {told}", file=where)

    def _error_text(self, error: Exception) -> str:
        text = str(error).partition(_FIRST_LINE)[0]
        if text.rstrip().endswith(_NO_REQUEST):
            text += "; http:// instead of https:// takes the setting allow_http=true"
        return without_secrets(" ".join(text.split()), self._secrets)


def _signed(store: Any, path: str) -> str:
    """Return the address of an object, or raise OSError: the library then says what is wrong."""
    from obstore import sign

    try:
        url: str = sign(store, "GET", path, timedelta(seconds=SIGNED_SECONDS))
    except Exception as error:  # noqa: BLE001 - the library's own are of many classes
        raise OSError(type(error).__name__) from None
    return url


def _listed(found: Mapping[str, Any]) -> RemoteFile:
    return RemoteFile(
        str(found["path"]),
        int(found["size"]),
        found["e_tag"] or str(found["last_modified"]),
        int(found["last_modified"].timestamp() * 1_000_000_000),
    )


_users: Final[set[int]] = set()
"""Ids of processes, this one or its parents, in which the library has started its threads."""


def refuse_in_fork(url: str) -> None:
    """Note that this process uses the library; a fork of one that did would wait for ever."""
    own = os.getpid()
    if own not in _users and _users:
        raise ForkedHandleError(
            "obstore was used before this process was forked, and its threads are not here: start"
            " processes by spawn or forkserver",
            file=url,
        )
    _users.add(own)


def _retry_config(settings: Mapping[str, str]) -> Any:
    config: dict[str, Any] = {}
    for name, make in ((_MAX_RETRIES, int), (_RETRY_TIMEOUT, _seconds)):
        if name not in settings:
            continue
        try:
            config[name] = make(settings[name])
        except ValueError:
            raise IllegalArgumentError(
                f"{name} of remote storage is not a number",
                found=f"{len(settings[name])} characters, which are not shown",
                expected="retries" if name == _MAX_RETRIES else "seconds",
            ) from None
    return config or None


def _seconds(text: str) -> timedelta:
    return timedelta(seconds=float(text.removesuffix("s")))
