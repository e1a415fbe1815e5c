"""Ranges of objects at addresses that are signed: an HTTP client of Python, into memory of ours.

The library that knows the stores has the credentials. It signs the address of an object, lists, and
fetches whatever this client does not: an answer that is not just what was asked for is given up,
and the library is asked again. So it alone repeats a request, waits, and has the error of a store.

A range costs half the CPU time so. The library receives an answer in pieces, in memory that is new
to the process, and copies them together. Here the system writes it into the memory where it stays.

THREADS  any number may read; each request has a connection of its own meanwhile.
"""

from __future__ import annotations

import os
import re
import time
import weakref
from contextlib import suppress
from functools import cache, partial
from http.client import HTTPConnection, HTTPException, HTTPSConnection, IncompleteRead
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit

from segstore._core import RangeBytes
from segstore.errors import SegstoreError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Mapping
    from http.client import HTTPResponse

    from segstore.remote.remote_file import RemoteFile

SIGNED_SECONDS: Final = 900
"""So long an address is good."""
USED_SECONDS: Final = 300
"""So long it is used: then the credentials may be other ones."""
MOST_ADDRESSES: Final = 256
MOST_IDLE: Final = 8
"""Connections that are kept open for the next requests."""
TIMEOUT_SECONDS: Final = 30.0
"""Of a request, as the library has it where the user names none."""
FAILURES: Final = 3
"""One after another, and the library is asked at once from then on."""
_PARTIAL_CONTENT: Final = 206
_SECONDS: Final = re.compile(r"(\d{1,6}(?:\.\d{1,6})?) ?(?:s|sec|secs|second|seconds)")


class _Address(NamedTuple):
    is_secure: bool
    host: str
    target: str
    """Path and query: it has a signature, so no message shows it."""
    until: float


class RangeClient:
    """The client of one store.

    Parameters
    ----------
    sign : callable
        Gives the URL at which an object can be had for `SIGNED_SECONDS`, by its path.
    timeout_seconds : float
        Of a request.
    """

    def __init__(self, sign: Callable[[str], str], timeout_seconds: float) -> None:
        self._sign, self._timeout = sign, timeout_seconds
        self._addresses: dict[str, _Address] = {}
        self._idle: list[HTTPConnection] = []
        self._failures = 0
        weakref.finalize(self, _close_all, self._idle)

    def read_range(self, file: RemoteFile, start: int, end: int) -> memoryview | None:
        """Return bytes ``[start, end)`` of *file*, as it was listed.

        Returns
        -------
        memoryview or None
            Read-only, shape ``(end - start,)``, format ``B``. None: whatever the reason is, the
            library finds it out.
        """
        if self._failures >= FAILURES:
            return None
        found = None
        with suppress(OSError, HTTPException, ValueError, SegstoreError):  # the library has them
            found = self._ask(self._address(file.path), file, start, end)
        self._failures = self._failures + 1 if found is None else 0
        return found

    def _address(self, path: str) -> _Address:
        now = time.monotonic()
        found = self._addresses.get(path)
        if found is None or found.until < now:
            url = urlsplit(self._sign(path))
            target = f"{url.path}?{url.query}" if url.query else url.path
            found = _Address(url.scheme == "https", url.netloc, target, now + USED_SECONDS)
            if len(self._addresses) >= MOST_ADDRESSES:
                self._addresses.clear()
            self._addresses[path] = found
        return found

    def _ask(self, address: _Address, file: RemoteFile, start: int, end: int) -> memoryview | None:
        headers = {"Range": f"bytes={start}-{end - 1}", "If-Match": str(file.identity)}
        connection, response = self._answered(address, headers)
        is_whole = False
        try:
            if _is_asked_for(response, file, start, end):
                fill = partial(_receive, response, time.monotonic() + self._timeout)
                found = RangeBytes.filled(end - start, start, fill)
                response.close()  # that it was read to its end, it does not know
                is_whole = True
        finally:
            if is_whole and len(self._idle) < MOST_IDLE:
                self._idle.append(connection)
            else:  # also after a Ctrl-C
                connection.close()
        return memoryview(found) if is_whole else None

    def _answered(
        self, address: _Address, headers: dict[str, str]
    ) -> tuple[HTTPConnection, HTTPResponse]:
        """Return the answer, and the connection on which it comes."""
        while True:
            try:
                connection, is_kept = self._idle.pop(), True
            except IndexError:
                connection, is_kept = self._connection(address), False
            try:
                connection.request("GET", address.target, headers=headers)
                return connection, connection.getresponse()
            except BaseException as error:
                connection.close()
                if not (is_kept and isinstance(error, ConnectionError)):
                    raise  # else the server has closed a connection that was idle

    def _connection(self, address: _Address) -> HTTPConnection:
        if address.is_secure:
            return HTTPSConnection(address.host, timeout=self._timeout, context=_trusted())
        return HTTPConnection(address.host, timeout=self._timeout)


def timeout_of(client_settings: Mapping[str, str]) -> float | None:
    """Return the time-out that the user has set for requests, in seconds; None: in other words."""
    named = client_settings.get("timeout")
    if named is None:
        return TIMEOUT_SECONDS
    found = _SECONDS.fullmatch(named.strip())
    return float(found[1]) or None if found else None


def is_plain(settings: Mapping[str, str], client_settings: Mapping[str, str]) -> bool:
    """Whether a signed address is all that a request needs.

    No proxy stands in between, the library's client has no settings that another one does not
    know, and there are credentials to sign with.

    Parameters
    ----------
    settings, client_settings : mapping of str to str
        Of the store, and of its HTTP client.
    """
    names = {name.lower() for name in (*settings, *os.environ)}
    return client_settings.keys() <= {"allow_http", "timeout"} and not any(
        ("proxy" in name and name != "no_proxy") or "skip_signature" in name for name in names
    )


def _is_asked_for(response: HTTPResponse, file: RemoteFile, start: int, end: int) -> bool:
    return (
        response.status == _PARTIAL_CONTENT
        and response.length == end - start
        and response.getheader("Content-Range") == f"bytes {start}-{end - 1}/{file.size_bytes}"
        and response.getheader("ETag") == file.identity
        and response.getheader("Content-Encoding", "identity") == "identity"
    )


def _receive(response: HTTPResponse, until: float, target: memoryview) -> None:
    """Fill *target* with the body, or raise: a trickle ends, too."""
    at = 0
    while at < len(target):
        if time.monotonic() > until:
            raise TimeoutError
        got = response.fp.readinto1(target[at:])
        if not got:
            raise IncompleteRead(b"", len(target) - at)
        at += got


@cache
def _trusted() -> ssl.SSLContext:
    """Return who is trusted; it takes 20 ms to read that."""
    from ssl import create_default_context

    return create_default_context()


def _close_all(connections: list[HTTPConnection]) -> None:
    for connection in connections:
        connection.close()
